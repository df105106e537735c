//! A model's lane: how many calls it takes at once, and the pause that all models of its provider keep after one said "too many".
use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::Instant,
};

pub struct Lane {
    concurrency: usize,
    places: Arc<Semaphore>,
    paused_until: Arc<Mutex<Option<Instant>>>,
}

impl Lane {
    pub fn new(concurrency: usize) -> Arc<Self> {
        Self::with(concurrency, Arc::default())
    }

    /// For another model of the same provider: as many places, its own, and the same pauses.
    pub fn of_another_model(&self) -> Arc<Self> {
        Self::with(self.concurrency, Arc::clone(&self.paused_until))
    }

    fn with(concurrency: usize, paused_until: Arc<Mutex<Option<Instant>>>) -> Arc<Self> {
        Arc::new(Self { concurrency, places: Arc::new(Semaphore::new(concurrency.max(1))), paused_until })
    }

    /// Waits out a pause, then for a place. The place is free again when the guard is dropped.
    pub async fn enter(&self) -> Option<OwnedSemaphorePermit> {
        loop {
            let place = Arc::clone(&self.places).acquire_owned().await.ok()?; // never closed
            let Some(until) = self.pause() else { return Some(place) };
            drop(place);
            tokio::time::sleep_until(until).await;
        }
    }

    /// Nobody enters for this long. A longer pause stands.
    pub fn pause_for(&self, wait: Duration) {
        let until = Instant::now() + wait;
        let mut paused = self.paused_until.lock().unwrap_or_else(PoisonError::into_inner);
        *paused = Some(paused.map_or(until, |before| before.max(until)));
    }

    fn pause(&self) -> Option<Instant> {
        self.paused_until.lock().unwrap_or_else(PoisonError::into_inner).filter(|until| *until > Instant::now())
    }
}
