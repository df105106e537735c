//! The hard token ceiling of one execution, shared with every Graph it calls.
//!
//! Every model call reserves its worst case *before* it is made and settles with what it really used. A reservation that does not
//! fit is refused, and from then on everything not yet started is refused too. Invariant: `spent + held ≤ ceiling`, as long as a
//! provider keeps to the output it was allowed; an overrun is recorded and ends the execution.
use std::collections::BTreeMap;

/// The ceiling would be passed: nothing was reserved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("token ceiling reached: {spent} of {ceiling} spent, {held} held, the next call needed {needed}")]
pub struct CeilingReached {
    pub ceiling: u64,
    pub spent: u64,
    pub held: u64,
    pub needed: u64,
}

/// A held place in the ledger. It must be settled exactly once.
#[must_use = "a reservation that is not settled keeps its tokens"]
#[derive(Debug, PartialEq, Eq)]
pub struct Reservation {
    entry: u64,
}

/// What a model call really used.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Usage {
    /// Input (cache included) and output tokens as the provider counted them.
    Known { input: u64, output: u64 },
    /// The stream broke or the provider does not count: the reservation stands, marked estimated.
    Unknown,
    /// The call was never made (refused connection): nothing was used.
    Nothing,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// Who asked: the agent's label.
    pub label: String,
    pub reserved: u64,
    /// `None` while the call runs.
    pub settled: Option<u64>,
    pub estimated: bool,
}

#[derive(Debug, Clone)]
pub struct Ledger {
    ceiling: u64,
    spent: u64,
    held: u64,
    reached: bool,
    overrun: bool,
    entries: BTreeMap<u64, Entry>,
}

impl Ledger {
    pub const fn new(ceiling: u64) -> Self {
        Self { ceiling, spent: 0, held: 0, reached: false, overrun: false, entries: BTreeMap::new() }
    }

    /// Holds `input + max_output` tokens, or refuses; after the first refusal refuses everything.
    pub fn reserve(&mut self, label: &str, input: u64, max_output: u64) -> Result<Reservation, CeilingReached> {
        let needed = input.saturating_add(max_output);
        let fits = self.spent.saturating_add(self.held).saturating_add(needed) <= self.ceiling;
        if self.reached || !fits {
            self.reached = true;
            return Err(CeilingReached { ceiling: self.ceiling, spent: self.spent, held: self.held, needed });
        }
        self.held += needed;
        let entry = self.entries.len() as u64;
        self.entries.insert(entry, Entry { label: label.to_owned(), reserved: needed, settled: None, estimated: false });
        Ok(Reservation { entry })
    }

    /// Replaces a reservation by what was used.
    pub fn settle(&mut self, reservation: Reservation, usage: Usage) {
        let Some(entry) = self.entries.get_mut(&reservation.entry) else { return };
        let used = match usage {
            Usage::Known { input, output } => input.saturating_add(output),
            Usage::Unknown => entry.reserved,
            Usage::Nothing => 0,
        };
        entry.settled = Some(used);
        entry.estimated = usage == Usage::Unknown;
        self.held -= entry.reserved;
        self.spent = self.spent.saturating_add(used);
        if used > entry.reserved {
            self.overrun = true;
            self.reached = true;
        }
    }

    pub const fn ceiling(&self) -> u64 {
        self.ceiling
    }
    pub const fn spent(&self) -> u64 {
        self.spent
    }
    pub const fn held(&self) -> u64 {
        self.held
    }
    pub const fn free(&self) -> u64 {
        self.ceiling.saturating_sub(self.spent).saturating_sub(self.held)
    }
    /// From the first refusal on: no new call, no new wave.
    pub const fn is_reached(&self) -> bool {
        self.reached
    }
    /// A provider used more than it was allowed: the execution must end.
    pub const fn is_overrun(&self) -> bool {
        self.overrun
    }
    /// The receipt, in the order of reservation.
    pub fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.entries.values()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_eleventh_of_ten_fitting_calls_is_refused_and_so_is_everything_after() {
        let mut ledger = Ledger::new(10_000);
        let held: Vec<_> = (0..10).map(|i| ledger.reserve(&format!("a{i}"), 200, 800).unwrap()).collect();
        assert!(ledger.reserve("a10", 200, 800).is_err());
        for r in held {
            ledger.settle(r, Usage::Known { input: 100, output: 100 });
        }
        assert_eq!(ledger.spent(), 2_000);
        assert!(ledger.reserve("late", 1, 1).is_err(), "a later wave is refused whole");
    }

    #[test]
    fn an_unknown_usage_keeps_its_reservation() {
        let mut ledger = Ledger::new(100);
        let r = ledger.reserve("a", 10, 20).unwrap();
        ledger.settle(r, Usage::Unknown);
        assert_eq!((ledger.spent(), ledger.held(), ledger.free()), (30, 0, 70));
        assert!(ledger.entries().next().unwrap().estimated);
    }

    #[test]
    fn an_overrun_is_recorded_and_closes_the_ledger() {
        let mut ledger = Ledger::new(100);
        let r = ledger.reserve("a", 10, 20).unwrap();
        ledger.settle(r, Usage::Known { input: 10, output: 500 });
        assert!(ledger.is_overrun() && ledger.spent() == 510 && ledger.reserve("b", 0, 0).is_err());
    }

    proptest! {
        /// Random schedules of calls that start, end, fail and stay silent about their usage.
        #[test]
        fn spent_never_exceeds_the_ceiling(ceiling in 0u64..5_000, steps in proptest::collection::vec((0u64..400, 0u64..400, 0u8..4, any::<bool>()), 0..200)) {
            let mut ledger = Ledger::new(ceiling);
            let mut running = Vec::new();
            for (input, output, kind, start) in steps {
                if start {
                    if let Ok(r) = ledger.reserve("x", input, output) { running.push((r, input, output)); }
                } else if !running.is_empty() {
                    let (r, input, output) = running.swap_remove(usize::from(kind) % running.len());
                    ledger.settle(r, match kind { 0 => Usage::Known { input, output }, 1 => Usage::Known { input: input / 2, output: output / 3 }, 2 => Usage::Unknown, _ => Usage::Nothing });
                }
                prop_assert!(ledger.spent() + ledger.held() <= ceiling);
                let sum: u64 = ledger.entries().filter_map(|e| e.settled).sum();
                prop_assert_eq!(sum, ledger.spent());
            }
        }
    }
}
