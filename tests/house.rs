//! The rules of the house that a machine can check: the arrows between crates, and what the repository may not hold.
#![allow(clippy::unwrap_used, clippy::expect_used)]
use std::{collections::BTreeMap, path::Path, process::Command};

use serde_json::Value;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

fn metadata() -> Value {
    let out = Command::new(env!("CARGO")).args(["metadata", "--format-version=1", "--no-deps", "--locked"]).current_dir(ROOT).output().unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    serde_json::from_slice(&out.stdout).unwrap()
}

/// Direct dependencies that reach the shipped code: name → names.
fn arrows() -> BTreeMap<String, Vec<String>> {
    let text = |v: &Value| v.as_str().unwrap().to_owned();
    let mut all = BTreeMap::new();
    for package in metadata()["packages"].as_array().unwrap() {
        let shipped = package["dependencies"].as_array().unwrap().iter().filter(|d| d["kind"].as_str() != Some("dev")).map(|d| text(&d["name"]));
        all.insert(text(&package["name"]), shipped.collect());
    }
    all
}

#[test]
fn a_crate_names_only_what_stands_to_its_left() {
    // domain ← {engine, agent} ← device ← src-tauri; domain ← server; src-tauri may embed the server as the built-in queue.
    let allowed: BTreeMap<&str, &[&str]> = [
        ("domain", &[][..]),
        ("engine", &["domain"]),
        ("agent", &["domain"]),
        ("device", &["domain", "engine", "agent"]),
        ("server", &["domain"]),
        ("graph-desk", &["domain", "engine", "agent", "device", "server"]),
        ("graph-bench", &[]),
        ("graph-sim", &["domain", "device", "server"]),
    ]
    .into();
    let arrows = arrows();
    let ours: Vec<&str> = arrows.keys().map(String::as_str).collect();
    for (name, needs) in &arrows {
        let may = allowed.get(name.as_str()).unwrap_or_else(|| panic!("{name} is a new crate: say here what it may name"));
        for need in needs.iter().filter(|need| ours.contains(&need.as_str())) {
            assert!(may.contains(&need.as_str()), "{name} may not name {need}");
        }
        let only =
            |library: &str, home: &str| assert!(name == home || !needs.iter().any(|n| n == library), "{library} belongs in {home}, not in {name}");
        only("tauri", "graph-desk");
        only("axum", "server");
    }
}

fn tracked_files() -> Vec<String> {
    let out = Command::new("git").args(["ls-files", "-z"]).current_dir(ROOT).output().unwrap();
    String::from_utf8(out.stdout).unwrap().split('\0').filter(|f| !f.is_empty()).map(str::to_owned).collect()
}

#[test]
fn lock_files_name_no_download_address_of_a_front_end_package() {
    for file in tracked_files().iter().filter(|f| f.ends_with("package-lock.json")) {
        let lock: Value = serde_json::from_slice(&std::fs::read(Path::new(ROOT).join(file)).unwrap()).unwrap();
        for (name, package) in lock["packages"].as_object().unwrap() {
            assert!(package.get("resolved").is_none_or(|r| !r.as_str().unwrap().contains("://")), "{file}: {name} has an address");
        }
    }
}

#[test]
fn only_the_platform_folder_of_the_window_names_its_host() {
    for file in tracked_files().iter().filter(|f| f.starts_with("ui/src/") && (f.ends_with(".ts") || f.ends_with(".svelte"))) {
        let text = std::fs::read_to_string(Path::new(ROOT).join(file)).unwrap();
        // The window's own test of its tiers says these words without meaning them.
        let may = file.starts_with("ui/src/platform/") || file.starts_with("ui/src/testing/");
        assert!(may || !text.contains("@tauri-apps"), "{file} imports @tauri-apps");
        assert!(file.starts_with("ui/src/testing/") || !text.contains("{@html"), "{file}: what owners and agents write is text, never markup");
    }
}

#[test]
fn no_test_is_switched_off() {
    let marks = ["#[ignore", "it.skip(", "test.skip(", "describe.skip(", "it.only(", "test.only(", "describe.only(", "todo!("];
    for file in tracked_files().iter().filter(|f| *f != "tests/house.rs" && [".rs", ".ts", ".svelte"].iter().any(|end| f.ends_with(end))) {
        let text = std::fs::read_to_string(Path::new(ROOT).join(file)).unwrap();
        for mark in marks {
            assert!(!text.contains(mark), "{file} contains {mark}");
        }
    }
}
