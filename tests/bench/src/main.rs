//! `make bench`: the shipped release programs, measured over loopback. Figures of one run are compared with each other (ratios), never
//! with a threshold in a test: machines differ, and so do their disks. Writes `target/bench/report.json` and prints the same.
#![allow(clippy::unwrap_used, clippy::expect_used)] // a measurement that cannot be made must stop, loudly
mod bare;
mod desk;
mod doorbells;
mod load;
mod log;
mod postgres;
mod programs;
mod queue;
mod setting;
mod stats;

use serde_json::{Value, json};

use stats::fsync_ms;

/// What a run without words measures.
const PARTS: [&str; 4] = ["queue", "postgres", "doorbells", "desk"];
/// Only where it is asked for: it takes minutes.
const LOG: &str = "log";

#[tokio::main]
async fn main() {
    let only = std::env::args().nth(1);
    if only.as_deref() == Some(bare::WORD) {
        return bare::serve().await;
    }
    if let Some(only) = only.as_deref().filter(|only| *only != LOG && !PARTS.contains(only)) {
        eprintln!("graph-bench knows no part {only}; it knows {}, {LOG}", PARTS.join(", "));
        std::process::exit(2);
    }
    let fsync = fsync_ms(200);
    println!("this machine: one fsync takes {} (median), {} (p95)", stats::ms(fsync.p50), stats::ms(fsync.p95));
    // One part alone replaces its part of the last report.
    let path = programs::release_dir().parent().unwrap().join("bench/report.json");
    let mut report =
        if only.is_some() { std::fs::read(&path).ok().and_then(|r| serde_json::from_slice(&r).ok()).unwrap_or(json!({})) } else { json!({}) };
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    report["machine"] = json!({"fsync_ms": fsync.to_json(), "cores": cores});
    for part in only.as_deref().map_or(PARTS.to_vec(), |only| vec![only]) {
        report[part] = match part {
            "queue" => queue::measure(fsync.p50).await,
            "postgres" => queue::on_postgres().await,
            LOG => log::check().await,
            "doorbells" => doorbells::measure(10_000).await,
            _ => desk::measure(fsync.p50).await,
        };
        write(&path, &report);
    }
    println!("\nwritten to {}", path.display());
}

fn write(path: &std::path::Path, report: &Value) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, serde_json::to_string_pretty(report).unwrap() + "\n").unwrap();
}
