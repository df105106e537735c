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
mod models;
pub mod powers;
mod settings;
mod sharing;
mod status;

use std::{
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use agent::approvals::{Approvals, Attendance};
use engine::ChildVm;
use tokio::sync::broadcast;

use crate::{
    ports::{Clock, HttpSend, Random},
    secrets::SecretStore,
    store::{Store, StoreError},
    view::{DeskEvent, Topic},
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
    /// Whether the shell can start a queue inside the app.
    pub builtin: Option<Arc<dyn BuiltinQueue>>,
}

/// The queue inside the app, started by the shell. The device sees an address and a pairing code, like any other queue's.
pub trait BuiltinQueue: Send + Sync {
    /// Starts it if it does not run, and makes a pairing code: `(address, code)`.
    fn start(&self) -> crate::ports::BoxFuture<'static, Result<(String, String), String>>;
}

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
    events: broadcast::Sender<DeskEvent>,
}

impl Desk {
    /// Opens the profile. Executions a dead process left behind are ended here, truthfully. Nothing runs until [`Desk::start`].
    pub fn open(config: DeskConfig) -> Result<Arc<Self>, OpenError> {
        let store = Store::open(&config.profile, config.clock.now())?;
        let approvals = Approvals::new(config.attendance);
        let (events, _) = broadcast::channel(1024);
        Ok(Arc::new(Self { config, store, approvals, events }))
    }

    /// What the window subscribes to. A watcher that lags asks again for everything.
    pub fn events(&self) -> broadcast::Receiver<DeskEvent> {
        self.events.subscribe()
    }

    /// The window may want to ask again for this.
    pub(crate) fn changed(&self, topic: Topic) {
        let _ = self.events.send(DeskEvent::Changed { topic }); // no window, nobody to tell
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
