//! A host whose agents and tools answer at once, and one run in it.
use std::{
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use domain::{ExecutionId, Outcome, RawJson, Slug, Timestamp, wire::event::FleetWhat};
use engine::{
    AgentAnswer, AgentCall, BoxFuture, CallCode, CallError, CalledGraph, Fleet, FleetHost, OwnerQuestion, Script, ScriptVm, Seat, Settings, ToolCall,
    run_fleet_script,
};

struct Host {
    began: Instant,
    seen: Mutex<Ran>,
}

#[derive(Default)]
pub struct Ran {
    pub to_first_call: Option<Duration>,
    /// When each agent ended, since the start.
    pub agents_ended: Vec<Duration>,
    pub events: Vec<FleetWhat>,
    pub took: Duration,
    pub outcome: Option<Outcome>,
}

impl Host {
    fn see(&self, look: impl FnOnce(&mut Ran, Duration)) {
        look(&mut self.seen.lock().unwrap_or_else(PoisonError::into_inner), self.began.elapsed());
    }
}

impl FleetHost for Host {
    fn event(&self, what: FleetWhat) {
        self.see(|ran, at| {
            if matches!(what, FleetWhat::AgentFinished { .. }) {
                ran.agents_ended.push(at);
            }
            ran.events.push(what);
        });
    }
    fn agent<'a>(&'a self, _: &'a Fleet, call: AgentCall, _: Seat) -> BoxFuture<'a, Result<AgentAnswer, CallError>> {
        let value = RawJson::of(&call.prompt.into());
        Box::pin(std::future::ready(Ok(AgentAnswer { value, tokens: 0, cost: None, replayed: false })))
    }
    fn tool<'a>(&'a self, _: &'a Fleet, call: ToolCall, _: Seat) -> BoxFuture<'a, Result<RawJson, CallError>> {
        self.see(|ran, at| ran.to_first_call = ran.to_first_call.or(Some(at)));
        let is_never = call.tool == "never";
        Box::pin(async move { if is_never { std::future::pending().await } else { Ok(call.input) } })
    }
    fn ask<'a>(&'a self, _: &'a Fleet, _: OwnerQuestion) -> BoxFuture<'a, Result<RawJson, CallError>> {
        Box::pin(std::future::ready(Err(CallError::new(CallCode::Unanswered, "nobody is asked"))))
    }
    fn graph(&self, _: &Slug) -> Result<CalledGraph, CallError> {
        Err(CallError::new(CallCode::NoGraph, "there is none"))
    }
}

pub async fn run(vm: &dyn ScriptVm, source: &str) -> Ran {
    let (Ok(slug), Ok(id)) = (Slug::parse("bench"), ExecutionId::parse("bench")) else { return Ran::default() };
    let host = Arc::new(Host { began: Instant::now(), seen: Mutex::default() });
    let fleet = Fleet::new(id, Settings::new(slug.clone(), 1, Timestamp::from_ms(0)), Arc::clone(&host) as Arc<dyn FleetHost>);
    let outcome = run_fleet_script(&Script::new(slug, source), &RawJson::empty_object(), fleet, vm).await;
    let mut ran = std::mem::take(&mut *host.seen.lock().unwrap_or_else(PoisonError::into_inner));
    ran.took = host.began.elapsed();
    ran.outcome = Some(outcome);
    ran
}
