//! What the queue promises, on either store.
use futures::future::join_all;
use serde_json::{Value, json};

use crate::{
    cluster::Cluster,
    world::{Desk, NOTFOUND, READ, RUN, World, done, gs, session},
};

macro_rules! contract {
    ($($name:ident),+ $(,)?) => {
        $(#[tokio::test]
        async fn $name() {
            cases::$name(&mut World::sqlite().await).await;
        })+

        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn postgres_keeps_the_whole_contract() {
            let cluster = Cluster::start();
            $({
                eprintln!("{}", stringify!($name));
                let mut world = World::at(cluster.place().await, None).await;
                cases::$name(&mut world).await;
                world.app.close().await;
            })+
        }
    };
}

contract! {
    a_run_goes_from_ticket_to_result_byte_for_byte,
    a_cloned_device_cannot_start_a_command_twice,
    a_cut_sync_offers_the_command_again,
    an_accepted_cancel_always_ends_as_cancelled,
    cancelling_ends_a_queued_command_at_once_and_changes_no_ending,
    nothing_lives_only_in_memory,
    fifty_calls_with_one_key_make_one_command,
    a_key_belongs_to_one_run_whatever_the_spelling,
    two_agents_may_use_the_same_key,
    keys_have_a_length_and_are_never_blank,
    another_agents_run_reads_like_one_that_never_was,
    scopes_and_tokens_decide_who_may_call,
    a_hundred_and_first_session_is_refused_and_the_last_list_stands,
    an_older_list_does_not_replace_a_newer_one,
    a_session_is_held_by_the_first_device_that_synced_it,
    nul_and_odd_text_come_back_unchanged,
    a_withdrawn_start_ends_as_not_shared,
    a_restarted_desktop_ends_its_cancelled_command,
    a_late_completion_changes_nothing_and_is_let_go,
    a_project_with_nothing_shared_lists_exactly_nothing,
    a_queue_that_forgot_a_start_takes_the_devices_word,
    pairing_again_keeps_the_identity_and_kills_the_old_token,
    revoking_an_agent_ends_everything_of_it,
    deleting_a_project_withdraws_what_it_holds,
    disabling_a_project_ends_what_is_queued_and_nothing_comes_back,
    a_project_takes_a_hundred_queued_commands,
    an_answer_to_a_sync_stays_under_its_size,
    a_session_runs_under_the_oldest_granted_project,
    arguments_are_checked_before_anything_is_queued,
    pages_follow_each_other_without_gap,
    the_owner_sees_all_commands_but_only_own_results,
    time_alone_expires_prunes_and_gives_up,
    unpairing_withdraws_what_has_not_begun,
    projects_have_one_name_each,
    the_doorbell_rings_only_for_what_this_device_could_start,
    a_client_connects_by_the_book,
    a_rotated_token_has_a_grace_and_then_ends_its_grant,
    a_code_is_used_once_by_whom_it_was_given_to,
    a_new_consent_is_a_new_agent_unless_the_owner_says_otherwise,
    the_owners_page_is_read_with_a_code_from_the_desktop,
}

pub mod cases {
    use super::*;

    pub async fn a_client_connects_by_the_book(w: &mut World) {
        crate::oauth::by_the_book(w).await;
    }

    pub async fn a_rotated_token_has_a_grace_and_then_ends_its_grant(w: &mut World) {
        crate::oauth::rotation(w).await;
    }

    pub async fn a_code_is_used_once_by_whom_it_was_given_to(w: &mut World) {
        crate::oauth::codes(w).await;
    }

    pub async fn a_new_consent_is_a_new_agent_unless_the_owner_says_otherwise(w: &mut World) {
        crate::oauth::continuing(w).await;
    }

    pub async fn the_owners_page_is_read_with_a_code_from_the_desktop(w: &mut World) {
        crate::matrix_of_access::owners_page(w).await;
    }

    pub async fn a_run_goes_from_ticket_to_result_byte_for_byte(w: &mut World) {
        let (desk, project, agent) = w.set_up().await;
        let raw = r#"{"z":1e+21,"a":-0,"big":9223372036854775809,"é":"\u0000","e\u0301":[1.0,0.10],"A":"\u0041"}"#;
        let ticket = agent.try_run(1, "key-00001", raw).await.ok().clone();
        assert_eq!(
            (ticket["status"].as_str(), ticket["replayed"].as_bool(), ticket["queue_position"].as_u64()),
            (Some("queued"), Some(false), Some(1))
        );
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
            assert_eq!(desk.offered(&project).await, [id.clone()]);
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
        assert_eq!(
            states,
            ["queued -", "queued -", "running -", "running -", "completed done", "failed deadline", "cancelled cancelled_while_queued"]
        );
        assert_eq!(desk.offered(&project).await, [ids[0].clone(), ids[1].clone()]);
        assert_eq!(desk.control(&ids[3], "e3", 0).await.ok()["cancel"], true);
        desk.complete(&ids[3], r#"{"execution_id":"e3","status":"cancelled","reason":"stopped","error":"","total_tokens":0,"reported_cost":null}"#)
            .await
            .ok();
        assert_eq!(agent.state(&ids[3]).await, "cancelled stopped");
        let failed = agent.get(&ids[5]).await;
        assert_eq!((failed["error"].as_str(), failed["reported_cost"].as_f64()), (Some("late"), Some(0.5)));
    }

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
        for (tool, arguments) in [
            ("run_graph_session", json!({"graph_session_id": gs(1), "idempotency_key": "key-00001"})),
            ("cancel_graph_run", json!({ "command_id": id })),
        ] {
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
        let failed =
            json!({"execution_id": "e1", "status": "failed", "reason": "script_error", "error": odd, "total_tokens": 1, "reported_cost": 1e21});
        desk.complete(&id, failed.to_string()).await.ok();
        let run = agent.get(&id).await;
        assert_eq!((run["error"].as_str(), run["reason"].as_str()), (Some(odd), Some("script_error")));
        assert_eq!(desk.project(odd).await, desk.project(odd).await, "the same name is the same project");
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
        let before =
            r#"{"execution_id":null,"status":"cancelled","reason":"not_shared","error":"Graph session is no longer shared with this project"}"#;
        assert_eq!(desk.complete(&ids[0], before).await.status, 409, "a null id is taken only while the command is queued");
        assert_eq!(desk.complete(&fourth, before).await.ok(), json!({"recorded": true, "status": "cancelled"}));
        assert_eq!(desk.complete(&fourth, before).await.ok(), json!({"recorded": true, "status": "cancelled"}));
        let run = agent.get(&fourth).await;
        assert_eq!(
            (run["reason"].as_str(), run["error"].as_str()),
            (Some("not_shared"), Some("Graph session is no longer shared with this project"))
        );
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
        w.app.queue.store_contacts(true).await.unwrap();
        w.pass_ms(31 * 24 * 3_600_000);
        assert_eq!(w.app.queue.sweep().await.unwrap().gone, 2);
        assert_eq!(
            (agent.state(&quiet).await, agent.state(&asked).await),
            ("failed device_did_not_return".into(), "cancelled device_did_not_return".into())
        );
        assert_eq!(desk.complete(&quiet, done("e1", "1")).await.ok(), json!({"recorded": false, "status": "failed"}));
        assert_eq!(agent.state(&quiet).await, "failed device_did_not_return");
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

    pub async fn time_alone_expires_prunes_and_gives_up(w: &mut World) {
        let (desk, project, agent) = w.set_up().await;
        let id = agent.run("key-00001").await;
        w.pass_ms(7 * 24 * 3_600_000 - 1);
        assert_eq!(desk.offered(&project).await, [id.clone()]);
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

    pub async fn unpairing_withdraws_what_has_not_begun(w: &mut World) {
        let (desk, _, agent) = w.set_up().await;
        let ids = [agent.run("key-00001").await, agent.run("key-00002").await];
        desk.start(&ids[0], "e1").await.ok();
        assert_eq!(desk.delete("device").await.status, 200);
        assert_eq!(desk.get("projects").await.status, 401);
        assert_eq!((agent.state(&ids[0]).await, agent.state(&ids[1]).await), ("running -".into(), "cancelled not_shared".into()));
        assert!(agent.try_run(1, "key-00003", "{}").await.is_error);
    }

    pub async fn projects_have_one_name_each(w: &mut World) {
        let (desk, project, _) = w.set_up().await;
        assert_eq!(desk.project("Docs").await, project);
        let other = desk.project("Other").await;
        let rename =
            async |id: &str, name: &str| w.device("PATCH", &format!("projects/{id}"), &desk.token, json!({ "name": name }).to_string()).await;
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
}
