//! The status bar.
use domain::wire::said::Sentence;
use serde::Serialize;
use ts_rs::TS;

#[derive(Debug, Clone, Serialize, TS)]
#[serde(tag = "at", rename_all = "snake_case")]
pub enum RelayView {
    /// No Graph Queue is paired.
    NotConnected,
    Ready {
        last_contact: Option<i64>,
        pickup_instant: bool,
    },
    Busy {
        graph: String,
        execution_id: String,
        since: i64,
    },
    Paused {
        since: i64,
    },
    /// No answer since then; runs go on, endings wait in the outbox.
    Offline {
        since: i64,
        why: Sentence,
    },
    /// The server refuses this device; the owner must act.
    ServerSays {
        message: Sentence,
        repair: bool,
    },
    /// A defect of ours: the relay failed so many times in a row and begins again each time.
    Failing {
        since: i64,
        times: u64,
    },
}

#[derive(Debug, Clone, Serialize, TS)]
pub struct StatusView {
    pub relay: RelayView,
    pub running: Vec<RunningView>,
    pub tokens_today: u64,
    pub approvals_waiting: u64,
    /// Completions the server has not confirmed yet.
    pub outbox: u64,
    /// Completions the server refuses.
    pub needs_attention: u64,
    /// Address of the paired queue.
    pub queue: Option<String>,
    /// Whether it is the one inside this app, whose address says nothing to its owner.
    pub queue_builtin: bool,
    pub graphs: u64,
    pub version: String,
}

#[derive(Debug, Clone, Serialize, TS)]
pub struct RunningView {
    pub execution_id: String,
    pub graph: String,
    pub agents_running: u64,
    pub agents_waiting: u64,
    pub asking: u64,
    pub since: i64,
}
