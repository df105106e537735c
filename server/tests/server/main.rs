//! Graph Queue through its real router. The contract suite runs on SQLite and on PostgreSQL; every case starts in an empty world.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod cluster;
mod contract;
mod documents;
mod hostile;
mod instances;
mod limits;
mod matrix;
mod matrix_of_access;
mod oauth;
mod owner_api;
mod program;
mod properties;
mod published;
mod slow;
mod stored;
mod tls;
mod waits;
mod world;
