//! A queue below `HttpSend`: the domain's own state machine behind the device API, with faults that a test sets.
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use bytes::Bytes;
use device::ports::{BoxFuture, HttpSend, TransportError};
use domain::{
    CommandId, CommandState, Event, ExecutionId, GraphSessionId, ProjectId, RawJson, Refused,
    command::{CancelFlag, apply},
    wire::relay::{SyncRequest, read_completion},
};
use serde_json::{Value, json};
use tokio::{sync::watch, time::Instant};

use crate::world::wall_clock;

pub const TOKEN: &str = "token-of-the-test";

/// What happens to a request instead of, or around, its handling.
#[derive(Clone, Debug)]
pub enum Fault {
    /// The request never arrives.
    LoseRequest,
    /// Handled, but the answer is cut on the wire.
    LoseAnswer,
    /// Accepted and never answered.
    Hang,
    /// Handled, answered later.
    Delay(u64),
    /// Not handled; this comes back.
    Answer(u16, &'static str, String),
}

pub struct Command {
    pub id: CommandId,
    pub project: ProjectId,
    pub session: GraphSessionId,
    pub slug: String,
    pub args: RawJson,
    pub seq: u64,
    pub state: CommandState,
    pub completions: Vec<String>,
    pub progress: Vec<Value>,
}

#[derive(Clone, Debug)]
pub struct Logged {
    pub at: Duration,
    pub path: String,
    pub body: Value,
    pub headers: http::HeaderMap,
    pub uri: String,
}

pub struct State {
    pub commands: Vec<Command>,
    pub lists: BTreeMap<ProjectId, SyncRequest>,
    pub projects: Vec<(ProjectId, String)>,
    pub token: String,
    pub log: Vec<Logged>,
    /// Path ending, fault, how often.
    pub faults: Vec<(String, Fault, usize)>,
    pub knows_doorbell: bool,
    /// Offered beside the real commands, as they stand.
    pub strange_offers: Vec<Value>,
    pub clock_ahead_ms: i64,
    epoch: Instant,
}

#[derive(Clone)]
pub struct Queue {
    state: Arc<Mutex<State>>,
    changed: Arc<watch::Sender<u64>>,
}

impl Queue {
    pub fn new() -> Self {
        let state = State {
            commands: Vec::new(),
            lists: BTreeMap::new(),
            projects: Vec::new(),
            token: TOKEN.into(),
            log: Vec::new(),
            faults: Vec::new(),
            knows_doorbell: true,
            strange_offers: Vec::new(),
            clock_ahead_ms: 0,
            epoch: Instant::now(),
        };
        Self { state: Arc::new(Mutex::new(state)), changed: Arc::new(watch::Sender::new(0)) }
    }

    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    pub fn fault(&self, path_end: &str, fault: Fault, times: usize) {
        self.state().faults.push((path_end.into(), fault, times));
    }
    pub fn heal(&self) {
        self.state().faults.clear();
    }

    /// An agent asks for a run, whatever is shared.
    pub fn enqueue(&self, project: ProjectId, session: GraphSessionId, slug: &str) -> CommandId {
        let mut state = self.state();
        let seq = state.commands.len() as u64 + 1;
        let mut bytes = [0x40; 16];
        bytes[15] = seq as u8;
        let id = CommandId::from_random(bytes);
        state.commands.push(Command {
            id,
            project,
            session,
            slug: slug.into(),
            args: RawJson::parse(r#"{"z":1e+21,"a":-0}"#).unwrap(),
            seq,
            state: CommandState::Queued,
            completions: Vec::new(),
            progress: Vec::new(),
        });
        drop(state);
        self.changed.send_modify(|n| *n += 1);
        id
    }

    pub fn apply(&self, id: CommandId, event: Event) -> Result<(), Refused> {
        let mut state = self.state();
        let command = state.commands.iter_mut().find(|c| c.id == id).unwrap();
        command.state = apply(&command.state, event)?;
        drop(state);
        self.changed.send_modify(|n| *n += 1);
        Ok(())
    }

    pub fn of(&self, id: CommandId) -> CommandState {
        self.state().commands.iter().find(|c| c.id == id).unwrap().state.clone()
    }

    /// `status/reason`, as agents read it.
    pub fn ending(&self, id: CommandId) -> String {
        let state = self.of(id);
        format!("{}/{}", state.status(), state.reason().unwrap_or("-"))
    }

    pub fn completions(&self, id: CommandId) -> usize {
        self.state().commands.iter().find(|c| c.id == id).unwrap().completions.len()
    }

    pub fn requests(&self, path_end: &str) -> Vec<Logged> {
        self.state().log.iter().filter(|l| l.path.ends_with(path_end)).cloned().collect()
    }
    pub fn count(&self, path_end: &str) -> usize {
        self.requests(path_end).len()
    }

    async fn handle(&self, path: &str, text: &str) -> (u16, Value) {
        let body: Value = serde_json::from_str(text).unwrap_or(Value::Null);
        let last = path.rsplit('/').next().unwrap_or_default();
        match last {
            "sync" => self.sync(text),
            "doorbell" => self.doorbell(&body).await,
            "projects" => {
                let projects: Vec<Value> = self.state().projects.iter().map(|(id, name)| json!({"project_id": id, "name": name})).collect();
                (200, json!({ "projects": projects }))
            }
            "start" | "control" | "complete" => {
                let id = path.rsplit('/').nth(1).and_then(|id| CommandId::parse(id).ok());
                let Some(id) = id.filter(|id| self.state().commands.iter().any(|c| c.id == *id)) else { return refusal(404, "unknown", None) };
                match last {
                    "start" => self.start(id, &body),
                    "control" => self.control(id, &body).await,
                    _ => self.complete(id, text),
                }
            }
            _ => refusal(404, "no such path", None),
        }
    }

    fn sync(&self, text: &str) -> (u16, Value) {
        let request: SyncRequest = serde_json::from_str(text).unwrap();
        assert!(request.sessions.len() <= 100);
        let mut state = self.state();
        let project = request.project_id;
        if !state.projects.iter().any(|(id, _)| *id == project) {
            return refusal(404, "Project not found or access removed", None);
        }
        let (disabled, metadata_only) = (request.disabled, request.metadata_only);
        if state.lists.get(&project).is_none_or(|old| old.revision <= request.revision) {
            state.lists.insert(project, request);
        }
        let revision = state.lists[&project].revision;
        let mut commands = Vec::new();
        let mut running = Vec::new();
        for command in state.commands.iter_mut().filter(|c| c.project == project) {
            match &command.state {
                CommandState::Queued if disabled => command.state = apply(&command.state, Event::NotShared).unwrap(),
                CommandState::Queued if !metadata_only => commands.push(json!({
                    "command_id": command.id, "graph_session_id": command.session, "slug": command.slug, "seq": command.seq,
                    "arguments": format!("@{}", command.args), "queued_at": wall_clock(0), "expires_at": wall_clock(1_000_000), "agent": "Claude",
                })),
                CommandState::Running { execution, .. } => running.push(json!({"command_id": command.id, "execution_id": execution})),
                _ => {}
            }
        }
        commands.splice(0..0, state.strange_offers.iter().cloned());
        let server_time = wall_clock(state.clock_ahead_ms + state.epoch.elapsed().as_millis() as i64);
        (200, json!({"commands": commands, "running": running, "revision": revision, "server_time": server_time}))
    }

    async fn doorbell(&self, body: &Value) -> (u16, Value) {
        if !self.state().knows_doorbell {
            return (404, Value::Null);
        }
        let until = Instant::now() + Duration::from_millis(body["hold_ms"].as_u64().unwrap());
        let after = body["after"].as_u64().unwrap();
        let mut changed = self.changed.subscribe();
        loop {
            let top = {
                let state = self.state();
                let projects: Vec<ProjectId> = serde_json::from_value(body["project_ids"].clone()).unwrap();
                let startable = |c: &&Command| matches!(c.state, CommandState::Queued) && projects.contains(&c.project);
                state.commands.iter().filter(startable).map(|c| c.seq).max().unwrap_or(0)
            };
            if top > after {
                return (200, json!({"rang": true, "seq": top}));
            }
            if tokio::time::timeout_at(until, changed.changed()).await.is_err() {
                return (200, json!({"rang": false, "seq": after}));
            }
        }
    }

    fn start(&self, id: CommandId, body: &Value) -> (u16, Value) {
        let execution: ExecutionId = serde_json::from_value(body["execution_id"].clone()).unwrap();
        match self.apply(id, Event::Start { execution }) {
            Ok(()) => {
                let cancel = matches!(self.of(id), CommandState::Running { cancel: CancelFlag::Asked, .. });
                (200, json!({"status": "running", "cancel": cancel}))
            }
            Err(_) => refusal(409, "Not started", Some(self.of(id).status().as_str())),
        }
    }

    async fn control(&self, id: CommandId, body: &Value) -> (u16, Value) {
        let execution: ExecutionId = serde_json::from_value(body["execution_id"].clone()).unwrap();
        self.state().commands.iter_mut().find(|c| c.id == id).unwrap().progress.push(body["progress"].clone());
        let until = Instant::now() + Duration::from_millis(body["hold_ms"].as_u64().unwrap_or(0));
        let mut changed = self.changed.subscribe();
        loop {
            match self.of(id) {
                CommandState::Running { execution: holder, cancel } if holder == execution => {
                    if cancel == CancelFlag::Asked {
                        return (200, json!({"cancel": true}));
                    }
                }
                other => return refusal(409, "not this execution's", Some(other.status().as_str())),
            }
            if tokio::time::timeout_at(until, changed.changed()).await.is_err() {
                return (200, json!({"cancel": false}));
            }
        }
    }

    fn complete(&self, id: CommandId, text: &str) -> (u16, Value) {
        let completion = read_completion(text).unwrap();
        {
            let mut state = self.state();
            state.commands.iter_mut().find(|c| c.id == id).unwrap().completions.push(text.into());
        }
        let event = match completion.execution() {
            Some(execution) => Event::End { execution: execution.clone(), ending: completion.ending() },
            None => Event::NotShared,
        };
        let recorded = match self.apply(id, event) {
            Ok(()) => true,
            Err(Refused::AlreadyEnded) => false,
            Err(_) => return refusal(409, "another execution's", Some(self.of(id).status().as_str())),
        };
        (200, json!({"recorded": recorded, "status": self.of(id).status().as_str()}))
    }
}

fn refusal(status: u16, message: &str, state: Option<&str>) -> (u16, Value) {
    let mut body = json!({"error": {"code": "refused", "message": message, "retryable": false}});
    if let Some(state) = state {
        body["status"] = state.into();
    }
    (status, body)
}

/// Arguments travel as the text they are; a `Value` would not keep `-0`.
fn with_raw_arguments(text: &str) -> String {
    let raw = r#"{"z":1e+21,"a":-0}"#;
    text.replace(&serde_json::Value::from(format!("@{raw}")).to_string(), raw)
}

impl HttpSend for Queue {
    fn send(&self, request: http::Request<Bytes>, within: Duration) -> BoxFuture<'static, Result<http::Response<Bytes>, TransportError>> {
        let queue = self.clone();
        Box::pin(async move {
            let exchange = queue.exchange(request);
            tokio::time::timeout(within, exchange).await.unwrap_or(Err(TransportError::TimedOut(within.as_secs())))
        })
    }
}

impl Queue {
    async fn exchange(&self, request: http::Request<Bytes>) -> Result<http::Response<Bytes>, TransportError> {
        let cut = || TransportError::Unreachable("queue.test cannot be reached: cut".into());
        let (path, text) = (request.uri().path().to_owned(), String::from_utf8(request.body().to_vec()).unwrap());
        let (fault, allowed) = {
            let mut state = self.state();
            let body = serde_json::from_str(&text).unwrap_or(Value::Null);
            let at = state.epoch.elapsed();
            let headers = request.headers().clone();
            state.log.push(Logged { at, path: path.clone(), body, headers, uri: request.uri().to_string() });
            let found = state.faults.iter_mut().find(|(end, _, times)| path.ends_with(end.as_str()) && *times > 0);
            let fault = found.map(|(_, fault, times)| {
                *times -= 1;
                fault.clone()
            });
            let bearer = format!("Bearer {}", state.token);
            (fault, request.headers().get("authorization").is_some_and(|v| v == bearer.as_str()))
        };
        let answer = |(status, body): (u16, Value)| {
            let text = if body.is_null() { "<html>not found</html>".to_owned() } else { with_raw_arguments(&body.to_string()) };
            http::Response::builder().status(status).body(Bytes::from(text)).unwrap()
        };
        match fault {
            Some(Fault::LoseRequest) => return Err(cut()),
            Some(Fault::Hang) => std::future::pending::<()>().await,
            Some(Fault::Answer(status, header, body)) => {
                let mut response = http::Response::builder().status(status);
                if let Some((name, value)) = header.split_once(": ") {
                    response = response.header(name, value);
                }
                return Ok(response.body(Bytes::from(body)).unwrap());
            }
            Some(Fault::Delay(_) | Fault::LoseAnswer) | None => {}
        }
        if !allowed {
            return Ok(answer(refusal(401, "This device was removed", None)));
        }
        let handled = answer(self.handle(&path, &text).await);
        match fault {
            Some(Fault::LoseAnswer) => Err(cut()),
            Some(Fault::Delay(ms)) => {
                tokio::time::sleep(Duration::from_millis(ms)).await;
                Ok(handled)
            }
            _ => Ok(handled),
        }
    }
}
