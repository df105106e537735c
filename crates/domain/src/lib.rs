//! The nouns of Graph Desk and Graph Queue, their limits and their laws.
//!
//! Everything here is pure: no async, no I/O, no clock, no randomness. Whoever knows the time or draws an id hands it in.
//! Only `wire` types (and the ids they carry) derive `Serialize`; the other types convert at the edge.
pub mod command;
pub mod completion;
pub mod ids;
pub mod json;
pub mod ledger;
pub mod limits;
pub mod text;
pub mod time;
pub mod wire;

pub use command::{CancelReason, CommandState, Ending, Event, FailReason, Refused};
pub use completion::{Completion, Outcome};
pub use ids::{AgentId, CommandId, DeviceId, ExecutionId, GraphSessionId, IdempotencyKey, OwnerId, ProjectId, Slug};
pub use json::RawJson;
pub use time::Timestamp;
