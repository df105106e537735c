//! From ticket to visible result and from cancel to ending, with a real desktop behind the queue.
use std::{process::Command, time::Instant};

use serde_json::{Value, json};

use crate::{
    programs::{self, Program, deskd_run},
    queue::{Setting, text},
    stats::{Spread, ms},
};

const TRIVIAL: &str = "export const meta = { name: 'Trivial', description: 'Returns its arguments' };\nreturn args;\n";
const WAITS: &str = "export const meta = { name: 'Waits', description: 'Waits' };\nawait sleep(600);\n";
const SPINS: &str = "export const meta = { name: 'Spins', description: 'Never ends' };\nwhile (true) {}\n";

/// A bare fsync's milliseconds come in, so that figures can be told in fsyncs of this machine.
pub async fn measure(fsync_ms: f64) -> Value {
    let dir = tempfile::tempdir_in(programs::scratch()).unwrap();
    let dir = dir.path();
    let queue = programs::queue(dir, &["--requests-per-second", "1000000"]);
    let base = queue.first_line.strip_prefix("listening on ").unwrap().to_owned();
    deskd_run(dir, &["pair", &base, &programs::pairing_code(dir)]);
    for (slug, source) in [("trivial", TRIVIAL), ("waits", WAITS), ("spins", SPINS)] {
        let file = dir.join(format!("{slug}.graph.js"));
        std::fs::write(&file, source).unwrap();
        deskd_run(dir, &["import", file.to_str().unwrap(), "--ready", "--slug", slug]);
        deskd_run(dir, &["share", slug, "--project", "Bench"]);
    }
    let token = text(&serde_json::from_str::<Value>(&deskd_run(dir, &["agent-token", "bench", "--project", "Bench", "--json"])).unwrap()["token"]);
    let mut serve: Command = programs::deskd(dir);
    let desk = Program::start(serve.arg("serve"));

    let http = reqwest::Client::new();
    let mut agent = Setting { base, http, device_token: String::new(), project: String::new(), session: String::new(), agent_token: token };
    let project = text(&agent.tool("list_projects", json!({})).await["projects"][0]["project_id"]);
    let sessions = loop {
        let listed = agent.tool("list_graph_sessions", json!({"project_id": project})).await["sessions"].clone();
        if listed.as_array().unwrap().len() == 3 {
            break listed;
        }
    };
    let session = |slug: &str| text(&sessions.as_array().unwrap().iter().find(|s| s["slug"] == slug).unwrap()["graph_session_id"]);

    agent.session = session("trivial");
    let (mut whole, mut pickup) = (Vec::new(), Vec::new());
    for n in 0..160 {
        let at = Instant::now();
        let command = agent.enqueue(&format!("bench-trivial-{n:06}")).await;
        let run = ended(&agent, &command).await;
        assert_eq!(run["status"], "completed", "{run}");
        if n >= 10 {
            whole.push(at.elapsed().as_secs_f64() * 1000.0);
            pickup.push(run["pickup_wait_ms"].as_f64().unwrap_or_default());
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await; // tickets are to come one by one, as from a person
    }
    let (whole, pickup) = (Spread::of(whole), Spread::of(pickup));
    println!(
        "\nTicket to visible result, trivial Graph: p50 {}, p95 {} (n = {}); pickup p50 {}",
        ms(whole.p50),
        ms(whole.p95),
        whole.n,
        ms(pickup.p50)
    );
    println!("  that is {:.1} fsyncs of this machine and {}", 6.0, ms(whole.p50 - 6.0 * fsync_ms));

    let mut cancels = serde_json::Map::new();
    for slug in ["waits", "spins"] {
        agent.session = session(slug);
        let mut samples = Vec::new();
        for n in 0..20 {
            let command = agent.enqueue(&format!("bench-{slug}-{n:06}")).await;
            while agent.tool("get_graph_run", json!({"command_id": command, "wait_seconds": 5})).await["status"] == "queued" {}
            let at = Instant::now();
            agent.tool("cancel_graph_run", json!({"command_id": command})).await;
            ended(&agent, &command).await;
            samples.push(at.elapsed().as_secs_f64() * 1000.0);
        }
        let spread = Spread::of(samples);
        println!("  cancel of a Graph that {slug}: p50 {}, p95 {}", ms(spread.p50), ms(spread.p95));
        cancels.insert(slug.into(), spread.to_json());
    }
    let (cpu, at) = (desk.cpu_ms(), Instant::now());
    tokio::time::sleep(std::time::Duration::from_secs(20)).await;
    let cpu_per_minute = (desk.cpu_ms() - cpu) * 60.0 / at.elapsed().as_secs_f64();
    println!("  graph-deskd: {:.1} MiB, {cpu_per_minute:.0} ms of CPU a minute idle; graph-queue: {:.1} MiB", desk.rss_mib(), queue.rss_mib());
    json!({
        "ticket_to_result_ms": whole.to_json(), "pickup_ms": pickup.to_json(), "cancel_ms": cancels,
        "deskd_rss_mib": desk.rss_mib(), "deskd_cpu_ms_per_minute_idle": cpu_per_minute, "queue_rss_mib": queue.rss_mib(),
    })
}

async fn ended(agent: &Setting, command: &str) -> Value {
    loop {
        let run = agent.tool("get_graph_run", json!({"command_id": command, "wait_seconds": 25})).await;
        if run["terminal"] == true {
            return run;
        }
    }
}
