//! Scripts and what becomes of them, against the real script process and its in-process twin.
#![allow(clippy::unwrap_used, clippy::expect_used)]
mod documents;
mod dry;
mod fleets;
mod hostile;
mod hostile_rows;
mod outcomes;
mod process;
mod support;
mod templates;
