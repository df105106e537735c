//! Which polling to advise: whole families of strategies over the ends that the simulation measured, judged by one objective.
//!
//! The objective: what a client pays is its calls times the price of a call, plus the delay until it knows; a price is told in seconds
//! of delay. `docs/polling.md` is written from here.
use std::fmt::Write as _;

use crate::{findings::Polled, stats::number, strategy::Strategy};

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

/// The fixed, the backed-off and the waiting family.
#[derive(Debug, Clone, Default)]
pub struct Advice {
    pub families: [Family; 3],
    /// The cheapest way of waiting once and then polling at a fixed pace, by the objective.
    pub cheapest: Option<Point>,
    /// Prices of a call (in seconds of delay) for which the pace of 10 s is the cheapest after a wait of 20 s.
    pub price_of_table_s: Option<(f64, f64)>,
    /// The client that holds its question, as it was played.
    pub held: Option<Point>,
}

/// What `poll_after_seconds` says in protocol.md: while queued (every 20 s desktops), while running.
pub const TABLE: Strategy = Strategy::WaitThen { wait: 20, every: 10 };

/// Seconds between calls that are looked over.
const PACES: [u64; 17] = [1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 25, 30, 45, 60, 80, 100];
const WAITS: [u64; 12] = [5, 10, 15, 20, 25, 30, 40, 50, 60, 80, 100, 120];

impl Advice {
    pub fn of(polled: &Polled) -> Self {
        let ends_s: Vec<f64> = polled.end_ms.iter().map(|ms| *ms as f64 / 1000.0).collect();
        let along = |strategies: Vec<Strategy>| strategies.into_iter().map(|s| Point::of(s, &ends_s)).collect::<Vec<_>>();
        let fixed = along(PACES.into_iter().map(|seconds| Strategy::Every { seconds }).collect());
        let backed = along(PACES.into_iter().filter(|cap| *cap >= 4).map(|cap| Strategy::BackOff { first: 2, cap }).collect());
        let waited = along(PACES.into_iter().map(|every| Strategy::WaitThen { wait: 20, every }).collect());
        let held = polled.watched.iter().find(|w| w.strategy.hold_s() > 0 && !w.calls.is_empty()).map(|w| {
            let n = w.calls.len() as f64;
            let (calls, delay_ms) = (w.calls.iter().sum::<u64>() as f64, w.delay_ms.iter().sum::<u64>() as f64);
            Point { strategy: w.strategy, calls: calls / n, delay_s: delay_ms / 1000.0 / n }
        });
        Self {
            price_of_table_s: price_of(&waited, TABLE),
            families: [
                Family { name: "fixed pace", points: fixed },
                Family { name: "backed off", points: backed },
                Family { name: "wait 20 s, then a fixed pace", points: waited },
            ],
            cheapest: cheapest(&ends_s, CALL_COSTS_S),
            held,
        }
    }

    /// `docs/polling.md`.
    pub fn document(&self) -> String {
        let mut out = String::new();
        let mut put = |text: &str| {
            let _ = writeln!(out, "{text}"); // writing to a String cannot fail
        };
        let line = |p: &Point| {
            let cost = number(p.cost_s(CALL_COSTS_S), 0);
            format!("| {} | {} | {} s | {cost} s |", p.strategy, number(p.calls, 1), number(p.delay_s, 1))
        };
        put("# How often to ask\n");
        put("Written by `graph-sim` (`UPDATE=1` in its test); a test compares. The runs are those of the published table: 20 s poll, median 60 s.");
        put("\n![Calls a run against the delay until the client knows, for each strategy](pictures/polling.svg)\n");
        put(&format!("One objective: a call costs an agent as much as {} s of delay. Cheapest of each family:\n", number(CALL_COSTS_S, 0)));
        put("| strategy | calls a run | delay | cost |\n|---|---|---|---|");
        let by_cost = |a: &&Point, b: &&Point| a.cost_s(CALL_COSTS_S).total_cmp(&b.cost_s(CALL_COSTS_S));
        for family in &self.families[..2] {
            if let Some(best) = family.points.iter().min_by(by_cost) {
                put(&line(best));
            }
        }
        if let Some(best) = &self.cheapest {
            put(&line(best));
        }
        if let Some(table) = self.families[2].points.iter().find(|p| p.strategy == TABLE) {
            put(&line(table));
        }
        if let Some(held) = &self.held {
            put(&line(held));
        }
        put("\n1. At the same delay a fixed pace takes fewer calls than backing off: when a run of a minute ends, a backed-off client has spent its");
        put("   short pauses on questions that could not be answered yet.");
        put("2. Nothing ends before it has been picked up: the first question is worth asking after about one pickup interval.");
        put("3. A held question (`wait_seconds`) is answered when something changes. It is the advice wherever the client's patience allows it.\n");
        if let Some((low, high)) = self.price_of_table_s {
            put(&format!(
                "`poll_after_seconds` says 20 while queued and 10 while running. After a wait of 20 s the pace of 10 s is the cheapest for whoever\nprices a call between {} s and {} s of delay: it is made for a person who waits, not for an agent that pays for each call.",
                number(low, 2),
                number(high, 2)
            ));
        }
        out
    }
}

/// The prices for which `of` is the cheapest of its family.
fn price_of(family: &[Point], of: Strategy) -> Option<(f64, f64)> {
    let it = family.iter().find(|p| p.strategy == of)?;
    let (mut low, mut high) = (0.0, f64::INFINITY);
    for other in family.iter().filter(|p| p.strategy != of) {
        // calls·price + delay of both are equal at this price.
        let price = (other.delay_s - it.delay_s) / (it.calls - other.calls);
        if other.calls < it.calls {
            high = f64::min(high, price);
        } else if other.calls > it.calls {
            low = f64::max(low, price);
        }
    }
    (low < high).then_some((low, high))
}

/// The cheapest way of waiting once and then polling at a fixed pace, for runs that end so.
fn cheapest(ends_s: &[f64], call_costs_s: f64) -> Option<Point> {
    let all = WAITS.into_iter().flat_map(|wait| PACES.into_iter().map(move |every| Strategy::WaitThen { wait, every }));
    all.map(|s| Point::of(s, ends_s)).min_by(|a, b| a.cost_s(call_costs_s).total_cmp(&b.cost_s(call_costs_s)))
}
