//! Scripts that loop, recurse, allocate or nest without end: the execution fails in words, nothing else notices.
//!
//! All against the real script process. Each row: script, the reasons it may fail with (none: it may also end well). On a slow machine
//! patience may run out first, so `stalled` is always right for a script that runs.
use std::time::{Duration, Instant};

use domain::{FailReason, Outcome};

use super::support::{Run, shown};
use engine::StopWhy;
use futures::StreamExt;

/// Longest any of them may take. The reasons are the claim; this only keeps a hang from being one.
const AT_MOST: Duration = Duration::from_secs(20);

fn rows() -> Vec<(&'static str, String, &'static [FailReason])> {
    use FailReason::{OutOfMemory, ResultNotJson, ScriptError, Stalled, TooDeep};
    let nested = |open: &str, close: &str, n: usize| format!("return {}1{}", open.repeat(n), close.repeat(n));
    vec![
        ("loop", "while(true){}".into(), &[Stalled]),
        ("loop in try", "for(;;){ try { while(true){} } catch {} finally {} }".into(), &[Stalled]),
        ("loop after await", "await null; while(true){}".into(), &[Stalled]),
        ("loop after a call", "await tool('echo', {}); while(true){}".into(), &[Stalled]),
        ("endless await", "for(;;) await null".into(), &[Stalled]),
        ("endless promise chain", "const f = () => Promise.resolve().then(f); await f()".into(), &[Stalled, OutOfMemory]),
        ("nested forEach", "const a = Array(100000).fill(0); a.forEach(() => a.forEach(() => a.forEach(() => 1)))".into(), &[Stalled]),
        ("recursion", "function f(){ f() } f()".into(), &[TooDeep]),
        ("recursion after await", "await null; function f(){ f() } f()".into(), &[TooDeep]),
        ("getter calling itself", "const o = { get x(){ return this.x } }; o.x".into(), &[TooDeep]),
        ("getter calling itself after await", "await null; const o = { get x(){ return this.x } }; o.x".into(), &[TooDeep]),
        ("toString calling itself", "const o = { toString(){ return '' + this } }; return '' + o".into(), &[]),
        ("proxy chain", "let p = {}; for (let i = 0; i < 1000000; i++) p = new Proxy(p, {}); return p.x".into(), &[TooDeep, OutOfMemory, Stalled]),
        ("toJSON making objects", "const f = () => ({ toJSON(){ return { a: f() } } }); return f()".into(), &[ResultNotJson]),
        ("JSON.stringify of toJSON", "const o = { toJSON(){ return { a: o } } }; return JSON.stringify(o)".into(), &[TooDeep, OutOfMemory, Stalled]),
        (
            "JSON.stringify nested",
            "let a = 1; for (let i = 0; i < 200000; i++) a = { a }; return JSON.stringify(a).length".into(),
            &[TooDeep, Stalled],
        ),
        ("String of nested array", "let a = 1; for (let i = 0; i < 500000; i++) a = [a]; return String(a)".into(), &[TooDeep, Stalled]),
        ("endless push", "const a = []; for(;;) a.push({ a: [1, 2, 3] })".into(), &[OutOfMemory, Stalled]),
        ("endless push of strings", "const a = []; for(let i = 0;; i++) a.push('x'.repeat(1000) + i)".into(), &[OutOfMemory, Stalled]),
        ("doubling string", "let s = 'x'; for(;;) s += s".into(), &[OutOfMemory, Stalled]),
        ("repeat", "return 'a'.repeat(2**30).length".into(), &[OutOfMemory]),
        ("padStart", "return ''.padStart(2**31, 'ab').length".into(), &[OutOfMemory]),
        ("many buffers", "const a = []; for(;;) a.push(new ArrayBuffer(60000000))".into(), &[OutOfMemory, Stalled]),
        ("one big buffer", "return new ArrayBuffer(2**31).byteLength".into(), &[ScriptError]),
        ("join of holes", "return new Array(2**32 - 1).join('x').length".into(), &[OutOfMemory, Stalled]),
        ("fill of holes", "new Array(2**32 - 1).fill(0)".into(), &[OutOfMemory, Stalled]),
        ("indexOf of nothing", "return Array.prototype.indexOf.call({ length: 2**53 - 1 }, 1)".into(), &[Stalled]),
        ("regular expression", "return /^(a+)+$/.test('a'.repeat(40) + 'b')".into(), &[Stalled]),
        ("big integers", "let x = 3n; for (let i = 0; i < 60; i++) x = x * x; return 1".into(), &[OutOfMemory, Stalled]),
        (
            "bound chain",
            "let f = () => 1; for (let i = 0; i < 1000000; i++) f = f.bind(null, 1); return f()".into(),
            &[TooDeep, OutOfMemory, Stalled],
        ),
        ("flood of calls", "for(;;) tool('never', {})".into(), &[ScriptError]),
        ("flood of log", "for(;;) log('x'.repeat(1000))".into(), &[ScriptError, Stalled]),
        ("flood that catches", "for(;;) try { log('x') } catch {}".into(), &[Stalled]),
        ("await of nothing", "await new Promise(() => {})".into(), &[Stalled]),
        ("sparse result", "const a = []; a[4294967294] = 1; return a".into(), &[ResultNotJson]),
        ("endless proxy result", "return new Proxy([], { get: (t, k) => k === 'length' ? 2**53 - 1 : 1 })".into(), &[ResultNotJson]),
        ("throwing what loops", "throw { get message(){ while(true){} } }".into(), &[Stalled, ScriptError]),
        ("2,000 arrays", nested("[", "]", 2_000), &[ScriptError]),
        ("100,000 brackets", nested("(", ")", 100_000), &[ScriptError]),
        ("100,000 functions in Function", "return new Function('('.repeat(100000))".into(), &[ScriptError]),
        ("nested templates", nested("`${", "}`", 2_000), &[ScriptError]),
        ("arrows in arrows", format!("return {}1", "a=>".repeat(80_000)), &[TooDeep, Stalled]),
        ("negations", format!("return {}1", "!".repeat(250_000)), &[TooDeep, Stalled]),
        ("sums", format!("return 1{}", "+1".repeat(120_000)), &[]),
        ("ternaries", format!("return {}1", "1?1:".repeat(60_000)), &[]),
        ("half a megabyte", format!("// {}", "x".repeat(500_000)), &[ScriptError]),
        ("nested blocks", format!("{}{}", "{".repeat(10_000), "}".repeat(10_000)), &[ScriptError]),
        ("member chain", format!("return a{}", ".b".repeat(100_000)), &[ScriptError, TooDeep, Stalled]),
        ("deep JSON.parse", "return JSON.parse('['.repeat(100000) + ']'.repeat(100000))".into(), &[ScriptError]),
        ("wrapper escape", "})(); (async function(){ while(true){}".into(), &[ScriptError]),
        (
            "override",
            "globalThis.Promise = Array = Object = JSON = undefined; Function.prototype.call = Function.prototype.apply = null; return { a: [1] }"
                .into(),
            &[],
        ),
    ]
}

/// Prints the table that reports show.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_hostile_script_ends_in_words_while_another_execution_goes_on() {
    let beside = tokio::spawn(async {
        let run = Run::in_child();
        let mut done = 0u32;
        loop {
            let outcome = run.run("const a = await parallel([() => tool('echo', {n: 1}), () => agent('say b')]); return a").await;
            assert_eq!(shown(&outcome), r#"= [{"n":1},"b"]"#);
            done += 1;
            run.host.events.lock().unwrap().clear();
            tokio::task::yield_now().await;
            if done > 100_000 {
                return;
            }
        }
    });
    // A shorter patience than the product's keeps the test short; that the product's own ends a loop is the next test.
    let all = futures::stream::iter(rows()).map(|(name, source, reasons)| async move {
        let began = Instant::now();
        let run = Run::in_child().set(|s| s.busy_ms = 2_000);
        let outcome = tokio::time::timeout(AT_MOST, run.run(&source)).await;
        (name, reasons, began.elapsed().as_millis(), outcome)
    });
    let ended: Vec<_> = all.buffered(4).collect().await;
    let (mut table, mut wrong) = (String::new(), Vec::new());
    for (name, reasons, ms, outcome) in ended {
        let seen = outcome.as_ref().map_or("still running".to_owned(), shown);
        table.push_str(&format!("{name:<34} {ms:>6} ms  {}\n", domain::text::cut_chars(&seen, 110)));
        let is_right = match &outcome {
            Ok(Outcome::Failed { why, error, .. }) => {
                reasons.is_empty() || error.len() > 10 && (reasons.contains(why) || *why == FailReason::Stalled)
            }
            Ok(Outcome::Completed { .. }) => reasons.is_empty(),
            Ok(Outcome::Cancelled { .. }) | Err(_) => false,
        };
        if !is_right {
            wrong.push(format!("{name}: {seen}"));
        }
    }
    assert!(!beside.is_finished(), "the other execution went on undisturbed");
    beside.abort();
    println!("{table}");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_loop_ends_by_the_limits_of_the_product_with_its_line() {
    let outcome = Run::in_child().run("const a = 1;\nfor (;;) {}").await;
    let Outcome::Failed { why: FailReason::Stalled, error, .. } = outcome else { panic!("{outcome:?}") };
    assert!(error.contains("never ends"), "{error}");
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
