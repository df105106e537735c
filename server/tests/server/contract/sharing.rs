//! What a device says it shares, and what an owner has: projects, devices, the list of commands.
use serde_json::{Value, json};

use crate::world::{Desk, READ, World, done, gs, session};

pub async fn a_hundred_and_first_session_is_refused_and_the_last_list_stands(w: &mut World) {
    let (desk, project, agent) = w.set_up().await;
    let many = |n: u32| (1..=n).map(session).collect::<Vec<_>>();
    desk.share(&project, 2, &many(100)).await;
    let refused = desk.try_share(&project, 3, &many(101)).await;
    assert_eq!((refused.status, refused.code()), (400, "too_many_sessions".to_owned()));
    assert!(refused.text.contains("100"));
    assert!(agent.try_run(100, "key-00001", "{}").await.ok()["status"] == "queued");
    for (field, value) in
        [("name", json!("x".repeat(121))), ("description", json!("x".repeat(2001))), ("arguments_schema", json!({"a": "x".repeat(16 * 1024)}))]
    {
        let mut bad = session(1);
        bad[field] = value;
        let refused = desk.try_share(&project, 3, &[bad]).await;
        assert_eq!((refused.status, refused.code()), (400, "session_invalid".to_owned()));
        assert!(refused.text.contains(field), "{}", refused.text);
    }
    let mut twin = session(2);
    twin["slug"] = session(1)["slug"].clone();
    assert_eq!(desk.try_share(&project, 3, &[session(1), twin]).await.status, 400);
    assert_eq!(desk.try_share(&project, 3, &[session(1), session(1)]).await.status, 400);
    let mut bad = session(1);
    bad["slug"] = json!("Not A Slug");
    assert_eq!(desk.try_share(&project, 3, &[bad]).await.code(), "malformed");
}

pub async fn an_older_list_does_not_replace_a_newer_one(w: &mut World) {
    let (desk, project, agent) = w.set_up().await;
    assert_eq!(desk.share(&project, 5, &[session(2)]).await["revision"], 5);
    assert_eq!(desk.share(&project, 4, &[session(1)]).await["revision"], 5);
    let list = agent.call("list_graph_sessions", &json!({ "project_id": project }).to_string()).await;
    assert_eq!(list.ok()["sessions"][0]["graph_session_id"], json!(gs(2)));
    assert_eq!(list.structured["sessions"].as_array().unwrap().len(), 1);
    assert_eq!(desk.share(&project, 5, &[]).await["revision"], 5, "the same revision replaces");
    assert_eq!(agent.call("list_graph_sessions", &json!({ "project_id": project }).to_string()).await.ok()["sessions"], json!([]));
}

pub async fn a_session_is_held_by_the_first_device_that_synced_it(w: &mut World) {
    let (desk, project, _) = w.set_up().await;
    let second = w.pair("Ada", "Second").await;
    let refused = second.try_share(&project, 1, &[session(1)]).await;
    assert_eq!((refused.status, refused.code()), (409, "session_held".to_owned()));
    assert!(refused.json()["error"]["message"].as_str().unwrap().contains(r#"your device "Desk""#), "{}", refused.text);
    let stranger = w.pair("Eve", "Elsewhere").await;
    let far = stranger.project("P9").await;
    let refused = stranger.try_share(&far, 1, &[session(1)]).await;
    assert!(refused.status == 409 && !refused.text.contains("Desk"), "{}", refused.text);
    assert_eq!(stranger.try_share(&project, 1, &[]).await.code(), "project_not_found");
    assert_eq!(desk.delete("device").await.status, 200);
    second.share(&project, 1, &[session(1)]).await;
}

pub async fn nul_and_odd_text_come_back_unchanged(w: &mut World) {
    let (desk, project, agent) = w.set_up().await;
    let odd = "a\0b\u{1b}[31m\u{200b}</script>{\"}é😀";
    let mut named = session(1);
    (named["name"], named["description"]) = (json!(odd), json!(odd));
    named["asks"] = json!([odd]);
    desk.share(&project, 2, &[named]).await;
    let list = agent.call("list_graph_sessions", &json!({ "project_id": project }).to_string()).await.ok().clone();
    let entry = &list["sessions"][0];
    assert_eq!((entry["name"].as_str(), entry["description"].as_str(), entry["asks"][0].as_str()), (Some(odd), Some(odd), Some(odd)));
    let arguments = json!({ odd: odd }).to_string();
    let id = agent.try_run(1, "key-00001", &arguments).await.ok()["command_id"].as_str().unwrap().to_owned();
    assert_eq!(desk.share(&project, 2, &[]).await["commands"][0]["arguments"], json!({ odd: odd }));
    desk.start(&id, "e1").await.ok();
    let failed = json!({"execution_id": "e1", "status": "failed", "reason": "script_error", "error": odd, "total_tokens": 1, "reported_cost": 1e21});
    desk.complete(&id, failed.to_string()).await.ok();
    let run = agent.get(&id).await;
    assert_eq!((run["error"].as_str(), run["reason"].as_str()), (Some(odd), Some("script_error")));
    assert_eq!(desk.project(odd).await, desk.project(odd).await, "the same name is the same project");
}

pub async fn a_project_with_nothing_shared_lists_exactly_nothing(w: &mut World) {
    let (desk, project, agent) = w.set_up().await;
    desk.share(&project, 2, &[]).await;
    let told = agent.call("list_graph_sessions", &json!({ "project_id": project }).to_string()).await;
    assert_eq!(told.text, format!(r#"{{"project_id":"{project}","sessions":[]}}"#));
    desk.share(&project, 3, &[session(1)]).await;
    w.pass_ms(3_600_000);
    let list = agent.call("list_graph_sessions", &json!({ "project_id": project }).to_string()).await;
    assert_eq!(list.ok()["sessions"][0]["name"], "Session 001", "what the last sync uploaded, also while the desktop is offline");
    assert_eq!(list.structured["sessions"][0]["desktop"]["online"], false);
}

pub async fn an_answer_to_a_sync_stays_under_its_size(w: &mut World) {
    let (desk, project, agent) = w.set_up().await;
    let arguments = json!({"a": "x".repeat(900 * 1024)}).to_string();
    let mut ids = Vec::new();
    for n in 0..6 {
        ids.push(agent.try_run(1, &format!("key-{n:05}"), &arguments).await.ok()["command_id"].as_str().unwrap().to_owned());
    }
    let reply = desk.try_share(&project, 1, &[session(1)]).await;
    assert!(reply.text.len() < 4 * 1024 * 1024 && reply.ok()["more"] == true);
    assert_eq!(desk.offered(&project).await, ids[..4]);
    assert!(reply.text.contains(&arguments), "unchanged");
    for (n, id) in ids[..4].iter().enumerate() {
        desk.start(id, &format!("e{n}")).await.ok();
    }
    assert_eq!(desk.offered(&project).await, ids[4..]);
}

pub async fn pairing_again_keeps_the_identity_and_kills_the_old_token(w: &mut World) {
    let (desk, project, agent) = w.set_up().await;
    let (running, waiting) = (agent.run("key-00001").await, agent.run("key-00002").await);
    desk.start(&running, "e1").await.ok();
    let code = w.app.pair_code("Ada").await.unwrap().code;
    let body = json!({"pairing_code": code.to_lowercase(), "device_name": "Desk", "device_id": desk.id}).to_string();
    let answer = w.device("POST", "pair", "", body.clone()).await.ok();
    assert_eq!((answer["device_id"].as_str(), answer["owner"].as_str()), (Some(desk.id.as_str()), Some("Ada")));
    assert_eq!(w.device("POST", "pair", "", body).await.code(), "pairing_code_invalid", "a code is used once");
    assert_eq!(desk.get("projects").await.status, 401, "the old token is refused");
    let again = Desk { token: answer["device_token"].as_str().unwrap().into(), ..desk.clone() };
    again.complete(&running, done("e1", "1")).await.ok();
    assert_eq!(again.offered(&project).await, [waiting]);
    let foreign = w.app.pair_code("Eve").await.unwrap().code;
    let body = json!({"pairing_code": foreign, "device_name": "Thief", "device_id": desk.id}).to_string();
    let other = w.device("POST", "pair", "", body).await.ok();
    assert_ne!(other["device_id"].as_str(), Some(desk.id.as_str()), "another owner's identity is not to be had");
    let late = w.app.pair_code("Ada").await.unwrap().code;
    w.pass_ms(10 * 60_000);
    let body = json!({"pairing_code": late, "device_name": "Late"}).to_string();
    assert_eq!(w.device("POST", "pair", "", body).await.status, 400);
}

pub async fn unpairing_withdraws_what_has_not_begun(w: &mut World) {
    let (desk, _, agent) = w.set_up().await;
    let ids = [agent.run("key-00001").await, agent.run("key-00002").await];
    desk.start(&ids[0], "e1").await.ok();
    assert_eq!(desk.delete("device").await.status, 200);
    assert_eq!(desk.get("projects").await.status, 401);
    assert_eq!((agent.state(&ids[0]).await, agent.state(&ids[1]).await), ("running -".into(), "cancelled not_shared".into()));
    assert!(agent.try_run(1, "key-00003", "{}").await.is_error);
}

pub async fn deleting_a_project_withdraws_what_it_holds(w: &mut World) {
    let (desk, project, agent) = w.set_up().await;
    let ids = [agent.run("key-00001").await, agent.run("key-00002").await, agent.run("key-00003").await];
    desk.start(&ids[0], "e1").await.ok();
    desk.complete(&ids[0], done("e1", "1")).await.ok();
    desk.start(&ids[1], "e2").await.ok();
    assert_eq!(desk.delete(&format!("projects/{project}")).await.status, 200);
    assert_eq!(desk.delete(&format!("projects/{project}")).await.status, 200, "again");
    assert_eq!(agent.state(&ids[2]).await, "cancelled not_shared");
    assert_eq!(desk.control(&ids[1], "e2", 0).await.ok()["cancel"], true);
    assert_eq!(agent.get(&ids[0]).await["result"], 1, "what has finished stays readable");
    assert_eq!(agent.call("list_projects", "{}").await.ok()["projects"], json!([]));
    assert_eq!(desk.try_share(&project, 2, &[]).await.code(), "project_not_found");
    assert!(agent.try_run(1, "key-00009", "{}").await.is_error);
}

pub async fn disabling_a_project_ends_what_is_queued_and_nothing_comes_back(w: &mut World) {
    let (desk, project, agent) = w.set_up().await;
    let ids = [agent.run("key-00001").await, agent.run("key-00002").await];
    desk.start(&ids[0], "e1").await.ok();
    let off = json!({"project_id": project, "revision": 2, "sessions": [], "disabled": true, "metadata_only": true});
    let answer = desk.post("graph-relays/sync", off.clone()).await.ok();
    assert_eq!(answer["commands"], json!([]));
    assert_eq!(desk.post("graph-relays/sync", off).await.status, 200, "repeated until answered");
    assert_eq!((agent.state(&ids[0]).await, agent.state(&ids[1]).await), ("running -".into(), "cancelled not_shared".into()));
    desk.share(&project, 3, &[session(1)]).await;
    assert_eq!(agent.state(&ids[1]).await, "cancelled not_shared");
    agent.run("key-00003").await;
}

pub async fn projects_have_one_name_each(w: &mut World) {
    let (desk, project, _) = w.set_up().await;
    assert_eq!(desk.project("Docs").await, project);
    let other = desk.project("Other").await;
    let rename = async |id: &str, name: &str| w.device("PATCH", &format!("projects/{id}"), &desk.token, json!({ "name": name }).to_string()).await;
    assert_eq!(rename(&other, "Docs").await.code(), "name_taken");
    assert_eq!(rename(&other, "Third").await.ok()["name"], "Third");
    for bad in ["", "   ", &"x".repeat(121)] {
        assert_eq!(rename(&other, bad).await.code(), "malformed");
    }
    let names: Vec<_> = desk.get("projects").await.ok()["projects"].as_array().unwrap().iter().map(|p| p["name"].clone()).collect();
    assert_eq!(names.len(), 2);
    let stranger = w.pair("Eve", "Elsewhere").await;
    assert_eq!(stranger.get("projects").await.ok()["projects"], json!([]), "a freshly paired owner starts with no projects");
    assert_eq!(stranger.delete(&format!("projects/{project}")).await.status, 404);
    let refused = stranger.post("agent-tokens", json!({"name": "x", "project_ids": [project], "scopes": [READ]})).await;
    assert_eq!(refused.code(), "project_not_found");
}

pub async fn the_owner_sees_all_commands_but_only_own_results(w: &mut World) {
    let (desk, project, agent) = w.set_up().await;
    let second = w.pair("Ada", "Second").await;
    let id = agent.try_run(1, "key-00001", r#"{"a":1}"#).await.ok()["command_id"].as_str().unwrap().to_owned();
    desk.start(&id, "e1").await.ok();
    desk.complete(&id, done("e1", "null")).await.ok();
    let own = desk.get("commands").await.ok()["commands"][0].clone();
    assert_eq!((&own["arguments"], own.get("result")), (&json!({"a": 1}), Some(&Value::Null)), "{own}");
    let other = second.get("commands").await.ok()["commands"][0].clone();
    assert_eq!((other["status"].as_str(), other.get("arguments"), other.get("result")), (Some("completed"), None, None));
    let queued = agent.run("key-00002").await;
    let cancelled = second.post(&format!("commands/{queued}/cancel"), json!({})).await.ok();
    assert_eq!(cancelled["status"], "cancelled");
    assert_eq!(agent.state(&queued).await, "cancelled cancelled_while_queued");
    let page = desk.get("commands?limit=1").await.ok();
    assert_eq!(page["commands"][0]["command_id"], json!(queued));
    let next = desk.get(&format!("commands?limit=1&cursor={}", page["next_cursor"].as_str().unwrap())).await.ok();
    assert_eq!((next["commands"][0]["command_id"].as_str(), next.get("next_cursor")), (Some(id.as_str()), None));
    assert_eq!(desk.get(&format!("commands?status=completed&project_id={project}")).await.ok()["commands"].as_array().unwrap().len(), 1);
    assert_eq!((desk.get("commands?limit=0").await.status, desk.get("commands?status=x").await.status), (400, 400));
}
