//! The log file of the database under a million writes with polling readers, and after a reader that held an old state for minutes
//! (case C49). No measurement: it stops where the file is larger than promised. Takes some ten minutes, so it is a part of `make long`.
use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::{
    load::load,
    programs, queue,
    setting::{Setting, client},
};

/// Each run is queued and cancelled: two writes.
const RUNS: usize = 500_000;
const CALLERS: usize = 32;
const READERS: usize = 4;
const LOG_BYTES_MAX: u64 = 64 * 1024 * 1024;
const HELD: Duration = Duration::from_secs(300);
const BACK_WITHIN: Duration = Duration::from_secs(60);

pub async fn check() -> Value {
    let dir = tempfile::tempdir_in(programs::scratch()).unwrap();
    let database = dir.path().join("queue.db");
    let (_queue, base) = queue::start(dir.path());
    let setting = Setting::make(&base, &programs::pairing_code(database.to_str().unwrap())).await;
    let command = setting.enqueue("bench-one-to-read").await;
    let readers: Vec<_> = (0..READERS).map(|_| tokio::spawn(poll(setting.clone(), command.clone()))).collect();
    let largest = Arc::new(AtomicU64::new(0));
    let watch = tokio::spawn(watch(dir.path().join("queue.db-wal"), largest.clone()));

    let s = setting.clone();
    let (_, rate) = load(CALLERS, RUNS / CALLERS, move |n| run_and_cancel(s.clone(), format!("write-{n:08}"))).await;
    let under_load = largest.load(Ordering::Relaxed);
    println!("\nLog file: at most {} MiB over {} writes ({:.0}/s, {READERS} readers)", mib(under_load), 2 * RUNS, 2.0 * rate);
    assert!(under_load < LOG_BYTES_MAX, "the log file grew to {} MiB", mib(under_load));

    let held = rusqlite::Connection::open(&database).unwrap();
    held.execute_batch("BEGIN; SELECT count(*) FROM commands").unwrap();
    let until = Instant::now() + HELD;
    for n in 0.. {
        if Instant::now() >= until {
            break;
        }
        run_and_cancel(setting.clone(), format!("held-{n:08}")).await;
        tokio::time::sleep(Duration::from_millis(20)).await; // a disk is not filled for the sake of it
    }
    held.execute_batch("COMMIT").unwrap();
    let (grown, freed) = (size(&dir.path().join("queue.db-wal")), Instant::now());
    for n in 0.. {
        if size(&dir.path().join("queue.db-wal")) < LOG_BYTES_MAX {
            break;
        }
        assert!(freed.elapsed() < BACK_WITHIN, "the log file has {} MiB still", mib(size(&dir.path().join("queue.db-wal"))));
        run_and_cancel(setting.clone(), format!("after-{n:08}")).await;
    }
    let back = freed.elapsed().as_secs_f64();
    println!("  {} MiB after a reader of {} s; back under 64 MiB {back:.1} s after it ended", mib(grown), HELD.as_secs());
    readers.iter().for_each(tokio::task::JoinHandle::abort);
    watch.abort();
    json!({"writes": 2 * RUNS, "writes_per_second": 2.0 * rate, "log_mib_max": mib(under_load), "log_mib_held": mib(grown), "back_after_s": back})
}

async fn run_and_cancel(setting: Arc<Setting>, key: String) {
    let command = setting.enqueue(&key).await;
    setting.tool("cancel_graph_run", json!({"command_id": command})).await;
}

/// Reads again and again, as an agent that has not heard of waiting.
async fn poll(setting: Arc<Setting>, command: String) {
    let http = client();
    let own = Setting { http, ..queue::setting_again(&setting) };
    loop {
        own.tool("get_graph_run", json!({"command_id": command})).await;
    }
}

async fn watch(log: PathBuf, largest: Arc<AtomicU64>) {
    loop {
        largest.fetch_max(size(&log), Ordering::Relaxed);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

fn size(file: &std::path::Path) -> u64 {
    std::fs::metadata(file).map_or(0, |it| it.len())
}

fn mib(bytes: u64) -> u64 {
    bytes.div_ceil(1024 * 1024)
}
