//! C53: what is secret stays secret, whatever goes wrong, at the loudest logging.
use std::{
    io::{Read, Write},
    net::TcpListener,
    path::Path,
    process::Output,
    sync::Arc,
};

use device::secrets::{Draw, SecretStore};
use serde_json::json;

use crate::world::{PASSPHRASE, World};

const PROVIDER_KEY: &str = "sk-marked-4711-provider";
const MCP_VALUE: &str = "marked-4711-mcp-value";
const WRONG_TOKEN: &str = "marked-4711-wrong-token";

/// A provider that quotes the whole request back, the key in it: `/401/…` refuses it so, `/500/…` fails so.
fn parrot() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            std::thread::spawn(move || {
                let mut heard = vec![0; 16 * 1024];
                let n = stream.read(&mut heard).unwrap_or(0);
                let heard = String::from_utf8_lossy(&heard[..n]).into_owned();
                let status = if heard.contains("/401/") { "401 Unauthorized" } else { "500 Internal Server Error" };
                let body = json!({ "error": { "message": format!("what is this? {heard}") } }).to_string();
                let _ = write!(
                    stream,
                    "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
                    body.len()
                );
            });
        }
    });
    port
}

fn files_under(folder: &Path, all: &mut Vec<std::path::PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => files_under(&entry.path(), all),
            Ok(kind) if kind.is_file() => all.push(entry.path()),
            _ => {}
        }
    }
}

#[test]
fn no_secret_is_ever_logged_printed_or_stored_whatever_fails() {
    let loud = [("GRAPH_DESK_LOG", "trace"), ("RUST_LOG", "trace"), ("RUST_BACKTRACE", "1"), ("PROVIDER_KEY", PROVIDER_KEY), ("TOKEN", MCP_VALUE)];
    let mut world = World::new();
    world.restart_queue_with(&loud);
    let mut printed: Vec<Output> = Vec::new();
    let port = parrot();
    // Refused, no TLS where TLS is expected, 401 and 500 that quote the key.
    for (name, address) in [
        ("gone", "http://127.0.0.1:1/v1".to_owned()),
        ("tls", format!("https://127.0.0.1:{port}/401/v1")),
        ("wrong", format!("http://127.0.0.1:{port}/401/v1")),
        ("broken", format!("http://127.0.0.1:{port}/500/v1")),
    ] {
        for kind in ["openai_compatible", "anthropic", "ollama"] {
            let provider = format!("{name}-{kind}");
            let add = ["model", "add", &provider, "--kind", kind, "--address", &address, "--key-from", "PROVIDER_KEY", "--model", "m"];
            let added = world.deskd_output_with(&add, &loud);
            assert!(added.status.success(), "{added:?}");
            let tested = world.deskd_output_with(&["model", "test", &provider], &loud);
            assert!(!tested.status.success(), "{provider} cannot work: {tested:?}");
            printed.extend([added, tested]);
        }
    }
    printed.push(world.deskd_output_with(&["model", "use", "default", "wrong-anthropic/m"], &loud));
    // A server that dies with its secret on its lips.
    let last_words = "import os, sys; sys.stderr.write('I had ' + os.environ['TOKEN']); sys.exit(1)";
    printed.push(world.deskd_output_with(&["mcp", "add", "dies", "--env", "TOKEN", "--", "python3", "-c", last_words], &loud));

    world.share("asks", "export const meta = { name: 'Asks', description: '' };\nreturn await agent('hello');\n");
    world.serve_with(&loud);
    let agent = world.agent("Claude");
    let session = agent.session("asks");
    let run = agent.wait_terminal(&agent.run(&session, json!({}), "key-wrong-key"));
    assert!(run["error"].as_str().unwrap().contains("401"), "{run}");
    // The line to the queue breaks while a command waits; a stranger knocks with a token of his own.
    world.line.set_down(true);
    let waiting = agent.run(&session, json!({}), "key-line-is-down");
    let stranger = reqwest::blocking::Client::new().post(format!("{}/mcp", world.address)).bearer_auth(WRONG_TOKEN).body("{}").send().unwrap();
    assert_eq!(stranger.status(), 401);
    world.line.set_down(false);
    agent.wait_terminal(&waiting);
    // And the desktop falls over in the middle.
    world.desk.take().unwrap().kill();
    world.serve_with(&[&loud[..], &[("GRAPH_DESK_CRASH_AT", "after_start_granted")]].concat());
    let crashed = agent.run(&session, json!({}), "key-falls-over");
    world.desk.as_mut().unwrap().wait();
    world.serve_with(&loud);
    agent.wait_terminal(&crashed);
    // And only its relay, by a defect of ours: what it had in hand ends truthfully, and the next command finds it at work again.
    world.desk.take().unwrap().kill();
    world.serve_with(&[&loud[..], &[("GRAPH_DESK_CRASH_AT", "panic:after_start_granted")]].concat());
    let panicked = agent.wait_terminal(&agent.run(&session, json!({}), "key-panics"));
    assert_eq!(panicked["reason"], "device_restarted", "{panicked}");
    let next = agent.wait_terminal(&agent.run(&session, json!({}), "key-after-it"));
    assert!(next["error"].as_str().unwrap().contains("401"), "it ran: {next}");
    assert!(world.log("deskd.log").contains("panicked"), "it did fail");
    printed.push(world.deskd_output_with(&["status", "--json"], &loud));

    let draw: Draw = Arc::new(|out: &mut [u8]| out.fill(7));
    let sealed = SecretStore::open(&world.dir.path().join("profile"), Some(PASSPHRASE), draw).unwrap();
    let device_token = sealed.get("device_token").unwrap().unwrap();
    let secrets = [PROVIDER_KEY, MCP_VALUE, WRONG_TOKEN, &device_token, agent.token()];
    let mut files = Vec::new();
    files_under(world.dir.path(), &mut files);
    let names: Vec<String> = files.iter().map(|f| f.file_name().unwrap().to_string_lossy().into_owned()).collect();
    for expected in ["deskd.log", "queue.log", "desk.db", "queue.db", "secrets.sealed"] {
        assert!(names.iter().any(|n| n == expected), "{expected} is among what is searched: {names:?}");
    }
    let queue_log = world.log("queue.log");
    assert!(!world.log("deskd.log").is_empty() && (queue_log.contains("DEBUG") || queue_log.contains("TRACE")), "it was loud");
    let texts = printed.iter().enumerate().map(|(n, out)| (format!("output {n}"), [&out.stdout[..], &out.stderr[..]].concat()));
    let stored = files.iter().map(|file| (file.display().to_string(), std::fs::read(file).unwrap_or_default()));
    for (place, bytes) in texts.chain(stored) {
        for secret in secrets {
            let found = bytes.windows(secret.len()).position(|window| window == secret.as_bytes());
            let around = |at: usize| String::from_utf8_lossy(&bytes[at.saturating_sub(200)..(at + 40).min(bytes.len())]).into_owned();
            assert!(found.is_none(), "a secret lies in {place}: {:?}", found.map(around));
        }
    }
}
