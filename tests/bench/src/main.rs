//! `make bench`: the shipped release programs, measured over loopback. Figures of one run are compared with each other (ratios), never
//! with a threshold in a test: machines differ, and so do their disks. Writes `target/bench/report.json` and prints the same.
#![allow(clippy::unwrap_used, clippy::expect_used)] // a measurement that cannot be made must stop, loudly
mod desk;
mod programs;
mod queue;
mod stats;

use serde_json::{Map, Value, json};

use stats::fsync_ms;

#[tokio::main]
async fn main() {
    let only = std::env::args().nth(1);
    let wanted = |name: &str| only.as_deref().is_none_or(|o| o == name);
    let mut report = Map::new();
    let fsync = fsync_ms(200);
    report
        .insert("machine".into(), json!({"fsync_ms": fsync.to_json(), "cores": std::thread::available_parallelism().map(|n| n.get()).unwrap_or(1)}));
    println!("this machine: one fsync takes {} (median), {} (p95)", stats::ms(fsync.p50), stats::ms(fsync.p95));

    if wanted("queue") {
        report.insert("queue".into(), queue::measure().await);
    }
    if wanted("doorbells") {
        report.insert("doorbells".into(), queue::doorbells(10_000).await);
    }
    if wanted("desk") {
        report.insert("desk".into(), desk::measure(fsync.p50).await);
    }
    write(&Value::Object(report));
}

fn write(report: &Value) {
    let dir = programs::release_dir().parent().unwrap().join("bench");
    std::fs::create_dir_all(&dir).unwrap();
    let path = dir.join("report.json");
    std::fs::write(&path, serde_json::to_string_pretty(report).unwrap()).unwrap();
    println!("\nwritten to {}", path.display());
}
