//! The real program: its first words, slow clients, a drain, a kill.
use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    path::Path,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use serde_json::{Value, json};

pub struct Program {
    pub child: Child,
    pub address: String,
}

impl Program {
    pub fn start(dir: &Path, more: &[&str]) -> Self {
        let log = std::fs::OpenOptions::new().create(true).append(true).open(dir.join("log")).unwrap();
        let mut child = command(dir, &["serve", "--listen", "127.0.0.1:0"]).args(more).stdout(Stdio::piped()).stderr(log).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("listening on ").and_then(|it| it.split_once("://")).unwrap_or_else(|| panic!("{line}")).1.to_owned();
        Self { child, address }
    }

    /// One request on a connection of its own; status 0 when it was cut.
    fn ask(&self, method: &str, path: &str, token: &str, body: &str) -> (u16, String) {
        self.try_ask(method, path, token, body).unwrap_or_default()
    }

    pub fn try_ask(&self, method: &str, path: &str, token: &str, body: &str) -> std::io::Result<(u16, String)> {
        let mut socket = TcpStream::connect(&self.address)?;
        let authorization = if token.is_empty() { String::new() } else { format!("authorization: Bearer {token}\r\n") };
        write!(
            socket,
            "{method} {path} HTTP/1.1\r\nhost: {}\r\ngraph-relay-version: 1\r\ncontent-type: application/json\r\n{authorization}content-length: {}\r\nconnection: close\r\n\r\n{body}",
            self.address,
            body.len()
        )?;
        let mut text = String::new();
        socket.read_to_string(&mut text)?;
        let cut = || std::io::Error::other("cut");
        let status = text.split(' ').nth(1).and_then(|s| s.parse().ok()).ok_or_else(cut)?;
        Ok((status, text.split_once("\r\n\r\n").ok_or_else(cut)?.1.to_owned()))
    }

    fn json(&self, method: &str, path: &str, token: &str, body: Value) -> Value {
        let (status, text) = self.ask(method, path, token, &body.to_string());
        assert_eq!(status, 200, "{text}");
        serde_json::from_str(&text).unwrap()
    }

    fn tool(&self, token: &str, name: &str, arguments: Value) -> Option<Value> {
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": name, "arguments": arguments}});
        let (status, text) = self.ask("POST", "/mcp", token, &body.to_string());
        (status == 200).then(|| serde_json::from_str::<Value>(&text).unwrap()["result"]["structuredContent"].clone())
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn command(dir: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_graph-queue"));
    command.current_dir(dir).args(arguments).env("RUST_LOG", "debug");
    command
}

pub fn says(dir: &Path, arguments: &[&str]) -> String {
    let out = command(dir, arguments).output().unwrap();
    format!(
        "{}{}",
        String::from_utf8_lossy(&out.stdout),
        if out.status.success() { String::new() } else { String::from_utf8_lossy(&out.stderr).into() }
    )
}

/// (device token, agent token, project)
fn set_up(dir: &Path, program: &Program) -> (String, String, String) {
    let made: Value = serde_json::from_str(&says(dir, &["pair", "--owner", "Ada", "--json"])).unwrap();
    let paired = program.json("POST", "/external-assistants/pair", "", json!({"pairing_code": made["pairing_code"], "device_name": "Desk"}));
    let token = paired["device_token"].as_str().unwrap().to_owned();
    let project = program.json("POST", "/external-assistants/projects", &token, json!({"name": "Docs"}))["project_id"].as_str().unwrap().to_owned();
    let sync = json!({"project_id": project, "revision": 1, "sessions": [crate::world::session(1)]});
    program.json("POST", "/external-assistants/graph-relays/sync", &token, sync);
    let grant = json!({"name": "Claude", "project_ids": [project], "scopes": [crate::world::READ, crate::world::RUN]});
    let agent = program.json("POST", "/external-assistants/agent-tokens", &token, grant);
    assert_eq!(agent["mcp_url"], format!("http://{}/mcp", program.address));
    (token, agent["token"].as_str().unwrap().to_owned(), project)
}

/// Also of case C20: a key that was sent, answered or not, has exactly one command.
#[test]
fn a_killed_queue_loses_nothing_it_answered_and_leaves_no_key_without_its_command() {
    let dir = tempfile::tempdir().unwrap();
    let plenty = ["--requests-per-second", "100000", "--queued-per-project", "100000"];
    let mut program = Program::start(dir.path(), &plenty);
    let (device, agent, project) = set_up(dir.path(), &program);
    let (mut answered, sent) = (Vec::new(), std::sync::Mutex::new(Vec::new()));
    for round in 0..3 {
        std::thread::scope(|scope| {
            let (program, agent, sent) = (&program, &agent, &sent);
            let writers: Vec<_> = (0..4)
                .map(|writer| {
                    scope.spawn(move || {
                        let mut mine = Vec::new();
                        for n in 0..200 {
                            let key = format!("key-{round}-{writer}-{n:05}");
                            let arguments = json!({"graph_session_id": crate::world::gs(1), "idempotency_key": key});
                            sent.lock().unwrap().push(key.clone());
                            // Refused by its quota or cut by the kill: not answered.
                            match program.tool(agent, "run_graph_session", arguments) {
                                Some(ticket) if ticket["command_id"].is_string() => {
                                    mine.push((key, ticket["command_id"].as_str().unwrap().to_owned()))
                                }
                                Some(_) => {}
                                None => break,
                            }
                        }
                        mine
                    })
                })
                .collect();
            // Killed while they write: as soon as the queue holds some of this round.
            let pid = program.child.id();
            scope.spawn(move || {
                let begin = Instant::now();
                while program
                    .ask("GET", "/metrics", "", "")
                    .1
                    .lines()
                    .find_map(|l| l.strip_prefix("graph_queue_commands_queued ")?.parse::<u64>().ok())
                    .unwrap_or(0)
                    < (round + 1) * 20
                    && begin.elapsed() < Duration::from_secs(20)
                {}
                assert!(Command::new("kill").args(["-9", &pid.to_string()]).status().unwrap().success());
            });
            for writer in writers {
                answered.extend(writer.join().unwrap());
            }
        });
        program = Program::start(dir.path(), &plenty);
        for (key, id) in &answered {
            let run = program.tool(&agent, "get_graph_run", json!({ "command_id": id })).unwrap();
            assert_eq!(run["status"], "queued");
            let again = program.tool(&agent, "run_graph_session", json!({"graph_session_id": crate::world::gs(1), "idempotency_key": key})).unwrap();
            assert_eq!((again["command_id"].as_str(), again["replayed"].as_bool()), (Some(id.as_str()), Some(true)));
        }
    }
    assert!(answered.len() >= 20, "{}", answered.len());
    let sent = sent.into_inner().unwrap();
    let of_keys: std::collections::BTreeSet<String> = sent
        .iter()
        .map(|key| {
            let again = program.tool(&agent, "run_graph_session", json!({"graph_session_id": crate::world::gs(1), "idempotency_key": key})).unwrap();
            again["command_id"].as_str().unwrap().to_owned()
        })
        .collect();
    let queued = program.ask("GET", "/metrics", "", "").1;
    assert!(queued.contains(&format!("graph_queue_commands_queued {}\n", of_keys.len())) && of_keys.len() == sent.len(), "one command for each key");
    let sync = json!({"project_id": project, "revision": 1, "sessions": [crate::world::session(1)]});
    let offered = program.json("POST", "/external-assistants/graph-relays/sync", &device, sync);
    assert!(offered["commands"].as_array().unwrap().len() >= answered.len());
}

#[test]
fn a_copy_of_a_busy_queue_is_whole_and_can_be_put_back() {
    let dir = tempfile::tempdir().unwrap();
    let plenty = ["--requests-per-second", "100000", "--queued-per-project", "100000"];
    let mut program = Program::start(dir.path(), &plenty);
    let (_, agent, _) = set_up(dir.path(), &program);
    let submit = |program: &Program, key: &str| {
        let arguments = json!({"graph_session_id": crate::world::gs(1), "idempotency_key": key});
        program.tool(&agent, "run_graph_session", arguments).unwrap()["command_id"].as_str().unwrap().to_owned()
    };
    let answered = std::sync::Mutex::new(Vec::new());
    let stop = std::sync::atomic::AtomicBool::new(false);
    let before = std::thread::scope(|scope| {
        let (program, answered, stop) = (&program, &answered, &stop);
        for writer in 0..3 {
            scope.spawn(move || {
                for n in 0.. {
                    if stop.load(std::sync::atomic::Ordering::Relaxed) {
                        return;
                    }
                    let id = submit(program, &format!("key-{writer}-{n:06}"));
                    answered.lock().unwrap().push(id);
                }
            });
        }
        let copying = scope.spawn(|| {
            while answered.lock().unwrap().len() < 30 {
                std::thread::yield_now();
            }
            let before = answered.lock().unwrap().clone();
            let said = says(dir.path(), &["backup", "copy.db"]);
            stop.store(true, std::sync::atomic::Ordering::Relaxed);
            assert!(said.contains("copied"), "{said}");
            before
        });
        copying.join().unwrap()
    });
    let later = submit(&program, "key-after-the-copy");
    assert!(says(dir.path(), &["backup", "copy.db"]).contains("exists already"));
    assert!(says(dir.path(), &["restore", "copy.db"]).contains("is in use: stop the queue first"), "never under a running queue");
    // Killed, so that the log of the old state still lies beside the file that is replaced.
    program.child.kill().unwrap();
    program.child.wait().unwrap();
    std::fs::write(dir.path().join("junk.db"), "no database").unwrap();
    assert!(says(dir.path(), &["restore", "junk.db"]).contains("junk.db"), "what is no queue is not put into its place");
    let said = says(dir.path(), &["restore", "copy.db"]);
    assert!(said.contains("restored graph-queue.db") && said.contains("revoked after the copy"), "{said}");
    let program = Program::start(dir.path(), &plenty);
    for id in &before {
        assert_eq!(program.tool(&agent, "get_graph_run", json!({ "command_id": id })).unwrap()["status"], "queued", "answered before the copy began");
    }
    assert!(program.tool(&agent, "get_graph_run", json!({ "command_id": later })).unwrap().is_null(), "queued after it: forgotten, and told so");
    let aside = std::fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).find(|n| n.contains("replaced-"));
    let kept = says(dir.path(), &["owner", "list", "--database", &aside.unwrap()]);
    assert!(kept.contains("Ada"), "what stood there is kept: {kept}");
}

#[test]
fn a_drain_answers_what_is_held_and_ends() {
    let dir = tempfile::tempdir().unwrap();
    let mut program = Program::start(dir.path(), &[]);
    let (device, _, project) = set_up(dir.path(), &program);
    let begin = Instant::now();
    std::thread::scope(|scope| {
        let program = &program;
        let held = scope.spawn(|| {
            program.json(
                "POST",
                "/external-assistants/graph-relays/doorbell",
                &device,
                json!({"project_ids": [project], "after": 0, "hold_ms": 25_000}),
            )
        });
        while !program.ask("GET", "/metrics", "", "").1.contains("graph_queue_held_requests 1") {}
        assert!(Command::new("kill").arg(program.child.id().to_string()).status().unwrap().success());
        assert_eq!(held.join().unwrap(), json!({"rang": false, "seq": 0}));
    });
    assert!(program.child.wait().unwrap().success());
    assert!(begin.elapsed() < Duration::from_secs(15));
}

fn peak_kib(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    status.lines().find_map(|l| l.strip_prefix("VmHWM:")).unwrap().trim().trim_end_matches(" kB").parse().unwrap()
}

/// Case C29: ten at once, with a length and in chunks.
#[test]
fn large_bodies_at_once_are_taken_or_refused_without_being_kept() {
    let dir = tempfile::tempdir().unwrap();
    let program = Program::start(dir.path(), &["--requests-per-second", "100000"]);
    let (_, agent, _) = set_up(dir.path(), &program);
    let before = peak_kib(program.child.id());
    let chunked = |bytes: usize| -> std::io::Result<String> {
        let mut socket = TcpStream::connect(&program.address)?;
        write!(
            socket,
            "POST /mcp HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {agent}\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n"
        )?;
        let chunk = "x".repeat(64 * 1024);
        for _ in 0..bytes / chunk.len() {
            // Refused before it is all sent: the rest is not wanted.
            if write!(socket, "{:x}\r\n{chunk}\r\n", chunk.len()).is_err() {
                break;
            }
        }
        let mut text = String::new();
        let _ = socket.read_to_string(&mut text);
        Ok(text)
    };
    std::thread::scope(|scope| {
        for n in 0..10 {
            let (program, agent, chunked) = (&program, &agent, &chunked);
            scope.spawn(move || {
                let run = |bytes: usize| {
                    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "run_graph_session", "arguments":
                        {"graph_session_id": crate::world::gs(1), "idempotency_key": format!("key-{n:05}"), "arguments": {"a": "x".repeat(bytes)}}}});
                    program.ask("POST", "/mcp", agent, &body.to_string())
                };
                let (status, text) = run(900 * 1024);
                assert!(status == 200 && text.contains("queued"), "{status} {text}");
                let (status, text) = run(1_100 * 1024);
                assert!(status == 200 && text.contains("at most 1048576 are allowed"), "{status} {text}");
                // The connection may be cut while the rest of it is still being sent; it is never a success.
                let (status, _) = run(10 << 20);
                assert!(matches!(status, 413 | 0), "{status}");
                let text = chunked(10 << 20).unwrap();
                assert!(text.is_empty() || text.starts_with("HTTP/1.1 413"), "{text}");
            });
        }
        assert_eq!(program.ask("GET", "/healthz", "", "").0, 200);
    });
    let grown = peak_kib(program.child.id()).saturating_sub(before);
    assert!(grown < 64 * 1024, "grew by {grown} KiB");
}

/// Case C48, with a second process beside it. `GRAPH_QUEUE_LONG_SECONDS=60` makes it the long form (`make long`).
#[test]
fn many_writers_and_readers_never_meet_a_locked_database() {
    let dir = tempfile::tempdir().unwrap();
    let mut program = Program::start(dir.path(), &["--requests-per-second", "1000000", "--queued-per-project", "10000000"]);
    let (device, agent, project) = set_up(dir.path(), &program);
    let long = std::env::var("GRAPH_QUEUE_LONG_SECONDS").ok().and_then(|s| s.parse().ok()).map(Duration::from_secs);
    let begin = Instant::now();
    let goes_on = |n: usize| long.map_or(n < 25, |long| begin.elapsed() < long);
    std::thread::scope(|scope| {
        let (program, device, agent, project, goes_on, dir) = (&program, &device, &agent, &project, &goes_on, &dir);
        for worker in 0..32 {
            scope.spawn(move || {
                for n in (0..).take_while(|n| goes_on(*n)) {
                    if worker % 2 == 0 {
                        let key = format!("key-{worker:03}-{n:07}");
                        let made = program
                            .tool(agent, "run_graph_session", json!({"graph_session_id": crate::world::gs(1), "idempotency_key": key}))
                            .unwrap();
                        let ended = program.tool(agent, "cancel_graph_run", json!({"command_id": made["command_id"]})).unwrap();
                        assert_eq!(ended["status"], "cancelled");
                    } else {
                        let sync = json!({"project_id": project, "revision": 1, "sessions": [crate::world::session(1)], "metadata_only": true});
                        assert!(program.json("POST", "/external-assistants/graph-relays/sync", device, sync)["commands"].is_array());
                        assert!(program.tool(agent, "list_projects", json!({})).unwrap()["projects"].is_array());
                    }
                }
            });
        }
        scope.spawn(move || {
            for n in (0..).take_while(|n| if long.is_some() { goes_on(*n) } else { *n < 4 }) {
                assert!(says(dir.path(), &["pair", "--owner", &format!("Owner {n}")]).contains("Pairing code"));
            }
        });
    });
    program.child.kill().unwrap();
    program.child.wait().unwrap();
    let log = std::fs::read_to_string(dir.path().join("log")).unwrap();
    let bad: Vec<&str> = log.lines().filter(|l| l.contains("is locked") || l.contains("ERROR")).take(5).collect();
    assert!(bad.is_empty(), "{bad:#?}");
}

#[test]
fn no_secret_is_ever_written_down() {
    let dir = tempfile::tempdir().unwrap();
    let mut program = Program::start(dir.path(), &[]);
    let (device, agent, _) = set_up(dir.path(), &program);
    let (status, _) = program.ask("POST", &format!("/mcp?token={agent}"), &agent, "{broken");
    assert_eq!(status, 400);
    assert_eq!(program.ask("POST", "/external-assistants/pair", &device, r#"{"pairing_code":"MARKMARK","device_name":"x"}"#).0, 400);
    assert_eq!(program.ask("GET", "/external-assistants/nowhere", &device, "").0, 404);
    program.tool(
        &agent,
        "run_graph_session",
        json!({"graph_session_id": crate::world::gs(1), "idempotency_key": "MARK-key-1", "arguments": {"secret": "MARK-argument"}}),
    );
    assert!(Command::new("kill").arg(program.child.id().to_string()).status().unwrap().success());
    assert!(program.child.wait().unwrap().success());
    for entry in std::fs::read_dir(dir.path()).unwrap() {
        let path = entry.unwrap().path();
        let text = String::from_utf8_lossy(&std::fs::read(&path).unwrap()).into_owned();
        for marker in [device.as_str(), agent.as_str(), "MARKMARK", "MARK-key"] {
            assert!(!text.contains(marker), "{marker} stands in {}", path.display());
        }
        assert!(path.extension().is_some() || !text.contains("MARK-argument"), "an argument stands in the log");
    }
}

#[test]
fn the_operator_sees_lists_copies_and_is_told_what_is_wrong() {
    let dir = tempfile::tempdir().unwrap();
    let program = Program::start(dir.path(), &[]);
    let (_, agent, _) = set_up(dir.path(), &program);
    let owners = says(dir.path(), &["owner", "list"]);
    assert!(owners.contains("Ada") && owners.contains("1 devices, 1 agents"), "{owners}");
    let devices = says(dir.path(), &["device", "list"]);
    assert!(devices.contains("Desk  paired"), "{devices}");
    let agents = says(dir.path(), &["agent", "list"]);
    let id = agents.split(' ').next().unwrap();
    assert!(says(dir.path(), &["agent", "revoke", id]).contains("revoked"));
    assert!(program.tool(&agent, "list_projects", json!({})).is_none(), "at the next request");
    let made = says(dir.path(), &["client", "add", "--name", "Hosted", "--redirect", "https://claude.ai/api/mcp/auth_callback"]);
    let client = made.lines().next().unwrap().strip_prefix("client id: ").unwrap();
    assert!(made.contains("client secret, shown only now: osfs_"), "{made}");
    let listed = says(dir.path(), &["client", "list"]);
    assert!(listed.contains(client) && listed.contains("with a secret") && listed.contains("auth_callback") && !listed.contains("osfs_"), "{listed}");
    assert!(says(dir.path(), &["client", "add", "--name", "x", "--redirect", "http://a.example/cb"]).contains("a redirect must be https"));
    assert!(says(dir.path(), &["client", "remove", client]).contains("removed"));
    assert!(says(dir.path(), &["client", "remove", client]).contains("there is no client"));
    assert!(says(dir.path(), &["backup", "copy.db"]).contains("copied"));
    assert!(says(dir.path(), &["owner", "list", "--database", "copy.db"]).contains("Ada"), "a copy is a whole queue");
    let url = format!("http://{}", program.address);
    let healthy = says(dir.path(), &["doctor", "--public-url", &url]);
    assert!(healthy.contains("opens and has schema") && healthy.contains("answers") && !healthy.contains("problem"), "{healthy}");
    assert!(says(dir.path(), &["doctor", "--public-url", "http://127.0.0.1:9"]).contains("problem http://127.0.0.1:9 does not answer"));
    std::fs::write(dir.path().join("q.toml"), "listen = \"127.0.0.1:1\"\nretention_days = 3\n").unwrap();
    let effective =
        says(dir.path(), &["config", "--config", "q.toml", "--listen", "127.0.0.1:2", "--database", "postgres://u:secret@h/db?password=secret"]);
    assert!(effective.contains("127.0.0.1:2") && effective.contains("retention_days = 3") && !effective.contains("secret"), "{effective}");
    assert!(says(dir.path(), &["serve", "--listen", "0.0.0.0:0"]).contains("--public-url https://"));
    assert!(says(dir.path(), &["serve", "--listen", "0.0.0.0:0", "--public-url", "http://x.example"]).contains("must be https"));
}

/// What `| head -1` does, at its worst: nobody reads from the first byte on.
#[test]
fn a_reader_that_closed_its_end_early_ends_a_command_quietly() {
    let dir = tempfile::tempdir().unwrap();
    for arguments in [&["pair", "--owner", "Ada"][..], &["pair", "--owner", "Ada", "--json"], &["owner", "list"], &["config"], &["migrate"]] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let ended = command(dir.path(), arguments).stdout(writer).output().unwrap();
        let said = String::from_utf8_lossy(&ended.stderr);
        assert!(ended.status.success() && !said.contains("panicked"), "{arguments:?}: {said}");
    }
    assert!(says(dir.path(), &["owner", "list"]).contains("Ada"), "and it did what it was asked");
}
