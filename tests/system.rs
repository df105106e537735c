//! Whole flows with the real programs. Each test is a story; the desktop is `graph-deskd`, the same desktop without a window.
#![allow(clippy::unwrap_used, clippy::expect_used)]
#[path = "system/agents.rs"]
mod agents;
#[path = "support/line.rs"]
mod line;
#[path = "support/proxy.rs"]
mod proxy;
#[path = "system/secrets.rs"]
mod secrets;
#[path = "support/world.rs"]
mod world;

use std::time::{Duration, Instant};

use serde_json::json;
use world::{PATIENCE, World};

const ECHO: &str = "export const meta = { name: 'Echo', description: 'Gives its arguments back' };\nreturn { got: args };\n";
/// Runs until it is stopped; says when it began.
const SLOW: &str =
    "export const meta = { name: 'Slow', description: 'Waits' };\nphase('Waiting');\nawait sleep(args.seconds ?? 600);\nreturn 'done';\n";
const WRITES: &str = "export const meta = { name: 'Writes', description: 'Writes a file', tools: ['write_file'] };\n\
    await tool('write_file', { path: args.path, content: 'once' });\nreturn 'written';\n";

const UNSHARED: &str = "Graph session is no longer shared with this project";

fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < until, "not within {PATIENCE:?}: {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_ticket_becomes_a_result_and_the_same_key_is_the_same_ticket() {
    let mut world = World::new();
    world.share("echo", ECHO);
    world.serve();
    let agent = world.agent("Claude");
    let session = agent.session("echo");
    let command = agent.run(&session, json!({"z": 1, "a": [true, null]}), "key-of-one-run");
    assert_eq!(agent.run(&session, json!({"a": [true, null], "z": 1}), "key-of-one-run"), command);
    let run = agent.wait_terminal(&command);
    assert_eq!((&run["status"], &run["reason"]), (&json!("completed"), &json!("done")), "{run}");
    assert_eq!(run["result"], json!({"got": {"z": 1, "a": [true, null]}}));
    assert!(run["pickup_wait_ms"].as_u64().unwrap() < 15_000, "the doorbell rang: {run}");
    assert_eq!(world.executions("echo").len(), 1);
}

#[test]
fn a_lost_start_answer_neither_runs_the_command_twice_nor_loses_it() {
    let mut world = World::new();
    world.share("echo", ECHO);
    world.line.lose_answer("/start");
    world.serve();
    let agent = world.agent("Claude");
    let command = agent.run(&agent.session("echo"), json!({}), "key-lost-start");
    let run = agent.wait_terminal(&command);
    assert_eq!(run["status"], "completed", "{run}");
    assert_eq!(world.line.lost(), 1);
    assert_eq!(world.executions("echo").len(), 1);
}

/// Invariant 4.
#[test]
fn a_lost_completion_answer_is_sent_again_and_recorded_once() {
    let mut world = World::new();
    world.share("echo", ECHO);
    world.line.lose_answer("/complete");
    world.serve();
    let agent = world.agent("Claude");
    let command = agent.run(&agent.session("echo"), json!({"n": 1}), "key-lost-completion");
    assert_eq!(agent.wait_terminal(&command)["status"], "completed");
    // The queue tells the agent before the line has lost its answer to the desktop.
    wait_until("the answer is lost", || world.line.lost() == 1);
    wait_until("the outbox is empty", || world.deskd_json(&["status", "--json"])["outbox"] == 0);
    assert_eq!(world.executions("echo").len(), 1);
}

#[test]
fn a_desktop_killed_in_mid_run_never_runs_the_command_again() {
    let mut world = World::new();
    world.share("slow", SLOW);
    world.share("echo", ECHO);
    world.serve();
    let agent = world.agent("Claude");
    let slow = agent.run(&agent.session("slow"), json!({}), "key-killed-run");
    let next = agent.run(&agent.session("echo"), json!({}), "key-next-run");
    agent.wait_running(&slow);
    world.desk.take().unwrap().kill();
    world.serve();
    let run = agent.wait_terminal(&slow);
    assert_eq!((&run["status"], &run["reason"]), (&json!("failed"), &json!("device_restarted")), "{run}");
    assert_eq!(run["error"], "The desktop restarted while this run was in progress");
    assert_eq!(agent.wait_terminal(&next)["status"], "completed");
    assert_eq!(world.executions("slow").len(), 1);
}

#[test]
fn a_desktop_killed_at_any_marked_point_ends_every_command_once() {
    // Before the claim is stored nothing is known and nothing ran: the command runs later. From there to the outbox row the run is lost and
    // says so. From the outbox row on the stored completion is delivered. The last member: has the Graph acted?
    let expected = [
        ("after_sync_answered", "completed", "done", true),
        ("after_not_shared_stored", "cancelled", "not_shared", false),
        ("before_execution_stored", "completed", "done", true),
        ("after_execution_stored", "failed", "device_restarted", false),
        ("after_start_granted", "failed", "device_restarted", false),
        ("after_running_stored", "failed", "device_restarted", false),
        ("before_outbox_write", "failed", "device_restarted", true),
        ("after_outbox_write", "completed", "done", true),
        ("after_completion_posted", "completed", "done", true),
        ("after_outbox_delete", "completed", "done", true),
    ];
    assert_eq!(expected.map(|(point, ..)| point), device::crash::POINTS, "every point has its row");
    for (point, status, reason, acted) in expected {
        let mut world = World::new();
        world.share("writes", WRITES);
        let file = world.files().join("out.txt");
        world.deskd(&["allow", "write_file", "--under", world.files().to_str().unwrap()]);
        world.serve();
        let agent = world.agent("Claude");
        let session = agent.session("writes");
        world.desk.take().unwrap().kill();
        let command = agent.run(&session, json!({"path": file}), &format!("key-{point}"));
        if point == "after_not_shared_stored" {
            world.deskd(&["unshare", "writes", "--project", "Home"]);
        }
        let died = world.serve_to_die(point);
        assert!(!died.success(), "{point}: it was to die there");
        world.serve();
        let run = agent.wait_terminal(&command);
        assert_eq!((&run["status"], &run["reason"]), (&json!(status), &json!(reason)), "{point}: {run}");
        wait_until("the outbox is empty", || world.deskd_json(&["status", "--json"])["outbox"] == 0);
        assert_eq!(world.executions("writes").len(), usize::from(reason != "not_shared"), "{point}");
        assert_eq!(file.exists(), acted, "{point}");
    }
}

#[test]
fn a_queue_killed_in_mid_run_forgets_nothing_it_answered() {
    let mut world = World::new();
    world.share("slow", SLOW);
    world.serve();
    let agent = world.agent("Claude");
    let session = agent.session("slow");
    let running = agent.run(&session, json!({"seconds": 4}), "key-running-while-killed");
    let queued = agent.run(&session, json!({"seconds": 0}), "key-queued-while-killed");
    let cancelled = agent.run(&session, json!({"seconds": 0}), "key-cancelled-before");
    agent.wait_running(&running);
    assert_eq!(agent.cancel(&cancelled)["status"], "cancelled");
    world.restart_queue();
    assert_eq!(agent.get(&cancelled)["reason"], "cancelled_while_queued");
    for command in [&running, &queued] {
        let run = agent.wait_terminal(command);
        assert_eq!(run["status"], "completed", "{run}");
    }
    assert_eq!(world.executions("slow").len(), 2);
}

#[test]
fn an_offline_desktop_runs_everything_in_order_when_it_returns() {
    let mut world = World::new();
    world.share("echo", ECHO);
    world.serve();
    let agent = world.agent("Claude");
    let session = agent.session("echo");
    world.line.set_down(true);
    let commands: Vec<_> = (0..3).map(|n| agent.run(&session, json!({"n": n}), &format!("key-offline-{n}"))).collect();
    assert!(commands.iter().all(|c| agent.get(c)["status"] == "queued"));
    world.line.set_down(false);
    let runs: Vec<_> = commands.iter().map(|c| agent.wait_terminal(c)).collect();
    assert!(runs.iter().all(|run| run["status"] == "completed"), "{runs:?}");
    let started: Vec<_> = runs.iter().map(|run| run["times"]["started_at"].as_str().unwrap()).collect();
    assert!(started.is_sorted(), "{started:?}");
}

#[test]
fn a_revoked_tick_ends_what_waits_and_spares_what_runs() {
    let mut world = World::new();
    world.share("slow", SLOW);
    world.share("echo", ECHO);
    world.serve();
    let agent = world.agent("Claude");
    let (slow, echo) = (agent.session("slow"), agent.session("echo"));
    let running = agent.run(&slow, json!({"seconds": 5}), "key-runs-on");
    let waiting = agent.run(&echo, json!({}), "key-untick-me");
    agent.wait_running(&running);
    world.deskd(&["unshare", "echo", "--project", "Home"]);
    let run = agent.wait_terminal(&waiting);
    assert_eq!((&run["status"], &run["reason"], &run["error"]), (&json!("cancelled"), &json!("not_shared"), &json!(UNSHARED)), "{run}");
    assert_eq!(agent.wait_terminal(&running)["status"], "completed");
    assert_eq!(world.executions("echo").len(), 0);
}

#[test]
fn an_agent_stops_its_own_run_and_cannot_see_another_ones() {
    let mut world = World::new();
    world.share("slow", SLOW);
    world.serve();
    let (first, second) = (world.agent("Claude"), world.agent("Another"));
    let command = first.run(&first.session("slow"), json!({}), "key-to-be-stopped");
    first.wait_running(&command);
    let not_found = Err("Graph run not found or access removed".to_owned());
    for arguments in [json!({"command_id": command}), json!({"command_id": "00000000-0000-4000-8000-000000000001"}), json!({"command_id": "x"})] {
        assert_eq!(second.call("get_graph_run", arguments.clone()), not_found);
        assert_eq!(second.call("cancel_graph_run", arguments), not_found);
    }
    assert_eq!(first.cancel(&command)["cancel_requested"], true);
    let run = first.wait_terminal(&command);
    assert_eq!((&run["status"], &run["reason"]), (&json!("cancelled"), &json!("stopped")), "{run}");
    assert!(run.get("result").is_none());
}

#[test]
fn without_a_window_an_ask_is_denied_at_once_in_words() {
    let mut world = World::new();
    world.share("writes", WRITES);
    world.serve();
    let agent = world.agent("Claude");
    let file = world.files().join("never.txt");
    let command = agent.run(&agent.session("writes"), json!({"path": file}), "key-nobody-there");
    let run = agent.wait_terminal(&command);
    assert_eq!((&run["status"], &run["reason"]), (&json!("failed"), &json!("script_error")), "{run}");
    let error = run["error"].as_str().unwrap();
    assert!(error.contains("write_file") && error.contains("graph-deskd allow"), "{error}");
    assert!(!file.exists());
}

#[test]
fn a_graph_that_spins_is_stopped_and_the_next_one_runs() {
    let mut world = World::new();
    world.share("spin", "export const meta = { name: 'Spin', description: 'Never ends' };\nphase('Spinning');\nwhile (true) {}\n");
    world.share("echo", ECHO);
    world.serve();
    let agent = world.agent("Claude");
    let spinning = agent.run(&agent.session("spin"), json!({}), "key-spins-for-ever");
    let next = agent.run(&agent.session("echo"), json!({}), "key-comes-after");
    agent.wait_running(&spinning);
    agent.cancel(&spinning);
    let run = agent.wait_terminal(&spinning);
    assert_eq!(run["status"], "cancelled", "{run}");
    assert_eq!(agent.wait_terminal(&next)["status"], "completed");
}

#[test]
fn a_company_that_looks_into_tls_is_gone_through_if_the_system_trusts_it() {
    let world = World::unpaired_as("https://queue.test");
    let upstream = world.address.strip_prefix("http://").unwrap();
    let company = proxy::Proxy::start(world.dir.path(), "queue.test", upstream);
    let pair = |more: &[(&str, &str)]| {
        let mut command = world.deskd_command();
        command.args(["pair", "https://queue.test", &world.pairing_code()]).env("HTTPS_PROXY", &company.address).envs(more.iter().copied());
        command.output().unwrap()
    };
    let refused = pair(&[]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success());
    assert!(said.contains("certificate of queue.test is not trusted") && said.contains("ssuer"), "{said}");
    // The system's store of trusted authorities, by the variable that names it.
    let trusted = pair(&[("SSL_CERT_FILE", company.root.to_str().unwrap())]);
    assert!(trusted.status.success(), "{}", String::from_utf8_lossy(&trusted.stderr));
    assert!(company.asked.lock().unwrap().iter().all(|host| host == "queue.test:443"));
}

#[test]
fn the_doctor_sends_a_graph_the_whole_way_and_takes_it_away_again() {
    let mut world = World::new();
    world.share("echo", ECHO);
    world.serve();
    let agent = world.agent("Claude");
    agent.session("echo");
    let report = world.deskd_json(&["doctor", "--json"]);
    let hops = report["hops"].as_array().unwrap();
    let hop = |name: &str| hops.iter().find(|h| h["name"] == name).unwrap_or_else(|| panic!("no {name}: {report}"));
    for name in ["Sharing", "Ticket", "Pickup", "Run and result", "Round trip"] {
        assert!(hop(name)["ok"] == true && hop(name)["ms"].is_u64(), "{report}");
    }
    assert!(hops.iter().all(|h| h["name"] != "Tidying up"), "{report}");
    assert_eq!(world.deskd_json(&["status", "--json"])["outbox"], 0);
    assert_eq!(agent.call("list_projects", json!({})).unwrap()["projects"].as_array().unwrap().len(), 1);
}
