//! What anybody may send to every door that reads something, and what must hold of any answer: no panic, no 5xx, a shape of ours.
//!
//! The property tests (`properties.rs`) and the coverage-guided targets (`fuzz/`) share it, so that both ask the same of the same code.
use std::sync::{Arc, Mutex};

use axum::{body::Body, http::Request};
use serde_json::{Value, json};
use server::{
    app::{Route, routes},
    oauth::documents::{DocumentError, Documents},
    store::BoxFuture,
};

use crate::world::{Reply, World, done, gs, session};

/// Answers every fetch with the text it was last given.
#[derive(Clone, Default)]
struct Said(Arc<Mutex<String>>);

impl Documents for Said {
    fn fetch(&self, _: url::Url) -> BoxFuture<'static, Result<String, DocumentError>> {
        let text = self.0.lock().unwrap().clone();
        Box::pin(async move { Ok(text) })
    }
}

/// An owner's queue with everything in it that a request can name, on a clock that does not wait.
pub struct Doors {
    runtime: tokio::runtime::Runtime,
    world: World,
    said: Said,
    asked: std::cell::Cell<u64>,
    pub device: String,
    pub agent: String,
    pub project: String,
    /// Commands in different states: queued, running as execution `e1`, completed.
    pub commands: Vec<String>,
}

/// The routes of the device API that read a body, from the router's own table.
pub fn device_routes() -> Vec<&'static Route> {
    routes().filter(|r| r.path.starts_with("/external-assistants/") && !matches!(r.method, "get" | "delete")).collect()
}

/// The doors of the authorization server and of the owner's page that read a form, a query or JSON.
pub const FORMS: [(&str, &str); 6] = [
    ("POST", "/oauth/token"),
    ("POST", "/oauth/revoke"),
    ("POST", "/oauth/register"),
    ("POST", "/oauth/authorize"),
    ("GET", "/oauth/authorize"),
    ("POST", "/owner/api/sign-in"),
];

impl Doors {
    pub fn open() -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        let said = Said::default();
        let documents = said.clone();
        let (world, device, agent, project, commands) = runtime.block_on(async {
            let world = World::with(|config| config.documents = Some(Arc::new(documents))).await;
            let (desk, project, agent) = world.set_up().await;
            let mut with_schema = session(2);
            with_schema["arguments_schema"] = json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]});
            desk.share(&project, 2, &[session(1), with_schema]).await;
            let commands = vec![agent.run("key-00001").await, agent.run("key-00002").await, agent.run("key-00003").await];
            desk.start(&commands[1], "e1").await.ok();
            desk.complete(&commands[2], done("e2", "1")).await.ok();
            let (device, agent) = (desk.token.clone(), agent.token.clone());
            (world, device, agent, project, commands)
        });
        Self { runtime, world, said, asked: std::cell::Cell::new(0), device, agent, project, commands }
    }

    fn send(&self, request: Request<Body>) -> Reply {
        let reply = self.runtime.block_on(self.world.send(request));
        assert!(reply.status < 500, "{} {}", reply.status, reply.text);
        reply
    }

    /// A whole body to `/mcp`, as a connected agent and as nobody, in the old protocol or the stateless one.
    pub fn mcp(&self, body: &[u8], stateless: bool) {
        for token in [&self.agent, ""] {
            let mut request = Request::post("/mcp").header("content-type", "application/json").header("accept", "application/json");
            if !token.is_empty() {
                request = request.header("authorization", format!("Bearer {token}"));
            }
            if stateless {
                let method = serde_json::from_slice::<Value>(body).ok().and_then(|v| v["method"].as_str().map(str::to_owned));
                let method = method.filter(|m| m.bytes().all(|b| b.is_ascii_graphic())).unwrap_or_else(|| "tools/call".into());
                request = request.header("mcp-protocol-version", "2026-07-28").header("mcp-method", method);
            }
            let reply = self.send(request.body(Body::from(body.to_vec())).unwrap());
            is_json_rpc(&reply);
        }
    }

    /// Arguments of a tool, put into an otherwise sound call.
    pub fn tool(&self, tool: usize, arguments: &[u8]) {
        let tools = ["cancel_graph_run", "get_graph_run", "list_graph_sessions", "list_projects", "run_graph_session"];
        let mut body = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"{}","arguments":"#, tools[tool % tools.len()]);
        body.push_str(&String::from_utf8_lossy(arguments));
        body.push_str("}}");
        self.mcp(body.as_bytes(), false);
    }

    /// A body to a route of the device API; `id` chooses what stands in its path.
    pub fn device(&self, route: usize, id: usize, body: &[u8]) {
        let all = device_routes();
        let route = all[route % all.len()];
        let gs = gs(1);
        let ids = [&self.commands[0], &self.commands[1], &self.commands[2], &self.project, &gs, "3f2b8c1e-9a4d-4c6b-8e2f-0a1b2c3d4e5f", "%00"];
        let path = route.path.replace("{id}", ids[id % ids.len()]);
        let request = Request::builder().method(route.method.to_uppercase().as_str()).uri(path).header("graph-relay-version", "1");
        let request = request.header("authorization", format!("Bearer {}", self.device)).header("content-type", "application/json");
        is_ours(&self.send(request.body(Body::from(body.to_vec())).unwrap()));
    }

    /// The query of the owner's list of commands.
    pub fn query(&self, query: &[u8]) {
        let request = Request::get(format!("/external-assistants/commands?{}", encoded(query))).header("graph-relay-version", "1");
        is_ours(&self.send(request.header("authorization", format!("Bearer {}", self.device)).body(Body::empty()).unwrap()));
    }

    /// A form, a query or JSON to a door of the authorization server or the owner's page.
    pub fn form(&self, door: usize, text: &[u8]) {
        let (method, path) = FORMS[door % FORMS.len()];
        let request = match method {
            "GET" => Request::get(format!("{path}?{}", encoded(text))).body(Body::empty()),
            _ => Request::post(path).header("content-type", "application/x-www-form-urlencoded").body(Body::from(text.to_vec())),
        };
        let reply = self.send(request.unwrap());
        match path {
            "/oauth/authorize" => is_page(&reply),
            "/owner/api/sign-in" => is_ours(&reply),
            _ => is_oauth(&reply),
        }
    }

    /// What a client says of itself at its address, fetched during an authorize request; and the same pinned by the operator.
    pub fn document(&self, text: &[u8]) {
        let text = String::from_utf8_lossy(text);
        let n = self.asked.get();
        self.asked.set(n + 1);
        let id = format!("https://client.test/about/{n}");
        *self.said.0.lock().unwrap() = text.replace("$ID", &id);
        let query: String = url::form_urlencoded::Serializer::new(String::new())
            .extend_pairs([("client_id", id.as_str()), ("redirect_uri", "https://client.test/back"), ("response_type", "code")])
            .finish();
        is_page(&self.send(Request::get(format!("/oauth/authorize?{query}")).body(Body::empty()).unwrap()));
    }
}

/// Bytes as they may stand in a query: what the HTTP library would refuse on its own is percent-encoded.
fn encoded(query: &[u8]) -> String {
    query
        .iter()
        .map(|b| if b.is_ascii_graphic() && !b"\"<>\\^`{|}#".contains(b) { char::from(*b).to_string() } else { format!("%{b:02X}") })
        .collect()
}

fn object(reply: &Reply) -> Value {
    let value: Value = serde_json::from_str(&reply.text).unwrap_or_else(|e| panic!("{e}: {} {:?}", reply.status, reply.text));
    assert!(value.is_object(), "{}", reply.text);
    value
}

/// The envelope of the device API, or a success in JSON.
fn is_ours(reply: &Reply) {
    let answer = object(reply);
    if reply.status >= 300 {
        let error = &answer["error"];
        assert!(error["code"].is_string() && error["message"].is_string() && error["retryable"].is_boolean(), "{} {}", reply.status, reply.text);
    }
}

fn is_json_rpc(reply: &Reply) {
    if reply.status == 202 {
        return assert_eq!(reply.text, "", "a notification is not answered");
    }
    if matches!(reply.status, 408 | 413 | 429) {
        return is_ours(reply);
    }
    let answer = object(reply);
    assert_eq!(answer["jsonrpc"], "2.0", "{} {}", reply.status, reply.text);
    let (result, error) = (&answer["result"], &answer["error"]);
    assert!(result.is_object() != (error["code"].is_i64() && error["message"].is_string()), "{} {}", reply.status, reply.text);
    assert_eq!(reply.header("www-authenticate").is_empty(), !matches!(reply.status, 401 | 403), "{}", reply.status);
    if result["content"].is_array() {
        assert!(result["isError"] == true || result["structuredContent"].is_object(), "{}", reply.text);
    }
}

fn is_oauth(reply: &Reply) {
    let answer = object(reply);
    match reply.status {
        200 | 201 => assert_eq!(answer.get("error"), None),
        429 => is_ours(reply),
        _ => assert!(answer["error"].is_string() && answer["error_description"].is_string(), "{} {}", reply.status, reply.text),
    }
}

fn is_page(reply: &Reply) {
    match reply.status {
        303 => assert!(!reply.header("location").is_empty()),
        429 => is_ours(reply),
        _ => {
            assert!(matches!(reply.status, 200 | 400), "{} {}", reply.status, reply.text);
            assert!(reply.header("content-type").starts_with("text/html") && reply.header("content-security-policy").contains("default-src 'none'"));
        }
    }
}
