//! A desktop that was away, and a completion whose POST was lost.
use bytes::Bytes;
use serde_json::json;

use super::{PASS_MS, Pair};
use crate::{
    clock::{EPOCH, sleep_ms},
    findings::{Delivered, Offline, Outbox, Pickup},
    graph::Graphs,
    net::{Fate, Weather},
    rng::Rng,
    strategy::Strategy,
    world::{World, WorldError},
};

const AWAY_MS: u64 = 600_000;
/// Run time of each of the five (derived from the published row).
const FIVE_MS: u64 = 25_600;
/// From the return of the network to the first pass (derived).
const FIRST_PASS_AFTER_MS: u64 = 3_000;
/// A run that ends between 20 and 40 s after its start (derived).
const LOST_RUN_MS: u64 = 32_000;

/// The rehearsal tells when the desktop would ask first after its 600 s; the same seed then lets the network return 3 s before.
pub async fn offline(rng: Rng, pickup: Pickup) -> Result<Offline, WorldError> {
    let (_, asks_at_ms) = away(rng.clone(), pickup, AWAY_MS + 1).await?;
    let (seen, _) = away(rng, pickup, asks_at_ms - FIRST_PASS_AFTER_MS).await?;
    Ok(seen)
}

/// Offline from a moment of the world until `back_ms` after it. What was seen, and when the first sync after `AWAY_MS` + 3 s was tried.
async fn away(rng: Rng, pickup: Pickup, back_ms: u64) -> Result<(Offline, u64), WorldError> {
    let world = World::open(rng).await?;
    let mut pairs = Pair::many(&world, 1, pickup).await?;
    let Some(pair) = pairs.pop() else { return Err(WorldError::Wrong("no desktop".into())) };
    let gone_ms = world.clock.elapsed_ms();
    let asked = std::sync::Arc::new(std::sync::atomic::AtomicU64::new(u64::MAX));
    let (clock, first) = (world.clock.clone(), asked.clone());
    pair.desktop.line.set_judge(move |request| {
        let away_ms = clock.elapsed_ms() - gone_ms;
        if request.uri().path().ends_with("/sync") && away_ms >= AWAY_MS + FIRST_PASS_AFTER_MS {
            first.fetch_min(away_ms, std::sync::atomic::Ordering::Relaxed);
        }
        None
    });
    pair.desktop.line.set_down(true);
    sleep_ms(PASS_MS / 2).await;
    let mut commands = Vec::new();
    for i in 0..5 {
        let ticket = pair.agent.run(&pair.session.to_string(), Graphs::lasting(FIVE_MS), &format!("offline-{i}")).await?;
        commands.push(ticket.0["command_id"].as_str().unwrap_or_default().to_owned());
    }
    sleep_ms((gone_ms + back_ms).saturating_sub(world.clock.elapsed_ms())).await;
    let mut seen = Offline { executed_meanwhile: pair.desktop.graphs.began_count() as u64, ..Offline::default() };
    for command in &commands {
        seen.queued += u64::from(pair.agent.get(command, 0).await?.status() == "queued");
    }
    let back_at_ms = world.clock.elapsed_ms();
    pair.desktop.line.set_down(false);
    for command in &commands {
        let (_, _, run) = pair.agent.watch(command, Strategy::Every { seconds: 5 }).await?;
        let ended = run.time("ended_at").map_or(0, |t| t.since_ms(EPOCH).max(0) as u64);
        seen.all_done_ms = seen.all_done_ms.max(ended.saturating_sub(back_at_ms));
    }
    let began = pair.desktop.graphs.began();
    seen.executed = began.len() as u64;
    seen.first_start_ms = began.first().map_or(0, |b| b.at_ms.saturating_sub(back_at_ms));
    Ok((seen, asked.load(std::sync::atomic::Ordering::Relaxed)))
}

pub async fn outbox(rng: Rng, pickup: Pickup) -> Result<Outbox, WorldError> {
    Ok(Outbox { on: lost_completion(rng.clone(), pickup, true).await?, off: lost_completion(rng, pickup, false).await? })
}

/// The first POST of a completion is lost. Without an outbox nobody would send it again: the double tells the relay that it arrived, and
/// hides from it what the server believes to be running.
async fn lost_completion(rng: Rng, pickup: Pickup, outbox: bool) -> Result<Delivered, WorldError> {
    let world = World::open(rng).await?;
    let mut pairs = Pair::many(&world, 1, pickup).await?;
    let Some(pair) = pairs.pop() else { return Err(WorldError::Wrong("no desktop".into())) };
    let mut is_first = true;
    pair.desktop.line.set_weather(Weather::FAIR);
    pair.desktop.line.set_judge(move |request| {
        if !request.uri().path().ends_with("/complete") || !std::mem::take(&mut is_first) {
            return None;
        }
        let told = Bytes::from(json!({"recorded": true, "status": "completed"}).to_string());
        Some(if outbox { Fate::LoseRequest } else { Fate::Forge(told) })
    });
    if !outbox {
        pair.desktop.line.set_amend(|path, body| match serde_json::from_slice::<serde_json::Value>(&body) {
            Ok(mut answer) if path.ends_with("/sync") => {
                answer["running"] = json!([]);
                Bytes::from(answer.to_string())
            }
            Ok(_) | Err(_) => body,
        });
    }
    let ticket = pair.agent.run(&pair.session.to_string(), Graphs::lasting(LOST_RUN_MS), "lost-completion").await?;
    let command = ticket.0["command_id"].as_str().unwrap_or_default().to_owned();
    // Long enough for anything that would still be sent.
    let mut run = pair.agent.get(&command, 0).await?;
    for _ in 0..60 {
        if run.is_terminal() {
            break;
        }
        sleep_ms(PASS_MS / 2).await;
        run = pair.agent.get(&command, 0).await?;
    }
    let ended = run.since_queued_ms("ended_at");
    let after_start_ms = ended.zip(run.since_queued_ms("started_at")).map(|(ended, started)| ended - started);
    Ok(Delivered { status: run.status().to_owned(), after_start_ms })
}
