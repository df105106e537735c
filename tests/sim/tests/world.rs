//! The simulation as tests: it is deterministic, the published table agrees, and no seed finds a fault.
#![allow(clippy::unwrap_used, clippy::expect_used)]
use std::{
    path::{Path, PathBuf},
    process::{Command, Output},
    time::{Duration, Instant},
};

use domain::limits::{POLL_AFTER_QUEUED_S, POLL_AFTER_RUNNING_S};
use graph_sim::{advice, faults, report::picture, scale, strategy::Strategy};
use serde_json::Value;

/// `graph-sim` in a process of its own, in a time zone and a language that must not matter.
fn graph_sim(args: &[&str], report: &Path, zone: &str, lang: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_graph-sim"));
    command.args(args).env("TZ", zone).env("LANG", lang).env("LC_ALL", lang);
    if args.first() != Some(&"faults") {
        command.arg("--report").arg(report);
    }
    command.output().unwrap()
}

#[test]
fn the_same_seed_prints_the_same_bytes_in_any_time_zone_and_language() {
    let places =
        [("UTC", "C"), ("Asia/Tokyo", "de_DE.UTF-8"), ("America/St_Johns", "fr_FR.UTF-8"), ("Pacific/Chatham", "tr_TR.UTF-8"), ("", "C.UTF-8")];
    for args in [&["--seed", "7", "--runs", "20", "--experiment", "cancel"][..], &["faults", "--from", "3", "--seeds", "1", "--story"]] {
        let folder = tempfile::tempdir().unwrap();
        let outputs = places.map(|(zone, lang)| graph_sim(args, folder.path(), zone, lang));
        let first = String::from_utf8(outputs[0].stdout.clone()).unwrap();
        assert!(first.contains("seed"), "{first}{}", String::from_utf8_lossy(&outputs[0].stderr));
        for output in &outputs[1..] {
            assert_eq!(first, String::from_utf8_lossy(&output.stdout), "{args:?}");
        }
    }
}

#[test]
fn the_published_figures_come_out_again() {
    let folder = tempfile::tempdir().unwrap();
    let output = graph_sim(&[], folder.path(), "UTC", "C");
    let printed = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{printed}");
    println!("{}", String::from_utf8_lossy(&output.stderr));
    let rows: Vec<Value> = serde_json::from_slice(&std::fs::read(folder.path().join("report.json")).unwrap()).unwrap();
    assert_eq!(rows.len(), 20, "{printed}");
    assert!(rows.iter().all(|r| r["agrees"] == true), "{printed}");
    let page = std::fs::read_to_string(folder.path().join("report.html")).unwrap();
    for name in ["polling.md", "polling.svg"] {
        let made = std::fs::read_to_string(folder.path().join(name)).unwrap();
        same(&made, if name.ends_with("svg") { "docs/pictures/polling.svg" } else { "docs/polling.md" });
    }
    assert!(
        page.contains("<svg") && !page.contains("<script") && !page.contains("http://www.") && !page.contains("NaN"),
        "self-contained, and no hole in it"
    );
}

#[test]
fn what_agents_are_advised_is_the_strategy_the_document_derives() {
    let Strategy::WaitThen { wait, every } = advice::TABLE else { panic!("the table is a wait and a pace") };
    assert_eq!((wait, every), (POLL_AFTER_QUEUED_S, POLL_AFTER_RUNNING_S));
}

#[test]
fn the_document_about_scale_follows_from_the_stored_measurements() {
    let report = serde_json::from_slice(&std::fs::read(root().join("tests/fixtures/bench/report.json")).unwrap()).unwrap();
    let costs = scale::Costs::of_bench(&report).unwrap();
    let asked = scale::asked(1).unwrap();
    same(&scale::document(&asked, &costs), "docs/scale.md");
    same(&picture(&scale::drawing(&asked, &costs)), "docs/pictures/scale.svg");
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The stored file says just this. `UPDATE=1` writes it anew.
fn same(made: &str, stored: &str) {
    let path = root().join(stored);
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, made).unwrap();
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(found == made, "{stored} is not what the simulation says today; UPDATE=1 writes it anew:\n{made}");
}

#[test]
fn no_seed_finds_a_fault() {
    let began = Instant::now();
    let searched = faults::search(1, 1_000, Some(Duration::from_secs(120)), &|| began.elapsed());
    println!("{} seeds, {} commands, {} executions", searched.seeds, searched.commands, searched.began);
    if let Some(seed) = searched.failing.first() {
        panic!("{}", faults::cut_down(*seed));
    }
    assert!(searched.seeds >= 300, "only {} seeds in 120 s: too few to mean anything", searched.seeds);
}
