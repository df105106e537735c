//! What the experiments measured, before anything is said about it. Times are milliseconds of simulated time.
use crate::strategy::Strategy;

/// How the desktops of a world pick up work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Pickup {
    /// The published relay: it asks every 20 s, and its control poll every 3 s.
    EveryPass,
    /// Ours: a doorbell and a held control poll.
    Doorbell,
}

/// From the ticket to the start, one per run.
#[derive(Debug, Clone, Default)]
pub struct Waits {
    pub wait_ms: Vec<u64>,
}

/// One run of a burst, measured from the moment the burst was queued.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ran {
    pub started_ms: u64,
    pub ended_ms: u64,
}

/// Bursts of runs that were queued at once for one desktop.
#[derive(Debug, Clone, Default)]
pub struct Bursts {
    pub bursts: Vec<Vec<Ran>>,
}

impl Bursts {
    pub fn first_ms(&self) -> impl Iterator<Item = u64> {
        self.bursts.iter().filter_map(|b| b.iter().map(|r| r.ended_ms).min())
    }
    pub fn last_ms(&self) -> impl Iterator<Item = u64> {
        self.bursts.iter().filter_map(|b| b.iter().map(|r| r.ended_ms).max())
    }
}

/// How one client strategy saw the ends of many runs.
#[derive(Debug, Clone)]
pub struct Watched {
    pub strategy: Strategy,
    pub calls: Vec<u64>,
    /// From the end of the run to the answer that told of it.
    pub delay_ms: Vec<u64>,
}

#[derive(Debug, Clone, Default)]
pub struct Polled {
    /// From the ticket to the end.
    pub end_ms: Vec<u64>,
    pub watched: Vec<Watched>,
}

#[derive(Debug, Clone, Default)]
pub struct Cancels {
    pub finished_before: u64,
    /// Cancel while queued → terminal.
    pub queued_ms: Vec<u64>,
    /// Commands cancelled while queued that a desktop started all the same: must be 0.
    pub queued_but_started: u64,
    /// Cancel while running → terminal.
    pub running_ms: Vec<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Retried {
    pub calls_sent: u64,
    pub runs_queued: u64,
}

#[derive(Debug, Clone, Default)]
pub struct Retries {
    pub new_key: Vec<Retried>,
    pub same_key: Vec<Retried>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Offline {
    pub queued: u64,
    pub executed_meanwhile: u64,
    /// From the return of the network to the first start, and to the last end.
    pub first_start_ms: u64,
    pub all_done_ms: u64,
    pub executed: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Delivered {
    pub status: String,
    /// From the start of the run to the moment the server had its ending.
    pub after_start_ms: Option<u64>,
}

#[derive(Debug, Clone, Default)]
pub struct Outbox {
    pub on: Delivered,
    pub off: Delivered,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Fits {
    pub characters: u64,
    pub utf8_bytes: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Largest {
    pub ascii: Fits,
    pub japanese: Fits,
    /// The same through the real relay, whose execution ids have 36 characters: largest that arrived whole, and one more that did not.
    pub relayed_whole: u64,
    pub relayed_cut: u64,
}

#[derive(Debug, Clone, Default)]
pub struct Foreign {
    /// What another agent is told of the run, and of a run that never existed.
    pub told: String,
    pub told_of_nothing: String,
}

/// Everything the table is made of.
#[derive(Debug, Clone, Default)]
pub struct Findings {
    pub waits: [Waits; 2],
    /// 1, 3 and 5 runs, for both ways of pickup.
    pub bursts: [[Bursts; 3]; 2],
    pub polled: [Polled; 2],
    pub cancels: [Cancels; 2],
    pub retries: Retries,
    pub offline: [Offline; 2],
    pub outbox: [Outbox; 2],
    pub largest: Largest,
    pub foreign: Foreign,
}
