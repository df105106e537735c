//! Consent is asked at the instant of start: C15, C16, C55, C60, C63, C66.
use device::store::GraphEdit;
use domain::{Event, Slug, wire::relay::SessionStatus};
use serde_json::json;

use crate::{
    queue::Fault,
    world::{World, project_id},
};

#[tokio::test(start_paused = true)]
async fn a_command_runs_with_its_arguments_untouched_and_reports_on_its_channel() {
    let mut world = World::new(1_000);
    let session = world.share("digest");
    world.start();
    let command = world.enqueue(session);
    assert_eq!(world.until_terminal(command).await, "completed/done");
    let run = world.runner.state().runs[0].1.clone();
    assert_eq!(run.channel.to_string(), format!("graph:external:{command}"));
    assert_eq!(run.args.as_str(), r#"{"z":1e+21,"a":-0}"#);
    assert_eq!(world.store.project_of(&run.channel).unwrap(), Some(world.project));
    let body = world.queue.state().commands[0].completions[0].clone();
    assert!(body.contains(r#""result":{"z":1e+21,"a":-0},"total_tokens":0,"reported_cost":null"#), "{body}");
    assert!(world.store.outbox().unwrap().is_empty());
    let record = world.store.execution_of(command).unwrap().unwrap();
    assert!(matches!(record.delivery, device::store::Delivery::Delivered { .. }));
    let waited = record.pickup_wait_ms.unwrap();
    assert_eq!(world.store.pickup_waits(world.project, 5).unwrap(), [("DIGEST".to_owned(), waited)], "told with its Graph's name");
    assert!(matches!(record.origin, device::store::Origin::Command(facts) if facts.agent.as_deref() == Some("Claude")));
}

#[tokio::test(start_paused = true)]
async fn what_was_withdrawn_while_it_waited_ends_as_not_shared_and_never_runs() {
    let mut world = World::new(10_000);
    let other = project_id(2);
    world.add_project(other, "Work");
    let first = world.share("first");
    let (unticked, in_disabled, deleted, renamed, drafted) =
        (world.share("one"), world.graph("two"), world.share("three"), world.share("four"), world.share("five"));
    world.store.tick(other, in_disabled, "{}", domain::Timestamp::default()).unwrap();
    let running = world.enqueue(first);
    let waiting = [
        world.enqueue(unticked),
        world.queue.enqueue(other, in_disabled, "two"),
        world.enqueue(deleted),
        world.enqueue(renamed),
        world.enqueue(drafted),
    ];
    world.start();
    world.until("the first runs", |w| w.runs() == 1).await;
    world.store.untick(world.project, unticked).unwrap();
    world.store.enable_project(other, false).unwrap();
    let now = domain::Timestamp::default();
    world.store.delete_graph(deleted, now).unwrap();
    world.store.change_graph(renamed, GraphEdit { slug: Some(Slug::parse("four-b").unwrap()), ..GraphEdit::default() }, now).unwrap();
    world.store.change_graph(drafted, GraphEdit { status: Some(SessionStatus::Draft), ..GraphEdit::default() }, now).unwrap();
    for command in waiting {
        assert_eq!(world.until_terminal(command).await, "cancelled/not_shared");
    }
    assert_eq!(world.queue.ending(running), "completed/done");
    assert_eq!(world.runs(), 1);
    let body = world.queue.state().commands[1].completions[0].clone();
    let expected =
        r#"{"execution_id":null,"status":"cancelled","reason":"not_shared","error":"Graph session is no longer shared with this project"}"#;
    assert_eq!(body, expected);
}

#[tokio::test(start_paused = true)]
async fn a_new_body_runs_with_its_version_and_the_running_one_is_unaffected() {
    let mut world = World::new(10_000);
    let session = world.share("digest");
    let (first, second) = (world.enqueue(session), world.enqueue(session));
    world.start();
    world.until("the first runs", |w| w.runs() == 1).await;
    world.store.save_version(session, "return 2", &Default::default(), domain::Timestamp::default()).unwrap();
    assert_eq!(world.until_terminal(second).await, "completed/done");
    let versions: Vec<u64> = world.runner.state().runs.iter().map(|(_, r)| r.version).collect();
    assert_eq!(versions, [1, 2]);
    assert_eq!(world.store.execution_of(first).unwrap().unwrap().version, 1);
    assert_eq!(world.store.execution_of(second).unwrap().unwrap().version, 2);
}

#[tokio::test(start_paused = true)]
async fn a_tick_withdrawn_while_the_start_is_on_the_wire_stops_it_before_the_first_instruction() {
    let mut world = World::new(5_000);
    let (first, third) = (world.share("first"), world.share("third"));
    let commands = [world.enqueue(first), world.enqueue(first), world.enqueue(third)];
    world.queue.fault(&format!("{}/start", commands[2]), Fault::Delay(2_000), 1);
    world.start();
    world.until("the first runs", |w| w.runs() == 1).await;
    world.queue.apply(commands[1], Event::Cancel).unwrap();
    world.until("the third's start is on the wire", |w| w.queue.count(&format!("{}/start", commands[2])) == 1).await;
    world.store.untick(world.project, third).unwrap();
    assert_eq!(world.until_terminal(commands[2]).await, "cancelled/not_shared");
    assert_eq!(world.queue.ending(commands[1]), "cancelled/cancelled_while_queued");
    assert_eq!(world.runs(), 1, "neither ran an instruction");
    let third = world.store.execution_of(commands[2]).unwrap().unwrap();
    assert_eq!(third.reason.as_deref(), Some("not_shared"));
    assert!(world.store.execution_of(commands[1]).unwrap().is_none(), "no execution came of the refused start");
}

#[tokio::test(start_paused = true)]
async fn a_command_whose_id_is_no_uuid_writes_nothing_and_the_others_go_on() {
    let mut world = World::new(100);
    let session = world.share("digest");
    for id in ["../x", "00000000-0000-0000-0000-000000000000", "3F2B8C1E-9A4D-4C6B-8E2F-0A1B2C3D4E5F", "seven"] {
        world.queue.state().strange_offers.push(json!({
            "command_id": id, "graph_session_id": session, "slug": "digest", "seq": 1, "arguments": {},
            "queued_at": "2026-11-29T00:00:00Z", "expires_at": "2026-12-29T00:00:00Z"
        }));
    }
    world.queue.state().strange_offers.push(json!({"nonsense": true}));
    let good = world.enqueue(session);
    world.start();
    assert_eq!(world.until_terminal(good).await, "completed/done");
    assert_eq!(world.runs(), 1);
    let words = world.store.project(world.project).unwrap().unwrap().sync_error.unwrap();
    assert!(words.contains("not a UUID") && words.contains("../x"), "{words}");
    assert!(world.store.outbox().unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_project_disabled_while_the_desktop_is_busy_ends_its_queue_within_seconds() {
    let mut world = World::new(60_000);
    let other = project_id(2);
    world.add_project(other, "Work");
    let (first, second) = (world.share("first"), world.graph("second"));
    world.store.tick(other, second, "{}", domain::Timestamp::default()).unwrap();
    let busy = world.enqueue(first);
    world.start();
    world.until("it is busy", |w| w.runs() == 1).await;
    let queued: Vec<_> = (0..3).map(|_| world.queue.enqueue(other, second, "second")).collect();
    let before = world.elapsed();
    world.store.enable_project(other, false).unwrap();
    for command in &queued {
        assert_eq!(world.until_terminal(*command).await, "cancelled/not_shared");
    }
    assert!((world.elapsed() - before).as_secs() < 5);
    assert!(world.queue.state().lists[&other].sessions.is_empty());
    world.store.enable_project(other, true).unwrap();
    world.until_terminal(busy).await;
    world.pass_by(60).await;
    assert_eq!(world.runs(), 1, "enabling it again revives none");
}

#[tokio::test(start_paused = true)]
async fn disabling_is_repeated_until_it_is_answered() {
    let mut world = World::new(100);
    world.share("first");
    world.start();
    world.until("it is synced", |w| w.queue.count("/sync") == 1).await;
    world.queue.fault("/sync", Fault::LoseRequest, 3);
    world.store.enable_project(world.project, false).unwrap();
    world.until("the server knows", |w| w.queue.state().lists[&w.project].disabled).await;
    let syncs = world.queue.count("/sync");
    world.pass_by(120).await;
    assert_eq!(world.queue.count("/sync"), syncs, "answered once, a disabled project is silent");
}

#[tokio::test(start_paused = true)]
async fn of_two_syncs_that_cross_on_the_wire_the_newer_list_stands() {
    let mut world = World::new(60_000);
    let session = world.share("first");
    world.share("second");
    world.start();
    world.until("it is synced", |w| w.queue.count("/sync") == 1).await;
    // The next pass's sync is handled late: the request itself is held up on its way.
    world.queue.fault("/sync", Fault::LoseRequest, 1);
    let stale = world.queue.requests("/sync")[0].body.clone();
    world.store.untick(world.project, session).unwrap();
    world.until("the newer list is there", |w| w.queue.state().lists[&w.project].sessions.len() == 1).await;
    let client = world.relay.client().unwrap();
    let answer = client.sync(&serde_json::from_value(stale).unwrap()).await.unwrap();
    assert_eq!(world.queue.state().lists[&world.project].sessions.len(), 1);
    assert_eq!(answer.revision, world.store.project(world.project).unwrap().unwrap().revision);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_knows_a_newer_revision_than_a_lost_profile_is_told_again_above_it() {
    let mut world = World::new(100);
    world.share("first");
    let revision = world.store.project(world.project).unwrap().unwrap().revision;
    let old = domain::wire::relay::SyncRequest {
        project_id: world.project,
        revision: revision + 40,
        sessions: vec![],
        relay: None,
        metadata_only: false,
        disabled: false,
    };
    world.queue.state().lists.insert(world.project, old);
    world.start();
    world.until("ours stands", |w| w.queue.state().lists[&w.project].sessions.len() == 1).await;
    assert_eq!(world.queue.state().lists[&world.project].revision, revision + 41);
    assert_eq!(world.queue.count("/sync"), 2);
}
