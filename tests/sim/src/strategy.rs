//! How a client asks for the end of a run: the strategies of the published table, and holding the question open.
//!
//! Only the times between calls; the calls themselves are real ([`crate::agent`]).

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Strategy {
    /// At a fixed pace.
    Every { seconds: u64 },
    /// Twice as long each time, up to a cap.
    BackOff { first: u64, cap: u64 },
    /// Once after a wait, then at a fixed pace.
    WaitThen { wait: u64, every: u64 },
    /// Calls that the server answers when something changes, at the latest after this long.
    Hold { seconds: u64 },
}

impl Strategy {
    /// The rows of the published table, in its order.
    pub const PUBLISHED: [Self; 6] = [
        Self::Every { seconds: 2 },
        Self::Every { seconds: 5 },
        Self::Every { seconds: 15 },
        Self::Every { seconds: 30 },
        Self::BackOff { first: 2, cap: 30 },
        Self::WaitThen { wait: 20, every: 10 },
    ];

    /// Seconds to wait before call number `n` (counted from 1).
    pub fn pause_s(self, n: u64) -> u64 {
        match self {
            Self::Every { seconds } => seconds,
            Self::BackOff { first, cap } => first.saturating_mul(1u64.checked_shl(n.saturating_sub(1).min(32) as u32).unwrap_or(u64::MAX)).min(cap),
            Self::WaitThen { wait, every } => {
                if n == 1 {
                    wait
                } else {
                    every
                }
            }
            Self::Hold { .. } => 0,
        }
    }

    /// `wait_seconds` of each call.
    pub fn hold_s(self) -> u64 {
        match self {
            Self::Hold { seconds } => seconds,
            Self::Every { .. } | Self::BackOff { .. } | Self::WaitThen { .. } => 0,
        }
    }

    /// Calls made and delay of the last one, for a run that ends `end_s` after it was queued, if every call is answered at once.
    /// The table comes from real calls; this is for looking over whole families of strategies.
    pub fn outcome(self, end_s: f64) -> (u64, f64) {
        if let Self::Hold { seconds } = self {
            return ((end_s / seconds.max(1) as f64).floor() as u64 + 1, 0.0);
        }
        let (mut calls, mut at) = (0, 0u64);
        while calls == 0 || (at as f64) < end_s {
            calls += 1;
            at += self.pause_s(calls).max(1);
        }
        (calls, at as f64 - end_s)
    }
}

impl std::fmt::Display for Strategy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Every { seconds } => write!(f, "every {seconds} s"),
            Self::BackOff { first, cap } => write!(f, "backoff {first}, {}, {} … {cap} s", first * 2, first * 4),
            Self::WaitThen { wait, every } => write!(f, "wait {wait} s, then every {every} s"),
            Self::Hold { seconds } => write!(f, "wait_seconds {seconds}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backed_off_client_asks_after_2_6_14_30_60_and_90_seconds() {
        let mut at = 0;
        let times: Vec<u64> = (1..=6)
            .map(|n| {
                at += Strategy::BackOff { first: 2, cap: 30 }.pause_s(n);
                at
            })
            .collect();
        assert_eq!(times, [2, 6, 14, 30, 60, 90]);
        assert_eq!(Strategy::BackOff { first: 2, cap: 30 }.pause_s(200), 30);
    }

    #[test]
    fn the_delay_is_from_the_end_to_the_next_call() {
        assert_eq!(Strategy::Every { seconds: 5 }.outcome(12.0), (3, 3.0));
        assert_eq!(Strategy::Every { seconds: 5 }.outcome(15.0), (3, 0.0));
        assert_eq!(Strategy::WaitThen { wait: 20, every: 10 }.outcome(31.0), (3, 9.0));
        assert_eq!(Strategy::Hold { seconds: 25 }.outcome(60.0), (3, 0.0));
    }
}
