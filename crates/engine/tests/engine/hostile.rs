//! Scripts that loop, recurse, allocate or nest without end: the execution fails in words, nothing else notices.
//!
//! All against the real script process. C37, C38 and the hang rows of `facts/boa.md`.
use std::time::{Duration, Instant};

use domain::{FailReason, Outcome, wire::event::FleetWhat};

use super::{
    hostile_rows::{Row, rows},
    support::{Run, shown},
};
use engine::StopWhy;
use futures::StreamExt;

/// Longest any of them may take. The reasons are the claim; this only keeps a hang from being one. `make bench` measures the ten seconds.
const AT_MOST: Duration = Duration::from_secs(120);

/// What is wrong with how a script ended, if anything.
fn wrong(row: &Row, outcome: &Outcome) -> Option<String> {
    let is_right = match outcome {
        Outcome::Failed { why, error, .. } => row.reasons.contains(why) && error.len() > 10,
        Outcome::Completed { .. } => row.may_end_well,
        Outcome::Cancelled { .. } => false,
    };
    (!is_right).then(|| format!("{}: {}\n  allowed {:?}: {}", row.name, shown(outcome), row.reasons, row.why))
}

/// Prints the table that reports show: script, time, outcome.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_hostile_script_ends_in_words_while_another_execution_goes_on() {
    let done = std::sync::Arc::new(std::sync::atomic::AtomicU64::new(0));
    let counted = std::sync::Arc::clone(&done);
    let beside = tokio::spawn(async move {
        let run = Run::in_child();
        loop {
            let outcome = run.run("const a = await parallel([() => tool('echo', {n: 1}), () => agent('say b')]); return a").await;
            assert_eq!(shown(&outcome), r#"= [{"n":1},"b"]"#);
            run.host.events.lock().unwrap().clear();
            counted.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        }
    });
    let all = futures::stream::iter(rows()).map(|row| async move {
        let began = Instant::now();
        // Less patience than the product's where patience may end a script (that the product's own does is a test below), and more where
        // it may not: then a slow machine changes nothing.
        let run = Run::in_child().set(|s| s.busy_ms = if row.reasons.contains(&FailReason::Stalled) { 1_500 } else { 60_000 });
        let outcome = tokio::time::timeout(AT_MOST, run.run(&row.source)).await;
        (row, began.elapsed(), outcome)
    });
    let ended: Vec<_> = all.buffered(4).collect().await;
    let (mut table, mut all_wrong) = (String::new(), Vec::new());
    for (row, took, outcome) in ended {
        let seen = outcome.as_ref().map_or("still running".to_owned(), shown);
        table.push_str(&format!("{:<34} {:>6} ms  {}\n", row.name, took.as_millis(), domain::text::cut_chars(&seen, 110)));
        all_wrong.extend(outcome.map_or(Some(format!("{}: still running", row.name)), |outcome| wrong(&row, &outcome)));
    }
    println!("{table}");
    println!("beside them another execution was run {} times", done.load(std::sync::atomic::Ordering::SeqCst));
    assert!(!beside.is_finished(), "the other execution went on undisturbed");
    beside.abort();
    assert!(all_wrong.is_empty(), "{}", all_wrong.join("\n"));
}

/// What the owner is told of a script that never ends: where it was last seen, and never a place that nobody knows.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_script_that_never_ends_is_reported_where_it_was_last_seen() {
    let rows = [
        ("const a = 1;\n\nwhile (true) {}", Some(3), "Probably this loop:"),
        ("const before = 1;\nconst spin = () => {\n  for (;;) {}\n};\nspin();", Some(3), "Probably this loop:"),
        ("log('a');\nlog('b');\n\nwhile (true) {}", Some(4), "Probably this loop:"),
        ("await tool('echo', {});\nconst b = 2;\nlog('on');\nwhile (true) {}", Some(3), "It was last seen at line 3"),
        ("await null;\nwhile (true) {}", None, "never ends"),
        ("const late = agent('wait 30 x');\nawait tool('echo', {});\nawait late;\nwhile (true) {}", Some(1), "It was last seen at line 1"),
        ("return Array.prototype.indexOf.call({ length: 2**53 - 1 }, 1)", None, "never ends"),
    ];
    let ran = futures::future::join_all(rows.map(|row| async move {
        let run = Run::in_child().set(|s| s.busy_ms = 2_000);
        let outcome = run.run(row.0).await;
        (row, run, outcome)
    }));
    for ((source, line, words), run, outcome) in ran.await {
        let Outcome::Failed { why: FailReason::Stalled, error, .. } = outcome else { panic!("{source}: {outcome:?}") };
        let told = run.host.story().into_iter().find_map(|e| if let FleetWhat::FleetFinished { line, .. } = e { Some(line) } else { None });
        assert_eq!(told, Some(line), "{source}\n{error}");
        assert!(error.contains(words) && !error.contains("line 1, column 1"), "{source}\n{error}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_loop_ends_by_the_limits_of_the_product_with_its_line() {
    let outcome = Run::in_child().run("const a = 1;\nfor (;;) {}").await;
    let Outcome::Failed { why: FailReason::Stalled, error, .. } = outcome else { panic!("{outcome:?}") };
    assert!(error.starts_with("The script worked for 8 seconds without coming back; it probably never ends."), "{error}");
    assert!(error.ends_with("    2 | for (;;) {}\n      | ^"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_ends_whatever_the_script_does() {
    for source in [
        "log('on'); while(true){}",
        "log('on'); for(;;) await null",
        "log('on'); await agent('never')",
        "log('on'); await tool('never', {})",
        "log('on'); await sleep(1000)",
        "log('on'); await ask('wait')",
        "log('on'); try { await agent('never') } finally { while(true){} }",
        "log('on'); new Array(2**32 - 1).fill(0)",
        "log('on'); /^(a+)+$/.test('a'.repeat(60) + 'b')",
        "log('on'); await parallel(Array.from({length: 50}, () => () => agent('never')))",
        "log('on'); await graph('inner')",
    ] {
        let run = Run::in_child().graph("inner", "await agent('never')");
        let fleet = run.fleet();
        let began = std::sync::Mutex::new(None);
        let stop = async {
            run.host.saw(|e| matches!(e, domain::wire::event::FleetWhat::Log { .. })).await;
            *began.lock().unwrap() = Some(Instant::now());
            fleet.stop(StopWhy::Asked);
        };
        let (outcome, ()) = tokio::join!(run.run_in(&fleet, source), stop);
        let took = began.lock().unwrap().unwrap().elapsed();
        assert_eq!(shown(&outcome), "cancelled: stopped", "{source}");
        eprintln!("{source}: stopped in {took:?}");
        let story = run.host.story();
        assert!(matches!(story.last(), Some(domain::wire::event::FleetWhat::FleetFinished { .. })), "{source}");
        let (queued, finished) = story.iter().fold((0, 0), |(q, f), e| match e {
            domain::wire::event::FleetWhat::AgentQueued { .. } => (q + 1, f),
            domain::wire::event::FleetWhat::AgentFinished { .. } => (q, f + 1),
            _ => (q, f),
        });
        assert_eq!(queued, finished, "every agent's end is told: {source}");
    }
}

#[tokio::test]
async fn a_stop_before_the_start_runs_nothing() {
    let run = Run::in_child();
    let fleet = run.fleet();
    fleet.stop(StopWhy::Owner);
    assert_eq!(shown(&run.run_in(&fleet, "log('ran')").await), "cancelled: owner_stopped");
    assert_eq!(run.host.story().len(), 2, "only the first and the last event");
}

#[tokio::test]
async fn a_missing_script_process_is_said_in_words() {
    let run = Run::with(std::sync::Arc::new(engine::ChildVm::new("/nowhere/graph-vm".into())));
    let outcome = shown(&run.run("return 1").await);
    assert!(outcome.starts_with("script_error: the script process /nowhere/graph-vm could not be started"), "{outcome}");
}
