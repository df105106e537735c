//! Cancels on their way to the engine: C07, C12, C64.
use domain::Event;

use crate::{queue::Fault, world::World};

#[tokio::test(start_paused = true)]
async fn a_flag_repeated_on_every_poll_stops_the_graph_exactly_once() {
    for instant in [true, false] {
        let mut world = World::new(120_000);
        if !instant {
            world.pickup_every_20_s();
        }
        let session = world.share("slow");
        let command = world.enqueue(session);
        world.start();
        world.until("it runs", |w| w.runs() == 1).await;
        world.pass_by(10).await;
        let before = world.elapsed();
        world.queue.apply(command, Event::Cancel).unwrap();
        assert_eq!(world.until_terminal(command).await, "cancelled/stopped");
        let took = (world.elapsed() - before).as_millis();
        assert!(took <= if instant { 600 } else { 3_700 }, "{took} ms");
        assert_eq!(world.runner.state().stops.len(), 1);
        assert!(world.store.execution_of(command).unwrap().unwrap().cancel_asked);
    }
}

#[tokio::test(start_paused = true)]
async fn a_flag_read_before_fleet_started_is_kept_and_sent_once() {
    let mut world = World::new(60_000);
    world.runner.state().started_after_ms = 9_000;
    let session = world.share("slow");
    let command = world.enqueue(session);
    world.start();
    world.until("it runs", |w| w.runs() == 1).await;
    world.queue.apply(command, Event::Cancel).unwrap();
    world.pass_by(8).await;
    assert_eq!(world.runner.state().stops.len(), 0, "there is no run id yet");
    assert_eq!(world.until_terminal(command).await, "cancelled/stopped");
    assert_eq!(world.runner.state().stops.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_command_that_is_no_longer_this_executions_stops_the_graph() {
    let mut world = World::new(120_000);
    let session = world.share("slow");
    let command = world.enqueue(session);
    world.start();
    world.until("it runs", |w| w.runs() == 1).await;
    world.queue.apply(command, Event::DeviceGone).unwrap();
    world.until("it was stopped", |w| w.runner.state().stops.len() == 1).await;
    world.until("the outbox is empty", |w| w.store.outbox().unwrap().is_empty() && w.store.running_executions().unwrap().is_empty()).await;
    assert_eq!(world.queue.ending(command), "failed/device_did_not_return");
}

#[tokio::test(start_paused = true)]
async fn a_hung_poll_does_not_hide_a_later_cancel() {
    let mut world = World::new(120_000);
    let session = world.share("slow");
    let command = world.enqueue(session);
    world.queue.fault("/control", Fault::Hang, 1);
    world.start();
    world.until("it runs", |w| w.runs() == 1).await;
    world.pass_by(1).await;
    let before = world.elapsed();
    world.queue.apply(command, Event::Cancel).unwrap();
    assert_eq!(world.until_terminal(command).await, "cancelled/stopped");
    assert!((world.elapsed() - before).as_millis() <= 3_700);
}

#[tokio::test(start_paused = true)]
async fn the_control_poll_comes_every_three_seconds_with_the_progress() {
    let mut world = World::new(60_000);
    world.pickup_every_20_s();
    let session = world.share("slow");
    let command = world.enqueue(session);
    world.start();
    world.until_terminal(command).await;
    let polls: Vec<u128> = world.queue.requests("/control").iter().map(|l| l.at.as_millis()).collect();
    assert!(polls.len() >= 19, "{polls:?}");
    assert!(polls.windows(2).all(|w| w[1] - w[0] <= 3_010), "{polls:?}");
    assert_eq!(world.queue.state().commands[0].progress[0]["agents_done"], 0);
}
