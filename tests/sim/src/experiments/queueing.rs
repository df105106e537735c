//! Pickup waits, bursts, and clients that poll.
use super::{Pair, dealt, each};
use crate::{
    clock::EPOCH,
    findings::{Bursts, Pickup, Polled, Ran, Waits, Watched},
    graph::Graphs,
    rng::{Rng, RunTimes},
    strategy::Strategy,
    world::{World, WorldError},
};

/// Desktops that share the runs of one world.
const DESKTOPS: usize = 25;
/// A client that is in no hurry: for runs whose watching is not what is measured.
const LEISURELY: Strategy = Strategy::Every { seconds: 60 };
const HELD: Strategy = Strategy::Hold { seconds: 25 };

fn missing(what: &str) -> WorldError {
    WorldError::Wrong(format!("an ended run has no {what}"))
}

/// Runs that are queued for an idle desktop at a random moment.
pub async fn pickup(rng: Rng, pickup: Pickup, runs: usize) -> Result<Waits, WorldError> {
    let world = World::open(rng).await?;
    let desktops = DESKTOPS.min(runs);
    let pairs = Pair::many(&world, desktops, pickup).await?;
    let phases = dealt(&mut world.rng.stream("when"), runs, desktops);
    let tasks = pairs.into_iter().zip(phases).map(|(pair, phases)| async move {
        let mut waits = Vec::new();
        for (i, u) in phases.into_iter().enumerate() {
            pair.wait_for_phase(u).await;
            // It ends within the same 20 s, so that the next one finds the desktop idle again.
            let ticket = pair.agent.run(&pair.session.to_string(), Graphs::lasting(0), &format!("pickup-{i:04}")).await?;
            let command = ticket.0["command_id"].as_str().unwrap_or_default().to_owned();
            let (_, _, run) = pair.agent.watch(&command, Strategy::Every { seconds: 21 }).await?;
            waits.push(run.since_queued_ms("started_at").ok_or_else(|| missing("start"))?);
        }
        Ok(waits)
    });
    Ok(Waits { wait_ms: each(tasks.collect()).await?.concat() })
}

/// `size` runs at once for one idle desktop, again and again.
pub async fn bursts(rng: Rng, pickup: Pickup, size: usize, bursts: usize) -> Result<Bursts, WorldError> {
    let world = World::open(rng).await?;
    let desktops = DESKTOPS.min(bursts);
    let pairs = Pair::many(&world, desktops, pickup).await?;
    let phases = dealt(&mut world.rng.stream("when"), bursts, desktops);
    let times: Vec<Vec<Vec<f64>>> = (0..size).map(|i| dealt(&mut world.rng.nth("long", i as u64), bursts, desktops)).collect();
    let tasks = pairs.into_iter().enumerate().map(|(n, pair)| {
        let phases = phases[n].clone();
        let times: Vec<Vec<f64>> = times.iter().map(|t| t[n].clone()).collect();
        async move {
            let mut done = Vec::new();
            for (i, u) in phases.into_iter().enumerate() {
                pair.wait_for_phase(u).await;
                let mut commands = Vec::new();
                for (j, times) in times.iter().enumerate() {
                    let arguments = Graphs::lasting(RunTimes::PUBLISHED.at(times[i]));
                    let ticket = pair.agent.run(&pair.session.to_string(), arguments, &format!("burst-{i:04}-{j}")).await?;
                    commands.push(ticket.0["command_id"].as_str().unwrap_or_default().to_owned());
                }
                let mut burst = Vec::new();
                // First in, first out: when the last has ended, all have.
                for command in commands.iter().rev() {
                    let (_, _, run) =
                        if burst.is_empty() { pair.agent.watch(command, LEISURELY).await? } else { (0, 0, pair.agent.get(command, 0).await?) };
                    let started_ms = run.since_queued_ms("started_at").ok_or_else(|| missing("start"))?;
                    burst.push(Ran { started_ms, ended_ms: run.since_queued_ms("ended_at").ok_or_else(|| missing("end"))? });
                }
                burst.reverse();
                done.push(burst);
            }
            Ok(done)
        }
    });
    Ok(Bursts { bursts: each(tasks.collect()).await?.concat() })
}

/// One run after the other, each watched by a client of every strategy at once.
pub async fn polling(rng: Rng, pickup: Pickup, runs: usize) -> Result<Polled, WorldError> {
    let world = World::open(rng).await?;
    let desktops = DESKTOPS.min(runs.max(1));
    let pairs = Pair::many(&world, desktops, pickup).await?;
    let phases = dealt(&mut world.rng.stream("when"), runs, desktops);
    let times = dealt(&mut world.rng.stream("long"), runs, desktops);
    let tasks = pairs.into_iter().zip(phases).zip(times).map(|((pair, phases), times)| async move {
        let mut seen = Vec::new();
        for (i, (u, time)) in phases.into_iter().zip(times).enumerate() {
            pair.wait_for_phase(u).await;
            seen.push(watched_run(&pair, i, RunTimes::PUBLISHED.at(time)).await?);
        }
        Ok(seen)
    });
    let mut polled = Polled::default();
    for (end_ms, watched) in each(tasks.collect()).await?.concat() {
        polled.end_ms.push(end_ms);
        for (strategy, calls, delay_ms) in watched {
            let one = Watched { strategy, calls: vec![calls], delay_ms: vec![delay_ms] };
            polled.join(Polled { end_ms: Vec::new(), watched: vec![one] });
        }
    }
    Ok(polled)
}

type Seen = (u64, Vec<(Strategy, u64, u64)>);

async fn watched_run(pair: &Pair, i: usize, run_ms: u64) -> Result<Seen, WorldError> {
    let ticket = pair.agent.run(&pair.session.to_string(), Graphs::lasting(run_ms), &format!("polled-{i:04}")).await?;
    let command = ticket.0["command_id"].as_str().unwrap_or_default().to_owned();
    let clients = Strategy::PUBLISHED.into_iter().chain([HELD]).map(|strategy| {
        let (agent, command) = (pair.agent.clone(), command.clone());
        async move {
            let (calls, told_ms, run) = agent.watch(&command, strategy).await?;
            let ended = run.time("ended_at").ok_or_else(|| missing("end"))?;
            let delay_ms = told_ms.saturating_sub(ended.since_ms(EPOCH).max(0) as u64);
            Ok((strategy, calls, delay_ms, run.since_queued_ms("ended_at").ok_or_else(|| missing("end"))?))
        }
    });
    let seen = each(clients.collect()).await?;
    let end_ms = seen.first().map_or(0, |s| s.3);
    Ok((end_ms, seen.into_iter().map(|(strategy, calls, delay_ms, _)| (strategy, calls, delay_ms)).collect()))
}
