//! What one execution and every Graph it calls share: ledger, places, clock, counters and the stop.
use std::{
    collections::{HashMap, HashSet},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use domain::{
    CancelReason, ExecutionId, FailReason,
    completion::Used,
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
    overrun: CancellationToken,
    waves: Mutex<HashMap<u64, CancellationToken>>,
    is_waiting: AtomicBool,
    /// Time a dry run did not wait for.
    skipped_ms: AtomicU64,
    agents: AtomicU64,
    calls: AtomicU64,
    tally: Mutex<Tally>,
    warned: Mutex<HashSet<&'static str>>,
}

/// What has ended so far.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Tally {
    pub(crate) agents_done: u64,
    pub(crate) agents_failed: u64,
}

impl Fleet {
    /// `settings` must already be narrowed by the Graph's own limits: [`Settings::narrowed`].
    pub fn new(run_id: ExecutionId, settings: Settings, host: Arc<dyn FleetHost>) -> Arc<Self> {
        let watch = Stopwatch::start();
        Arc::new_cyclic(|fleet: &Weak<Self>| {
            let fleet = Weak::clone(fleet);
            let on_change = Box::new(move |busy, away| {
                if let Some(fleet) = fleet.upgrade() {
                    fleet.tell_waiting(busy, away);
                }
            });
            Self {
                run_id,
                ledger: Arc::new(Mutex::new(Ledger::new(settings.token_ceiling).with_money_ceiling(settings.cost_ceiling))),
                stop: CancellationToken::new(),
                stopped: Mutex::new(None),
                closed: CancellationToken::new(),
                overrun: CancellationToken::new(),
                seats: Seats::new(settings.max_concurrency, Arc::clone(&watch), on_change),
                watch,
                settings,
                host,
                waves: Mutex::default(),
                is_waiting: AtomicBool::new(false),
                skipped_ms: AtomicU64::new(0),
                agents: AtomicU64::new(0),
                calls: AtomicU64::new(0),
                tally: Mutex::default(),
                warned: Mutex::default(),
            }
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
        let reserved = self.lock().reserve_priced(label, need.input, need.max_output, need.cost);
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
        self.lock().settle_priced(reservation, usage, cost);
        self.ledger_changed();
    }

    /// The ledger itself, for a host whose agents reserve and settle in it directly. It says so with [`Fleet::ledger_changed`].
    pub fn shared_ledger(&self) -> Arc<Mutex<Ledger>> {
        Arc::clone(&self.ledger)
    }
    /// The shared ledger was used: tells the story, and refuses whoever waits once the ceiling is reached.
    pub fn ledger_changed(&self) {
        let (is_reached, is_overrun) = {
            let ledger = self.lock();
            (ledger.is_reached(), ledger.is_overrun())
        };
        if is_reached {
            self.closed.cancel();
        }
        if is_overrun {
            self.overrun.cancel();
        }
        self.tell_ledger();
    }

    /// A copy of the ledger as it stands: totals and receipt.
    pub fn ledger(&self) -> Ledger {
        self.lock().clone()
    }

    /// Ceiling, spent, free.
    pub(crate) fn ledger_totals(&self) -> (u64, u64, u64) {
        let ledger = self.lock();
        (ledger.ceiling(), ledger.spent(), ledger.free())
    }

    /// Number of a tool call in this execution's story, counted from 1.
    pub fn next_call(&self) -> u64 {
        self.calls.fetch_add(1, Ordering::SeqCst) + 1
    }
    /// Takes a place, in the order of asking. The engine does this for every agent and tool call; hosts need it only in their tests.
    pub async fn seat(&self) -> Seat {
        self.seats.take().await
    }
    pub(crate) fn next_agent(&self) -> u64 {
        self.agents.fetch_add(1, Ordering::SeqCst) + 1
    }
    /// A wave inside another stops with it.
    pub(crate) fn open_wave(&self, inside: Option<u64>) -> u64 {
        let mut waves = self.waves.lock().unwrap_or_else(PoisonError::into_inner);
        let token = inside.and_then(|wave| waves.get(&wave)).map_or_else(CancellationToken::new, CancellationToken::child_token);
        let wave = waves.len() as u64 + 1;
        waves.insert(wave, token);
        wave
    }
    /// Cancelled once nothing of this wave may start any more.
    pub(crate) fn wave(&self, wave: Option<u64>) -> CancellationToken {
        let waves = self.waves.lock().unwrap_or_else(PoisonError::into_inner);
        wave.and_then(|wave| waves.get(&wave)).cloned().unwrap_or_default()
    }
    /// Each of our own warnings is told once.
    pub(crate) fn is_first_warning(&self, what: &'static str) -> bool {
        self.warned.lock().unwrap_or_else(PoisonError::into_inner).insert(what)
    }
    pub(crate) fn skip(&self, wait: Duration) {
        self.skipped_ms.fetch_add(u64::try_from(wait.as_millis()).unwrap_or(u64::MAX), Ordering::SeqCst);
    }
    pub(crate) fn skipped(&self) -> Duration {
        Duration::from_millis(self.skipped_ms.load(Ordering::SeqCst))
    }
    pub(crate) fn overrun(&self) -> &CancellationToken {
        &self.overrun
    }

    pub(crate) fn count_agent(&self, is_done: bool) {
        let mut tally = self.tally.lock().unwrap_or_else(PoisonError::into_inner);
        if is_done {
            tally.agents_done += 1;
        } else {
            tally.agents_failed += 1;
        }
    }
    pub(crate) fn tally(&self) -> Tally {
        *self.tally.lock().unwrap_or_else(PoisonError::into_inner)
    }
    /// What was used so far. A call that was dropped keeps its reservation: it may have been paid for, and nobody knows how dearly.
    pub(crate) fn used(&self) -> Used {
        let ledger = self.lock();
        Used { total_tokens: ledger.spent().saturating_add(ledger.held()), cost: ledger.cost().filter(|_| ledger.held() == 0) }
    }

    /// Everything that could run waits for the owner, or no longer does.
    fn tell_waiting(&self, busy: usize, away: usize) {
        let is_waiting = busy == 0 && away > 0;
        if self.is_waiting.swap(is_waiting, Ordering::SeqCst) != is_waiting {
            self.host.event(if is_waiting { FleetWhat::FleetWaiting { approvals: away as u64 } } else { FleetWhat::FleetResumed {} });
        }
    }

    pub(crate) fn closed(&self) -> &CancellationToken {
        &self.closed
    }

    fn tell_ledger(&self) {
        let (spent, held, ceiling, cost) = {
            let ledger = self.lock();
            (ledger.spent(), ledger.held(), ledger.ceiling(), ledger.cost())
        };
        self.host.event(FleetWhat::Ledger { spent, held, ceiling, cost });
    }

    fn lock(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
