//! Who waits for what: doorbells, held control polls and `wait_seconds`.
//!
//! A bell carries no state. A waiter registers first, then looks at the store, then waits: a ring between the look and the wait is
//! not lost. Losing a ring otherwise costs only the rest of the hold. Nothing here outlives a restart, and nothing needs to.
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use domain::{CommandId, DeviceId};
use tokio::sync::Notify;

/// One thing that can be waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Bell {
    /// A command was queued for this device.
    Device(DeviceId),
    /// This command's state or cancel flag changed.
    Command(CommandId),
}

impl Bell {
    /// As it travels between instances.
    pub fn to_text(self) -> String {
        match self {
            Self::Device(id) => format!("d{id}"),
            Self::Command(id) => format!("c{id}"),
        }
    }
    pub fn from_text(text: &str) -> Option<Self> {
        match text.split_at_checked(1)? {
            ("d", id) => DeviceId::parse(id).ok().map(Self::Device),
            ("c", id) => CommandId::parse(id).ok().map(Self::Command),
            _ => None,
        }
    }
}

#[derive(Default)]
struct Slot {
    notify: Arc<Notify>,
    waiting: usize,
}

/// All bells of this instance. A bell nobody waits for takes no memory.
#[derive(Default)]
pub struct Bells {
    // Only looked up, never walked: its order has no effect.
    slots: Mutex<HashMap<Bell, Slot>>,
}

/// A place in the line of one bell, from registration until dropped.
pub struct Waiter {
    bells: Arc<Bells>,
    bell: Bell,
    notify: Arc<Notify>,
}

impl Bells {
    fn slots(&self) -> std::sync::MutexGuard<'_, HashMap<Bell, Slot>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers. Call [`Waiter::rung`] *before* looking at the store and await it afterwards.
    pub fn register(self: &Arc<Self>, bell: Bell) -> Waiter {
        let mut slots = self.slots();
        let slot = slots.entry(bell).or_default();
        slot.waiting += 1;
        Waiter { bells: self.clone(), bell, notify: slot.notify.clone() }
    }

    pub fn ring(&self, bell: Bell) {
        if let Some(slot) = self.slots().get(&bell) {
            slot.notify.notify_waiters();
        }
    }

    /// After a lost connection to the other instances nobody knows what rang: everybody looks again.
    pub fn ring_all(&self) {
        for slot in self.slots().values() {
            slot.notify.notify_waiters();
        }
    }

    pub fn waiting(&self) -> usize {
        self.slots().values().map(|s| s.waiting).sum()
    }
}

impl Waiter {
    /// Completes at the first ring after this call, even if it is polled later.
    pub fn rung(&self) -> tokio::sync::futures::Notified<'_> {
        self.notify.notified()
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        let mut slots = self.bells.slots();
        if let Some(slot) = slots.get_mut(&self.bell) {
            slot.waiting -= 1;
            if slot.waiting == 0 {
                slots.remove(&self.bell);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    #[tokio::test]
    async fn a_ring_between_the_look_and_the_wait_is_not_lost() {
        let bells = Arc::new(Bells::default());
        let bell = Bell::Device(DeviceId::from_random([7; 16]));
        let waiter = bells.register(bell);
        let rung = waiter.rung();
        bells.ring(bell);
        rung.await;
        assert_eq!(bells.waiting(), 1);
        drop(waiter);
        assert_eq!(bells.waiting(), 0, "nobody waits, nothing is kept");
    }

    /// As requests do it: each registers anew, looks at what is stored, and waits only if nothing is new. The next ring comes only when the
    /// last was heard, so a single lost one would end the test by its time limit.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn no_wake_up_is_lost_in_a_hundred_thousand_rings() {
        const RINGS: u64 = 100_000;
        let (bells, stored) = (Arc::new(Bells::default()), Arc::new(AtomicU64::new(0)));
        let bell = Bell::Device(DeviceId::from_random([7; 16]));
        let (heard, mut answers) = tokio::sync::mpsc::channel(1);
        let device = {
            let (bells, stored) = (bells.clone(), stored.clone());
            tokio::spawn(async move {
                let mut after = 0;
                while after < RINGS {
                    let waiter = bells.register(bell);
                    let rung = waiter.rung();
                    if stored.load(Ordering::Acquire) == after {
                        rung.await;
                    }
                    // Woken late by a ring whose news was seen already, it looks again.
                    if stored.load(Ordering::Acquire) != after {
                        after = stored.load(Ordering::Acquire);
                        heard.send(after).await.unwrap();
                    }
                }
            })
        };
        let ringing = async {
            for n in 1..=RINGS {
                stored.store(n, Ordering::Release);
                bells.ring(bell);
                assert_eq!(answers.recv().await, Some(n));
            }
        };
        tokio::time::timeout(std::time::Duration::from_secs(60), ringing).await.unwrap();
        device.await.unwrap();
    }

    #[test]
    fn a_bell_reads_back_as_it_travelled() {
        for bell in [Bell::Device(DeviceId::from_random([1; 16])), Bell::Command(CommandId::from_random([2; 16]))] {
            assert_eq!(Bell::from_text(&bell.to_text()), Some(bell));
        }
        assert_eq!(Bell::from_text("x"), None);
        assert_eq!(Bell::from_text(""), None);
    }
}
