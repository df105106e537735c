//! A world: one Graph Queue on its real store, desktops with their real relay and store, connected agents, and the lines between them.
//!
//! Set-up goes through the real device API: pairing, projects, agent tokens. Pulling a desktop's plug drops its relay; its store stays,
//! as a disk does.
use std::{
    sync::{Arc, Mutex, PoisonError},
    task::Waker,
};

use device::{
    ports::HttpSend,
    relay::{AskError, Link, QueueClient, Relay, RelayPorts, Token, Wishes, drive},
    store::{GraphEdit, GraphError, NewGraph, Pairing, SharingError, Store, StoreError, VersionFacts},
};
use domain::{
    AgentId, GraphSessionId, ProjectId, Slug, Timestamp,
    text::{SCOPE_READ, SCOPE_RUN},
    wire::relay::{GrantRequest, PairRequest, SessionStatus},
};
use server::{
    App, Config,
    store::{Durability, Place},
};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::{
    agent::{Agent, CallError},
    clock::SimClock,
    findings::Pickup,
    graph::Graphs,
    net::{Gate, Line},
    rng::{Rng, SharedRng},
};

pub const HOST: &str = "queue.sim";
const ADDRESS: &str = "http://queue.sim";

#[derive(Debug, thiserror::Error)]
pub enum WorldError {
    #[error("the queue did not open: {0}")]
    Open(#[from] server::OpenError),
    #[error("a device's request failed: {0}")]
    Ask(#[from] AskError),
    #[error("an agent's call failed: {0}")]
    Call(#[from] CallError),
    #[error("a device's store failed: {0}")]
    Store(#[from] StoreError),
    #[error("sharing: {0}")]
    Sharing(#[from] SharingError),
    #[error("a Graph: {0}")]
    Graph(#[from] GraphError),
    #[error("the file system: {0}")]
    Io(#[from] std::io::Error),
    #[error("the simulation is wrong: {0}")]
    Wrong(String),
}

/// Folder for databases: in memory where the system has such a place.
pub fn scratch() -> std::io::Result<tempfile::TempDir> {
    let builder = |folder: Option<&str>| {
        let mut builder = tempfile::Builder::new();
        builder.prefix("graph-sim-");
        folder.map_or_else(|| builder.tempdir(), |folder| builder.tempdir_in(folder))
    };
    builder(Some("/dev/shm")).or_else(|_| builder(None))
}

pub struct World {
    pub clock: SimClock,
    pub gate: Gate,
    pub rng: Rng,
    /// `None` while the server is down.
    app: Option<App>,
    config: Config,
    random: SharedRng,
    folder: tempfile::TempDir,
}

impl World {
    /// A queue without owners. Everything random in it comes from `rng`.
    pub async fn open(rng: Rng) -> Result<Self, WorldError> {
        Self::open_with(rng, |config| config.terms.queued_per_project = 100_000).await
    }

    pub async fn open_with(rng: Rng, set: impl FnOnce(&mut Config)) -> Result<Self, WorldError> {
        let folder = scratch()?;
        let place = Place::Sqlite { path: folder.path().join("queue.db"), durability: Durability::None };
        let mut config = Config::at(place, ADDRESS);
        // The agents of the experiments are as impatient as published; how a hurry is refused is the server's own test.
        config.requests_per_second = 1_000_000;
        set(&mut config);
        let random = SharedRng::new(rng.stream("server"));
        let mut world = Self { clock: SimClock::new(), gate: Gate::default(), rng, app: None, config, random, folder };
        world.start_server().await?;
        Ok(world)
    }

    /// Starts it, unless it runs.
    pub async fn start_server(&mut self) -> Result<(), WorldError> {
        if self.app.is_some() {
            return Ok(());
        }
        let (clock, random) = (self.clock.clone(), self.random.clone());
        let app = App::open(self.config.clone(), Arc::new(move || clock.now()), Arc::new(move |out: &mut [u8]| random.fill(out))).await?;
        self.gate.open(&app);
        self.app = Some(app);
        Ok(())
    }

    /// Gracefully: what is held is answered. What was committed stays, whatever the way it ends.
    pub async fn stop_server(&mut self) {
        self.gate.shut();
        if let Some(app) = self.app.take() {
            app.close().await;
        }
    }

    /// As hard as kill -9: what is being answered breaks off. What was committed stays.
    pub fn kill_server(&mut self) {
        self.gate.kill();
        self.app = None;
    }

    pub fn database(&self) -> std::path::PathBuf {
        self.folder.path().join("queue.db")
    }

    pub fn line(&self, name: &str) -> Line {
        Line::to(&self.gate, self.rng.stream(name))
    }

    /// Pairs a new desktop of this owner.
    pub async fn desktop(&self, owner: &str, name: &str, pickup: Pickup) -> Result<Desktop, WorldError> {
        let app = self.app.as_ref().ok_or_else(|| WorldError::Wrong("the server is down".into()))?;
        let code = app.pair_code(owner).await.map_err(|e| WorldError::Wrong(e.to_string()))?;
        let http: Arc<dyn HttpSend> = Arc::new(self.line(name));
        let request = PairRequest { pairing_code: code.code, device_name: name.to_owned(), device_id: None };
        let paired = QueueClient::without_token(http, ADDRESS).pair(&request).await?;
        let link = Link { address: ADDRESS.to_owned(), device: paired.device_id, token: Token::new(paired.device_token) };
        self.desktop_with(name, owner, link, pickup)
    }

    /// A desktop with a new disk that is already paired.
    pub fn desktop_with(&self, name: &str, owner: &str, link: Link, pickup: Pickup) -> Result<Desktop, WorldError> {
        let rng = self.rng.stream(name);
        let line = Line::to(&self.gate, rng.stream("line"));
        let clock = self.clock.of_another_machine();
        let store = Store::in_memory()?;
        store.set_pairing(&Pairing {
            address: ADDRESS.to_owned(),
            device_id: link.device,
            device_name: name.to_owned(),
            owner: owner.to_owned(),
            builtin: false,
            paired_at: clock.now(),
        })?;
        Ok(Desktop {
            name: name.to_owned(),
            graphs: Graphs::new(&self.clock),
            client: QueueClient::new(Arc::new(line.clone()), &link),
            store,
            line,
            link,
            clock,
            wishes: Wishes { paused_since: None, pickup_instant: pickup == Pickup::Doorbell },
            random: SharedRng::new(rng.stream("relay")),
            freezer: Freezer::default(),
            running: None,
            was_on: false,
        })
    }

    /// A connected agent with both scopes in these projects.
    pub async fn agent(&self, by: &Desktop, name: &str, projects: &[ProjectId]) -> Result<(Agent, AgentId), WorldError> {
        let grant = GrantRequest { name: name.to_owned(), project_ids: projects.to_vec(), scopes: vec![SCOPE_READ.into(), SCOPE_RUN.into()] };
        let minted = by.client.mint_agent_token(&grant).await?;
        Ok((Agent::new(name, self.line(name), &minted.token, &self.clock), minted.agent_id))
    }
}

/// Holds a task still, as sleep holds a computer's programs.
#[derive(Clone, Default)]
struct Freezer(Arc<Mutex<(bool, Option<Waker>)>>);

impl Freezer {
    fn set(&self, is_frozen: bool) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.0 = is_frozen;
        if is_frozen {
            return; // asleep twice: who waits for the waking goes on waiting
        }
        if let Some(waker) = state.1.take() {
            waker.wake();
        }
    }

    async fn run(self, inner: impl Future<Output = ()>) {
        let mut inner = std::pin::pin!(inner);
        std::future::poll_fn(move |cx| {
            {
                let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
                if state.0 {
                    state.1 = Some(cx.waker().clone());
                    return std::task::Poll::Pending;
                }
            }
            inner.as_mut().poll(cx)
        })
        .await;
    }
}

struct Running {
    relay: Arc<Relay>,
    driver: JoinHandle<()>,
    stop: CancellationToken,
}

/// One desktop: its disk ([`Store`]), its line, its Graphs, and, while it is switched on, its relay.
pub struct Desktop {
    pub name: String,
    pub store: Store,
    pub line: Line,
    pub graphs: Graphs,
    pub clock: SimClock,
    pub link: Link,
    pub client: QueueClient,
    pub wishes: Wishes,
    random: SharedRng,
    freezer: Freezer,
    running: Option<Running>,
    was_on: bool,
}

impl Desktop {
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Takes over the owner's projects from the server and enables one.
    pub async fn enable(&self, project: ProjectId) -> Result<(), WorldError> {
        let list = self.client.projects().await?;
        self.store.put_projects(&list.projects, self.now())?;
        self.store.enable_project(project, true)?;
        Ok(())
    }

    /// A ready Graph. Its source is never read: the executor is modelled.
    pub fn make_graph(&self, slug: &str, id: GraphSessionId) -> Result<GraphSessionId, WorldError> {
        let slug = Slug::parse(slug).map_err(|e| WorldError::Wrong(e.to_string()))?;
        let graph = NewGraph {
            id,
            name: format!("Graph {slug}"),
            slug,
            description: "Takes the time it is told to take".into(),
            status: SessionStatus::Ready,
            source: "await sleep(args.run_ms / 1000)".into(),
            facts: VersionFacts::default(),
        };
        Ok(self.store.create_graph(graph, self.now())?.id)
    }

    pub fn rename(&self, graph: GraphSessionId, slug: &str) -> Result<(), WorldError> {
        let slug = Slug::parse(slug).map_err(|e| WorldError::Wrong(e.to_string()))?;
        self.store.change_graph(graph, GraphEdit { slug: Some(slug), ..GraphEdit::default() }, self.now())?;
        Ok(())
    }

    /// Enables the project and ticks a new Graph for it.
    pub async fn share(&self, project: ProjectId, slug: &str, id: [u8; 16]) -> Result<GraphSessionId, WorldError> {
        self.enable(project).await?;
        let graph = self.make_graph(slug, GraphSessionId::from_random(id))?;
        self.store.tick(project, graph, "{}", self.now())?;
        Ok(graph)
    }

    /// Ever.
    pub fn was_on(&self) -> bool {
        self.was_on
    }

    /// What its relay says of itself, while it is switched on.
    pub fn status(&self) -> Option<device::relay::RelayStatus> {
        self.running.as_ref().map(|running| running.relay.status())
    }

    /// Sleep: nothing of the program moves, and the world goes on.
    pub fn freeze(&self, is_frozen: bool) {
        self.freezer.set(is_frozen);
    }

    /// Starts the program on its disk, as after a boot.
    pub fn switch_on(&mut self) -> Result<(), WorldError> {
        if self.running.is_some() {
            return Ok(());
        }
        self.store.end_interrupted(self.now())?;
        let ports = RelayPorts {
            clock: Arc::new(self.clock.clone()),
            random: Arc::new(self.random.clone()),
            http: Arc::new(self.line.clone()),
            runner: Arc::new(self.graphs.clone()),
            asks: Arc::new(|_, _| None),
        };
        let relay = Relay::new(self.store.clone(), ports);
        relay.wish(self.wishes);
        relay.connect(Some(self.link.clone()));
        let stop = CancellationToken::new();
        self.freezer.set(false);
        let driver = tokio::spawn(self.freezer.clone().run(drive(Arc::clone(&relay), stop.clone())));
        self.was_on = true;
        self.running = Some(Running { relay, driver, stop });
        Ok(())
    }

    /// Pulls the plug: everything that was not on the disk is gone, with no word to anybody.
    pub async fn crash(&mut self) {
        if let Some(running) = self.running.take() {
            running.driver.abort();
            let _ = running.driver.await; // an aborted task ends with an error
        }
    }

    /// Quits in good order.
    pub async fn quit(&mut self) {
        if let Some(running) = self.running.take() {
            self.freezer.set(false);
            running.stop.cancel();
            let _ = running.driver.await; // a panic in it shows in what the auditor sees
        }
    }

    pub fn wish(&mut self, wishes: Wishes) {
        self.wishes = wishes;
        if let Some(running) = &self.running {
            running.relay.wish(wishes);
        }
    }
}
