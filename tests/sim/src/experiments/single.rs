//! Retries with and without the same key, the largest result that travels, and another agent's eyes.
use domain::{Completion, ExecutionId, Outcome, RawJson, completion::Used};
use serde_json::{Value, json};

use super::Pair;
use crate::{
    agent::CallError,
    findings::{Fits, Foreign, Largest, Pickup, Retried, Retries},
    graph::Graphs,
    net::Weather,
    rng::Rng,
    strategy::Strategy,
    table::REPLIES_LOST,
    world::{World, WorldError},
};

const REPETITIONS: usize = 3;
const RUNS: usize = 200;

pub async fn retries(rng: Rng) -> Result<Retries, WorldError> {
    let mut retries = Retries::default();
    for i in 0..REPETITIONS {
        retries.new_key.push(retried(rng.nth("new key", i as u64), false).await?);
        retries.same_key.push(retried(rng.nth("same key", i as u64), true).await?);
    }
    Ok(retries)
}

/// An agent repeats each call until an answer reaches it. Its desktop is off, so everything it queued is still there to be counted.
async fn retried(rng: Rng, same_key: bool) -> Result<Retried, WorldError> {
    let world = World::open(rng).await?;
    let mut pair = Pair::new(&world, 0, Pickup::EveryPass).await?;
    pair.desktop.switch_on()?;
    crate::clock::sleep_ms(1).await;
    pair.desktop.quit().await;
    pair.agent.line.set_weather(Weather { lose_answer: REPLIES_LOST, ..Weather::FAIR });
    let mut retried = Retried::default();
    for run in 0..RUNS {
        for attempt in 0.. {
            let key = if same_key { format!("operation-{run:04}") } else { format!("operation-{run:04}-attempt-{attempt}") };
            retried.calls_sent += 1;
            match pair.agent.run(&pair.session.to_string(), Graphs::lasting(1_000), &key).await {
                Ok(_) => break,
                Err(CallError::Lost(_)) => {}
                Err(e) => return Err(e.into()),
            }
        }
    }
    let mut cursor = String::new();
    loop {
        let page = pair.desktop.client.commands(&format!("limit=50{cursor}")).await?;
        retried.runs_queued += page.commands.iter().filter(|c| c.project_id == pair.project && c.status == "queued").count() as u64;
        let Some(next) = page.next_cursor else { return Ok(retried) };
        cursor = format!("&cursor={next}");
    }
}

/// The most of this letter that a completion in the published envelope carries whole.
fn largest_of(letter: &str) -> Fits {
    let is_whole = |n: u64| {
        let Ok(execution) = ExecutionId::parse("exec-000000001") else { return false };
        let result = RawJson::of(&Value::from(letter.repeat(n as usize)));
        let outcome = Outcome::Completed { result, used: Used { total_tokens: 0, cost: Some(0.0) } };
        matches!(Completion::bounded(execution, &outcome), Completion::Done { .. })
    };
    let (mut fits, mut too_many) = (0, 200_000);
    while too_many - fits > 1 {
        let middle = (fits + too_many) / 2;
        if is_whole(middle) { fits = middle } else { too_many = middle }
    }
    Fits { characters: fits, utf8_bytes: fits * letter.len() as u64 }
}

/// The published envelope through the one function that cuts completions; then, through the real relay and server, the longest result
/// that arrives with an id of 36 characters, and one letter more.
pub async fn limits(rng: Rng) -> Result<Largest, WorldError> {
    let (ascii, japanese) = (largest_of("a"), largest_of("語"));
    let relayed = ascii.characters + 14 - 36;
    let world = World::open(rng).await?;
    let mut pairs = Pair::many(&world, 1, Pickup::Doorbell).await?;
    let Some(pair) = pairs.pop() else { return Err(WorldError::Wrong("no desktop".into())) };
    let mut arrived = [false; 2];
    for (n, arrived) in (relayed..).zip(&mut arrived) {
        let arguments = json!({"run_ms": 10, "result_letters": n});
        let ticket = pair.agent.run(&pair.session.to_string(), arguments, &format!("letters-{n}")).await?;
        let command = ticket.0["command_id"].as_str().unwrap_or_default().to_owned();
        let (_, _, run) = pair.agent.watch(&command, Strategy::Hold { seconds: 25 }).await?;
        *arrived = run.0["result"].as_str().is_some_and(|text| text.len() as u64 == n);
        if !*arrived && run.0["result_truncated"] != true {
            return Err(WorldError::Wrong(format!("a result of {n} letters was neither whole nor marked as left out")));
        }
    }
    match arrived {
        [true, false] => Ok(Largest { ascii, japanese, relayed_whole: relayed, relayed_cut: relayed + 1 }),
        [first, second] => Err(WorldError::Wrong(format!("{relayed} letters arrived: {first}, one more: {second}"))),
    }
}

pub async fn foreign(rng: Rng) -> Result<Foreign, WorldError> {
    let world = World::open(rng).await?;
    let mut pairs = Pair::many(&world, 1, Pickup::Doorbell).await?;
    let Some(mut pair) = pairs.pop() else { return Err(WorldError::Wrong("no desktop".into())) };
    let (other, _) = world.agent(&pair.desktop, "Another agent", &[pair.project]).await?;
    let ticket = pair.agent.run(&pair.session.to_string(), Graphs::lasting(60_000), "seen-by-one-agent").await?;
    let command = ticket.0["command_id"].as_str().unwrap_or_default().to_owned();
    let mut never = [0; 16];
    pair.rng.fill(&mut never);
    let told = |answer: Result<crate::agent::RunView, CallError>| match answer {
        Ok(_) => Err(WorldError::Wrong("another agent read the run".into())),
        Err(CallError::Refused(words)) => Ok(words),
        Err(e) => Err(e.into()),
    };
    let seen = told(other.get(&command, 0).await)?;
    let nothing = told(other.get(&domain::CommandId::from_random(never).to_string(), 0).await)?;
    Ok(Foreign { told: seen, told_of_nothing: nothing })
}
