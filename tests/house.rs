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
        ("graph-bench", &["domain"]),
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
        let only = |library: &str, homes: &[&str]| {
            assert!(homes.contains(&name.as_str()) || !needs.iter().any(|n| n == library), "{library} belongs in {homes:?}, not in {name}");
        };
        only("tauri", &["graph-desk"]);
        only("axum", &["server", "graph-bench"]); // what the queue is measured against is served as others serve it
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

fn text_of(file: &str) -> String {
    std::fs::read_to_string(Path::new(ROOT).join(file)).unwrap()
}

/// Files of shipped Rust code, without their inline tests.
fn shipped() -> impl Iterator<Item = (String, String)> {
    let is_shipped = |f: &String| f.ends_with(".rs") && f.contains("src/") && !f.starts_with("tests/") && !f.contains("/tests/");
    tracked_files().into_iter().filter(is_shipped).map(|file| {
        let text = text_of(&file);
        let code = text.split_once("#[cfg(test)]\nmod ").map_or(text.as_str(), |(code, _)| code).to_owned();
        (file, code)
    })
}

/// Invariant 1.
#[test]
fn only_the_programs_and_what_they_hand_out_read_a_clock_draw_randomness_or_open_a_socket() {
    // Files that hold the real thing; a program makes it and hands it on.
    let real: &[(&str, &[&str])] = &[
        ("SystemTime::now", &["crates/device/src/net.rs", "server/src/bin/"]),
        ("getrandom::", &["crates/device/src/net.rs", "crates/device/src/real.rs", "server/src/bin/"]),
        ("Uuid::new_v4", &[]),
        ("rand::rng", &[]),
        ("TcpListener::bind", &["server/src/bin/", "src-tauri/src/builtin.rs"]),
        ("UnixListener::bind", &["crates/device/src/desk/control.rs"]),
        ("UnixStream::connect", &["crates/device/src/desk/control.rs"]),
        ("TcpStream::connect", &[]),
        (
            "reqwest::Client::builder",
            &[
                "crates/device/src/net.rs",
                "crates/agent/src/model/provider.rs",
                "crates/agent/src/tools/",
                "server/src/oauth/documents.rs",
                "server/src/bin/",
            ],
        ),
    ];
    for (file, code) in shipped() {
        let lines = code.lines().filter(|line| !line.trim_start().starts_with("//"));
        for line in lines {
            for (word, homes) in real.iter().filter(|(word, _)| line.contains(word)) {
                assert!(homes.iter().any(|home| file.starts_with(home)), "{file} uses {word} itself; it is to be handed it: {line}");
            }
        }
    }
}

/// Invariant 8.
#[test]
fn of_the_domains_types_only_those_of_the_wire_are_serialised() {
    for (file, code) in shipped().filter(|(file, _)| file.starts_with("crates/domain/src/") && !file.starts_with("crates/domain/src/wire")) {
        for line in code.lines().filter(|line| line.contains("derive(")) {
            assert!(!line.contains("Serialize") && !line.contains("Deserialize"), "{file}: {line}");
        }
    }
}

#[test]
fn every_invariant_is_named_by_a_test() {
    let listed = text_of("ARCHITECTURE.md").split_once("## Invariants").unwrap().1.split_once("## ").unwrap().0.to_owned();
    let count = listed.lines().filter(|line| line.split_once(". ").is_some_and(|(n, _)| n.parse::<u32>().is_ok())).count();
    assert_eq!(count, 11, "the list of ARCHITECTURE.md");
    let tests: Vec<String> = tracked_files().iter().filter(|f| f.ends_with(".rs")).map(|f| text_of(f)).collect();
    for n in 1..=count {
        let names = |text: &&String| text.contains(&format!("/// Invariant {n}.")) || text.contains(&format!("//! Invariant {n}:"));
        assert!(tests.iter().any(|text| names(&text)), "no test names invariant {n}");
    }
}
