//! The doorbell and what happens without one: C61, C62.
use device::relay::Wishes;
use domain::Event;

use crate::{
    queue::Fault,
    world::{World, project_id},
};

#[tokio::test(start_paused = true)]
async fn a_ring_starts_the_next_pass_at_once() {
    let mut world = World::new(100);
    let session = world.share("digest");
    world.start();
    world.pass_by(7).await;
    let before = world.elapsed();
    let command = world.enqueue(session);
    assert_eq!(world.until_terminal(command).await, "completed/done");
    assert!((world.elapsed() - before).as_millis() <= 200);
}

#[tokio::test(start_paused = true)]
async fn commands_queued_behind_a_busy_pass_need_no_further_poll() {
    let mut world = World::new(200);
    let session = world.share("digest");
    world.start();
    world.pass_by(1).await;
    let mut commands = Vec::new();
    for _ in 0..50 {
        commands.push(world.enqueue(session));
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    for command in &commands {
        world.until_terminal(*command).await;
    }
    assert!(world.elapsed().as_millis() < 1_000 + 50 * 200 + 1_000, "{:?}", world.elapsed());
    let ran: Vec<_> = world.runner.state().runs.iter().map(|(_, r)| r.channel.command().unwrap()).collect();
    assert_eq!(ran, commands, "in order, each once");
}

#[tokio::test(start_paused = true)]
async fn a_ring_whose_pass_fails_leads_to_no_spinning() {
    let mut world = World::new(100);
    let session = world.share("digest");
    world.start();
    world.pass_by(1).await;
    world.queue.fault("/sync", Fault::LoseRequest, usize::MAX);
    let syncs = world.queue.count("/sync");
    let command = world.enqueue(session);
    world.pass_by(59).await;
    let tries = world.queue.count("/sync") - syncs;
    assert!((3..=4).contains(&tries), "one early pass, then every 20 s: {tries}");
    assert!(world.queue.count("/doorbell") < 10);
    world.queue.heal();
    assert_eq!(world.until_terminal(command).await, "completed/done");
}

#[tokio::test(start_paused = true)]
async fn a_paused_device_holds_no_doorbell_and_claims_nothing() {
    let mut world = World::new(100);
    let session = world.share("digest");
    world.start();
    world.pass_by(1).await;
    world.relay.wish(Wishes { paused_since: Some(domain::Timestamp::default()), pickup_instant: true });
    world.pass_by(1).await;
    let (bells, command) = (world.queue.count("/doorbell"), world.enqueue(session));
    world.pass_by(120).await;
    assert_eq!(world.queue.count("/doorbell"), bells);
    assert_eq!(world.runs(), 0);
    assert!(world.queue.state().lists[&world.project].relay.unwrap().paused);
    let before = world.elapsed();
    world.relay.wish(Wishes::default());
    assert_eq!(world.until_terminal(command).await, "completed/done");
    assert!((world.elapsed() - before).as_secs() < 1);
}

#[tokio::test(start_paused = true)]
async fn another_projects_command_does_not_ring() {
    let mut world = World::new(100);
    let session = world.share("digest");
    world.start();
    world.pass_by(1).await;
    let syncs = world.queue.count("/sync");
    world.queue.enqueue(project_id(9), session, "digest");
    world.pass_by(15).await;
    assert_eq!(world.queue.count("/sync"), syncs);
}

#[tokio::test(start_paused = true)]
async fn a_server_without_a_doorbell_leaves_plain_polling() {
    let mut world = World::new(100);
    world.queue.state().knows_doorbell = false;
    let session = world.share("digest");
    world.start();
    world.pass_by(1).await;
    let command = world.enqueue(session);
    assert_eq!(world.until_terminal(command).await, "completed/done");
    assert!(world.elapsed().as_secs() <= 21);
    world.pass_by(280).await;
    assert!(world.queue.count("/doorbell") <= 3, "{}", world.queue.count("/doorbell"));
    world.queue.state().knows_doorbell = true;
    world.pass_by(310).await;
    let before = world.elapsed();
    let command = world.enqueue(session);
    world.until_terminal(command).await;
    assert!((world.elapsed() - before).as_secs() < 1, "it heals by itself");
}

#[tokio::test(start_paused = true)]
async fn after_ten_minutes_offline_everything_runs_once_in_order() {
    for (instant, within_ms) in [(true, 17_000), (false, 21_000)] {
        let mut world = World::new(1_000);
        if !instant {
            world.pickup_every_20_s();
        }
        let session = world.share("digest");
        world.start();
        world.pass_by(1).await;
        world.queue.fault("", Fault::LoseRequest, usize::MAX);
        world.pass_by(1).await;
        let commands: Vec<_> = (0..5).map(|_| world.enqueue(session)).collect();
        world.pass_by(600).await;
        assert_eq!(world.runs(), 0);
        world.queue.heal();
        let before = world.elapsed();
        for command in &commands {
            assert_eq!(world.until_terminal(*command).await, "completed/done");
        }
        assert!((world.elapsed() - before).as_millis() < within_ms + 6_000);
        let ran: Vec<_> = world.runner.state().runs.iter().map(|(_, r)| r.channel.command().unwrap()).collect();
        assert_eq!(ran, commands);
        assert_eq!(world.runner.state().most_running, 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_command_cancelled_before_any_sync_is_never_started() {
    let mut world = World::new(100);
    let session = world.share("digest");
    let commands = [world.enqueue(session), world.enqueue(session), world.enqueue(session)];
    world.queue.apply(commands[1], Event::Cancel).unwrap();
    world.start();
    world.until_terminal(commands[2]).await;
    assert_eq!(world.runs_of(commands[1]), 0);
    assert_eq!(world.queue.count(&format!("{}/start", commands[1])), 0);
}
