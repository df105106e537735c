//! Models behind one small trait. What a provider's wire looks like stays behind it.
use std::{collections::BTreeMap, fmt, sync::Arc, time::Duration};

use domain::RawJson;
use futures::future::BoxFuture;

/// One piece of a conversation, in order.
#[derive(Debug, Clone, PartialEq)]
pub enum Message {
    User(String),
    /// What the model said and called.
    Model {
        text: String,
        calls: Vec<ModelToolCall>,
    },
    /// The answer to one tool call.
    Tool {
        call: String,
        output: String,
        is_error: bool,
    },
}

#[derive(Debug, Clone, PartialEq)]
pub struct ModelToolCall {
    pub id: String,
    pub tool: String,
    pub input: RawJson,
}

#[derive(Debug, Clone, PartialEq)]
pub struct ModelTool {
    pub name: String,
    pub description: String,
    pub schema: serde_json::Value,
}

#[derive(Debug, Clone, PartialEq)]
pub struct ModelRequest {
    pub system: Option<String>,
    pub messages: Vec<Message>,
    pub tools: Vec<ModelTool>,
    /// Asks the provider for an object of this JSON Schema, where it can.
    pub schema: Option<serde_json::Value>,
    pub max_tokens: u64,
}

/// Tokens as the provider counted them; `input` includes what came from its cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ModelUsage {
    pub input: u64,
    pub output: u64,
    pub cache_read: u64,
    pub cache_written: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    Done,
    /// The output limit was reached: the text may be cut, tool calls must not be executed.
    Length,
    Refused,
    Unknown,
}

#[derive(Debug, Clone, PartialEq)]
pub struct ModelReply {
    pub text: String,
    pub calls: Vec<ModelToolCall>,
    pub usage: Option<ModelUsage>,
    pub stop: Stop,
}

/// Why a model call failed. `is_retryable` says whether the same call may work a moment later.
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
    #[error("the provider's answer cannot be read: {0}")]
    Unreadable(String),
}

/// A model that can be called. Implementations keep no conversation.
pub trait Model: Send + Sync {
    /// `on_text` gets each piece of text as it comes.
    fn call<'a>(&'a self, request: &'a ModelRequest, on_text: &'a (dyn Fn(&str) + Send + Sync)) -> BoxFuture<'a, Result<ModelReply, ModelError>>;
}

/// How a model is told about tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToolCalls {
    Native,
    /// Through a JSON Schema that offers each tool or a final answer: for models without tool calls of their own.
    Emulated,
    None,
}

/// Price per million tokens. Data, editable by the owner.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Price {
    pub input: f64,
    pub output: f64,
    pub cache_read: Option<f64>,
    pub cache_written: Option<f64>,
}

/// One model of one provider, ready to be called.
#[derive(Clone)]
pub struct ModelEntry {
    /// `provider/model`.
    pub name: String,
    pub model: Arc<dyn Model>,
    pub tool_calls: ToolCalls,
    pub price: Option<Price>,
    /// Calls at once to this provider.
    pub concurrency: usize,
}

/// The models the owner has set up.
#[derive(Clone, Default)]
pub struct Models {
    entries: BTreeMap<String, ModelEntry>,
    /// `default`, `fast`, `strong`, `local` → `provider/model`.
    aliases: BTreeMap<String, String>,
}

impl Models {
    pub fn add(&mut self, entry: ModelEntry) {
        self.entries.insert(entry.name.clone(), entry);
    }
    pub fn alias(&mut self, alias: &str, name: &str) {
        self.aliases.insert(alias.to_owned(), name.to_owned());
    }
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}
impl fmt::Debug for Models {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Models").field("names", &self.entries.keys()).field("aliases", &self.aliases).finish()
    }
}
