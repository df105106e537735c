//! Graphs that take time and nothing else: the executor of the simulation.
//!
//! A command's arguments say how long it runs and how long its result is, so what an agent asks for travels the whole way. A stop takes
//! half a second, as published. It counts what it began, because no command may ever be begun twice.
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use device::{
    ports::BoxFuture,
    relay::{RunFeed, RunGraphs, RunRequest},
    store::Origin,
};
use domain::{CancelReason, CommandId, ExecutionId, Outcome, RawJson, completion::Used};
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::clock::SimClock;

/// From the stop to the end of a Graph.
pub const STOP_MS: u64 = 500;

/// One instant at which a Graph began to run its first instruction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Began {
    pub execution: ExecutionId,
    /// `None` for the owner's own.
    pub command: Option<CommandId>,
    pub at_ms: u64,
}

#[derive(Default)]
struct State {
    began: Vec<Began>,
    ended: BTreeMap<ExecutionId, u64>,
    stops: BTreeMap<ExecutionId, watch::Sender<bool>>,
    stops_asked: BTreeMap<ExecutionId, u64>,
}

type OnBegin = Box<dyn Fn(&RunRequest) + Send + Sync>;

/// What one desktop's executor does. It outlives a crash of the desktop, like the world outside does.
#[derive(Clone)]
pub struct Graphs {
    clock: SimClock,
    state: Arc<Mutex<State>>,
    /// Asked at the instant of each start.
    on_begin: Arc<Mutex<Option<OnBegin>>>,
}

impl Graphs {
    pub fn new(clock: &SimClock) -> Self {
        Self { clock: clock.clone(), state: Arc::default(), on_begin: Arc::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn set_on_begin(&self, on_begin: impl Fn(&RunRequest) + Send + Sync + 'static) {
        *self.on_begin.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::new(on_begin));
    }

    pub fn began(&self) -> Vec<Began> {
        self.state().began.clone()
    }
    pub fn began_count(&self) -> usize {
        self.state().began.len()
    }
    /// When executions ended by themselves or by a stop, in world time.
    pub fn ended_ms(&self, execution: &ExecutionId) -> Option<u64> {
        self.state().ended.get(execution).copied()
    }
    /// How often a stop was asked for this execution.
    pub fn stops_asked(&self, execution: &ExecutionId) -> u64 {
        self.state().stops_asked.get(execution).copied().unwrap_or(0)
    }

    /// Arguments for a Graph that runs this long and returns a small result.
    pub fn lasting(ms: u64) -> Value {
        json!({ "run_ms": ms })
    }
}

impl RunGraphs for Graphs {
    fn run_graph_now(&self, request: RunRequest, feed: RunFeed) -> BoxFuture<'static, Outcome> {
        let graphs = self.clone();
        Box::pin(async move {
            if let Some(on_begin) = &*graphs.on_begin.lock().unwrap_or_else(PoisonError::into_inner) {
                on_begin(&request);
            }
            let command = match &request.origin {
                Origin::Owner => None,
                Origin::Command(facts) => Some(facts.command),
            };
            let (stop, mut stopped) = watch::channel(false);
            {
                let mut state = graphs.state();
                state.began.push(Began { execution: request.execution.clone(), command, at_ms: graphs.clock.elapsed_ms() });
                state.stops.insert(request.execution.clone(), stop);
            }
            let asked = request.args.to_value();
            let number = |name: &str| asked.get(name).and_then(Value::as_u64);
            // Time between the call and `fleet_started`: a flag read before it must be kept.
            if let Some(ms) = number("starts_after_ms") {
                crate::clock::sleep_ms(ms).await;
            }
            feed.started(&request.execution);
            let ran = tokio::select! { biased;
                Ok(_) = stopped.wait_for(|stopped| *stopped) => {
                    tokio::time::sleep(Duration::from_millis(STOP_MS)).await;
                    Outcome::Cancelled { why: CancelReason::Stopped, error: "Stopped".into(), used: Used::default() }
                }
                () = crate::clock::sleep_ms(number("run_ms").unwrap_or(0)) => {
                    let letters = "x".repeat(number("result_letters").unwrap_or(2) as usize);
                    Outcome::Completed { result: RawJson::of(&Value::from(letters)), used: Used { total_tokens: 0, cost: Some(0.0) } }
                }
            };
            let mut state = graphs.state();
            state.stops.remove(&request.execution);
            state.ended.insert(request.execution, graphs.clock.elapsed_ms());
            drop(feed);
            ran
        })
    }

    fn fleet_cancel_run(&self, run_id: &ExecutionId) {
        let mut state = self.state();
        *state.stops_asked.entry(run_id.clone()).or_default() += 1;
        if let Some(stop) = state.stops.get(run_id) {
            stop.send_replace(true);
        }
    }
}
