//! How often somebody may ask, and how often somebody may guess.
use std::{
    collections::BTreeMap,
    hash::{BuildHasher as _, RandomState},
    net::IpAddr,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

/// Buckets kept at most; full ones are forgotten first.
const BUCKETS_MAX: usize = 50_000;
/// Wrong codes one address may send within [`GUESS_WINDOW`].
const WRONG_PER_ADDRESS_MAX: usize = 10;
const GUESS_WINDOW: Duration = Duration::from_secs(600);
/// Wrong codes from everybody together, within [`GUESS_WINDOW`], from which on every guess waits.
const WRONG_OVERALL: usize = 50;
const WAIT_OVERALL: Duration = Duration::from_secs(1);

struct Bucket {
    tokens: f64,
    at: Instant,
}

/// A token bucket per caller: `rate` requests a second, twice as many at once.
pub struct Limiter {
    rate: f64,
    hash: RandomState,
    buckets: Mutex<BTreeMap<u64, Bucket>>,
}

impl Limiter {
    pub fn new(per_second: u32) -> Self {
        Self { rate: f64::from(per_second.max(1)), hash: RandomState::new(), buckets: Mutex::default() }
    }

    /// Takes one; else how many whole seconds to wait.
    pub fn take(&self, caller: &str) -> Result<(), u64> {
        let (now, most) = (Instant::now(), self.rate * 2.0);
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        if buckets.len() >= BUCKETS_MAX {
            let rate = self.rate;
            buckets.retain(|_, b| b.tokens + now.duration_since(b.at).as_secs_f64() * rate < most);
        }
        let bucket = buckets.entry(self.hash.hash_one(caller)).or_insert(Bucket { tokens: most, at: now });
        bucket.tokens = (bucket.tokens + now.duration_since(bucket.at).as_secs_f64() * self.rate).min(most);
        bucket.at = now;
        if bucket.tokens < 1.0 {
            return Err(((1.0 - bucket.tokens) / self.rate).ceil().max(1.0) as u64);
        }
        bucket.tokens -= 1.0;
        Ok(())
    }
}

/// Wrong one-time codes. An address is stopped; all together only slow down, so that no stranger can lock everybody out.
#[derive(Default)]
pub struct Guesses(Mutex<Vec<(Instant, Option<IpAddr>)>>);

impl Guesses {
    /// Before a code is looked at. `Err`: seconds to wait.
    pub async fn admit(&self, from: Option<IpAddr>) -> Result<(), u64> {
        let slow = {
            let mut wrong = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let now = Instant::now();
            wrong.retain(|(at, _)| now.duration_since(*at) < GUESS_WINDOW);
            if from.is_some() && wrong.iter().filter(|(_, address)| *address == from).count() >= WRONG_PER_ADDRESS_MAX {
                return Err(GUESS_WINDOW.as_secs());
            }
            wrong.len() >= WRONG_OVERALL
        };
        if slow {
            tokio::time::sleep(WAIT_OVERALL).await;
        }
        Ok(())
    }

    pub fn wrong(&self, from: Option<IpAddr>, what: &'static str) {
        tracing::warn!(address = ?from, what, "a wrong one-time code");
        let mut wrong = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if wrong.len() < 10_000 {
            wrong.push((Instant::now(), from));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_caller_over_the_rate_waits_and_others_do_not() {
        let limiter = Limiter::new(10);
        assert!((0..20).all(|_| limiter.take("a").is_ok()));
        assert_eq!(limiter.take("a"), Err(1));
        assert_eq!(limiter.take("b"), Ok(()));
        tokio::time::advance(Duration::from_millis(100)).await;
        assert_eq!((limiter.take("a"), limiter.take("a")), (Ok(()), Err(1)));
    }

    #[tokio::test(start_paused = true)]
    async fn one_address_is_stopped_and_all_together_only_slow_down() {
        let guesses = Guesses::default();
        let one: Option<IpAddr> = Some([10, 0, 0, 1].into());
        for _ in 0..WRONG_PER_ADDRESS_MAX {
            guesses.admit(one).await.unwrap();
            guesses.wrong(one, "pairing");
        }
        assert_eq!(guesses.admit(one).await, Err(600));
        for n in 0..WRONG_OVERALL as u8 {
            guesses.wrong(Some([10, 0, 1, n].into()), "pairing");
        }
        let begin = Instant::now();
        guesses.admit(Some([10, 0, 2, 2].into())).await.unwrap();
        assert_eq!(begin.elapsed().as_secs(), WAIT_OVERALL.as_secs());
        tokio::time::advance(GUESS_WINDOW).await;
        assert_eq!(guesses.admit(one).await, Ok(()));
    }
}
