//! Models behind one small trait. What a provider's wire looks like stays behind it ([`provider`]); which models there are, what they
//! cost and how many calls a provider takes at once is the owner's data ([`Models`]).
mod discover;
mod lane;
mod ollama;
mod provider;
mod registry;

use std::time::Duration;

use domain::RawJson;
use futures::future::BoxFuture;

pub use discover::{Found, LOCAL_SERVERS, discover, list_models};
pub use lane::Lane;
pub use provider::{Provider, ProviderKind};
pub use registry::{ModelEntry, Models, NoSuchModel, Price, default_prices};

/// One piece of a conversation, in order.
#[derive(Debug, Clone, PartialEq)]
pub enum Message {
    User(String),
    /// What the model said and called.
    Model(Said),
    /// The answer to one tool call of the message before.
    Tool {
        call: String,
        tool: String,
        output: String,
    },
}

/// A model's own turn, kept whole: providers want their parts (signed thoughts) back unchanged.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Said {
    pub text: String,
    pub calls: Vec<ModelToolCall>,
    /// The turn in the provider's own form.
    pub parts: Option<serde_json::Value>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct ModelToolCall {
    pub id: String,
    pub tool: String,
    /// The arguments, or the text that was not JSON.
    pub input: Result<RawJson, String>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct ModelTool {
    pub name: String,
    pub description: String,
    pub schema: serde_json::Value,
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct ModelRequest {
    pub system: Option<String>,
    pub messages: Vec<Message>,
    pub tools: Vec<ModelTool>,
    /// Asks the provider for a value of this JSON Schema, where it can. The answer must be checked all the same.
    pub schema: Option<serde_json::Value>,
    /// Also what was reserved: an implementation cuts a stream that passes it.
    pub max_tokens: u64,
}

/// Tokens as the provider counted them; `input` includes what came from or went into its cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ModelUsage {
    pub input: u64,
    pub output: u64,
    pub cache_read: u64,
    pub cache_written: u64,
}
impl ModelUsage {
    pub const fn total(self) -> u64 {
        self.input.saturating_add(self.output)
    }
}
impl std::ops::AddAssign for ModelUsage {
    fn add_assign(&mut self, more: Self) {
        self.input = self.input.saturating_add(more.input);
        self.output = self.output.saturating_add(more.output);
        self.cache_read = self.cache_read.saturating_add(more.cache_read);
        self.cache_written = self.cache_written.saturating_add(more.cache_written);
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    Done,
    /// The output limit was reached: the text may be cut, tool calls must not be executed.
    Length,
    /// The model declined.
    Refused,
    /// The provider wants the same conversation again to go on.
    Paused,
}

#[derive(Debug, Clone, PartialEq)]
pub struct ModelReply {
    pub said: Said,
    pub usage: Option<ModelUsage>,
    pub stop: Stop,
}

/// Why a model call failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ModelError {
    #[error("the provider answered {status}: {message}")]
    Status { status: u16, message: String, retry_after: Option<Duration> },
    #[error("the provider could not be reached: {0}")]
    Unreachable(String),
    #[error("the provider's stream broke off: {0}")]
    Broken(String),
    #[error("no byte came from the model for {0} s")]
    Stalled(u64),
    #[error("the conversation does not fit the model's context: {0}")]
    Overflow(String),
    #[error("the model went on past the {0} tokens it was allowed and was cut")]
    PastReserved(u64),
}
impl ModelError {
    /// Whether the same call may work a moment later.
    pub const fn is_retryable(&self) -> bool {
        match self {
            Self::Status { status, .. } => matches!(status, 408 | 409 | 429 | 500..=599),
            Self::Unreachable(_) | Self::Broken(_) => true,
            Self::Stalled(_) | Self::Overflow(_) | Self::PastReserved(_) => false,
        }
    }
    /// Whether the whole provider should be left alone for a while.
    pub const fn is_rate_limit(&self) -> bool {
        matches!(self, Self::Status { status: 429 | 529, .. })
    }
    /// Whether the provider certainly used no tokens.
    pub const fn used_nothing(&self) -> bool {
        match self {
            Self::Status { .. } | Self::Unreachable(_) | Self::Overflow(_) => true,
            Self::Broken(_) | Self::Stalled(_) | Self::PastReserved(_) => false,
        }
    }
}

/// A model that can be called. Implementations keep no conversation and never retry.
pub trait Model: Send + Sync {
    /// `on_text` gets each piece of text as it comes. Dropping the future aborts the call.
    fn call<'a>(&'a self, request: &'a ModelRequest, on_text: &'a (dyn Fn(&str) + Send + Sync)) -> BoxFuture<'a, Result<ModelReply, ModelError>>;
}

/// How a model is told about tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ToolCalls {
    #[default]
    Native,
    /// Through a JSON Schema that offers each tool or a final answer: for models without tool calls of their own.
    Emulated,
}
