//! The facade with the real engine: each test is one desktop on a temporary profile, its scripts in the real `graph-vm`.
use std::{path::PathBuf, sync::Arc, time::Duration};

use agent::approvals::Attendance;
use bytes::Bytes;
use device::{
    desk::{ControlError, Desk, DeskConfig, ask_running},
    net::{OsRandom, SystemClock},
    ports::{BoxFuture, HttpSend, TransportError},
    secrets::{MemorySecrets, SecretStore},
    view::{DeskEvent, ExecutionState, FolderAccess, GraphStatus, RuleScope, Ruling},
};
use domain::wire::event::FleetWhat;
use engine::ChildVm;
use serde_json::{Value, json};

/// No network: what needs the queue says that it is not there.
struct Nowhere;
impl HttpSend for Nowhere {
    fn send(&self, _: http::Request<Bytes>, _: Duration) -> BoxFuture<'static, Result<http::Response<Bytes>, TransportError>> {
        Box::pin(async { Err(TransportError::Unreachable("nowhere cannot be reached".into())) })
    }
}

pub struct World {
    pub desk: Arc<Desk>,
    /// Where tools may write.
    pub files: tempfile::TempDir,
    /// The profile lies in it, and nothing else.
    _home: tempfile::TempDir,
}

/// Beside the test's own program; `cargo build -p engine --bin graph-vm` makes it.
fn graph_vm() -> ChildVm {
    let deps = std::env::current_exe().unwrap();
    let program: PathBuf = deps.parent().unwrap().parent().unwrap().join("graph-vm");
    assert!(program.exists(), "{} is missing: cargo build -p engine --bin graph-vm", program.display());
    ChildVm::new(program)
}

pub async fn world(attendance: Attendance) -> World {
    world_with(attendance, |_| {}).await
}

/// With parts that differ.
pub async fn world_with(attendance: Attendance, change: impl FnOnce(&mut DeskConfig)) -> World {
    let (home, files) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let profile = home.path().join("profile");
    std::fs::create_dir(&profile).unwrap();
    let draw: device::secrets::Draw = Arc::new(|out: &mut [u8]| out.fill(7));
    let mut config = DeskConfig {
        profile: profile.clone(),
        logs_folder: profile.join("logs"),
        secrets: SecretStore::fixed(&profile, Arc::new(MemorySecrets::default()), draw),
        clock: Arc::new(SystemClock),
        random: Arc::new(OsRandom),
        http: Arc::new(Nowhere),
        graph_vm: graph_vm(),
        attendance,
        device_name: "test".into(),
        excluded: Vec::new(),
        commands: None,
        fetch: None,
        builtin: None,
    };
    change(&mut config);
    let desk = Desk::open(config).unwrap();
    desk.start().await.unwrap();
    desk.folder_add(files.path().display().to_string(), FolderAccess::Write).await.unwrap();
    World { desk, files, _home: home }
}

impl World {
    pub async fn ready(&self, slug: &str, source: &str) -> String {
        let args = json!({ "file_name": "x.graph.js", "source": source, "ready": true, "slug": slug });
        self.desk.verb("cli_import", args).await.unwrap()["id"].as_str().unwrap().to_owned()
    }

    /// Runs to the end.
    pub async fn run(&self, slug: &str, args: Value) -> Value {
        self.desk.verb("cli_run", json!({ "slug": slug, "args": args.to_string() })).await.unwrap()
    }

    /// The first question that is open, awaited.
    pub async fn question(&self) -> device::view::ApprovalQuestion {
        let mut changes = self.desk.approvals().watch();
        loop {
            if let Some(question) = self.desk.questions().into_iter().next() {
                return question;
            }
            changes.changed().await.unwrap();
        }
    }
}

const ECHO: &str =
    "export const meta = { name: 'Echo', description: 'Says what it was told' };\nphase('Echo');\nlog('hello');\nreturn { got: args };\n";
const WRITES: &str = "export const meta = { name: 'Writes', description: 'Writes a file', tools: ['write_file'] };\n\
    return await tool('write_file', { path: args.path, content: 'hello' });\n";

#[tokio::test]
async fn a_run_keeps_its_story_its_result_and_its_place_in_the_history() {
    let w = world(Attendance::None).await;
    let id = w.ready("echo", ECHO).await;
    let mut events = w.desk.events();
    let ran = w.run("echo", json!({ "z": 1, "a": [true, null] })).await;
    assert_eq!((&ran["state"], &ran["result"]), (&json!("completed"), &json!({ "got": { "z": 1, "a": [true, null] } })), "{ran}");
    let detail = w.desk.execution_open(ran["execution_id"].as_str().unwrap().into()).await.unwrap();
    assert_eq!(detail.result.as_deref(), Some(r#"{"got":{"z":1,"a":[true,null]}}"#));
    let seqs: Vec<u64> = detail.events.iter().map(|e| e.seq).collect();
    assert_eq!(seqs, (1..=seqs.len() as u64).collect::<Vec<_>>());
    assert!(matches!(detail.events.first().unwrap().what, FleetWhat::FleetStarted { .. }));
    assert!(matches!(detail.events.last().unwrap().what, FleetWhat::FleetFinished { .. }));
    assert!(detail.events.iter().any(|e| matches!(&e.what, FleetWhat::Log { text } if text == "hello")));
    // The window heard the same story while it happened.
    let mut heard = Vec::new();
    while let Ok(event) = events.try_recv() {
        if let DeskEvent::Fleet { events, .. } = event {
            heard.extend(events.into_iter().map(|e| e.seq));
        }
    }
    assert_eq!(heard, seqs);
    let page = w.desk.executions_list(Default::default()).await.unwrap();
    assert_eq!((page.total, page.rows[0].slug.as_str(), page.rows[0].graph_id.as_str()), (1, "echo", id.as_str()));
    assert_eq!(w.desk.graphs_list().await.unwrap()[0].last_execution.as_ref().unwrap().state, ExecutionState::Completed);
    assert!(w.desk.executor().running().is_empty());
}

#[tokio::test]
async fn the_worst_case_is_told_where_the_graph_bounds_it() {
    let w = world(Attendance::None).await;
    let ceiling = w.desk.settings_get().await.unwrap().token_ceiling;
    let bounded = "export const meta = { name: 'B', description: 'Bounded', limits: { agents: 12, token_ceiling: 5000 } };\nreturn 1;\n";
    for (slug, source, told) in [("bounded", bounded, (Some(12), 5_000)), ("open", ECHO, (None, ceiling))] {
        let id = w.ready(slug, source).await;
        let powers = w.desk.graph_open(id).await.unwrap().powers;
        assert_eq!((powers.agents_max, powers.token_ceiling), told, "{slug}");
    }
}

#[tokio::test]
async fn without_a_window_an_ask_is_denied_at_once_logged_and_told_in_words() {
    let w = world(Attendance::None).await;
    w.ready("writes", WRITES).await;
    let file = w.files.path().join("never.txt");
    let ran = w.run("writes", json!({ "path": file })).await;
    assert_eq!((&ran["state"], &ran["reason"]), (&json!("failed"), &json!("script_error")), "{ran}");
    let error = ran["error"].as_str().unwrap();
    assert!(error.contains("write_file") && error.contains("graph-deskd allow"), "{error}");
    assert!(!file.exists());
    let log = w.desk.approvals_get().await.unwrap().log.rows;
    assert_eq!(log.iter().map(|l| l.ruling).collect::<Vec<_>>(), [Ruling::Deny, Ruling::Ask]);
}

#[tokio::test]
async fn a_rule_for_a_folder_lets_the_tool_act_there() {
    let w = world(Attendance::None).await;
    w.ready("writes", WRITES).await;
    let allow = json!({ "tool": "write_file", "ruling": "allow", "pattern": w.files.path(), "graph": null, "project": null });
    let saved = w.desk.verb("cli_allow", allow).await.unwrap();
    assert!(saved["rule"].as_str().unwrap().starts_with("allow write_file"), "{saved}");
    let file = w.files.path().join("out.txt");
    let ran = w.run("writes", json!({ "path": file })).await;
    assert_eq!(ran["state"], "completed", "{ran}");
    assert_eq!(std::fs::read_to_string(file).unwrap(), "hello");
    assert_eq!(w.desk.approvals_get().await.unwrap().rules[0].uses, 1);
}

#[tokio::test]
async fn always_saves_the_exact_rule_and_the_next_run_does_not_ask() {
    let w = world(Attendance::Window).await;
    let id = w.ready("writes", WRITES).await;
    let args = json!({ "path": w.files.path().join("a.txt") }).to_string();
    let execution = w.desk.run_graph_now(id.clone(), args).await.unwrap();
    let question = w.question().await;
    assert_eq!((question.tool.as_str(), question.graph.as_str(), question.execution_id.as_str()), ("write_file", "Writes", execution.as_str()));
    assert!(question.rules[0].text.text.contains("version 1 of this Graph"), "{question:?}");
    w.desk.call("approval_answer", json!({ "approval": question.approval, "answer": { "answer": "always", "scope": "graph" } })).await.unwrap();
    let ran = w.run("writes", json!({ "path": w.files.path().join("b.txt") })).await;
    assert_eq!(ran["state"], "completed", "{ran}");
    assert_eq!(w.desk.approvals_get().await.unwrap().rules.len(), 1);
}

#[tokio::test]
async fn always_saves_the_rule_of_the_scope_that_was_chosen_and_no_other() {
    let w = world(Attendance::Window).await;
    let id = w.ready("writes", WRITES).await;
    w.desk.run_graph_now(id, json!({ "path": w.files.path().join("a.txt") }).to_string()).await.unwrap();
    let question = w.question().await;
    let scopes: Vec<RuleScope> = question.rules.iter().map(|rule| rule.scope).collect();
    assert_eq!(scopes, [RuleScope::Graph, RuleScope::Everywhere], "the owner's own run is of no project");
    let always = |scope: &str| json!({ "approval": question.approval, "answer": { "answer": "always", "scope": scope } });
    assert_eq!(w.desk.call("approval_answer", always("project")).await.unwrap_err().code, "approval_no_rule");
    w.desk.call("approval_answer", always("everywhere")).await.unwrap();
    let rules = w.desk.approvals_get().await.unwrap().rules;
    assert_eq!((rules.len(), rules[0].scope.text.as_str()), (1, "everywhere"));
    assert_eq!(rules[0].text, question.rules[1].text, "what was shown is what is saved");
}

#[tokio::test]
async fn the_popup_takes_no_answer_in_its_first_half_second_and_answers_its_own_question_only() {
    let w = world(Attendance::Window).await;
    let id = w.ready("writes", WRITES).await;
    w.desk.run_graph_now(id, json!({ "path": w.files.path().join("a.txt") }).to_string()).await.unwrap();
    let question = w.question().await;
    let shown = w.desk.popup_call(question.approval, "popup_question", Value::Null).await.unwrap();
    assert_eq!(shown["approval"], question.approval);
    let once = json!({ "answer": { "answer": "once" } });
    assert_eq!(w.desk.popup_call(question.approval, "popup_answer", once.clone()).await.unwrap_err().code, "approval_locked");
    assert_eq!(w.desk.popup_call(question.approval + 1, "popup_answer", once).await.unwrap_err().code, "approval_closed");
    assert_eq!(w.desk.popup_call(question.approval, "approvals_get", Value::Null).await.unwrap_err().code, "unknown_command");
}

#[tokio::test]
async fn the_owner_stops_a_run_and_its_question_goes_with_it() {
    let w = world(Attendance::Window).await;
    let id = w.ready("writes", WRITES).await;
    let execution = w.desk.run_graph_now(id, json!({ "path": w.files.path().join("a.txt") }).to_string()).await.unwrap();
    w.question().await;
    w.desk.fleet_cancel_run(execution.clone()).await.unwrap();
    ended(&w, &execution).await;
    let detail = w.desk.execution_open(execution.clone()).await.unwrap();
    assert_eq!((detail.row.state, detail.row.reason.as_deref()), (ExecutionState::Cancelled, Some("owner_stopped")));
    assert!(w.desk.questions().is_empty());
    assert_eq!(w.desk.fleet_cancel_run(execution).await.unwrap_err().code, "execution_ended");
}

#[tokio::test]
async fn quitting_ends_what_runs_as_owner_quit() {
    let w = world(Attendance::None).await;
    let id = w.ready("slow", "export const meta = { name: 'Slow', description: 'Sleeps' };\nawait sleep(600);\n").await;
    let execution = w.desk.run_graph_now(id, "{}".into()).await.unwrap();
    w.desk.shutdown("test").await;
    let detail = w.desk.execution_open(execution).await.unwrap();
    assert_eq!((detail.row.state, detail.row.reason.as_deref()), (ExecutionState::Failed, Some("owner_quit")));
}

/// Waits until its ending is stored and it is out of the list of what runs.
pub async fn ended(w: &World, execution: &str) {
    let mut topics = w.desk.store().topics();
    let id = domain::ExecutionId::parse(execution).unwrap();
    let is_open = || {
        let stored = w.desk.store().execution(&id).unwrap().unwrap().ended_at.is_some();
        !stored || w.desk.executor().running().iter().any(|r| r.execution == id)
    };
    while is_open() {
        topics.recv().await.unwrap();
    }
}

#[tokio::test]
async fn a_graph_with_faults_is_saved_but_never_ready() {
    let w = world(Attendance::None).await;
    let faulty = "export const meta = { name: 'Bad', description: '' };\nlet x = ;\n";
    let import = |ready: bool| json!({ "file_name": "bad.graph.js", "source": faulty, "ready": ready, "slug": null });
    let refused = w.desk.verb("cli_import", import(true)).await.unwrap_err();
    assert_eq!((refused.code.as_str(), refused.line), ("source_faulty", Some(2)), "{refused:?}");
    let draft = w.desk.verb("cli_import", import(false)).await.unwrap();
    let change = json!({ "id": draft["id"], "change": { "status": "ready" } });
    assert_eq!(w.desk.call("graph_update", change).await.unwrap_err().code, "source_faulty");
    // A ready Graph whose next version is broken falls back to draft: no command runs it.
    let id = w.ready("good", ECHO).await;
    let detail = w.desk.graph_save(id, faulty.into()).await.unwrap();
    assert_eq!((detail.row.status, detail.row.version), (GraphStatus::Draft, 2));
    assert_eq!(detail.inspection.faults[0].line, 2);
}

#[tokio::test]
async fn an_imported_graph_gets_a_slug_of_its_own_and_is_shared_with_nobody() {
    let w = world(Attendance::None).await;
    let import = json!({ "file_name": "echo.graph.js", "source": ECHO, "ready": true, "slug": null });
    let first = w.desk.verb("cli_import", import.clone()).await.unwrap();
    let second = w.desk.verb("cli_import", import).await.unwrap();
    assert_eq!((&first["slug"], &second["slug"]), (&json!("echo"), &json!("echo-2")));
    assert!(w.desk.graphs_list().await.unwrap().iter().all(|g| g.shared_with.is_empty()));
    let refused = w.desk.verb("cli_share", json!({ "slug": "echo", "project": "Home" })).await.unwrap_err();
    assert_eq!(refused.code, "not_paired");
}

#[tokio::test]
async fn a_called_graph_is_narrowed_by_its_own_tools_and_its_callers() {
    let w = world(Attendance::None).await;
    w.desk.call("rule_add", json!({ "rule": { "tool": "write_file", "ruling": "allow" } })).await.unwrap();
    w.ready("writes", WRITES).await;
    w.ready("reads-only", "export const meta = { name: 'R', description: '', tools: ['read_file'] };\nreturn await graph('writes', args);\n").await;
    w.ready("calls", "export const meta = { name: 'C', description: '' };\nreturn await graph('writes', args);\n").await;
    let file = w.files.path().join("out.txt");
    let narrowed = w.run("reads-only", json!({ "path": file })).await;
    assert_eq!(narrowed["state"], "failed", "{narrowed}");
    assert!(!file.exists());
    let allowed = w.run("calls", json!({ "path": file })).await;
    assert_eq!(allowed["state"], "completed", "{allowed}");
}

#[cfg(unix)]
#[tokio::test]
async fn the_control_socket_asks_for_its_key_and_never_answers_an_agents_question() {
    let w = world(Attendance::Window).await;
    w.desk.listen_control().unwrap();
    let profile = &w.desk.config().profile;
    let status = ask_running(profile, "status_get", Value::Null).await.unwrap();
    assert_eq!(status["relay"]["at"], "not_connected");
    let refused = ask_running(profile, "approval_answer", json!({ "approval": 1, "answer": { "answer": "once" } })).await;
    assert!(matches!(refused, Err(ControlError::Refused(e)) if e.code == "window_only"));
    let mode = |name: &str| {
        use std::os::unix::fs::PermissionsExt;
        std::fs::metadata(profile.join(name)).unwrap().permissions().mode() & 0o777
    };
    assert_eq!((mode("control.sock"), mode("control.key")), (0o600, 0o600));
    std::fs::write(profile.join("control.key"), "wrong").unwrap();
    assert!(matches!(ask_running(profile, "status_get", Value::Null).await, Err(ControlError::Broken(_))));
}

#[tokio::test]
async fn a_hostile_command_is_an_answer_not_a_panic() {
    let w = world(Attendance::None).await;
    for (name, _) in device::desk::call::NAMES {
        for args in [Value::Null, json!([]), json!({ "id": 1, "bogus": 1 }), json!("x")] {
            if let Err(e) = w.desk.call(name, args).await {
                assert!(e.message.ends_with(['.', ')']), "{name}: {}", e.message);
            }
        }
    }
}

#[tokio::test]
async fn a_dry_run_changes_nothing_and_says_what_a_run_would_do() {
    let w = world(Attendance::Window).await;
    let id = w.ready("writes", WRITES).await;
    let file = w.files.path().join("never.txt");
    let execution = w.desk.run_graph_dry(id, json!({ "path": file }).to_string()).await.unwrap();
    ended(&w, &execution).await;
    let detail = w.desk.execution_open(execution).await.unwrap();
    assert_eq!((detail.row.dry, detail.row.state, detail.row.tokens), (true, ExecutionState::Completed, 0), "{:?}", detail.error);
    let told = |words: &str| detail.events.iter().any(|e| matches!(&e.what, FleetWhat::Log { text } if text.contains(words)));
    assert!(told("0 agents") && told("write_file: called 1 times, you would be asked 1 times"), "{:?}", detail.events);
    assert!(!file.exists() && w.desk.questions().is_empty());
    assert!(w.desk.approvals_get().await.unwrap().log.rows.is_empty());
}

#[tokio::test]
async fn a_graphs_own_question_is_answered_by_choosing() {
    let w = world(Attendance::Window).await;
    let source = "export const meta = { name: 'Asks', description: '' };\nreturn await ask('Which one?', { options: ['first', 'second'] });\n";
    let id = w.ready("asks", source).await;
    let execution = w.desk.run_graph_now(id, "{}".into()).await.unwrap();
    let question = w.question().await;
    assert_eq!((question.title.text.as_str(), question.options.as_deref().unwrap().len()), ("Which one?", 2));
    let answer = |answer: Value| w.desk.call("approval_answer", json!({ "approval": question.approval, "answer": answer }));
    assert_eq!(answer(json!({ "answer": "once" })).await.unwrap_err().code, "approval_no_rule");
    assert_eq!(answer(json!({ "answer": "option", "index": 2 })).await.unwrap_err().code, "bad_argument");
    answer(json!({ "answer": "option", "index": 1 })).await.unwrap();
    ended(&w, &execution).await;
    assert_eq!(w.desk.execution_open(execution).await.unwrap().result.as_deref(), Some("\"second\""));
}

/// Answers "yes" and counts how often it was asked.
#[derive(Default)]
struct Yes(std::sync::atomic::AtomicUsize);
impl agent::model::Model for Yes {
    fn call<'a>(
        &'a self,
        _: &'a agent::model::ModelRequest,
        on_text: &'a (dyn Fn(&str) + Send + Sync),
    ) -> BoxFuture<'a, Result<agent::model::ModelReply, agent::model::ModelError>> {
        use agent::model::{ModelReply, ModelUsage, Said, Stop};
        self.0.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        on_text("yes");
        let usage = ModelUsage { input: 10, output: 1, ..ModelUsage::default() };
        let said = Said { text: "yes".into(), ..Said::default() };
        Box::pin(async move { Ok(ModelReply { said, usage: Some(usage), stop: Stop::Done }) })
    }
}

/// A desktop with one model that says yes, for 10 tokens in and 1 out.
fn say_yes(w: &World, price: Option<agent::model::Price>) -> Arc<Yes> {
    use agent::model::{Lane, ModelEntry, Models, ToolCalls};
    let (yes, mut models) = (Arc::new(Yes::default()), Models::new());
    let (model, lane) = (Arc::clone(&yes) as Arc<dyn agent::model::Model>, Lane::new(1));
    models.add(ModelEntry { name: "test/yes".into(), model, tool_calls: ToolCalls::Native, price, lane });
    w.desk.executor().set_models(models);
    yes
}

/// C32: what a run cost is reported where every price and usage is known, else as unknown, never as 0.
#[tokio::test]
async fn the_reported_cost_is_the_price_tables_and_unknown_without_a_price() {
    let w = world(Attendance::None).await;
    let agents = |n: usize| {
        format!("export const meta = {{ name: 'Asks', description: '' }};\nfor (let i = 0; i < {n}; i++) await agent('Say yes');\nreturn 1;\n")
    };
    w.ready("three", &agents(3)).await;
    w.ready("none", &agents(0)).await;
    let price = agent::model::Price { input: 1_000.0, output: 5_000.0, cache_read: None, cache_written: None };
    say_yes(&w, Some(price));
    let run = w.run("three", json!({})).await;
    assert!((run["cost"].as_f64().unwrap() - 0.045).abs() < 1e-9, "3 × (10 × 0.001 + 1 × 0.005): {run}");
    assert_eq!(w.run("none", json!({})).await["cost"], 0.0, "nothing was asked, nothing was paid");
    say_yes(&w, None);
    assert_eq!(w.run("three", json!({})).await["cost"], Value::Null);
}

/// A call that could cost more than the owner's money ceiling is refused before it is made.
#[tokio::test]
async fn a_money_ceiling_holds_for_priced_models() {
    let w = world(Attendance::None).await;
    let source = "export const meta = { name: 'Asks', description: '' };\nfor (;;) await agent('Say yes', { max_tokens: 100 });\n";
    w.ready("asks", source).await;
    let change = json!({ "change": { "cost_ceiling_cents": 60, "max_tokens_per_call": 80 } });
    w.desk.call("settings_update", change).await.unwrap();
    // 7 + 64 bytes of input at most, 80 tokens of output at most: 0.471 dollars at worst, 0.015 in truth.
    let price = agent::model::Price { input: 1_000.0, output: 5_000.0, cache_read: None, cache_written: None };
    let yes = say_yes(&w, Some(price));
    let run = w.run("asks", json!({})).await;
    assert_eq!(run["reason"], "ceiling_reached", "{run}");
    assert!(
        run["error"].as_str().unwrap().contains("money ceiling reached: 0.1350 of 0.6000 spent, 0.0000 held, the next call could cost 0.4710"),
        "{run}"
    );
    assert_eq!(yes.0.load(std::sync::atomic::Ordering::SeqCst), 9);
    assert!((run["cost"].as_f64().unwrap() - 0.135).abs() < 1e-9, "{run}");
}

#[tokio::test]
async fn a_resumed_run_does_not_pay_again_for_agents_that_had_answered() {
    let w = world(Attendance::None).await;
    let yes = say_yes(&w, None);
    let source = "export const meta = { name: 'Fails', description: '' };\nconst said = await agent('Say yes');\nthrow new Error('after ' + said);\n";
    w.ready("fails", source).await;
    let first = w.run("fails", json!({})).await;
    assert!(first["error"].as_str().unwrap().contains("after yes"), "{first}");
    assert_eq!(first["tokens"], 11, "{first}");
    let before = w.desk.execution_open(first["execution_id"].as_str().unwrap().into()).await.unwrap();
    assert!(before.can_resume);
    assert!(before.events.iter().any(|e| e.seq == 0 && matches!(&e.what, FleetWhat::AgentText { text, .. } if text == "yes")), "the transcript");
    assert_eq!(before.ledger.iter().map(|l| l.settled).collect::<Vec<_>>(), [Some(11)]);
    let again = w.desk.execution_resume(before.row.execution_id.clone()).await.unwrap();
    ended(&w, &again).await;
    let detail = w.desk.execution_open(again).await.unwrap();
    assert_eq!((detail.row.state, detail.row.tokens), (ExecutionState::Failed, 0));
    assert_eq!(yes.0.load(std::sync::atomic::Ordering::SeqCst), 1);
}
