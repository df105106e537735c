//! The relay: picks up commands, runs them with consent, reports how they ended. `docs/relay.md` tells a pass as a story.
//!
//! [`Relay::pass`] is one bounded round: unanswered claim, outbox, sync, commands. [`drive`] decides when passes happen. Nothing here
//! judges expiry or looks at the wall but through the [`Clock`]. Invariants: one pass at a time; an execution is stored before its
//! command is asked for; between the last check of consent and the Graph's first instruction there is no network.
mod client;
mod control;
mod deliver;
mod doorbell;
mod drive;
mod executor;
mod pass;
mod readable;
mod status;

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use domain::{ExecutionId, Timestamp};
use tokio::{sync::watch, time::Instant};

pub use client::{AskError, Link, Offer, QueueClient, Synced, Token};
pub use drive::{drive, keep_driving};
pub use executor::{RunFeed, RunGraphs, RunNews, RunRequest};
pub use pass::{PassError, PassReport};
pub use status::{Busy, Failing, RelayStatus, Trouble};

use crate::{
    ports::{Clock, HttpSend, Random},
    sharing::AsksOf,
    store::Store,
    view::Topic,
};

/// Longest wait that is taken from a server's Retry-After.
const RETRY_AFTER_MS_MAX: u64 = 3_600_000;

/// What the owner chose in Settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wishes {
    /// Takes no commands since then.
    pub paused_since: Option<Timestamp>,
    /// Holds a doorbell; else asks every 20 s.
    pub pickup_instant: bool,
}

impl Default for Wishes {
    fn default() -> Self {
        Self { paused_since: None, pickup_instant: true }
    }
}

/// Everything the relay is handed.
#[derive(Clone)]
pub struct RelayPorts {
    pub clock: Arc<dyn Clock>,
    pub random: Arc<dyn Random>,
    pub http: Arc<dyn HttpSend>,
    pub runner: Arc<dyn RunGraphs>,
    /// Which tools of a shared Graph will ask; answer `None` to keep it untold.
    pub asks: Arc<AsksOf>,
}

pub struct Relay {
    store: Store,
    ports: RelayPorts,
    link: watch::Sender<Option<Link>>,
    wishes: watch::Sender<Wishes>,
    status: watch::Sender<RelayStatus>,
    /// Passes are one at a time, whoever asks for them.
    passing: tokio::sync::Mutex<()>,
    /// A sync was answered: the texts for the browser may follow.
    texts_due: tokio::sync::Notify,
    /// Texts for the browser are sent and removed one at a time.
    uploading: tokio::sync::Mutex<readable::Compared>,
    /// Claims made by this process. A claim of an earlier one, once granted, never runs: whether it did is not known to be false.
    ours: Mutex<BTreeSet<ExecutionId>>,
    /// Retry-After: nothing is asked before, but the control polls of what runs.
    quiet_until: Mutex<Option<Instant>>,
    /// The app is about to end: nothing new is claimed.
    stopping: watch::Sender<bool>,
}

impl Relay {
    pub fn new(store: Store, ports: RelayPorts) -> Arc<Self> {
        Arc::new(Self {
            store,
            ports,
            link: watch::Sender::new(None),
            wishes: watch::Sender::new(Wishes::default()),
            status: watch::Sender::new(RelayStatus { pickup_instant: true, ..RelayStatus::default() }),
            passing: tokio::sync::Mutex::new(()),
            texts_due: tokio::sync::Notify::new(),
            uploading: tokio::sync::Mutex::default(),
            ours: Mutex::new(BTreeSet::new()),
            quiet_until: Mutex::default(),
            stopping: watch::Sender::new(false),
        })
    }

    /// Paired, paired anew, or (`None`) unpaired. A driven relay makes a pass at once.
    pub fn connect(&self, link: Option<Link>) {
        self.note(|s| {
            s.connected = link.is_some();
            s.trouble = None;
        });
        *self.quiet() = None;
        self.link.send_replace(link);
    }

    pub fn wish(&self, wishes: Wishes) {
        self.note(|s| (s.paused_since, s.pickup_instant) = (wishes.paused_since, wishes.pickup_instant));
        self.wishes.send_if_modified(|now| std::mem::replace(now, wishes) != wishes);
    }

    pub fn wishes(&self) -> Wishes {
        *self.wishes.borrow()
    }

    pub fn status(&self) -> RelayStatus {
        self.status.borrow().clone()
    }

    pub fn watch_status(&self) -> watch::Receiver<RelayStatus> {
        self.status.subscribe()
    }

    /// A client for the owner's own requests (projects, agents); `None` while not paired.
    pub fn client(&self) -> Option<QueueClient> {
        self.link.borrow().as_ref().map(|link| QueueClient::new(Arc::clone(&self.ports.http), link))
    }

    fn linked(&self) -> Option<(QueueClient, Link)> {
        let link = self.link.borrow().clone()?;
        Some((QueueClient::new(Arc::clone(&self.ports.http), &link), link))
    }

    fn now(&self) -> Timestamp {
        self.ports.clock.now()
    }

    fn is_stopping(&self) -> bool {
        *self.stopping.borrow()
    }

    fn ours(&self) -> MutexGuard<'_, BTreeSet<ExecutionId>> {
        self.ours.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn quiet(&self) -> MutexGuard<'_, Option<Instant>> {
        self.quiet_until.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `None` once that has passed.
    fn quiet_until(&self) -> Option<Instant> {
        let until = *self.quiet();
        until.filter(|until| Instant::now() < *until)
    }

    fn is_quiet(&self) -> bool {
        self.quiet_until().is_some()
    }

    /// A server that names a time before which it wants to be left alone means all of us, whichever request it told so.
    fn heed_retry_after(&self, error: &PassError) {
        let PassError::Ask(told @ AskError::TooMany { retry_after_ms: Some(ms), .. }) = error else { return };
        let until = Instant::now() + Duration::from_millis((*ms).min(RETRY_AFTER_MS_MAX));
        let before = *self.quiet();
        *self.quiet() = before.max(Some(until));
        let now = self.now();
        self.note(|s| s.note_error(told, now));
    }

    /// The pass in hand is gone: no claim of it may run any more, and what it ran has been dropped.
    fn begin_again(&self) {
        self.ours().clear();
        let now = self.now();
        self.note(|s| {
            (s.busy, s.syncing, s.doorbell_open) = (None, false, false);
            s.note_failure(now);
        });
        if let Err(e) = self.store.end_interrupted_commands(now) {
            tracing::error!("what was interrupted could not be ended: {e}");
        }
    }

    fn note(&self, change: impl FnOnce(&mut RelayStatus)) {
        let changed = self.status.send_if_modified(|status| {
            let before = status.clone();
            change(status);
            *status != before
        });
        if changed {
            self.store.tell(Topic::Status);
        }
    }

    /// Every answer of our server is contact; every failure is told in words. While we are to be quiet the owner goes on reading why.
    fn heard<T>(&self, answer: Result<T, AskError>) -> Result<T, AskError> {
        let (now, is_quiet) = (self.now(), self.is_quiet());
        match &answer {
            Ok(_) => self.note(|s| {
                s.last_contact = Some(now);
                s.trouble = s.trouble.take().filter(|_| is_quiet);
            }),
            // A refusal of one request is told where that request belongs; the server is there and takes us.
            Err(AskError::Refused { .. }) => self.note(|s| s.last_contact = Some(now)),
            Err(error) => self.note(|s| s.note_error(error, now)),
        }
        answer
    }

    /// For what goes beside the passes: a cut line or a stranger's answer there is no trouble worth telling, for the passes say whether the
    /// server is there. Whoever is told to wait says so itself where that is meant for all: see [`Relay::heed_retry_after`].
    fn heard_beside<T>(&self, answer: Result<T, AskError>) -> Result<T, AskError> {
        match answer {
            Err(error @ (AskError::Unreachable(_) | AskError::NotOurs { .. } | AskError::TooMany { .. })) => Err(error),
            answer @ (Ok(_) | Err(AskError::Refused { .. } | AskError::Unauthorized { .. })) => self.heard(answer),
        }
    }
}
