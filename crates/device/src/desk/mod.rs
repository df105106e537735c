//! The facade: everything the window, the tray and the command line may ask of the desktop, as typed methods.
//!
//! Each command of [`crate::view::COMMANDS`] is one method of that name, in the file of its place (`graphs`, `executions`, `sharing` …);
//! [`Desk::call`] is the one dispatcher. What not: no window, no clock, no socket of its own; those are handed in.
//! Invariant: views are made afresh from the store for each question; nothing here is a second truth.
mod approvals;
pub mod call;
mod connections;
mod control;
mod doctor;
mod errors;
mod executions;
mod graphs;
mod mcp;
mod models;
pub mod powers;
mod round_trip;
mod settings;
mod sharing;
mod status;
pub mod verbs;

use std::{
    collections::BTreeSet,
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use agent::{
    approvals::{Approvals, Attendance},
    tools::{Commands, Fetch},
};
use engine::ChildVm;
use tokio::{
    sync::{Notify, broadcast},
    task::JoinHandle,
};
use tokio_util::sync::CancellationToken;

use crate::{
    ports::{Clock, HttpSend, Random},
    relay::{Relay, RelayPorts},
    runs::{Executor, Parts},
    secrets::SecretStore,
    store::{Store, StoreError},
    view::{DeskEvent, ErrorView, FoundServer, Topic},
};

pub use control::{ControlError, ask_running};
pub use errors::error;

/// Everything a desktop is made from. Only the binaries know the real parts.
#[derive(Clone)]
pub struct DeskConfig {
    /// Where the database, the sealed secrets and the control socket lie.
    pub profile: PathBuf,
    pub logs_folder: PathBuf,
    pub secrets: Arc<SecretStore>,
    pub clock: Arc<dyn Clock>,
    pub random: Arc<dyn Random>,
    pub http: Arc<dyn HttpSend>,
    pub graph_vm: ChildVm,
    /// `None` for `graph-deskd`: an ask is denied at once.
    pub attendance: Attendance,
    /// Shown to the owner and to agents.
    pub device_name: String,
    /// Folders no tool may see besides the profile and the logs.
    pub excluded: Vec<PathBuf>,
    /// How `run_command` runs; without it there is no such tool.
    pub commands: Option<Commands>,
    /// How `http_fetch` finds hosts; without it there is no such tool.
    pub fetch: Option<Fetch>,
    /// Whether the shell can start a queue inside the app.
    pub builtin: Option<Arc<dyn BuiltinQueue>>,
}

/// The queue inside the app, started by the shell. The device sees an address and a pairing code, like any other queue's.
pub trait BuiltinQueue: Send + Sync {
    /// Starts it if it does not run, and makes a pairing code: `(address, code)`.
    fn start(&self) -> crate::ports::BoxFuture<'static, Result<(String, String), String>>;
}

const ALL_TOPICS: [Topic; 8] =
    [Topic::Status, Topic::Graphs, Topic::Executions, Topic::Sharing, Topic::Approvals, Topic::Connections, Topic::Models, Topic::Settings];

/// Why a desktop cannot be opened, in words for the owner.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// One desktop: one profile, one relay.
pub struct Desk {
    config: DeskConfig,
    store: Store,
    approvals: Approvals,
    executor: Executor,
    relay: Arc<Relay>,
    /// The task that drives the relay, once started.
    driver: Mutex<Option<JoinHandle<()>>>,
    agents: Mutex<connections::Agents>,
    /// Model servers found on this computer.
    found: Mutex<Vec<FoundServer>>,
    events: broadcast::Sender<DeskEvent>,
    /// Approvals whose popup has been seen: their half second without answers has begun.
    shown: Mutex<BTreeSet<u64>>,
    /// A second start asked for the window of this one.
    window_wanted: Notify,
    closing: CancellationToken,
}

impl Desk {
    /// Opens the profile. Executions a dead process left behind are ended here, truthfully. Nothing runs until [`Desk::start`].
    pub fn open(config: DeskConfig) -> Result<Arc<Self>, OpenError> {
        let store = Store::open(&config.profile, config.clock.now())?;
        let approvals = Approvals::new(config.attendance);
        let (events, _) = broadcast::channel(1024);
        let mut excluded = vec![config.profile.clone(), config.logs_folder.clone()];
        excluded.extend(config.excluded.iter().cloned());
        let executor = Executor::new(Parts {
            store: store.clone(),
            clock: Arc::clone(&config.clock),
            random: Arc::clone(&config.random),
            vm: config.graph_vm.clone(),
            approvals: approvals.clone(),
            events: events.clone(),
            excluded,
            commands: config.commands.clone(),
            fetch: config.fetch.clone(),
        });
        let relay = Relay::new(
            store.clone(),
            RelayPorts {
                clock: Arc::clone(&config.clock),
                random: Arc::clone(&config.random),
                http: Arc::clone(&config.http),
                runner: Arc::new(executor.clone()),
                asks: sharing::asks_of(store.clone(), executor.clone()),
            },
        );
        let desk = Self {
            config,
            store,
            approvals,
            executor,
            relay,
            driver: Mutex::default(),
            agents: Mutex::default(),
            found: Mutex::default(),
            events,
            shown: Mutex::default(),
            window_wanted: Notify::new(),
            closing: CancellationToken::new(),
        };
        desk.know_mcp()?;
        desk.apply_relay_settings(&desk.store.settings()?);
        Ok(Arc::new(desk))
    }

    /// Finds the secrets, and with them the queue and the models: for one command, or before [`Desk::start`].
    pub async fn open_secrets(&self) -> Result<(), ErrorView> {
        self.config.secrets.probe(&self.secret_names()?).await;
        self.load_models().await?;
        self.load_mcp().await?;
        self.connect_relay().await
    }

    /// Begins to work: the relay takes commands, the window hears of changes. Once.
    pub async fn start(self: &Arc<Self>) -> Result<(), ErrorView> {
        self.forward_topics();
        self.watch_approvals();
        self.open_secrets().await?;
        self.start_mcp_servers();
        let driver = tokio::spawn(crate::relay::keep_driving(Arc::clone(&self.relay), self.closing.clone()));
        *lock(&self.driver) = Some(driver);
        self.prune_now_and_then();
        Ok(())
    }

    /// Ends everything within a few seconds: running executions end as failed (`owner_quit`), which is stored before this returns.
    pub async fn shutdown(&self, reason: &str) {
        tracing::info!("Graph Desk ends: {reason}");
        self.closing.cancel();
        let driver = lock(&self.driver).take();
        let all_ended = async {
            self.executor.quit().await;
            self.stop_mcp_servers().await;
            // The relay stores and, if it can, delivers the ending of the command in hand.
            if let Some(driver) = driver {
                let _ = driver.await;
            }
        };
        if tokio::time::timeout(std::time::Duration::from_secs(8), all_ended).await.is_err() {
            tracing::warn!("executions did not end in time; they will end as interrupted at the next start");
        }
    }

    /// Drops what is older than the owner wants to keep: at the start and every six hours.
    fn prune_now_and_then(self: &Arc<Self>) {
        const EVERY: std::time::Duration = std::time::Duration::from_secs(6 * 60 * 60);
        let (desk, closing) = (Arc::downgrade(self), self.closing.clone());
        tokio::spawn(async move {
            loop {
                let Some(desk) = desk.upgrade() else { return };
                if let Err(e) = desk.prune() {
                    tracing::warn!("the history was not pruned: {}", e.message);
                }
                drop(desk);
                tokio::select! {
                    () = tokio::time::sleep(EVERY) => {}
                    () = closing.cancelled() => return,
                }
            }
        });
    }

    fn prune(&self) -> Result<(), ErrorView> {
        let days = i64::from(self.store.settings()?.retention_days);
        let before = self.config.clock.now().plus_ms(-days * 24 * 60 * 60 * 1000);
        self.store.prune_executions(before)?;
        Ok(self.store.prune_stories(before)?)
    }

    /// The store says what changed; the window hears it.
    fn forward_topics(self: &Arc<Self>) {
        let (mut topics, events, closing) = (self.store.topics(), self.events.clone(), self.closing.clone());
        tokio::spawn(async move {
            loop {
                let topic = tokio::select! {
                    topic = topics.recv() => topic,
                    () = closing.cancelled() => return,
                };
                match topic {
                    Ok(topic) => {
                        let _ = events.send(DeskEvent::Changed { topic });
                    }
                    Err(broadcast::error::RecvError::Lagged(_)) => {
                        for topic in ALL_TOPICS {
                            let _ = events.send(DeskEvent::Changed { topic });
                        }
                    }
                    Err(broadcast::error::RecvError::Closed) => return,
                }
            }
        });
    }

    /// Ends when somebody asked for the window: whoever starts Graph Desk while it runs.
    pub async fn window_wanted(&self) {
        self.window_wanted.notified().await;
    }

    pub(super) fn window_open(&self) -> Result<serde_json::Value, ErrorView> {
        if self.config.attendance == Attendance::None {
            return Err(error("no_window", "The desktop that runs here has no window: it is `graph-deskd serve`. Stop it to open Graph Desk."));
        }
        self.window_wanted.notify_one();
        Ok(serde_json::Value::Null)
    }

    /// What the window subscribes to. A watcher that lags asks again for everything.
    pub fn events(&self) -> broadcast::Receiver<DeskEvent> {
        self.events.subscribe()
    }

    /// The window may want to ask again for this.
    pub(crate) fn changed(&self, topic: Topic) {
        self.store.tell(topic);
    }

    pub fn relay(&self) -> &Arc<Relay> {
        &self.relay
    }
    pub fn executor(&self) -> &Executor {
        &self.executor
    }
    pub fn store(&self) -> &Store {
        &self.store
    }
    pub fn config(&self) -> &DeskConfig {
        &self.config
    }
    /// The open questions: the shell watches them to show its popups.
    pub fn approvals(&self) -> &Approvals {
        &self.approvals
    }
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
