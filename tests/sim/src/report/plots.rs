//! The five pictures of the report.
use super::svg::{Anchor, Plot, Scale};
use crate::{
    advice::Advice,
    findings::{Findings, Ran, Watched},
    stats::{Sample, number},
    strategy::Strategy,
};

pub const PICKUP_TEXT: &str = "Nobody can connect to a desktop, so it has to ask. Asking every 20 s makes a wait of anything up to 20 s, all equally likely. \
     A request that the server holds open until there is work makes it the time the news travels.";
pub const BURST_TEXT: &str = "One desktop is one worker: runs that are queued together follow one another, and the last result comes when all have run. \
     The wait for pickup happens once. Parallel work belongs inside one Graph.";
pub const DELAY_TEXT: &str = "Each shape shows how the delay between the end of a run and the answer that tells of it is distributed; the tick is its mean, \
     the number the calls a run takes. A backed-off client has reached its cap when a run of a minute ends, and learns it as late as one that asks every 30 s.";
pub const FRONTIER_TEXT: &str = "Each line is a family of strategies over the simulated runs, each dot one that was really played. Lower left is better. \
     Polling trades one for the other; a held question (wait_seconds) leaves the trade.";

fn ticks(values: &[f64]) -> Vec<(f64, String)> {
    values
        .iter()
        .map(|v| {
            (
                *v,
                number(
                    *v,
                    if v.fract() == 0.0 {
                        0
                    } else if *v < 0.1 {
                        2
                    } else {
                        1
                    },
                ),
            )
        })
        .collect()
}

fn borrowed(ticks: &[(f64, String)]) -> Vec<(f64, &str)> {
    ticks.iter().map(|(v, t)| (*v, t.as_str())).collect()
}

/// Share of the sample per bin.
fn bins(sample: &Sample, width: f64, count: usize) -> Vec<f64> {
    let mut shares = vec![0.0; count];
    for value in sample.sorted() {
        shares[((value / width) as usize).min(count - 1)] += 1.0 / sample.len() as f64;
    }
    shares
}

pub fn pickup(f: &Findings) -> String {
    let [polled, rung] = f.waits.each_ref().map(|w| Sample::of_ms(w.wait_ms.iter().copied()));
    let mut out = String::new();
    for (sample, class, name, top) in [(&polled, "polled", "asks every 20 s", 0.12), (&rung, "bell", "doorbell", 1.0)] {
        let mut plot = Plot::new(190.0, [48.0, 30.0, 24.0, 40.0], Scale::Linear { from: 0.0, to: 20.0 }, Scale::Linear { from: 0.0, to: top });
        plot.x_axis(&borrowed(&ticks(&[0.0, 5.0, 10.0, 15.0, 20.0])), "seconds from ticket to start");
        let shares = [top / 2.0, top].map(|s| (s, format!("{} %", number(s * 100.0, 0))));
        plot.y_axis(&borrowed(&shares), &format!("share of runs, {name}"));
        for (i, share) in bins(sample, 0.5, 40).into_iter().enumerate().filter(|(_, s)| *s > 0.0) {
            let from = i as f64 * 0.5;
            plot.bar([from + 0.03, from + 0.47], [0.0, share], class, &format!("{from}–{} s: {} %", from + 0.5, number(share * 100.0, 1)));
        }
        let says = format!("mean {} s, 95 of 100 within {} s", number(sample.mean(), 2), number(sample.p95(), 2));
        let (at, shift, anchor) = if class == "bell" { ((0.7, top), (0.0, 16.0), Anchor::Start) } else { ((20.0, top), (0.0, 14.0), Anchor::End) };
        plot.label(at, shift, anchor, "says", &says);
        out += &plot.finish(&format!("Pickup wait, {name}: {says}"));
    }
    out
}

/// The burst whose last result is nearest to the median of all bursts.
fn typical(bursts: &[Vec<Ran>]) -> Option<&Vec<Ran>> {
    let last = |b: &Vec<Ran>| b.iter().map(|r| r.ended_ms).max().unwrap_or(0);
    let median = Sample::of_ms(bursts.iter().map(last)).median() * 1000.0;
    bursts.iter().min_by_key(|b| (last(b) as f64 - median).abs() as u64)
}

pub fn bursts(f: &Findings) -> String {
    let shown: Vec<&Vec<Ran>> = f.bursts.iter().filter_map(|b| typical(&b[2].bursts)).collect();
    let longest = shown.iter().flat_map(|b| b.iter().map(|r| r.ended_ms)).max().unwrap_or(1) as f64 / 1000.0;
    let to = (longest / 100.0).ceil().max(1.0) * 100.0;
    let mut out = String::new();
    for (burst, (class, name)) in shown.iter().zip([("polled", "asks every 20 s"), ("bell", "doorbell")]) {
        let mut runs = (*burst).clone();
        runs.sort_by_key(|r| r.started_ms);
        let rows = runs.len() as f64;
        let mut plot =
            Plot::new(66.0 + rows * 20.0, [48.0, 30.0, 24.0, 36.0], Scale::Linear { from: 0.0, to }, Scale::Linear { from: rows, to: 0.0 });
        let step = if to > 600.0 { 200.0 } else { 100.0 };
        let marks: Vec<f64> = (0..=(to / step) as u64).map(|i| i as f64 * step).collect();
        plot.x_axis(&borrowed(&ticks(&marks)), "seconds since the five were queued");
        plot.y_axis(&[], &format!("a typical burst, {name}"));
        for (i, run) in runs.iter().enumerate() {
            let (start, end, row) = (run.started_ms as f64 / 1000.0, run.ended_ms as f64 / 1000.0, i as f64);
            plot.bar([0.0, start], [row + 0.62, row + 0.42], "waits", &format!("queued for {} s", number(start, 1)));
            plot.bar([start, end], [row + 0.85, row + 0.19], class, &format!("runs for {} s", number(end - start, 1)));
            plot.label((0.0, row + 0.5), (-8.0, 4.0), Anchor::End, "tick", &(i + 1).to_string());
            if end < to * 0.9 {
                plot.label((end, row + 0.5), (6.0, 4.0), Anchor::Start, "tick", &format!("{} s", number(end, 0)));
            }
        }
        out += &plot.finish(&format!("Timeline of five runs queued at once, {name}"));
    }
    out
}

pub fn delays(f: &Findings) -> String {
    let mut shown: Vec<(&Watched, &str)> = f.polled[0].watched.iter().filter(|w| w.strategy.hold_s() == 0).map(|w| (w, "polled")).collect();
    shown.extend(f.polled[1].watched.iter().filter(|w| w.strategy.hold_s() > 0).map(|w| (w, "held")));
    let rows = shown.len() as f64;
    let mut plot =
        Plot::new(80.0 + rows * 54.0, [176.0, 40.0, 90.0, 40.0], Scale::Linear { from: 0.0, to: 30.0 }, Scale::Linear { from: rows, to: 0.0 });
    plot.x_axis(&borrowed(&ticks(&[0.0, 5.0, 10.0, 15.0, 20.0, 25.0, 30.0])), "seconds from the end of the run to the answer that tells it");
    plot.label((30.0, 0.0), (80.0, -12.0), Anchor::End, "name", "calls a run");
    for (i, (watched, class)) in shown.iter().enumerate() {
        let (delay, floor) = (Sample::of_ms(watched.delay_ms.iter().copied()), i as f64 + 0.9);
        let calls = Sample::of(watched.calls.iter().map(|c| *c as f64));
        let shares = bins(&delay, 1.0, 30);
        let tallest = shares.iter().copied().fold(0.02, f64::max);
        for (s, share) in shares.iter().enumerate().filter(|(_, share)| **share > 0.0) {
            // Taller than half the row only for the sharpest: areas stay comparable enough, and flat ones visible.
            let height = (share / tallest).sqrt() * 0.75 * (tallest / 0.5).min(1.0).powf(0.35);
            let title = format!("{s}–{} s: {} %", s + 1, number(share * 100.0, 1));
            plot.bar([s as f64 + 0.06, s as f64 + 0.94], [floor, floor - height], class, &title);
        }
        let mean = delay.mean();
        plot.line(&[(mean, floor + 0.06), (mean, floor - 0.2)], "mean");
        plot.label((0.0, floor), (-12.0, -8.0), Anchor::End, "row", &watched.strategy.to_string());
        plot.label((30.0, floor), (80.0, -8.0), Anchor::End, "row", &number(calls.mean(), 1));
    }
    plot.finish("Distribution of the detection delay for each polling strategy")
}

pub fn frontier(f: &Findings, advice: &Advice) -> String {
    let mut plot = Plot::new(440.0, [56.0, 36.0, 28.0, 44.0], Scale::Log { from: 1.0, to: 100.0 }, Scale::Log { from: 0.02, to: 100.0 });
    plot.x_axis(&borrowed(&ticks(&[1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0])), "calls a run, mean");
    plot.y_axis(&borrowed(&ticks(&[0.02, 0.1, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0])), "seconds until the client knows, mean");
    for (class, family) in ["fixed", "backed", "waited"].iter().zip(&advice.families) {
        let points: Vec<(f64, f64)> = family.points.iter().map(|p| (p.calls, p.delay_s)).collect();
        plot.line(&points, class);
        if let Some((x, y)) = points.last() {
            // The line of the fixed pace begins below that of the waiting one.
            let shift = if *class == "fixed" { (0.0, 20.0) } else { (8.0, -6.0) };
            plot.label((*x, *y), shift, Anchor::Start, class, family.name);
        }
    }
    let polled = f.polled[0].watched.iter().filter(|w| w.strategy.hold_s() == 0).map(|w| (w, "polled"));
    let held = f.polled[1].watched.iter().filter(|w| w.strategy.hold_s() > 0).map(|w| (w, "held"));
    for (watched, class) in polled.chain(held) {
        let calls = Sample::of(watched.calls.iter().map(|c| *c as f64)).mean();
        let delay = Sample::of_ms(watched.delay_ms.iter().copied()).mean();
        let title = format!("{}: {} calls, {} s", watched.strategy, number(calls, 1), number(delay, 2));
        plot.dot(calls, delay.max(0.02), 5.0, class, &title);
        let (shift, anchor) = match watched.strategy {
            Strategy::BackOff { .. } => ((9.0, -7.0), Anchor::Start),
            Strategy::WaitThen { .. } => ((-9.0, 14.0), Anchor::End),
            Strategy::Every { .. } | Strategy::Hold { .. } => ((9.0, 4.0), Anchor::Start),
        };
        plot.label((calls, delay.max(0.02)), shift, anchor, "row", &watched.strategy.to_string());
    }
    plot.finish("Calls a run against detection delay, on logarithmic axes")
}
