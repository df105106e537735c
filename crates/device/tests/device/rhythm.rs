//! When passes happen: C10, C11, C12, Retry-After, a relay that fails.
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use device::{relay::keep_driving, view::RelayView};
use domain::GraphSessionId;
use tokio_util::sync::CancellationToken;

use crate::{queue::Fault, world::World};

#[tokio::test(start_paused = true)]
async fn a_pass_starts_every_twenty_seconds_and_never_two_at_once() {
    let mut world = World::new(50_000);
    world.pickup_every_20_s();
    let session = world.share("slow");
    world.start();
    world.pass_by(101).await;
    let syncs: Vec<u64> = world.queue.requests("/sync").iter().map(|l| l.at.as_secs()).collect();
    assert_eq!(syncs, [0, 20, 40, 60, 80, 100]);
    world.enqueue(session);
    world.pass_by(100).await;
    let syncs: Vec<u64> = world.queue.requests("/sync").iter().map(|l| l.at.as_secs()).collect();
    assert_eq!(syncs[6..], [120, 180, 200], "busy from 120 to 170: two are skipped, the rhythm stays");
}

#[tokio::test(start_paused = true)]
async fn fifty_toggles_in_a_second_make_at_most_two_passes() {
    let mut world = World::new(100);
    world.pickup_every_20_s();
    let session = world.share("digest");
    world.start();
    world.pass_by(5).await;
    let before = world.queue.count("/sync");
    for _ in 0..25 {
        world.store.untick(world.project, session).unwrap();
        tokio::time::sleep(Duration::from_millis(20)).await;
        world.store.tick(world.project, session, "{}", domain::Timestamp::default()).unwrap();
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    world.pass_by(10).await;
    let passes = world.queue.count("/sync") - before;
    assert!((1..=2).contains(&passes), "{passes}");
    assert_eq!(world.queue.state().lists[&world.project].sessions.len(), 1, "what stands is what the owner left");
}

#[tokio::test(start_paused = true)]
async fn after_a_sleep_one_pass_comes_at_once() {
    let mut world = World::new(100);
    world.pickup_every_20_s();
    world.share("digest");
    world.start();
    world.pass_by(5).await;
    let before = world.queue.count("/sync");
    *world.clock.wrong_by_ms.lock().unwrap() += 600_000; // the wall clock went on, ours stood
    world.pass_by(3).await;
    assert_eq!(world.queue.count("/sync"), before + 1);
    world.pass_by(11).await;
    assert_eq!(world.queue.count("/sync"), before + 1, "one, then the rhythm again");
}

#[tokio::test(start_paused = true)]
async fn a_wrong_clock_runs_commands_all_the_same() {
    for wrong in [17 * 60_000, -17 * 60_000, 86_400_000] {
        let mut world = World::new(1_000);
        *world.clock.wrong_by_ms.lock().unwrap() = wrong;
        let session = world.share("digest");
        let command = world.enqueue(session);
        world.start();
        assert_eq!(world.until_terminal(command).await, "completed/done");
        let shown = world.relay.status().clock_ahead_ms;
        assert!((shown + wrong).abs() < 2_000, "the difference is known: {shown}");
        let waited = world.store.execution_of(command).unwrap().unwrap().pickup_wait_ms.unwrap();
        assert!(waited < 2_000, "waited by the server's clock: {waited}");
        *world.clock.wrong_by_ms.lock().unwrap() = 0;
        let next = world.enqueue(session);
        assert_eq!(world.until_terminal(next).await, "completed/done");
    }
}

#[tokio::test(start_paused = true)]
async fn a_clock_put_back_does_not_strand_a_refused_completion() {
    let mut world = World::new(100);
    *world.clock.wrong_by_ms.lock().unwrap() = 86_400_000;
    let session = world.share("digest");
    let command = world.enqueue(session);
    let refused = r#"{"error":{"code":"x","message":"no","retryable":false}}"#;
    world.queue.fault("/complete", Fault::Answer(422, "", refused.into()), 1);
    world.start();
    world.until("it is refused", |w| !w.store.outbox_attention().unwrap().is_empty()).await;
    *world.clock.wrong_by_ms.lock().unwrap() = 0;
    let before = world.elapsed();
    assert_eq!(world.until_terminal(command).await, "completed/done");
    assert!((world.elapsed() - before).as_secs() <= 25);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_never_answers_is_given_up_and_asked_again_within_a_minute() {
    let mut world = World::new(1_000);
    let session = world.share("digest");
    world.queue.fault("", Fault::Hang, usize::MAX);
    world.start();
    world.pass_by(400).await;
    let syncs: Vec<u64> = world.queue.requests("/sync").iter().map(|l| l.at.as_secs()).collect();
    assert!(syncs.windows(2).all(|w| w[1] - w[0] <= 60) && syncs.len() >= 6, "{syncs:?}");
    assert!(matches!(world.relay.status().view(), RelayView::Offline { .. }));
    world.queue.heal();
    let command = world.enqueue(session);
    assert_eq!(world.until_terminal(command).await, "completed/done");
}

#[tokio::test(start_paused = true)]
async fn a_hung_completion_does_not_stop_the_syncs() {
    let mut world = World::new(1_000);
    let session = world.share("digest");
    let command = world.enqueue(session);
    world.queue.fault("/complete", Fault::Hang, usize::MAX);
    world.start();
    world.until("it is posted", |w| w.queue.count("/complete") == 1).await;
    world.pass_by(300).await;
    let syncs: Vec<u64> = world.queue.requests("/sync").iter().map(|l| l.at.as_secs()).collect();
    assert!(syncs.windows(2).all(|w| w[1] - w[0] <= 60), "{syncs:?}");
    world.queue.heal();
    assert_eq!(world.until_terminal(command).await, "completed/done");
}

#[tokio::test(start_paused = true)]
async fn retry_after_is_obeyed() {
    let mut world = World::new(100);
    world.pickup_every_20_s();
    world.share("digest");
    let busy = r#"{"error":{"code":"busy","message":"too many requests","retryable":true}}"#;
    world.queue.fault("/sync", Fault::Answer(429, "retry-after: 90", busy.into()), 1);
    world.start();
    world.pass_by(85).await;
    assert_eq!(world.queue.count("/sync"), 1);
    world.pass_by(10).await;
    assert_eq!(world.queue.count("/sync"), 2);
}

#[tokio::test(start_paused = true)]
async fn retry_after_told_to_a_text_beside_the_passes_is_obeyed_by_all() {
    for status in [429, 503] {
        let mut world = World::new(100);
        world.pickup_every_20_s();
        let session = world.share("digest");
        world.store.make_project_readable(world.project, true).unwrap();
        let busy = r#"{"error":{"code":"busy","message":"too many requests","retryable":true}}"#;
        let text = format!("/graphs/{session}");
        world.queue.fault(&text, Fault::Answer(status, "retry-after: 90", busy.into()), 1);
        world.start();
        world.pass_by(5).await;
        let command = world.enqueue(session);
        world.pass_by(80).await;
        let asked = (world.queue.count("/sync"), world.queue.count(&text), world.queue.count("/start"));
        assert_eq!(asked, (1, 1, 0), "{status}");
        assert!(matches!(world.relay.status().view(), RelayView::ServerSays { repair: false, .. }), "{status}: and the owner is told");
        world.pass_by(10).await;
        assert_eq!((world.queue.count("/sync"), world.queue.count(&text)), (2, 2), "{status}");
        assert_eq!(world.until_terminal(command).await, "completed/done");
    }
}

#[tokio::test(start_paused = true)]
async fn an_ending_waits_for_retry_after_and_is_not_lost() {
    let mut world = World::new(30_000);
    world.pickup_every_20_s();
    let session = world.share("digest");
    let command = world.enqueue(session);
    world.start();
    world.until("it runs", |w| w.runs() == 1).await;
    let busy = r#"{"error":{"code":"busy","message":"too many requests","retryable":true}}"#;
    world.queue.fault("/sync", Fault::Answer(429, "retry-after: 90", busy.into()), 1);
    world.store.untick(world.project, session).unwrap(); // a sync beside the busy pass
    world.pass_by(60).await;
    assert_eq!((world.queue.count("/sync"), world.queue.count("/complete")), (2, 0));
    assert_eq!(world.until_terminal(command).await, "completed/done");
    assert_eq!(world.queue.completions(command), 1);
}

#[tokio::test(start_paused = true)]
async fn a_relay_that_fails_again_and_again_says_so_until_it_goes_on() {
    let world = World::new(100);
    world.share("digest");
    let broken = Arc::new(AtomicBool::new(true));
    let defect = Arc::clone(&broken);
    let asks = move |_: GraphSessionId, _: &[String]| -> Option<Vec<String>> {
        assert!(!defect.load(Ordering::SeqCst), "a defect of ours");
        None
    };
    let relay = world.relay_that_asks(Arc::new(asks));
    let stop = CancellationToken::new();
    let driven = tokio::spawn(keep_driving(Arc::clone(&relay), stop.clone()));
    world.pass_by(1).await;
    assert!(matches!(relay.status().view(), RelayView::Ready { .. }), "once is mended in silence");
    world.pass_by(2).await;
    assert!(matches!(relay.status().view(), RelayView::Failing { times: 2, .. }), "{:?}", relay.status());
    world.pass_by(2).await;
    assert!(matches!(relay.status().view(), RelayView::Failing { times: 3, .. }), "{:?}", relay.status());
    broken.store(false, Ordering::SeqCst);
    world.pass_by(30).await;
    assert!(matches!(relay.status().view(), RelayView::Failing { .. }), "it works, but not for long yet");
    world.pass_by(40).await;
    assert!(matches!(relay.status().view(), RelayView::Ready { .. }), "{:?}", relay.status());
    stop.cancel();
    driven.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_project_that_was_deleted_elsewhere_goes_from_the_list() {
    let mut world = World::new(100);
    world.share("digest");
    world.start();
    world.pass_by(1).await;
    world.queue.state().projects.clear();
    world.until("it is gone", |w| w.store.projects().unwrap().is_empty()).await;
}
