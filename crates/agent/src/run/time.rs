//! An agent's clock. It stands still while the owner is asked and until there is a place again.
use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use futures::future::BoxFuture;
use tokio::{sync::Notify, time::Instant};

use crate::gate::Seat;

pub(crate) struct AgentClock {
    state: Mutex<State>,
    changed: Notify,
}
struct State {
    left: Duration,
    /// `None` while it stands still.
    running_since: Option<Instant>,
}

impl AgentClock {
    pub(crate) fn new(left: Duration) -> Arc<Self> {
        Arc::new(Self { state: Mutex::new(State { left, running_since: Some(Instant::now()) }), changed: Notify::new() })
    }

    /// Resolves when the time is used up.
    pub(crate) async fn expired(&self) {
        loop {
            let changed = self.changed.notified();
            match self.end() {
                None => changed.await,
                Some(end) => tokio::select! {
                    () = tokio::time::sleep_until(end) => return,
                    () = changed => {}
                },
            }
        }
    }

    fn end(&self) -> Option<Instant> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.running_since.map(|since| since + state.left)
    }

    fn pause(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(since) = state.running_since.take() {
            state.left = state.left.saturating_sub(since.elapsed());
        }
        drop(state);
        self.changed.notify_waiters();
    }

    fn go_on(&self) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).running_since.get_or_insert_with(Instant::now);
        self.changed.notify_waiters();
    }
}

/// The agent's seat, with its clock tied to it.
pub(crate) struct StandsStill {
    seat: Arc<dyn Seat>,
    clock: Arc<AgentClock>,
}
impl StandsStill {
    pub(crate) fn new(seat: Arc<dyn Seat>, clock: Arc<AgentClock>) -> Self {
        Self { seat, clock }
    }
}
impl Seat for StandsStill {
    fn give_back(&self) {
        self.clock.pause();
        self.seat.give_back();
    }
    fn take_again(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            self.seat.take_again().await;
            self.clock.go_on();
        })
    }
}
