//! Two stand-ins for a provider: a model behind the trait for the loop's own behaviour, and an HTTP server that speaks both wire protocols
//! for everything that happens on the wire.
use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
    time::Duration,
};

use agent::model::{Lane, Model, ModelEntry, ModelError, ModelReply, ModelRequest, ModelToolCall, ModelUsage, Models, Said, Stop, ToolCalls};
use axum::{
    Router,
    body::{Body, Bytes},
    extract::State,
    http::{HeaderMap, Uri},
    response::Response,
};
use domain::RawJson;
use futures::{StreamExt, future::BoxFuture};
use serde_json::{Value, json};

/// What a scripted model does at one call.
pub enum Step {
    Reply(ModelReply),
    Fail(ModelError),
    /// Never comes back.
    Hang,
    /// Comes back after this long.
    Slow(Duration, ModelReply),
}

pub struct ScriptedModel {
    steps: Mutex<VecDeque<Step>>,
    pub requests: Mutex<Vec<ModelRequest>>,
    /// After the script: this, over and over.
    pub then: Option<ModelReply>,
}
impl ScriptedModel {
    pub fn new(steps: impl IntoIterator<Item = Step>) -> Arc<Self> {
        Arc::new(Self { steps: Mutex::new(steps.into_iter().collect()), requests: Mutex::default(), then: None })
    }
    pub fn always(reply: ModelReply) -> Arc<Self> {
        Arc::new(Self { steps: Mutex::default(), requests: Mutex::default(), then: Some(reply) })
    }
    pub fn calls(&self) -> usize {
        self.requests.lock().unwrap().len()
    }
    pub fn request(&self, n: usize) -> ModelRequest {
        self.requests.lock().unwrap()[n].clone()
    }
}
impl Model for ScriptedModel {
    fn call<'a>(&'a self, request: &'a ModelRequest, on_text: &'a (dyn Fn(&str) + Send + Sync)) -> BoxFuture<'a, Result<ModelReply, ModelError>> {
        Box::pin(async move {
            self.requests.lock().unwrap().push(request.clone());
            let step = self.steps.lock().unwrap().pop_front().or_else(|| self.then.clone().map(Step::Reply)).expect("the script ended");
            match step {
                Step::Reply(reply) => {
                    on_text(&reply.said.text);
                    Ok(reply)
                }
                Step::Fail(error) => Err(error),
                Step::Hang => std::future::pending().await,
                Step::Slow(wait, reply) => {
                    tokio::time::sleep(wait).await;
                    Ok(reply)
                }
            }
        })
    }
}

pub fn text(text: &str) -> ModelReply {
    used(text, 10, 5)
}
pub fn used(text: &str, input: u64, output: u64) -> ModelReply {
    let usage = Some(ModelUsage { input, output, ..ModelUsage::default() });
    ModelReply { said: Said { text: text.into(), ..Said::default() }, usage, stop: Stop::Done }
}
pub fn calls(calls: &[(&str, Value)]) -> ModelReply {
    let call =
        |(n, (tool, input)): (usize, &(&str, Value))| ModelToolCall { id: format!("c{n}"), tool: (*tool).into(), input: Ok(RawJson::of(input)) };
    let calls = calls.iter().enumerate().map(call).collect();
    ModelReply { said: Said { calls, ..Said::default() }, ..text("") }
}

pub fn models(model: Arc<dyn Model>) -> Models {
    models_with(model, ToolCalls::Native, 4)
}
pub fn models_with(model: Arc<dyn Model>, tool_calls: ToolCalls, concurrency: usize) -> Models {
    let mut models = Models::new();
    models.add(ModelEntry { name: "test/scripted".into(), model, tool_calls, price: None, lane: Lane::new(concurrency) });
    models
}

/// One scripted HTTP answer.
#[derive(Clone)]
pub enum Answer {
    Status(u16, &'static [(&'static str, &'static str)], String),
    /// An event stream; `Hang` keeps it open after these pieces, `Drop` breaks the connection off.
    Stream(Vec<String>, After),
}
#[derive(Clone, Copy, PartialEq)]
pub enum After {
    Close,
    Hang,
    Drop,
}

pub struct Server {
    pub address: String,
    pub seen: Arc<Mutex<Vec<Seen>>>,
}
#[derive(Clone)]
pub struct Seen {
    pub path: String,
    pub headers: HeaderMap,
    pub body: Value,
}

type Shared = (Arc<Mutex<VecDeque<Answer>>>, Arc<Mutex<Vec<Seen>>>);

impl Server {
    pub async fn start(answers: impl IntoIterator<Item = Answer>) -> Self {
        let shared: Shared = (Arc::new(Mutex::new(answers.into_iter().collect())), Arc::default());
        let seen = shared.1.clone();
        let router = Router::new().fallback(serve).with_state(shared);
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}/v1", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self { address, seen }
    }
    pub fn seen(&self, n: usize) -> Seen {
        self.seen.lock().unwrap()[n].clone()
    }
    pub fn count(&self) -> usize {
        self.seen.lock().unwrap().len()
    }
}

async fn serve(State((answers, seen)): State<Shared>, uri: Uri, headers: HeaderMap, body: Bytes) -> Response {
    let body = serde_json::from_slice(&body).unwrap_or(Value::Null);
    seen.lock().unwrap().push(Seen { path: uri.path().to_owned(), headers, body });
    let answer = answers.lock().unwrap().pop_front().unwrap_or_else(|| Answer::Status(404, &[], "the script ended".into()));
    match answer {
        Answer::Status(status, headers, body) => {
            let mut response = Response::builder().status(status).header("content-type", "application/json");
            for (name, value) in headers {
                response = response.header(*name, *value);
            }
            response.body(Body::from(body)).unwrap()
        }
        Answer::Stream(pieces, after) => {
            let pieces = futures::stream::iter(pieces.into_iter().map(|p| Ok::<_, std::io::Error>(Bytes::from(p))));
            let body = match after {
                After::Close => Body::from_stream(pieces),
                After::Hang => Body::from_stream(pieces.chain(futures::stream::pending())),
                After::Drop => Body::from_stream(pieces.chain(futures::stream::iter([Err(std::io::Error::other("pulled the plug"))]))),
            };
            Response::builder().header("content-type", "text/event-stream").body(body).unwrap()
        }
    }
}

/// The OpenAI form of an answer.
pub mod openai {
    use super::*;

    fn chunk(value: &Value) -> String {
        format!("data: {value}\n\n")
    }
    fn delta(delta: Value, finish: Option<&str>) -> String {
        chunk(
            &json!({ "id": "x", "object": "chat.completion.chunk", "model": "m", "choices": [{ "index": 0, "delta": delta, "finish_reason": finish }] }),
        )
    }
    pub fn piece(text: &str) -> String {
        delta(json!({ "content": text }), None)
    }
    pub fn end(finish: &str, input: u64, output: u64, cached: u64) -> String {
        let usage = json!({ "prompt_tokens": input, "completion_tokens": output, "total_tokens": input + output, "prompt_tokens_details": { "cached_tokens": cached } });
        format!("{}{}data: [DONE]\n\n", delta(json!({}), Some(finish)), chunk(&json!({ "id": "x", "choices": [], "usage": usage })))
    }
    pub fn text(pieces: &[&str]) -> Answer {
        Answer::Stream(pieces.iter().map(|p| piece(p)).chain([end("stop", 21, 4, 20)]).collect(), After::Close)
    }
    /// Arguments come in pieces, as real servers send them.
    pub fn call(tool: &str, arguments: &str, finish: &str) -> Answer {
        let middle = arguments.len() / 2;
        let call = |f: Value| delta(json!({ "tool_calls": [f] }), None);
        Answer::Stream(
            vec![
                call(json!({ "index": 0, "id": "call_a", "type": "function", "function": { "name": tool, "arguments": &arguments[..middle] } })),
                call(json!({ "index": 0, "function": { "arguments": &arguments[middle..] } })),
                end(finish, 30, 12, 0),
            ],
            After::Close,
        )
    }
    pub fn error(error: Value) -> Answer {
        Answer::Stream(vec![chunk(&json!({ "error": error }))], After::Close)
    }
}

/// The Anthropic form of an answer.
pub mod anthropic {
    use super::*;

    fn event(name: &str, value: &Value) -> String {
        format!("event: {name}\ndata: {value}\n\n")
    }
    pub fn start() -> String {
        let usage = json!({ "input_tokens": 1, "cache_read_input_tokens": 20, "cache_creation_input_tokens": 0, "output_tokens": 1 });
        event("message_start", &json!({ "type": "message_start", "message": { "id": "m", "role": "assistant", "content": [], "usage": usage } }))
    }
    fn block(index: u64, start: Value, deltas: &[Value]) -> String {
        let mut text = event("content_block_start", &json!({ "type": "content_block_start", "index": index, "content_block": start }));
        for delta in deltas {
            text.push_str(&event("content_block_delta", &json!({ "type": "content_block_delta", "index": index, "delta": delta })));
        }
        text + &event("content_block_stop", &json!({ "type": "content_block_stop", "index": index }))
    }
    pub fn text_block(text: &str) -> String {
        block(0, json!({ "type": "text", "text": "" }), &[json!({ "type": "text_delta", "text": text })])
    }
    pub fn end(reason: &str, output: u64) -> String {
        let delta = json!({ "type": "message_delta", "delta": { "stop_reason": reason }, "usage": { "output_tokens": output } });
        format!("{}{}", event("message_delta", &delta), event("message_stop", &json!({ "type": "message_stop" })))
    }
    pub fn text(pieces: &[&str]) -> Answer {
        Answer::Stream([start()].into_iter().chain(pieces.iter().map(|p| text_block(p))).chain([end("end_turn", 4)]).collect(), After::Close)
    }
    pub fn thinking_then_call(tool: &str, arguments: &str, reason: &str) -> Answer {
        let thinking = block(
            0,
            json!({ "type": "thinking", "thinking": "", "signature": "" }),
            &[json!({ "type": "thinking_delta", "thinking": "hm" }), json!({ "type": "signature_delta", "signature": "c2lnbmVk" })],
        );
        let middle = arguments.len() / 2;
        let deltas = [&arguments[..middle], &arguments[middle..]].map(|part| json!({ "type": "input_json_delta", "partial_json": part }));
        let call = block(1, json!({ "type": "tool_use", "id": "toolu_a", "name": tool, "input": {} }), &deltas);
        Answer::Stream(vec![start(), thinking, call, end(reason, 12)], After::Close)
    }
    pub fn error(kind: &str) -> Answer {
        Answer::Stream(vec![start(), event("error", &json!({ "type": "error", "error": { "type": kind, "message": "no" } }))], After::Close)
    }
}
