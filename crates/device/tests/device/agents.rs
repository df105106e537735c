//! Agents of a real Graph under the owner's rules and ceiling, on a scripted model: C07, C39, C41, C42, C69.
use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use agent::{
    approvals::Attendance,
    model::{Lane, Message, Model, ModelEntry, ModelError, ModelReply, ModelRequest, ModelToolCall, ModelUsage, Models, Said, Stop, ToolCalls},
    tools::Commands,
};
use device::{
    ports::BoxFuture,
    relay::RunGraphs,
    view::{ExecutionDetail, ExecutionState, FolderAccess, Ruling},
};
use domain::{ExecutionId, RawJson, wire::event::FleetWhat};
use serde_json::{Value, json};

use crate::desk::{World, ended, world, world_with};

type Answers = dyn Fn(usize, &ModelRequest) -> Option<ModelReply> + Send + Sync;

/// Answers as its script says, told the number of the call; `None` hangs. Counts calls, those in flight, and what it says was used.
struct Stub {
    answers: Box<Answers>,
    calls: AtomicUsize,
    in_flight: AtomicUsize,
    used: Mutex<u64>,
}
struct Flight<'a>(&'a AtomicUsize);
impl Drop for Flight<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}
impl Model for Stub {
    fn call<'a>(&'a self, request: &'a ModelRequest, _: &'a (dyn Fn(&str) + Send + Sync)) -> BoxFuture<'a, Result<ModelReply, ModelError>> {
        Box::pin(async move {
            let number = self.calls.fetch_add(1, Ordering::SeqCst);
            self.in_flight.fetch_add(1, Ordering::SeqCst);
            let _flight = Flight(&self.in_flight);
            let Some(reply) = (self.answers)(number, request) else { return std::future::pending().await };
            *self.used.lock().unwrap() += reply.usage.unwrap().total();
            Ok(reply)
        })
    }
}

/// Makes the desk's one model, which takes any number of calls at once.
fn stub(w: &World, answers: impl Fn(usize, &ModelRequest) -> Option<ModelReply> + Send + Sync + 'static) -> Arc<Stub> {
    let stub = Arc::new(Stub { answers: Box::new(answers), calls: AtomicUsize::new(0), in_flight: AtomicUsize::new(0), used: Mutex::new(0) });
    let mut models = Models::new();
    let (model, lane) = (Arc::clone(&stub) as Arc<dyn Model>, Lane::new(64));
    models.add(ModelEntry { name: "test/stub".into(), model, tool_calls: ToolCalls::Native, price: None, lane });
    w.desk.executor().set_models(models);
    stub
}
fn says(text: &str, input: u64, output: u64) -> ModelReply {
    let usage = Some(ModelUsage { input, output, ..ModelUsage::default() });
    ModelReply { said: Said { text: text.into(), ..Said::default() }, usage, stop: Stop::Done }
}
/// Calls these tools at its first turn, and is done at the second.
fn calls_once(request: &ModelRequest, calls: &[(&str, Value)]) -> ModelReply {
    if request.messages.len() > 1 {
        return says("done", 10, 5);
    }
    let call =
        |(n, (tool, input)): (usize, &(&str, Value))| ModelToolCall { id: format!("c{n}"), tool: (*tool).into(), input: Ok(RawJson::of(input)) };
    let said = Said { calls: calls.iter().enumerate().map(call).collect(), ..Said::default() };
    ModelReply { said, ..says("", 10, 5) }
}
fn prompt(request: &ModelRequest) -> String {
    let Message::User(text) = &request.messages[0] else { panic!("{:?}", request.messages[0]) };
    text.clone()
}

async fn start(w: &World, id: &str) -> String {
    w.desk.run_graph_now(id.to_owned(), "{}".into()).await.unwrap()
}
async fn finished(w: &World, execution: &str) -> ExecutionDetail {
    ended(w, execution).await;
    w.desk.execution_open(execution.to_owned()).await.unwrap()
}

/// Fifty calls of a thousand tokens each: 336 bytes of prompt and 64 around it are at most 400 of input, and 600 come back.
const FIFTY: &str = "const prompt = 'x'.repeat(336);\n\
    const got = await parallel(Array.from({ length: 50 }, () => () => agent(prompt, { max_tokens: 600 })));\n\
    return got.length;\n";

#[tokio::test]
async fn fifty_calls_under_a_ceiling_of_ten_thousand_never_spend_more_at_any_depth() {
    let w = world(Attendance::None).await;
    w.desk.call("settings_update", json!({ "change": { "max_concurrency": 64 } })).await.unwrap();
    let limits = "limits: { max_concurrency: 50, token_ceiling: 10000 }";
    w.ready("fifty", &format!("export const meta = {{ name: 'Fifty', description: '', {limits} }};\n{FIFTY}")).await;
    w.ready("inner", &format!("export const meta = {{ name: 'Inner', description: '' }};\n{FIFTY}")).await;
    w.ready("outer", &format!("export const meta = {{ name: 'Outer', description: '', {limits} }};\nreturn await graph('inner', {{}});\n")).await;
    for (slug, failing) in [("fifty", 0), ("outer", 0), ("fifty", 2)] {
        let model = stub(&w, move |number, _| {
            let stop = if number < failing { Stop::Refused } else { Stop::Done };
            Some(ModelReply { stop, ..says("x", 400, 600) })
        });
        let ran = w.run(slug, json!({})).await;
        assert_eq!((&ran["state"], &ran["reason"]), (&json!("failed"), &json!("ceiling_reached")), "{slug}: {ran}");
        assert!(ran["error"].as_str().unwrap().contains("10,000") || ran["error"].as_str().unwrap().contains("10000"), "{ran}");
        let (calls, used) = (model.calls.load(Ordering::SeqCst), *model.used.lock().unwrap());
        let detail = w.desk.execution_open(ran["execution_id"].as_str().unwrap().into()).await.unwrap();
        let (reserved, settled) = detail.ledger.iter().fold((0, 0), |(r, s), line| (r + line.reserved, s + line.settled.unwrap()));
        println!("{slug}, {failing} failing: {calls} of 50 calls started, {reserved} tokens reserved, {settled} settled, {used} used by the stub");
        assert_eq!((calls, used, ran["tokens"].as_u64(), settled), (10, 10_000, Some(10_000), 10_000), "{slug}");
        assert!(detail.events.iter().any(|e| matches!(e.what, FleetWhat::Ledger { held: 1.., .. })), "reservations are told, too");
    }
}

#[tokio::test]
async fn the_owners_tokens_per_call_hold_where_an_agent_names_none() {
    let w = world(Attendance::None).await;
    w.desk.call("settings_update", json!({ "change": { "max_tokens_per_call": 777 } })).await.unwrap();
    w.ready("two", "export const meta = { name: 'Two', description: '' };\nawait agent('a');\nawait agent('b', { max_tokens: 50 });\n").await;
    let asked: Arc<Mutex<BTreeMap<String, u64>>> = Arc::default();
    let seen = Arc::clone(&asked);
    stub(&w, move |_, request| {
        seen.lock().unwrap().insert(prompt(request), request.max_tokens);
        Some(says("x", 10, 5))
    });
    assert_eq!(w.run("two", json!({})).await["state"], "completed");
    assert_eq!(*asked.lock().unwrap(), BTreeMap::from([("a".into(), 777), ("b".into(), 50)]));
}

#[tokio::test]
async fn without_a_model_every_graph_with_an_agent_names_the_next_step_and_spends_nothing() {
    let w = world(Attendance::None).await;
    w.ready("one", "export const meta = { name: 'One', description: '' };\nreturn await agent('x');\n").await;
    w.ready("many", "export const meta = { name: 'Many', description: '' };\nreturn await parallel([1, 2, 3, 4, 5].map(() => () => agent('x')));\n")
        .await;
    w.ready("calls", "export const meta = { name: 'Calls', description: '' };\nreturn await graph('one', {});\n").await;
    w.ready("none", "export const meta = { name: 'None', description: '' };\nreturn 7;\n").await;
    for slug in ["one", "many", "calls"] {
        let ran = w.run(slug, json!({})).await;
        assert_eq!((&ran["state"], &ran["reason"], &ran["tokens"]), (&json!("failed"), &json!("no_model"), &json!(0)), "{slug}: {ran}");
        assert!(ran["error"].as_str().unwrap().contains("Open Models in Graph Desk and add a provider's key"), "{slug}: {ran}");
    }
    assert_eq!(w.run("none", json!({})).await["result"], 7, "a Graph without agents needs no model");
}

/// C07: calls in flight are aborted, however often the stop is repeated.
#[tokio::test]
async fn a_cancel_aborts_every_call_in_flight_and_is_final() {
    let w = world(Attendance::None).await;
    let source = "export const meta = { name: 'Long', description: '' };\n\
        const long = agent('long');\nconst four = parallel([1, 2, 3, 4].map((n) => () => agent('short ' + n)));\nreturn [await long, await four];\n";
    let id = w.ready("long", source).await;
    w.desk.call("settings_update", json!({ "change": { "max_concurrency": 8 } })).await.unwrap();
    let model = stub(&w, |_, _| None);
    let execution = start(&w, &id).await;
    while model.in_flight.load(Ordering::SeqCst) < 5 {
        tokio::task::yield_now().await;
    }
    let run_id = ExecutionId::parse(&execution).unwrap();
    for _ in 0..3 {
        w.desk.executor().fleet_cancel_run(&run_id);
    }
    let detail = finished(&w, &execution).await;
    assert_eq!((detail.row.state, detail.row.reason.as_deref()), (ExecutionState::Cancelled, Some("stopped")));
    assert_eq!((model.in_flight.load(Ordering::SeqCst), model.calls.load(Ordering::SeqCst)), (0, 5));
    assert!(detail.row.tokens > 0, "what the aborted calls may have used stays paid");
}

/// C41, started by hand; `tests/system.rs` does the same through the relay.
#[tokio::test]
async fn in_a_called_graphs_agents_a_denied_tool_never_runs_and_each_write_asks_once() {
    let w = world_with(Attendance::Window, |config| config.commands = Some(Commands { helper: "/no/such/helper".into() })).await;
    w.desk.call("tool_setting_set", json!({ "tool": "run_command", "ruling": "deny" })).await.unwrap();
    let inner = "export const meta = { name: 'Inner', description: '' };\n\
        return await parallel([0, 1, 2].map((n) => () => agent('' + n, { label: 'step ' + n, tools: ['run_command', 'write_file'] })));\n";
    w.ready("inner", inner).await;
    let id = w.ready("outer", "export const meta = { name: 'Outer', description: '' };\nreturn await graph('inner', {});\n").await;
    let folder = w.files.path().to_owned();
    stub(&w, move |_, request| {
        let write = json!({ "path": folder.join(prompt(request)), "content": "x" });
        Some(calls_once(request, &[("run_command", json!({ "argv": ["touch", "never"] })), ("write_file", write)]))
    });
    let execution = start(&w, &id).await;
    let mut steps = Vec::new();
    for _ in 0..3 {
        let question = w.question().await;
        assert_eq!((question.tool.as_str(), question.graph.as_str()), ("write_file", "Outer"), "{question:?}");
        steps.push(question.agent.unwrap());
        w.desk.call("approval_answer", json!({ "approval": question.approval, "answer": { "answer": "once" } })).await.unwrap();
    }
    steps.sort();
    assert_eq!(steps, ["step 0", "step 1", "step 2"]);
    let detail = finished(&w, &execution).await;
    assert_eq!(detail.row.state, ExecutionState::Completed, "{:?}", detail.error);
    assert_eq!(std::fs::read_dir(w.files.path()).unwrap().count(), 3);
    let log = w.desk.approvals_get().await.unwrap().log.rows;
    let of = |tool: &str, ruling: Ruling| log.iter().filter(|l| l.tool == tool && l.ruling == ruling).count();
    assert_eq!((of("run_command", Ruling::Deny), of("run_command", Ruling::Allow), of("run_command", Ruling::Ask)), (3, 0, 0));
    assert_eq!((of("write_file", Ruling::Ask), of("write_file", Ruling::Allow)), (3, 3), "each asked once, each answered");
}

/// C42.
#[tokio::test]
async fn seven_agents_ask_at_once_and_every_answer_reaches_its_own_call() {
    let w = world(Attendance::Window).await;
    let source = "export const meta = { name: 'Seven', description: '' };\n\
        return await parallel([0, 1, 2, 3, 4, 5, 6].map((n) => () => agent('' + n, { label: 'agent ' + n, tools: ['write_file'] })));\n";
    let id = w.ready("seven", source).await;
    let folder = w.files.path().to_owned();
    let heard: Arc<Mutex<BTreeMap<String, bool>>> = Arc::default();
    let told = Arc::clone(&heard);
    stub(&w, move |_, request| {
        if let Some(Message::Tool { output, .. }) = request.messages.last() {
            told.lock().unwrap().insert(prompt(request), output.starts_with("Not done: the owner denied"));
        }
        Some(calls_once(request, &[("write_file", json!({ "path": folder.join(prompt(request)), "content": "x" }))]))
    });
    let execution = start(&w, &id).await;
    let mut changes = w.desk.approvals().watch();
    while w.desk.questions().len() < 7 {
        changes.changed().await.unwrap();
    }
    let questions = w.desk.questions();
    assert_eq!(
        questions.iter().map(|q| q.waiting_behind).collect::<Vec<_>>(),
        [6, 5, 4, 3, 2, 1, 0],
        "four places, seven questions: who asks gives its place back"
    );
    assert_eq!(w.desk.status_get().await.unwrap().approvals_waiting, 7);
    let mut denied = Vec::new();
    for (at, question) in questions.iter().enumerate() {
        let answer = if at % 2 == 0 { json!({ "answer": "once" }) } else { json!({ "answer": "deny", "note": null }) };
        let arguments: Value = serde_json::from_str(&question.arguments).unwrap();
        let file = arguments["path"].as_str().unwrap().rsplit('/').next().unwrap().to_owned();
        assert_eq!(question.agent.as_deref(), Some(format!("agent {file}").as_str()));
        if at % 2 == 1 {
            denied.push(file);
        }
        w.desk.call("approval_answer", json!({ "approval": question.approval, "answer": answer })).await.unwrap();
    }
    let detail = finished(&w, &execution).await;
    assert_eq!(detail.row.state, ExecutionState::Completed, "a denied call is not a failed agent: {:?}", detail.error);
    let heard = heard.lock().unwrap();
    for n in 0..7 {
        let is_denied = denied.contains(&n.to_string());
        assert_eq!((heard[&n.to_string()], w.files.path().join(n.to_string()).exists()), (is_denied, !is_denied), "{n}");
    }
}

/// C69.
#[tokio::test]
async fn the_apps_own_data_is_out_of_reach_whatever_folder_is_granted() {
    let w = world(Attendance::None).await;
    let profile = w.desk.config().profile.canonicalize().unwrap();
    let parent = profile.parent().unwrap().display().to_string();
    for path in [parent.clone(), profile.display().to_string()] {
        let refused = w.desk.folder_add(path.clone(), FolderAccess::Write).await.unwrap_err();
        assert!(refused.message.contains("Graph Desk's own data"), "{path}: {refused:?}");
    }
    w.desk.folder_add(parent.clone(), FolderAccess::Read).await.unwrap();
    w.desk.call("rule_add", json!({ "rule": { "tool": "*", "ruling": "allow" } })).await.unwrap();
    let source = "export const meta = { name: 'Looks', description: '' };\nreturn await tool(args.tool, args.input);\n";
    w.ready("looks", source).await;
    let database = profile.join("desk.db");
    let before = std::fs::read_dir(&profile).unwrap().count();
    for (tool, input) in [
        ("read_file", json!({ "path": database })),
        ("list_files", json!({ "path": profile })),
        ("search_files", json!({ "path": profile, "text": "SQLite" })),
        ("write_file", json!({ "path": profile.join("new"), "content": "x" })),
        ("edit_file", json!({ "path": database, "old": "a", "new": "b" })),
    ] {
        let ran = w.run("looks", json!({ "tool": tool, "input": input })).await;
        assert_eq!(ran["state"], "failed", "{tool}: {ran}");
    }
    let listed = w.run("looks", json!({ "tool": "search_files", "input": { "path": parent, "text": "SQLite format" } })).await;
    assert!(!listed.to_string().contains("desk.db"), "{listed}");
    assert_eq!(std::fs::read_dir(&profile).unwrap().count(), before);
}
