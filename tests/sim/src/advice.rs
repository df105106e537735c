//! Which polling to advise: whole families of strategies over the ends that the simulation measured, judged by one objective.
//!
//! The objective: what a client pays is its calls times the price of a call, plus the delay until it knows; a price is told in seconds
//! of delay. `docs/polling.md` is written from here.
use crate::{findings::Polled, strategy::Strategy};

/// A call costs an agent as much as this much delay.
pub const CALL_COSTS_S: f64 = 30.0;

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Point {
    pub strategy: Strategy,
    /// Means over all runs.
    pub calls: f64,
    pub delay_s: f64,
}

impl Point {
    pub fn of(strategy: Strategy, ends_s: &[f64]) -> Self {
        let n = ends_s.len().max(1) as f64;
        let (calls, delay) = ends_s.iter().map(|end| strategy.outcome(*end)).fold((0, 0.0), |(c, d), (calls, delay)| (c + calls, d + delay));
        Self { strategy, calls: calls as f64 / n, delay_s: delay / n }
    }
    pub fn cost_s(&self, call_costs_s: f64) -> f64 {
        self.calls * call_costs_s + self.delay_s
    }
}

#[derive(Debug, Clone, Default)]
pub struct Family {
    pub name: &'static str,
    pub points: Vec<Point>,
}

/// The fixed, the backed-off and the waiting family, each along its lower edge.
#[derive(Debug, Clone, Default)]
pub struct Advice {
    pub families: [Family; 3],
}

/// Seconds between calls that are looked over.
const PACES: [u64; 15] = [1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 25, 30, 45, 60];
const WAITS: [u64; 10] = [5, 10, 15, 20, 25, 30, 40, 50, 60, 90];

impl Advice {
    pub fn of(polled: &Polled) -> Self {
        let ends_s: Vec<f64> = polled.end_ms.iter().map(|ms| *ms as f64 / 1000.0).collect();
        let along = |strategies: Vec<Strategy>| strategies.into_iter().map(|s| Point::of(s, &ends_s)).collect::<Vec<_>>();
        let fixed = along(PACES.into_iter().map(|seconds| Strategy::Every { seconds }).collect());
        let backed = along(PACES.into_iter().filter(|cap| *cap >= 4).map(|cap| Strategy::BackOff { first: 2, cap }).collect());
        let waited = along(PACES.into_iter().map(|every| Strategy::WaitThen { wait: 20, every }).collect());
        Self {
            families: [
                Family { name: "fixed pace", points: fixed },
                Family { name: "backed off", points: backed },
                Family { name: "wait 20 s, then a fixed pace", points: waited },
            ],
        }
    }
}

/// The cheapest way of waiting once and then polling at a fixed pace, for runs that end so.
pub fn cheapest(ends_s: &[f64], call_costs_s: f64) -> Option<Point> {
    let all = WAITS.into_iter().flat_map(|wait| PACES.into_iter().map(move |every| Strategy::WaitThen { wait, every }));
    all.map(|s| Point::of(s, ends_s)).min_by(|a, b| a.cost_s(call_costs_s).total_cmp(&b.cost_s(call_costs_s)))
}
