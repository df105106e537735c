//! Ollama's own protocol, spoken directly: the crate behind the other providers can neither set the context nor a schema here, and without a
//! context of its own Ollama cuts the beginning of a long conversation away without a word.
use std::time::Duration;

use domain::{RawJson, limits::MODEL_STALL_MS};
use futures::StreamExt;
use serde_json::{Value, json};

use super::{
    Message, ModelError, ModelReply, ModelRequest, ModelTool, ModelToolCall, ModelUsage, Said, Stop,
    provider::{Provider, Streamed, chain, is_overflow, retry_after},
};

/// Tokens of context asked for where the owner set nothing.
const CONTEXT_DEFAULT: u64 = 16_384;
const LINE_BYTES_MAX: usize = 4 << 20;

/// One model of an Ollama server.
pub(super) struct Ollama<'a> {
    pub(super) provider: &'a Provider,
    pub(super) http: &'a reqwest::Client,
    pub(super) name: &'a str,
}

impl Ollama<'_> {
    pub(super) async fn stream(&self, request: &ModelRequest, on_text: &(dyn Fn(&str) + Send + Sync)) -> Result<ModelReply, ModelError> {
        let stall = Duration::from_millis(MODEL_STALL_MS);
        let stalled = |_| ModelError::Stalled(stall.as_secs());
        let context = self.provider.context.unwrap_or(CONTEXT_DEFAULT);
        let mut call = self.http.post(format!("{}/api/chat", self.provider.address())).json(&body(self.name, request, context));
        if let Some(key) = &self.provider.key {
            call = call.bearer_auth(key.reveal());
        }
        let answer = tokio::time::timeout(stall, call.send()).await.map_err(stalled)?.map_err(|e| self.unreachable(&e))?;
        let status = answer.status().as_u16();
        if status != 200 {
            let after = retry_after(answer.headers());
            let text = tokio::time::timeout(stall, answer.text()).await.map_err(stalled)?.unwrap_or_default();
            let message = self.provider.scrub(&text);
            return Err(if is_overflow(&message) {
                ModelError::Overflow(message)
            } else {
                ModelError::Status { status, message, retry_after: after }
            });
        }
        let (mut stream, mut pending, mut heard, mut size) = (answer.bytes_stream(), Vec::new(), Heard::default(), Streamed::default());
        loop {
            let piece = tokio::time::timeout(stall, stream.next()).await.map_err(stalled)?;
            let Some(piece) = piece else { return Err(ModelError::Broken("it ended before the answer did".into())) };
            pending.extend_from_slice(&piece.map_err(|e| ModelError::Broken(self.provider.scrub(&chain(&e))))?);
            while let Some(end) = pending.iter().position(|b| *b == b'\n') {
                let line: Vec<u8> = pending.drain(..=end).collect();
                if let Some(reply) = self.line(&line, &mut heard, &mut size, on_text, context)? {
                    return Ok(reply);
                }
                if size.tokens_at_least() > request.max_tokens {
                    return Err(ModelError::PastReserved(request.max_tokens));
                }
            }
            if pending.len() > LINE_BYTES_MAX {
                return Err(ModelError::Broken("a line of the answer is too long".into()));
            }
        }
    }

    /// One line of the stream; the reply once the last was read.
    fn line(
        &self,
        line: &[u8],
        heard: &mut Heard,
        size: &mut Streamed,
        on_text: &(dyn Fn(&str) + Send + Sync),
        context: u64,
    ) -> Result<Option<ModelReply>, ModelError> {
        if line.trim_ascii().is_empty() {
            return Ok(None);
        }
        let value: Value = serde_json::from_slice(line).map_err(|e| ModelError::Broken(format!("a line of the answer cannot be read: {e}")))?;
        if let Some(error) = value.get("error") {
            let message = self.provider.scrub(error.as_str().unwrap_or(&error.to_string()));
            return Err(if is_overflow(&message) {
                ModelError::Overflow(message)
            } else {
                ModelError::Status { status: 500, message, retry_after: None }
            });
        }
        let at = |pointer: &str| value.pointer(pointer).and_then(Value::as_str).unwrap_or("");
        for text in [at("/message/thinking"), at("/message/content")] {
            if !text.is_empty() {
                size.piece(text.len());
            }
        }
        let text = at("/message/content");
        if !text.is_empty() {
            on_text(text);
            heard.text.push_str(text);
        }
        for call in value.pointer("/message/tool_calls").and_then(Value::as_array).into_iter().flatten() {
            heard.call(call);
        }
        if value.get("done") != Some(&Value::Bool(true)) {
            return Ok(None);
        }
        let usage = usage(&value);
        if usage.is_some_and(|u| u.input >= context) {
            return Err(ModelError::Overflow(format!("it has {context} tokens and was filled; set a larger context for this provider")));
        }
        let stop = if at("/done_reason") == "length" { Stop::Length } else { Stop::Done };
        let Heard { text, calls } = std::mem::take(heard);
        Ok(Some(ModelReply { said: Said { text, calls, parts: None }, usage, stop }))
    }

    fn unreachable(&self, e: &reqwest::Error) -> ModelError {
        ModelError::Unreachable(self.provider.scrub(&chain(e)))
    }
}

#[derive(Default)]
struct Heard {
    text: String,
    calls: Vec<ModelToolCall>,
}
impl Heard {
    /// Ollama's calls mostly have no id; the order is what ties a result to its call.
    fn call(&mut self, call: &Value) {
        let Some(tool) = call.pointer("/function/name").and_then(Value::as_str) else { return };
        let input = match call.pointer("/function/arguments") {
            None | Some(Value::Null) => Ok(RawJson::empty_object()),
            Some(Value::String(text)) => RawJson::parse(text).map_err(|_| text.clone()),
            Some(value) => Ok(RawJson::of(value)),
        };
        let id = call.get("id").and_then(Value::as_str).map_or_else(|| format!("call_{}", self.calls.len()), str::to_owned);
        self.calls.push(ModelToolCall { id, tool: tool.to_owned(), input });
    }
}

fn usage(value: &Value) -> Option<ModelUsage> {
    let number = |name: &str| value.get(name).and_then(Value::as_u64);
    Some(ModelUsage { input: number("prompt_eval_count")?, output: number("eval_count")?, ..ModelUsage::default() })
}

fn body(name: &str, request: &ModelRequest, context: u64) -> Value {
    let mut messages: Vec<Value> = request.system.iter().map(|text| json!({ "role": "system", "content": text })).collect();
    messages.extend(request.messages.iter().map(message));
    let mut body = json!({
        "model": name,
        "stream": true,
        "messages": messages,
        "options": { "num_ctx": context, "num_predict": request.max_tokens },
    });
    if !request.tools.is_empty() {
        let tool =
            |t: &ModelTool| json!({ "type": "function", "function": { "name": t.name, "description": t.description, "parameters": t.schema } });
        body["tools"] = request.tools.iter().map(tool).collect();
    }
    if let Some(schema) = &request.schema {
        body["format"] = schema.clone();
    }
    body
}

fn message(message: &Message) -> Value {
    match message {
        Message::User(text) => json!({ "role": "user", "content": text }),
        Message::Tool { tool, output, .. } => json!({ "role": "tool", "tool_name": tool, "content": output }),
        Message::Model(said) => {
            let call =
                |c: &ModelToolCall| json!({ "function": { "name": c.tool, "arguments": c.input.as_ref().map_or(Value::Null, RawJson::to_value) } });
            let calls: Vec<Value> = said.calls.iter().map(call).collect();
            if calls.is_empty() {
                json!({ "role": "assistant", "content": said.text })
            } else {
                json!({ "role": "assistant", "content": said.text, "tool_calls": calls })
            }
        }
    }
}
