//! Places under `max_concurrency`, and the clocks that stand still while the owner is asked.
//!
//! Fair (first come, first served) and exact: never more than the limit at work. Who waits for the owner gives the place back.
use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicUsize, Ordering},
};
use std::time::Duration;

use tokio::{
    sync::{Notify, OwnedSemaphorePermit, Semaphore},
    time::Instant,
};

/// Counts the time that is not spent waiting for the owner. Driven by tokio's clock.
#[derive(Debug)]
pub(crate) struct Stopwatch {
    state: Mutex<Pauses>,
    changed: Notify,
}

#[derive(Debug)]
struct Pauses {
    started: Instant,
    open: usize,
    since: Instant,
    paused: Duration,
}

impl Stopwatch {
    pub(crate) fn start() -> Arc<Self> {
        let now = Instant::now();
        Arc::new(Self { state: Mutex::new(Pauses { started: now, open: 0, since: now, paused: Duration::ZERO }), changed: Notify::new() })
    }

    /// Time run so far, pauses not counted.
    pub(crate) fn elapsed(&self) -> Duration {
        let s = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let end = if s.open > 0 { s.since } else { Instant::now() };
        end.duration_since(s.started).saturating_sub(s.paused)
    }

    /// Stands still until the guard is dropped. Pauses may overlap.
    pub(crate) fn pause(self: &Arc<Self>) -> Pause {
        let mut s = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if s.open == 0 {
            s.since = Instant::now();
        }
        s.open += 1;
        Pause(Arc::clone(self))
    }

    fn is_paused(&self) -> bool {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).open > 0
    }

    /// Resolves when the watch has run for `budget`.
    pub(crate) async fn ran(&self, budget: Duration) {
        loop {
            let changed = self.changed.notified();
            if self.is_paused() {
                changed.await;
                continue;
            }
            let left = budget.saturating_sub(self.elapsed());
            if left.is_zero() {
                return;
            }
            // A pause meanwhile only makes the watch run shorter: looking again after the sleep is enough.
            tokio::time::sleep(left).await;
        }
    }
}

#[derive(Debug)]
pub(crate) struct Pause(Arc<Stopwatch>);
impl Drop for Pause {
    fn drop(&mut self) {
        let mut s = self.0.state.lock().unwrap_or_else(PoisonError::into_inner);
        s.open -= 1;
        if s.open == 0 {
            let now = Instant::now();
            let pause = now.duration_since(s.since);
            s.paused += pause;
        }
        drop(s);
        self.0.changed.notify_waiters();
    }
}

/// Told after each change: calls at work, calls that wait for the owner.
pub(crate) type OnChange = Box<dyn Fn(usize, usize) + Send + Sync>;

/// The places of one execution, shared with every Graph it calls.
pub(crate) struct Seats {
    free: Arc<Semaphore>,
    limit: usize,
    /// Calls that wait for the owner.
    away: AtomicUsize,
    fleet_watch: Arc<Stopwatch>,
    on_change: OnChange,
}

impl Seats {
    pub(crate) fn new(limit: usize, fleet_watch: Arc<Stopwatch>, on_change: OnChange) -> Arc<Self> {
        Arc::new(Self { free: Arc::new(Semaphore::new(limit)), limit, away: AtomicUsize::new(0), fleet_watch, on_change })
    }

    /// Waits for a place, in the order of asking.
    pub(crate) async fn take(self: &Arc<Self>) -> Seat {
        let permit = self.permit().await;
        Seat { seats: Arc::clone(self), permit, watch: Stopwatch::start() }
    }

    /// The clock stands still while the owner is asked without a place (by the script itself).
    pub(crate) async fn away_while<F: Future>(self: &Arc<Self>, wait: F) -> F::Output {
        let _pause = self.fleet_watch.pause();
        let _away = Away::new(self);
        wait.await
    }

    async fn permit(self: &Arc<Self>) -> Option<OwnedSemaphorePermit> {
        // The semaphore is never closed; a `None` permit would only mean one seat too many, never one too few.
        let permit = Arc::clone(&self.free).acquire_owned().await.ok();
        self.changed();
        permit
    }

    fn changed(&self) {
        let busy = self.limit.saturating_sub(self.free.available_permits());
        (self.on_change)(busy, self.away.load(Ordering::SeqCst));
    }
}

/// One place under `max_concurrency`. Dropping it frees the place.
pub struct Seat {
    seats: Arc<Seats>,
    permit: Option<OwnedSemaphorePermit>,
    watch: Arc<Stopwatch>,
}

impl Seat {
    /// Waits for the owner: gives the place back, lets the clocks of this call and of the execution stand still, and takes a place
    /// again (behind those who already wait) before it returns.
    pub async fn leave_while<F: Future>(&mut self, wait: F) -> F::Output {
        let answer = {
            let _pause = self.watch.pause();
            self.permit = None;
            self.seats.away_while(wait).await
        };
        self.permit = self.seats.permit().await;
        answer
    }

    pub(crate) fn watch(&self) -> Arc<Stopwatch> {
        Arc::clone(&self.watch)
    }
}

struct Away<'a>(&'a Arc<Seats>);
impl<'a> Away<'a> {
    fn new(seats: &'a Arc<Seats>) -> Self {
        seats.away.fetch_add(1, Ordering::SeqCst);
        seats.changed();
        Self(seats)
    }
}
impl Drop for Away<'_> {
    fn drop(&mut self) {
        self.0.away.fetch_sub(1, Ordering::SeqCst);
        self.0.changed();
    }
}
