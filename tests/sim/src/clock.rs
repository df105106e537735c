//! Simulated wall clocks, all driven by tokio's paused clock.
//!
//! A task that sleeps costs no real time: the runtime jumps to the next timer when nothing else is left to do.
use std::{
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use domain::Timestamp;
use tokio::time::Instant;

/// Every world begins here: 2026-11-29T12:00:00Z. No figure depends on it.
pub const EPOCH: Timestamp = Timestamp::from_ms(1_795_953_600_000);

/// One machine's clock: the world's time and this machine's error.
#[derive(Clone)]
pub struct SimClock {
    began: Instant,
    skew_ms: Arc<AtomicI64>,
}

impl SimClock {
    /// The true time of a world that begins now. Call it inside the runtime of that world.
    pub fn new() -> Self {
        Self { began: Instant::now(), skew_ms: Arc::default() }
    }

    /// A clock of another machine: the same time, an error of its own.
    pub fn of_another_machine(&self) -> Self {
        Self { began: self.began, skew_ms: Arc::default() }
    }

    pub fn now(&self) -> Timestamp {
        EPOCH.plus_ms(self.elapsed_ms() as i64 + self.skew_ms.load(Ordering::Relaxed))
    }

    /// True time since the world began.
    pub fn elapsed_ms(&self) -> u64 {
        self.began.elapsed().as_millis() as u64
    }

    pub fn set_skew_ms(&self, ms: i64) {
        self.skew_ms.store(ms, Ordering::Relaxed);
    }
}

impl Default for SimClock {
    fn default() -> Self {
        Self::new()
    }
}

impl device::ports::Clock for SimClock {
    fn now(&self) -> Timestamp {
        Self::now(self)
    }
}

/// Runs one world to its end on a clock of its own. Everything in it shares one thread, so that the order of events follows from the seed.
pub fn run<T>(world: impl Future<Output = T>) -> std::io::Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build()?;
    let outcome = runtime.block_on(world);
    // Tasks that are left (held requests, relays) end here and not in the order of a drop elsewhere.
    runtime.shutdown_timeout(Duration::ZERO);
    Ok(outcome)
}

pub async fn sleep_ms(ms: u64) {
    tokio::time::sleep(Duration::from_millis(ms)).await;
}
