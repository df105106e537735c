//! Runs one Graph: its script in a child process, its agents, tools and questions through the host.
//!
//! The script decides what is called and in which order; this crate decides when (places, waves, ceiling, deadline, stop) and tells
//! the story as events; the host ([`FleetHost`]) does the work. What is *not* here: models, tools, approvals, storage, the clock.
//! Invariant: whatever a script does, [`run_fleet_script`] ends with exactly one outcome and leaves nothing running.
pub mod api;
mod calls;
mod drive;
mod dry;
mod fleet;
mod host;
mod run;
mod script;
mod seat;
mod settings;
pub mod vm;

pub use dry::{DryPort, DryReport, DryTool, dry_run, sample};
pub use fleet::{Fleet, Need, StopWhy};
pub use host::{AgentAnswer, AgentCall, BoxFuture, CallCode, CallError, CalledGraph, FleetHost, OwnerQuestion, ToolCall};
pub use run::{inspect, run_fleet_script};
pub use script::{Meta, MetaLimits, MetaPhase, Script, ScriptFault, TEMPLATES};
pub use seat::Seat;
pub use settings::Settings;
pub use vm::{ChildVm, InProcessVm, ScriptVm};
