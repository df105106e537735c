//! The script process itself: ends with its parent, ends with its execution, is started ahead of time.
use std::{
    io::Write,
    process::{Command, Stdio},
};

use super::support::{Run, shown};
use domain::wire::event::FleetWhat;
use engine::StopWhy;

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
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_spare_that_died_is_replaced() {
    let run = Run::in_child();
    for round in 0..4 {
        assert_eq!(shown(&run.run(&format!("return {round}")).await), format!("= {round}"));
        // Whatever waits is killed, as by a machine short of memory.
        for id in script_processes() {
            Command::new("sh").args(["-c", &format!("kill -9 {id}")]).stderr(Stdio::null()).status().unwrap();
            // Its first thread may be dead before its last one is: only then can its end be seen.
            while std::fs::read_dir(format!("/proc/{id}/task")).is_ok_and(|threads| threads.count() > 1) || script_processes().contains(&id) {
                tokio::task::yield_now().await;
            }
        }
    }
}
