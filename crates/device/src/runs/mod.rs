//! The executor: `run_graph_now`, the one door by which the Graph screen and the relay start a Graph.
//!
//! It puts an execution together (source, limits, tools, rules, models, story), lets the engine run it, and stores its one ending with the
//! receipt. What not: no consent, no queue (the relay's), no scheduling (the engine's). The owner's own executions neither wait for commands
//! nor hold them up: each runs on its own. Invariant: an execution that was started here ends here, once, whatever happens to it.
mod dry;
mod host;
mod journal;
mod record;
mod seat;
mod story;

use std::{
    collections::{BTreeMap, HashMap},
    convert::Infallible,
    path::PathBuf,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use agent::{
    approvals::{Approvals, Who},
    gate::{Gate, GateConfig, Rules},
    model::Models,
    policy::{GraphAt, RuleBook},
    tools::{Commands, Fetch, McpServer, ToolDefinition, Toolbox, ToolboxConfig},
};
use domain::{ExecutionId, FailReason, Outcome, Timestamp, completion::Used};
use engine::{ChildVm, Fleet, Meta, Script, StopWhy};
use serde::{Deserialize, Serialize};
use tokio::sync::{broadcast, watch};
use tokio_util::sync::CancellationToken;

use crate::{
    ports::{BoxFuture, Clock, Random},
    relay::{RunFeed, RunGraphs, RunRequest},
    store::{Beginning, EndFacts, GraphVersion, Origin, Piece, Store, StoreError},
    view::{DeskEvent, LedgerRow, Topic},
};
use host::{Host, Member};
use journal::Journal;
use record::Recorder;
pub use story::Counts;
use story::Story;

/// What executions are made from.
pub struct Parts {
    pub store: Store,
    pub clock: Arc<dyn Clock>,
    pub random: Arc<dyn Random>,
    pub vm: ChildVm,
    pub approvals: Approvals,
    pub events: broadcast::Sender<DeskEvent>,
    /// The app's own folders.
    pub excluded: Vec<PathBuf>,
    pub commands: Option<Commands>,
    pub fetch: Option<Fetch>,
}

/// Runs Graphs. Cheap to clone.
#[derive(Clone)]
pub struct Executor(Arc<Inner>);

struct Inner {
    parts: Parts,
    live: Mutex<BTreeMap<ExecutionId, Live>>,
    /// Executions that were asked for and have not ended, whether they are in `live` yet or not.
    open: watch::Sender<usize>,
    /// The owner quits: whatever still begins is stopped at once.
    quitting: AtomicBool,
    /// The models the owner has set up now.
    models: Mutex<Arc<Models>>,
    /// MCP servers that are switched on, by their ids, whether they run or not.
    mcp: Mutex<BTreeMap<String, Arc<McpServer>>>,
}

#[derive(Clone)]
struct Live {
    fleet: Arc<Fleet>,
    story: Arc<Story>,
    graph: String,
    since: Timestamp,
    is_command: bool,
}

/// An execution that runs now.
#[derive(Debug, Clone)]
pub struct Running {
    pub execution: ExecutionId,
    pub graph: String,
    pub since: Timestamp,
    pub is_command: bool,
    pub counts: Counts,
}

/// One line of an execution's receipt, as it is stored.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ReceiptLine {
    pub label: String,
    pub reserved: u64,
    pub settled: Option<u64>,
    pub estimated: bool,
}
impl From<ReceiptLine> for LedgerRow {
    fn from(line: ReceiptLine) -> Self {
        Self { label: line.label, reserved: line.reserved, settled: line.settled, estimated: line.estimated }
    }
}

impl Executor {
    pub fn new(parts: Parts) -> Self {
        Self(Arc::new(Inner {
            parts,
            live: Mutex::default(),
            open: watch::Sender::new(0),
            quitting: AtomicBool::new(false),
            models: Mutex::default(),
            mcp: Mutex::default(),
        }))
    }

    /// The owner changed the models: executions that start from now on use these.
    pub fn set_models(&self, models: Models) {
        *lock(&self.0.models) = Arc::new(models);
    }
    pub fn models(&self) -> Arc<Models> {
        Arc::clone(&lock(&self.0.models))
    }

    /// Puts a server in its place, or none; the one before, which the caller ends.
    pub fn set_mcp_server(&self, id: &str, server: Option<Arc<McpServer>>) -> Option<Arc<McpServer>> {
        let mut all = lock(&self.0.mcp);
        match server {
            Some(server) => all.insert(id.to_owned(), server),
            None => all.remove(id),
        }
    }
    pub fn mcp_server(&self, id: &str) -> Option<Arc<McpServer>> {
        lock(&self.0.mcp).get(id).cloned()
    }
    pub fn mcp_servers(&self) -> Vec<Arc<McpServer>> {
        lock(&self.0.mcp).values().cloned().collect()
    }

    /// The app's own folders: no tool sees them, whatever is granted.
    pub fn excluded(&self) -> &[PathBuf] {
        &self.0.parts.excluded
    }

    /// The tools there are now. Folders that cannot be opened change none of them.
    pub fn tools(&self) -> Vec<ToolDefinition> {
        self.toolbox().map(|t| t.definitions()).unwrap_or_default()
    }

    /// The tools of an execution that starts now.
    pub fn toolbox(&self) -> Result<Toolbox, StoreError> {
        let parts = &self.0.parts;
        let config = ToolboxConfig {
            folders: parts.store.folders()?,
            excluded: parts.excluded.clone(),
            commands: parts.commands.clone(),
            fetch: parts.fetch.clone(),
            mcp: self.mcp_servers(),
        };
        Ok(Toolbox::open(config).0)
    }

    /// What the agents of a running execution have said that are still at work.
    pub fn texts(&self, execution: &ExecutionId) -> Vec<(u64, Vec<Piece>)> {
        lock(&self.0.live).get(execution).map(|live| live.story.texts()).unwrap_or_default()
    }

    /// Everything that runs now, oldest first.
    pub fn running(&self) -> Vec<Running> {
        let mut all: Vec<Running> = lock(&self.0.live)
            .iter()
            .map(|(execution, live)| Running {
                execution: execution.clone(),
                graph: live.graph.clone(),
                since: live.since,
                is_command: live.is_command,
                counts: live.story.counts(),
            })
            .collect();
        all.sort_by_key(|r| r.since);
        all
    }

    /// Stops one execution. False if it does not run here.
    pub fn stop(&self, execution: &ExecutionId, why: StopWhy) -> bool {
        let found = lock(&self.0.live).get(execution).cloned();
        if let Some(live) = &found {
            live.fleet.stop(why);
            self.0.parts.approvals.withdraw(execution);
        }
        found.is_some()
    }

    /// The owner quits: everything ends as failed (`owner_quit`), which the executions' own tasks store. Resolves when all have.
    pub async fn quit(&self) {
        self.0.quitting.store(true, Ordering::SeqCst);
        let mut open = self.0.open.subscribe();
        self.stop_all();
        let _ = open.wait_for(|n| *n == 0).await; // the sender lives in self
    }

    fn stop_all(&self) {
        let running: Vec<ExecutionId> = lock(&self.0.live).keys().cloned().collect();
        for execution in running {
            self.stop(&execution, StopWhy::Quit);
        }
    }

    async fn run(self, request: RunRequest, feed: RunFeed) -> Outcome {
        let prepared = match self.prepare(&request) {
            Ok(prepared) => prepared,
            Err(words) => {
                let outcome = Outcome::Failed { why: FailReason::ScriptError, error: words, used: Used::default() };
                self.store_end(&request.execution, &outcome, &EndFacts::default());
                return outcome;
            }
        };
        // A source that cannot be read is told by the run itself, as its error.
        let meta = Meta::read(&prepared.version.source).unwrap_or_default();
        let (story, writer) =
            Story::begin(request.execution.clone(), Arc::clone(&self.0.parts.clock), self.0.parts.store.clone(), self.0.parts.events.clone(), feed);
        let begun = self.begin(&request, &prepared, &meta, Arc::clone(&story));
        let (fleet, gate_stop) = match begun {
            Ok(begun) => begun,
            Err(words) => {
                story.close();
                let outcome = Outcome::Failed { why: FailReason::ScriptError, error: words, used: Used::default() };
                self.store_end(&request.execution, &outcome, &EndFacts::default());
                return outcome;
            }
        };
        let live = Live {
            fleet: Arc::clone(&fleet),
            story: Arc::clone(&story),
            graph: prepared.name.clone(),
            since: self.0.parts.clock.now(),
            is_command: request.channel.command().is_some(),
        };
        let registered = Registered::new(&self, request.execution.clone(), live);
        let script = Script { slug: prepared.slug.clone(), source: prepared.version.source };
        let stopped = async {
            fleet.stop_token().cancelled().await;
            gate_stop.cancel();
            std::future::pending::<Infallible>().await
        };
        let outcome = tokio::select! {
            biased;
            outcome = engine::run_fleet_script(&script, &request.args, Arc::clone(&fleet), &self.0.parts.vm) => outcome,
            never = stopped => match never {},
        };
        story.close();
        if let Err(e) = writer.await {
            tracing::error!(execution = %request.execution, "the story's writer ended badly: {e}");
        }
        self.store_end(&request.execution, &outcome, &end_facts(&fleet, &story.counts()));
        drop(registered);
        outcome
    }

    fn prepare(&self, request: &RunRequest) -> Result<Prepared, String> {
        let store = &self.0.parts.store;
        let broken = |e: StoreError| format!("The Graph cannot be read: {e}.");
        let graph = store.graph(request.graph).map_err(broken)?.ok_or(domain::text::DELETED)?;
        let version = store.graph_version(request.graph, request.version).map_err(broken)?;
        let version = version.ok_or_else(|| format!("Version {} of the Graph is gone.", request.version))?;
        let project = match &request.origin {
            Origin::Owner => None,
            Origin::Command(facts) => store.project(facts.project).map_err(broken)?.map(|p| p.name),
        };
        Ok(Prepared { name: graph.name, slug: graph.slug, version, project })
    }

    /// Puts fleet, gate and host together.
    fn begin(&self, request: &RunRequest, prepared: &Prepared, meta: &Meta, story: Arc<Story>) -> Result<(Arc<Fleet>, CancellationToken), String> {
        let parts = &self.0.parts;
        let broken = |e: StoreError| format!("The profile cannot be read: {e}.");
        let owner = parts.store.settings().map_err(broken)?;
        let recorder = Arc::new(Recorder {
            store: parts.store.clone(),
            clock: Arc::clone(&parts.clock),
            story: Arc::clone(&story),
            graph: prepared.name.clone(),
            fleet: OnceLock::new(),
        });
        let (project, agent) = match &request.origin {
            Origin::Owner => (None, None),
            Origin::Command(facts) => (Some(facts.project), facts.agent.clone()),
        };
        let who = Who { graph: prepared.name.clone(), agent: None, phase: None, project: prepared.project.clone(), connected_agent: agent };
        let gate_stop = CancellationToken::new();
        let gate = Arc::new(Gate::new(GateConfig {
            execution: request.execution.clone(),
            toolbox: self.toolbox().map_err(broken)?,
            rules: Arc::new(StoredRules(parts.store.clone())),
            approvals: parts.approvals.clone(),
            record: recorder.clone(),
            project,
            who: who.clone(),
            approval_timeout: Some(Duration::from_secs(owner.approval_timeout_s)),
            stop: gate_stop.clone(),
        }));
        let random = Arc::clone(&parts.random);
        let me = Member { at: GraphAt { session: request.graph, version: request.version }, tools: limited(meta.tools.clone()) };
        let host = Arc::new(Host {
            story,
            gate,
            record: recorder.clone(),
            models: self.models(),
            store: parts.store.clone(),
            execution: request.execution.clone(),
            approvals: parts.approvals.clone(),
            who,
            journal: self.journal(request).map_err(broken)?,
            jitter: Arc::new(move || random.below(1 << 53) as f64 / (1u64 << 53) as f64),
            ledger_changed: {
                let recorder = Arc::clone(&recorder);
                Arc::new(move || recorder.ledger_changed())
            },
            members: Mutex::new(HashMap::from([(prepared.slug.clone(), me)])),
        });
        let settings = self.settings(&prepared.slug, &owner, meta);
        let beginning = Beginning { ceiling: settings.token_ceiling, max_concurrency: settings.max_concurrency as u64, seed: settings.seed };
        parts.store.note_beginning(&request.execution, beginning).map_err(broken)?;
        let fleet = Fleet::new(request.execution.clone(), settings, host);
        let _ = recorder.fleet.set(Arc::downgrade(&fleet));
        Ok((fleet, gate_stop))
    }

    /// What the owner allows, narrowed by what the Graph wants.
    fn settings(&self, slug: &domain::Slug, owner: &crate::store::Settings, meta: &Meta) -> engine::Settings {
        let parts = &self.0.parts;
        let mut settings = engine::Settings::new(slug.clone(), parts.random.below(1 << 53), parts.clock.now());
        settings.max_concurrency = owner.max_concurrency as usize;
        settings.token_ceiling = owner.token_ceiling;
        settings.cost_ceiling = owner.cost_ceiling();
        settings.max_tokens_per_call = owner.max_tokens_per_call;
        settings.narrowed(&meta.limits)
    }

    fn journal(&self, request: &RunRequest) -> Result<Journal, StoreError> {
        let recorded = match &request.resumed_from {
            Some(before) => self.0.parts.store.journal(before)?,
            None => Vec::new(),
        };
        let (store, execution) = (self.0.parts.store.clone(), request.execution.clone());
        let keep = move |key: &str, value: &domain::RawJson| {
            if let Err(e) = store.keep_answer(&execution, key, value) {
                tracing::error!(%execution, "an agent's answer could not be kept for a resume: {e}");
            }
        };
        Ok(Journal::new(recorded, Box::new(keep)))
    }

    fn store_end(&self, execution: &ExecutionId, outcome: &Outcome, facts: &EndFacts) {
        let parts = &self.0.parts;
        if let Err(e) = parts.store.end_execution(execution, outcome, facts, parts.clock.now()) {
            tracing::error!(%execution, "the ending could not be stored: {e}");
        }
    }
}

impl RunGraphs for Executor {
    fn run_graph_now(&self, request: RunRequest, feed: RunFeed) -> BoxFuture<'static, Outcome> {
        // Counted from here on: a task that was not polled yet must be waited for, too.
        let open = Open::new(self);
        let this = self.clone();
        Box::pin(async move {
            let outcome = this.run(request, feed).await;
            drop(open);
            outcome
        })
    }

    fn fleet_cancel_run(&self, run_id: &ExecutionId) {
        self.stop(run_id, StopWhy::Asked);
    }
}

struct Prepared {
    name: String,
    slug: domain::Slug,
    version: GraphVersion,
    project: Option<String>,
}

/// The owner's rules, read anew for each call.
struct StoredRules(Store);
impl Rules for StoredRules {
    fn current(&self) -> Result<RuleBook, String> {
        self.0.rule_book().map_err(|e| e.to_string())
    }
}

struct Open(Executor);
impl Open {
    fn new(executor: &Executor) -> Self {
        executor.0.open.send_modify(|n| *n += 1);
        Self(executor.clone())
    }
}
impl Drop for Open {
    fn drop(&mut self) {
        self.0.0.open.send_modify(|n| *n -= 1);
    }
}

/// In the list of what runs for as long as this lives; a dropped execution is stopped and its questions are withdrawn.
struct Registered {
    executor: Executor,
    execution: ExecutionId,
    fleet: Arc<Fleet>,
    story: Arc<Story>,
}
impl Registered {
    fn new(executor: &Executor, execution: ExecutionId, live: Live) -> Self {
        let (fleet, story) = (Arc::clone(&live.fleet), Arc::clone(&live.story));
        lock(&executor.0.live).insert(execution.clone(), live);
        executor.0.parts.store.tell(Topic::Status);
        if executor.0.quitting.load(Ordering::SeqCst) {
            fleet.stop(StopWhy::Quit);
        }
        Self { executor: executor.clone(), execution, fleet, story }
    }
}
impl Drop for Registered {
    fn drop(&mut self) {
        self.fleet.stop(StopWhy::Quit);
        self.story.close();
        let inner = &self.executor.0;
        inner.parts.approvals.withdraw(&self.execution);
        lock(&inner.live).remove(&self.execution);
        inner.parts.store.tell(Topic::Status);
    }
}

fn end_facts(fleet: &Fleet, counts: &Counts) -> EndFacts {
    let ledger = fleet.ledger();
    let lines: Vec<ReceiptLine> =
        ledger.entries().map(|e| ReceiptLine { label: e.label.clone(), reserved: e.reserved, settled: e.settled, estimated: e.estimated }).collect();
    EndFacts {
        error_line: counts.error_line,
        agents_done: counts.agents_done,
        agents_failed: counts.agents_failed,
        ledger: if lines.is_empty() { String::new() } else { serde_json::to_string(&lines).unwrap_or_default() },
    }
}

/// A Graph that names no tools does not limit itself: the rules alone do.
fn limited(tools: Vec<String>) -> Option<Vec<String>> {
    Some(tools).filter(|tools| !tools.is_empty())
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
