//! The agent loop with a real small model (SmolLM2-135M behind a llama.cpp server) on both wire protocols.
//!
//! What such a model says differs from machine to machine: these tests look at shapes, limits and the ledger, never at words. What it cannot do
//! (native tool calls) is tested with the scripted server. `scripts/setup-model` fetches both; without them these tests fail.
#![allow(clippy::unwrap_used, clippy::expect_used)]
use std::{
    io::{BufRead, BufReader},
    net::TcpListener,
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex},
    time::Duration,
};

use agent::{
    AgentContext, AgentErrorCode as Code, AgentSpec,
    approvals::{Approvals, Attendance, Who},
    gate::{Caller, Gate, GateConfig, NoSeat, Record, Rules, RulingLine},
    model::{Models, Provider, ProviderKind, ToolCalls, discover},
    policy::RuleBook,
    run_agent,
    tools::{Access, Grant, Toolbox, ToolboxConfig},
};
use domain::{ExecutionId, ledger::Ledger, wire::event::FleetWhat};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// The server, ended when its standard input closes with this.
struct Server {
    child: Child,
    port: u16,
}
impl Server {
    async fn start() -> Self {
        let target = PathBuf::from(env!("CARGO_BIN_EXE_sandbox-helper")).ancestors().nth(2).unwrap().to_owned();
        let folder = std::env::var_os("GRAPH_DESK_MODEL").map_or_else(|| target.join("model"), PathBuf::from);
        let (python, file) = (folder.join("venv/bin/python3"), folder.join("SmolLM2-135M-Instruct.Q4_1.gguf"));
        assert!(file.exists() && python.exists(), "the small model is not in {}: run scripts/setup-model", folder.display());
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/real_model/serve.py");
        let mut command = Command::new(python);
        command.arg(script).arg(file).arg(port.to_string()).env("OMP_WAIT_POLICY", "passive").env("OMP_NUM_THREADS", "1");
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert!(lines.any(|line| line.unwrap().starts_with("READY")), "the model server ended");
        let server = Self { child, port };
        while reqwest::get(format!("http://127.0.0.1:{port}/health")).await.map_or(true, |answer| answer.status() != 200) {
            tokio::time::sleep(Duration::from_millis(50)).await; // it has no other way to say that the model is loaded
        }
        server
    }
    fn models(&self, kind: ProviderKind) -> Models {
        let address = Some(format!("http://127.0.0.1:{}/v1", self.port));
        let mut models = Models::new();
        models.add_provider(Provider { address, concurrency: 1, tool_calls: ToolCalls::Emulated, ..Provider::new("smol", kind) });
        models.alias("default", "smol/smollm2");
        models
    }
}
impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

struct Story {
    events: Mutex<Vec<FleetWhat>>,
    lines: Mutex<Vec<RulingLine>>,
    count: watch::Sender<usize>,
}
impl Record for Story {
    fn ruled(&self, line: &RulingLine) -> Result<(), String> {
        self.lines.lock().unwrap().push(line.clone());
        Ok(())
    }
    fn tell(&self, what: FleetWhat) {
        self.events.lock().unwrap().push(what);
        self.count.send_modify(|n| *n += 1);
    }
}
struct NoRules;
impl Rules for NoRules {
    fn current(&self) -> Result<RuleBook, String> {
        Ok(RuleBook::default())
    }
}

struct Fleet {
    folder: tempfile::TempDir,
    story: Arc<Story>,
    ledger: Arc<Mutex<Ledger>>,
    context: AgentContext,
}
impl Fleet {
    fn new(models: Models, ceiling: u64) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let story = Arc::new(Story { events: Mutex::default(), lines: Mutex::default(), count: watch::channel(0).0 });
        let (ledger, stop) = (Arc::new(Mutex::new(Ledger::new(ceiling))), CancellationToken::new());
        let (toolbox, _) =
            Toolbox::open(ToolboxConfig { folders: vec![Grant { path: folder.path().into(), access: Access::Read }], ..ToolboxConfig::default() });
        let gate = Arc::new(Gate::new(GateConfig {
            execution: ExecutionId::from_random([1; 16]),
            toolbox,
            rules: Arc::new(NoRules),
            approvals: Approvals::new(Attendance::None),
            record: story.clone(),
            project: None,
            who: Who::default(),
            approval_timeout: None,
            stop: stop.clone(),
        }));
        let context = AgentContext {
            caller: Caller { agent: Some(1), ..Caller::default() },
            gate,
            models: Arc::new(models),
            ledger: ledger.clone(),
            ledger_changed: Arc::new(|| {}),
            record: story.clone(),
            seat: Arc::new(NoSeat),
            stop,
            jitter: Arc::new(|| 0.5),
        };
        Self { folder, story, ledger, context }
    }
    fn spent(&self) -> (u64, u64) {
        let ledger = self.ledger.lock().unwrap();
        (ledger.spent(), ledger.held())
    }
    fn pieces(&self) -> usize {
        self.story.events.lock().unwrap().iter().filter(|e| matches!(e, FleetWhat::AgentText { .. })).count()
    }
}
fn spec(prompt: &str, max_tokens: u64) -> AgentSpec {
    AgentSpec { label: "smol".into(), prompt: prompt.into(), max_tokens: Some(max_tokens), ..AgentSpec::default() }
}

#[tokio::test]
async fn it_streams_text_and_counts_tokens_on_both_protocols() {
    let server = Server::start().await;
    for kind in [ProviderKind::OpenAi, ProviderKind::Anthropic] {
        let fleet = Fleet::new(server.models(kind), 10_000);
        let result = run_agent(spec("Say hello in one short sentence.", 48), fleet.context.clone()).await;
        let (tokens, usage) = match result {
            Ok(answer) => {
                assert!(answer.value.as_str().len() > 2);
                (answer.tokens, answer.usage)
            }
            Err(error) => {
                assert_eq!(error.code, Code::Cut, "{kind:?}: {error:?}"); // it may talk until its limit
                (error.tokens, error.usage)
            }
        };
        assert!(usage.input > 5 && (1..=48).contains(&usage.output), "{kind:?}: {usage:?}");
        assert_eq!((tokens, fleet.spent()), (usage.total(), (usage.total(), 0)), "{kind:?}");
        let reserved = fleet.ledger.lock().unwrap().entries().next().unwrap().reserved;
        assert!(usage.total() <= reserved, "{kind:?}: the estimate was high enough: {usage:?} of {reserved}");
        assert!(fleet.pieces() > 1, "{kind:?}: it came in pieces");
        println!("{kind:?}: {usage:?}, {reserved} reserved, {} pieces", fleet.pieces());
    }
}

#[tokio::test]
async fn it_fills_a_schema() {
    let server = Server::start().await;
    let fleet = Fleet::new(server.models(ProviderKind::OpenAi), 10_000);
    let schema = json!({
        "type": "object",
        "properties": { "city": { "type": "string", "maxLength": 20 }, "months": { "type": "integer" } },
        "required": ["city", "months"],
        "additionalProperties": false
    });
    let prompt = "The council of Grenoble voted to close the Rue Lafayette to cars. The works take eight months. Extract the city and the months.";
    let answer = run_agent(AgentSpec { schema: Some(schema), ..spec(prompt, 64) }, fleet.context.clone()).await.unwrap();
    let value = answer.value.to_value();
    assert!(value["city"].is_string() && value["months"].is_i64(), "{value}");
    println!("schema: {value}, {:?}", answer.usage);
}

#[tokio::test]
async fn it_is_led_through_tools_by_a_schema_to_an_end() {
    let server = Server::start().await;
    let fleet = Fleet::new(server.models(ProviderKind::OpenAi), 100_000);
    std::fs::write(fleet.folder.path().join("notes.txt"), "The meeting is on Tuesday at noon.").unwrap();
    let prompt = "Read the file notes.txt with the tool read_file. Then answer: on which day is the meeting?";
    let result = run_agent(AgentSpec { tools: vec!["read_file".into()], ..spec(prompt, 64) }, fleet.context.clone()).await;
    let calls: Vec<String> = fleet.story.lines.lock().unwrap().iter().map(|l| format!("{} {}", l.tool, l.because)).collect();
    let tried: Vec<_> = fleet
        .story
        .events
        .lock()
        .unwrap()
        .iter()
        .filter_map(|e| if let FleetWhat::ToolCall { input, .. } = e { Some(input.clone()) } else { None })
        .collect();
    assert!(!calls.is_empty(), "it was led to a tool: {result:?}");
    match &result {
        Ok(answer) => assert!(matches!(answer.value.to_value(), Value::String(_))),
        Err(error) => assert!(matches!(error.code, Code::Schema | Code::Loop | Code::Turns), "{error:?}"),
    }
    println!("tools: {tried:?} → {result:?}");
}

#[tokio::test]
async fn a_stop_in_mid_stream_keeps_the_reservation_and_frees_the_server() {
    let server = Server::start().await;
    let fleet = Fleet::new(server.models(ProviderKind::OpenAi), 10_000);
    let running = tokio::spawn(run_agent(spec("Count from one to one hundred in words.", 64), fleet.context.clone()));
    let mut count = fleet.story.count.subscribe();
    while fleet.pieces() == 0 {
        count.changed().await.unwrap();
    }
    fleet.context.stop.cancel();
    assert_eq!(running.await.unwrap().unwrap_err().code, Code::Cancelled);
    let entry = fleet.ledger.lock().unwrap().entries().next().unwrap().clone();
    assert!(entry.estimated && entry.settled == Some(entry.reserved), "{entry:?}");
    let next = Fleet::new(server.models(ProviderKind::OpenAi), 10_000);
    let after = run_agent(spec("Say yes.", 16), next.context.clone()).await;
    assert!(after.is_ok() || after.unwrap_err().code == Code::Cut);
}

#[tokio::test]
async fn the_ceiling_is_reached_in_mid_fleet_and_not_passed() {
    const CEILING: u64 = 300;
    let server = Server::start().await;
    let fleet = Fleet::new(server.models(ProviderKind::OpenAi), CEILING);
    let agents: Vec<_> = (1..=8)
        .map(|n| {
            let context = AgentContext { caller: Caller { agent: Some(n), ..Caller::default() }, ..fleet.context.clone() };
            tokio::spawn(run_agent(spec("Name one animal.", 16), context))
        })
        .collect();
    let (mut done, mut refused, mut sum) = (0, 0, 0);
    for agent in agents {
        match agent.await.unwrap() {
            Ok(answer) => {
                done += 1;
                sum += answer.tokens;
            }
            Err(error) => {
                assert!(matches!(error.code, Code::Cut | Code::CeilingReached), "{error:?}");
                refused += usize::from(error.code == Code::CeilingReached);
                sum += error.tokens;
            }
        }
    }
    let (spent, held) = fleet.spent();
    let reserved: u64 = fleet.ledger.lock().unwrap().entries().map(|e| e.reserved).sum();
    println!("ceiling {CEILING}: {done} whole answers, {refused} refused, {reserved} reserved in all, {spent} spent");
    assert!(refused > 0 && refused < 8 && spent <= CEILING && held == 0);
    assert_eq!(spent, sum);
}

#[tokio::test]
async fn a_conversation_too_long_for_it_is_an_overflow() {
    let server = Server::start().await;
    let fleet = Fleet::new(server.models(ProviderKind::OpenAi), 200_000);
    let error = run_agent(spec(&"word ".repeat(9_000), 16), fleet.context.clone()).await.unwrap_err();
    assert_eq!((error.code, fleet.spent()), (Code::ContextOverflow, (0, 0)), "{error:?}");
}

#[tokio::test]
async fn it_is_found_on_its_port() {
    let server = Server::start().await;
    let address = format!("http://127.0.0.1:{}/v1", server.port);
    let found = discover(&[("llamacpp", ProviderKind::OpenAi, &address)]).await;
    assert_eq!(found.len(), 1);
    assert!(!found[0].models.is_empty());
}
