//! Graph Queue alone: durable enqueues, tool calls against the same server's bare answer, held doorbells.
use std::{sync::Arc, time::Instant};

use serde_json::{Value, json};

use crate::{
    programs::{self, Program},
    stats::{Spread, ms},
};

/// A paired device, a project with one session, an agent's token: all over the public interfaces.
pub struct Setting {
    pub base: String,
    pub http: reqwest::Client,
    pub device_token: String,
    pub project: String,
    pub session: String,
    pub agent_token: String,
}

impl Setting {
    pub async fn make(base: &str, code: &str) -> Self {
        let http = reqwest::Client::builder().pool_max_idle_per_host(256).build().unwrap();
        let paired = post(&http, &format!("{base}/external-assistants/pair"), None, &json!({"pairing_code": code, "device_name": "bench"})).await;
        let device_token = text(&paired["device_token"]);
        let project =
            text(&post(&http, &format!("{base}/external-assistants/projects"), Some(&device_token), &json!({"name": "Bench"})).await["project_id"]);
        let grant = json!({"name": "bench", "project_ids": [project], "scopes": ["osfoundry:read", "osfoundry:run"]});
        let agent_token = text(&post(&http, &format!("{base}/external-assistants/agent-tokens"), Some(&device_token), &grant).await["token"]);
        let setting = Self { base: base.to_owned(), http, device_token, project, session: format!("gs_{:032x}", 7), agent_token };
        setting.sync().await;
        setting
    }

    pub async fn sync(&self) -> Value {
        let session = json!({"graph_session_id": self.session, "name": "Bench", "description": "", "slug": "bench", "version": 1, "status": "ready"});
        let body = json!({"project_id": self.project, "revision": 1, "sessions": [session], "relay": {"pickup": "doorbell", "paused": false}});
        post(&self.http, &format!("{}/external-assistants/graph-relays/sync", self.base), Some(&self.device_token), &body).await
    }

    pub async fn tool(&self, name: &str, arguments: Value) -> Value {
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": name, "arguments": arguments}});
        let request = self.http.post(format!("{}/mcp", self.base)).bearer_auth(&self.agent_token);
        let request = request.header("accept", "application/json, text/event-stream").header("mcp-protocol-version", "2025-06-18");
        let answer: Value = request.json(&body).send().await.unwrap().json().await.unwrap();
        assert!(answer["result"]["isError"] != true && answer.get("error").is_none(), "{name}: {answer}");
        answer["result"]["structuredContent"].clone()
    }

    pub async fn enqueue(&self, key: &str) -> String {
        let ticket = self.tool("run_graph_session", json!({"graph_session_id": self.session, "arguments": {"n": 1}, "idempotency_key": key})).await;
        text(&ticket["command_id"])
    }
}

pub fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("no text: {value}")).to_owned()
}

pub async fn post(http: &reqwest::Client, url: &str, token: Option<&str>, body: &Value) -> Value {
    let mut request = http.post(url).header("graph-relay-version", "1").json(body);
    if let Some(token) = token {
        request = request.bearer_auth(token);
    }
    let answer = request.send().await.unwrap();
    let status = answer.status();
    let body = answer.text().await.unwrap();
    assert!(status.is_success(), "{url}: {status} {body}");
    serde_json::from_str(&body).unwrap()
}

fn start(dir: &std::path::Path) -> (Program, String, String) {
    let queue = programs::queue(dir, &["--queued-per-project", "1000000", "--requests-per-second", "1000000"]);
    let base = queue.first_line.strip_prefix("listening on ").unwrap().to_owned();
    (queue, base, programs::pairing_code(dir))
}

/// `times` calls by each of `callers` at once; each call's milliseconds, and calls per second.
async fn load<F, Fut>(callers: usize, times: usize, call: F) -> (Spread, f64)
where
    F: Fn(usize) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = ()> + Send,
{
    let (call, at) = (Arc::new(call), Instant::now());
    let tasks: Vec<_> = (0..callers)
        .map(|caller| {
            let call = call.clone();
            tokio::spawn(async move {
                let mut samples = Vec::with_capacity(times);
                for n in 0..times {
                    let at = Instant::now();
                    call(caller * times + n).await;
                    samples.push(at.elapsed().as_secs_f64() * 1000.0);
                }
                samples
            })
        })
        .collect();
    let mut samples = Vec::new();
    for task in tasks {
        samples.extend(task.await.unwrap());
    }
    (Spread::of(samples), (callers * times) as f64 / at.elapsed().as_secs_f64())
}

pub async fn measure() -> Value {
    let dir = tempfile::tempdir_in(programs::scratch()).unwrap();
    let (queue, base, code) = start(dir.path());
    let (cold_ms, idle_mib) = (queue.started_ms, queue.rss_mib());
    println!("\nGraph Queue on SQLite: cold start {}, {idle_mib:.1} MiB idle", ms(cold_ms));
    let setting = Arc::new(Setting::make(&base, &code).await);

    let s = setting.clone();
    let (bare, bare_rate) = load(1, 2000, move |_| {
        let s = s.clone();
        async move {
            s.http.get(format!("{}/healthz", s.base)).send().await.unwrap().bytes().await.unwrap();
        }
    })
    .await;
    let s = setting.clone();
    let (no_op, no_op_rate) = load(1, 2000, move |_| {
        let s = s.clone();
        async move {
            s.tool("list_projects", json!({})).await;
        }
    })
    .await;
    let mut enqueue = Vec::new();
    for callers in [1, 10, 32, 64] {
        let s = setting.clone();
        let (spread, rate) = load(callers, 2000 / callers, move |n| {
            let s = s.clone();
            async move {
                s.enqueue(&format!("bench-{callers}-{n:08}")).await;
            }
        })
        .await;
        println!("  run_graph_session, durable, {callers:2} callers: {rate:7.0}/s, p50 {}, p99 {}", ms(spread.p50), ms(spread.p99));
        enqueue.push(json!({"callers": callers, "per_second": rate.round(), "ms": spread.to_json()}));
    }
    let command = setting.enqueue("bench-one-to-read").await;
    let s = setting.clone();
    let (get, get_rate) = load(1, 2000, move |_| {
        let (s, command) = (s.clone(), command.clone());
        async move {
            s.tool("get_graph_run", json!({"command_id": command})).await;
        }
    })
    .await;
    let s = setting.clone();
    let (sync, _) = load(1, 200, move |_| {
        let s = s.clone();
        async move {
            s.sync().await;
        }
    })
    .await;
    println!(
        "  bare GET {} ({bare_rate:.0}/s) · list_projects {} ({no_op_rate:.0}/s) · get_graph_run {} ({get_rate:.0}/s)",
        ms(bare.p50),
        ms(no_op.p50),
        ms(get.p50)
    );
    println!("  get_graph_run ÷ list_projects = {:.2} · sync with 8,001 queued: p50 {}", get.p50 / no_op.p50, ms(sync.p50));
    println!("  {:.1} MiB after the load", queue.rss_mib());
    json!({
        "cold_start_ms": cold_ms, "rss_mib_idle": idle_mib, "rss_mib_after": queue.rss_mib(),
        "bare_get_ms": bare.to_json(), "no_op_tool_ms": no_op.to_json(), "get_graph_run_ms": get.to_json(), "get_over_no_op": get.p50 / no_op.p50,
        "enqueue": enqueue, "sync_8k_queued_ms": sync.to_json(),
    })
}

/// Many devices hold their doorbells; one command rings one of them.
pub async fn doorbells(devices: usize) -> Value {
    let dir = tempfile::tempdir_in(programs::scratch()).unwrap();
    let (queue, base, _) = start(dir.path());
    let before = queue.rss_mib();
    let http = reqwest::Client::builder().pool_max_idle_per_host(0).build().unwrap();
    // One owner per device, so that each is a stranger to the others.
    let mut settings = Vec::new();
    let holders = devices.min(500);
    for _ in 0..holders {
        settings.push(Arc::new(Setting::make(&base, &programs::pairing_code(dir.path())).await));
    }
    let per_device = devices / holders;
    let mut held = Vec::new();
    for n in 0..holders * per_device {
        let (s, http) = (settings[n % holders].clone(), http.clone());
        held.push(tokio::spawn(async move {
            let body = json!({"project_ids": [s.project], "after": 0, "hold_ms": 25_000});
            let request = http.post(format!("{}/external-assistants/graph-relays/doorbell", s.base)).bearer_auth(&s.device_token);
            let answer = request.header("graph-relay-version", "1").json(&body).send().await.unwrap();
            (answer.status().as_u16(), Instant::now())
        }));
    }
    println!("\n{} held doorbells of {holders} devices: {:.1} MiB more than idle", held.len(), queue.rss_mib() - before);
    let mut rings = Vec::new();
    for s in settings.iter().take(100) {
        let at = Instant::now();
        s.enqueue("bench-ring-000001").await;
        rings.push(at.elapsed().as_secs_f64() * 1000.0);
    }
    let rings = Spread::of(rings);
    drop(held);
    json!({"held": holders * per_device, "devices": holders, "mib_more": queue.rss_mib() - before, "enqueue_while_held_ms": rings.to_json()})
}
