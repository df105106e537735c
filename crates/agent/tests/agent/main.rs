//! The crate from outside: rulings, approvals, the gate, the file tools. Rows and matrices; every name is a claim.
#![allow(clippy::unwrap_used, clippy::expect_used)]
mod approvals;
mod escapes;
mod files;
mod gate;
mod matrix;
mod rules;
mod support;
