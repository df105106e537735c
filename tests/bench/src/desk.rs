//! From ticket to visible result and from cancel to ending, with a real desktop behind the queue.
use std::{
    process::Command,
    time::{Duration, Instant},
};

use domain::Timestamp;
use serde_json::{Value, json};

use crate::{
    programs::{self, CpuMeter, Program, deskd_run},
    queue,
    setting::{Setting, client, text},
    stats::{Spread, ms},
};

const TRIVIAL: &str = "export const meta = { name: 'Trivial', description: 'Returns its arguments' };\nreturn args;\n";
const WAITS: &str = "export const meta = { name: 'Waits', description: 'Waits' };\nawait sleep(600);\n";
const SPINS: &str = "export const meta = { name: 'Spins', description: 'Never ends' };\nwhile (true) {}\n";

const TICKETS: usize = 200;
const CANCELS: usize = 30;
const BURST: usize = 300;
/// Long enough for the doorbell's pauses to have grown to their longest.
const OFFLINE: Duration = Duration::from_secs(60);

/// A bare fsync's milliseconds come in, so that figures can be told in fsyncs of this machine.
pub async fn measure(fsync_ms: f64) -> Value {
    let dir = tempfile::tempdir_in(programs::scratch()).unwrap();
    let dir = dir.path();
    let (queue, base) = queue::start(dir);
    let code = programs::pairing_code(dir.join("queue.db").to_str().unwrap());
    deskd_run(dir, &["pair", &base, &code]);
    for (slug, source) in [("trivial", TRIVIAL), ("waits", WAITS), ("spins", SPINS)] {
        let file = dir.join(format!("{slug}.graph.js"));
        std::fs::write(&file, source).unwrap();
        deskd_run(dir, &["import", file.to_str().unwrap(), "--ready", "--slug", slug]);
        deskd_run(dir, &["share", slug, "--project", "Bench"]);
    }
    let token = text(&serde_json::from_str::<Value>(&deskd_run(dir, &["agent-token", "bench", "--project", "Bench", "--json"])).unwrap()["token"]);
    let mut serve: Command = programs::deskd(dir);
    let desk = Program::start(serve.arg("serve"));

    let mut agent = Setting {
        base: base.clone(),
        http: client(),
        device_token: String::new(),
        project: String::new(),
        session: String::new(),
        agent_token: token,
    };
    let project = text(&agent.tool("list_projects", json!({})).await["projects"][0]["project_id"]);
    let sessions = loop {
        let listed = agent.tool("list_graph_sessions", json!({"project_id": project})).await["sessions"].clone();
        if listed.as_array().unwrap().len() == 3 {
            break listed;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    let session = |slug: &str| text(&sessions.as_array().unwrap().iter().find(|s| s["slug"] == slug).unwrap()["graph_session_id"]);

    agent.session = session("trivial");
    let trivial = tickets(&agent, fsync_ms).await;
    let mut cancelled = serde_json::Map::new();
    for slug in ["waits", "spins"] {
        agent.session = session(slug);
        cancelled.insert(slug.into(), cancels(&agent, slug).await.to_json());
    }
    agent.session = session("trivial");
    let burst = burst(&agent).await;
    let mut idle = idle(&desk, &queue, &base).await;
    drop(desk);
    let alone_ms = alone(&queue).await;
    let of_device_ms = idle["queue_cpu_ms_per_minute"].as_f64().unwrap() - alone_ms;
    println!("  of these {of_device_ms:.1} ms are the device's (≤ 1.5): the queue alone takes {alone_ms:.1}");
    (idle["queue_alone_cpu_ms_per_minute"], idle["device_cpu_ms_per_minute"]) = (alone_ms.into(), of_device_ms.into());
    let mut serve: Command = programs::deskd(dir);
    let _desk = Program::start(serve.arg("serve"));
    drop(queue);
    let back = back_online(dir, &agent, &base).await;
    json!({"ticket_to_result": trivial, "cancel_ms": cancelled, "burst": burst, "idle": idle, "back_online_first_start_ms": back})
}

async fn tickets(agent: &Setting, fsync_ms: f64) -> Value {
    let (mut whole, mut from_ticket, mut pickup, mut asked) = (Vec::new(), Vec::new(), Vec::new(), 0);
    for n in 0..TICKETS + 10 {
        let at = Instant::now();
        let command = agent.enqueue(&format!("bench-trivial-{n:06}")).await;
        let ticket_at = Instant::now();
        let (run, calls) = ended(agent, &command).await;
        assert_eq!(run["status"], "completed", "{run}");
        if n >= 10 {
            whole.push(at.elapsed().as_secs_f64() * 1000.0);
            from_ticket.push(ticket_at.elapsed().as_secs_f64() * 1000.0);
            pickup.push(run["pickup_wait_ms"].as_f64().unwrap());
            asked += calls;
        }
        tokio::time::sleep(Duration::from_millis(50)).await; // tickets come one by one, as from a person
    }
    let (whole, from_ticket, pickup) = (Spread::of(whole), Spread::of(from_ticket), Spread::of(pickup));
    let calls = asked as f64 / TICKETS as f64;
    println!(
        "\nTicket to visible result, trivial Graph: p50 {}, p95 {} (n = {TICKETS}); pickup p50 {}",
        ms(from_ticket.p50),
        ms(from_ticket.p95),
        ms(pickup.p50)
    );
    println!("  with run_graph_session itself, from before the call: p50 {}, p95 {}", ms(whole.p50), ms(whole.p95));
    println!("  allowed: 6 fsyncs + 4 ms = {}; {calls:.1} get_graph_run a run", ms(6.0 * fsync_ms + 4.0));
    json!({"ms": from_ticket.to_json(), "with_call_ms": whole.to_json(), "pickup_ms": pickup.to_json(), "get_calls": calls, "allowed_p50_ms": 6.0 * fsync_ms + 4.0})
}

async fn cancels(agent: &Setting, slug: &str) -> Spread {
    let mut samples = Vec::new();
    for n in 0..CANCELS {
        let command = agent.enqueue(&format!("bench-{slug}-{n:06}")).await;
        // Running, and its script at work: progress has come up.
        while agent.tool("get_graph_run", json!({"command_id": command, "wait_seconds": 5})).await["status"] == "queued" {}
        tokio::time::sleep(Duration::from_millis(200)).await;
        let at = Instant::now();
        agent.tool("cancel_graph_run", json!({"command_id": command})).await;
        let (run, _) = ended(agent, &command).await;
        assert_eq!(run["status"], "cancelled", "{run}");
        samples.push(at.elapsed().as_secs_f64() * 1000.0);
    }
    let spread = Spread::of(samples);
    println!("  cancel of a Graph that {slug}: p50 {}, p95 {}", ms(spread.p50), ms(spread.p95));
    spread
}

/// Many commands behind one ring: all run, and none waits for the next pass.
async fn burst(agent: &Setting) -> Value {
    let at = Instant::now();
    let mut commands = Vec::new();
    for n in 0..BURST {
        commands.push(agent.enqueue(&format!("bench-burst-{n:06}")).await);
    }
    for command in &commands {
        let (run, _) = ended(agent, command).await;
        assert_eq!(run["status"], "completed", "{run}");
    }
    let seconds = at.elapsed().as_secs_f64();
    println!("  {BURST} commands one after the other: {seconds:.1} s in all, {} each", ms(seconds * 1000.0 / BURST as f64));
    json!({"commands": BURST, "seconds": seconds})
}

/// What both programs take while nothing happens.
async fn idle(desk: &Program, queue: &Program, base: &str) -> Value {
    let http = client();
    let requests = async || -> f64 {
        let text = http.get(format!("{base}/metrics")).send().await.unwrap().text().await.unwrap();
        text.lines()
            .filter(|l| l.starts_with("graph_queue_requests_total") && l.contains("device"))
            .map(|l| l.rsplit(' ').next().unwrap().parse::<f64>().unwrap())
            .sum()
    };
    let (asked, at) = (requests().await, Instant::now());
    let (mut desk_cpu, mut queue_cpu) = (CpuMeter::start(desk), CpuMeter::start(queue));
    for _ in 0..20 {
        tokio::time::sleep(Duration::from_secs(3)).await;
        desk_cpu.look();
        queue_cpu.look();
    }
    let minutes = at.elapsed().as_secs_f64() / 60.0;
    let (desk_ms, queue_ms) = (desk_cpu.ms() / minutes, queue_cpu.ms() / minutes);
    let asked = (requests().await - asked) / minutes;
    println!("  idle: graph-deskd {:.1} MiB, {desk_ms:.0} ms of CPU a minute (≤ 40 MiB, ≤ 60 ms)", desk.rss_mib());
    println!("  with an idle device the queue takes {asked:.1} requests (≤ 6) and {queue_ms:.1} ms of CPU a minute; {:.1} MiB", queue.rss_mib());
    json!({"deskd_rss_mib": desk.rss_mib(), "deskd_cpu_ms_per_minute": desk_ms, "requests_per_minute": asked, "queue_cpu_ms_per_minute": queue_ms, "queue_rss_mib": queue.rss_mib()})
}

/// What the queue takes with nobody there: CPU milliseconds a minute.
async fn alone(queue: &Program) -> f64 {
    // What the device has just left behind (its last contact, a broken line) is written first.
    tokio::time::sleep(Duration::from_secs(10)).await;
    let (at, mut cpu) = (Instant::now(), CpuMeter::start(queue));
    for _ in 0..20 {
        tokio::time::sleep(Duration::from_secs(3)).await;
        cpu.look();
    }
    cpu.ms() / (at.elapsed().as_secs_f64() / 60.0)
}

/// The queue goes away and comes back with a command in it: from the desktop's first contact to the first start.
async fn back_online(dir: &std::path::Path, agent: &Setting, base: &str) -> f64 {
    // An agent that queued it while the desktop was away: the queue is up and the desktop has not come yet.
    tokio::time::sleep(OFFLINE).await;
    let listen = base.strip_prefix("http://").unwrap();
    let queue = programs::queue(listen, dir.join("queue.db").to_str().unwrap());
    let back = Setting { base: base.to_owned(), http: client(), ..copy(agent) };
    let command = back.enqueue("bench-back-online").await;
    // The first contact after the return, as the queue saw it.
    let contact = loop {
        let run = back.tool("get_graph_run", json!({"command_id": command})).await;
        let (contact, queued) = (time(&run["desktop"]["last_contact_at"]), time(&run["times"]["queued_at"]));
        if contact > queued {
            break contact;
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    };
    let (run, _) = ended(&back, &command).await;
    assert_eq!(run["status"], "completed", "{run}");
    let started = (time(&run["times"]["started_at"]) - contact).max(0) as f64;
    println!("  after {} s without a queue: first start {} after the first contact (≤ 1 s)", OFFLINE.as_secs(), ms(started));
    drop(queue);
    started
}

/// Milliseconds; long ago where there is none.
fn time(value: &Value) -> i64 {
    value.as_str().and_then(Timestamp::parse).map_or(i64::MIN, Timestamp::ms)
}

fn copy(agent: &Setting) -> Setting {
    Setting {
        base: agent.base.clone(),
        http: agent.http.clone(),
        device_token: String::new(),
        project: agent.project.clone(),
        session: agent.session.clone(),
        agent_token: agent.agent_token.clone(),
    }
}

/// The run when it has ended, and how many questions that took.
async fn ended(agent: &Setting, command: &str) -> (Value, usize) {
    for calls in 1.. {
        let run = agent.tool("get_graph_run", json!({"command_id": command, "wait_seconds": 25})).await;
        if run["terminal"] == true {
            return (run, calls);
        }
    }
    unreachable!()
}
