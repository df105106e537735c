//! What one execution and every Graph it calls share: ledger, places, clock, counters and the stop.
use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError,
    atomic::{AtomicU64, Ordering},
};

use domain::{
    CancelReason, ExecutionId, FailReason,
    ledger::{Ledger, Reservation, Usage},
    wire::event::FleetWhat,
};
use tokio_util::sync::CancellationToken;

use crate::{
    host::{CallCode, CallError, FleetHost},
    seat::{Seat, Seats, Stopwatch},
    settings::Settings,
};

/// Who stopped an execution. The first stop counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopWhy {
    /// The owner pressed Stop on the desktop.
    Owner,
    /// The connected agent's cancel was accepted, or the server said it is no longer ours.
    Asked,
    /// The connected agent was revoked.
    Revoked,
    /// The owner quit the app.
    Quit,
}

/// How a stopped execution is reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stopped {
    Cancelled(CancelReason),
    Failed(FailReason),
}

impl StopWhy {
    pub(crate) const fn ending(self) -> Stopped {
        match self {
            Self::Owner => Stopped::Cancelled(CancelReason::OwnerStopped),
            Self::Asked => Stopped::Cancelled(CancelReason::Stopped),
            Self::Revoked => Stopped::Cancelled(CancelReason::AgentRevoked),
            Self::Quit => Stopped::Failed(FailReason::OwnerQuit),
        }
    }
}

/// The worst a model call can use.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Need {
    /// Never fewer than the provider will count: see the spec's estimate.
    pub input: u64,
    pub max_output: u64,
    /// Worst price, where one is known.
    pub cost: Option<f64>,
}

/// One execution. Make it with [`Fleet::new`], hand it to [`crate::run_fleet_script`], keep the `Arc` to stop it.
pub struct Fleet {
    pub run_id: ExecutionId,
    pub settings: Settings,
    host: Arc<dyn FleetHost>,
    ledger: Arc<Mutex<Ledger>>,
    stop: CancellationToken,
    stopped: Mutex<Option<StopWhy>>,
    /// Cancelled once the ceiling is reached: whoever waits for a place is refused at once.
    closed: CancellationToken,
    pub(crate) seats: Arc<Seats>,
    pub(crate) watch: Arc<Stopwatch>,
    agents: AtomicU64,
    waves: AtomicU64,
    calls: AtomicU64,
}

impl Fleet {
    /// `settings` must already be narrowed by the Graph's own limits: [`Settings::narrowed`].
    pub fn new(run_id: ExecutionId, settings: Settings, host: Arc<dyn FleetHost>) -> Arc<Self> {
        let watch = Stopwatch::start();
        Arc::new(Self {
            run_id,
            ledger: Arc::new(Mutex::new(Ledger::new(settings.token_ceiling))),
            stop: CancellationToken::new(),
            stopped: Mutex::new(None),
            closed: CancellationToken::new(),
            seats: Seats::new(settings.max_concurrency, Arc::clone(&watch)),
            watch,
            settings,
            host,
            agents: AtomicU64::new(0),
            waves: AtomicU64::new(0),
            calls: AtomicU64::new(0),
        })
    }

    pub fn host(&self) -> &Arc<dyn FleetHost> {
        &self.host
    }

    /// Stops the execution: no new call, running ones dropped at once, the script's process gone within 250 ms. Idempotent.
    pub fn stop(&self, why: StopWhy) {
        self.stopped.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(why);
        self.stop.cancel();
    }
    /// For work that must notice the stop by itself (a dropped future stops without it).
    pub fn stop_token(&self) -> &CancellationToken {
        &self.stop
    }
    pub fn why_stopped(&self) -> Option<StopWhy> {
        *self.stopped.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Before every attempt of a model call. What does not fit is refused, and from then on everything is.
    pub fn reserve(&self, label: &str, need: Need) -> Result<Reservation, CallError> {
        let reserved = self.lock().reserve(label, need.input, need.max_output);
        match reserved {
            Ok(reservation) => {
                self.tell_ledger();
                Ok(reservation)
            }
            Err(reached) => {
                self.closed.cancel();
                Err(CallError::new(CallCode::CeilingReached, reached.to_string()))
            }
        }
    }

    /// After every attempt, exactly once. `cost` is what it really cost, where a price is known.
    pub fn settle(&self, reservation: Reservation, usage: Usage, cost: Option<f64>) {
        let _ = cost;
        let is_reached = {
            let mut ledger = self.lock();
            ledger.settle(reservation, usage);
            ledger.is_reached()
        };
        if is_reached {
            self.closed.cancel();
        }
        self.tell_ledger();
    }

    /// The ledger itself, for a host whose agents reserve and settle in it directly. It says so with [`Fleet::ledger_changed`].
    pub fn shared_ledger(&self) -> Arc<Mutex<Ledger>> {
        Arc::clone(&self.ledger)
    }
    /// The shared ledger was used: tells the story, and refuses whoever waits once the ceiling is reached.
    pub fn ledger_changed(&self) {
        if self.lock().is_reached() {
            self.closed.cancel();
        }
        self.tell_ledger();
    }

    /// A copy of the ledger as it stands: totals and receipt.
    pub fn ledger(&self) -> Ledger {
        self.lock().clone()
    }

    /// Number of a tool call in this execution's story, counted from 1.
    pub fn next_call(&self) -> u64 {
        self.calls.fetch_add(1, Ordering::SeqCst) + 1
    }
    /// Takes a place, in the order of asking. The engine does this for every agent and tool call; hosts need it only in their tests.
    pub async fn seat(&self) -> Seat {
        self.seats.take(Arc::new(|_| {})).await
    }
    pub(crate) fn next_agent(&self) -> u64 {
        self.agents.fetch_add(1, Ordering::SeqCst) + 1
    }
    pub(crate) fn next_wave(&self) -> u64 {
        self.waves.fetch_add(1, Ordering::SeqCst) + 1
    }
    pub(crate) fn closed(&self) -> &CancellationToken {
        &self.closed
    }

    fn tell_ledger(&self) {
        let (spent, held, ceiling) = {
            let ledger = self.lock();
            (ledger.spent(), ledger.held(), ledger.ceiling())
        };
        self.host.event(FleetWhat::Ledger { spent, held, ceiling, cost: None });
    }

    fn lock(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
