//! One device with its relay, a modelled executor, a clock that can be wrong, and the queue.
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use device::{
    ports::{BoxFuture, Clock, Random},
    relay::{Link, Relay, RelayPorts, RunFeed, RunGraphs, RunRequest, Token, drive},
    sharing::AsksOf,
    store::{NewGraph, Pairing, Store, VersionFacts},
};
use domain::{
    CancelReason, CommandId, DeviceId, ExecutionId, GraphSessionId, Outcome, ProjectId, RawJson, Slug, Timestamp, completion::Used,
    wire::relay::SessionStatus,
};
use tokio::{sync::watch, task::JoinHandle, time::Instant};
use tokio_util::sync::CancellationToken;

use crate::queue::{Queue, TOKEN};

/// The server's wall clock of the test's beginning, plus `ms`.
pub fn wall_clock(ms: i64) -> Timestamp {
    Timestamp::from_ms(1_796_000_000_000).plus_ms(ms)
}

pub struct TestClock {
    began: Instant,
    pub wrong_by_ms: Mutex<i64>,
}
impl Clock for TestClock {
    fn now(&self) -> Timestamp {
        wall_clock(self.began.elapsed().as_millis() as i64 + *self.wrong_by_ms.lock().unwrap())
    }
}

pub struct Counting(Mutex<u64>);
impl Random for Counting {
    fn bytes16(&self) -> [u8; 16] {
        let mut n = self.0.lock().unwrap();
        *n += 1;
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes());
        bytes[8..].copy_from_slice(&n.to_be_bytes());
        bytes
    }
}

/// Runs by sleeping; stops half a second after it is told.
#[derive(Default)]
pub struct Runner {
    state: Mutex<RunnerState>,
    stops: watch::Sender<u64>,
}

#[derive(Default)]
pub struct RunnerState {
    pub ms: u64,
    /// `fleet_started` comes this late.
    pub started_after_ms: u64,
    pub runs: Vec<(Duration, RunRequest)>,
    pub stops: Vec<(Duration, ExecutionId)>,
    /// Executions stopped, by run id.
    stopped: BTreeMap<ExecutionId, ()>,
    pub running: usize,
    pub most_running: usize,
    /// Executions that began although consent was missing at that instant.
    pub without_consent: Vec<ExecutionId>,
    auditor: Option<Store>,
    began: Option<Instant>,
}

pub struct RunnerPort(pub Arc<Runner>);

impl Runner {
    /// From now on every start is checked for consent at its instant.
    pub fn audit(&self, store: Store) {
        self.state().auditor = Some(store);
    }
    pub fn state(&self) -> std::sync::MutexGuard<'_, RunnerState> {
        self.state.lock().unwrap()
    }
}

struct Running(Arc<Runner>);
impl Drop for Running {
    fn drop(&mut self) {
        self.0.state().running -= 1;
    }
}

impl RunGraphs for RunnerPort {
    fn run_graph_now(&self, request: RunRequest, feed: RunFeed) -> BoxFuture<'static, Outcome> {
        let runner = Arc::clone(&self.0);
        Box::pin(async move {
            let (ms, late) = {
                let mut state = runner.state();
                let began = *state.began.get_or_insert_with(Instant::now);
                state.runs.push((began.elapsed(), request.clone()));
                state.running += 1;
                if let (Some(store), device::store::Origin::Command(facts)) = (state.auditor.clone(), &request.origin)
                    && device::sharing::consent(&store, facts.project, request.graph, facts.slug.as_str()).unwrap().is_none()
                {
                    state.without_consent.push(request.execution.clone());
                }
                state.most_running = state.most_running.max(state.running);
                (state.ms, state.started_after_ms)
            };
            let _running = Running(Arc::clone(&runner));
            let end = Instant::now() + Duration::from_millis(ms);
            tokio::time::sleep(Duration::from_millis(late)).await;
            feed.started(&request.execution);
            let mut stops = runner.stops.subscribe();
            loop {
                if runner.state().stopped.contains_key(&request.execution) {
                    tokio::time::sleep(Duration::from_millis(500)).await;
                    return Outcome::Cancelled { why: CancelReason::Stopped, error: "Stopped".into(), used: Used::default() };
                }
                if tokio::time::timeout_at(end, stops.changed()).await.is_err() {
                    break;
                }
            }
            Outcome::Completed { result: request.args, used: Used::default() }
        })
    }

    fn fleet_cancel_run(&self, run_id: &ExecutionId) {
        let mut state = self.0.state();
        let at = state.began.map(|b| b.elapsed()).unwrap_or_default();
        state.stops.push((at, run_id.clone()));
        state.stopped.insert(run_id.clone(), ());
        drop(state);
        self.0.stops.send_modify(|n| *n += 1);
    }
}

pub struct World {
    pub queue: Queue,
    pub store: Store,
    pub runner: Arc<Runner>,
    pub clock: Arc<TestClock>,
    pub relay: Arc<Relay>,
    random: Arc<Counting>,
    driving: Option<(JoinHandle<()>, CancellationToken)>,
    pub project: ProjectId,
    began: Instant,
}

pub fn device_id() -> DeviceId {
    DeviceId::from_random([7; 16])
}

pub fn project_id(n: u8) -> ProjectId {
    ProjectId::from_random([n; 16])
}

impl World {
    /// A paired device with one enabled project; runs take `ms`.
    pub fn new(ms: u64) -> Self {
        let queue = Queue::new();
        let store = Store::in_memory().unwrap();
        let runner = Arc::new(Runner::default());
        runner.state().ms = ms;
        runner.state().began = Some(Instant::now());
        let clock = Arc::new(TestClock { began: Instant::now(), wrong_by_ms: Mutex::new(0) });
        let random = Arc::new(Counting(Mutex::new(0)));
        let pairing = Pairing {
            address: "https://queue.test".into(),
            device_id: device_id(),
            device_name: "desk".into(),
            owner: "Ada".into(),
            builtin: false,
            paired_at: clock.now(),
        };
        store.set_pairing(&pairing).unwrap();
        let relay = relay(&store, &queue, &runner, &clock, &random, Arc::new(|_, _| None));
        let world = Self { queue, store, runner, clock, relay, random, driving: None, project: project_id(1), began: Instant::now() };
        world.add_project(world.project, "Home");
        world
    }

    pub fn add_project(&self, id: ProjectId, name: &str) {
        self.queue.state().projects.push((id, name.into()));
        let listed: Vec<_> =
            self.queue.state().projects.iter().map(|(id, name)| domain::wire::relay::Project { project_id: *id, name: name.clone() }).collect();
        self.store.put_projects(&listed, self.clock.now()).unwrap();
        self.store.enable_project(id, true).unwrap();
    }

    pub fn pickup_every_20_s(&self) {
        self.relay.wish(device::relay::Wishes { paused_since: None, pickup_instant: false });
    }

    /// Saves a ready Graph and ticks it for the first project.
    pub fn share(&self, slug: &str) -> GraphSessionId {
        let id = self.graph(slug);
        self.store.tick(self.project, id, "{}", self.clock.now()).unwrap();
        id
    }

    pub fn graph(&self, slug: &str) -> GraphSessionId {
        let id = GraphSessionId::from_random(self.random.bytes16());
        let new = NewGraph {
            id,
            name: slug.to_uppercase(),
            slug: Slug::parse(slug).unwrap(),
            description: String::new(),
            status: SessionStatus::Ready,
            source: "return args".into(),
            facts: VersionFacts::default(),
        };
        self.store.create_graph(new, self.clock.now()).unwrap();
        id
    }

    pub fn enqueue(&self, session: GraphSessionId) -> CommandId {
        let slug = self.store.graph(session).unwrap().unwrap().slug;
        self.queue.enqueue(self.project, session, slug.as_str())
    }

    pub fn start(&mut self) {
        let stop = CancellationToken::new();
        let task = tokio::spawn(drive(Arc::clone(&self.relay), stop.clone()));
        self.driving = Some((task, stop));
    }

    /// Everything of the process is gone at once; the database stays.
    pub async fn crash(&mut self) {
        let (task, _) = self.driving.take().unwrap();
        task.abort();
        let _ = task.await;
    }

    /// A new process over the same database.
    pub fn boot(&mut self) {
        self.store.end_interrupted(self.clock.now()).unwrap();
        self.relay = self.relay_that_asks(Arc::new(|_, _| None));
        self.start();
    }

    /// Another relay of this device, handed this.
    pub fn relay_that_asks(&self, asks: Arc<AsksOf>) -> Arc<Relay> {
        relay(&self.store, &self.queue, &self.runner, &self.clock, &self.random, asks)
    }

    pub async fn quit(&mut self) {
        let (task, stop) = self.driving.take().unwrap();
        stop.cancel();
        task.await.unwrap();
    }

    pub fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    /// Simulated time passes until this holds; at most ten minutes of it.
    pub async fn until(&self, what: &str, mut holds: impl FnMut(&Self) -> bool) {
        for _ in 0..60_000 {
            if holds(self) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("never in ten minutes: {what}");
    }

    pub async fn pass_by(&self, seconds: u64) {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
    }

    pub fn is_terminal(&self, command: CommandId) -> bool {
        self.queue.of(command).status().is_terminal()
    }

    pub async fn until_terminal(&self, command: CommandId) -> String {
        self.until("the command ends", |w| w.is_terminal(command)).await;
        self.queue.ending(command)
    }

    pub fn runs(&self) -> usize {
        self.runner.state().runs.len()
    }
    pub fn runs_of(&self, command: CommandId) -> usize {
        let channel = device::store::Channel::External(command);
        self.runner.state().runs.iter().filter(|(_, r)| r.channel == channel).count()
    }
}

/// Nobody goes on living in the next test's time.
impl Drop for World {
    fn drop(&mut self) {
        if let Some((task, _)) = &self.driving {
            task.abort();
        }
    }
}

fn relay(store: &Store, queue: &Queue, runner: &Arc<Runner>, clock: &Arc<TestClock>, random: &Arc<Counting>, asks: Arc<AsksOf>) -> Arc<Relay> {
    let ports = RelayPorts {
        clock: Arc::clone(clock) as Arc<dyn Clock>,
        random: Arc::clone(random) as Arc<dyn Random>,
        http: Arc::new(queue.clone()),
        runner: Arc::new(RunnerPort(Arc::clone(runner))),
        asks,
    };
    let relay = Relay::new(store.clone(), ports);
    relay.connect(Some(Link { address: "https://queue.test/".into(), device: device_id(), token: Token::new(TOKEN) }));
    relay
}

pub fn args() -> RawJson {
    RawJson::parse(r#"{"z":1e+21,"a":-0}"#).unwrap()
}
