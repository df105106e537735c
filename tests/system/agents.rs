//! Agents, their tools and the owner's questions, from a connected agent's ticket to its end.
use std::{path::PathBuf, sync::Arc};

use agent::{
    approvals::Attendance,
    model::{Lane, Message, Model, ModelEntry, ModelError, ModelReply, ModelRequest, ModelToolCall, ModelUsage, Models, Said, Stop, ToolCalls},
    tools::Commands,
};
use device::{
    desk::{Desk, DeskConfig},
    ports::BoxFuture,
    real,
    secrets::{Draw, SecretStore},
    view::{ApprovalQuestion, Ruling},
};
use domain::RawJson;
use engine::ChildVm;
use serde_json::{Value, json};

use crate::world::{Agent, PASSPHRASE, World, bin_dir};

/// The desktop of a world as its owner sees it, with a window that this test is: questions wait for an answer.
struct Owner {
    desk: Arc<Desk>,
    runtime: tokio::runtime::Runtime,
}

impl Owner {
    fn sit_down(world: &World) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let profile = world.dir.path().join("profile");
        let desk = runtime.block_on(async {
            let draw: Draw = Arc::new(|out: &mut [u8]| out.fill(7));
            let config = DeskConfig {
                secrets: SecretStore::open(&profile, Some(PASSPHRASE), draw).unwrap(),
                graph_vm: ChildVm::new(bin_dir().join("graph-vm")),
                commands: Some(Commands { helper: bin_dir().join("graph-deskd") }),
                ..real::desk_config(&profile, Attendance::Window).unwrap()
            };
            let desk = Desk::open(config).unwrap();
            desk.start().await.unwrap();
            desk
        });
        Self { desk, runtime }
    }

    fn call(&self, name: &str, args: Value) -> Value {
        self.runtime.block_on(self.desk.call(name, args)).unwrap()
    }

    /// The oldest open question, awaited.
    fn question(&self) -> ApprovalQuestion {
        let mut changes = self.desk.approvals().watch();
        self.runtime.block_on(async {
            loop {
                if let Some(question) = self.desk.questions().into_iter().next() {
                    return question;
                }
                changes.changed().await.unwrap();
            }
        })
    }

    fn allows_once(&self, question: &ApprovalQuestion) {
        self.call("approval_answer", json!({ "approval": question.approval, "answer": { "answer": "once" } }));
    }
}
impl Drop for Owner {
    fn drop(&mut self) {
        self.runtime.block_on(self.desk.shutdown("the story ends"));
    }
}

const WRITES: &str = "export const meta = { name: 'Writes', description: 'Writes a file', tools: ['write_file'] };\n\
    await tool('write_file', { path: args.path, content: 'once' });\nreturn 'written';\n";

fn seconds_left(run: &Value) -> Option<u64> {
    run["progress"]["waiting_approval"][0]["seconds_left"].as_u64()
}

#[test]
fn a_caller_sees_the_open_question_with_its_tool_and_its_time_running_out_and_cannot_answer_it() {
    let mut world = World::new();
    world.share("writes", WRITES);
    world.token = world.agent_token("Claude");
    let owner = Owner::sit_down(&world);
    owner.call("settings_update", json!({ "change": { "tell_asks": true } }));
    let agent = world.agent("Claude");
    let session = agent.session("writes");
    let listed = agent.wait_listed("writes", |session| session["asks"].is_array());
    assert_eq!(listed["asks"], json!(["write_file"]), "which tools will ask is told beforehand: {listed}");

    let command = agent.run(&session, json!({ "path": world.files().join("out.txt") }), "key-asks-the-owner");
    let asked = agent.wait(&command, "the question to be seen", |run| seconds_left(run).is_some());
    assert_eq!((&asked["status"], &asked["waiting"]["code"]), (&json!("running"), &json!("waiting_approval")), "{asked}");
    assert_eq!(asked["progress"]["waiting_approval"][0]["tool"], "write_file", "{asked}");
    let first = seconds_left(&asked).unwrap();
    assert!((1..=600).contains(&first), "{asked}");
    let later = agent.wait(&command, "its time to run on", |run| seconds_left(run).is_some_and(|left| left < first));
    assert_eq!(later["status"], "running", "nothing else changed: {later}");

    let tools = agent.tools();
    assert!(tools.iter().all(|name| !name.contains("approv") && !name.contains("answer") && !name.contains("allow")), "{tools:?}");
    assert!(!world.files().join("out.txt").exists());
    owner.allows_once(&owner.question());
    let run = agent.wait_terminal(&command);
    assert_eq!((&run["status"], &run["result"]), (&json!("completed"), &json!("written")), "{run}");
}

/// Asks for a command and a file at its first turn, and is done at the second.
struct Eager(PathBuf);
impl Model for Eager {
    fn call<'a>(&'a self, request: &'a ModelRequest, _: &'a (dyn Fn(&str) + Send + Sync)) -> BoxFuture<'a, Result<ModelReply, ModelError>> {
        let Message::User(name) = &request.messages[0] else { panic!("{:?}", request.messages) };
        let call = |id: &str, tool: &str, input: Value| ModelToolCall { id: id.into(), tool: tool.into(), input: Ok(RawJson::of(&input)) };
        let calls = if request.messages.len() > 1 {
            Vec::new()
        } else {
            vec![
                call("c", "run_command", json!({ "argv": ["touch", self.0.join("ran")] })),
                call("w", "write_file", json!({ "path": self.0.join(name), "content": "x" })),
            ]
        };
        let usage = Some(ModelUsage { input: 10, output: 5, ..ModelUsage::default() });
        Box::pin(async move { Ok(ModelReply { said: Said { text: "done".into(), calls, parts: None }, usage, stop: Stop::Done }) })
    }
}

/// C41 through the relay; by hand it is in `crates/device/tests/device/agents.rs`.
#[test]
fn through_the_relay_a_denied_tool_never_runs_and_each_write_of_a_called_graph_asks_once() {
    let mut world = World::new();
    let inner = "export const meta = { name: 'Inner', description: '' };\n\
        return await parallel([0, 1, 2].map((n) => () => agent('file-' + n, { label: 'step ' + n, tools: ['run_command', 'write_file'] })));\n";
    world.share("inner", inner);
    world.share("outer", "export const meta = { name: 'Outer', description: 'Calls' };\nreturn await graph('inner', {});\n");
    world.deskd(&["deny", "run_command"]);
    world.token = world.agent_token("Claude");
    let owner = Owner::sit_down(&world);
    let mut models = Models::new();
    let (model, lane) = (Arc::new(Eager(world.files())) as Arc<dyn Model>, Lane::new(8));
    models.add(ModelEntry { name: "test/eager".into(), model, tool_calls: ToolCalls::Native, price: None, lane });
    owner.desk.executor().set_models(models);
    let agent = world.agent("Claude");
    let command = agent.run(&agent.session("outer"), json!({}), "key-eager-agents");
    let mut steps = Vec::new();
    for _ in 0..3 {
        let question = owner.question();
        assert_eq!((question.tool.as_str(), question.graph.as_str(), question.project.as_deref()), ("write_file", "Outer", Some("Home")));
        steps.extend(question.agent.clone());
        owner.allows_once(&question);
    }
    steps.sort();
    assert_eq!(steps, ["step 0", "step 1", "step 2"]);
    let run = agent.wait_terminal(&command);
    assert_eq!((&run["status"], &run["result"]), (&json!("completed"), &json!(["done", "done", "done"])), "{run}");
    assert!(!world.files().join("ran").exists(), "the denied command ran");
    let log = owner.runtime.block_on(owner.desk.approvals_get()).unwrap().log.rows;
    assert!(log.iter().filter(|l| l.tool == "run_command").all(|l| l.ruling == Ruling::Deny));
    assert_eq!(log.iter().filter(|l| l.tool == "write_file" && l.ruling == Ruling::Ask).count(), 3);
}

/// Says it back; what it was given in its environment, it only measures.
const SERVER: &str = r#"
import json, os, sys
def say(id, result): print(json.dumps({"jsonrpc": "2.0", "id": id, "result": result}), flush=True)
for line in sys.stdin:
    m = json.loads(line)
    if m.get("method") == "initialize":
        say(m["id"], {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "small", "version": "1"}})
    elif m.get("method") == "tools/list":
        say(m["id"], {"tools": [{"name": "echo", "description": "Says it back.", "inputSchema": {"type": "object", "properties": {"t": {"type": "string"}}}}]})
    elif m.get("method") == "tools/call":
        say(m["id"], {"content": [{"type": "text", "text": m["params"]["arguments"]["t"] + " " + str(len(os.environ.get("TOKEN", "")))}]})
    elif "id" in m:
        print(json.dumps({"jsonrpc": "2.0", "id": m["id"], "error": {"code": -32601, "message": "no"}}), flush=True)
"#;

fn write_server(world: &World) -> String {
    let path = world.dir.path().join("server.py");
    std::fs::write(&path, SERVER).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn an_mcp_server_added_by_a_command_serves_a_connected_agents_run_in_a_later_program() {
    let mut world = World::new();
    let server = write_server(&world);
    let said = world.deskd(&["mcp", "add", "small", "--env", "TOKEN=marked-4711", "--", "python3", &server]);
    assert!(said.contains("ready") && said.contains("mcp__small__echo (ask)") && !said.contains("4711"), "{said}");
    let broken = world.deskd_output(&["mcp", "add", "broken", "--", "/no/such/program"]);
    assert!(!broken.status.success() && String::from_utf8_lossy(&broken.stdout).contains("could not be started"), "{broken:?}");
    world.deskd(&["mcp", "remove", "broken"]);
    // Each of these is a program of its own: what they know of the server is what was kept.
    world.deskd(&["allow", "mcp__small__echo"]);
    world.share("calls", "export const meta = { name: 'Calls', description: '' };\nreturn await tool('mcp__small__echo', { t: args.t });\n");
    assert_eq!(world.deskd_json(&["run", "calls", "--args", r#"{"t":"by hand"}"#, "--json"])["result"]["text"], "by hand 11");
    world.serve();
    let agent = world.agent("Claude");
    let command = agent.run(&agent.session("calls"), json!({ "t": "for Claude" }), "key-uses-a-server");
    let run = agent.wait_terminal(&command);
    assert_eq!((&run["status"], &run["result"]["text"]), (&json!("completed"), &json!("for Claude 11")), "{run}");
    world.deskd(&["mcp", "disable", "small"]);
    let command = agent.run(&agent.session("calls"), json!({ "t": "too late" }), "key-server-is-off");
    let run = agent.wait_terminal(&command);
    assert!(run["status"] == "failed" && run["error"].as_str().unwrap().contains("no tool named mcp__small__echo"), "{run}");
}

impl Agent {
    /// The listed session of this slug, once it is as wanted.
    fn wait_listed(&self, slug: &str, done: impl Fn(&Value) -> bool) -> Value {
        let project = self.call("list_projects", json!({})).unwrap()["projects"][0]["project_id"].clone();
        let until = std::time::Instant::now() + crate::world::PATIENCE;
        loop {
            let listed = self.call("list_graph_sessions", json!({ "project_id": project })).unwrap();
            let found = listed["sessions"].as_array().unwrap().iter().find(|s| s["slug"] == slug);
            if let Some(session) = found.filter(|session| done(session)) {
                return session.clone();
            }
            assert!(std::time::Instant::now() < until, "{slug}: still {listed}");
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
    }
}
