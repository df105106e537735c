//! What happens to one command: handing out, starting, cancelling, ending.
use serde_json::json;

use crate::world::{Desk, NOTFOUND, World, done, session};

pub async fn a_run_goes_from_ticket_to_result_byte_for_byte(w: &mut World) {
    let (desk, project, agent) = w.set_up().await;
    let raw = r#"{"z":1e+21,"a":-0,"big":9223372036854775809,"é":"\u0000","e\u0301":[1.0,0.10],"A":"\u0041"}"#;
    let ticket = agent.try_run(1, "key-00001", raw).await.ok().clone();
    assert_eq!((ticket["status"].as_str(), ticket["replayed"].as_bool(), ticket["queue_position"].as_u64()), (Some("queued"), Some(false), Some(1)));
    let id = ticket["command_id"].as_str().unwrap().to_owned();
    let offered = desk.try_share(&project, 1, &[session(1)]).await;
    assert!(offered.text.contains(&format!(r#""arguments":{raw},"#)), "{}", offered.text);

    assert_eq!(desk.start(&id, "e1").await.ok(), json!({"status": "running", "cancel": false}));
    let progress = json!({"execution_id": "e1", "progress": {"agents_done": 1, "agents_total": 3, "tokens": 5, "text": "x".repeat(900), "waiting_approval": [{"tool": "shell", "agent": "a", "seconds_left": 9}]}});
    assert_eq!(desk.post(&format!("graph-relays/commands/{id}/control"), progress).await.ok(), json!({"cancel": false}));
    let run = agent.get(&id).await;
    assert_eq!(run["progress"]["text"].as_str().unwrap().len(), 500);
    assert_eq!((run["waiting"]["code"].as_str(), run["status"].as_str()), (Some("waiting_approval"), Some("running")));

    assert_eq!(desk.complete(&id, done("e1", raw)).await.ok(), json!({"recorded": true, "status": "completed"}));
    let told = agent.call("get_graph_run", &json!({ "command_id": id }).to_string()).await;
    assert!(told.reply.text.contains(&format!(r#""result":{raw},"total_tokens":7,"reported_cost":null"#)), "{}", told.reply.text);
    assert!(told.text.contains(&format!(r#""result":{raw},"#)), "the text block carries the same: {}", told.text);
    assert_eq!(told.structured["poll_after_seconds"], 0);
}

pub async fn a_cloned_device_cannot_start_a_command_twice(w: &mut World) {
    let (desk, project, agent) = w.set_up().await;
    let other = w.pair("Ada", "Second").await;
    for round in 0..20 {
        let id = agent.run(&format!("key-{round:05}")).await;
        assert_eq!(other.share(&project, round, &[]).await["commands"], json!([]));
        let (a, b) = (format!("a{round}"), format!("b{round}"));
        let (first, clone, stranger) = tokio::join!(desk.start(&id, &a), desk.start(&id, &b), other.start(&id, "c"));
        let mut granted = [(first, a), (clone, b)];
        granted.sort_by_key(|(reply, _)| reply.status);
        assert_eq!((granted[0].0.status, granted[1].0.status, stranger.status), (200, 409, 404));
        assert_eq!((granted[1].0.json()["status"].as_str(), granted[1].0.code()), (Some("running"), "not_this_execution".to_owned()));
        desk.complete(&id, done(&granted[0].1, "1")).await.ok();
        assert_eq!(agent.state(&id).await, "completed done");
    }
}

pub async fn a_cut_sync_offers_the_command_again(w: &mut World) {
    let (desk, project, agent) = w.set_up().await;
    let id = agent.run("key-00001").await;
    for _ in 0..3 {
        assert_eq!(desk.offered(&project).await, std::slice::from_ref(&id));
        assert_eq!(agent.state(&id).await, "queued -");
    }
    assert_eq!(desk.start(&id, "e1").await.status, 200);
    assert_eq!(desk.start(&id, "e1").await.ok()["status"], "running", "a lost answer is asked for again");
    let answer = desk.share(&project, 1, &[session(1)]).await;
    assert_eq!((&answer["commands"], &answer["running"]), (&json!([]), &json!([{"command_id": id, "execution_id": "e1"}])));
}

pub async fn an_accepted_cancel_always_ends_as_cancelled(w: &mut World) {
    let (desk, _, agent) = w.set_up().await;
    for round in 0..30 {
        let id = agent.run(&format!("key-{round:05}")).await;
        desk.start(&id, "e1").await.ok();
        let (cancel, report) = tokio::join!(agent.cancel(&id), desk.complete(&id, done("e1", r#""secret""#)));
        assert_eq!(report.status, 200);
        let run = agent.get(&id).await;
        if cancel["cancel_requested"] == true {
            assert_eq!((run["status"].as_str(), run["reason"].as_str()), (Some("cancelled"), Some("finished_before_stop")));
            assert!(run.get("result").is_none() && run["next_step"].as_str().unwrap().contains("does not undo"));
        } else {
            assert_eq!((run["status"].as_str(), cancel["status"].as_str()), (Some("completed"), Some("completed")));
        }
        assert_eq!(desk.complete(&id, done("e1", r#""secret""#)).await.ok()["recorded"], true, "the same report again");
    }
}

pub async fn cancelling_ends_a_queued_command_at_once_and_changes_no_ending(w: &mut World) {
    let (desk, project, agent) = w.set_up().await;
    let ids = [agent.run("key-00001").await, agent.run("key-00002").await, agent.run("key-00003").await];
    let cancelled = agent.cancel(&ids[1]).await;
    assert_eq!((cancelled["status"].as_str(), cancelled["terminal"].as_bool()), (Some("cancelled"), Some(true)));
    assert_eq!(desk.offered(&project).await, [ids[0].clone(), ids[2].clone()]);
    assert_eq!(agent.cancel(&ids[1]).await["reason"], "cancelled_while_queued");
    let refused = desk.start(&ids[1], "e2").await;
    assert_eq!((refused.status, refused.json()["status"].as_str()), (409, Some("cancelled")));
    desk.start(&ids[0], "e1").await.ok();
    desk.complete(&ids[0], done("e1", "1")).await.ok();
    assert_eq!(agent.cancel(&ids[0]).await["status"], "completed");
    assert_eq!(agent.get(&ids[0]).await["result"], 1);
}

pub async fn nothing_lives_only_in_memory(w: &mut World) {
    let mut ids = Vec::new();
    let token;
    let agent_token;
    let project;
    {
        let (desk, p, agent) = w.set_up().await;
        for (n, expected) in ["queued", "offered", "running", "asked", "completed", "failed", "cancelled"].iter().enumerate() {
            let id = agent.run(&format!("key-{n:05}")).await;
            if matches!(*expected, "running" | "asked" | "completed" | "failed") {
                desk.start(&id, &format!("e{n}")).await.ok();
            }
            match *expected {
                "asked" | "cancelled" => drop(agent.cancel(&id).await),
                "completed" => drop(desk.complete(&id, done("e4", "4")).await.ok()),
                "failed" => drop(
                    desk.complete(
                        &id,
                        r#"{"execution_id":"e5","status":"failed","reason":"deadline","error":"late","total_tokens":0,"reported_cost":0.5}"#,
                    )
                    .await
                    .ok(),
                ),
                _ => {}
            }
            ids.push(id);
        }
        (token, agent_token, project) = (desk.token.clone(), agent.token.clone(), p);
    }
    w.restart().await;
    let desk = Desk { world: w, id: String::new(), token };
    let agent = crate::world::Agent { world: w, id: String::new(), token: agent_token };
    let mut states = Vec::new();
    for id in &ids {
        states.push(agent.state(id).await);
    }
    assert_eq!(states, ["queued -", "queued -", "running -", "running -", "completed done", "failed deadline", "cancelled cancelled_while_queued"]);
    assert_eq!(desk.offered(&project).await, [ids[0].clone(), ids[1].clone()]);
    assert_eq!(desk.control(&ids[3], "e3", 0).await.ok()["cancel"], true);
    desk.complete(&ids[3], r#"{"execution_id":"e3","status":"cancelled","reason":"stopped","error":"","total_tokens":0,"reported_cost":null}"#)
        .await
        .ok();
    assert_eq!(agent.state(&ids[3]).await, "cancelled stopped");
    let failed = agent.get(&ids[5]).await;
    assert_eq!((failed["error"].as_str(), failed["reported_cost"].as_f64()), (Some("late"), Some(0.5)));
}

pub async fn a_withdrawn_start_ends_as_not_shared(w: &mut World) {
    let (desk, project, agent) = w.set_up().await;
    let ids = [agent.run("key-00001").await, agent.run("key-00002").await, agent.run("key-00003").await];
    assert_eq!(desk.offered(&project).await.len(), 3);
    desk.start(&ids[0], "e1").await.ok();
    assert_eq!(agent.cancel(&ids[1]).await["terminal"], true);
    assert_eq!(desk.start(&ids[1], "e2").await.status, 409);
    desk.start(&ids[2], "e3").await.ok();
    let text = r#"{"execution_id":"e3","status":"cancelled","reason":"not_shared","error":"Graph session is no longer shared with this project","total_tokens":0,"reported_cost":null}"#;
    assert_eq!(desk.complete(&ids[2], text).await.ok()["status"], "cancelled");
    assert_eq!(agent.state(&ids[2]).await, "cancelled not_shared");
    let fourth = agent.run("key-00004").await;
    let before = r#"{"execution_id":null,"status":"cancelled","reason":"not_shared","error":"Graph session is no longer shared with this project"}"#;
    assert_eq!(desk.complete(&ids[0], before).await.status, 409, "a null id is taken only while the command is queued");
    assert_eq!(desk.complete(&fourth, before).await.ok(), json!({"recorded": true, "status": "cancelled"}));
    assert_eq!(desk.complete(&fourth, before).await.ok(), json!({"recorded": true, "status": "cancelled"}));
    let run = agent.get(&fourth).await;
    assert_eq!((run["reason"].as_str(), run["error"].as_str()), (Some("not_shared"), Some("Graph session is no longer shared with this project")));
}

pub async fn a_restarted_desktop_ends_its_cancelled_command(w: &mut World) {
    let (desk, _, agent) = w.set_up().await;
    let id = agent.run("key-00001").await;
    desk.start(&id, "e1").await.ok();
    agent.cancel(&id).await;
    let text = r#"{"execution_id":"e1","status":"failed","reason":"device_restarted","error":"The desktop restarted while this run was in progress","total_tokens":0,"reported_cost":null}"#;
    assert_eq!(desk.complete(&id, text).await.ok(), json!({"recorded": true, "status": "cancelled"}));
    assert_eq!(agent.state(&id).await, "cancelled device_restarted");
}

pub async fn a_late_completion_changes_nothing_and_is_let_go(w: &mut World) {
    let (desk, _, agent) = w.set_up().await;
    let (quiet, asked) = (agent.run("key-00001").await, agent.run("key-00002").await);
    desk.start(&quiet, "e1").await.ok();
    desk.start(&asked, "e2").await.ok();
    agent.cancel(&asked).await;
    w.app.queue.store_contacts().await.unwrap();
    w.pass_ms(31 * 24 * 3_600_000);
    assert_eq!(w.app.queue.sweep().await.unwrap().gone, 2);
    assert_eq!(
        (agent.state(&quiet).await, agent.state(&asked).await),
        ("failed device_did_not_return".into(), "cancelled device_did_not_return".into())
    );
    assert_eq!(desk.complete(&quiet, done("e1", "1")).await.ok(), json!({"recorded": false, "status": "failed"}));
    assert_eq!(agent.state(&quiet).await, "failed device_did_not_return");
}

pub async fn a_queue_that_forgot_a_start_takes_the_devices_word(w: &mut World) {
    let (desk, project, agent) = w.set_up().await;
    let (finished, unknown) = (agent.run("key-00001").await, agent.run("key-00002").await);
    assert_eq!(desk.complete(&finished, done("e1", "1")).await.ok(), json!({"recorded": true, "status": "completed"}));
    let run = agent.get(&finished).await;
    assert_eq!((run["result"].as_i64(), run["execution_id"].as_str()), (Some(1), Some("e1")));
    desk.start(&unknown, "e2").await.ok();
    let running = desk.share(&project, 1, &[session(1)]).await["running"].clone();
    assert_eq!(running, json!([{"command_id": unknown, "execution_id": "e2"}]));
    let ended = r#"{"execution_id":"e2","status":"failed","reason":"device_restarted","error":"x","total_tokens":0,"reported_cost":null}"#;
    desk.complete(&unknown, ended).await.ok();
    assert_eq!(agent.state(&unknown).await, "failed device_restarted");
}

pub async fn time_alone_expires_prunes_and_gives_up(w: &mut World) {
    let (desk, project, agent) = w.set_up().await;
    let id = agent.run("key-00001").await;
    w.pass_ms(7 * 24 * 3_600_000 - 1);
    assert_eq!(desk.offered(&project).await, std::slice::from_ref(&id));
    w.pass_ms(1);
    assert_eq!(agent.state(&id).await, "expired -", "judged by the clock, not by the sweep");
    assert_eq!(desk.offered(&project).await.len(), 0);
    let refused = desk.start(&id, "e1").await;
    assert_eq!((refused.status, refused.json()["status"].as_str()), (409, Some("expired")));
    assert_eq!(agent.cancel(&id).await["status"], "expired");
    assert_eq!(w.app.queue.sweep().await.unwrap().expired, 1);
    assert_eq!(agent.state(&id).await, "expired -");
    w.pass_ms(30 * 24 * 3_600_000);
    assert_eq!(w.app.queue.sweep().await.unwrap().pruned, 1);
    assert_eq!(agent.call("get_graph_run", &json!({ "command_id": id }).to_string()).await.refused(), NOTFOUND);
}

pub async fn the_doorbell_rings_only_for_what_this_device_could_start(w: &mut World) {
    let (desk, project, agent) = w.set_up().await;
    let second = w.pair("Ada", "Second").await;
    let ring = async {
        while w.app.bells_waiting() < 1 {
            tokio::task::yield_now().await;
        }
        agent.run("key-00001").await
    };
    let (rang, _) = tokio::join!(desk.doorbell(&project, 0, 25_000), ring);
    let rang = rang.ok();
    assert_eq!(rang["rang"], true);
    let seq = rang["seq"].as_u64().unwrap();
    assert_eq!(desk.doorbell(&project, seq, 0).await.ok(), json!({"rang": false, "seq": seq}), "never again for the same command");
    assert_eq!(desk.doorbell(&project, 0, 0).await.ok()["rang"], true, "a waiter looks first");
    assert_eq!(second.doorbell(&project, 0, 0).await.ok()["rang"], false, "another device's session");
    assert_eq!(desk.doorbell(&second.project("Other").await, 0, 0).await.ok()["rang"], false, "a project it did not ask for");
    let paused = json!({"project_id": project, "revision": 1, "sessions": [session(1)], "relay": {"pickup": "doorbell", "paused": true}});
    desk.post("graph-relays/sync", paused).await.ok();
    assert_eq!(desk.doorbell(&project, 0, 0).await.ok()["rang"], false, "a paused device is not rung");
}
