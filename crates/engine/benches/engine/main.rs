//! How fast scripts start, call and fan out, and how little a hostile one is noticed, on this machine. Prints one line per figure and writes
//! the same to `target/bench/engine.json`; no threshold here decides anything. `scripts/bench engine`, or `cargo bench --bench engine`.
mod host;
#[path = "../../tests/engine/hostile_rows.rs"]
#[allow(dead_code)] // how a row may end is the test's business
mod hostile_rows;
mod loops;
mod report;

use std::time::Duration;

use engine::ChildVm;
use serde_json::json;

use host::run;
use report::{Report, in_node, median, ms};

const PROGRAM: &str = env!("CARGO_BIN_EXE_graph-vm");

fn main() {
    let mut report = Report::new();
    many_threads(&mut report);
    loops::measure(&mut report);
    report.write(PROGRAM);
}

#[tokio::main]
async fn many_threads(report: &mut Report) {
    starts(report).await;
    let vm = ChildVm::new(PROGRAM.into());
    calls(report, &vm).await;
    fleet_of_500(report, &vm).await;
    beside_node(report, &vm).await;
}

/// From `run_fleet_script` to the script's first host call.
async fn starts(report: &mut Report) {
    const ROUNDS: usize = 60;
    const FIRST_CALL: &str = "await tool('echo', {})";
    let mut cold = Vec::new();
    for _ in 0..ROUNDS {
        // A fresh one has no spare process.
        cold.extend(run(&ChildVm::new(PROGRAM.into()), FIRST_CALL).await.to_first_call);
    }
    report.line("start_cold_ms", "start to first host call, cold", json!(ms(median(&mut cold))), "ms median (target 20)");
    let vm = ChildVm::new(PROGRAM.into());
    run(&vm, FIRST_CALL).await;
    let mut spare = Vec::new();
    for _ in 0..ROUNDS {
        // The spare is started beside the last script; it gets the time to come up that an owner would give it.
        tokio::time::sleep(Duration::from_millis(50)).await;
        spare.extend(run(&vm, FIRST_CALL).await.to_first_call);
    }
    report.line("start_spare_ms", "start to first host call, with a spare", json!(ms(median(&mut spare))), "ms median (target 5)");
}

async fn calls(report: &mut Report, vm: &ChildVm) {
    const CALLS: u32 = 5_000;
    let took = run(vm, &format!("for (let i = 0; i < {CALLS}; i++) await tool('echo', {{i}})")).await.took;
    report.line("host_call_us", "one host call after another", json!(took.as_secs_f64() * 1e6 / f64::from(CALLS)), "µs each");
    let ran = run(vm, "for (let i = 0; i < 9000; i++) log('line ' + i)").await;
    report.line("events_per_s", "events", json!((ran.events.len() as f64 / ran.took.as_secs_f64()).round()), "a second");
}

/// The largest fleet there may be, in one execution: an agent of it must not be slower than one of a small fleet, nor the last slower than
/// the first. Agents at once end in clumps, so only whole fleets are compared there; one after another they can be told apart.
async fn fleet_of_500(report: &mut Report, vm: &ChildVm) {
    const ROUNDS: usize = 7;
    for agents in [50_u32, 500] {
        let mut whole = Vec::new();
        for _ in 0..ROUNDS {
            let ran = run(vm, &format!("await parallel(Array.from({{length: {agents}}}, (_, i) => () => agent('say ' + i)))")).await;
            // From the first to the last, so without the script's start.
            if let [first, .., last] = ran.agents_ended.as_slice() {
                whole.push((*last - *first) / (agents - 1));
            }
        }
        let key = format!("parallel_{agents}_agent_us");
        report.line(&key, &format!("parallel({agents}) of trivial agents"), json!(ms(median(&mut whole)) * 1000.0), "µs an agent, median");
    }
    let (mut first, mut last) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let ended = run(vm, "for (let i = 0; i < 500; i++) await agent('say ' + i)").await.agents_ended;
        if let (Some(head), Some(tail)) = (ended.get(..50), ended.get(450..500)) {
            first.push((head[49] - head[0]) / 49);
            last.push((tail[49] - tail[0]) / 49);
        }
    }
    report.line("first_50_agents_us", "500 agents in a row, the first 50", json!(ms(median(&mut first)) * 1000.0), "µs an agent, median");
    report.line("last_50_agents_us", "500 agents in a row, the last 50", json!(ms(median(&mut last)) * 1000.0), "µs an agent, median");
}

async fn beside_node(report: &mut Report, vm: &ChildVm) {
    for (key, what, source) in [
        ("loop_1e6", "a million rounds of a loop", "let n = 0; for (let i = 0; i < 1e6; i++) n += i; return n"),
        (
            "lists_1e5",
            "100,000 map, filter, sort, reduce",
            "return Array.from({length: 1e5}, (_, i) => (i * 7919) % 100003).map(x => x * 2).filter(x => x % 3).sort((a, b) => a - b).reduce((a, b) => a + b, 0)",
        ),
        (
            "json_500kb",
            "JSON there and back, 500 KB",
            "const s = JSON.stringify(Array.from({length: 1e4}, (_, i) => ({i, name: 'item ' + i, tags: ['a', 'b']}))); return JSON.parse(s).length",
        ),
        ("await_1e5", "100,000 awaits of nothing", "for (let i = 0; i < 1e5; i++) await null; return 1"),
    ] {
        let took = ms(run(vm, source).await.took);
        let node = in_node(source).map(ms);
        let beside = node.map_or("ms, no Node here".to_owned(), |n| format!("ms, in Node {n:.1} ms"));
        report.line(&format!("{key}_ms"), what, json!(took), &beside);
        report.keep(&format!("{key}_in_node_ms"), json!(node));
    }
}
