//! Doubles for what the device hands in, and short ways to say things.
use std::{
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

use agent::{
    approvals::{ApprovalId, Approvals, Attendance, OwnersAnswer, Who},
    gate::{Caller, Gate, GateConfig, NoSeat, Record, Refusal, Rules, RulingLine},
    policy::{GraphAt, Rule, RuleBook, Ruling, Scope, StoredRule, Target, ToolCall, ToolClass, ToolSetting},
    tools::{Access, Grant, PrepareError, ToolOutput, Toolbox, ToolboxConfig},
};
use domain::{ExecutionId, GraphSessionId, ProjectId, RawJson, wire::event::FleetWhat};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

pub fn json(value: Value) -> RawJson {
    RawJson::of(&value)
}
pub fn execution(n: u8) -> ExecutionId {
    ExecutionId::from_random([n; 16])
}
pub fn project(n: u8) -> ProjectId {
    ProjectId::from_random([n; 16])
}
pub fn graph(n: u8, version: u64) -> GraphAt {
    GraphAt { session: GraphSessionId::from_random([n; 16]), version }
}

pub fn a_rule(tool: &str, effect: Ruling) -> Rule {
    Rule { tool: tool.into(), pattern: None, scope: Scope::Everywhere, effect, fingerprint: None }
}
pub fn book(rules: &[Rule]) -> RuleBook {
    book_of(rules.iter().map(Rule::to_json))
}
pub fn book_of(texts: impl IntoIterator<Item = String>) -> RuleBook {
    let rules = texts.into_iter().zip(1..).map(|(text, id)| StoredRule { id, text }).collect();
    RuleBook { rules, ..RuleBook::default() }
}
pub fn setting(ruling: Ruling) -> ToolSetting {
    ToolSetting { ruling, fingerprint: None }
}

pub fn call_of(tool: &str, class: ToolClass, target: Target) -> ToolCall {
    let input = RawJson::empty_object();
    ToolCall { tool: tool.into(), class, target, input, fingerprint: None, place: agent::policy::Place::default(), offered: true }
}

/// Remembers what it is told; can be made to fail.
#[derive(Default)]
pub struct Recorder {
    pub lines: Mutex<Vec<RulingLine>>,
    pub events: Mutex<Vec<FleetWhat>>,
    pub broken: AtomicBool,
}
impl Recorder {
    pub fn lines(&self) -> Vec<RulingLine> {
        self.lines.lock().unwrap().clone()
    }
    pub fn events(&self) -> Vec<FleetWhat> {
        self.events.lock().unwrap().clone()
    }
}
impl Record for Recorder {
    fn ruled(&self, line: &RulingLine) -> Result<(), String> {
        if self.broken.load(Ordering::Relaxed) {
            return Err("disk full".into());
        }
        self.lines.lock().unwrap().push(line.clone());
        Ok(())
    }
    fn tell(&self, what: FleetWhat) {
        self.events.lock().unwrap().push(what);
    }
}

#[derive(Default)]
pub struct Book(pub Mutex<Option<RuleBook>>);
impl Rules for Book {
    fn current(&self) -> Result<RuleBook, String> {
        self.0.lock().unwrap().clone().ok_or_else(|| "the store is locked".to_owned())
    }
}

/// A gate over one folder granted for writing, with everything a test looks at.
pub struct Desk {
    pub folder: tempfile::TempDir,
    pub gate: Arc<Gate>,
    pub book: Arc<Book>,
    pub record: Arc<Recorder>,
    pub approvals: Approvals,
    pub stop: CancellationToken,
}
impl Desk {
    pub fn new(rules: RuleBook) -> Self {
        Self::attended(rules, Attendance::Window)
    }
    pub fn attended(rules: RuleBook, attendance: Attendance) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let toolbox = toolbox(folder.path(), Access::Write);
        Self::with(folder, toolbox, rules, Approvals::new(attendance))
    }
    pub fn with(folder: tempfile::TempDir, toolbox: Toolbox, rules: RuleBook, approvals: Approvals) -> Self {
        let (book, record, stop) = (Arc::new(Book(Mutex::new(Some(rules)))), Arc::new(Recorder::default()), CancellationToken::new());
        let gate = Arc::new(Gate::new(GateConfig {
            execution: execution(1),
            toolbox,
            rules: book.clone(),
            approvals: approvals.clone(),
            record: record.clone(),
            project: Some(project(1)),
            who: Who { graph: "Digest".into(), ..Who::default() },
            approval_timeout: None,
            stop: stop.clone(),
        }));
        Self { folder, gate, book, record, approvals, stop }
    }
    pub fn path(&self, name: &str) -> String {
        self.folder.path().canonicalize().unwrap().join(name).to_string_lossy().into_owned()
    }
    pub async fn call(&self, tool: &str, input: Value) -> Result<ToolOutput, Refusal> {
        self.call_from(&caller(), tool, input).await
    }
    pub async fn call_from(&self, caller: &Caller, tool: &str, input: Value) -> Result<ToolOutput, Refusal> {
        self.gate.call(caller, tool, &json(input), &NoSeat).await
    }
    /// Answers every question of this desk the same way, from now on.
    pub fn owner_always_says(&self, say: impl Fn(&agent::approvals::Waiting) -> OwnersAnswer + Send + 'static) -> tokio::task::JoinHandle<()> {
        let approvals = self.approvals.clone();
        tokio::spawn(async move {
            let mut changes = approvals.watch();
            loop {
                for question in approvals.waiting() {
                    let _ = approvals.answer(question.id, say(&question));
                }
                if changes.changed().await.is_err() {
                    return;
                }
            }
        })
    }
}

pub fn caller() -> Caller {
    Caller { agent: Some(1), label: Some("writer".into()), graphs: vec![graph(1, 3)], ..Caller::default() }
}

pub fn toolbox(folder: &Path, access: Access) -> Toolbox {
    let (toolbox, refused) = Toolbox::open(ToolboxConfig { folders: vec![Grant { path: folder.into(), access }], ..ToolboxConfig::default() });
    assert_eq!(refused, vec![]);
    toolbox
}

pub fn grant(path: impl Into<PathBuf>, access: Access) -> Grant {
    Grant { path: path.into(), access }
}

/// Prepares and runs, as if every call were allowed.
pub async fn act(toolbox: &Toolbox, tool: &str, input: Value) -> Result<Value, String> {
    let prepared = toolbox.prepare(tool, &json(input)).await.map_err(|e: PrepareError| e.to_string())?;
    let output = prepared.run(CancellationToken::new()).await;
    let value = output.json.to_value();
    if output.ok { Ok(value) } else { Err(value["error"].as_str().unwrap().to_owned()) }
}

/// Resolves once `n` questions wait.
pub async fn until_waiting(approvals: &Approvals, n: usize) -> Vec<ApprovalId> {
    let mut changes = approvals.watch();
    loop {
        let ids: Vec<_> = approvals.waiting().iter().map(|w| w.id).collect();
        if ids.len() == n {
            return ids;
        }
        changes.changed().await.unwrap();
    }
}
