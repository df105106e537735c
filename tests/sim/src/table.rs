//! The published table, row by row: published | ours | agrees, and beside it the same rows with the doorbell and with `wait_seconds`.
//!
//! The published figures stand here and nowhere else. A row agrees when each of its figures does ([`crate::stats`]).
use std::fmt::Write as _;

use serde::Serialize;

use crate::{
    findings::{Bursts, Findings, Watched},
    rng::Rng,
    stats::{Figure, Sample, number},
    strategy::Strategy,
};

/// Published sample sizes: the standard errors are those of samples this large.
const RUNS_PUBLISHED: usize = 2_000;
const BURSTS_PUBLISHED: usize = 500;
const RETRIED_PUBLISHED: usize = 200;
const REPETITIONS: usize = 3;
/// A reply is lost this often in the idempotency rows.
pub const REPLIES_LOST: f64 = 0.3;

#[derive(Debug, Clone, Serialize)]
pub struct Row {
    pub row: String,
    pub published: String,
    pub ours: String,
    pub agrees: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub doorbell: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait_seconds: Option<String>,
}

impl Row {
    fn of(row: &str, published: &str, figures: &[Figure]) -> Self {
        let ours = figures.iter().map(Figure::ours_text).collect::<Vec<_>>().join(", ");
        Self::told(row, published, ours, figures.iter().all(Figure::agrees))
    }
    fn told(row: &str, published: &str, ours: String, agrees: bool) -> Self {
        Self { row: row.to_owned(), published: published.to_owned(), ours, agrees, doorbell: None, wait_seconds: None }
    }
    fn with_doorbell(mut self, text: String) -> Self {
        self.doorbell = Some(text);
        self
    }
    fn with_wait_seconds(mut self, text: String) -> Self {
        self.wait_seconds = Some(text);
        self
    }
}

/// Every row, in the published order, or those of one experiment. `rng` feeds the bootstraps only.
pub fn rows(f: &Findings, rng: &Rng, only: Option<&str>) -> Vec<Row> {
    let of = |experiment: &str, rows: &dyn Fn(&mut Rng) -> Vec<Row>| {
        if only.is_none_or(|name| name == experiment) { rows(&mut rng.stream(experiment)) } else { Vec::new() }
    };
    [
        of("pickup", &|rng| vec![pickup(f, rng)]),
        of("bursts", &|rng| bursts(f, rng)),
        of("polling", &|rng| polling(f, rng)),
        of("cancel", &|rng| cancels(f, rng)),
        of("idempotency", &|_| retries(f)),
        of("offline", &|_| vec![offline(f)]),
        of("outbox", &|_| outbox(f)),
        of("limits", &|_| limits(f)),
        of("foreign", &|_| vec![foreign(f)]),
    ]
    .concat()
}

fn pickup(f: &Findings, rng: &mut Rng) -> Row {
    let [polled, rung] = f.waits.each_ref().map(|w| Sample::of_ms(w.wait_ms.iter().copied()));
    let n = RUNS_PUBLISHED;
    let figures = [
        Figure::near("mean", 9.8, polled.mean(), polled.mean_error(n), "s", 1),
        Figure::near("median", 9.8, polled.median(), polled.quantile_error(0.5, n, rng), "s", 1),
        Figure::near("p95", 18.9, polled.p95(), polled.quantile_error(0.95, n, rng), "s", 1),
        Figure::near("max", 20.0, polled.max(), polled.quantile_error(1.0, n, rng), "s", 1),
    ];
    let row = Row::of("pickup wait, n=2000", "mean 9.8 s, median 9.8 s, p95 18.9 s, max 20.0 s", &figures);
    row.with_doorbell(format!(
        "mean {} s, median {} s, p95 {} s, max {} s",
        number(rung.mean(), 2),
        number(rung.median(), 2),
        number(rung.p95(), 2),
        number(rung.max(), 2)
    ))
}

fn bursts(f: &Findings, rng: &mut Rng) -> Vec<Row> {
    let n = BURSTS_PUBLISHED;
    let samples = |bursts: &[Bursts; 3]| bursts.each_ref().map(|b| (Sample::of_ms(b.first_ms()), Sample::of_ms(b.last_ms())));
    let [polled, rung] = f.bursts.each_ref().map(samples);
    let near = |what: &str, published: f64, sample: &Sample, q: f64, rng: &mut Rng| {
        Figure::near(what, published, sample.quantile(q), sample.quantile_error(q, n, rng), "s", 0)
    };
    let first: Vec<Figure> = [74.0, 73.0, 75.0].into_iter().zip(&polled).map(|(p, (first, _))| near("", p, first, 0.5, rng)).collect();
    let last: Vec<(Figure, Figure)> = [(74.0, 254.0), (233.0, 483.0), (399.0, 776.0)]
        .into_iter()
        .zip(&polled)
        .map(|((median, p95), (_, last))| (near("", median, last, 0.5, rng), near("", p95, last, 0.95, rng)))
        .collect();
    let firsts = |s: &[(Sample, Sample); 3]| format!("{} s", s.each_ref().map(|(first, _)| number(first.median(), 0)).join(" / "));
    let lasts = |s: &[(Sample, Sample); 3]| {
        format!("{} s", s.each_ref().map(|(_, l)| format!("{} ({})", number(l.median(), 0), number(l.p95(), 0))).join(" / "))
    };
    vec![
        Row::told("1 / 3 / 5 runs queued at once: first result, median", "74 / 73 / 75 s", firsts(&polled), first.iter().all(Figure::agrees))
            .with_doorbell(firsts(&rung)),
        Row::told(
            "… last result, median (p95)",
            "74 (254) / 233 (483) / 399 (776) s",
            lasts(&polled),
            last.iter().all(|(median, p95)| median.agrees() && p95.agrees()),
        )
        .with_doorbell(lasts(&rung)),
    ]
}

fn told_watch(w: &Watched) -> String {
    let calls = Sample::of(w.calls.iter().map(|c| *c as f64));
    let delay = Sample::of_ms(w.delay_ms.iter().copied());
    let digits = if delay.mean() < 0.1 { 2 } else { 1 };
    format!("{} ({}), {} s ({})", number(calls.mean(), 1), number(calls.p95(), 0), number(delay.mean(), digits), number(delay.p95(), digits))
}

fn polling(f: &Findings, rng: &mut Rng) -> Vec<Row> {
    const PUBLISHED: [(&str, &str, f64, f64, f64, f64); 6] = [
        ("client polls every 2 s: calls per run mean (p95), detection delay mean (p95)", "47.1 (118), 1.0 s (1.9)", 47.1, 118.0, 1.0, 1.9),
        ("every 5 s", "19.1 (48), 2.5 s (4.8)", 19.1, 48.0, 2.5, 4.8),
        ("every 15 s", "6.7 (16), 7.5 s (14.2)", 6.7, 16.0, 7.5, 14.2),
        ("every 30 s", "3.6 (8), 14.9 s (28.4)", 3.6, 8.0, 14.9, 28.4),
        ("backoff 2, 4, 8 … 30 s", "6.6 (11), 14.8 s (28.4)", 6.6, 11.0, 14.8, 28.4),
        ("wait 20 s, then every 10 s", "8.8 (23), 5.0 s (9.6)", 8.8, 23.0, 5.0, 9.6),
    ];
    let of = |pickup: usize, strategy: Strategy| f.polled[pickup].watched.iter().find(|w| w.strategy == strategy);
    let held = f.polled[1].watched.iter().find(|w| matches!(w.strategy, Strategy::Hold { .. })).map(told_watch);
    let n = RUNS_PUBLISHED;
    PUBLISHED
        .into_iter()
        .zip(Strategy::PUBLISHED)
        .filter_map(|((name, published, calls_mean, calls_p95, delay_mean, delay_p95), strategy)| {
            let w = of(0, strategy)?;
            let calls = Sample::of(w.calls.iter().map(|c| *c as f64));
            let delay = Sample::of_ms(w.delay_ms.iter().copied());
            let figures = [
                Figure::near("", calls_mean, calls.mean(), calls.mean_error(n), "", 1),
                Figure::near("", calls_p95, calls.p95(), calls.quantile_error(0.95, n, rng), "", 0),
                Figure::near("", delay_mean, delay.mean(), delay.mean_error(n), "s", 1),
                Figure::near("", delay_p95, delay.p95(), delay.quantile_error(0.95, n, rng), "s", 1),
            ];
            let mut row = Row::told(name, published, told_watch(w), figures.iter().all(Figure::agrees));
            row.doorbell = of(1, strategy).map(told_watch);
            row.wait_seconds.clone_from(&held);
            Some(row)
        })
        .collect()
}

fn cancels(f: &Findings, rng: &mut Rng) -> Vec<Row> {
    let [polled, rung] = &f.cancels;
    let total = |c: &crate::findings::Cancels| c.queued_ms.len() as u64 + c.running_ms.len() as u64 + c.finished_before;
    let ours = total(polled).max(1) as f64;
    let n = RUNS_PUBLISHED as f64;
    // A share of runs has the standard error of a binomial; both are told for 2,000 runs.
    let share = |what: &str, published: f64, count: usize| {
        let p = published / n;
        Figure::near(what, published, count as f64 / ours * n, (n * p * (1.0 - p)).sqrt(), "", 0)
    };
    let figures = [share("", 523.0, polled.queued_ms.len()), share("", 1_370.0, polled.running_ms.len())];
    let told = |c: &crate::findings::Cancels| {
        let of_2000 = |count: usize| number(count as f64 / total(c).max(1) as f64 * n, 0);
        format!("{} still queued, {} running", of_2000(c.queued_ms.len()), of_2000(c.running_ms.len()))
    };
    let counts = Row::told("cancel at a random 0–40 s, n=2000", "523 still queued, 1,370 running", told(polled), figures.iter().all(Figure::agrees))
        .with_doorbell(told(rung));

    let queued = |c: &crate::findings::Cancels| {
        let sample = Sample::of_ms(c.queued_ms.iter().copied());
        let worst = if sample.is_empty() { 0.0 } else { sample.max() };
        let started = if c.queued_but_started == 0 { "never started".to_owned() } else { format!("{} started", c.queued_but_started) };
        (format!("{} s, {started}", number(worst, 1)), worst == 0.0 && c.queued_but_started == 0)
    };
    let (text, agrees) = queued(polled);
    let at_once = Row::told("cancel while queued → terminal", "0.0 s, never started", text, agrees).with_doorbell(queued(rung).0);

    let [sample, with_bell] = [polled, rung].map(|c| Sample::of_ms(c.running_ms.iter().copied()));
    let n = 1_370;
    let figures = [
        Figure::near("mean", 2.0, sample.mean(), sample.mean_error(n), "s", 1),
        Figure::near("p95", 3.3, sample.p95(), sample.quantile_error(0.95, n, rng), "s", 1),
        Figure::near("max", 3.5, sample.max(), sample.quantile_error(1.0, n, rng), "s", 1),
    ];
    let running = Row::of("cancel while running → terminal", "mean 2.0 s, p95 3.3 s, max 3.5 s", &figures).with_doorbell(format!(
        "mean {} s, p95 {} s, max {} s",
        number(with_bell.mean(), 2),
        number(with_bell.p95(), 2),
        number(with_bell.max(), 2)
    ));
    vec![counts, at_once, running]
}

fn retries(f: &Findings) -> Vec<Row> {
    let counts = |of: &[crate::findings::Retried], pick: fn(&crate::findings::Retried) -> u64| {
        of.iter().map(|r| number(pick(r) as f64, 0)).collect::<Vec<_>>().join(" / ")
    };
    // Calls until the first of 200 replies arrives each: a geometric law; its mean over the repetitions is compared.
    let n = (RETRIED_PUBLISHED * REPETITIONS) as f64;
    let error_of_mean = (n * REPLIES_LOST).sqrt() / (1.0 - REPLIES_LOST) / REPETITIONS as f64;
    let near = |published: [f64; 3], of: &[crate::findings::Retried]| {
        let published = published.iter().sum::<f64>() / published.len() as f64;
        let ours = of.iter().map(|r| r.calls_sent as f64).sum::<f64>() / of.len().max(1) as f64;
        Figure::near("", published, ours, error_of_mean, "", 0).agrees()
    };
    let new_key = &f.retries.new_key;
    let same_key = &f.retries.same_key;
    vec![
        Row::told(
            "200 runs, 30 % of replies lost, new key each retry: calls sent = runs queued",
            "266 / 302 / 286",
            counts(new_key, |r| r.calls_sent),
            near([266.0, 302.0, 286.0], new_key) && new_key.iter().all(|r| r.calls_sent == r.runs_queued),
        ),
        Row::told(
            "same key: calls sent",
            "270 / 291 / 275, runs queued 200 / 200 / 200",
            format!("{}, runs queued {}", counts(same_key, |r| r.calls_sent), counts(same_key, |r| r.runs_queued)),
            near([270.0, 291.0, 275.0], same_key) && same_key.iter().all(|r| r.runs_queued == RETRIED_PUBLISHED as u64),
        ),
    ]
}

fn offline(f: &Findings) -> Row {
    let s = |ms: u64| ms as f64 / 1000.0;
    let told = |o: &crate::findings::Offline, digits: usize| {
        format!(
            "{} queued, {} executed; back online: first start +{} s, all 5 done by +{} s, executed {}",
            o.queued,
            o.executed_meanwhile,
            number(s(o.first_start_ms), digits),
            number(s(o.all_done_ms), 0),
            o.executed
        )
    };
    let [polled, rung] = &f.offline;
    let exactly = |published: f64, ours: u64| Figure::exact("", published, (s(ours)).round(), "", 0).agrees();
    let agrees = (polled.queued, polled.executed_meanwhile, polled.executed) == (5, 0, 5)
        && exactly(3.0, polled.first_start_ms)
        && exactly(131.0, polled.all_done_ms);
    Row::told(
        "desktop offline 600 s",
        "5 queued, 0 executed; back online: first start +3 s, all 5 done by +131 s, executed 5",
        told(polled, 0),
        agrees,
    )
    .with_doorbell(told(rung, 1))
}

fn outbox(f: &Findings) -> Vec<Row> {
    let told = |d: &crate::findings::Delivered| match d.after_start_ms {
        Some(ms) => format!("{}, delivered {} s after start", d.status, number(ms as f64 / 1000.0, 0)),
        None => format!("{}, never delivered", d.status),
    };
    let [polled, rung] = &f.outbox;
    let row = |name: &str, published: &str, ours: &crate::findings::Delivered, bell: &crate::findings::Delivered| {
        Row::told(name, published, told(ours), told(ours) == published).with_doorbell(told(bell))
    };
    vec![
        row("completion POST lost once, outbox on", "completed, delivered 40 s after start", &polled.on, &rung.on),
        row("… outbox off", "running, never delivered", &polled.off, &rung.off),
    ]
}

fn limits(f: &Findings) -> Vec<Row> {
    let l = &f.largest;
    let told = |fits: &crate::findings::Fits| {
        format!("{} characters = {} UTF-8 bytes", number(fits.characters as f64, 0), number(fits.utf8_bytes as f64, 0))
    };
    let relayed = format!("with an id of 36 characters: {} whole, {} left out", number(l.relayed_whole as f64, 0), number(l.relayed_cut as f64, 0));
    let row = |name: &str, published: &str, ours: &crate::findings::Fits| Row::told(name, published, told(ours), told(ours) == published);
    vec![
        row(
            "largest result text that fits, in an envelope of 101 characters (a 14-character execution id and two zeros): ASCII",
            "99,899 characters = 99,899 UTF-8 bytes",
            &l.ascii,
        )
        .with_doorbell(relayed),
        row("… Japanese", "99,899 characters = 299,697 UTF-8 bytes", &l.japanese),
    ]
}

fn foreign(f: &Findings) -> Row {
    let published = "Graph run not found or access removed";
    let agrees = f.foreign.told == published && f.foreign.told_of_nothing == published;
    Row::told("another connected agent reads the run", published, f.foreign.told.clone(), agrees).with_wait_seconds(f.foreign.told_of_nothing.clone())
}

/// The table as text. Wall time is not in it: the same seed prints the same bytes.
pub fn print(rows: &[Row], seed: u64, runs: usize) -> String {
    let mut out = String::new();
    let mut line = |text: &str| {
        let _ = writeln!(out, "{}", text.trim_end()); // writing to a String cannot fail
    };
    line(&format!("graph-sim {} · seed {seed} · {runs} runs a row, {} bursts · 20 s poll, doorbell off", env!("CARGO_PKG_VERSION"), bursts_of(runs)));
    line("");
    for (i, r) in rows.iter().enumerate() {
        line(&format!("{:>2}  {}", i + 1, r.row));
        line(&format!("    published     {}", r.published));
        line(&format!("    ours          {}", r.ours));
        line(&format!("    agrees        {}", if r.agrees { "yes" } else { "NO" }));
        if let Some(text) = &r.doorbell {
            line(&format!("    doorbell      {text}"));
        }
        if let Some(text) = &r.wait_seconds {
            line(&format!("    wait_seconds  {text}"));
        }
    }
    line(&format!("{:>2}  the whole simulation", rows.len() + 1));
    line("    published     2.8 s of wall time (Python, M1)");
    line("    ours          on stderr; reported, not compared");
    line("");
    line(&format!("{} of {} rows agree", rows.iter().filter(|r| r.agrees).count(), rows.len()));
    out
}

/// Bursts that stand for this many runs: the published proportion.
pub fn bursts_of(runs: usize) -> usize {
    (runs / 4).max(20)
}
