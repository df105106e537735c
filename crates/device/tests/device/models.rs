//! The Models place against a provider of a few lines: the test that completes, prices of the owner's own, addresses as they are pasted.
use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    sync::{Arc, Mutex},
};

use agent::approvals::Attendance;
use serde_json::{Value, json};

use crate::desk::{World, world};

/// A provider that lists one model and says hello; every request's first line and body are kept. `/bad/…` refuses the key.
struct Provider {
    port: u16,
    seen: Arc<Mutex<Vec<(String, Value)>>>,
}

impl Provider {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (port, seen) = (listener.local_addr().unwrap().port(), Arc::default());
        let kept = Arc::clone(&seen);
        std::thread::spawn(move || listener.incoming().flatten().for_each(|stream| answer(stream, &kept).unwrap_or_default()));
        Self { port, seen }
    }
    fn at(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }
    fn seen(&self) -> Vec<(String, Value)> {
        self.seen.lock().unwrap().clone()
    }
}

fn answer(stream: TcpStream, seen: &Mutex<Vec<(String, Value)>>) -> Option<()> {
    let (mut reader, mut length) = (BufReader::new(&stream), 0);
    let mut first = String::new();
    reader.read_line(&mut first).ok()?;
    let mut line = String::new();
    while reader.read_line(&mut line).ok()? > 2 {
        if let Some(n) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = n.trim().parse().ok()?;
        }
        line.clear();
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let asked = first.rsplit_once(' ')?.0.to_owned();
    seen.lock().unwrap().push((asked.clone(), serde_json::from_slice(&body).unwrap_or_default()));
    let piece = |delta: Value, finish: Value| {
        format!("data: {}\n\n", json!({ "id": "x", "model": "m", "choices": [{ "index": 0, "delta": delta, "finish_reason": finish }] }))
    };
    let (status, kind, text) = match asked.as_str() {
        path if path.contains("/bad/") => ("401 Unauthorized", "application/json", json!({ "error": { "message": "no such key" } }).to_string()),
        path if path.ends_with("/models") => ("200 OK", "application/json", json!({ "data": [{ "id": "m" }] }).to_string()),
        _ => {
            let usage = json!({ "id": "x", "choices": [], "usage": { "prompt_tokens": 14, "completion_tokens": 3, "total_tokens": 17 } });
            let text = [
                piece(json!({ "content": "Hel" }), Value::Null),
                piece(json!({ "content": "lo" }), json!("stop")),
                format!("data: {usage}\n\n"),
                "data: [DONE]\n\n".into(),
            ];
            ("200 OK", "text/event-stream", text.concat())
        }
    };
    let head = format!("HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", text.len());
    (&stream).write_all((head + &text).as_bytes()).ok()
}

async fn add(w: &World, name: &str, address: String, models: &[&str]) -> Value {
    let draft = json!({ "provider_id": null, "kind": "openai_compatible", "name": name, "address": address, "key": "sk-marked-4711", "models": models, "concurrency": 0 });
    let view = w.desk.call("provider_save", json!({ "provider": draft })).await.unwrap();
    view["providers"].as_array().unwrap().iter().find(|p| p["name"] == name).unwrap().clone()
}
async fn test(w: &World, row: &Value) -> (bool, String) {
    let test = w.desk.provider_test(row["provider_id"].as_str().unwrap().into()).await.unwrap();
    (test.ok, test.text.text)
}

#[tokio::test]
async fn testing_a_provider_lets_its_model_say_a_word() {
    let (w, provider) = (world(Attendance::None).await, Provider::start());
    let row = add(&w, "here", provider.at(""), &[]).await;
    assert_eq!((&row["address"], &row["models"], &row["concurrency"]), (&json!(provider.at("/v1")), &json!(["m"]), &json!(1)), "{row}");
    let (ok, text) = test(&w, &row).await;
    assert!(ok && text == "here/m said “Hello” (14 + 3 tokens).", "{text}");
    let (asked, body) = provider.seen().last().unwrap().clone();
    assert_eq!((asked.as_str(), &body["stream"]), ("POST /v1/chat/completions", &json!(true)));
    assert!(body["max_tokens"].as_u64().unwrap() <= 64, "a few tokens, not a bill: {body}");

    let other = add(&w, "other", provider.at("/v1"), &["unlisted"]).await;
    let (ok, text) = test(&w, &other).await;
    assert!(ok && text.ends_with("other does not list this model."), "{text}");
    let wrong = add(&w, "wrong", provider.at("/bad/v1"), &["m"]).await;
    let (ok, text) = test(&w, &wrong).await;
    assert!(!ok && text.contains("401") && text.ends_with("Check the key.") && !text.contains("4711"), "{text}");
    let nobody = add(&w, "nobody", "http://127.0.0.1:1/v1".into(), &["m"]).await;
    let (ok, text) = test(&w, &nobody).await;
    assert!(!ok && text.contains("Check the address"), "{text}");
}

#[tokio::test]
async fn the_owners_price_makes_the_cost_and_without_one_it_is_unknown_not_nothing() {
    let (w, provider) = (world(Attendance::None).await, Provider::start());
    add(&w, "here", provider.at(""), &["m"]).await;
    let id = w.ready("one", "export const meta = { name: 'One', description: '' };\nreturn await agent('hi');\n").await;
    let cost = async || {
        let execution = w.desk.run_graph_now(id.clone(), "{}".into()).await.unwrap();
        crate::desk::ended(&w, &execution).await;
        let row = w.desk.execution_open(execution).await.unwrap().row;
        assert_eq!(row.tokens, 17);
        row.cost
    };
    assert_eq!(cost().await, None);
    let set = |price: Value| w.desk.call("price_set", json!({ "model": "here/m", "price": price }));
    let view = set(json!({ "input_per_mtok": 100.0, "output_per_mtok": 1000.0 })).await.unwrap();
    let own: Vec<&Value> = view["prices"].as_array().unwrap().iter().filter(|p| p["is_own"] == true).collect();
    assert_eq!(own, [&json!({ "model": "here/m", "input_per_mtok": 100.0, "output_per_mtok": 1000.0, "is_own": true })]);
    assert!((cost().await.unwrap() - (14.0 * 100.0 + 3.0 * 1000.0) / 1e6).abs() < 1e-12);
    for bad in [json!({ "input_per_mtok": -1.0, "output_per_mtok": 0.0 }), json!({ "input_per_mtok": 0.0, "output_per_mtok": 1e9 })] {
        assert_eq!(set(bad).await.unwrap_err().field.as_deref(), Some("price"));
    }
    set(Value::Null).await.unwrap();
    assert_eq!(cost().await, None);
}

#[tokio::test]
async fn a_model_without_tool_calls_of_its_own_is_led_by_a_schema_where_the_owner_says_so() {
    let (w, provider) = (world(Attendance::None).await, Provider::start());
    let row = add(&w, "here", provider.at(""), &["m"]).await;
    w.ready("one", "export const meta = { name: 'One', description: '' };\nreturn await agent('hi', { tools: ['read_file'] });\n").await;
    w.run("one", json!({})).await;
    let body = provider.seen().last().unwrap().1.clone();
    assert!(body.get("tools").is_some() && body.get("response_format").is_none(), "{body}");
    let draft = json!({ "provider_id": row["provider_id"], "kind": "openai_compatible", "name": "here", "address": row["address"], "key": null, "models": ["m"], "concurrency": 1, "emulated_tools": true, "context": null });
    let view = w.desk.call("provider_save", json!({ "provider": draft })).await.unwrap();
    assert_eq!(view["providers"][0]["emulated_tools"], true);
    w.run("one", json!({})).await;
    let body = provider.seen().last().unwrap().1.clone();
    assert!(body.get("tools").is_none() && body["response_format"]["json_schema"]["schema"]["anyOf"].is_array(), "{body}");
}
