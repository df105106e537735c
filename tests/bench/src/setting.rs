//! A paired device, a project with one session, an agent's token: all over the public interfaces.
use std::sync::Arc;

use serde_json::{Value, json};

pub struct Setting {
    pub base: String,
    pub http: reqwest::Client,
    pub device_token: String,
    pub project: String,
    pub session: String,
    pub agent_token: String,
}

pub fn client() -> reqwest::Client {
    reqwest::Client::builder().pool_max_idle_per_host(256).build().unwrap()
}

impl Setting {
    pub async fn make(base: &str, code: &str) -> Arc<Self> {
        Self::pair(base, code, 7).await
    }

    pub async fn pair(base: &str, code: &str, session: u128) -> Arc<Self> {
        let http = client();
        let paired = post(&http, &format!("{base}/external-assistants/pair"), None, &json!({"pairing_code": code, "device_name": "bench"})).await;
        Self::of_device(base, http, text(&paired["device_token"]), session).await
    }

    /// A project, a session and an agent of a device that is paired already.
    pub async fn of_device(base: &str, http: reqwest::Client, device_token: String, session: u128) -> Arc<Self> {
        let projects = format!("{base}/external-assistants/projects");
        let project = text(&post(&http, &projects, Some(&device_token), &json!({"name": format!("Bench {session}")})).await["project_id"]);
        let grant = json!({"name": "bench", "project_ids": [project], "scopes": ["osfoundry:read", "osfoundry:run"]});
        let minted = post(&http, &format!("{base}/external-assistants/agent-tokens"), Some(&device_token), &grant).await;
        let agent_token = text(&minted["token"]);
        let setting = Self { base: base.to_owned(), http, device_token, project, session: format!("gs_{session:032x}"), agent_token };
        setting.sync().await;
        Arc::new(setting)
    }

    pub async fn sync(&self) -> Value {
        let session = json!({"graph_session_id": self.session, "name": "Bench", "description": "", "slug": "bench", "version": 1, "status": "ready"});
        let body = json!({"project_id": self.project, "revision": 1, "sessions": [session], "relay": {"pickup": "doorbell", "paused": false}});
        post(&self.http, &format!("{}/external-assistants/graph-relays/sync", self.base), Some(&self.device_token), &body).await
    }

    pub async fn tool(&self, name: &str, arguments: Value) -> Value {
        call(&self.http, &format!("{}/mcp", self.base), &self.agent_token, name, arguments).await
    }

    pub async fn enqueue(&self, key: &str) -> String {
        let ticket = self.tool("run_graph_session", json!({"graph_session_id": self.session, "arguments": {"n": 1}, "idempotency_key": key})).await;
        text(&ticket["command_id"])
    }
}

/// One tool call; its structured answer.
pub async fn call(http: &reqwest::Client, url: &str, token: &str, name: &str, arguments: Value) -> Value {
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": name, "arguments": arguments}});
    let request = http.post(url).bearer_auth(token);
    let request = request.header("accept", "application/json, text/event-stream").header("mcp-protocol-version", "2025-06-18");
    let answer: Value = request.json(&body).send().await.unwrap().json().await.unwrap();
    assert!(answer["result"]["isError"] != true && answer.get("error").is_none(), "{name}: {answer}");
    answer["result"]["structuredContent"].clone()
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
