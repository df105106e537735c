//! The relay and its store against a scripted queue, on a paused clock: minutes pass in milliseconds, and every test is a claim.
#![allow(clippy::unwrap_used, clippy::expect_used)]
mod agents;
mod consent;
mod delivery;
mod desk;
mod doorbell;
mod faults;
mod lost_answers;
mod mcp;
mod models;
mod network;
mod queue;
mod rhythm;
mod stopping;
mod store;
mod stored;
mod world;
