//! Whatever is sent: never a panic, never a 5xx, always a shape of ours (`hostile.rs` says which). Seeds are fixed; `make long` looks
//! further, guided by coverage.
use proptest::{
    collection::vec,
    prelude::{Just, Strategy, any, prop_oneof},
    sample::select,
    test_runner::{Config, RngAlgorithm, TestRng, TestRunner},
};
use serde_json::{Value, json};

use crate::{
    hostile::{Doors, FORMS, device_routes},
    world::{gs, session},
};

/// Runs `check` on `cases` values that are the same every time.
fn holds<S: Strategy>(cases: u32, strategy: S, check: impl Fn(S::Value)) {
    let config = Config { cases, failure_persistence: None, max_shrink_iters: 4_000, ..Config::default() };
    let mut runner = TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &[7; 32]));
    if let Err(e) = runner.run(&strategy, |value| {
        check(value);
        Ok(())
    }) {
        panic!("{e}");
    }
}

/// Members that mean something somewhere.
const NAMES: &[&str] = &[
    "jsonrpc",
    "id",
    "method",
    "params",
    "name",
    "arguments",
    "_meta",
    "project_id",
    "project_ids",
    "command_id",
    "graph_session_id",
    "idempotency_key",
    "limit",
    "cursor",
    "wait_seconds",
    "taskId",
    "revision",
    "sessions",
    "relay",
    "pickup",
    "paused",
    "disabled",
    "metadata_only",
    "after",
    "hold_ms",
    "execution_id",
    "progress",
    "agents_done",
    "tokens",
    "waiting_approval",
    "status",
    "reason",
    "result",
    "result_truncated",
    "error",
    "total_tokens",
    "reported_cost",
    "pairing_code",
    "device_name",
    "device_id",
    "scopes",
    "text",
    "client_id",
    "client_name",
    "redirect_uris",
    "grant_types",
    "token_endpoint_auth_method",
    "description",
    "slug",
    "version",
    "arguments_schema",
    "asks",
    "protocolVersion",
    "capabilities",
    "clientInfo",
];

/// Values at the edges, as JSON text: not all of them are valid.
const EDGES: &[&str] = &[
    "null",
    "true",
    "0",
    "-0",
    "-1",
    "1.5",
    "1e308",
    "1e400",
    "9007199254740993",
    "18446744073709551616",
    "-9223372036854775809",
    "\"\"",
    "\"\\u0000\"",
    "\"\\ud800\"",
    "\"\\ud83d\\ude00\"",
    "\"\u{202e}\"",
    "[]",
    "{}",
    "[[[[]]]]",
    "{\"\":{}}",
    "{\"a\":1,\"a\":2}",
    "NaN",
    "'",
    "\"unended",
    "[1,",
    "01",
    "\u{feff}null",
    "\"2025-11-25\"",
    "\"2026-07-28\"",
    "\"osfoundry:run\"",
    "\"completed\"",
    "\"failed\"",
    "\"gs_00000000000000000000000000000001\"",
    "\"e1\"",
    "\"tools/call\"",
    "\"tools/list\"",
    "\"initialize\"",
    "\"tasks/get\"",
    "\"notifications/initialized\"",
    "\"ping\"",
    "\"resources/list\"",
    "{\"$ref\":\"https://x.example/s\"}",
    "{\"type\":\"object\",\"pattern\":\"(a+)+$\"}",
    "{\"type\":7}",
    "{\"minimum\":\"x\"}",
    "{\"$ref\":\"#\"}",
];

/// JSON text, mostly valid: members that mean something, values at the edges, deep nests, odd blanks.
fn json_text() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        6 => select(EDGES).prop_map(str::to_owned),
        2 => any::<i64>().prop_map(|n| n.to_string()),
        1 => any::<f64>().prop_map(|n| n.to_string()),
        3 => ".{0,24}".prop_map(|text| Value::from(text).to_string()),
        1 => (0..400usize).prop_map(|n| format!("{}{}", "[".repeat(n), "]".repeat(n))),
        1 => (0..3_000usize).prop_map(|n| format!("\"{}\"", "é".repeat(n))),
    ];
    leaf.prop_recursive(4, 40, 6, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..6).prop_map(|all| format!("[{}]", all.join(" , "))),
            vec((prop_oneof![select(NAMES).prop_map(str::to_owned), ".{0,6}"], inner), 0..8).prop_map(|all| {
                let members: Vec<String> = all.into_iter().map(|(name, value)| format!("{}:{value}", Value::from(name))).collect();
                format!("{{{}}}", members.join(","))
            }),
        ]
    })
}

/// Every place inside a value, as a JSON pointer.
fn places(value: &Value, here: &str, all: &mut Vec<String>) {
    all.push(here.to_owned());
    match value {
        Value::Object(members) => {
            members.iter().for_each(|(name, value)| places(value, &format!("{here}/{}", name.replace('~', "~0").replace('/', "~1")), all))
        }
        Value::Array(items) => items.iter().enumerate().for_each(|(n, value)| places(value, &format!("{here}/{n}"), all)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// A sound request of which one or two places hold something else, or whose text is damaged.
fn nearly(sound: Vec<Value>) -> impl Strategy<Value = String> {
    const MARK: &str = "\u{1}here\u{1}";
    let replaced = (select(sound.clone()), vec((any::<proptest::sample::Index>(), json_text()), 1..3)).prop_map(|(sound, changes)| {
        let mut value = sound;
        let mut texts = Vec::new();
        for (n, (at, text)) in changes.into_iter().enumerate() {
            let mut all = Vec::new();
            places(&value, "", &mut all);
            let mark = format!("{MARK}{n}");
            if let Some(place) = value.pointer_mut(&all[at.index(all.len())]) {
                *place = Value::from(mark.clone());
                texts.push((Value::from(mark).to_string(), text));
            }
        }
        texts.into_iter().fold(value.to_string(), |whole, (mark, text)| whole.replace(&mark, &text))
    });
    let damaged = (select(sound), any::<proptest::sample::Index>(), any::<proptest::sample::Index>(), ".{0,8}").prop_map(|(sound, a, b, between)| {
        let chars: Vec<char> = sound.to_string().chars().collect();
        let (a, b) = (a.index(chars.len() + 1), b.index(chars.len() + 1));
        chars[..a].iter().chain(between.chars().collect::<Vec<_>>().iter()).chain(&chars[b..]).collect::<String>()
    });
    prop_oneof![3 => replaced, 1 => damaged]
}

fn calls(doors: &Doors) -> Vec<Value> {
    let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {"extensions": {"io.modelcontextprotocol/tasks": {}}}});
    let call = |method: &str, params: Value| json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
    let mut all = vec![
        call("initialize", json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}})),
        call("server/discover", json!({"_meta": meta})),
        call("tools/list", json!({})),
        call("ping", json!({})),
        json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
    ];
    for (name, arguments) in arguments(doors) {
        all.push(call("tools/call", json!({"name": name, "arguments": arguments, "_meta": meta})));
    }
    for method in ["tasks/get", "tasks/cancel", "tasks/update"] {
        all.push(call(method, json!({"taskId": doors.commands[0], "inputResponses": {}, "_meta": meta})));
    }
    all
}

fn arguments(doors: &Doors) -> Vec<(&'static str, Value)> {
    vec![
        ("cancel_graph_run", json!({"command_id": doors.commands[2]})),
        ("get_graph_run", json!({"command_id": doors.commands[1], "wait_seconds": 25})),
        ("list_graph_sessions", json!({"project_id": doors.project, "limit": 1, "cursor": "x"})),
        ("list_projects", json!({})),
        ("run_graph_session", json!({"graph_session_id": gs(2), "idempotency_key": "key-00009", "arguments": {"n": 1}})),
    ]
}

fn device_bodies(doors: &Doors) -> Vec<Value> {
    let progress = json!({"phase": "p", "agents_done": 1, "agents_total": 2, "tokens": 3, "waiting_approval": [{"tool": "t", "agent": "a", "seconds_left": 4}], "text": "x"});
    let mut shared = session(1);
    shared["arguments_schema"] = json!({"type": "object", "properties": {"n": {"type": "integer"}}});
    shared["asks"] = json!(["shell"]);
    vec![
        json!({"pairing_code": "AAAAAAAA", "device_name": "x", "device_id": "3f2b8c1e-9a4d-4c6b-8e2f-0a1b2c3d4e5f"}),
        json!({"project_id": doors.project, "revision": 3, "sessions": [shared], "relay": {"pickup": "poll", "paused": false}, "metadata_only": true, "disabled": false}),
        json!({"project_ids": [doors.project], "after": 0, "hold_ms": 25_000}),
        json!({"execution_id": "e1"}),
        json!({"execution_id": "e1", "progress": progress, "hold_ms": 3_000}),
        json!({"execution_id": "e1", "status": "completed", "result": {"a": 1}, "total_tokens": 7, "reported_cost": 0.5}),
        json!({"execution_id": "e1", "status": "failed", "reason": "deadline", "error": "late", "total_tokens": 7, "reported_cost": null}),
        json!({"execution_id": null, "status": "cancelled", "reason": "not_shared", "error": "Graph session is no longer shared with this project"}),
        json!({"name": "Docs"}),
        json!({"name": "Claude", "project_ids": [doors.project], "scopes": ["osfoundry:read", "osfoundry:run"]}),
        json!({"name": "Digest", "text": "return 1"}),
    ]
}

#[test]
fn no_message_to_mcp_breaks_anything() {
    let doors = Doors::open();
    holds(1_000, (prop_oneof![4 => nearly(calls(&doors)), 1 => json_text()], any::<bool>()), |(body, stateless)| {
        doors.mcp(body.as_bytes(), stateless)
    });
    holds(300, vec(any::<u8>(), 0..200), |body| doors.mcp(&body, false));
}

#[test]
fn no_arguments_of_a_tool_break_anything() {
    let doors = Doors::open();
    let tools: Vec<_> = arguments(&doors).into_iter().enumerate().map(|(n, (_, arguments))| (n, arguments)).collect();
    let nearly = select(tools).prop_flat_map(|(n, arguments)| (Just(n), prop_oneof![3 => nearly(vec![arguments]), 1 => json_text()]));
    holds(1_000, nearly, |(tool, arguments)| doors.tool(tool, arguments.as_bytes()));
}

#[test]
fn no_body_of_a_device_breaks_anything() {
    let doors = Doors::open();
    let body = prop_oneof![5 => nearly(device_bodies(&doors)), 2 => select(device_bodies(&doors)).prop_map(|b| b.to_string()), 1 => json_text()];
    holds(1_500, (0..device_routes().len(), 0..7usize, body), |(route, id, body)| doors.device(route, id, body.as_bytes()));
    holds(400, (0..device_routes().len(), vec(any::<u8>(), 0..200)), |(route, body)| doors.device(route, 1, &body));
    let query =
        vec((select(vec!["project_id", "status", "limit", "cursor", "x"]), prop_oneof![select(EDGES).prop_map(str::to_owned), ".{0,12}"]), 0..4);
    holds(400, query, |pairs| {
        doors.query(&pairs.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join("&").into_bytes());
    });
}

#[test]
fn no_form_and_no_registration_breaks_anything() {
    let doors = Doors::open();
    let names = vec![
        "grant_type",
        "code",
        "code_verifier",
        "redirect_uri",
        "client_id",
        "client_secret",
        "refresh_token",
        "scope",
        "resource",
        "token",
        "request",
        "connect_code",
        "decision",
        "continue_as",
        "response_type",
        "code_challenge",
        "code_challenge_method",
        "state",
        "code",
        "%00",
        "",
    ];
    let values = prop_oneof![
        2 => ".{0,40}",
        4 => select(vec![
            "authorization_code", "refresh_token", "code", "S256", "osfoundry:read osfoundry:run", "https://queue.test/mcp", "allow", "deny", "https://a.example/x",
            "https://[::1]/x", "http://localhost:1/callback", "javascript:alert(1)", "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM", "%FF%FE", "a+b%2", "\u{0}",
        ]).prop_map(str::to_owned),
    ];
    let form = vec((select(names), values), 0..9)
        .prop_map(|pairs| pairs.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join("&"));
    holds(1_000, (0..FORMS.len(), form), |(door, form)| doors.form(door, form.as_bytes()));
    holds(300, (0..FORMS.len(), vec(any::<u8>(), 0..200)), |(door, form)| doors.form(door, &form));
    let about = json!({"client_name": "A", "redirect_uris": ["https://a.example/cb"], "token_endpoint_auth_method": "none", "grant_types": ["authorization_code"]});
    let register = FORMS.iter().position(|(_, path)| *path == "/oauth/register").unwrap();
    holds(1_000, nearly(vec![about]), |text| doors.form(register, text.as_bytes()));
}

#[test]
fn no_document_of_a_client_breaks_anything() {
    let doors = Doors::open();
    let about = json!({"client_id": "$ID", "client_name": "A", "redirect_uris": ["https://client.test/back"], "token_endpoint_auth_method": "none"});
    holds(1_500, prop_oneof![4 => nearly(vec![about]), 1 => json_text()], |text| doors.document(text.as_bytes()));
}
