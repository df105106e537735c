//! Each hostile script alone, with the patience of the product: how it ends, when, and how long the host's own loop took to answer meanwhile.
//!
//! The host has one thread here, so that whatever the engine does in it is seen.
use std::time::{Duration, Instant};

use domain::Outcome;
use engine::ChildVm;
use serde_json::json;

use crate::{
    PROGRAM,
    host::{Ran, run},
    hostile_rows::rows,
    report::{Report, ms},
};

pub fn measure(report: &mut Report) {
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else { return };
    let mut table = Vec::new();
    println!("\nhostile scripts                          ends after   host answered within   outcome");
    for row in rows() {
        let (ran, answered) = runtime.block_on(beside_a_ticker(&row.source));
        let outcome = shown(&ran);
        println!("{:<38} {:>9.0} ms {:>16.1} ms   {outcome}", row.name, ms(ran.took), ms(answered));
        table.push(json!({ "script": row.name, "ms": ms(ran.took), "host_answered_within_ms": ms(answered), "outcome": outcome, "why": row.why }));
    }
    let most = |key: &str| table.iter().filter_map(|row| row[key].as_f64()).fold(0.0, f64::max);
    let (longest, slowest) = (most("ms"), most("host_answered_within_ms"));
    println!();
    report.line("hostile_scripts", "hostile scripts", json!(table.len()), "");
    report.line("hostile_longest_ms", "  the longest ended after", json!(longest), "ms (target 10,000)");
    report.line("hostile_host_answered_within_ms", "  the host always answered within", json!(slowest), "ms (target 100)");
    report.keep("hostile", json!(table));
}

/// The longest time between two looks of a task that wants to look every millisecond.
async fn beside_a_ticker(source: &str) -> (Ran, Duration) {
    const EVERY: Duration = Duration::from_millis(1);
    let vm = ChildVm::new(PROGRAM.into());
    let whole = run(&vm, source);
    tokio::pin!(whole);
    let (mut last, mut longest) = (Instant::now(), Duration::ZERO);
    loop {
        tokio::select! {
            biased;
            ran = &mut whole => return (ran, longest),
            () = tokio::time::sleep(EVERY) => {
                longest = longest.max(last.elapsed().saturating_sub(EVERY));
                last = Instant::now();
            }
        }
    }
}

fn shown(ran: &Ran) -> String {
    let words = match &ran.outcome {
        Some(Outcome::Completed { .. }) => "completed".to_owned(),
        Some(Outcome::Failed { why, error, .. }) => format!("{why}: {}", error.lines().next().unwrap_or("")),
        Some(Outcome::Cancelled { why, .. }) => format!("cancelled: {why}"),
        None => "did not run".to_owned(),
    };
    domain::text::cut_chars(&words, 90).to_owned()
}
