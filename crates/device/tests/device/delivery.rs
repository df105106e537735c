//! The outbox: C04, C13, C57, C67.
use device::{
    relay::{Link, Token},
    store::Delivery,
    view::RelayView,
};
use domain::CommandState;

use crate::{
    queue::Fault,
    world::{World, device_id},
};

const REFUSED: &str = r#"{"error":{"code":"invalid","message":"This completion is not understood","retryable":false}}"#;

#[tokio::test(start_paused = true)]
async fn a_refused_completion_holds_up_nothing_and_is_delivered_by_itself_later() {
    let mut world = World::new(100);
    let session = world.share("digest");
    let commands = [world.enqueue(session), world.enqueue(session), world.enqueue(session)];
    let of_a = format!("{}/complete", commands[0]);
    world.queue.fault(&of_a, Fault::Answer(422, "", REFUSED.into()), usize::MAX);
    world.start();
    world.until_terminal(commands[1]).await;
    world.until_terminal(commands[2]).await;
    assert!(world.elapsed().as_secs() < 5, "the others left in the first pass");
    world.pass_by(200).await;
    let tries = world.queue.count(&of_a);
    assert!((2..=10).contains(&tries), "{tries}");
    let attention = world.store.outbox_attention().unwrap();
    assert_eq!((attention.len(), attention[0].last_error.as_deref()), (1, Some("This completion is not understood")));
    let fourth = world.enqueue(session);
    assert_eq!(world.until_terminal(fourth).await, "completed/done");
    world.pass_by(4 * 3600).await;
    let late = world.queue.count(&of_a) - tries;
    assert!((3..=12).contains(&late), "hourly at least, never more than rarely: {late}");
    world.queue.heal();
    world.pass_by(3700).await;
    assert!(world.store.outbox().unwrap().is_empty());
    assert_eq!(world.queue.ending(commands[0]), "completed/done");
}

#[tokio::test(start_paused = true)]
async fn the_owner_retries_or_discards_what_needs_attention() {
    let mut world = World::new(100);
    let session = world.share("digest");
    let (first, second) = (world.enqueue(session), world.enqueue(session));
    world.queue.fault("/complete", Fault::Answer(422, "", REFUSED.into()), usize::MAX);
    world.start();
    world.until("both need attention", |w| w.store.outbox_attention().unwrap().len() == 2).await;
    assert!(world.store.outbox_discard(second, world.store.outbox().unwrap()[0].created_at).unwrap());
    world.queue.heal();
    let before = world.elapsed();
    assert!(world.store.outbox_retry(first).unwrap());
    assert_eq!(world.until_terminal(first).await, "completed/done");
    assert!((world.elapsed() - before).as_secs() < 3);
    let record = world.store.execution_of(second).unwrap().unwrap();
    assert!(matches!(record.delivery, Delivery::Discarded { .. }) && record.result.is_some(), "the history keeps it: {record:?}");
    world.pass_by(60).await;
    assert!(matches!(world.queue.of(second), CommandState::Running { .. }));
}

/// Invariant 3.
#[tokio::test(start_paused = true)]
async fn a_portals_page_or_a_redirect_is_no_answer_and_no_other_host_sees_the_token() {
    let mut world = World::new(100);
    let session = world.share("digest");
    let command = world.enqueue(session);
    world.queue.fault("/complete", Fault::Answer(200, "content-type: text/html", "<html>Sign in</html>".into()), 1);
    world.queue.fault("/complete", Fault::Answer(302, "location: https://evil.example/", String::new()), 1);
    world.queue.fault("/complete", Fault::Answer(200, "", r#"{"ok":true}"#.into()), 1);
    world.queue.fault("/complete", Fault::Answer(401, "", "<html>Proxy</html>".into()), 1);
    world.start();
    world.until("four tries were made", |w| w.queue.count("/complete") == 4).await;
    world.pass_by(1).await;
    let row = world.store.outbox().unwrap().remove(0);
    assert!(row.last_error.as_ref().unwrap().contains("does not come from Graph Queue"), "{row:?}");
    assert!(world.store.outbox_attention().unwrap().is_empty(), "no refusal of ours");
    assert_eq!(world.until_terminal(command).await, "completed/done");
    world.until("the outbox is empty", |w| w.store.outbox().unwrap().is_empty()).await;
    let state = world.queue.state();
    assert!(state.log.iter().all(|l| l.uri.starts_with("https://queue.test/external-assistants/") && !l.uri.contains("token")));
    assert!(state.log.iter().all(|l| l.headers["graph-relay-version"] == "1"));
}

#[tokio::test(start_paused = true)]
async fn a_completion_that_comes_too_late_is_let_go_and_the_history_says_so() {
    let mut world = World::new(1_000);
    let session = world.share("digest");
    let command = world.enqueue(session);
    world.start();
    world.until("it runs", |w| w.runs() == 1).await;
    world.queue.fault("/complete", Fault::LoseRequest, 5);
    world.until("the ending is stored", |w| w.store.outbox().unwrap().len() == 1).await;
    world.queue.apply(command, domain::Event::DeviceGone).unwrap();
    world.until("it is answered", |w| w.store.outbox().unwrap().is_empty()).await;
    assert_eq!(world.queue.ending(command), "failed/device_did_not_return");
    let record = world.store.execution_of(command).unwrap().unwrap();
    assert!(matches!(&record.delivery, Delivery::TooLate { status, .. } if status == "failed"), "{:?}", record.delivery);
    assert!(record.result.is_some());
}

#[tokio::test(start_paused = true)]
async fn pairing_anew_after_a_401_keeps_the_identity_and_delivers_everything() {
    let mut world = World::new(30_000);
    let session = world.share("digest");
    let commands = [world.enqueue(session), world.enqueue(session), world.enqueue(session)];
    world.runner.state().ms = 100;
    world.queue.fault("/complete", Fault::LoseRequest, 4);
    world.start();
    world.until("two endings wait", |w| w.store.outbox().unwrap().len() == 1).await;
    world.runner.state().ms = 60_000;
    world.until("the last one runs", |w| w.runs() >= 2).await;
    world.queue.state().token = "another-token".into();
    world.until("the device is refused", |w| matches!(w.relay.status().view(), RelayView::Busy { .. }) && w.relay.status().trouble.is_some()).await;
    let trouble = world.relay.status().trouble.unwrap();
    assert!(trouble.repair && trouble.words.text.contains("Pair it again"), "{}", trouble.words);
    world.relay.connect(Some(Link { address: "https://queue.test".into(), device: device_id(), token: Token::new("another-token") }));
    for command in commands {
        assert_eq!(world.until_terminal(command).await, "completed/done");
    }
    world.until("the outbox is empty", |w| w.store.outbox().unwrap().is_empty()).await;
    assert!(world.relay.status().trouble.is_none());
}

#[test]
fn a_token_is_never_in_debug_output() {
    let link = Link { address: "https://queue.test".into(), device: device_id(), token: Token::new("marked-secret") };
    assert!(!format!("{link:?}").contains("marked-secret"));
}
