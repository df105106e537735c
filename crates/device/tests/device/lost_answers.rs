//! Answers that never came, processes that died, memories that were lost: C02, C03, C08, C56, C65.
use device::store::Delivery;
use domain::{CommandState, Event, ExecutionId};

use crate::{queue::Fault, world::World};

#[tokio::test(start_paused = true)]
async fn a_sync_answer_that_was_cut_offers_the_command_again_and_it_runs_once() {
    let mut world = World::new(1_000);
    let session = world.share("digest");
    world.pickup_every_20_s();
    world.queue.fault("/sync", Fault::LoseAnswer, 1);
    let command = world.enqueue(session);
    world.start();
    world.until("the first sync", |w| w.queue.count("/sync") == 1).await;
    assert_eq!(world.queue.of(command), CommandState::Queued);
    assert_eq!(world.until_terminal(command).await, "completed/done");
    assert_eq!((world.runs(), world.queue.completions(command)), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_lost_start_answer_is_asked_again_before_anything_else_starts() {
    let mut world = World::new(1_000);
    let session = world.share("digest");
    let (first, second) = (world.enqueue(session), world.enqueue(session));
    world.queue.fault("/start", Fault::LoseAnswer, 2);
    world.start();
    assert_eq!(world.until_terminal(second).await, "completed/done");
    assert_eq!(world.queue.ending(first), "completed/done", "the same process may run what it was granted");
    assert_eq!((world.runs_of(first), world.runs_of(second)), (1, 1));
    let starts: Vec<String> = world.queue.requests("/start").iter().map(|l| l.path.clone()).collect();
    assert_eq!(starts.iter().filter(|p| p.contains(&first.to_string())).count(), 3);
    assert!(starts[..3].iter().all(|p| p.contains(&first.to_string())), "nothing else is claimed before: {starts:?}");
}

#[tokio::test(start_paused = true)]
async fn a_claim_whose_answer_and_process_are_lost_never_runs() {
    let mut world = World::new(1_000);
    world.pickup_every_20_s();
    let session = world.share("digest");
    let (first, second) = (world.enqueue(session), world.enqueue(session));
    world.queue.fault("/start", Fault::LoseAnswer, 1);
    world.start();
    world.until("the start was handled", |w| !matches!(w.queue.of(first), CommandState::Queued)).await;
    world.crash().await;
    world.boot();
    assert_eq!(world.until_terminal(first).await, "failed/device_restarted");
    assert_eq!(world.until_terminal(second).await, "completed/done");
    assert_eq!((world.runs_of(first), world.runs_of(second)), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn a_claim_cancelled_while_the_desktop_was_dead_leaves_no_execution() {
    let mut world = World::new(1_000);
    world.pickup_every_20_s();
    let session = world.share("digest");
    let command = world.enqueue(session);
    world.queue.fault("/start", Fault::LoseRequest, 1);
    world.start();
    world.until("the start was lost", |w| w.queue.count("/start") == 1).await;
    world.crash().await;
    world.queue.apply(command, Event::Cancel).unwrap();
    world.boot();
    world.until("it was asked again", |w| w.queue.count("/start") == 2).await;
    world.pass_by(1).await;
    assert!(world.store.execution_of(command).unwrap().is_none() && world.store.outbox().unwrap().is_empty());
    assert_eq!((world.runs(), world.queue.ending(command).as_str()), (0, "cancelled/cancelled_while_queued"));
}

#[tokio::test(start_paused = true)]
async fn a_desktop_that_dies_mid_run_never_runs_the_command_again_and_runs_the_next() {
    let mut world = World::new(20_000);
    let session = world.share("slow");
    let (first, second) = (world.enqueue(session), world.enqueue(session));
    world.start();
    world.until("it runs", |w| w.runs() == 1).await;
    world.pass_by(5).await;
    world.crash().await;
    world.boot();
    let before = world.elapsed();
    assert_eq!(world.until_terminal(first).await, "failed/device_restarted");
    assert!((world.elapsed() - before).as_secs() < 25);
    assert_eq!(world.until_terminal(second).await, "completed/done");
    assert_eq!(world.runs_of(first), 1);
    let record = world.store.execution_of(first).unwrap().unwrap();
    assert_eq!(record.error.as_deref(), Some("The desktop restarted while this run was in progress"));
}

#[tokio::test(start_paused = true)]
async fn an_accepted_cancel_of_a_run_that_died_with_its_desktop_ends_cancelled() {
    let mut world = World::new(60_000);
    let session = world.share("slow");
    let command = world.enqueue(session);
    world.start();
    world.until("it runs", |w| w.runs() == 1).await;
    world.crash().await;
    world.queue.apply(command, Event::Cancel).unwrap();
    world.boot();
    assert_eq!(world.until_terminal(command).await, "cancelled/device_restarted");
}

#[tokio::test(start_paused = true)]
async fn a_stored_completion_is_resent_after_a_crash_and_recorded_once() {
    for fault in [Fault::LoseRequest, Fault::LoseAnswer] {
        let mut world = World::new(1_000);
        let session = world.share("digest");
        let command = world.enqueue(session);
        world.queue.fault("/complete", fault, 1);
        world.start();
        world.until("it was posted", |w| w.queue.count("/complete") == 1).await;
        world.crash().await;
        assert_eq!(world.store.outbox().unwrap().len(), 1);
        world.boot();
        world.until("the outbox is empty", |w| w.store.outbox().unwrap().is_empty()).await;
        assert_eq!(world.queue.ending(command), "completed/done");
        assert_eq!(world.runs(), 1);
        let record = world.store.execution_of(command).unwrap().unwrap();
        assert!(matches!(record.delivery, Delivery::Delivered { .. }), "a lost answer is not a completion that came too late: {:?}", record.delivery);
    }
}

#[tokio::test(start_paused = true)]
async fn a_finished_command_that_a_restored_server_offers_again_is_only_reported_again() {
    let mut world = World::new(1_000);
    let session = world.share("digest");
    let command = world.enqueue(session);
    world.start();
    world.until_terminal(command).await;
    world.queue.state().commands[0].state = CommandState::Queued; // yesterday's backup
    world.until("it is reported again", |w| w.is_terminal(command)).await;
    assert_eq!(world.queue.ending(command), "completed/done");
    assert_eq!(world.runs(), 1);
    // Even when the history has been pruned meanwhile: it had an execution, so it never runs again.
    world.until("the outbox is empty", |w| w.store.outbox().unwrap().is_empty()).await;
    world.store.prune_executions(domain::Timestamp::from_ms(i64::MAX)).unwrap();
    world.queue.state().commands[0].state = CommandState::Queued;
    assert_eq!(world.until_terminal(command).await, "failed/device_restarted");
    assert_eq!(world.runs(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_running_command_this_device_knows_nothing_of_ends_as_restarted() {
    let mut world = World::new(1_000);
    let session = world.share("digest");
    let command = world.enqueue(session);
    world.queue.apply(command, Event::Start { execution: ExecutionId::parse("of-a-lost-profile").unwrap() }).unwrap();
    world.start();
    assert_eq!(world.until_terminal(command).await, "failed/device_restarted");
    assert_eq!(world.runs(), 0);
}

#[tokio::test(start_paused = true)]
async fn quitting_waits_for_what_is_in_hand_and_claims_nothing_new() {
    let mut world = World::new(3_000);
    let session = world.share("digest");
    let (first, second) = (world.enqueue(session), world.enqueue(session));
    world.start();
    world.until("it runs", |w| w.runs() == 1).await;
    world.quit().await;
    assert_eq!(world.queue.ending(first), "completed/done");
    assert_eq!(world.queue.of(second), CommandState::Queued);
}
