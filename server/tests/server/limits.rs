//! Invariant 9: whatever can grow has a limit, and reaching it is an answer.
use serde_json::json;

use crate::world::{World, done, session};

#[tokio::test]
async fn a_page_limit_outside_one_to_fifty_is_refused_by_name() {
    let w = World::sqlite().await;
    let (_, project, agent) = w.set_up().await;
    for bad in ["0", "-1", "51", "1.5", "\"10\"", "true", "1e308", "9007199254740993"] {
        let told = agent.call("list_graph_sessions", &format!(r#"{{"project_id":"{project}","limit":{bad}}}"#)).await;
        assert_eq!(told.refused(), "limit must be an integer from 1 to 50", "{bad}");
    }
    for good in ["1", "50"] {
        agent.call("list_graph_sessions", &format!(r#"{{"project_id":"{project}","limit":{good}}}"#)).await.ok();
    }
    for bad in ["-1", "26", "\"1\""] {
        let told = agent.call("get_graph_run", &format!(r#"{{"command_id":"x","wait_seconds":{bad}}}"#)).await;
        assert_eq!(told.refused(), "wait_seconds must be an integer from 0 to 25");
    }
}

#[tokio::test]
async fn arguments_have_a_size_and_a_body_has_one() {
    let w = World::sqlite().await;
    let (desk, project, agent) = w.set_up().await;
    let sized = |bytes: usize| format!(r#"{{"a":"{}"}}"#, "x".repeat(bytes - 8));
    let whole = sized(900 * 1024);
    agent.try_run(1, "key-00001", &whole).await.ok();
    assert!(desk.try_share(&project, 1, &[session(1)]).await.text.contains(&whole));
    agent.try_run(1, "key-00002", &sized(1 << 20)).await.ok();
    let refused = agent.try_run(1, "key-00003", &sized((1 << 20) + 1)).await;
    assert_eq!(refused.refused(), "arguments have 1048577 bytes of JSON text; at most 1048576 are allowed");
    for (status, bytes) in [(200, 1_100_000), (413, 3 << 20), (413, 10 << 20)] {
        let told = agent.try_run(1, "key-00004", &sized(bytes)).await;
        assert_eq!(told.reply.status, status);
        assert!(told.is_error || told.reply.code() == "too_large");
    }
    let refused = desk.post("projects", json!({"name": "x".repeat(3 << 20)})).await;
    assert_eq!((refused.status, refused.code()), (413, "too_large".to_owned()));
}

#[tokio::test]
async fn depth_is_limited_and_never_hurts() {
    let w = World::sqlite().await;
    let (desk, _, agent) = w.set_up().await;
    let arrays = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    let objects = |depth: usize| format!("{}1{}", r#"{"a":"#.repeat(depth), "}".repeat(depth));
    let id = agent.try_run(1, "key-00001", &objects(100)).await.ok()["command_id"].as_str().unwrap().to_owned();
    for deep in [objects(101), objects(1_000), objects(100_000), format!(r#"{{"a":{}}}"#, arrays(100_000))] {
        assert!(agent.try_run(1, "key-00002", &deep).await.refused().contains("100 levels"));
    }
    desk.start(&id, "e1").await.ok();
    for depth in [1_000, 50_000] {
        let refused = desk.complete(&id, done("e1", &arrays(depth))).await;
        assert!(matches!((refused.status, refused.code().as_str()), (400, "completion_invalid")), "{}", refused.text);
    }
    desk.complete(&id, done("e1", &arrays(99))).await.ok();
    assert_eq!(agent.get(&id).await["status"], "completed");
    for body in [format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}}"#, objects(100_000)), arrays(100_000)] {
        assert_eq!(w.mcp(&agent.token, body).await.status, 400);
    }
    assert_eq!(desk.post("graph-relays/sync", json!({})).await.status, 400);
    assert_eq!(w.device("POST", "graph-relays/sync", &desk.token, arrays(100_000)).await.status, 400);
}

#[tokio::test]
async fn a_completion_is_at_most_a_hundred_thousand_units() {
    let w = World::sqlite().await;
    let (desk, _, agent) = w.set_up().await;
    let id = agent.run("key-00001").await;
    desk.start(&id, "e1").await.ok();
    let of = |units: usize| {
        let frame = done("e1", r#""""#).len();
        done("e1", &format!(r#""{}""#, "é".repeat(units - frame)))
    };
    let refused = desk.complete(&id, of(100_001)).await;
    assert_eq!((refused.status, refused.code()), (400, "completion_too_long".to_owned()));
    assert!(refused.text.contains("100000"));
    for bad in ["", "{", "[]", r#"{"execution_id":"e1","status":"queued"}"#, r#"{"execution_id":null,"status":"completed"}"#] {
        assert_eq!(desk.complete(&id, bad).await.code(), "completion_invalid", "{bad}");
    }
    desk.complete(&id, of(100_000)).await.ok();
    let id = agent.run("key-00002").await;
    desk.start(&id, "e2").await.ok();
    desk.complete(&id, r#"{"execution_id":"e2","status":"completed","result_truncated":true}"#).await.ok();
    let run = agent.get(&id).await;
    assert_eq!((run["result_truncated"].as_bool(), run.get("result")), (Some(true), None));
    assert!(run["next_step"].as_str().unwrap().contains("too long to travel"));
}

#[tokio::test]
async fn every_device_request_names_the_version_of_the_relay() {
    let w = World::sqlite().await;
    let (desk, _, _) = w.set_up().await;
    for version in [None, Some("2"), Some("")] {
        let mut request = axum::http::Request::get("/external-assistants/projects").header("authorization", format!("Bearer {}", desk.token));
        if let Some(version) = version {
            request = request.header("graph-relay-version", version);
        }
        let refused = w.send(request.body(axum::body::Body::empty()).unwrap()).await;
        assert_eq!((refused.status, refused.code()), (400, "relay_version_unsupported".to_owned()));
    }
    assert_eq!((desk.get("nowhere").await.code(), desk.delete("pair").await.code()), ("not_found".into(), "method_not_allowed".into()));
    assert_eq!(w.device("GET", "projects", "osfd_wrong", "").await.code(), "unauthorized");
}
