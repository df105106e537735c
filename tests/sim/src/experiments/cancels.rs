//! Cancels at a random moment of the first 40 s.
use super::{Pair, dealt, each};
use crate::{
    clock::{EPOCH, sleep_ms},
    findings::{Cancels, Pickup},
    graph::Graphs,
    rng::{Rng, RunTimes},
    strategy::Strategy,
    world::{World, WorldError},
};

const DESKTOPS: usize = 25;
const WITHIN_MS: f64 = 40_000.0;

enum Cancelled {
    Queued { ms: u64, started: bool },
    Running { ms: u64 },
    Finished,
}

pub async fn cancels(rng: Rng, pickup: Pickup, runs: usize) -> Result<Cancels, WorldError> {
    let world = World::open(rng).await?;
    let desktops = DESKTOPS.min(runs);
    let pairs = Pair::many(&world, desktops, pickup).await?;
    let deal = |what: &str| dealt(&mut world.rng.stream(what), runs, desktops);
    let (phases, times, moments) = (deal("when"), deal("long"), deal("cancel"));
    let tasks = pairs.into_iter().enumerate().map(|(n, pair)| {
        let draws: Vec<(f64, f64, f64)> = phases[n].iter().zip(&times[n]).zip(&moments[n]).map(|((a, b), c)| (*a, *b, *c)).collect();
        async move {
            let mut seen = Vec::new();
            for (i, (phase, time, moment)) in draws.into_iter().enumerate() {
                pair.wait_for_phase(phase).await;
                seen.push(one(&pair, i, RunTimes::PUBLISHED.at(time), (moment * WITHIN_MS) as u64).await?);
            }
            Ok(seen)
        }
    });
    let mut cancels = Cancels::default();
    for seen in each(tasks.collect()).await?.into_iter().flatten() {
        match seen {
            Cancelled::Queued { ms, started } => {
                cancels.queued_ms.push(ms);
                cancels.queued_but_started += u64::from(started);
            }
            Cancelled::Running { ms } => cancels.running_ms.push(ms),
            Cancelled::Finished => cancels.finished_before += 1,
        }
    }
    Ok(cancels)
}

async fn one(pair: &Pair, i: usize, run_ms: u64, cancel_after_ms: u64) -> Result<Cancelled, WorldError> {
    let ticket = pair.agent.run(&pair.session.to_string(), Graphs::lasting(run_ms), &format!("cancel-{i:04}")).await?;
    let command = ticket.0["command_id"].as_str().unwrap_or_default().to_owned();
    sleep_ms(cancel_after_ms).await;
    let asked_ms = pair.desktop.clock.elapsed_ms();
    let answer = pair.agent.cancel(&command).await?;
    let since = |run: &crate::agent::RunView| {
        let ended = run.time("ended_at").map_or(0, |t| t.since_ms(EPOCH).max(0) as u64);
        ended.saturating_sub(asked_ms)
    };
    if answer.is_terminal() {
        if answer.reason() != "cancelled_while_queued" {
            return Ok(Cancelled::Finished);
        }
        // Past the next pass it has not begun, and will not.
        sleep_ms(super::PASS_MS + 1).await;
        let run = pair.agent.get(&command, 0).await?;
        let began = pair.desktop.graphs.began().iter().any(|b| b.command.is_some_and(|c| c.to_string() == command));
        return Ok(Cancelled::Queued { ms: since(&run), started: began || run.time("started_at").is_some() });
    }
    let (_, _, run) = pair.agent.watch(&command, Strategy::Every { seconds: 4 }).await?;
    if run.status() != "cancelled" {
        return Err(WorldError::Wrong(format!("a running command whose cancel was accepted ended as {}", run.status())));
    }
    Ok(Cancelled::Running { ms: since(&run) })
}
