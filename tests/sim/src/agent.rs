//! A connected agent: JSON-RPC over the real `/mcp`, and the client rules of the published table.
use std::time::Duration;

use bytes::Bytes;
use device::ports::{HttpSend, TransportError};
use domain::Timestamp;
use serde_json::{Value, json};

use crate::{clock::SimClock, net::Line, strategy::Strategy};

/// Longest a client waits for an answer.
const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// No answer; the call may have had its effect.
    #[error("no answer: {0}")]
    Lost(TransportError),
    #[error("{0}")]
    Refused(String),
    #[error("status {0}")]
    Status(u16),
}

#[derive(Clone)]
pub struct Agent {
    pub name: String,
    pub line: Line,
    token: String,
    clock: SimClock,
}

/// A run as an agent sees it.
#[derive(Debug, Clone, PartialEq)]
pub struct RunView(pub Value);

impl RunView {
    pub fn status(&self) -> &str {
        self.0["status"].as_str().unwrap_or_default()
    }
    pub fn reason(&self) -> &str {
        self.0["reason"].as_str().unwrap_or_default()
    }
    pub fn is_terminal(&self) -> bool {
        self.0["terminal"] == true
    }
    /// A time of the server's clock.
    pub fn time(&self, name: &str) -> Option<Timestamp> {
        Timestamp::parse(self.0["times"][name].as_str()?)
    }
    /// Milliseconds of `name` after `queued_at`.
    pub fn since_queued_ms(&self, name: &str) -> Option<u64> {
        let queued = self.time("queued_at")?;
        self.time(name).map(|t| t.since_ms(queued).max(0) as u64)
    }
}

impl Agent {
    pub fn new(name: &str, line: Line, token: &str, clock: &SimClock) -> Self {
        Self { name: name.to_owned(), line, token: token.to_owned(), clock: clock.clone() }
    }

    /// One call; the tool's structured answer.
    pub async fn call(&self, tool: &str, arguments: Value) -> Result<Value, CallError> {
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}).to_string();
        let request = http::Request::post("/mcp")
            .header("host", crate::world::HOST)
            .header("authorization", format!("Bearer {}", self.token))
            .header("content-type", "application/json")
            .header("accept", "application/json, text/event-stream")
            .header("mcp-protocol-version", "2025-06-18")
            .body(Bytes::from(body))
            .map_err(|e| CallError::Refused(e.to_string()))?;
        let answer = self.line.send(request, PATIENCE).await.map_err(CallError::Lost)?;
        let status = answer.status().as_u16();
        if status == 401 {
            return Err(CallError::Status(status));
        }
        let Ok(mut parsed) = serde_json::from_slice::<Value>(answer.body()) else { return Err(CallError::Status(status)) };
        if let Some(error) = parsed["error"]["message"].as_str() {
            return Err(CallError::Refused(error.to_owned()));
        }
        if parsed["result"]["isError"] == true {
            return Err(CallError::Refused(parsed["result"]["content"][0]["text"].as_str().unwrap_or_default().to_owned()));
        }
        match parsed["result"]["structuredContent"].take() {
            Value::Null => Err(CallError::Status(status)),
            answer => Ok(answer),
        }
    }

    /// Queues a run; the ticket.
    pub async fn run(&self, session: &str, arguments: Value, key: &str) -> Result<RunView, CallError> {
        self.call("run_graph_session", json!({"graph_session_id": session, "arguments": arguments, "idempotency_key": key})).await.map(RunView)
    }

    pub async fn get(&self, command: &str, wait_seconds: u64) -> Result<RunView, CallError> {
        let arguments = if wait_seconds == 0 { json!({"command_id": command}) } else { json!({"command_id": command, "wait_seconds": wait_seconds}) };
        self.call("get_graph_run", arguments).await.map(RunView)
    }

    pub async fn cancel(&self, command: &str) -> Result<RunView, CallError> {
        self.call("cancel_graph_run", json!({"command_id": command})).await.map(RunView)
    }

    /// Asks by a strategy until the run has ended. The calls it took, when it knew, and what it was told.
    pub async fn watch(&self, command: &str, strategy: Strategy) -> Result<(u64, u64, RunView), CallError> {
        let mut calls = 0;
        loop {
            calls += 1;
            crate::clock::sleep_ms(strategy.pause_s(calls) * 1000).await;
            let run = self.get(command, strategy.hold_s()).await?;
            if run.is_terminal() {
                return Ok((calls, self.clock.elapsed_ms(), run));
            }
        }
    }
}
