//! Held requests and the words for waiting, on a clock that moves only when everybody waits.
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use crate::world::{Agent, World, done, session};

const MINUTE_MS: i64 = 60_000;

async fn world() -> World {
    World::sqlite().await
}

async fn get(agent: &Agent<'_>, command: &str, wait: u64) -> Value {
    agent.call("get_graph_run", &json!({"command_id": command, "wait_seconds": wait}).to_string()).await.ok().clone()
}

#[tokio::test(start_paused = true)]
async fn a_doorbell_nobody_rings_answers_after_its_hold() {
    let w = world().await;
    let (desk, project, _) = w.set_up().await;
    let begin = Instant::now();
    assert_eq!(desk.doorbell(&project, 3, 60_000).await.ok(), json!({"rang": false, "seq": 3}));
    assert_eq!(begin.elapsed().as_secs(), 25, "25 s at most, whatever is asked");
}

#[tokio::test(start_paused = true)]
async fn a_held_control_poll_ends_with_the_cancel_or_after_three_seconds() {
    let w = world().await;
    let (desk, _, agent) = w.set_up().await;
    let id = agent.run("key-00001").await;
    desk.start(&id, "e1").await.ok();
    let begin = Instant::now();
    assert_eq!(desk.control(&id, "e1", 10_000).await.ok()["cancel"], false);
    assert_eq!(begin.elapsed().as_secs(), 3);
    let cancel = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        agent.cancel(&id).await
    };
    let begin = Instant::now();
    let (control, _) = tokio::join!(desk.control(&id, "e1", 3000), cancel);
    assert_eq!((control.ok()["cancel"].as_bool(), begin.elapsed().as_millis() / 100), (Some(true), 10));
    let refused = desk.control(&id, "other", 3000).await;
    assert_eq!((refused.status, refused.json()["status"].as_str()), (409, Some("running")));
}

#[tokio::test(start_paused = true)]
async fn a_completion_ends_the_held_control_poll() {
    let w = world().await;
    let (desk, _, agent) = w.set_up().await;
    let id = agent.run("key-00001").await;
    desk.start(&id, "e1").await.ok();
    let complete = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        desk.complete(&id, done("e1", "1")).await
    };
    let begin = Instant::now();
    let (control, completed) = tokio::join!(desk.control(&id, "e1", 3000), complete);
    assert_eq!((control.status, control.json()["status"].as_str(), completed.status), (409, Some("completed"), 200));
    assert!(begin.elapsed() < Duration::from_secs(2));
}

#[tokio::test(start_paused = true)]
async fn a_waiting_read_answers_at_the_change_and_a_plain_one_never_waits() {
    let w = world().await;
    let (desk, _, agent) = w.set_up().await;
    let id = agent.run("key-00001").await;
    let begin = Instant::now();
    assert_eq!(get(&agent, &id, 0).await["status"], "queued");
    assert_eq!(begin.elapsed(), Duration::ZERO);
    assert_eq!(get(&agent, &id, 25).await["status"], "queued");
    assert_eq!(begin.elapsed().as_secs(), 25);
    let start = async {
        tokio::time::sleep(Duration::from_secs(2)).await;
        desk.start(&id, "e1").await
    };
    let begin = Instant::now();
    let (run, _) = tokio::join!(get(&agent, &id, 25), start);
    assert_eq!((run["status"].as_str(), begin.elapsed().as_secs()), (Some("running"), 2));
    desk.complete(&id, done("e1", "1")).await.ok();
    let begin = Instant::now();
    assert_eq!(get(&agent, &id, 25).await["status"], "completed");
    assert_eq!(begin.elapsed(), Duration::ZERO, "what has ended is not waited for");
}

#[tokio::test(start_paused = true)]
async fn a_run_that_ends_at_once_is_read_in_one_call_and_a_start_is_told_soon() {
    let w = world().await;
    let (desk, _, agent) = w.set_up().await;
    let (short, long) = (agent.run("key-00001").await, agent.run("key-00002").await);
    let work = async {
        desk.start(&short, "e1").await.ok();
        tokio::time::sleep(Duration::from_millis(10)).await;
        desk.complete(&short, done("e1", "1")).await.ok();
        desk.start(&long, "e2").await.ok();
    };
    let begin = Instant::now();
    let (read, told, ()) = tokio::join!(get(&agent, &short, 25), get(&agent, &long, 25), work);
    assert_eq!((read["status"].as_str(), told["status"].as_str()), (Some("completed"), Some("running")));
    assert_eq!(begin.elapsed().as_millis(), 25, "15 ms after the start that was followed by nothing");
}

#[tokio::test(start_paused = true)]
async fn a_fifth_held_request_of_one_device_is_refused() {
    let w = world().await;
    let (desk, project, _) = w.set_up().await;
    let held = futures::future::join_all((0..5).map(|_| desk.doorbell(&project, 0, 25_000))).await;
    let refused: Vec<_> = held.iter().filter(|r| r.status == 429).collect();
    assert_eq!((refused.len(), refused[0].header("retry-after"), refused[0].code().as_str()), (1, "5", "too_many_requests"));
    assert_eq!(desk.doorbell(&project, 0, 1).await.status, 200, "their places are free again");
}

#[tokio::test(start_paused = true)]
async fn a_queue_that_goes_away_answers_what_it_holds() {
    let w = world().await;
    let (desk, project, agent) = w.set_up().await;
    let id = agent.run("key-00001").await;
    desk.start(&id, "e1").await.ok();
    let close = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        w.app.close().await;
    };
    let begin = Instant::now();
    let (bell, control, run, ()) = tokio::join!(desk.doorbell(&project, 9, 25_000), desk.control(&id, "e1", 3000), get(&agent, &id, 25), close);
    assert_eq!((bell.ok()["rang"].as_bool(), control.ok()["cancel"].as_bool(), run["status"].as_str()), (Some(false), Some(false), Some("running")));
    assert!(begin.elapsed() < Duration::from_secs(2));
}

/// `code poll_after_seconds`
async fn waits(agent: &Agent<'_>, command: &str) -> String {
    let run = agent.get(command).await;
    let waiting = &run["waiting"];
    if !waiting.is_null() {
        for part in ["text", "since", "owner_can", "agent_can"] {
            assert!(waiting[part].is_string(), "{part}");
        }
    }
    format!("{} {}", waiting["code"].as_str().unwrap_or("-"), run["poll_after_seconds"])
}

#[tokio::test]
async fn every_reason_for_waiting_is_told_and_the_first_that_holds_wins() {
    let w = world().await;
    let (desk, project, agent) = w.set_up().await;
    let relay = async |pickup: &str, paused: bool| {
        let body = json!({"project_id": project, "revision": 1, "sessions": [session(1)], "relay": {"pickup": pickup, "paused": paused}});
        desk.post("graph-relays/sync", body).await.ok();
    };
    let id = agent.run("key-00001").await;
    assert_eq!(waits(&agent, &id).await, "picking_up 20");
    relay("doorbell", false).await;
    assert_eq!(waits(&agent, &id).await, "picking_up 2");
    let second = agent.run("key-00002").await;
    assert_eq!(waits(&agent, &second).await, "behind_another_run 2");
    assert!(agent.get(&second).await["next_step"].as_str().unwrap().contains("one desktop is one worker; parallel work belongs inside one Graph"));
    relay("doorbell", true).await;
    assert_eq!(waits(&agent, &second).await, "device_paused 20");
    relay("poll", false).await;
    desk.start(&id, "e1").await.ok();
    assert_eq!((waits(&agent, &id).await, waits(&agent, &second).await), ("- 10".into(), "behind_another_run 20".into()));
    let asks = json!({"execution_id": "e1", "progress": {"agents_done": 0, "tokens": 0, "waiting_approval": [{"tool": "shell", "agent": "a", "seconds_left": 9}]}});
    desk.post(&format!("graph-relays/commands/{id}/control"), asks).await.ok();
    assert_eq!(waits(&agent, &id).await, "waiting_approval 10");
    w.pass_ms(MINUTE_MS);
    assert_eq!((waits(&agent, &id).await, waits(&agent, &second).await), ("device_offline 30".into(), "device_offline 30".into()));
    desk.complete(&id, done("e1", "1")).await.ok();
    assert_eq!(waits(&agent, &id).await, "- 0");
    assert_eq!(waits(&agent, &second).await, "picking_up 20");
}

#[tokio::test]
async fn a_device_that_never_came_is_told_as_such() {
    let w = world().await;
    let (_, _, agent) = w.set_up().await;
    let id = agent.run("key-00001").await;
    w.app.queue.store_contacts().await.unwrap();
    // What a queue restored from a backup may know: a device without any contact.
    let server::store::Place::Sqlite { path, .. } = &w.place else { panic!() };
    rusqlite::Connection::open(path).unwrap().execute("UPDATE devices SET last_contact_at = NULL", []).unwrap();
    let mut w2 = World::at(w.place.clone(), None).await;
    w2.restart().await;
    let agent = Agent { world: &w2, id: String::new(), token: agent.token.clone() };
    assert_eq!(waits(&agent, &id).await, "device_never_seen 30");
}

#[tokio::test]
async fn every_ending_says_what_it_means() {
    let w = world().await;
    let (desk, _, agent) = w.set_up().await;
    let mut told = std::collections::BTreeSet::new();
    let endings =
        domain::FailReason::ALL.iter().map(|r| ("failed", r.as_str())).chain(domain::CancelReason::ALL.iter().map(|r| ("cancelled", r.as_str())));
    for (n, (status, reason)) in endings.enumerate() {
        let id = agent.run(&format!("key-{n:05}")).await;
        desk.start(&id, "e1").await.ok();
        let body = json!({"execution_id": "e1", "status": status, "reason": reason, "error": "why", "total_tokens": 1, "reported_cost": null});
        assert_eq!(desk.complete(&id, body.to_string()).await.ok(), json!({"recorded": true, "status": status}));
        let run = agent.get(&id).await;
        assert_eq!((run["status"].as_str(), run["reason"].as_str()), (Some(status), Some(reason)));
        if status == "cancelled" {
            assert!(run["next_step"].as_str().unwrap().ends_with("it does not undo what was done."));
        }
        told.insert(run["next_step"].as_str().unwrap().to_owned());
    }
    assert_eq!(told.len(), domain::FailReason::ALL.len() + domain::CancelReason::ALL.len(), "no two endings share a sentence");
}

#[tokio::test]
async fn a_ticket_is_answered_while_every_desktop_is_offline() {
    let w = world().await;
    let (_, _, agent) = w.set_up().await;
    w.pass_ms(10 * MINUTE_MS);
    let ticket = agent.try_run(1, "key-00001", "{}").await.ok().clone();
    assert_eq!(
        (ticket["status"].as_str(), ticket["desktop"]["online"].as_bool(), ticket["poll_after_seconds"].as_u64()),
        (Some("queued"), Some(false), Some(30))
    );
    assert!(ticket["next_step"].as_str().unwrap().starts_with("Queued, not running."));
    assert_eq!(ticket["times"]["expires_at"], "2026-12-06T12:10:00.000Z");
}
