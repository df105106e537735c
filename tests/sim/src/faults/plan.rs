//! A seed's plan: what agents, owners, devices, the server and the network do, and when. Each step stands alone, so that any of them can
//! be left out.
use std::fmt;

use crate::{net::Weather, rng::Rng};

/// Desktops of the one owner: 0 and 1 are two machines, 2 is a copy of machine 0's profile with the same device token.
pub const DESKS: usize = 3;
pub const CLONE: usize = 2;
/// Graphs on each machine, and the owner's projects.
pub const GRAPHS: usize = 2;
pub const PROJECTS: usize = 2;
/// The last of them may be revoked.
pub const AGENTS: usize = 3;
pub const REVOCABLE: usize = AGENTS - 1;
/// Commands a project holds queued in these worlds: small, so that the ceiling is met.
pub const QUEUED_MAX: usize = 6;
/// The plan's faults stop here; everything is put right, and all must come to an end.
pub const QUIET_FROM_MS: u64 = 150_000;

/// Runs are named by the number of the step that made them.
pub type RunNumber = usize;

#[derive(Debug, Clone, PartialEq)]
pub enum Act {
    Run {
        run: RunNumber,
        agent: usize,
        desk: usize,
        graph: usize,
        run_ms: u64,
        starts_after_ms: u64,
    },
    /// The same agent sends the same call again.
    Repeat {
        run: RunNumber,
    },
    Cancel {
        run: RunNumber,
    },
    /// The other agent asks for it and tries to cancel it.
    Peek {
        run: RunNumber,
    },
    OwnerCancel {
        run: RunNumber,
        desk: usize,
    },
    /// The owner takes the last agent's grant away.
    Revoke {
        desk: usize,
    },
    Tick {
        desk: usize,
        project: usize,
        graph: usize,
        on: bool,
    },
    Enable {
        desk: usize,
        project: usize,
        on: bool,
    },
    Rename {
        desk: usize,
        graph: usize,
        name: u64,
    },
    Delete {
        desk: usize,
        graph: usize,
    },
    Undelete {
        desk: usize,
        graph: usize,
    },
    Pause {
        desk: usize,
        on: bool,
    },
    Pickup {
        desk: usize,
        instant: bool,
    },
    Crash {
        desk: usize,
    },
    Quit {
        desk: usize,
    },
    Boot {
        desk: usize,
    },
    Freeze {
        desk: usize,
        on: bool,
    },
    Clock {
        desk: usize,
        skew_ms: i64,
    },
    ServerDown {
        graceful: bool,
    },
    ServerUp,
    Weather {
        desk: usize,
        weather: Weather,
    },
    AgentWeather {
        agent: usize,
        weather: Weather,
    },
}

#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    pub at_ms: u64,
    pub act: Act,
}

impl fmt::Display for Act {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let on_off = |on: bool| if on { "on" } else { "off" };
        match self {
            Self::Run { run, agent, desk, graph, run_ms, starts_after_ms } => {
                write!(f, "agent {agent} queues run {run} of desk {desk} graph {graph}, {run_ms} ms long (begins after {starts_after_ms} ms)")
            }
            Self::Repeat { run } => write!(f, "run {run} is queued again with the same key"),
            Self::Cancel { run } => write!(f, "run {run} is cancelled by its agent"),
            Self::Peek { run } => write!(f, "the other agent asks for run {run} and cancels it"),
            Self::OwnerCancel { run, desk } => write!(f, "run {run} is cancelled by the owner, from desk {desk}"),
            Self::Revoke { desk } => write!(f, "agent {REVOCABLE} is revoked, from desk {desk}"),
            Self::Tick { desk, project, graph, on } => write!(f, "desk {desk}: tick of graph {graph} for project {project} {}", on_off(*on)),
            Self::Enable { desk, project, on } => write!(f, "desk {desk}: project {project} {}", on_off(*on)),
            Self::Rename { desk, graph, name } => write!(f, "desk {desk}: graph {graph} gets the slug g{graph}-{name}"),
            Self::Delete { desk, graph } => write!(f, "desk {desk}: graph {graph} is deleted"),
            Self::Undelete { desk, graph } => write!(f, "desk {desk}: graph {graph} comes back"),
            Self::Pause { desk, on } => write!(f, "desk {desk}: pause {}", on_off(*on)),
            Self::Pickup { desk, instant } => write!(f, "desk {desk}: doorbell {}", on_off(*instant)),
            Self::Crash { desk } => write!(f, "desk {desk} loses power"),
            Self::Quit { desk } => write!(f, "desk {desk} quits"),
            Self::Boot { desk } => write!(f, "desk {desk} boots"),
            Self::Freeze { desk, on } => write!(f, "desk {desk} {}", if *on { "falls asleep" } else { "wakes" }),
            Self::Clock { desk, skew_ms } => write!(f, "desk {desk}: its clock is now wrong by {skew_ms} ms"),
            Self::ServerDown { graceful } => write!(f, "the server {}", if *graceful { "stops in good order" } else { "is killed" }),
            Self::ServerUp => f.write_str("the server starts"),
            Self::Weather { desk, weather } => write!(f, "desk {desk}: the line is {}", told(weather)),
            Self::AgentWeather { agent, weather } => write!(f, "agent {agent}: the line is {}", told(weather)),
        }
    }
}

fn told(w: &Weather) -> String {
    if *w == Weather::FAIR {
        return "fair".into();
    }
    let percent = |share: f64| (share * 100.0).round();
    format!(
        "{}–{} ms slow, loses {} % of requests and {} % of answers, hangs {} %, repeats {} %, goes away {} %, portal {} %",
        w.delay_ms.0,
        w.delay_ms.1,
        percent(w.lose_request),
        percent(w.lose_answer),
        percent(w.hang),
        percent(w.repeat),
        percent(w.detach),
        percent(w.portal)
    )
}

/// The plan of a seed. Half of the seeds have a calm theme, so that deep faults are not drowned in shallow ones.
pub fn plan(seed: u64) -> Vec<Step> {
    let mut rng = Rng::new(seed).stream("plan");
    let has_clone = rng.chance(0.15);
    let storms = rng.chance(0.7);
    let n = 25 + rng.below(40) as usize;
    let mut times: Vec<u64> = (0..n).map(|_| rng.below(QUIET_FROM_MS)).collect();
    // Some steps come together: that is where races live.
    for i in 1..n {
        if rng.chance(0.25) {
            times[i] = times[i - 1] + rng.below(60);
        }
    }
    times.sort_unstable();
    let mut runs = Vec::new();
    let mut steps = Vec::with_capacity(n);
    for (number, at_ms) in times.into_iter().enumerate() {
        let act = act(&mut rng, number, &mut runs, has_clone, storms);
        steps.push(Step { at_ms, act });
    }
    steps
}

fn act(rng: &mut Rng, number: usize, runs: &mut Vec<RunNumber>, has_clone: bool, storms: bool) -> Act {
    let machine = |rng: &mut Rng| rng.below(2) as usize;
    let desk = |rng: &mut Rng| if has_clone && rng.chance(0.4) { CLONE } else { rng.below(2) as usize };
    let graph = |rng: &mut Rng| rng.below(GRAPHS as u64) as usize;
    let project = |rng: &mut Rng| rng.below(PROJECTS as u64) as usize;
    let known = rng.pick(runs.as_slice()).copied();
    let draw = rng.below(100);
    match (draw, known) {
        (0..=27, _) | (28..=49, None) => {
            runs.push(number);
            let run_ms = if rng.chance(0.3) { rng.below(200) } else { rng.below(25_000) };
            let starts_after_ms = if rng.chance(0.2) { rng.below(5_000) } else { 0 };
            Act::Run { run: number, agent: rng.below(AGENTS as u64) as usize, desk: machine(rng), graph: graph(rng), run_ms, starts_after_ms }
        }
        (28..=32, Some(run)) => Act::Repeat { run },
        (33..=43, Some(run)) => Act::Cancel { run },
        (44..=46, Some(run)) => Act::Peek { run },
        (47..=48, Some(run)) => Act::OwnerCancel { run, desk: machine(rng) },
        (49, Some(_)) => Act::Revoke { desk: machine(rng) },
        (50..=57, _) => Act::Tick { desk: desk(rng), project: project(rng), graph: graph(rng), on: rng.chance(0.6) },
        (58..=61, _) => Act::Enable { desk: desk(rng), project: project(rng), on: rng.chance(0.6) },
        (62..=63, _) => Act::Rename { desk: desk(rng), graph: graph(rng), name: rng.below(3) },
        (64, _) => Act::Delete { desk: desk(rng), graph: graph(rng) },
        (65, _) => Act::Undelete { desk: desk(rng), graph: graph(rng) },
        (66..=68, _) => Act::Pause { desk: desk(rng), on: rng.chance(0.5) },
        (69, _) => Act::Pickup { desk: desk(rng), instant: rng.chance(0.7) },
        (70..=75, _) => Act::Crash { desk: desk(rng) },
        (76, _) => Act::Quit { desk: desk(rng) },
        (77..=83, _) => Act::Boot { desk: desk(rng) },
        (84..=86, _) => Act::Freeze { desk: desk(rng), on: rng.chance(0.5) },
        (87..=88, _) => Act::Clock { desk: desk(rng), skew_ms: skew(rng) },
        (89..=90, _) => Act::ServerDown { graceful: rng.chance(0.5) },
        (91..=93, _) => Act::ServerUp,
        (94..=97, _) => Act::Weather { desk: desk(rng), weather: weather(rng, storms) },
        (_, _) => Act::AgentWeather { agent: rng.below(AGENTS as u64) as usize, weather: weather(rng, storms) },
    }
}

/// Seventeen minutes, a day, or a little.
fn skew(rng: &mut Rng) -> i64 {
    let size = rng.pick(&[0, 1_020_000, 86_400_000, 7_000]).copied().unwrap_or(0);
    if rng.chance(0.5) { size } else { -size }
}

fn weather(rng: &mut Rng, storms: bool) -> Weather {
    if rng.chance(0.35) {
        return Weather::FAIR;
    }
    if rng.chance(0.15) {
        return Weather { lose_request: 1.0, ..Weather::FAIR }; // cut off
    }
    let mut some = |most: f64| if rng.chance(0.5) { rng.between(0.0, most) } else { 0.0 };
    let calm = Weather { delay_ms: (5, 120), lose_answer: some(0.2), repeat: some(0.2), ..Weather::FAIR };
    if !storms {
        return calm;
    }
    Weather { lose_request: some(0.4), lose_answer: some(0.4), hang: some(0.1), detach: some(0.2), portal: some(0.1), delay_ms: (1, 3_000), ..calm }
}
