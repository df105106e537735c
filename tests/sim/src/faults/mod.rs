//! Fault search: random interleavings of agents, owners, devices, the server and the network, and an auditor that knows the simple truth.
//!
//! A seed makes a plan ([`plan`]), the plan is played against the real relay and server ([`play`]), and after every step the auditor
//! ([`auditor`]) compares what they hold with what must be. A plan that fails is cut down to the steps that matter.
mod auditor;
mod plan;
mod play;

use std::{
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

pub use plan::{Act, Step, plan};

use crate::{clock, rng::Rng};

/// Attempts to leave steps out of a failing plan.
const CUTS_MAX: usize = 200;
const THREADS: usize = 2;

/// How one seed went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Played {
    /// What happened, one line each.
    pub story: Vec<String>,
    /// What must not be and was, in words; the first is the cause of most others.
    pub faults: Vec<String>,
    pub commands: usize,
    pub began: usize,
}

/// A failing seed, cut down.
#[derive(Debug, Clone)]
pub struct Failing {
    pub seed: u64,
    /// Positions in the seed's plan that are needed.
    pub keep: Vec<usize>,
    pub played: Played,
}

impl std::fmt::Display for Failing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(f, "seed {}: {}", self.seed, self.played.faults.first().map_or("", String::as_str))?;
        for line in &self.played.story {
            writeln!(f, "  {line}")?;
        }
        for fault in &self.played.faults {
            writeln!(f, "  FAULT: {fault}")?;
        }
        let keep = self.keep.iter().map(usize::to_string).collect::<Vec<_>>().join(",");
        write!(f, "replay: graph-sim faults --from {} --seeds 1 --keep {keep}", self.seed)
    }
}

/// Plays a seed's whole plan, or only the steps named.
pub fn play(seed: u64, keep: Option<&[usize]>) -> Played {
    let steps: Vec<Step> =
        plan(seed).into_iter().enumerate().filter(|(i, _)| keep.is_none_or(|keep| keep.contains(i))).map(|(_, step)| step).collect();
    let rng = Rng::new(seed).stream("world");
    let failed = |why: String| Played { story: Vec::new(), faults: vec![why], commands: 0, began: 0 };
    match clock::run(play::play(rng, steps)) {
        Ok(Ok(played)) => played,
        Ok(Err(e)) => failed(format!("the world could not be played: {e}")),
        Err(e) => failed(format!("no runtime: {e}")),
    }
}

/// Leaves out what does not matter: halves first, then ever smaller pieces.
pub fn cut_down(seed: u64) -> Failing {
    let mut keep: Vec<usize> = (0..plan(seed).len()).collect();
    let mut played = play(seed, None);
    let mut piece = keep.len() / 2;
    let mut cuts = 0;
    while piece > 0 && cuts < CUTS_MAX {
        let mut at = 0;
        while at < keep.len() && cuts < CUTS_MAX {
            let mut without = keep.clone();
            without.drain(at..(at + piece).min(without.len()));
            cuts += 1;
            let tried = play(seed, Some(&without));
            if tried.faults.is_empty() {
                at += piece;
            } else {
                (keep, played) = (without, tried);
            }
        }
        piece /= 2;
    }
    Failing { seed, keep, played }
}

/// What a search saw.
#[derive(Debug, Clone, Default)]
pub struct Searched {
    pub seeds: u64,
    pub commands: u64,
    pub began: u64,
    /// Seeds that failed, in order.
    pub failing: Vec<u64>,
}

/// Searches `seeds` seeds from `from`, at most for `within` of wall time (told by `elapsed`), until three have failed.
pub fn search(from: u64, seeds: u64, within: Option<Duration>, elapsed: &(dyn Fn() -> Duration + Sync)) -> Searched {
    let next = AtomicU64::new(from);
    let enough = AtomicBool::new(false);
    let searched = Mutex::new(Searched::default());
    std::thread::scope(|threads| {
        for _ in 0..THREADS {
            threads.spawn(|| {
                while !enough.load(Ordering::Relaxed) && within.is_none_or(|within| elapsed() < within) {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= from.saturating_add(seeds) {
                        break;
                    }
                    let played = play(seed, None);
                    let mut searched = searched.lock().unwrap_or_else(PoisonError::into_inner);
                    searched.seeds += 1;
                    searched.commands += played.commands as u64;
                    searched.began += played.began as u64;
                    if !played.faults.is_empty() {
                        searched.failing.push(seed);
                        searched.failing.sort_unstable();
                        enough.fetch_or(searched.failing.len() >= 3, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    searched.into_inner().unwrap_or_else(PoisonError::into_inner)
}
