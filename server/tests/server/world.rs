//! An empty world for one test: a queue with a clock that is set by hand and randomness that follows from a seed.
use std::sync::{
    Arc,
    atomic::{AtomicI64, AtomicU64, Ordering},
};

use axum::{body::Body, http::Request};
use domain::Timestamp;
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use server::{
    App, Config,
    store::{Durability, Place},
};
use tower::ServiceExt as _;

pub const URL: &str = "https://queue.test";
pub const READ: &str = "osfoundry:read";
pub const RUN: &str = "osfoundry:run";
pub const NOTFOUND: &str = "Graph run not found or access removed";
/// 2026-11-29T12:00:00Z
pub const START_MS: i64 = 1_795_953_600_000;

pub struct World {
    pub app: App,
    router: axum::Router,
    pub place: Place,
    pub clock: Arc<AtomicI64>,
    seed: Arc<AtomicU64>,
    _dir: Option<tempfile::TempDir>,
}

/// One answer, whole.
#[derive(Debug, Clone)]
pub struct Reply {
    pub status: u16,
    pub headers: axum::http::HeaderMap,
    pub text: String,
}

impl Reply {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|e| panic!("{e}: {}", self.text))
    }
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |v| v.to_str().unwrap())
    }
    /// The answer of a request that must succeed.
    pub fn ok(&self) -> Value {
        assert_eq!(self.status, 200, "{}", self.text);
        self.json()
    }
    /// The code of a refusal.
    pub fn code(&self) -> String {
        self.json()["error"]["code"].as_str().unwrap_or_default().to_owned()
    }
}

async fn open(config: Config, clock: &Arc<AtomicI64>, seed: &Arc<AtomicU64>) -> App {
    let (clock, seed) = (clock.clone(), seed.clone());
    let now = move || Timestamp::from_ms(clock.load(Ordering::Relaxed));
    let random = move |out: &mut [u8]| {
        for chunk in out.chunks_mut(8) {
            let mut z = seed.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            chunk.copy_from_slice(&(z ^ (z >> 31)).to_le_bytes()[..chunk.len()]);
        }
    };
    App::open(config, Arc::new(now), Arc::new(random)).await.unwrap()
}

/// The clock of these tests stands still, so the default rate would soon be used up; a test that sets its own keeps it.
fn unhurried(mut config: Config) -> Config {
    if config.requests_per_second == domain::limits::REQUESTS_PER_SECOND_DEFAULT {
        config.requests_per_second = 1_000_000;
    }
    config
}

impl World {
    pub async fn sqlite() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let place = Place::Sqlite { path: dir.path().join("q.db"), durability: Durability::None };
        Self::at(place, Some(dir)).await
    }

    pub async fn at(place: Place, dir: Option<tempfile::TempDir>) -> Self {
        let config = Config::at(place, URL);
        Self::configured(config, dir).await
    }

    /// On SQLite, with settings of its own.
    pub async fn with(settings: impl FnOnce(&mut Config)) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut config = Config::at(Place::Sqlite { path: dir.path().join("q.db"), durability: Durability::None }, URL);
        settings(&mut config);
        Self::configured(config, Some(dir)).await
    }

    async fn configured(config: Config, dir: Option<tempfile::TempDir>) -> Self {
        let (place, config) = (config.place.clone(), unhurried(config));
        let (clock, seed) = (Arc::new(AtomicI64::new(START_MS)), Arc::new(AtomicU64::new(7)));
        let app = open(config, &clock, &seed).await;
        Self { router: app.router(), app, place, clock, seed, _dir: dir }
    }

    /// Draws other ids than the first instance on its database: with one seed they would meet there as no two real ones do.
    pub fn draw_apart(&self) {
        self.seed.store(0x1234_5678_9abc_def1, Ordering::Relaxed);
    }

    /// The process is gone and another one starts on the same database.
    pub async fn restart(&mut self) {
        self.app = open(unhurried(Config::at(self.place.clone(), URL)), &self.clock, &self.seed).await;
        self.router = self.app.router();
    }

    /// Another process starts, on another database of the same folder.
    pub async fn restart_on(&mut self, file: &str) {
        self.app.close().await;
        let Place::Sqlite { path, .. } = &mut self.place else { panic!("SQLite only") };
        path.set_file_name(file);
        self.restart().await;
    }

    pub fn pass_ms(&self, ms: i64) {
        self.clock.fetch_add(ms, Ordering::Relaxed);
    }

    pub fn now(&self) -> Timestamp {
        Timestamp::from_ms(self.clock.load(Ordering::Relaxed))
    }

    pub async fn send(&self, request: Request<Body>) -> Reply {
        let response = self.router.clone().oneshot(request).await.unwrap();
        let (parts, body) = response.into_parts();
        let bytes = body.collect().await.unwrap().to_bytes();
        Reply { status: parts.status.as_u16(), headers: parts.headers, text: String::from_utf8(bytes.to_vec()).unwrap() }
    }

    pub async fn device(&self, method: &str, path: &str, token: &str, body: impl Into<String>) -> Reply {
        let mut request = Request::builder().method(method).uri(format!("/external-assistants/{path}")).header("graph-relay-version", "1");
        if !token.is_empty() {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        self.send(request.header("content-type", "application/json").body(Body::from(body.into())).unwrap()).await
    }

    pub async fn mcp(&self, token: &str, body: impl Into<String>) -> Reply {
        let mut request = Request::post("/mcp").header("content-type", "application/json").header("accept", "application/json, text/event-stream");
        if !token.is_empty() {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        self.send(request.body(Body::from(body.into())).unwrap()).await
    }

    pub async fn pair(&self, owner: &str, name: &str) -> Desk<'_> {
        let code = self.app.pair_code(owner).await.unwrap().code;
        let answer = self.device("POST", "pair", "", json!({"pairing_code": code, "device_name": name}).to_string()).await.ok();
        Desk { world: self, id: answer["device_id"].as_str().unwrap().into(), token: answer["device_token"].as_str().unwrap().into() }
    }

    /// One owner with a device, a project with the session `digest` ticked, and an agent with both scopes.
    pub async fn set_up(&self) -> (Desk<'_>, String, Agent<'_>) {
        let desk = self.pair("Ada", "Desk").await;
        let project = desk.project("Docs").await;
        desk.share(&project, 1, &[session(1)]).await;
        let agent = desk.agent(&[&project], &[READ, RUN]).await;
        (desk, project, agent)
    }
}

/// The id of the `n`th session.
pub fn gs(n: u32) -> String {
    format!("gs_{n:032x}")
}

pub fn session(n: u32) -> Value {
    json!({"graph_session_id": gs(n), "name": format!("Session {n:03}"), "description": "What it does.", "slug": format!("session-{n}"), "version": 1, "status": "ready"})
}

pub fn done(execution: &str, result: &str) -> String {
    format!(r#"{{"execution_id":"{execution}","status":"completed","result":{result},"total_tokens":7,"reported_cost":null}}"#)
}

/// A paired device.
#[derive(Clone)]
pub struct Desk<'w> {
    pub world: &'w World,
    pub id: String,
    pub token: String,
}

impl<'w> Desk<'w> {
    pub async fn post(&self, path: &str, body: Value) -> Reply {
        self.world.device("POST", path, &self.token, body.to_string()).await
    }
    pub async fn get(&self, path: &str) -> Reply {
        self.world.device("GET", path, &self.token, "").await
    }
    pub async fn delete(&self, path: &str) -> Reply {
        self.world.device("DELETE", path, &self.token, "").await
    }
    pub async fn project(&self, name: &str) -> String {
        self.post("projects", json!({ "name": name })).await.ok()["project_id"].as_str().unwrap().into()
    }
    pub async fn agent(&self, projects: &[&str], scopes: &[&str]) -> Agent<'w> {
        let answer = self.post("agent-tokens", json!({"name": "Claude", "project_ids": projects, "scopes": scopes})).await.ok();
        Agent { world: self.world, id: answer["agent_id"].as_str().unwrap().into(), token: answer["token"].as_str().unwrap().into() }
    }
    pub async fn try_share(&self, project: &str, revision: u64, sessions: &[Value]) -> Reply {
        let relay = json!({"pickup": "poll", "paused": false});
        self.post("graph-relays/sync", json!({"project_id": project, "revision": revision, "sessions": sessions, "relay": relay})).await
    }
    pub async fn share(&self, project: &str, revision: u64, sessions: &[Value]) -> Value {
        self.try_share(project, revision, sessions).await.ok()
    }
    /// The ids a sync with `session(1)` at revision 1 is offered.
    pub async fn offered(&self, project: &str) -> Vec<String> {
        let answer = self.share(project, 1, &[session(1)]).await;
        answer["commands"].as_array().unwrap().iter().map(|c| c["command_id"].as_str().unwrap().to_owned()).collect()
    }
    pub async fn start(&self, command: &str, execution: &str) -> Reply {
        self.post(&format!("graph-relays/commands/{command}/start"), json!({ "execution_id": execution })).await
    }
    pub async fn control(&self, command: &str, execution: &str, hold_ms: u64) -> Reply {
        self.post(&format!("graph-relays/commands/{command}/control"), json!({"execution_id": execution, "hold_ms": hold_ms})).await
    }
    pub async fn complete(&self, command: &str, body: impl Into<String>) -> Reply {
        self.world.device("POST", &format!("graph-relays/commands/{command}/complete"), &self.token, body).await
    }
    pub async fn doorbell(&self, project: &str, after: u64, hold_ms: u64) -> Reply {
        self.post("graph-relays/doorbell", json!({"project_ids": [project], "after": after, "hold_ms": hold_ms})).await
    }
}

/// A connected agent.
#[derive(Clone)]
pub struct Agent<'w> {
    pub world: &'w World,
    pub id: String,
    pub token: String,
}

/// How a tool call came back.
#[derive(Debug, Clone)]
pub struct Told {
    pub reply: Reply,
    pub is_error: bool,
    /// The text block.
    pub text: String,
    pub structured: Value,
}

impl Told {
    pub fn ok(&self) -> &Value {
        assert!(!self.is_error && self.reply.status == 200, "{}", self.reply.text);
        &self.structured
    }
    pub fn refused(&self) -> &str {
        assert!(self.is_error && self.reply.status == 200, "{}", self.reply.text);
        &self.text
    }
}

impl Agent<'_> {
    /// Calls a tool with arguments as they are written.
    pub async fn call(&self, tool: &str, arguments: &str) -> Told {
        let body = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"{tool}","arguments":{arguments}}}}}"#);
        let reply = self.world.mcp(&self.token, body).await;
        let answer: Value = serde_json::from_str(&reply.text).unwrap_or(Value::Null);
        let result = &answer["result"];
        Told {
            is_error: result["isError"] == true,
            text: result["content"][0]["text"].as_str().unwrap_or_default().into(),
            structured: result["structuredContent"].clone(),
            reply,
        }
    }
    pub async fn try_run(&self, session: u32, key: &str, arguments: &str) -> Told {
        let arguments = format!(r#"{{"graph_session_id":"{}","idempotency_key":{},"arguments":{arguments}}}"#, gs(session), json!(key));
        self.call("run_graph_session", &arguments).await
    }
    /// Queues a run of `session(1)`.
    pub async fn run(&self, key: &str) -> String {
        self.try_run(1, key, "{}").await.ok()["command_id"].as_str().unwrap().into()
    }
    pub async fn get(&self, command: &str) -> Value {
        self.call("get_graph_run", &json!({ "command_id": command }).to_string()).await.ok().clone()
    }
    pub async fn cancel(&self, command: &str) -> Value {
        self.call("cancel_graph_run", &json!({ "command_id": command }).to_string()).await.ok().clone()
    }
    /// `status reason`, as a test compares it.
    pub async fn state(&self, command: &str) -> String {
        let run = self.get(command).await;
        format!("{} {}", run["status"].as_str().unwrap(), run["reason"].as_str().unwrap_or("-"))
    }
}
