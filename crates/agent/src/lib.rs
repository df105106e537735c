//! Agents, their models and tools, and the owner's rule over them.
//!
//! Every tool call, by a script or by an agent, goes through one door ([`gate::Gate`]): the input is checked, the rules speak
//! ([`policy`], pure), the ruling is stored, the owner is asked where the rules say so ([`approvals`]), and only then the tool acts
//! ([`tools`]). An agent ([`run_agent`]) is a loop around one model ([`model`]) and that door.
//!
//! What this crate does not do: it keeps nothing between executions, reads no wall clock, draws no randomness and knows no engine;
//! whoever runs an execution hands those in.
//! Invariant: every tool call has a ruling and a line in the history, and nothing but the owner's own rules widens what is allowed.
pub mod approvals;
pub mod gate;
pub mod model;
pub mod policy;
pub mod run;
pub mod sandbox;
pub mod secret;
pub mod shown;
pub mod tools;

pub use run::{AgentAnswer, AgentContext, AgentError, AgentErrorCode, AgentSpec, run_agent};
pub use secret::Secret;
