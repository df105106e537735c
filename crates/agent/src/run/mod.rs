//! The agent: a loop around one model and the door to the tools, until a final text or a valid object.
//!
//! Every attempt of a model call first reserves its worst case in the execution's ledger and settles after; every tool call goes through the
//! gate. Limits that end an agent: turns, time (which stands still while the owner is asked), the same tool call three times in a row.
//! `agent_started` and `agent_finished` are told by whoever numbers the agents; everything in between is told here.
mod attempt;
mod schema;
mod talk;
mod time;

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use domain::{
    RawJson,
    ledger::Ledger,
    limits::{AGENT_TIMEOUT_MS_DEFAULT, AGENT_TURNS_MAX, IDENTICAL_TOOL_CALLS_MAX, MAX_TOKENS_PER_CALL_DEFAULT, SCHEMA_REASKS_MAX},
};
use tokio_util::sync::CancellationToken;

use crate::{
    gate::{Caller, Gate, Record, Seat},
    model::{ModelEntry, ModelToolCall, ModelUsage, Models, NoSuchModel, Stop},
    tools::ToolDefinition,
};
use schema::Wanted;
use talk::{Talk, Turn};

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
    /// JSON Schema of the wanted value.
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
    /// Called after each reservation and settlement: whoever owns the ledger tells of it and refuses what waits once it is reached.
    pub ledger_changed: Arc<dyn Fn() + Send + Sync>,
    pub record: Arc<dyn Record>,
    pub seat: Arc<dyn Seat>,
    pub stop: CancellationToken,
    /// A number in 0..1 for the jitter of retries.
    pub jitter: Arc<dyn Fn() -> f64 + Send + Sync>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct AgentAnswer {
    /// Text as a JSON string, or the value valid against the schema.
    pub value: RawJson,
    pub usage: ModelUsage,
    /// Tokens the ledger holds against this agent: its usage, and whole reservations where a usage is unknown.
    pub tokens: u64,
    /// Dollars; `None` where a price or a usage is unknown.
    pub cost: Option<f64>,
}

/// A code per decision a Graph's author makes.
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
impl fmt::Display for AgentErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct AgentError {
    pub code: AgentErrorCode,
    pub message: String,
    pub label: String,
    pub retryable: bool,
    pub usage: ModelUsage,
    /// As in [`AgentAnswer::tokens`].
    pub tokens: u64,
    pub cost: Option<f64>,
}

/// A code and its sentence, before it is known what the agent spent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) code: AgentErrorCode,
    pub(crate) message: String,
}
impl Failure {
    pub(crate) fn new(code: AgentErrorCode, message: impl fmt::Display) -> Self {
        Self { code, message: message.to_string() }
    }
}

/// What an agent has used so far. Kept outside its future, so that a time-out knows it too.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Spent {
    pub(crate) usage: ModelUsage,
    pub(crate) tokens: u64,
    pub(crate) cost: Option<f64>,
    pub(crate) cost_unknown: bool,
}
impl Spent {
    fn cost(&self) -> Option<f64> {
        if self.cost_unknown { None } else { self.cost.or(Some(0.0)) }
    }
}

/// Runs one agent to its answer. Dropping the future stops it: a model call in flight is aborted and its reservation kept.
pub async fn run_agent(spec: AgentSpec, with: AgentContext) -> Result<AgentAnswer, AgentError> {
    let spent = Arc::new(Mutex::new(Spent::default()));
    let label = spec.label.clone();
    let timeout = spec.timeout.unwrap_or(Duration::from_millis(AGENT_TIMEOUT_MS_DEFAULT));
    let clock = time::AgentClock::new(timeout);
    let stop = with.stop.clone();
    let ended = tokio::select! {
        biased;
        () = stop.cancelled() => Err(Failure::new(AgentErrorCode::Cancelled, "the run was stopped")),
        ended = Running::run(spec, with, clock.clone(), spent.clone()) => ended,
        () = clock.expired() => Err(Failure::new(AgentErrorCode::Timeout, format!("the agent was not done after {} s", timeout.as_secs_f64()))),
    };
    let spent = *spent.lock().unwrap_or_else(PoisonError::into_inner);
    let (usage, tokens, cost) = (spent.usage, spent.tokens, spent.cost());
    match ended {
        Ok(value) => Ok(AgentAnswer { value, usage, tokens, cost }),
        Err(Failure { code, message }) => Err(AgentError { code, message, label, retryable: code.is_retryable(), usage, tokens, cost }),
    }
}

/// One agent at work.
pub(crate) struct Running {
    pub(crate) label: String,
    pub(crate) model: ModelEntry,
    pub(crate) max_tokens: u64,
    pub(crate) with: AgentContext,
    pub(crate) spent: Arc<Mutex<Spent>>,
}

impl Running {
    async fn run(spec: AgentSpec, with: AgentContext, clock: Arc<time::AgentClock>, spent: Arc<Mutex<Spent>>) -> Result<RawJson, Failure> {
        let model = with.models.resolve(spec.model.as_deref()).map_err(no_model)?;
        let wanted = spec.schema.map(Wanted::new).transpose()?;
        let tools = offered(&spec.tools, &with)?;
        let max_tokens = spec.max_tokens.unwrap_or(MAX_TOKENS_PER_CALL_DEFAULT);
        if max_tokens == 0 || max_tokens > u64::from(u32::MAX) {
            return Err(Failure::new(AgentErrorCode::Options, "max_tokens must be a positive number"));
        }
        let mut with = with;
        with.caller.narrowed_to.push(spec.tools);
        with.seat = Arc::new(time::StandsStill::new(with.seat.clone(), clock));
        let talk = Talk::new(spec.system, spec.prompt, tools, wanted, model.tool_calls);
        Self { label: spec.label, model, max_tokens, with, spent }.turns(talk).await
    }

    async fn turns(&self, mut talk: Talk) -> Result<RawJson, Failure> {
        let mut reasks = 0;
        for turn in 1..=AGENT_TURNS_MAX as u64 {
            let reply = self.call_model(turn, &mut talk).await?;
            match talk.understand(reply)? {
                Turn::Final(value) => return Ok(value),
                Turn::Again => {}
                Turn::Invalid(why) => {
                    if reasks >= SCHEMA_REASKS_MAX {
                        return Err(Failure::new(
                            AgentErrorCode::Schema,
                            format!("the answer does not fit the schema after {reasks} more tries: {why}"),
                        ));
                    }
                    reasks += 1;
                    talk.reask(&why);
                }
                Turn::Calls(calls, stop) => self.do_calls(&mut talk, &calls, stop).await?,
            }
        }
        Err(Failure::new(AgentErrorCode::Turns, format!("the agent had no answer after {AGENT_TURNS_MAX} turns")))
    }

    /// One after the other, in the model's order: the owner is asked about the first before the second is looked at.
    async fn do_calls(&self, talk: &mut Talk, calls: &[ModelToolCall], stop: Stop) -> Result<(), Failure> {
        for call in calls {
            if talk.count_repeats(call) >= IDENTICAL_TOOL_CALLS_MAX {
                let times = IDENTICAL_TOOL_CALLS_MAX;
                return Err(Failure::new(AgentErrorCode::Loop, format!("the agent called {} with the same input {times} times in a row", call.tool)));
            }
            let told = if stop == Stop::Length {
                "Not done: your output was cut at its limit, so the call may be incomplete. Call again with less in one turn.".to_owned()
            } else {
                self.call_tool(call).await?
            };
            talk.result(call, &told);
        }
        Ok(())
    }

    async fn call_tool(&self, call: &ModelToolCall) -> Result<String, Failure> {
        let input = match &call.input {
            Ok(input) => input,
            Err(text) => {
                let start = domain::text::cut_chars(text, 200);
                return Ok(format!("Not done: the input is not a JSON object. It began: {start}"));
            }
        };
        match self.with.gate.call(&self.with.caller, &call.tool, input, self.with.seat.as_ref()).await {
            Ok(output) => Ok(talk::labelled(&call.tool, &output)),
            Err(crate::gate::Refusal::Stopped) => Err(Failure::new(AgentErrorCode::Cancelled, "the run was stopped")),
            Err(refusal) => Ok(refusal.to_string()),
        }
    }
}

fn no_model(why: NoSuchModel) -> Failure {
    let code = match why {
        NoSuchModel::None | NoSuchModel::Alias(_) => AgentErrorCode::NoModel,
        NoSuchModel::Unknown(..) => AgentErrorCode::UnknownModel,
    };
    Failure::new(code, why)
}

/// The tools this agent is told of: those it names, but for what its Graph leaves out and what is denied anyway.
fn offered(names: &[String], with: &AgentContext) -> Result<Vec<ToolDefinition>, Failure> {
    let all = with.gate.toolbox().definitions();
    if let Some(unknown) = names.iter().find(|n| !all.iter().any(|t| &t.name == *n)) {
        let known: Vec<_> = all.iter().map(|t| t.name.as_str()).collect();
        return Err(Failure::new(AgentErrorCode::Options, format!("there is no tool named {unknown}; there are: {}", known.join(", "))));
    }
    let may = |t: &ToolDefinition| names.contains(&t.name) && with.caller.is_offered(&t.name) && !with.gate.is_denied_outright(&t.name);
    Ok(all.into_iter().filter(may).collect())
}
