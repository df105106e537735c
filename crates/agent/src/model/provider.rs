//! A provider through the `genai` crate: message mapping, event streams and usage are its work; limits, time-outs and the sense of errors ours.
//! Ollama alone is spoken directly ([`super::ollama`]).
//!
//! Nothing here retries. No text that leaves this module holds the key.
use std::{
    fmt,
    sync::{Arc, OnceLock},
    time::Duration,
};

use domain::{RawJson, limits::MODEL_STALL_MS};
use futures::{StreamExt, future::BoxFuture};
use genai::{
    Client, ModelIden, ServiceTarget,
    adapter::AdapterKind,
    chat::{
        CacheControl, ChatMessage, ChatOptions, ChatRequest, ChatStreamEvent, JsonSpec, MessageContent, StopReason, StreamEnd, Tool, ToolCall,
        ToolResponse, Usage,
    },
    resolver::{AuthData, Endpoint},
};
use serde::{Deserialize, Serialize};

use super::{Message, Model, ModelError, ModelReply, ModelRequest, ModelToolCall, ModelUsage, Said, Stop, ToolCalls, ollama::Ollama};
use crate::Secret;

const ERROR_CHARS_MAX: usize = 600;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProviderKind {
    /// Anthropic Messages.
    Anthropic,
    /// Chat completions as OpenAI, OpenRouter, LM Studio, llama.cpp, vLLM … speak it.
    OpenAi,
    /// Ollama's own protocol: the OpenAI form of it cannot set the context and cuts silently.
    Ollama,
}
impl ProviderKind {
    pub const fn default_address(self) -> &'static str {
        match self {
            Self::Anthropic => "https://api.anthropic.com/v1",
            Self::OpenAi => "https://api.openai.com/v1",
            Self::Ollama => "http://127.0.0.1:11434",
        }
    }
    /// Ollama is spoken by [`super::ollama`]; here it stands only to be complete.
    const fn adapter(self) -> AdapterKind {
        match self {
            Self::Anthropic => AdapterKind::Anthropic,
            Self::OpenAi => AdapterKind::OpenAI,
            Self::Ollama => AdapterKind::Ollama,
        }
    }
}

/// One provider as the owner set it up.
#[derive(Clone)]
pub struct Provider {
    /// Short name: the first half of `provider/model`.
    pub id: String,
    pub kind: ProviderKind,
    /// Without the last slash; `None` is the kind's own.
    pub address: Option<String>,
    pub key: Option<Secret>,
    /// Calls at once to each of its models; 1 on this computer.
    pub concurrency: usize,
    pub tool_calls: ToolCalls,
    /// Ollama: the context to ask for, in tokens.
    pub context: Option<u64>,
}

impl Provider {
    pub fn new(id: &str, kind: ProviderKind) -> Self {
        let concurrency = if kind == ProviderKind::Ollama { 1 } else { 4 };
        let (id, tool_calls) = (id.to_owned(), ToolCalls::Native);
        Self { id, kind, address: None, key: None, concurrency, tool_calls, context: None }
    }

    pub fn address(&self) -> &str {
        self.address.as_deref().unwrap_or(self.kind.default_address()).trim_end_matches('/')
    }

    /// Redirects are not followed: they would carry the key to a host the owner did not name.
    pub(super) fn http(&self) -> Result<reqwest::Client, ModelError> {
        const CONNECT_MS: u64 = 10_000;
        let mut builder = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).connect_timeout(Duration::from_millis(CONNECT_MS));
        if is_local(self.address()) {
            builder = builder.no_proxy();
        }
        builder.build().map_err(|e| ModelError::Unreachable(e.to_string()))
    }

    fn target(&self, name: &str) -> ServiceTarget {
        // llama.cpp and Ollama want no key, the client insists on one.
        let key = self.key.as_ref().map_or("none", Secret::reveal);
        ServiceTarget {
            endpoint: Endpoint::from_owned(format!("{}/", self.address())),
            auth: AuthData::from_single(key),
            model: ModelIden::new(self.kind.adapter(), name),
        }
    }

    pub(super) fn scrub(&self, text: &str) -> String {
        let clean = self.key.as_ref().map_or_else(|| text.to_owned(), |key| key.scrub(text));
        domain::text::cut_chars(&clean, ERROR_CHARS_MAX).to_owned()
    }
}
impl fmt::Debug for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Provider")
            .field("id", &self.id)
            .field("kind", &self.kind)
            .field("address", &self.address())
            .field("key", &self.key)
            .finish_non_exhaustive()
    }
}

fn is_local(address: &str) -> bool {
    let host = url::Url::parse(address).ok().and_then(|u| u.host_str().map(str::to_owned));
    host.is_some_and(|h| h == "localhost" || h.trim_matches(['[', ']']).parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback()))
}

/// A provider with its connections, shared by its models and made at the first call.
pub(super) struct Connection {
    pub(super) provider: Provider,
    http: OnceLock<reqwest::Client>,
    client: OnceLock<Client>,
}
impl Connection {
    pub(super) fn new(provider: Provider) -> Arc<Self> {
        Arc::new(Self { provider, http: OnceLock::new(), client: OnceLock::new() })
    }

    pub(super) fn model(self: &Arc<Self>, name: &str) -> Arc<dyn Model> {
        Arc::new(ProviderModel { at: Arc::clone(self), name: name.to_owned() })
    }

    fn http(&self) -> Result<&reqwest::Client, ModelError> {
        if let Some(http) = self.http.get() {
            return Ok(http);
        }
        let built = self.provider.http()?;
        Ok(self.http.get_or_init(|| built))
    }

    fn client(&self) -> Result<&Client, ModelError> {
        if let Some(client) = self.client.get() {
            return Ok(client);
        }
        let unreachable = |e: genai::Error| ModelError::Unreachable(e.to_string());
        let built = Client::builder().with_reqwest(self.http()?.clone()).build().map_err(unreachable)?;
        Ok(self.client.get_or_init(|| built))
    }
}

struct ProviderModel {
    at: Arc<Connection>,
    name: String,
}

impl Model for ProviderModel {
    fn call<'a>(&'a self, request: &'a ModelRequest, on_text: &'a (dyn Fn(&str) + Send + Sync)) -> BoxFuture<'a, Result<ModelReply, ModelError>> {
        Box::pin(async move {
            if self.at.provider.kind == ProviderKind::Ollama {
                let ollama = Ollama { provider: &self.at.provider, http: self.at.http()?, name: &self.name };
                return ollama.stream(request, on_text).await;
            }
            self.stream(request, on_text).await
        })
    }
}

impl ProviderModel {
    async fn stream(&self, request: &ModelRequest, on_text: &(dyn Fn(&str) + Send + Sync)) -> Result<ModelReply, ModelError> {
        let stall = Duration::from_millis(MODEL_STALL_MS);
        let stalled = |_| ModelError::Stalled(stall.as_secs());
        let client = self.at.client()?;
        let options = self.options(request);
        let chat = chat_request(request, self.at.provider.kind);
        let opening = client.exec_chat_stream(self.at.provider.target(&self.name), chat, Some(&options));
        let opened = tokio::time::timeout(stall, opening).await.map_err(stalled)?;
        let mut stream = opened.map_err(|e| self.sense(&e))?.stream;
        let mut size = Streamed::default();
        loop {
            let event = tokio::time::timeout(stall, stream.next()).await.map_err(stalled)?;
            let Some(event) = event else { return Err(ModelError::Broken("it ended before the answer did".into())) };
            match event.map_err(|e| self.sense(&e))? {
                ChatStreamEvent::Chunk(chunk) => {
                    size.piece(chunk.content.len());
                    on_text(&chunk.content);
                }
                ChatStreamEvent::ReasoningChunk(chunk) => size.piece(chunk.content.len()),
                ChatStreamEvent::ToolCallChunk(_) => size.piece(3),
                ChatStreamEvent::Start | ChatStreamEvent::ThoughtSignatureChunk(_) | ChatStreamEvent::Heartbeat => {}
                ChatStreamEvent::End(end) => return self.reply(end),
            }
            if size.tokens_at_least() > request.max_tokens {
                return Err(ModelError::PastReserved(request.max_tokens));
            }
        }
    }

    fn options(&self, request: &ModelRequest) -> ChatOptions {
        let mut options = ChatOptions::default()
            .with_max_tokens(u32::try_from(request.max_tokens).unwrap_or(u32::MAX))
            .with_capture_usage(true)
            .with_capture_content(true)
            .with_capture_tool_calls(true)
            .with_capture_reasoning_content(true);
        if let Some(schema) = &request.schema {
            options = options.with_response_format(JsonSpec::new("answer", schema.clone()));
        }
        options
    }

    fn reply(&self, end: StreamEnd) -> Result<ModelReply, ModelError> {
        let stop = stop(end.captured_stop_reason.as_ref());
        if let Some(StopReason::MaxTokens(word)) = &end.captured_stop_reason
            && word == "model_context_window_exceeded"
        {
            return Err(ModelError::Overflow("the answer filled it".into()));
        }
        let usage = end.captured_usage.as_ref().and_then(usage);
        let content = end.captured_content.unwrap_or_default();
        let calls = content.tool_calls().into_iter().map(tool_call).collect();
        let text = content.joined_texts().unwrap_or_default();
        let parts = serde_json::to_value(&content).ok();
        Ok(ModelReply { said: Said { text, calls, parts }, usage, stop })
    }

    /// What a provider's failure means to us.
    fn sense(&self, e: &genai::Error) -> ModelError {
        let text = self.at.provider.scrub(&e.to_string());
        if let genai::Error::ChatResponse { body, .. } = e {
            return in_stream(body, text);
        }
        if let genai::Error::WebStream { error, .. } = e {
            if let Some(inner) = error.downcast_ref::<genai::Error>() {
                return self.sense(inner);
            }
            let connect = error.downcast_ref::<reqwest::Error>().is_some_and(|e| e.is_connect() || e.is_builder());
            return if connect { ModelError::Unreachable(self.at.provider.scrub(&chain(error.as_ref()))) } else { ModelError::Broken(text) };
        }
        match e.status() {
            Some(status) if is_overflow(&text) && status.as_u16() < 500 => ModelError::Overflow(text),
            Some(status) => ModelError::Status { status: status.as_u16(), message: text, retry_after: e.headers().and_then(retry_after) },
            None => ModelError::Broken(text),
        }
    }
}

/// An error event inside a stream that began with 200.
fn in_stream(body: &serde_json::Value, message: String) -> ModelError {
    let at = |pointer: &str| body.pointer(pointer).and_then(serde_json::Value::as_str).unwrap_or("");
    let kind = format!("{} {} {}", at("/error/type"), at("/type"), at("/code"));
    let given = body.pointer("/code").or_else(|| body.pointer("/error/code")).and_then(serde_json::Value::as_u64);
    let status = match given.and_then(|code| u16::try_from(code).ok()).filter(|code| (400..600).contains(code)) {
        Some(code) => code,
        None if kind.contains("overloaded") => 529,
        None if kind.contains("rate_limit") => 429,
        None if kind.contains("invalid_request") || kind.contains("not_found") => 400,
        None if kind.contains("authentication") || kind.contains("permission") => 401,
        None => 500,
    };
    if is_overflow(&message) { ModelError::Overflow(message) } else { ModelError::Status { status, message, retry_after: None } }
}

pub(super) fn is_overflow(text: &str) -> bool {
    ["exceed_context_size", "context_length_exceeded", "prompt is too long", "maximum context length", "context window"]
        .iter()
        .any(|t| text.contains(t))
}

/// Seconds, milliseconds in the other header, or an HTTP date measured against the answer's own `Date`: no clock of ours is needed.
pub(super) fn retry_after(headers: &reqwest::header::HeaderMap) -> Option<Duration> {
    let text = |name: &str| headers.get(name).and_then(|v| v.to_str().ok());
    if let Some(ms) = text("retry-after-ms").and_then(|t| t.trim().parse().ok()) {
        return Some(Duration::from_millis(ms));
    }
    let after = text("retry-after")?.trim();
    if let Ok(seconds) = after.parse::<f64>() {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    let date = |t: &str| httpdate::parse_http_date(t).ok();
    date(after)?.duration_since(date(text("date")?)?).ok()
}

pub(super) fn chain(e: &dyn std::error::Error) -> String {
    let mut text = e.to_string();
    let mut at = e.source();
    while let Some(cause) = at {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        at = cause.source();
    }
    text
}

/// A lower bound of the tokens streamed so far: each piece holds at least one, but some proxies send single characters, so never more than
/// a third of the bytes.
#[derive(Default)]
pub(super) struct Streamed {
    pieces: u64,
    bytes: u64,
}
impl Streamed {
    pub(super) fn piece(&mut self, bytes: usize) {
        self.pieces += 1;
        self.bytes += bytes as u64;
    }
    pub(super) fn tokens_at_least(&self) -> u64 {
        self.pieces.min(self.bytes / 3)
    }
}

fn stop(reason: Option<&StopReason>) -> Stop {
    match reason {
        Some(StopReason::MaxTokens(_)) => Stop::Length,
        Some(StopReason::ContentFilter(_)) => Stop::Refused,
        Some(StopReason::Other(word)) if word == "pause_turn" => Stop::Paused,
        Some(StopReason::Completed(_) | StopReason::ToolCall(_) | StopReason::StopSequence(_) | StopReason::Other(_)) | None => Stop::Done,
    }
}

fn usage(counted: &Usage) -> Option<ModelUsage> {
    let number = |n: Option<i32>| n.and_then(|n| u64::try_from(n).ok());
    let (input, output) = (number(counted.prompt_tokens)?, number(counted.completion_tokens)?);
    let details = counted.prompt_tokens_details.as_ref();
    let cache_read = details.and_then(|d| number(d.cached_tokens)).unwrap_or(0);
    let cache_written = details.and_then(|d| number(d.cache_creation_tokens)).unwrap_or(0);
    Some(ModelUsage { input, output, cache_read, cache_written })
}

fn tool_call(call: &ToolCall) -> ModelToolCall {
    // Text where an object belongs is what could not be read as JSON.
    let input = match &call.fn_arguments {
        serde_json::Value::String(text) if text.trim().is_empty() => Ok(RawJson::empty_object()),
        serde_json::Value::String(text) => Err(text.clone()),
        serde_json::Value::Null => Ok(RawJson::empty_object()),
        value => Ok(RawJson::of(value)),
    };
    ModelToolCall { id: call.call_id.clone(), tool: call.fn_name.clone(), input }
}

fn chat_request(request: &ModelRequest, kind: ProviderKind) -> ChatRequest {
    let mut messages: Vec<ChatMessage> = Vec::new();
    let mut results: Vec<ToolResponse> = Vec::new();
    for message in &request.messages {
        if !matches!(message, Message::Tool { .. }) && !results.is_empty() {
            messages.push(ChatMessage::tool(MessageContent::from_tool_responses(std::mem::take(&mut results))));
        }
        match message {
            Message::User(text) => messages.push(ChatMessage::user(text.clone())),
            Message::Model(said) => messages.push(ChatMessage::assistant(assistant(said))),
            Message::Tool { call, tool, output } => results.push(ToolResponse::new(call.clone(), output.clone()).with_fn_name(tool.clone())),
        }
    }
    if !results.is_empty() {
        messages.push(ChatMessage::tool(MessageContent::from_tool_responses(results)));
    }
    // Everything up to here comes again with the next turn. An agent without tools has one turn: writing the cache would cost it more.
    if kind == ProviderKind::Anthropic
        && !request.tools.is_empty()
        && let Some(last) = messages.last_mut()
    {
        last.options = Some(CacheControl::Ephemeral.into());
    }
    let mut chat = ChatRequest::from_messages(messages);
    chat.system = request.system.clone();
    if !request.tools.is_empty() {
        let tool = |t: &super::ModelTool| Tool::new(t.name.clone()).with_description(t.description.clone()).with_schema(t.schema.clone());
        chat = chat.with_tools(request.tools.iter().map(tool).collect::<Vec<_>>());
    }
    chat
}

fn assistant(said: &Said) -> MessageContent {
    let whole = said.parts.as_ref().and_then(|parts| serde_json::from_value::<MessageContent>(parts.clone()).ok());
    whole.filter(|content| !content.is_empty()).unwrap_or_else(|| MessageContent::from_text(said.text.clone()))
}
