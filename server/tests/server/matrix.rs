//! Invariant 2: every state against every event, in the store as in the domain's one function.
use domain::{
    CancelReason, CommandState, Ending, Event, ExecutionId, FailReason,
    command::{CancelFlag, apply},
};
use serde_json::json;

use crate::world::{Agent, Desk, READ, RUN, World, done, session};

fn execution(name: &str) -> ExecutionId {
    ExecutionId::parse(name).unwrap()
}

fn ended(execution: &str, ending: Ending) -> String {
    let (status, reason) = match ending {
        Ending::Completed => return done(execution, "1"),
        Ending::Failed(why) => ("failed", why.as_str()),
        Ending::Cancelled(why) => ("cancelled", why.as_str()),
    };
    json!({"execution_id": execution, "status": status, "reason": reason, "error": "", "total_tokens": 0, "reported_cost": null}).to_string()
}

fn show(state: &CommandState) -> String {
    match state {
        CommandState::Running { execution, cancel: CancelFlag::None } => format!("running {execution}"),
        CommandState::Running { execution, cancel: CancelFlag::Asked } => format!("running {execution} asked"),
        other => format!("{} {}", other.status(), other.reason().unwrap_or("-")),
    }
}

async fn stored(desk: &Desk<'_>, id: &str) -> String {
    let list = desk.get("commands?limit=50").await.ok();
    let command = list["commands"].as_array().unwrap().iter().find(|c| c["command_id"] == id).unwrap().clone();
    match command["status"].as_str().unwrap() {
        "running" => {
            let execution = command["execution_id"].as_str().unwrap();
            let asked = desk.control(id, execution, 0).await.ok()["cancel"] == true;
            format!("running {execution}{}", if asked { " asked" } else { "" })
        }
        status => format!("{status} {}", command["reason"].as_str().unwrap_or("-")),
    }
}

const DAY_MS: i64 = 24 * 3_600_000;

/// Brings a fresh command into the state.
async fn bring(w: &World, desk: &Desk<'_>, agent: &Agent<'_>, id: &str, state: &CommandState) {
    match state {
        CommandState::Queued => {}
        CommandState::Running { execution, cancel } => {
            desk.start(id, execution.as_str()).await.ok();
            if *cancel == CancelFlag::Asked {
                agent.cancel(id).await;
            }
        }
        CommandState::Completed => drop(desk.complete(id, ended("e1", Ending::Completed)).await.ok()),
        CommandState::Failed { why } => drop(desk.complete(id, ended("e1", Ending::Failed(*why))).await.ok()),
        CommandState::Cancelled { .. } => drop(agent.cancel(id).await),
        CommandState::Expired => {
            w.pass_ms(8 * DAY_MS);
            w.app.queue.sweep().await.unwrap();
        }
    }
}

async fn happen(w: &World, desk: &Desk<'_>, agent: &Agent<'_>, project: &str, id: &str, event: &Event) {
    match event {
        Event::Cancel => drop(agent.cancel(id).await),
        Event::AgentRevoked => assert_eq!(desk.delete(&format!("agents/{}", agent.id)).await.status, 200),
        Event::ProjectDeleted => assert_eq!(desk.delete(&format!("projects/{project}")).await.status, 200),
        Event::NotShared => drop(desk.complete(id, domain::Completion::NotShared.to_json()).await),
        Event::Start { execution } => drop(desk.start(id, execution.as_str()).await),
        Event::End { execution, ending } => drop(desk.complete(id, ended(execution.as_str(), *ending)).await),
        Event::QueuedTooLong => {
            w.pass_ms(8 * DAY_MS);
            assert!(w.app.queue.sweep().await.is_ok());
        }
        Event::DeviceGone => {
            // The queued command must not expire on the way: the sweep is asked about silence alone.
            w.app.queue.store_contacts().await.unwrap();
            w.app.queue.give_up_silent(w.now().plus_ms(1)).await.unwrap();
        }
    }
}

#[tokio::test]
async fn the_store_draws_the_same_arrows_as_the_domain() {
    let w = World::sqlite().await;
    let desk = w.pair("Ada", "Desk").await;
    let running = |cancel| CommandState::Running { execution: execution("e1"), cancel };
    let states = [
        CommandState::Queued,
        running(CancelFlag::None),
        running(CancelFlag::Asked),
        CommandState::Completed,
        CommandState::Failed { why: FailReason::Deadline },
        CommandState::Cancelled { why: CancelReason::CancelledWhileQueued },
        CommandState::Expired,
    ];
    let end = |name: &str, ending| Event::End { execution: execution(name), ending };
    let mut events = vec![
        Event::Cancel,
        Event::AgentRevoked,
        Event::ProjectDeleted,
        Event::NotShared,
        Event::Start { execution: execution("e1") },
        Event::Start { execution: execution("e2") },
        end("e1", Ending::Completed),
        end("e2", Ending::Completed),
        Event::QueuedTooLong,
        Event::DeviceGone,
    ];
    events.extend(FailReason::ALL.iter().map(|why| end("e1", Ending::Failed(*why))));
    events.extend(CancelReason::ALL.iter().map(|why| end("e1", Ending::Cancelled(*why))));
    let mut cells = 0;
    for state in &states {
        for event in &events {
            cells += 1;
            let project = desk.project(&format!("P{cells}")).await;
            desk.share(&project, 1, &[session(1)]).await;
            let agent = desk.agent(&[&project], &[READ, RUN]).await;
            let id = agent.run("key-00001").await;
            bring(&w, &desk, &agent, &id, state).await;
            assert_eq!(stored(&desk, &id).await, show(state), "the state itself");
            happen(&w, &desk, &agent, &project, &id, event).await;
            let expected = apply(state, event.clone()).map_or_else(|_| show(state), |next| show(&next));
            assert_eq!(stored(&desk, &id).await, expected, "{state:?} × {event:?}");
            desk.delete(&format!("agents/{}", agent.id)).await;
            desk.delete(&format!("projects/{project}")).await;
        }
    }
    assert_eq!(cells, states.len() * events.len());
}

#[tokio::test]
async fn no_hot_statement_reads_a_whole_table() {
    let w = World::sqlite().await;
    let server::store::Place::Sqlite { path, .. } = &w.place else { panic!() };
    let conn = rusqlite::Connection::open(path).unwrap();
    for (name, sql) in server::queue::hot_statements() {
        let mut statement = conn.prepare(&format!("EXPLAIN QUERY PLAN {}", sql.replace('$', "?"))).unwrap();
        let count = statement.parameter_count();
        let nulls = vec![rusqlite::types::Null; count];
        let plan: Vec<String> = statement.query_map(rusqlite::params_from_iter(nulls), |row| row.get(3)).unwrap().map(Result::unwrap).collect();
        assert!(!plan.iter().any(|step| step.starts_with("SCAN")), "{name}: {plan:#?}");
        // What is counted is counted from an index alone.
        let counts = sql.matches("count(*)").count();
        assert!(plan.iter().filter(|step| step.contains("COVERING INDEX")).count() >= counts, "{name}: {plan:#?}");
    }
}
