//! The hard token ceiling of one execution, shared with every Graph it calls.
//!
//! Every model call reserves its worst case *before* it is made and settles with what it really used. A reservation that does not
//! fit is refused, and from then on everything not yet started is refused too. Invariant: `spent + held ≤ ceiling`, as long as a
//! provider keeps to the output it was allowed; an overrun is recorded and ends the execution. A money ceiling, where there is one, works
//! the same way for calls whose price is known.
use std::collections::BTreeMap;

/// The ceiling would be passed: nothing was reserved.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub enum CeilingReached {
    #[error("token ceiling reached: {spent} of {ceiling} spent, {held} held, the next call needed {needed}")]
    Tokens { ceiling: u64, spent: u64, held: u64, needed: u64 },
    #[error("money ceiling reached: {spent:.4} of {ceiling:.4} spent, {held:.4} held, the next call could cost {needed:.4}")]
    Money { ceiling: f64, spent: f64, held: f64, needed: f64 },
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
    /// What it can cost at worst; `None` where no price is known.
    pub worst_cost: Option<f64>,
    /// What it really cost; `None` while the call runs, and where its price or its usage is not known.
    pub cost: Option<f64>,
}

#[derive(Debug, Clone)]
pub struct Ledger {
    ceiling: u64,
    spent: u64,
    held: u64,
    money: Money,
    reached: bool,
    overrun: bool,
    entries: BTreeMap<u64, Entry>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Money {
    ceiling: Option<f64>,
    /// Of priced calls: the real price, or the worst one where the usage is not known.
    spent: f64,
    held: f64,
    /// Of settled calls whose real price is known.
    known: f64,
    has_unknown: bool,
}

/// Sums of prices are not exact to the last digit; this is far below the smallest price.
const ROUNDING: f64 = 1e-9;

/// What is not a price (negative, not a number) is taken as none.
fn price(cost: Option<f64>) -> Option<f64> {
    cost.filter(|cost| *cost >= 0.0 && cost.is_finite())
}

impl Ledger {
    pub const fn new(ceiling: u64) -> Self {
        let money = Money { ceiling: None, spent: 0.0, held: 0.0, known: 0.0, has_unknown: false };
        Self { ceiling, spent: 0, held: 0, money, reached: false, overrun: false, entries: BTreeMap::new() }
    }

    /// A second ceiling, in the currency of the prices. Calls without a known price do not count against it.
    #[must_use]
    pub const fn with_money_ceiling(mut self, most: Option<f64>) -> Self {
        self.money.ceiling = most;
        self
    }

    /// Holds `input + max_output` tokens, or refuses; after the first refusal refuses everything.
    pub fn reserve(&mut self, label: &str, input: u64, max_output: u64) -> Result<Reservation, CeilingReached> {
        self.reserve_priced(label, input, max_output, None)
    }

    /// The same for a call whose worst price is known.
    pub fn reserve_priced(&mut self, label: &str, input: u64, max_output: u64, cost: Option<f64>) -> Result<Reservation, CeilingReached> {
        let needed = input.saturating_add(max_output);
        let fits = self.spent.saturating_add(self.held).saturating_add(needed) <= self.ceiling;
        if self.reached || !fits {
            self.reached = true;
            return Err(CeilingReached::Tokens { ceiling: self.ceiling, spent: self.spent, held: self.held, needed });
        }
        let worst_cost = price(cost);
        if let (Some(ceiling), Some(price)) = (self.money.ceiling, worst_cost)
            && self.money.spent + self.money.held + price > ceiling
        {
            self.reached = true;
            return Err(CeilingReached::Money { ceiling, spent: self.money.spent, held: self.money.held, needed: price });
        }
        self.held += needed;
        self.money.held += worst_cost.unwrap_or(0.0);
        let entry = self.entries.len() as u64;
        self.entries.insert(entry, Entry { label: label.to_owned(), reserved: needed, settled: None, estimated: false, worst_cost, cost: None });
        Ok(Reservation { entry })
    }

    /// Replaces a reservation by what was used, where no price is known.
    pub fn settle(&mut self, reservation: Reservation, usage: Usage) {
        self.settle_priced(reservation, usage, None);
    }

    /// The same with the real price. Where that is not known the worst price counts against the money ceiling.
    pub fn settle_priced(&mut self, reservation: Reservation, usage: Usage, cost: Option<f64>) {
        let Some(entry) = self.entries.get_mut(&reservation.entry) else { return };
        let used = match usage {
            Usage::Known { input, output } => input.saturating_add(output),
            Usage::Unknown => entry.reserved,
            Usage::Nothing => 0,
        };
        entry.cost = match usage {
            Usage::Known { .. } if used > 0 => price(cost),
            Usage::Known { .. } | Usage::Nothing => Some(0.0),
            Usage::Unknown => None,
        };
        let worst = entry.worst_cost.unwrap_or(0.0);
        self.money.held = (self.money.held - worst).max(0.0);
        self.money.spent += entry.cost.unwrap_or(worst);
        self.money.known += entry.cost.unwrap_or(0.0);
        self.money.has_unknown |= entry.cost.is_none();
        entry.settled = Some(used);
        entry.estimated = usage == Usage::Unknown;
        self.held -= entry.reserved;
        self.spent = self.spent.saturating_add(used);
        if used > entry.reserved || self.money.ceiling.is_some_and(|ceiling| self.money.spent > ceiling + ROUNDING) {
            self.overrun = true;
            self.reached = true;
        }
    }

    /// What the settled calls really cost, never less: `None` as soon as one price or usage is not known.
    pub fn cost(&self) -> Option<f64> {
        (!self.money.has_unknown).then_some(self.money.known)
    }
    /// What counts against the money ceiling: for a priced call of unknown usage its worst price.
    pub const fn money_spent(&self) -> f64 {
        self.money.spent
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
    use std::cell::Cell;

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

    #[test]
    fn a_money_ceiling_counts_priced_calls_only() {
        let mut ledger = Ledger::new(1_000).with_money_ceiling(Some(1.0));
        let a = ledger.reserve_priced("a", 10, 10, Some(0.6)).unwrap();
        let free = ledger.reserve("local", 10, 10).unwrap();
        ledger.settle_priced(a, Usage::Known { input: 10, output: 1 }, Some(0.25));
        ledger.settle(free, Usage::Known { input: 10, output: 1 });
        assert!((ledger.money_spent() - 0.25).abs() < 1e-9);
        let b = ledger.reserve_priced("b", 10, 10, Some(0.7)).unwrap();
        ledger.settle(b, Usage::Unknown);
        assert!((ledger.money_spent() - 0.95).abs() < 1e-9, "the worst price stands where the real one is unknown");
        let refused = ledger.reserve_priced("c", 1, 1, Some(0.1)).unwrap_err();
        assert!(refused.to_string().starts_with("money ceiling reached: 0.9500 of 1.0000 spent"), "{refused}");
        assert!(ledger.reserve("local", 1, 1).is_err(), "from then on nothing is started");
    }

    #[test]
    fn an_unknown_price_or_usage_makes_the_cost_unknown_and_never_zero() {
        let settled = |usage, cost| {
            let mut ledger = Ledger::new(1_000);
            let r = ledger.reserve_priced("a", 10, 10, Some(0.5)).unwrap();
            ledger.settle_priced(r, usage, cost);
            ledger.cost()
        };
        let known = Usage::Known { input: 5, output: 5 };
        assert_eq!(Ledger::new(1).cost(), Some(0.0), "nothing was called, nothing was paid");
        assert_eq!(settled(known, Some(0.25)), Some(0.25));
        assert_eq!(settled(Usage::Nothing, None), Some(0.0));
        assert_eq!(settled(Usage::Known { input: 0, output: 0 }, None), Some(0.0));
        for (usage, cost) in [(known, None), (known, Some(f64::NAN)), (known, Some(-1.0)), (Usage::Unknown, None), (Usage::Unknown, Some(0.1))] {
            assert_eq!(settled(usage, cost), None, "{usage:?} {cost:?}");
        }
    }

    #[test]
    fn a_price_above_the_worst_one_is_an_overrun() {
        let mut ledger = Ledger::new(1_000).with_money_ceiling(Some(1.0));
        let r = ledger.reserve_priced("a", 10, 10, Some(0.9)).unwrap();
        ledger.settle_priced(r, Usage::Known { input: 10, output: 10 }, Some(1.5));
        assert!(ledger.is_overrun() && ledger.reserve("b", 1, 1).is_err());
    }

    /// One step of a schedule: a call begins, or one that runs ends in one of four ways.
    #[derive(Debug, Clone)]
    struct Step {
        begins: bool,
        input: u64,
        output: u64,
        /// Thousandths; `None` has no price.
        worst: Option<u32>,
        which: usize,
        end: u8,
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = (any::<bool>(), 0u64..400, 0u64..400, proptest::option::of(0u32..300), 0usize..64, 0u8..4)
            .prop_map(|(begins, input, output, worst, which, end)| Step { begins, input, output, worst, which, end });
        proptest::collection::vec(step, 0..200)
    }

    const SCHEDULES: u32 = 2_000;

    /// Random schedules of calls that start, end, fail and stay silent about their usage, with prices and without.
    /// Invariant 10.
    #[test]
    fn spent_never_exceeds_the_ceiling() {
        let (calls, refused) = (Cell::new(0u64), Cell::new(0u64));
        let count = |counter: &Cell<u64>| counter.set(counter.get() + 1);
        let config = proptest::test_runner::Config { cases: SCHEDULES, ..proptest::test_runner::Config::default() };
        let mut runner = proptest::test_runner::TestRunner::new(config);
        let result = runner.run(&(0u64..20_000, proptest::option::of(0u32..4_000), steps()), |(ceiling, money, steps)| {
            let money = money.map(|m| f64::from(m) / 1_000.0);
            let mut ledger = Ledger::new(ceiling).with_money_ceiling(money);
            let mut running = Vec::new();
            for step in steps {
                if step.begins {
                    let worst = step.worst.map(|w| f64::from(w) / 1_000.0);
                    let was_reached = ledger.is_reached();
                    match ledger.reserve_priced("x", step.input, step.output, worst) {
                        Ok(r) => {
                            prop_assert!(!was_reached, "after the first refusal everything is refused");
                            running.push((r, step.input, step.output, worst));
                        }
                        Err(_) => count(&refused),
                    }
                    count(&calls);
                } else if !running.is_empty() {
                    let (r, input, output, worst) = running.swap_remove(step.which % running.len());
                    let (usage, cost) = match step.end {
                        0 => (Usage::Known { input, output }, worst),
                        1 => (Usage::Known { input: input / 2, output: output / 3 }, worst.map(|w| w / 3.0)),
                        2 => (Usage::Unknown, None),
                        _ => (Usage::Nothing, None),
                    };
                    ledger.settle_priced(r, usage, cost);
                }
                prop_assert!(ledger.spent() + ledger.held() <= ceiling && !ledger.is_overrun());
                prop_assert!(money.is_none_or(|most| ledger.money_spent() + ledger.money.held <= most + ROUNDING));
                prop_assert!(ledger.cost().is_none_or(|cost| cost <= ledger.money_spent() + ROUNDING));
                let sum: u64 = ledger.entries().filter_map(|e| e.settled).sum();
                prop_assert_eq!(sum, ledger.spent());
            }
            Ok(())
        });
        let (calls, refused) = (calls.get(), refused.get());
        println!("{SCHEDULES} schedules, {calls} calls, {refused} of them refused");
        result.unwrap();
        assert!(refused > 0 && refused < calls, "both sides of the ceiling were seen");
    }
}
