//! What many devices ask of a queue: requests, held connections and transactions a second, with polling and with the doorbell.
//!
//! Measured in simulated worlds: what an idle desktop asks in an hour, and what one run adds, by kind of request. Everything else is
//! multiplication, done in the open ([`Load::of`]), and what one machine carries comes from the costs that `make bench` measures.
//! `docs/scale.md` is written from here and a test writes it again.
use std::{
    collections::BTreeMap,
    fmt::Write as _,
    sync::{Arc, Mutex, PoisonError},
};

use crate::{
    clock::{self, sleep_ms},
    experiments::Pair,
    findings::Pickup,
    graph::Graphs,
    report::{Anchor, Plot, Scale},
    rng::{Rng, RunTimes},
    stats::number,
    strategy::Strategy,
    world::{World, WorldError},
};

const IDLE_MS: u64 = 3_600_000;
const RUNS: usize = 40;
const DESKTOPS: usize = 20;
/// The assumption of the tables: so many runs a device and day, spread over ten hours.
pub const RUNS_PER_DAY: f64 = 10.0;
const BUSY_HOURS: f64 = 10.0;
pub const FLEETS: [u64; 3] = [1_000, 100_000, 10_000_000];

/// Kinds of request of a device, and what each does to the database (read from the code: transactions that read, transactions that
/// write; the token is looked up by each).
const KINDS: [(&str, f64, f64); 5] = [("sync", 3.0, 0.0), ("doorbell", 2.0, 0.0), ("start", 1.0, 1.0), ("control", 2.0, 0.2), ("complete", 1.0, 1.0)];

/// What a request costs one machine.
#[derive(Debug, Clone, PartialEq)]
pub struct Costs {
    /// Requests that only read, a second, one after the other: what one core answers.
    pub reads_s: f64,
    /// Durable writes a second of one SQLite writer with group commit under load.
    pub writes_s: f64,
    /// Memory of one held request, in KiB.
    pub held_kib: f64,
}

/// Transactions a second of one PostgreSQL of eight cores: the usual order of magnitude, never measured by us.
const POSTGRES_S: f64 = 20_000.0;

impl Costs {
    /// From the report of `make bench`; `None` where a figure is missing.
    pub fn of_bench(report: &serde_json::Value) -> Option<Self> {
        let get_ms = report.pointer("/queue/get_graph_run_ms/p50")?.as_f64()?;
        let enqueue = report.pointer("/queue/enqueue")?.as_array()?;
        let writes_s = enqueue.iter().filter_map(|e| e["per_second"].as_f64()).fold(0.0, f64::max);
        let (more, held) = (report.pointer("/doorbells/mib_more")?.as_f64()?, report.pointer("/doorbells/held")?.as_f64()?);
        Some(Self { reads_s: 1_000.0 / get_ms, writes_s, held_kib: more * 1024.0 / held })
    }
}

/// Requests by kind.
pub type Requests = BTreeMap<&'static str, f64>;

/// What one desktop asks.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Asked {
    /// A second, while nothing runs.
    pub idle_per_s: Requests,
    /// More, for one run of the published length.
    pub per_run: Requests,
    /// Mean seconds a command runs.
    pub run_s: f64,
    /// Calls of the agent for one run: the ticket and the questions.
    pub agent_per_run: f64,
}

fn kind(path: &str) -> Option<&'static str> {
    KINDS.iter().map(|(name, ..)| *name).find(|name| path.ends_with(name))
}

async fn ask(rng: Rng, pickup: Pickup) -> Result<Asked, WorldError> {
    let world = World::open(rng).await?;
    let pairs = Pair::many(&world, DESKTOPS, pickup).await?;
    let counted: Arc<Mutex<Requests>> = Arc::default();
    for pair in &pairs {
        let counted = Arc::clone(&counted);
        pair.desktop.line.set_judge(move |request| {
            if let Some(kind) = kind(request.uri().path()) {
                *counted.lock().unwrap_or_else(PoisonError::into_inner).entry(kind).or_default() += 1.0;
            }
            None
        });
    }
    let take = || std::mem::take(&mut *counted.lock().unwrap_or_else(PoisonError::into_inner));
    take();
    sleep_ms(IDLE_MS).await;
    let idle_per_s: Requests = take().into_iter().map(|(k, n)| (k, n / DESKTOPS as f64 / (IDLE_MS as f64 / 1000.0))).collect();

    let mut times = world.rng.stream("long").strata(RUNS).into_iter().map(|u| RunTimes::PUBLISHED.at(u)).collect::<Vec<_>>();
    times.resize(RUNS, 0);
    let strategy = if pickup == Pickup::Doorbell { Strategy::Hold { seconds: 25 } } else { Strategy::WaitThen { wait: 20, every: 10 } };
    let began_ms = world.clock.elapsed_ms();
    let mut tasks = Vec::new();
    for (n, pair) in pairs.iter().enumerate() {
        let (agent, session) = (pair.agent.clone(), pair.session.to_string());
        let mine: Vec<u64> = times.iter().skip(n).step_by(DESKTOPS).copied().collect();
        tasks.push(async move {
            let (mut calls, mut run_ms) = (0, 0);
            for (i, ms) in mine.into_iter().enumerate() {
                let ticket = agent.run(&session, Graphs::lasting(ms), &format!("scale-{i:04}")).await?;
                let command = ticket.0["command_id"].as_str().unwrap_or_default().to_owned();
                calls += 1 + agent.watch(&command, strategy).await?.0;
                run_ms += ms;
            }
            Ok::<_, WorldError>((calls, run_ms))
        });
    }
    let done = crate::experiments::each(tasks).await?;
    let busy_s = (world.clock.elapsed_ms() - began_ms) as f64 / 1000.0;
    let (calls, run_ms) = done.into_iter().fold((0, 0), |(c, r), (calls, ms)| (c + calls, r + ms));
    // What would have been asked anyway is taken off; a pass is skipped while a run goes on, so a run may ask for less.
    let per_run =
        take().into_iter().map(|(k, n)| (k, (n - idle_per_s.get(k).copied().unwrap_or(0.0) * busy_s * DESKTOPS as f64) / RUNS as f64)).collect();
    Ok(Asked { idle_per_s, per_run, run_s: run_ms as f64 / 1000.0 / RUNS as f64, agent_per_run: f64::from(calls as u32) / RUNS as f64 })
}

/// What the desktops of one way of pickup ask, measured.
pub fn asked(seed: u64) -> Result<[Asked; 2], WorldError> {
    let root = Rng::new(seed);
    let one = |pickup: Pickup, n: u64| clock::run(ask(root.nth("scale", n), pickup)).unwrap_or_else(|e| Err(e.into()));
    Ok([one(Pickup::EveryPass, 0)?, one(Pickup::Doorbell, 1)?])
}

/// What a fleet asks of its queue, in its busy hours.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Load {
    pub requests_s: f64,
    pub held: f64,
    pub reads_s: f64,
    pub writes_s: f64,
}

impl Load {
    pub fn of(asked: &Asked, devices: u64) -> Self {
        let devices = devices as f64;
        let runs_s = devices * RUNS_PER_DAY / (BUSY_HOURS * 3600.0);
        let per_s = |kind: &str| {
            let of = |requests: &Requests| requests.get(kind).copied().unwrap_or(0.0);
            of(&asked.idle_per_s) * devices + of(&asked.per_run) * runs_s
        };
        let agent_s = asked.agent_per_run * runs_s;
        let sum = |f: &dyn Fn(&(&str, f64, f64)) -> f64| KINDS.iter().map(f).sum::<f64>();
        let has_bell = asked.idle_per_s.contains_key("doorbell");
        Self {
            requests_s: sum(&|(k, ..)| per_s(k)) + agent_s,
            // The doorbells, and of each run its control poll and its agent's question.
            held: if has_bell { devices + 2.0 * runs_s * asked.run_s } else { 0.0 },
            reads_s: sum(&|(k, reads, _)| per_s(k) * reads) + agent_s * 2.0,
            // The ticket writes once; a device's contact is stored every 15 s at most, many in one transaction.
            writes_s: sum(&|(k, _, writes)| per_s(k) * writes) + runs_s + 0.2,
        }
    }

    /// Cores that answer it, at half of what one can.
    pub fn cores(&self, costs: &Costs) -> f64 {
        self.requests_s / (costs.reads_s / 2.0)
    }
    pub fn held_gib(&self, costs: &Costs) -> f64 {
        self.held * costs.held_kib / 1024.0 / 1024.0
    }
}

fn rows(asked: &[Asked; 2], of: impl Fn(&Load) -> String) -> String {
    FLEETS.iter().map(|n| format!("| {} | {} | {} |\n", number(*n as f64, 0), of(&Load::of(&asked[0], *n)), of(&Load::of(&asked[1], *n)))).collect()
}

/// Requests a second over the number of devices, and what one instance answers.
pub fn drawing(asked: &[Asked; 2], costs: &Costs) -> String {
    let (first, last) = (FLEETS[0] as f64, FLEETS[FLEETS.len() - 1] as f64);
    let mut plot = Plot::new(380.0, [72.0, 28.0, 160.0, 44.0], Scale::Log { from: first, to: last }, Scale::Log { from: 10.0, to: 1e7 });
    plot.x_axis(&[(1e3, "1,000"), (1e4, "10,000"), (1e5, "100,000"), (1e6, "1 M"), (1e7, "10 M")], "devices");
    let heights = [(10.0, "10"), (100.0, "100"), (1e3, "1,000"), (1e4, "10,000"), (1e5, "100,000"), (1e6, "1 M"), (1e7, "10 M")];
    plot.y_axis(&heights, "requests a second, in the busy hours");
    let carried = costs.reads_s;
    plot.line(&[(first, carried), (last, carried)], "mean");
    plot.label((last, carried), (8.0, 4.0), Anchor::Start, "says", "one instance, 2 cores");
    for (asked, class, name, shift) in [(&asked[0], "polled", "asking every 20 s", -6.0), (&asked[1], "bell", "doorbell", 14.0)] {
        let points: Vec<(f64, f64)> = FLEETS.iter().map(|n| (*n as f64, Load::of(asked, *n).requests_s)).collect();
        plot.line(&points, class);
        for (devices, requests) in &points {
            plot.dot(*devices, *requests, 4.0, class, &format!("{} devices, {name}: {} a second", number(*devices, 0), number(*requests, 0)));
        }
        if let Some(end) = points.last() {
            plot.label(*end, (8.0, shift), Anchor::Start, "row", name);
        }
    }
    plot.finish("Requests a second against the number of devices, on logarithmic axes, for polling and for the doorbell")
}

/// `docs/scale.md`.
pub fn document(asked: &[Asked; 2], costs: &Costs) -> String {
    let mut out = String::new();
    let mut put = |text: &str| {
        let _ = writeln!(out, "{text}"); // writing to a String cannot fail
    };
    let sum = |r: &Requests| r.values().sum::<f64>();
    let by_kind =
        |r: &Requests| KINDS.iter().map(|(k, ..)| format!("{k} {}", number(r.get(k).copied().unwrap_or(0.0), 2))).collect::<Vec<_>>().join(", ");
    put("# Scale\n");
    put("Written by `graph-sim scale`; a test writes it again and compares. Requests are measured with the real relay on a simulated clock,");
    put(
        "the rest is multiplication. Assumed: every device is on, shares in one project, and gets 10 runs of the published length within ten hours.\n",
    );
    put("## What one desktop asks\n");
    put("| | asking every 20 s | doorbell |\n|---|---|---|");
    let minute = |a: &Asked| number(sum(&a.idle_per_s) * 60.0, 1);
    put(&format!("| requests a minute, idle | {} | {} |", minute(&asked[0]), minute(&asked[1])));
    put(&format!("| requests of the device for one run | {} | {} |", number(sum(&asked[0].per_run), 1), number(sum(&asked[1].per_run), 1)));
    put(&format!("| of these | {} | {} |", by_kind(&asked[0].per_run), by_kind(&asked[1].per_run)));
    put(&format!("| calls of the agent for one run | {} | {} |\n", number(asked[0].agent_per_run, 1), number(asked[1].agent_per_run, 1)));
    put("A run asks for fewer syncs than an idle desktop would (passes are skipped while it goes on), hence the negative numbers.\n");
    let titles: [(&str, &dyn Fn(&Load) -> String); 4] = [
        ("Requests a second", &|l| number(l.requests_s, 0)),
        ("Requests held open", &|l| number(l.held, 0)),
        ("Transactions a second: reading, writing", &|l| format!("{}, {}", number(l.reads_s, 0), number(l.writes_s, 1))),
        ("Cores for the queue's own work; memory of held requests", &|l| {
            format!("{}; {} GiB", number(l.cores(costs), 2), number(l.held_gib(costs), 2))
        }),
    ];
    for (title, of) in titles {
        put(&format!("## {title}\n"));
        put("| devices | asking every 20 s | doorbell |\n|---|---|---|");
        put(&rows(asked, of));
    }
    put("![Requests a second against the number of devices](pictures/scale.svg)\n");
    put("## What carries it\n");
    put(&format!(
        "Costs, measured by `make bench` (the stored report is tests/fixtures/bench/report.json): {} reads a second and core, {} durable\nwrites a second (SQLite, group commit), {} KiB a held request. Planned with half of it.",
        number(costs.reads_s, 0),
        number(costs.writes_s, 0),
        number(costs.held_kib, 0)
    ));
    let carried = |per_device: f64, of: f64| number((of / per_device / 1000.0).floor() * 1000.0, 0);
    let [polled, rung] = asked.each_ref().map(|a| Load::of(a, 1_000_000));
    put("");
    put("| | limit | devices, asking every 20 s | devices, doorbell |\n|---|---|---|---|");
    let requests = costs.reads_s / 2.0 * 2.0;
    put(&format!(
        "| one instance of 2 cores on SQLite | requests | {} | {} |",
        carried(polled.requests_s / 1e6, requests),
        carried(rung.requests_s / 1e6, requests)
    ));
    put(&format!("| … with 1 GiB for held requests | memory | – | {} |", carried(rung.held / 1e6, 1024.0 * 1024.0 / costs.held_kib)));
    put(&format!(
        "| many instances, one PostgreSQL of 8 cores ({} transactions a second: the usual order of magnitude, never measured by us) | transactions | {} | {} |\n",
        number(POSTGRES_S, 0),
        carried((polled.reads_s + polled.writes_s) / 1e6, POSTGRES_S),
        carried((rung.reads_s + rung.writes_s) / 1e6, POSTGRES_S)
    ));
    put("Beyond one PostgreSQL the owner is the seam: no statement of the queue touches two owners, so a deployment is cut by owner into as many");
    put("databases as it needs; ten million devices are some hundred of the size above. What is then still shared is the list of who lives where.");
    put("The doorbell costs a held connection for each device and about as many requests as the polling it stands beside; what it saves is");
    put("the wait, not the load. Load is saved by longer passes, which the contract fixes at 20 s for the sake of older servers.");
    out
}
