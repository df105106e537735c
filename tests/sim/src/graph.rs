//! Graphs that take time and nothing else: the executor of the simulation.
//!
//! A command's arguments say how long it runs and how long its result is, so what an agent asks for travels the whole way. A stop takes
//! half a second, as published. It counts what it began, because no command may ever be begun twice.
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
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

impl Graphs {
    /// The instant of the start. What stops it.
    fn begin(&self, request: &RunRequest) -> watch::Receiver<bool> {
        if let Some(on_begin) = self.on_begin.lock().unwrap_or_else(PoisonError::into_inner).as_ref() {
            on_begin(request);
        }
        let command = match &request.origin {
            Origin::Owner => None,
            Origin::Command(facts) => Some(facts.command),
        };
        let (stop, stopped) = watch::channel(false);
        let mut state = self.state();
        state.began.push(Began { execution: request.execution.clone(), command, at_ms: self.clock.elapsed_ms() });
        state.stops.insert(request.execution.clone(), stop);
        stopped
    }

    fn end(&self, execution: ExecutionId) {
        let mut state = self.state();
        state.stops.remove(&execution);
        state.ended.insert(execution, self.clock.elapsed_ms());
    }
}

impl RunGraphs for Graphs {
    fn run_graph_now(&self, request: RunRequest, feed: RunFeed) -> BoxFuture<'static, Outcome> {
        let graphs = self.clone();
        Box::pin(async move {
            let mut stopped = graphs.begin(&request);
            let asked = request.args.to_value();
            let number = |name: &str| asked.get(name).and_then(Value::as_u64).unwrap_or(0);
            // Time between the call and `fleet_started`: a flag that is read before it must be kept.
            let (starts_after_ms, run_ms, letters) = (number("starts_after_ms"), number("run_ms"), number("result_letters"));
            if starts_after_ms > 0 {
                crate::clock::sleep_ms(starts_after_ms).await;
            }
            feed.started(&request.execution);
            let outcome = tokio::select! { biased;
                () = stop_of(&mut stopped) => Outcome::Cancelled { why: CancelReason::Stopped, error: "Stopped".into(), used: Used::default() },
                () = crate::clock::sleep_ms(run_ms) => {
                    let result = RawJson::of(&Value::from("x".repeat(letters as usize)));
                    Outcome::Completed { result, used: Used { total_tokens: 0, cost: Some(0.0) } }
                }
            };
            graphs.end(request.execution);
            outcome
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

/// Ends when a Graph that was told to stop has stopped.
async fn stop_of(stopped: &mut watch::Receiver<bool>) {
    if stopped.wait_for(|stopped| *stopped).await.is_err() {
        std::future::pending::<()>().await; // nobody can stop it any more
    }
    crate::clock::sleep_ms(STOP_MS).await;
}
