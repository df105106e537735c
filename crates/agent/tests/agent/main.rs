//! The crate from outside: rulings, approvals, the gate, the tools, the agent loop and providers. Rows and matrices; every name is a claim.
#![allow(clippy::unwrap_used, clippy::expect_used)]
mod approvals;
mod escapes;
mod fetch;
mod files;
mod gate;
mod loops;
mod matrix;
mod mcp;
mod providers;
mod rules;
mod sandbox;
mod scripted;
mod support;
