//! Ten thousand devices hold their doorbells; now and then one is rung.
use std::{
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use futures::{StreamExt as _, stream};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::{
    programs,
    queue::start,
    setting::{Setting, post},
    stats::{Spread, ms},
};

const RINGS: usize = 500;

pub async fn measure(devices: usize) -> Value {
    let dir = tempfile::tempdir_in(programs::scratch()).unwrap();
    let (queue, base) = start(dir.path());
    let code = programs::pairing_code(dir.path().join("queue.db").to_str().unwrap());
    let first = Setting::make(&base, &code).await;
    drop(queue);
    let tokens = pair_many(&dir.path().join("queue.db"), devices);
    let (queue, base) = start(dir.path());

    // Each has its own session in the one project of their owner, so that each is rung alone.
    let http = reqwest::Client::builder().pool_max_idle_per_host(64).build().unwrap();
    let ringers: Vec<Ringer> = stream::iter(tokens.into_iter().enumerate())
        .map(|(n, token)| {
            let ringer = Ringer { base: base.clone(), token, project: first.project.clone(), session: format!("gs_{:032x}", 1_000_000 + n) };
            let http = http.clone();
            async move {
                ringer.sync(&http).await;
                ringer
            }
        })
        .buffered(32)
        .collect()
        .await;
    let before = queue.rss_mib();
    // One connection each: nothing is shared between devices.
    let (answered, mut answers) = tokio::sync::mpsc::unbounded_channel();
    let open = Arc::new(tokio::sync::Semaphore::new(200));
    let mut holders = tokio::task::JoinSet::new();
    for (n, ringer) in ringers.iter().enumerate() {
        let (body, url, token) = (ringer.question(), ringer.url("doorbell"), ringer.token.clone());
        let (answered, open) = (answered.clone(), open.clone());
        holders.spawn(async move {
            let http = reqwest::Client::builder().pool_max_idle_per_host(1).build().unwrap();
            loop {
                // Not all handshakes in one instant: a listening socket's queue is short.
                let place = open.acquire().await.unwrap();
                let mut asked = std::pin::pin!(post(&http, &url, Some(&token), &body));
                let soon = tokio::time::timeout(Duration::from_millis(20), &mut asked).await;
                drop(place);
                let answer = match soon {
                    Ok(answer) => answer,
                    Err(_) => asked.await,
                };
                if answer["rang"] == true {
                    let _ = answered.send((n, Instant::now()));
                    return;
                }
            }
        });
    }
    while held(&http, &base).await < devices {
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    let more = queue.rss_mib() - before;
    println!("\n{devices} devices hold their doorbells: {more:.1} MiB more, {:.1} KiB each", more * 1024.0 / devices as f64);
    let agent = Setting { base: base.clone(), http: http.clone(), ..Arc::try_unwrap(first).ok().unwrap() };
    let mut rings = Vec::new();
    for k in 0..RINGS {
        let n = k * (devices / RINGS);
        let at = Instant::now();
        let arguments = json!({"graph_session_id": ringers[n].session, "idempotency_key": format!("bench-ring-{n:08}")});
        agent.tool("run_graph_session", arguments).await;
        let (rung, heard) = answers.recv().await.unwrap();
        assert_eq!(rung, n, "another device was rung");
        rings.push((heard - at).as_secs_f64() * 1000.0);
    }
    holders.shutdown().await;
    let rings = Spread::of(rings);
    println!("  from ticket asked to doorbell answered: p50 {}, p99 {} (n = {RINGS})", ms(rings.p50), ms(rings.p99));
    json!({"devices": devices, "held": devices, "mib_more": more, "kib_each": more * 1024.0 / devices as f64, "ring_ms": rings.to_json()})
}

struct Ringer {
    base: String,
    token: String,
    project: String,
    session: String,
}

impl Ringer {
    fn url(&self, what: &str) -> String {
        format!("{}/external-assistants/graph-relays/{what}", self.base)
    }
    fn question(&self) -> Value {
        json!({"project_ids": [self.project], "after": 0, "hold_ms": 25_000})
    }
    async fn sync(&self, http: &reqwest::Client) {
        let session = json!({"graph_session_id": self.session, "name": "Bench", "description": "", "slug": "bench", "version": 1, "status": "ready"});
        let body = json!({"project_id": self.project, "revision": 1, "sessions": [session], "relay": {"pickup": "doorbell", "paused": false}});
        post(http, &self.url("sync"), Some(&self.token), &body).await;
    }
}

/// Held requests, as the queue counts them.
async fn held(http: &reqwest::Client, base: &str) -> usize {
    let text = http.get(format!("{base}/metrics")).send().await.unwrap().text().await.unwrap();
    let value = text.lines().find_map(|l| l.strip_prefix("graph_queue_held_requests ")).unwrap_or_else(|| panic!("no held requests in {text}"));
    value.parse().unwrap()
}

/// What ten thousand pairings would have stored; their tokens.
fn pair_many(database: &Path, devices: usize) -> Vec<String> {
    let mut connection = rusqlite::Connection::open(database).unwrap();
    let owner: String = connection.query_row("SELECT owner_id FROM owners", [], |row| row.get(0)).unwrap();
    let transaction = connection.transaction().unwrap();
    let tokens = (0..devices).map(|n| {
        let token = format!("bench-device-token-{n:08}");
        let hash: String = Sha256::digest(token.as_bytes()).iter().map(|b| format!("{b:02x}")).collect();
        transaction
            .execute(
                "INSERT INTO devices (device_id, owner_id, name_json, token_hash, created_at, pickup, paused) VALUES (?, ?, '\"bench\"', ?, 0, 'doorbell', 0)",
                [uuid::Uuid::from_u128(0x4000_8000_0000_0000_0000 + n as u128).to_string(), owner.clone(), hash],
            )
            .unwrap();
        token
    });
    let tokens = tokens.collect();
    transaction.commit().unwrap();
    tokens
}
