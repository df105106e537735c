//! Waves, places, ceilings, called Graphs: whole executions and their stories.
use std::{collections::BTreeSet, path::PathBuf};

use domain::{Outcome, wire::event::FleetWhat};
use proptest::prelude::*;

use super::support::{Run, golden, shown};

fn here(file: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/engine/traces").join(file)
}

/// Runs `traces/<name>.js` twice and compares its story with `traces/<name>.trace`.
async fn trace(name: &str, run: impl Fn() -> Run) {
    let source = std::fs::read_to_string(here(&format!("{name}.js"))).unwrap();
    let mut stories = Vec::new();
    for _ in 0..2 {
        let run = run();
        let outcome = run.run(&source).await;
        let lines: Vec<String> = run.host.story().iter().map(|e| serde_json::to_string(e).unwrap()).collect();
        stories.push(format!("{}\n{}\n", lines.join("\n"), shown(&outcome)));
    }
    assert_eq!(stories[0], stories[1], "the same seed, the same bytes");
    golden(&here(&format!("{name}.trace")), &stories[0]);
}

#[test]
fn every_name_of_the_api_appears_in_a_trace() {
    let scripts: String =
        ["review", "until_dry", "nightly", "ceiling", "judges"].map(|name| std::fs::read_to_string(here(&format!("{name}.js"))).unwrap()).concat();
    let words: BTreeSet<&str> = scripts.split(|c: char| !c.is_alphanumeric()).collect();
    let missing: Vec<&str> = engine::api::API.iter().map(|item| item.name).filter(|name| !words.contains(name)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[tokio::test(start_paused = true)]
async fn a_review_in_the_dialect_of_workflow_scripts() {
    trace("review", Run::in_process).await;
}

#[tokio::test(start_paused = true)]
async fn a_search_until_nothing_is_left() {
    trace("until_dry", || Run::in_process().narrowed("export const meta = { limits: { token_ceiling: 5000, max_concurrency: 2 } }")).await;
}

#[tokio::test(start_paused = true)]
async fn a_nightly_report_that_calls_another_graph_and_asks() {
    let count = "export const meta = { name: 'count', description: '', tools: ['echo'] }\nphase('Inner')\nconst r = await tool('echo', args)\nconst no = await tool('deny', {}).catch(e => e.code)\nreturn { files: 3, folder: r.folder, no }";
    trace("nightly", || Run::in_process().args(r#"{"folder":"/docs"}"#).graph("count", count)).await;
}

#[tokio::test(start_paused = true)]
async fn a_ceiling_in_the_middle_of_a_wave() {
    trace("ceiling", || Run::in_process().narrowed("export const meta = { limits: { token_ceiling: 1000, max_concurrency: 2 } }")).await;
}

#[tokio::test(start_paused = true)]
async fn judges_retries_and_a_wave_that_stops() {
    trace("judges", Run::in_process).await;
}

/// Whatever a step waited for before (a bare promise, a callback, an answer), what it starts belongs to the wave it was started in.
#[tokio::test(start_paused = true)]
async fn a_step_that_has_waited_still_belongs_to_its_wave() {
    let source = "const thunk = (name, wait) => async () => { await wait(); return agent('say ' + name) }\n\
        await Promise.all([\n\
          parallel([thunk('a1', () => null), thunk('a2', () => sleep(1)), thunk('a3', () => agent('say a4'))]),\n\
          parallel([thunk('b1', () => Promise.resolve().then(() => null)), () => Promise.resolve(1).then(() => agent('say b2'))]),\n\
          pipeline([1], async (x) => { await null; return x }, async () => { await sleep(2); await null; return agent('say c1') }),\n\
          thunk('free', () => null)(),\n\
        ])\n\
        await parallel([async () => { await null; await parallel([async () => { await null; return agent('say inner') }]); await null; return agent('say outer') }])\n\
        await agent('say last')";
    let run = Run::in_process();
    assert_eq!(shown(&run.run(source).await), "= null");
    let mut waves: Vec<(String, Option<u64>)> = run.host.agents.lock().unwrap().iter().map(|a| (a.label.clone(), a.wave)).collect();
    waves.sort();
    let expected = [
        ("say a1", Some(1)),
        ("say a2", Some(1)),
        ("say a3", Some(1)),
        ("say a4", Some(1)),
        ("say b1", Some(2)),
        ("say b2", Some(2)),
        ("say c1", Some(3)),
        ("say free", None),
        ("say inner", Some(5)),
        ("say last", None),
        ("say outer", Some(4)),
    ];
    assert_eq!(waves, expected.map(|(label, wave)| (label.to_owned(), wave)));
}

/// C39.
#[tokio::test(start_paused = true)]
async fn fifty_calls_under_a_ceiling_for_ten_start_ten() {
    let body = "const r = await parallel(Array.from({length: 50}, () => () => agent('use 200 800'))); return r";
    for (what, source) in [
        ("plain", body.to_owned()),
        ("in a called Graph", "return await graph('inner')".to_owned()),
        ("with failing calls that cost", body.replace("'use 200 800'", "'use 200 800 fail'")),
    ] {
        let run = Run::in_process().graph("inner", body).set(|s| {
            s.token_ceiling = 10_000;
            s.max_concurrency = 50;
        });
        let outcome = run.run(&source).await;
        let used = outcome.used();
        assert!(used.total_tokens <= 10_000, "{what}: {used:?}");
        let Outcome::Failed { why, .. } = &outcome else { panic!("{what}: {outcome:?}") };
        assert!(matches!(why.as_str(), "ceiling_reached" | "wave_stopped"), "{what}: {outcome:?}");
        let paid: u64 = run.host.story().iter().map(|e| if let FleetWhat::AgentFinished { tokens, .. } = e { *tokens } else { 0 }).sum();
        assert_eq!(paid, used.total_tokens, "{what}: the receipt is the sum of what the models counted");
        if what != "with failing calls that cost" {
            assert_eq!(used.total_tokens, 10_000, "{what}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_overrun_is_recorded_and_ends_the_execution() {
    let run = Run::in_process().set(|s| s.token_ceiling = 1_000);
    let outcome = run.run("await agent('overrun 100 5000').catch(() => 1); await sleep(10); return 'went on'").await;
    assert_eq!(shown(&outcome), "ceiling_reached: A model used more tokens than it was allowed; the execution was ended.");
    assert_eq!(outcome.used().total_tokens, 5_000);
}

#[tokio::test(start_paused = true)]
async fn places_are_exact_and_an_approval_gives_its_place_back() {
    let run = Run::in_process().set(|s| s.max_concurrency = 2);
    let source = "return await parallel([...Array(5)].map((_, i) => () => agent(i === 0 ? 'owner asked' : 'wait 100 x')))";
    let fleet = run.fleet();
    let answer = async {
        // Everything else ends while the owner thinks.
        run.host.saw(|e| matches!(e, FleetWhat::FleetWaiting { approvals: 1 })).await;
        tokio::time::sleep(std::time::Duration::from_secs(7 * 3600)).await;
        run.host.owner.notify_waiters();
    };
    let (outcome, ()) = tokio::join!(run.run_in(&fleet, source), answer);
    assert_eq!(shown(&outcome), r#"= ["asked","x","x","x","x"]"#, "seven hours of waiting are no deadline and no timeout");
    assert_eq!(run.host.at_work.lock().unwrap().1, 2, "never more than two at work");
    assert!(run.host.story().iter().any(|e| matches!(e, FleetWhat::FleetResumed {})));
}

#[tokio::test(start_paused = true)]
async fn places_are_given_in_the_order_of_asking() {
    let run = Run::in_process().set(|s| s.max_concurrency = 2);
    // The first two take long; those that asked while there was no place, agents and a tool, get theirs in that order.
    let source = "return await parallel([...Array(8)].map((_, i) => () => i === 5 ? tool('echo', { i }) : agent(`wait ${i < 2 ? 500 : 10} ${i}`)))";
    assert_eq!(shown(&run.run(source).await), r#"= ["0","1","2","3","4",{"i":5},"6","7"]"#);
    let started = run.host.story().into_iter().filter_map(|e| if let FleetWhat::AgentStarted { agent } = e { Some(agent) } else { None });
    assert_eq!(started.collect::<Vec<_>>(), [1, 2, 3, 4, 5, 6, 7]);
    let begun: Vec<u64> = run.host.agents.lock().unwrap().iter().map(|a| a.agent).collect();
    assert_eq!(begun, [1, 2, 3, 4, 5, 6, 7]);
}

#[tokio::test(start_paused = true)]
async fn three_failures_of_one_class_stop_the_wave_and_what_has_not_started() {
    let run = Run::in_process().set(|s| s.max_concurrency = 1);
    let wave =
        |codes: &[&str]| format!("return await parallel([{}])", codes.iter().map(|c| format!("() => agent('{c}')")).collect::<Vec<_>>().join(","));
    let outcome = run
        .run(&wave(&["fail provider", "fail schema", "fail provider", "fail schema", "fail provider", "wait 50 x", "wait 50 x", "wait 50 x"]))
        .await;
    assert!(shown(&outcome).starts_with("wave_stopped: AgentError: 3 agents of this wave failed the same way (provider:"), "{outcome:?}");
    assert_eq!(run.host.agents.lock().unwrap().len(), 6, "the sixth had its place already; the last two never get one");
    let run = Run::in_process();
    let outcome = run.run(&wave(&["fail provider", "fail schema", "fail timeout", "fail provider", "fail schema", "say fine"])).await;
    assert_eq!(shown(&outcome), r#"= [null,null,null,null,null,"fine"]"#, "two of each class stop nothing");
}

/// C40: what a called Graph does is under the deadline, the ceiling and the stop of its caller.
#[tokio::test(start_paused = true)]
async fn called_graphs_share_deadline_ceiling_and_stop() {
    let inner = "await agent('use 300 300'); return await graph('innermost')";
    let called = |innermost: &str| Run::in_process().graph("inner", inner).graph("innermost", innermost).set(|s| s.token_ceiling = 1_000);
    let run = called("await sleep(7200)").set(|s| s.deadline_ms = 60_000);
    let outcome = run.run("return await graph('inner')").await;
    assert_eq!(shown(&outcome), "deadline: The execution took longer than its 1 minutes.");
    let run = called("return await agent('use 300 300')");
    let outcome = run.run("return await graph('inner')").await;
    assert_eq!(outcome.used().total_tokens, 600);
    assert!(shown(&outcome).starts_with("ceiling_reached: "), "{outcome:?}");
    let run = called("log('deep'); await agent('never')");
    let fleet = run.fleet();
    let stop = async {
        run.host.saw(|e| matches!(e, FleetWhat::Log { .. })).await;
        fleet.stop(engine::StopWhy::Asked);
    };
    let (outcome, ()) = tokio::join!(run.run_in(&fleet, "return await graph('inner')"), stop);
    assert_eq!(shown(&outcome), "cancelled: stopped");
}

#[tokio::test(start_paused = true)]
async fn six_hundred_seconds_end_an_agent_that_said_nothing_about_its_time() {
    let run = Run::in_process();
    let outcome = run.run("const t = Date.now(); const e = await agent('never').catch(e => e); return [e.code, (Date.now() - t) / 1000]").await;
    assert_eq!(shown(&outcome), r#"= ["timeout",600]"#);
}

#[tokio::test(start_paused = true)]
async fn a_deadline_and_an_agents_own_time() {
    let run = Run::in_process().set(|s| s.deadline_ms = 60_000);
    assert_eq!(shown(&run.run("await sleep(3600)").await), "deadline: The execution took longer than its 1 minutes.");
    let run = Run::in_process();
    let outcome = run.run("return await agent('never', {timeout_s: 2}).catch(e => [e.code, e.message])").await;
    assert_eq!(shown(&outcome), r#"= ["timeout","The agent took longer than its 2 seconds."]"#);
}

/// C40.
#[tokio::test(start_paused = true)]
async fn graphs_do_not_call_themselves_and_five_deep_is_the_most() {
    let calls = |slug: &str| format!("return await graph('{slug}', args)");
    let run = Run::in_process().graph("test", &calls("test"));
    assert!(shown(&run.run(&calls("test")).await).contains("A Graph cannot call itself, not even through others: test → test."));
    let run = Run::in_process().graph("b", &calls("test"));
    assert!(shown(&run.run(&calls("b")).await).contains("test → b → test"));
    let deep = |n: usize| {
        (0..n).fold(Run::in_process(), |run, i| {
            run.graph(&format!("g{i}"), &if i + 1 == n { "return 'bottom'".to_owned() } else { calls(&format!("g{}", i + 1)) })
        })
    };
    assert_eq!(shown(&deep(4).run(&calls("g0")).await), r#"= "bottom""#, "the outermost and four below are five");
    assert!(shown(&deep(5).run(&calls("g0")).await).contains("5 levels deep"));
}

#[tokio::test(start_paused = true)]
async fn a_called_graph_shares_the_places_and_its_failure_is_told() {
    let inner = "return await parallel([...Array(4)].map(() => () => agent('wait 50 x')))";
    let run = Run::in_process().graph("inner", inner).set(|s| s.max_concurrency = 3);
    let outcome = run.run("return await parallel([() => graph('inner'), () => graph('inner'), () => agent('wait 50 y')])").await;
    assert_eq!(shown(&outcome), r#"= [["x","x","x","x"],["x","x","x","x"],"y"]"#);
    assert_eq!(run.host.at_work.lock().unwrap().1, 3);
    let run = Run::in_process().graph("inner", "const a = 1;\nthrow new Error('inside')");
    let outcome = run.run("return await graph('inner').catch(e => [e.name, e.code, e.message.split('\\n')[0]])").await;
    assert_eq!(shown(&outcome), r#"= ["GraphError","graph_failed","The Graph inner failed (script_error): Error: inside"]"#);
    let schema = "export const meta = { name: 'i', description: '', args: { type: 'object', required: ['n'] } }; return 1";
    let run = Run::in_process().graph("inner", schema);
    assert!(shown(&run.run("return await graph('inner', {})").await).contains("The Graph inner failed (arguments_invalid)"));
}

#[tokio::test(start_paused = true)]
async fn agents_are_counted_and_limited() {
    let run = Run::in_process().set(|s| s.agents = 3);
    let outcome = run.run("for (let i = 0; i < 5; i++) await agent('say x')").await;
    assert_eq!(shown(&outcome), "script_error: AgentError: This execution may launch 3 agents, and has.");
    let run = Run::in_process();
    assert!(shown(&run.run("return (await parallel([...Array(500)].map((_, i) => () => agent('say ' + i)))).length").await).contains("500"));
}

#[tokio::test(start_paused = true)]
async fn what_a_graph_does_not_declare_stays_out_of_reach() {
    let meta = "export const meta = { name: 'x', description: '', tools: ['echo'] };";
    let outcome = Run::in_process().run(&format!("{meta} return await tool('deny', {{}})")).await;
    assert_eq!(shown(&outcome), "script_error: ToolError: meta.tools does not name the tool deny.");
    let outcome = Run::in_process().run(&format!("{meta} return await agent('say x', {{ tools: ['deny'] }})")).await;
    assert!(shown(&outcome).contains("meta.tools does not name the tool deny"));
    let run = Run::in_process();
    run.run(&format!("{meta} await agent('say x'); await agent('say y', {{ tools: [] }})")).await;
    let given: Vec<_> = run.host.agents.lock().unwrap().iter().map(|a| a.tools.clone()).collect();
    assert_eq!(given, [Some(vec!["echo".to_owned()]), Some(vec![])]);
}

#[tokio::test(start_paused = true)]
async fn forgotten_promises_and_large_results_are_warned_of() {
    let warnings = |run: &Run| -> Vec<String> {
        run.host.story().into_iter().filter_map(|e| if let FleetWhat::Warning { text, .. } = e { Some(text) } else { None }).collect()
    };
    let run = Run::in_process();
    run.run("Promise.reject(new Error('lost')); agent('never'); return new Map()").await;
    assert_eq!(
        warnings(&run),
        [
            "A promise failed and nobody awaited it: Error: lost",
            "the result is a Map or Set, which JSON writes as {}; use Object.fromEntries(map) or [...set]",
            "1 calls still ran when the script ended; they were stopped. Is an await missing?",
        ]
    );
    let run = Run::in_process();
    run.run("return 'x'.repeat(30000)").await;
    assert!(warnings(&run)[0].starts_with("The result is 30002 characters long"));
}

/// The prelude names these codes as well; this keeps both the same.
#[tokio::test(start_paused = true)]
async fn a_code_ends_a_wave_exactly_where_the_table_says_so() {
    for code in engine::CallCode::ALL {
        let source = format!("return await parallel([() => agent('fail {}')])", code.as_str());
        let seen = shown(&Run::in_process().run(&source).await);
        assert_eq!(seen == "= [null]", !code.ends_waves(), "{}: {seen}", code.as_str());
    }
}

#[tokio::test(start_paused = true)]
async fn options_of_the_dialect_without_meaning_here_are_ignored_aloud() {
    let run = Run::in_process();
    let outcome =
        run.run("for (let i = 0; i < 2; i++) await agent('say x', { effort: 'high', isolation: 'worktree', agentType: 'Explore' }); return 1").await;
    assert_eq!(shown(&outcome), "= 1");
    let warnings = run.host.story().into_iter().filter(|e| matches!(e, FleetWhat::Warning { .. })).count();
    assert_eq!(warnings, 3, "each once");
}

#[tokio::test(start_paused = true)]
async fn a_panic_in_a_call_is_that_calls_failure() {
    let run = Run::in_process();
    *run.host.tool.lock().unwrap() = Some(Box::new(|_, _| panic!("a defect of ours")));
    let outcome = run.run("return [await tool('x', {}).catch(e => e.code), await agent('say fine')]").await;
    assert_eq!(shown(&outcome), r#"= ["tool_failed","fine"]"#);
}

/// One agent of a random fleet.
#[derive(Debug, Clone)]
struct Plan {
    input: u64,
    output: u64,
    wait: u64,
    kind: u8,
}

fn plans() -> impl Strategy<Value = Vec<Vec<Plan>>> {
    let plan = (0u64..300, 1u64..300, 0u64..50, 0u8..6).prop_map(|(input, output, wait, kind)| Plan { input, output, wait, kind });
    proptest::collection::vec(proptest::collection::vec(plan, 1..12), 1..5)
}

const SCHEDULES: u32 = 40;

/// Random fleets of several waves, with failing, silent and unpaid calls, in any order of ending, some inside called Graphs.
#[test]
fn no_schedule_spends_more_than_the_ceiling() {
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig { cases: SCHEDULES, ..ProptestConfig::default() });
    let seen = std::cell::Cell::new((0u64, 0u64, 0u64));
    let strategy = (plans(), 0u64..6_000, 1usize..8, 0usize..4);
    let result = runner.run(&strategy, |(waves, ceiling, places, depth)| {
        let (agents, refused) = one_schedule(&waves, ceiling, places, depth)?;
        let (a, r, g) = seen.get();
        seen.set((a + agents, r + refused, g + u64::from(depth > 0)));
        Ok(())
    });
    let (agents, refused, inside) = seen.get();
    println!("{SCHEDULES} schedules, {inside} of them inside called Graphs; {agents} agents, {refused} of them refused");
    result.unwrap();
    assert!(refused > 0 && refused < agents && inside > 0, "both sides of the ceiling were seen");
}

/// Agents that were queued, and those of them that were refused.
fn one_schedule(waves: &[Vec<Plan>], ceiling: u64, places: usize, depth: usize) -> Result<(u64, u64), TestCaseError> {
    let wave = |agents: &[Plan]| {
        let thunks: Vec<String> = agents
            .iter()
            .map(|p| {
                let end = ["", "fail", "unknown", "nothing", "less", ""][usize::from(p.kind)];
                format!("async () => {{ await sleep({}); return agent('use {} {} {end}') }}", p.wait as f64 / 1000.0, p.input, p.output)
            })
            .collect();
        format!("try {{ await parallel([{}]) }} catch (e) {{ codes.push(e.code) }}\n", thunks.join(","))
    };
    let body = format!("const codes = [];\n{}return codes", waves.iter().map(|w| wave(w)).collect::<String>());
    let called = |level: usize| format!("return await graph('g{level}')");
    let run = (1..=depth)
        .fold(Run::in_process(), |run, level| run.graph(&format!("g{level}"), &if level == depth { body.clone() } else { called(level + 1) }));
    let run = run.set(|s| {
        s.token_ceiling = ceiling;
        s.max_concurrency = places;
    });
    let source = if depth > 0 { called(1) } else { body.clone() };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    let outcome = runtime.block_on(run.run(&source));
    prop_assert!(matches!(outcome, Outcome::Completed { .. }), "{outcome:?}");
    prop_assert!(outcome.used().total_tokens <= ceiling);
    prop_assert!(run.host.at_work.lock().unwrap().1 <= places);
    let (mut queued, mut ended, mut refused) = (BTreeSet::new(), BTreeSet::new(), 0);
    for event in run.host.story() {
        match event {
            FleetWhat::Ledger { spent, held, ceiling, .. } => prop_assert!(spent + held <= ceiling),
            FleetWhat::AgentQueued { agent, .. } => prop_assert!(queued.insert(agent)),
            FleetWhat::AgentFinished { agent, code, .. } => {
                prop_assert!(ended.insert(agent));
                refused += u64::from(code.as_deref() == Some("ceiling_reached"));
            }
            FleetWhat::WaveStarted { .. } => prop_assert!(refused == 0, "a wave after the ceiling was refused whole"),
            _ => {}
        }
    }
    prop_assert_eq!(&queued, &ended);
    Ok((queued.len() as u64, refused))
}
