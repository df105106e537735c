//! The door: order of a call, who refused, seats, stops, what the history and the watchers get.
use std::{
    sync::{
        Arc,
        atomic::{AtomicI32, Ordering},
    },
    time::Duration,
};

use agent::{
    approvals::{Attendance, OwnersAnswer},
    gate::{Caller, NoSeat, Refusal, Seat},
    policy::{RuleBook, Ruling},
};
use domain::wire::event::{FleetWhat, RulingWord};
use futures::future::BoxFuture;
use serde_json::json;

use crate::support::{Desk, a_rule, book, caller, until_waiting};

fn write(desk: &Desk) -> serde_json::Value {
    json!({ "path": desk.path("a"), "content": "x" })
}

#[tokio::test(start_paused = true)]
async fn a_call_leaves_its_story_in_events_and_history() {
    let desk = Desk::new(RuleBook::default());
    let _owner = desk.owner_always_says(|_| OwnersAnswer::Once);
    desk.call("write_file", write(&desk)).await.unwrap();
    let events = desk.record.events();
    let kinds: Vec<_> = events.iter().map(|e| serde_json::to_value(e).unwrap()["kind"].as_str().unwrap().to_owned()).collect();
    assert_eq!(kinds, ["tool_call", "approval_asked", "approval_answered", "tool_result"]);
    assert!(
        matches!(&events[0], FleetWhat::ToolCall { call: 1, agent: Some(1), ruling: RulingWord::Ask, rule, .. } if rule == "default: writing asks unless a rule says otherwise")
    );
    assert!(matches!(&events[1], FleetWhat::ApprovalAsked { call: 1, seconds_left: 600, .. }));
    assert!(matches!(&events[2], FleetWhat::ApprovalAnswered { answer, by, .. } if answer == "once" && by == "owner"));
    assert!(matches!(&events[3], FleetWhat::ToolResult { call: 1, ok: true, .. }));
    let lines = desk.record.lines();
    assert_eq!((lines[0].ruling, lines[1].ruling, lines[1].answer.unwrap().0), (Ruling::Ask, Ruling::Allow, "once"));
    assert_eq!(lines[0].input_hash.len(), 64);
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_recorded_is_not_done() {
    let desk = Desk::new(book(&[a_rule("write_file", Ruling::Allow)]));
    desk.record.broken.store(true, Ordering::Relaxed);
    assert_eq!(desk.call("write_file", write(&desk)).await, Err(Refusal::NotRecorded("disk full".into())));
    assert!(!std::path::Path::new(&desk.path("a")).exists());
}

#[tokio::test(start_paused = true)]
async fn rules_that_cannot_be_read_deny() {
    let desk = Desk::new(RuleBook::default());
    *desk.book.0.lock().unwrap() = None;
    let refusal = desk.call("list_files", json!({})).await.unwrap_err();
    assert!(matches!(&refusal, Refusal::ByRule(why) if why.contains("the store is locked")), "{refusal}");
}

#[tokio::test(start_paused = true)]
async fn the_three_refusals_say_who_and_why() {
    let by_rule = Desk::new(book(&[a_rule("write_file", Ruling::Deny)]));
    let text = by_rule.call("write_file", write(&by_rule)).await.unwrap_err().to_string();
    assert_eq!(text, "Not done: denied by the owner's rules (rule 1: deny write_file, everywhere). Asking again will not change that.");
    let by_owner = Desk::new(RuleBook::default());
    let _owner = by_owner.owner_always_says(|_| OwnersAnswer::Deny { note: Some("use the other folder".into()) });
    let text = by_owner.call("write_file", write(&by_owner)).await.unwrap_err().to_string();
    assert_eq!(text, "Not done: the owner denied this call: use the other folder");
    let nobody = Desk::new(RuleBook::default());
    let text = nobody.call("write_file", write(&nobody)).await.unwrap_err().to_string();
    assert_eq!(text, "Not done: nobody answered within 600 seconds. This is not a refusal by the owner; do not repeat the call in this run.");
    let unattended = Desk::attended(RuleBook::default(), Attendance::None);
    let text = unattended.call("write_file", write(&unattended)).await.unwrap_err().to_string();
    assert!(text.contains("nobody can be asked here") && text.contains("graph-deskd allow write_file"), "{text}");
    for desk in [by_rule, by_owner, nobody, unattended] {
        assert!(!std::path::Path::new(&desk.path("a")).exists());
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_cannot_be_prepared_still_has_its_line() {
    let desk = Desk::new(book(&[a_rule("*", Ruling::Allow)]));
    for (tool, input) in [("read_file", json!({ "path": "/etc/passwd" })), ("no_tool", json!({})), ("read_file", json!({ "bogus": 1 }))] {
        assert!(matches!(desk.call(tool, input).await, Err(Refusal::Invalid(_))));
    }
    let lines = desk.record.lines();
    assert_eq!(lines.iter().map(|l| l.ruling).collect::<Vec<_>>(), [Ruling::Deny; 3]);
    assert!(lines[0].because.text.contains("outside the granted folders"));
}

#[tokio::test(start_paused = true)]
async fn a_tool_left_out_of_any_list_is_denied() {
    let desk = Desk::new(book(&[a_rule("*", Ruling::Allow)]));
    let lists = |lists: &[&[&str]]| Caller { narrowed_to: lists.iter().map(|l| l.iter().map(|t| (*t).to_owned()).collect()).collect(), ..caller() };
    for (narrowed, ok) in [
        (lists(&[]), true),
        (lists(&[&["write_file", "read_file"], &["write_file"]]), true),
        (lists(&[&["write_file"], &["read_file"]]), false),
        (lists(&[&[]]), false),
    ] {
        let result = desk.call_from(&narrowed, "write_file", write(&desk)).await;
        assert_eq!(result.is_ok(), ok, "{:?}: {result:?}", narrowed.narrowed_to);
    }
}

#[derive(Default)]
struct Counting {
    given_back: AtomicI32,
    taken: AtomicI32,
}
impl Seat for Counting {
    fn give_back(&self) {
        self.given_back.fetch_add(1, Ordering::Relaxed);
    }
    fn take_again(&self) -> BoxFuture<'_, ()> {
        self.taken.fetch_add(1, Ordering::Relaxed);
        Box::pin(std::future::ready(()))
    }
}

#[tokio::test(start_paused = true)]
async fn the_seat_is_given_back_only_for_the_wait() {
    let desk = Desk::new(RuleBook::default());
    let seat = Arc::new(Counting::default());
    desk.gate.call(&caller(), "list_files", &crate::support::json(json!({})), seat.as_ref()).await.unwrap();
    assert_eq!((seat.given_back.load(Ordering::Relaxed), seat.taken.load(Ordering::Relaxed)), (0, 0));
    let (gate, input, its_seat) = (desk.gate.clone(), crate::support::json(write(&desk)), seat.clone());
    let call = tokio::spawn(async move { gate.call(&caller(), "write_file", &input, its_seat.as_ref()).await });
    let id = until_waiting(&desk.approvals, 1).await[0];
    assert_eq!((seat.given_back.load(Ordering::Relaxed), seat.taken.load(Ordering::Relaxed)), (1, 0));
    desk.approvals.answer(id, OwnersAnswer::Once).unwrap();
    call.await.unwrap().unwrap();
    assert_eq!((seat.given_back.load(Ordering::Relaxed), seat.taken.load(Ordering::Relaxed)), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_stop_ends_the_wait_and_nothing_is_done() {
    let desk = Desk::new(RuleBook::default());
    let (gate, input) = (desk.gate.clone(), crate::support::json(write(&desk)));
    let call = tokio::spawn(async move { gate.call(&caller(), "write_file", &input, &NoSeat).await });
    until_waiting(&desk.approvals, 1).await;
    desk.stop.cancel();
    assert_eq!(call.await.unwrap(), Err(Refusal::Stopped));
    until_waiting(&desk.approvals, 0).await;
    assert_eq!(desk.call("list_files", json!({})).await, Err(Refusal::Stopped), "nor anything after it");
    assert!(!std::path::Path::new(&desk.path("a")).exists());
}

/// C41: a denied tool never acts, an asking one asks once per call, at any depth.
#[tokio::test(start_paused = true)]
async fn parallel_calls_of_a_called_graph_ask_once_each_and_never_what_is_denied() {
    let desk = Desk::new(book(&[a_rule("edit_file", Ruling::Deny), a_rule("write_file", Ruling::Ask)]));
    std::fs::write(desk.path("kept"), "old").unwrap();
    let nested = Caller { graphs: vec![crate::support::graph(1, 1), crate::support::graph(2, 1)], ..caller() };
    let mut calls = Vec::new();
    for n in 0..4 {
        let (gate, nested) = (desk.gate.clone(), nested.clone());
        let write = crate::support::json(json!({ "path": desk.path(&format!("f{n}")), "content": "x" }));
        let edit = crate::support::json(json!({ "path": desk.path("kept"), "old": "old", "new": "new" }));
        calls.push(tokio::spawn(async move {
            let denied = gate.call(&nested, "edit_file", &edit, &NoSeat).await;
            (denied, gate.call(&nested, "write_file", &write, &NoSeat).await)
        }));
    }
    for id in until_waiting(&desk.approvals, 4).await {
        desk.approvals.answer(id, OwnersAnswer::Once).unwrap();
    }
    for call in calls {
        let (denied, written) = call.await.unwrap();
        assert!(matches!(denied, Err(Refusal::ByRule(_))) && written.is_ok());
    }
    assert_eq!(std::fs::read_to_string(desk.path("kept")).unwrap(), "old");
    let asked = desk.record.events().iter().filter(|e| matches!(e, FleetWhat::ApprovalAsked { .. })).count();
    assert_eq!(asked, 4);
    tokio::time::advance(Duration::from_secs(1)).await;
}
