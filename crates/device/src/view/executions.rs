//! Runs: the history and one execution in full.
use domain::wire::said::Sentence;
use serde::{Deserialize, Serialize};
use ts_rs::TS;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "snake_case")]
pub enum ExecutionState {
    /// Stored, and the queue is asked whether it may start.
    Claiming,
    Running,
    Completed,
    Failed,
    Cancelled,
}

#[derive(Debug, Clone, Default, Deserialize, TS)]
#[serde(default)]
pub struct ExecutionFilter {
    pub graph_id: Option<String>,
    pub project_id: Option<String>,
    pub agent: Option<String>,
    pub state: Option<ExecutionState>,
    /// Only what the owner started (`owner`), or what came as a command (`command`).
    pub origin: Option<String>,
    pub text: Option<String>,
    /// Only what began then or later.
    pub since: Option<i64>,
    /// Only what began before.
    pub until: Option<i64>,
    /// `next` of the page before.
    pub after: Option<String>,
    /// 1 to 200, default 50.
    pub limit: Option<u64>,
}

#[derive(Debug, Clone, Serialize, TS)]
pub struct ExecutionPage {
    pub rows: Vec<ExecutionRow>,
    pub next: Option<String>,
    pub total: u64,
}

#[derive(Debug, Clone, Serialize, TS)]
pub struct ExecutionRow {
    pub execution_id: String,
    pub graph_id: String,
    pub graph: String,
    /// The Graph's slug; of a command's execution the one it was queued with.
    pub slug: String,
    pub version: u64,
    pub state: ExecutionState,
    pub reason: Option<String>,
    pub dry: bool,
    pub started_at: i64,
    pub ended_at: Option<i64>,
    pub tokens: u64,
    pub cost: Option<f64>,
    pub agents_done: u64,
    pub agents_failed: u64,
    pub asking: u64,
    /// Present for a command's execution.
    pub command: Option<CommandOrigin>,
}

#[derive(Debug, Clone, Serialize, TS)]
pub struct CommandOrigin {
    pub command_id: String,
    pub project_id: String,
    /// Its name; absent once the project is gone.
    pub project: Option<String>,
    /// Name of the connected agent, where the server told it.
    pub agent: Option<String>,
    pub pickup_wait_ms: Option<u64>,
    pub delivery: Delivery,
}

#[derive(Debug, Clone, Serialize, TS)]
#[serde(tag = "at", rename_all = "snake_case")]
pub enum Delivery {
    /// The execution has not ended.
    NotYet,
    InOutbox {
        tries: u64,
        last_error: Option<Sentence>,
    },
    Delivered {
        when: i64,
    },
    /// The server had ended the command before; its state stands.
    TooLate {
        when: i64,
        status: String,
    },
    NeedsAttention {
        tries: u64,
        server_says: Sentence,
    },
    Discarded {
        when: i64,
    },
}

#[derive(Debug, Clone, Serialize, TS)]
pub struct ExecutionDetail {
    pub row: ExecutionRow,
    /// Compact JSON text.
    pub args: String,
    pub result: Option<String>,
    /// Our own words, or those of the script, a model or a tool.
    pub error: Option<String>,
    /// Line of the Graph's source where it failed, counted from 1.
    pub error_line: Option<u32>,
    /// The source that ran.
    pub source: String,
    pub ceiling: u64,
    pub ledger: Vec<LedgerRow>,
    pub can_resume: bool,
    #[ts(type = "FleetEvent[]")]
    pub events: Vec<domain::wire::event::FleetEvent>,
}

#[derive(Debug, Clone, Serialize, TS)]
pub struct LedgerRow {
    pub label: String,
    pub reserved: u64,
    pub settled: Option<u64>,
    pub estimated: bool,
}
