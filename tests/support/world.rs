//! A whole system of real programs for one story: a Graph Queue, a desktop without a window, a line between them that can be cut.
use std::{
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::line::Line;

/// How long a story waits for anything before it is a failure.
pub const PATIENCE: Duration = Duration::from_secs(60);
/// Of every profile.
pub const PASSPHRASE: &str = "a passphrase of the test";

/// The folder of the programs built with this test.
pub fn bin_dir() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    test.parent().unwrap().parent().unwrap().to_path_buf()
}

/// A program of ours that runs until it is dropped or killed.
pub struct Running {
    pub child: Child,
    /// The first line it printed: it is ready.
    pub first_line: String,
}

impl Running {
    /// Starts a program and waits for its first line on stdout. Its log goes to `log`.
    pub fn start(mut command: Command, log: &Path) -> Self {
        let log = std::fs::File::options().create(true).append(true).open(log).unwrap();
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log).spawn().unwrap_or_else(|e| panic!("{command:?}: {e}"));
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let first_line = lines.next().transpose().unwrap().unwrap_or_default();
        // Nothing that is printed later may block the program.
        std::thread::spawn(move || lines.for_each(drop));
        Self { child, first_line }
    }

    /// As hard as kill -9.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Waits until it ends by itself.
    pub fn wait(&mut self) -> std::process::ExitStatus {
        let until = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(Instant::now() < until, "the program did not end");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}
impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub struct World {
    pub dir: TempDir,
    pub queue: Option<Running>,
    /// Address of Graph Queue itself; agents use it.
    pub address: String,
    /// Address the desktop uses: every answer can be cut here.
    pub line: Line,
    pub desk: Option<Running>,
    pub token: String,
}

impl World {
    /// Queue and desktop, paired, with a project "Home" and a folder the Graphs may write to. The desktop does not serve yet.
    pub fn new() -> Self {
        let world = Self::unpaired();
        let code = world.pairing_code();
        let via_line = world.line.address();
        world.deskd(&["pair", &via_line, &code]);
        let files = world.files();
        world.deskd(&["folder", "add", files.to_str().unwrap(), "--write"]);
        world
    }

    /// A running queue and a fresh profile that do not know each other.
    pub fn unpaired() -> Self {
        Self::with_queue(&[])
    }

    /// The same with a queue that is known to the world by this address.
    pub fn unpaired_as(public_url: &str) -> Self {
        Self::with_queue(&[("GRAPH_QUEUE_PUBLIC_URL", public_url)])
    }

    fn with_queue(more: &[(&str, &str)]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("files")).unwrap();
        let queue = start_queue(dir.path(), "127.0.0.1:0", more);
        let address = queue.first_line.strip_prefix("listening on ").unwrap_or_else(|| panic!("said {:?}", queue.first_line)).to_owned();
        let line = Line::to(address.strip_prefix("http://").unwrap());
        Self { dir, queue: Some(queue), address, line, desk: None, token: String::new() }
    }

    pub fn files(&self) -> PathBuf {
        self.dir.path().join("files")
    }

    pub fn pairing_code(&self) -> String {
        let database = self.dir.path().join("queue.db");
        let out =
            Command::new(bin_dir().join("graph-queue")).args(["pair", "--owner", "Ada", "--json", "--database"]).arg(database).output().unwrap();
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        serde_json::from_slice::<Value>(&out.stdout).unwrap()["pairing_code"].as_str().unwrap().to_owned()
    }

    pub fn deskd_command(&self) -> Command {
        let mut command = Command::new(bin_dir().join("graph-deskd"));
        command.env("GRAPH_DESK_PROFILE", self.dir.path().join("profile")).env("GRAPH_DESK_PASSPHRASE", PASSPHRASE);
        command
    }

    pub fn deskd_output(&self, args: &[&str]) -> Output {
        self.deskd_output_with(args, &[])
    }

    pub fn deskd_output_with(&self, args: &[&str], env: &[(&str, &str)]) -> Output {
        self.deskd_command().args(args).envs(env.iter().copied()).output().unwrap()
    }

    /// Runs one `graph-deskd` command that must succeed; its stdout.
    pub fn deskd(&self, args: &[&str]) -> String {
        let out = self.deskd_output(args);
        assert!(out.status.success(), "graph-deskd {args:?}: {}{}", String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
        String::from_utf8(out.stdout).unwrap()
    }

    pub fn deskd_json(&self, args: &[&str]) -> Value {
        let out = self.deskd(args);
        serde_json::from_str(&out).unwrap_or_else(|e| panic!("graph-deskd {args:?} printed {out:?}: {e}"))
    }

    /// Imports a ready Graph under `slug` and ticks it for "Home".
    pub fn share(&self, slug: &str, source: &str) {
        let file = self.dir.path().join(format!("{slug}.graph.js"));
        std::fs::write(&file, source).unwrap();
        self.deskd(&["import", file.to_str().unwrap(), "--ready", "--slug", slug]);
        self.deskd(&["share", slug, "--project", "Home"]);
    }

    pub fn agent_token(&self, name: &str) -> String {
        let minted = self.deskd_json(&["agent-token", name, "--project", "Home", "--json"]);
        minted["token"].as_str().unwrap().to_owned()
    }

    pub fn serve(&mut self) {
        self.serve_with(&[]);
    }

    pub fn serve_with(&mut self, env: &[(&str, &str)]) {
        let mut command = self.deskd_command();
        command.arg("serve").envs(env.iter().copied());
        let desk = Running::start(command, &self.dir.path().join("deskd.log"));
        assert_eq!(desk.first_line, "ready", "{}", self.log("deskd.log"));
        self.desk = Some(desk);
    }

    /// Starts the desktop with a crash point armed and waits for its death, which may come before it is ready.
    pub fn serve_to_die(&mut self, point: &str) -> std::process::ExitStatus {
        let mut command = self.deskd_command();
        command.arg("serve").env(device::crash::VARIABLE, point);
        Running::start(command, &self.dir.path().join("deskd.log")).wait()
    }

    pub fn restart_queue(&mut self) {
        self.restart_queue_with(&[]);
    }

    pub fn restart_queue_with(&mut self, env: &[(&str, &str)]) {
        if let Some(queue) = self.queue.take() {
            queue.kill();
        }
        let listen = self.address.strip_prefix("http://").unwrap().to_owned();
        self.queue = Some(start_queue(self.dir.path(), &listen, env));
    }

    pub fn log(&self, name: &str) -> String {
        std::fs::read_to_string(self.dir.path().join(name)).unwrap_or_default()
    }

    pub fn agent(&self, name: &str) -> Agent {
        let token = if self.token.is_empty() { self.agent_token(name) } else { self.token.clone() };
        Agent { url: format!("{}/mcp", self.address), token, http: reqwest::blocking::Client::builder().timeout(PATIENCE).build().unwrap() }
    }

    /// Executions of a Graph in the desktop's own history.
    pub fn executions(&self, slug: &str) -> Vec<Value> {
        let runs = self.deskd_json(&["runs", "--json"]);
        runs["rows"].as_array().unwrap().iter().filter(|row| row["graph"] == slug || row["slug"] == slug).cloned().collect()
    }
}

fn start_queue(dir: &Path, listen: &str, env: &[(&str, &str)]) -> Running {
    let mut command = Command::new(bin_dir().join("graph-queue"));
    command.envs(env.iter().copied());
    command.args(["serve", "--listen", listen, "--database"]).arg(dir.join("queue.db"));
    Running::start(command, &dir.join("queue.log"))
}

/// A connected agent, speaking plain JSON-RPC.
pub struct Agent {
    url: String,
    token: String,
    http: reqwest::blocking::Client,
}

impl Agent {
    pub fn token(&self) -> &str {
        &self.token
    }

    /// Names of the tools it is offered.
    pub fn tools(&self) -> Vec<String> {
        let answer = self.ask("tools/list", json!({}));
        answer["result"]["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
    }

    /// The tool's structured answer, or the text of its error.
    pub fn call(&self, tool: &str, arguments: Value) -> Result<Value, String> {
        let answer = self.ask("tools/call", json!({"name": tool, "arguments": arguments}));
        let result = &answer["result"];
        if result["isError"] == true || result.is_null() {
            return Err(result["content"][0]["text"].as_str().map_or_else(|| answer["error"]["message"].to_string(), str::to_owned));
        }
        Ok(result["structuredContent"].clone())
    }

    /// One request and its whole answer.
    fn ask(&self, method: &str, params: Value) -> Value {
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        let answer = self
            .http
            .post(&self.url)
            .bearer_auth(&self.token)
            .header("accept", "application/json, text/event-stream")
            .header("mcp-protocol-version", "2025-06-18")
            .header("content-type", "application/json")
            .body(body.to_string())
            .send()
            .unwrap();
        let status = answer.status();
        let text = answer.text().unwrap();
        serde_json::from_str(&text).unwrap_or_else(|_| panic!("{status}: {text}"))
    }

    pub fn session(&self, slug: &str) -> String {
        let projects = self.call("list_projects", json!({})).unwrap();
        let project = &projects["projects"][0]["project_id"];
        // The desktop's first sync may still be on its way.
        let until = Instant::now() + PATIENCE;
        loop {
            let listed = self.call("list_graph_sessions", json!({"project_id": project})).unwrap();
            if let Some(session) = listed["sessions"].as_array().unwrap().iter().find(|s| s["slug"] == slug) {
                return session["graph_session_id"].as_str().unwrap().to_owned();
            }
            assert!(Instant::now() < until, "{slug} was not listed: {listed}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Queues a run; its command id.
    pub fn run(&self, session: &str, arguments: Value, key: &str) -> String {
        let ticket = self.call("run_graph_session", json!({"graph_session_id": session, "arguments": arguments, "idempotency_key": key})).unwrap();
        ticket["command_id"].as_str().unwrap().to_owned()
    }

    pub fn get(&self, command: &str) -> Value {
        self.call("get_graph_run", json!({"command_id": command})).unwrap()
    }

    pub fn cancel(&self, command: &str) -> Value {
        self.call("cancel_graph_run", json!({"command_id": command})).unwrap()
    }

    /// Waits on the server (no polling pause of ours) until `done` holds.
    pub fn wait(&self, command: &str, what: &str, done: impl Fn(&Value) -> bool) -> Value {
        let until = Instant::now() + PATIENCE;
        loop {
            let run = self.call("get_graph_run", json!({"command_id": command, "wait_seconds": 2})).unwrap();
            if done(&run) {
                return run;
            }
            assert!(Instant::now() < until, "{what}: still {run}");
        }
    }

    pub fn wait_terminal(&self, command: &str) -> Value {
        self.wait(command, "an ending", |run| run["terminal"] == true)
    }

    pub fn wait_running(&self, command: &str) -> Value {
        self.wait(command, "running", |run| run["status"] != "queued")
    }
}
