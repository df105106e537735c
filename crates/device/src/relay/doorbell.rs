//! The doorbell: one held request whose ring starts the next pass early.
//!
//! It carries no work and no state; losing it costs nothing but the old wait of 20 s. This file decides when it is held again: after
//! the pass it started, at once after a full hold, later after a cut, rarely where the server does not know it. It never spins.
use std::time::Duration;

use domain::{
    limits::{DOORBELL_HOLD_MS_MAX, PASS_EVERY_MS},
    wire::relay::DoorbellAnswer,
};
use tokio::time::Instant;

use super::AskError;
use crate::ports::Random;

/// A server that does not know the doorbell is asked again this rarely: it may have been updated.
const UNKNOWN_WAIT: Duration = Duration::from_secs(300);
/// An answer that came sooner than this was not held.
const HELD_AT_LEAST: Duration = Duration::from_secs(5);
/// Shortest time between two openings after an answer that was neither a ring nor held.
const PACE: Duration = Duration::from_secs(1);
/// After a ring it is held again when the pass has ended, or after this time: a short Graph is not to share the computer with it.
const PASS_FIRST: Duration = Duration::from_millis(100);

#[derive(Debug)]
pub(super) struct Doorbell {
    /// Rings only for commands numbered above it.
    pub after: u64,
    /// Held again from then on.
    pub next: Instant,
    /// It rang, and lets the pass it started go first.
    pub yields: bool,
    /// Cuts in a row that came too soon.
    cuts: u32,
}

impl Doorbell {
    pub fn new(now: Instant) -> Self {
        Self { after: 0, next: now, yields: false, cuts: 0 }
    }

    /// Another server, or sharing changed: it may be held again at once. `after` stays: it is a number of the server's.
    pub fn reset(&mut self, now: Instant) {
        (self.next, self.yields, self.cuts) = (now, false, 0);
    }

    /// Whoever let it go first may be held now.
    pub fn pass_ended(&mut self, now: Instant) {
        if self.yields {
            self.next = now;
        }
    }

    /// True if it rang.
    pub fn settle(&mut self, opened: Instant, answer: &Result<DoorbellAnswer, AskError>, now: Instant, random: &dyn Random) -> bool {
        let held = now - opened;
        match answer {
            Ok(DoorbellAnswer { rang: true, seq }) if *seq > self.after => {
                (self.after, self.next, self.yields, self.cuts) = (*seq, now + PASS_FIRST, true, 0);
                return true;
            }
            // A quiet server that counts lower than we remember was restored: count with it, or it would never ring.
            Ok(DoorbellAnswer { rang: false, seq }) => {
                self.after = self.after.min(*seq);
                self.cuts = 0;
                self.next = if held >= HELD_AT_LEAST { now } else { opened + PACE };
            }
            Err(AskError::NotOurs { status: 404 | 405 | 501 } | AskError::Refused { status: 404 | 405 | 501, .. }) => self.next = now + UNKNOWN_WAIT,
            Err(AskError::TooMany { retry_after_ms: Some(ms), .. }) => self.next = now + Duration::from_millis((*ms).min(3_600_000)),
            // A ring for what rang already, or no answer.
            Ok(DoorbellAnswer { rang: true, .. }) | Err(_) => {
                self.cuts = if held >= HELD_AT_LEAST { 0 } else { (self.cuts + 1).min(6) };
                let wait_ms = (500u64 << self.cuts).min(PASS_EVERY_MS * 4 / 5);
                // Spread out: a server that comes back is asked by all its devices.
                self.next = now + Duration::from_millis(wait_ms + random.below(wait_ms / 4 + 1));
            }
        }
        false
    }

    pub const fn hold_ms() -> u64 {
        DOORBELL_HOLD_MS_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ports::TransportError;

    struct Zero;
    impl Random for Zero {
        fn bytes16(&self) -> [u8; 16] {
            [0; 16]
        }
    }

    fn after_answer(bell: &mut Doorbell, held_ms: u64, answer: Result<DoorbellAnswer, AskError>) -> (bool, u128) {
        let opened = bell.next;
        let now = opened + Duration::from_millis(held_ms);
        let rang = bell.settle(opened, &answer, now, &Zero);
        (rang, (bell.next - opened).as_millis())
    }

    #[test]
    fn a_doorbell_is_held_again_soon_after_a_ring_and_never_spins() {
        let mut bell = Doorbell::new(Instant::now());
        let cut = || Err(AskError::Unreachable(TransportError::Unreachable("cut".into())));
        let ring = |seq| Ok(DoorbellAnswer { rang: true, seq });
        let quiet = |seq| Ok(DoorbellAnswer { rang: false, seq });
        assert_eq!(after_answer(&mut bell, 10, ring(5)), (true, 110), "the pass goes first");
        let ended = bell.next - Duration::from_millis(95);
        bell.pass_ended(ended);
        assert_eq!(bell.next, ended, "and no longer than it takes");
        bell.reset(ended);
        bell.pass_ended(ended + PACE);
        assert_eq!(bell.next, ended, "a pass that nothing rang for changes nothing");
        assert_eq!(after_answer(&mut bell, 0, ring(5)), (false, 1000), "a repeated ring is none");
        assert_eq!(after_answer(&mut bell, 25_000, quiet(5)), (false, 25_000));
        assert_eq!(after_answer(&mut bell, 0, quiet(5)), (false, 1000), "a server that does not hold is not hammered");
        assert_eq!(after_answer(&mut bell, 12_000, cut()), (false, 12_500), "a proxy that cuts after a while is lived with");
        let waits: Vec<u128> = (0..7).map(|_| after_answer(&mut bell, 0, cut()).1).collect();
        assert_eq!(waits, [1000, 2000, 4000, 8000, 16_000, 16_000, 16_000]);
        assert_eq!(after_answer(&mut bell, 0, Err(AskError::NotOurs { status: 404 })), (false, 300_000));
        assert!(!after_answer(&mut bell, 25_000, quiet(2)).0);
        assert_eq!(bell.after, 2, "a restored server counts lower");
    }
}
