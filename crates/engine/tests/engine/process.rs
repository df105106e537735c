//! The script process itself: ends with its parent, ends with its execution, is started ahead of time.
use std::{
    io::Write,
    process::{Command, Stdio},
    sync::Arc,
};

use super::support::{Run, shown};
use domain::wire::event::FleetWhat;
use engine::{ChildVm, StopWhy};

/// One frame as the parent writes it.
fn frame(json: &str) -> Vec<u8> {
    let mut frame = u32::try_from(json.len()).unwrap().to_le_bytes().to_vec();
    frame.extend(json.as_bytes());
    frame
}

#[test]
fn a_script_process_ends_with_its_parent_even_while_it_loops() {
    for source in ["while(true){}", "await agent('x')", "await new Promise(() => {}); /^(a+)+$/.test('a'.repeat(60) + 'b')"] {
        let mut child =
            Command::new(env!("CARGO_BIN_EXE_graph-vm")).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let start = serde_json::json!({ "Start": {
            "source": source, "args": "{}", "seed": 1, "now_ms": 0, "budget": { "total": 0, "spent": 0, "free": 0 }, "busy_ms": 3_600_000,
        }});
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(&frame(&start.to_string())).unwrap();
        // What a parent's death does to its pipes.
        drop(stdin);
        assert!(child.wait().unwrap().success(), "{source}");
    }
}

#[test]
fn what_is_not_a_frame_ends_the_process() {
    for bytes in [b"GET / HTTP/1.1\r\n\r\n".to_vec(), frame("{}"), frame("nonsense"), vec![1, 2]] {
        let mut child =
            Command::new(env!("CARGO_BIN_EXE_graph-vm")).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(&bytes).unwrap();
        child.wait().unwrap();
    }
}

/// Ids of our living script processes.
#[cfg(target_os = "linux")]
fn script_processes() -> Vec<String> {
    let me = std::process::id().to_string();
    let stats = std::fs::read_dir("/proc").unwrap().filter_map(|entry| std::fs::read_to_string(entry.ok()?.path().join("stat")).ok());
    let ours = stats.filter(|stat| {
        let mut words = stat.rsplit(") ").next().unwrap_or("").split(' ');
        let (state, parent) = (words.next(), words.next());
        stat.contains("(graph-vm)") && state != Some("Z") && parent == Some(me.as_str())
    });
    ours.filter_map(|stat| stat.split(' ').next().map(str::to_owned)).collect()
}

/// One spare may wait for the next script; nothing else stays.
#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_script_process_outlives_its_execution() {
    let run = Run::in_child().graph("inner", "while(true){}");
    for source in ["return 1", "await graph('inner')", "log('on'); while(true){}", "await agent('never')"] {
        let fleet = run.fleet();
        let stop = async {
            if source != "return 1" {
                run.host.saw(|e| matches!(e, FleetWhat::FleetStarted { .. })).await;
                fleet.stop(StopWhy::Owner);
            }
        };
        let (outcome, ()) = tokio::join!(run.run_in(&fleet, source), stop);
        assert!(["= 1", "cancelled: owner_stopped"].contains(&shown(&outcome).as_str()));
    }
    while script_processes().len() > 1 {
        tokio::task::yield_now().await;
    }
}

#[cfg(target_os = "linux")]
fn signal(name: &str, id: &str) {
    Command::new("sh").args(["-c", &format!("kill -{name} {id}")]).stderr(Stdio::null()).status().unwrap();
}

/// Waits for the process that is kept for the next script.
#[cfg(target_os = "linux")]
async fn the_spare(vm: &ChildVm) -> String {
    loop {
        if let Some(id) = vm.spare_id() {
            return id.to_string();
        }
        tokio::task::yield_now().await;
    }
}

#[cfg(target_os = "linux")]
fn in_child() -> (Arc<ChildVm>, Run) {
    let vm = Arc::new(ChildVm::new(env!("CARGO_BIN_EXE_graph-vm").into()));
    (Arc::clone(&vm), Run::with(vm))
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_look_for_syntax_errors_leaves_the_spare_to_the_next_execution() {
    let (vm, run) = in_child();
    assert_eq!(shown(&run.run("return 1").await), "= 1");
    let spare = the_spare(&vm).await;
    for (source, is_right) in [("return 1", true), ("return 1 +", false)] {
        assert_eq!(engine::inspect(source, &*run.vm).await.is_ok(), is_right, "{source}");
    }
    assert_eq!(the_spare(&vm).await, spare);
}

const COUNTS: &str = "log('begins'); const a = await tool('echo', { n: 1 }); log('ends'); return a";

/// A script ran as if nothing had happened: once, and with nothing said about processes.
#[cfg(target_os = "linux")]
fn ran_once(run: &Run, outcome: &domain::Outcome) {
    assert_eq!(shown(outcome), r#"= {"n":1}"#);
    assert_eq!(run.host.tools.lock().unwrap().len(), 1, "its effects happened once");
    let kinds: Vec<String> = run.host.story().iter().map(|e| serde_json::to_value(e).unwrap()["kind"].as_str().unwrap().to_owned()).collect();
    assert_eq!(kinds, ["fleet_started", "log", "log", "fleet_finished"]);
}

/// Whether it is found dead or dies under the hand: what was waiting never costs an execution.
#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_spare_killed_before_it_is_handed_the_script_is_replaced_once_and_silently() {
    let (vm, first) = in_child();
    assert_eq!(shown(&first.run("return 1").await), "= 1");
    for _ in 0..12 {
        let spare = the_spare(&vm).await;
        signal("KILL", &spare);
        // Not waited for: the hand-over meets it dying or dead.
        let run = Run::with(first.vm.clone());
        let outcome = run.run(COUNTS).await;
        ran_once(&run, &outcome);
    }
}

/// The order is written to a living process that dies before it reads it.
#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_spare_killed_at_the_instant_of_the_hand_over_is_replaced_once_and_silently() {
    let (vm, first) = in_child();
    assert_eq!(shown(&first.run("return 1").await), "= 1");
    for _ in 0..4 {
        let spare = the_spare(&vm).await;
        // It stands still: the order can be written, but not be taken.
        signal("STOP", &spare);
        let run = Run::with(first.vm.clone());
        let kill = async {
            run.host.saw(|e| matches!(e, FleetWhat::FleetStarted { .. })).await;
            for _ in 0..100 {
                tokio::task::yield_now().await;
            }
            signal("KILL", &spare);
        };
        let (outcome, ()) = tokio::join!(run.run(COUNTS), kill);
        ran_once(&run, &outcome);
    }
}

/// From the acknowledgement on the script may have acted: then its death is told, in words that fit.
#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_script_killed_at_work_is_not_run_again_and_says_so() {
    let run = Run::in_child();
    let kill = async {
        run.host.saw(|e| matches!(e, FleetWhat::Log { .. })).await;
        for id in script_processes() {
            signal("KILL", &id);
        }
    };
    let (outcome, ()) = tokio::join!(run.run("log('on');\nawait tool('never', {})"), kill);
    let domain::Outcome::Failed { why: domain::FailReason::OutOfMemory, error, .. } = outcome else { panic!("{outcome:?}") };
    assert!(error.starts_with("The script's process was killed by somebody else"), "{error}");
    assert_eq!(run.host.story().iter().filter(|e| matches!(e, FleetWhat::Log { .. })).count(), 1);
}
