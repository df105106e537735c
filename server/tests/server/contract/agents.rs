//! What a connected agent may ask, with which key, and what it is told.
use futures::future::join_all;
use serde_json::{Value, json};

use crate::world::{NOTFOUND, READ, RUN, World, gs, session};

pub async fn fifty_calls_with_one_key_make_one_command(w: &mut World) {
    let (desk, project, agent) = w.set_up().await;
    for round in 0..5 {
        let key = format!("key-{round:05}");
        let told = join_all((0..50).map(|_| agent.try_run(1, &key, "{}"))).await;
        let ids: std::collections::BTreeSet<String> = told.iter().map(|t| t.ok()["command_id"].as_str().unwrap().to_owned()).collect();
        assert_eq!(ids.len(), 1);
        assert_eq!(told.iter().filter(|t| t.structured["replayed"] == false).count(), 1);
        assert_eq!(desk.offered(&project).await.len(), round + 1);
    }
}

pub async fn a_key_belongs_to_one_run_whatever_the_spelling(w: &mut World) {
    let (desk, project, agent) = w.set_up().await;
    desk.share(&project, 1, &[session(1), session(2)]).await;
    let first = agent.try_run(1, "key-00001", r#"{"a":1,"b":2}"#).await.ok()["command_id"].clone();
    let same = agent.try_run(1, "key-00001", r#"{"b":2, "a":1}"#).await;
    assert_eq!((&same.ok()["command_id"], same.structured["replayed"].as_bool()), (&first, Some(true)));
    assert!(same.structured["next_step"].as_str().unwrap().contains("nothing new was queued"));
    for (session, arguments) in [(1, r#"{"a":1,"b":3}"#), (2, r#"{"a":1,"b":2}"#)] {
        let refused = agent.try_run(session, "key-00001", arguments).await;
        assert!(refused.refused().contains("idempotency_key was already used for another run"), "{}", refused.text);
    }
    assert_eq!(desk.share(&project, 1, &[session(1), session(2)]).await["commands"].as_array().unwrap().len(), 1);
}

pub async fn two_agents_may_use_the_same_key(w: &mut World) {
    let (desk, project, one) = w.set_up().await;
    let two = desk.agent(&[&project], &[READ, RUN]).await;
    let (a, b) = (one.run("shared-key-0001").await, two.run("shared-key-0001").await);
    assert_ne!(a, b);
    assert_eq!(desk.offered(&project).await, [a.clone(), b.clone()]);
    assert_eq!(two.call("get_graph_run", &json!({ "command_id": a }).to_string()).await.refused(), NOTFOUND);
    assert_eq!(one.get(&a).await["status"], "queued");
}

pub async fn keys_have_a_length_and_are_never_blank(w: &mut World) {
    let (desk, project, agent) = w.set_up().await;
    let call = async |key: Value| {
        let mut arguments = json!({"graph_session_id": gs(1)});
        if !key.is_null() || key == json!(null) {
            arguments["idempotency_key"] = key;
        }
        agent.call("run_graph_session", &arguments.to_string()).await
    };
    let missing = agent.call("run_graph_session", &json!({"graph_session_id": gs(1)}).to_string()).await;
    assert_eq!(missing.refused(), "idempotency_key is required");
    for bad in [json!(null), json!(12_345_678), json!("1234567"), json!("x".repeat(129)), json!("        ")] {
        assert!(call(bad.clone()).await.refused().contains("idempotency_key"), "{bad}");
    }
    assert_eq!(desk.offered(&project).await.len(), 0);
    for good in [json!("12345678"), json!("x".repeat(128)), json!("KEY-aaaa1"), json!("key-aaaa1"), json!("nul\0key\0")] {
        call(good).await.ok();
    }
    assert_eq!(desk.offered(&project).await.len(), 5);
}

pub async fn another_agents_run_reads_like_one_that_never_was(w: &mut World) {
    let (desk, project, one) = w.set_up().await;
    let two = desk.agent(&[&project], &[READ, RUN]).await;
    let id = one.run("key-00001").await;
    let stranger = w.pair("Eve", "Elsewhere").await;
    let far = stranger.project("P9").await;
    let three = stranger.agent(&[&far], &[READ, RUN]).await;
    for tool in ["get_graph_run", "cancel_graph_run"] {
        let mut shapes = std::collections::BTreeSet::new();
        for agent in [&two, &three] {
            // Case C21: a run of another agent and one that never was, often.
            for n in 0..200u32 {
                let never = format!("3f2b8c1e-9a4d-4c6b-8e2f-0a1b{n:08x}");
                let told = agent.call(tool, &json!({ "command_id": if n % 2 == 0 { &id } else { &never } }).to_string()).await;
                shapes.insert((told.reply.status, told.reply.text));
            }
            for asked in [id.as_str(), "3f2b8c1e-9a4d-4c6b-8e2f-0a1b2c3d4e5f", "../x", "", "\u{0}"] {
                let told = agent.call(tool, &json!({ "command_id": asked }).to_string()).await;
                assert_eq!(told.refused(), NOTFOUND);
                shapes.insert((told.reply.status, told.reply.text));
            }
        }
        assert_eq!(shapes.len(), 1, "one text, one shape");
    }
    for project in [&project, "nonsense"] {
        let told = three.call("list_graph_sessions", &json!({ "project_id": project }).to_string()).await;
        assert_eq!(told.refused(), "Project not found or access removed");
    }
    assert_eq!(three.try_run(1, "key-00001", "{}").await.refused(), "Graph session not found or not shared with this agent");
    assert_eq!(one.get(&id).await["status"], "queued");
    assert_eq!(stranger.start(&id, "e1").await.status, 404);
    assert_eq!(stranger.get("commands").await.ok()["commands"], json!([]));
}

pub async fn scopes_and_tokens_decide_who_may_call(w: &mut World) {
    let (desk, project, full) = w.set_up().await;
    let id = full.run("key-00001").await;
    let reader = desk.agent(&[&project], &[READ]).await;
    assert_eq!(reader.call("list_projects", "{}").await.ok()["projects"][0]["project_id"], json!(project));
    reader.call("list_graph_sessions", &json!({ "project_id": project }).to_string()).await.ok();
    for (tool, arguments) in
        [("run_graph_session", json!({"graph_session_id": gs(1), "idempotency_key": "key-00001"})), ("cancel_graph_run", json!({ "command_id": id }))]
    {
        let told = reader.call(tool, &arguments.to_string()).await;
        assert_eq!(told.reply.status, 403);
        let challenge = told.reply.header("www-authenticate");
        assert!(challenge.contains(r#"error="insufficient_scope""#) && challenge.contains(RUN), "{challenge}");
        assert!(told.reply.text.contains(RUN));
    }
    for scopes in [json!([]), json!(["osfoundry:admin"])] {
        let refused = desk.post("agent-tokens", json!({"name": "x", "project_ids": [project], "scopes": scopes})).await;
        assert_eq!((refused.status, refused.code()), (400, "malformed".to_owned()));
    }
    let nobody = full.world.mcp("", r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"list_projects"}}"#).await;
    assert_eq!(nobody.status, 401);
    let wrong = full.world.mcp("osfa_wrong", r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#).await;
    assert_eq!((wrong.status, wrong.json()["id"].as_i64()), (401, Some(1)));
    assert!(wrong.header("www-authenticate").contains(r#"error="invalid_token""#));
    assert_eq!(desk.offered(&project).await, [id]);
}

pub async fn arguments_are_checked_before_anything_is_queued(w: &mut World) {
    let (desk, project, agent) = w.set_up().await;
    let mut strict = session(1);
    strict["arguments_schema"] =
        json!({"type": "object", "properties": {"days": {"type": "integer", "maximum": 7}}, "required": ["days"], "additionalProperties": false});
    desk.share(&project, 2, &[strict.clone()]).await;
    let refused = agent.try_run(1, "key-00001", r#"{"days":9}"#).await;
    assert!(refused.refused().contains("arguments/days"), "{}", refused.text);
    assert!(agent.try_run(1, "key-00001", "{}").await.is_error);
    assert_eq!(desk.share(&project, 2, &[strict.clone()]).await["commands"], json!([]));
    agent.try_run(1, "key-00001", r#"{"days":3}"#).await.ok();
    strict["arguments_schema"] = json!({"required": ["other"]});
    desk.share(&project, 3, &[strict.clone()]).await;
    assert_eq!(agent.try_run(1, "key-00001", r#"{"days":3}"#).await.ok()["replayed"], true, "a replay answers whatever the schema says now");
    for bad in [json!({"$ref": "https://evil.example/s.json"}), json!({"pattern": "(a)\\1"}), json!({"type": 7}), json!([])] {
        strict["arguments_schema"] = bad;
        assert_eq!(desk.try_share(&project, 4, &[strict.clone()]).await.code(), "session_invalid");
    }
    let mut draft = session(1);
    draft["status"] = json!("draft");
    desk.share(&project, 5, &[draft]).await;
    assert!(agent.try_run(1, "key-00007", "{}").await.refused().contains("draft"));
}

pub async fn pages_follow_each_other_without_gap(w: &mut World) {
    let (desk, project, agent) = w.set_up().await;
    desk.share(&project, 2, &(1..=55).rev().map(session).collect::<Vec<_>>()).await;
    let (mut cursor, mut seen) = (Value::Null, Vec::new());
    loop {
        let mut arguments = json!({"project_id": project});
        if !cursor.is_null() {
            arguments["cursor"] = cursor;
        }
        let page = agent.call("list_graph_sessions", &arguments.to_string()).await.ok().clone();
        seen.extend(page["sessions"].as_array().unwrap().iter().map(|s| s["graph_session_id"].as_str().unwrap().to_owned()));
        cursor = page.get("next_cursor").cloned().unwrap_or_default();
        if cursor.is_null() {
            break;
        }
    }
    assert_eq!(seen, (1..=55).map(gs).collect::<Vec<_>>());
    let bad = agent.call("list_graph_sessions", &json!({"project_id": project, "cursor": "nonsense"}).to_string()).await;
    assert!(bad.refused().contains("cursor"));
}

pub async fn a_session_runs_under_the_oldest_granted_project(w: &mut World) {
    let (desk, old, _) = w.set_up().await;
    w.pass_ms(1000);
    let new = desk.project("Newer").await;
    desk.share(&new, 1, &[session(1)]).await;
    let both = desk.agent(&[&new, &old], &[READ, RUN]).await;
    let only_new = desk.agent(&[&new], &[READ, RUN]).await;
    assert_eq!(both.try_run(1, "key-00001", "{}").await.ok()["project_id"], json!(old));
    assert_eq!(only_new.try_run(1, "key-00001", "{}").await.ok()["project_id"], json!(new));
    desk.share(&old, 9, &[]).await;
    assert_eq!(both.try_run(1, "key-00002", "{}").await.ok()["project_id"], json!(new));
}

pub async fn a_project_takes_a_hundred_queued_commands(w: &mut World) {
    let (desk, _, agent) = w.set_up().await;
    let mut first = String::new();
    for n in 0..100 {
        let id = agent.run(&format!("key-{n:05}")).await;
        if n == 0 {
            first = id;
        }
    }
    let refused = agent.try_run(1, "key-99999", "{}").await;
    assert!(refused.refused().starts_with("100 commands are queued"), "{}", refused.text);
    desk.start(&first, "e1").await.ok();
    assert_eq!(agent.try_run(1, "key-99999", "{}").await.ok()["queue_position"], 101);
}

pub async fn revoking_an_agent_ends_everything_of_it(w: &mut World) {
    let (desk, project, agent) = w.set_up().await;
    let ids = [agent.run("key-00001").await, agent.run("key-00002").await, agent.run("key-00003").await];
    desk.start(&ids[0], "e1").await.ok();
    let arguments = json!({"command_id": ids[0], "wait_seconds": 25}).to_string();
    let held = agent.call("get_graph_run", &arguments);
    let control = desk.control(&ids[0], "e1", 3000);
    let revoke = async {
        while w.app.bells_waiting() < 2 {
            tokio::task::yield_now().await;
        }
        desk.delete(&format!("agents/{}", agent.id)).await
    };
    let (held, control, revoked) = tokio::join!(held, control, revoke);
    assert_eq!((held.reply.status, revoked.status), (401, 200));
    assert_eq!(control.ok()["cancel"], true, "the running one is told to stop at once");
    assert_eq!(agent.call("list_projects", "{}").await.reply.status, 401);
    desk.complete(&ids[0], r#"{"execution_id":"e1","status":"cancelled","reason":"stopped","error":"","total_tokens":0,"reported_cost":null}"#)
        .await
        .ok();
    let commands = desk.get("commands").await.ok();
    let reasons: Vec<_> = commands["commands"].as_array().unwrap().iter().map(|c| c["reason"].as_str().unwrap().to_owned()).collect();
    assert_eq!(reasons, ["agent_revoked", "agent_revoked", "stopped"]);
    assert_eq!(desk.offered(&project).await.len(), 0);
    let listed = desk.get("agents").await.ok();
    assert!(listed["agents"][0]["revoked_at"].is_string());
    let stranger = w.pair("Eve", "Elsewhere").await;
    assert_eq!(stranger.delete(&format!("agents/{}", agent.id)).await.status, 404);
}
