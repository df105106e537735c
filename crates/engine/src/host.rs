//! The port to whoever does the work: `crates/device` in the app, a modelled executor in tests and simulation.
//!
//! Every call carries what the script said; the host rules on it, does it and answers. Dropping a returned future must stop the work.
use domain::{RawJson, Slug, wire::event::FleetWhat};

use crate::{fleet::Fleet, seat::Seat};

pub type BoxFuture<'a, T> = std::pin::Pin<Box<dyn Future<Output = T> + Send + 'a>>;

pub trait FleetHost: Send + Sync + 'static {
    /// One line of the story. The host adds number and time, stores and shows it. Called in order, must not block for long.
    fn event(&self, what: FleetWhat);

    /// Runs one agent to its end. Each model call of it reserves with [`Fleet::reserve`] before it is made and is settled after.
    /// The engine has told `agent_queued` and `agent_started` before and tells `agent_finished` after; the host tells `model_call`,
    /// `agent_text`, `retry`, `tool_call`, `approval_*` and `tool_result`.
    fn agent<'a>(&'a self, fleet: &'a Fleet, call: AgentCall, seat: Seat) -> BoxFuture<'a, Result<AgentAnswer, CallError>>;

    /// Runs one tool for the script itself, under the same rules as an agent's call. The host tells `tool_call`, `approval_*`, `tool_result`.
    fn tool<'a>(&'a self, fleet: &'a Fleet, call: ToolCall, seat: Seat) -> BoxFuture<'a, Result<RawJson, CallError>>;

    /// Asks the owner. An unanswered question with a default answers the default; without one it fails with [`CallCode::Unanswered`].
    /// The execution's clock stands still meanwhile.
    fn ask<'a>(&'a self, fleet: &'a Fleet, question: OwnerQuestion) -> BoxFuture<'a, Result<RawJson, CallError>>;

    /// Source of another `ready` Graph of this device. [`CallCode::NoGraph`] where there is none.
    fn graph(&self, slug: &Slug) -> Result<CalledGraph, CallError>;
}

/// One `agent(prompt, options)` of the script. Options that were not given are `None`; unknown options were refused before.
#[derive(Debug, Clone, PartialEq)]
pub struct AgentCall {
    /// Counts from 1 in an execution, over all its Graphs.
    pub agent: u64,
    pub prompt: String,
    /// Given by the script, else made from the prompt's first words.
    pub label: String,
    pub phase: Option<String>,
    pub model: Option<String>,
    pub system: Option<String>,
    /// Names the script allows its agent. It can only narrow what the rules allow. `None`: what `meta.tools` names, else none.
    pub tools: Option<Vec<String>>,
    /// JSON Schema the answer must be valid against.
    pub schema: Option<RawJson>,
    /// Of one answer of the model: what the script asked for, but not more than the owner allows.
    pub max_tokens: u64,
    pub timeout_ms: u64,
    pub wave: Option<u64>,
    /// Call site in the source, counted from 1.
    pub line: Option<u32>,
    /// The Graphs that are on the way to this call, outermost first; the strictest rules of all hold. Never empty.
    pub graphs: Vec<Slug>,
}

/// What an agent came to.
#[derive(Debug, Clone, PartialEq)]
pub struct AgentAnswer {
    /// A JSON string for text, the object for a call with a schema.
    pub value: RawJson,
    pub tokens: u64,
    /// `None` where no price is known.
    pub cost: Option<f64>,
    /// The answer came from the journal.
    pub replayed: bool,
}

/// One `tool(name, input)` of the script itself.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolCall {
    pub tool: String,
    pub input: RawJson,
    pub line: Option<u32>,
    pub graphs: Vec<Slug>,
}

/// One `ask(question, options)` of the script.
#[derive(Debug, Clone, PartialEq)]
pub struct OwnerQuestion {
    pub question: String,
    /// The answers to choose from; empty: free text.
    pub options: Vec<String>,
    /// What counts when nobody answers in time.
    pub default: Option<RawJson>,
    pub timeout_ms: u64,
    pub line: Option<u32>,
    pub graphs: Vec<Slug>,
}

/// A Graph that another one calls.
#[derive(Debug, Clone, PartialEq)]
pub struct CalledGraph {
    pub slug: Slug,
    pub source: String,
}

macro_rules! codes {
    ($($variant:ident = $text:literal, $words:literal;)+) => {
        /// Why a call failed, as the script reads it in `error.code`. The class by which a wave counts its failures.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum CallCode { $(#[doc = $words] $variant),+ }
        impl CallCode {
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text),+ }
            }
            /// What it means, in a sentence for authors.
            pub const fn words(self) -> &'static str {
                match self { $(Self::$variant => $words),+ }
            }
            pub fn parse(text: &str) -> Option<Self> {
                match text { $($text => Some(Self::$variant),)+ _ => None }
            }
        }
    };
}

codes! {
    CeilingReached = "ceiling_reached", "The next call could pass the token (or money) ceiling. Nothing new is started from then on.";
    WaveStopped = "wave_stopped", "Three agents of the wave failed the same way; what had not started was not started.";
    Limit = "limit", "A limit of the engine: too many agents, items, calls, or too deep a chain of Graphs.";
    Cancelled = "cancelled", "The execution is being stopped.";
    Denied = "denied", "The rules or the owner denied it, or nobody answered; the message says which.";
    Unanswered = "unanswered", "Nobody answered the question, and it has no default.";
    NoModel = "no_model", "No model is set up that fits.";
    Schema = "schema", "The model's answer did not fit the schema, not even after it was asked again.";
    Timeout = "timeout", "The call's own time was over.";
    Stalled = "stalled", "The model sent nothing for too long.";
    Refused = "refused", "The model refused to answer.";
    ContextOverflow = "context_overflow", "The conversation does not fit the model.";
    RateLimited = "rate_limited", "The provider limits how much it is asked, for longer than was worth waiting.";
    Provider = "provider", "The provider failed otherwise.";
    Loop = "loop", "The agent repeated itself or took too many turns.";
    ToolFailed = "tool_failed", "The tool ran and failed; the message says how.";
    NoTool = "no_tool", "There is no such tool, or `meta.tools` does not name it.";
    NoGraph = "no_graph", "There is no such Graph that is ready.";
    GraphFailed = "graph_failed", "The called Graph failed; the message says why.";
    Invalid = "invalid", "The function was called with something it does not take.";
}

impl CallCode {
    /// Rejects a whole wave at once instead of leaving `null` in one place.
    pub const fn ends_waves(self) -> bool {
        match self {
            Self::CeilingReached
            | Self::WaveStopped
            | Self::Limit
            | Self::Cancelled
            | Self::Invalid
            | Self::NoTool
            | Self::NoGraph
            | Self::NoModel => true,
            Self::Denied
            | Self::Unanswered
            | Self::Schema
            | Self::Timeout
            | Self::Stalled
            | Self::Refused
            | Self::ContextOverflow
            | Self::RateLimited
            | Self::Provider
            | Self::Loop
            | Self::ToolFailed
            | Self::GraphFailed => false,
        }
    }
}

/// A failed call, as the script gets it (`AgentError`, `ToolError`, …).
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{}: {message}", code.as_str())]
pub struct CallError {
    pub code: CallCode,
    /// What happened, what to do: one or two plain sentences.
    pub message: String,
    /// A later attempt may succeed.
    pub retryable: bool,
    /// What the failed call used all the same.
    pub tokens: u64,
    pub cost: Option<f64>,
}

impl CallError {
    pub fn new(code: CallCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), retryable: false, tokens: 0, cost: None }
    }
    pub fn retryable(mut self) -> Self {
        self.retryable = true;
        self
    }
    pub fn used(mut self, tokens: u64, cost: Option<f64>) -> Self {
        self.tokens = tokens;
        self.cost = cost;
        self
    }
}
