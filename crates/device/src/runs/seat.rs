//! Joins two views of one place under `max_concurrency`: the agent loop says "I wait for the owner" and "I am back" ([`agent::gate::Seat`]),
//! the engine wants the waiting itself ([`engine::Seat::leave_while`]).
//!
//! The work and the place are driven by one task, so a dropped call drops both.
use std::pin::pin;

use futures::future::BoxFuture;
use tokio::sync::{mpsc, oneshot};

enum Turn {
    Away,
    Back(oneshot::Sender<()>),
}

/// What the agent loop gets. Calls of one agent may overlap; the place comes back with the last of them.
pub struct SharedSeat(mpsc::UnboundedSender<Turn>);

impl agent::gate::Seat for SharedSeat {
    fn give_back(&self) {
        let _ = self.0.send(Turn::Away);
    }
    fn take_again(&self) -> BoxFuture<'_, ()> {
        let (done, wait) = oneshot::channel();
        let _ = self.0.send(Turn::Back(done));
        Box::pin(async move {
            let _ = wait.await; // an error means that the execution is ending: whoever waits is dropped with it
        })
    }
}

/// Runs `work` in the place, which stands empty while the work waits for the owner.
pub async fn work_in<T, F: Future<Output = T>>(mut seat: engine::Seat, work: impl FnOnce(std::sync::Arc<SharedSeat>) -> F) -> T {
    let (tell, mut told) = mpsc::unbounded_channel();
    let mut work = pin!(work(std::sync::Arc::new(SharedSeat(tell))));
    loop {
        tokio::select! {
            biased;
            out = &mut work => return out,
            Some(turn) = told.recv() => match turn {
                Turn::Back(done) => { let _ = done.send(()); }
                Turn::Away => {
                    let mut waiters = Vec::new();
                    let ended = seat
                        .leave_while(async {
                            let mut away = 1usize;
                            while away > 0 {
                                tokio::select! {
                                    biased;
                                    out = &mut work => return Some(out),
                                    Some(turn) = told.recv() => match turn {
                                        Turn::Away => away += 1,
                                        Turn::Back(done) => { away -= 1; waiters.push(done); }
                                    },
                                }
                            }
                            None
                        })
                        .await;
                    if let Some(out) = ended {
                        return out;
                    }
                    for waiter in waiters {
                        let _ = waiter.send(());
                    }
                }
            },
        }
    }
}
