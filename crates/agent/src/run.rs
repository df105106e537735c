//! The agent: a loop around one model and the door to the tools.
use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use domain::{RawJson, ledger::Ledger};
use tokio_util::sync::CancellationToken;

use crate::{
    gate::{Caller, Gate, Record, Seat},
    model::{ModelUsage, Models},
};

/// One `agent(prompt, options)` of a Graph.
#[derive(Debug, Clone, Default)]
pub struct AgentSpec {
    pub label: String,
    pub prompt: String,
    /// An alias or `provider/model`; `None` is `default`.
    pub model: Option<String>,
    pub system: Option<String>,
    /// The tools this agent may use; empty means none.
    pub tools: Vec<String>,
    /// JSON Schema of the wanted object.
    pub schema: Option<serde_json::Value>,
    pub max_tokens: Option<u64>,
    pub timeout: Option<Duration>,
}

/// What one agent runs in.
#[derive(Clone)]
pub struct AgentContext {
    /// Who this agent is at the gate: its number, label, Graphs. `narrowed_to` holds the Graph's lists; the agent's own is added here.
    pub caller: Caller,
    pub gate: Arc<Gate>,
    pub models: Arc<Models>,
    /// Shared by the whole execution.
    pub ledger: Arc<Mutex<Ledger>>,
    pub record: Arc<dyn Record>,
    pub seat: Arc<dyn Seat>,
    pub stop: CancellationToken,
    /// A number in 0..1 for the jitter of retries.
    pub jitter: Arc<dyn Fn() -> f64 + Send + Sync>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct AgentAnswer {
    /// Text as a JSON string, or the object valid against the schema.
    pub value: RawJson,
    pub usage: ModelUsage,
    /// Dollars; `None` where a price is unknown.
    pub cost: Option<f64>,
}

/// A `Code` per decision a Graph's author makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AgentErrorCode {
    NoModel,
    UnknownModel,
    CeilingReached,
    Schema,
    Timeout,
    Stalled,
    Refused,
    ContextOverflow,
    Provider,
    RateLimited,
    Loop,
    Turns,
    Cut,
    Cancelled,
    Options,
}
impl AgentErrorCode {
    pub const fn word(self) -> &'static str {
        match self {
            Self::NoModel => "no_model",
            Self::UnknownModel => "unknown_model",
            Self::CeilingReached => "ceiling_reached",
            Self::Schema => "schema",
            Self::Timeout => "timeout",
            Self::Stalled => "stalled",
            Self::Refused => "refused",
            Self::ContextOverflow => "context_overflow",
            Self::Provider => "provider",
            Self::RateLimited => "rate_limited",
            Self::Loop => "loop",
            Self::Turns => "turns",
            Self::Cut => "cut",
            Self::Cancelled => "cancelled",
            Self::Options => "options",
        }
    }
    /// Whether starting the same agent again may work.
    pub const fn is_retryable(self) -> bool {
        match self {
            Self::Schema | Self::Timeout | Self::Stalled | Self::Provider | Self::RateLimited | Self::Loop | Self::Turns | Self::Cut => true,
            Self::NoModel | Self::UnknownModel | Self::CeilingReached | Self::Refused | Self::ContextOverflow | Self::Cancelled | Self::Options => {
                false
            }
        }
    }
}

#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct AgentError {
    pub code: AgentErrorCode,
    pub message: String,
    pub label: String,
    pub usage: ModelUsage,
    pub cost: Option<f64>,
}

/// Runs one agent to its answer. Dropping the future stops it: a model call in flight is aborted, its reservation kept.
pub async fn run_agent(spec: AgentSpec, with: AgentContext) -> Result<AgentAnswer, AgentError> {
    let _ = &with;
    Err(AgentError {
        code: AgentErrorCode::NoModel,
        message: "No model is set up. Open Models in Graph Desk and add a provider key, or start a local model (Ollama, LM Studio, llama.cpp)."
            .into(),
        label: spec.label,
        usage: ModelUsage::default(),
        cost: None,
    })
}
