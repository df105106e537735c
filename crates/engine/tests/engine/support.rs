//! A host whose agents and tools do what their prompt or input says, and remembers the story.
use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use domain::{ExecutionId, Outcome, RawJson, Slug, Timestamp, ledger::Usage, wire::event::FleetWhat};
use engine::{
    AgentAnswer, AgentCall, BoxFuture, CallCode, CallError, CalledGraph, ChildVm, Fleet, FleetHost, InProcessVm, Need, OwnerQuestion, Script,
    ScriptVm, Seat, Settings, ToolCall, run_fleet_script,
};
use tokio::sync::Notify;

pub type ToolFn = Box<dyn Fn(&str, &serde_json::Value) -> Result<serde_json::Value, String> + Send + Sync>;
pub type AnswerFn = Box<dyn Fn(&AgentCall) -> Result<serde_json::Value, CallCode> + Send + Sync>;

#[derive(Default)]
pub struct TestHost {
    /// Answers every tool call, where given.
    pub tool: Mutex<Option<ToolFn>>,
    /// Answers every agent, where given.
    pub answer: Mutex<Option<AnswerFn>>,
    pub events: Mutex<Vec<FleetWhat>>,
    pub told: Notify,
    pub graphs: Mutex<HashMap<String, String>>,
    pub agents: Mutex<Vec<AgentCall>>,
    pub tools: Mutex<Vec<ToolCall>>,
    pub at_work: Mutex<(usize, usize)>,
    /// Waits for the owner end when this rings.
    pub owner: Notify,
}

impl TestHost {
    pub fn story(&self) -> Vec<FleetWhat> {
        self.events.lock().unwrap().clone()
    }

    /// Waits for an event, not for time.
    pub async fn saw(&self, wanted: impl Fn(&FleetWhat) -> bool) {
        loop {
            let told = self.told.notified();
            if self.events.lock().unwrap().iter().any(&wanted) {
                return;
            }
            told.await;
        }
    }

    fn enter(self: &Arc<Self>) -> AtWork {
        let mut now = self.at_work.lock().unwrap();
        now.0 += 1;
        now.1 = now.1.max(now.0);
        AtWork(Arc::clone(self))
    }
}

struct AtWork(Arc<TestHost>);
impl Drop for AtWork {
    fn drop(&mut self) {
        self.0.at_work.lock().unwrap().0 -= 1;
    }
}

/// The words of a prompt: `say X`, `json X`, `fail CODE`, `never`, `wait MS X`, `use IN OUT [END]` (reserves both and uses both, unless the
/// end is `unknown`, `nothing` or `less`; `fail` fails after that), `overrun IN OUT` (uses what it did not reserve), `owner X`.
pub struct Port(pub Arc<TestHost>);

impl FleetHost for Port {
    fn event(&self, what: FleetWhat) {
        self.0.events.lock().unwrap().push(what);
        self.0.told.notify_waiters();
    }

    fn agent<'a>(&'a self, fleet: &'a Fleet, call: AgentCall, mut seat: Seat) -> BoxFuture<'a, Result<AgentAnswer, CallError>> {
        let at_work = self.0.enter();
        self.0.agents.lock().unwrap().push(call.clone());
        Box::pin(async move {
            let said = |text: &str, tokens| Ok(AgentAnswer { value: RawJson::of(&text.into()), tokens, cost: Some(0.0), replayed: false });
            let answered = self.0.answer.lock().unwrap().as_ref().map(|answer| answer(&call));
            if let Some(answered) = answered {
                let value = answered.map_err(|code| CallError::new(code, format!("it failed with {}", code.as_str())))?;
                return Ok(AgentAnswer { value: RawJson::of(&value), tokens: 0, cost: Some(0.0), replayed: false });
            }
            let words: Vec<&str> = call.prompt.splitn(2, ' ').collect();
            let rest = words.get(1).copied().unwrap_or("");
            match words[0] {
                "fail" => Err(CallError::new(CallCode::parse(rest).unwrap(), format!("it failed with {rest}"))),
                "never" => std::future::pending().await,
                "wait" => {
                    let (ms, text) = rest.split_once(' ').unwrap_or((rest, "waited"));
                    tokio::time::sleep(Duration::from_millis(ms.parse().unwrap())).await;
                    said(text, 0)
                }
                "json" => Ok(AgentAnswer { value: RawJson::parse(rest).unwrap(), tokens: 0, cost: Some(0.0), replayed: false }),
                "use" | "overrun" => {
                    let parts: Vec<&str> = rest.splitn(3, ' ').collect();
                    let (input, max_output): (u64, u64) = (parts[0].parse().unwrap(), parts[1].parse().unwrap());
                    let end = parts.get(2).copied().unwrap_or("");
                    let reserved = if words[0] == "overrun" { 0 } else { max_output };
                    let held = fleet.reserve(&call.label, Need { input, max_output: reserved, cost: None })?;
                    tokio::task::yield_now().await;
                    let (usage, tokens) = match end {
                        "unknown" => (Usage::Unknown, input + max_output),
                        "nothing" => (Usage::Nothing, 0),
                        "less" => (Usage::Known { input: input / 2, output: 1 }, input / 2 + 1),
                        _ if words[0] == "overrun" => (Usage::Known { input: 0, output: max_output }, max_output),
                        _ => (Usage::Known { input, output: max_output }, input + max_output),
                    };
                    fleet.settle(held, usage, Some(0.0));
                    match end {
                        "fail" => Err(CallError::new(CallCode::Provider, "failed after it was paid").used(tokens, Some(0.0))),
                        _ => said("used", tokens),
                    }
                }
                "owner" => {
                    drop(at_work);
                    seat.leave_while(self.0.owner.notified()).await;
                    let _back = self.0.enter();
                    said(rest, 0)
                }
                _ => said(rest, 0),
            }
        })
    }

    fn tool<'a>(&'a self, _: &'a Fleet, call: ToolCall, _: Seat) -> BoxFuture<'a, Result<RawJson, CallError>> {
        let at_work = self.0.enter();
        self.0.tools.lock().unwrap().push(call.clone());
        Box::pin(async move {
            let _at_work = at_work;
            let answered = self.0.tool.lock().unwrap().as_ref().map(|tool| tool(&call.tool, &call.input.to_value()));
            if let Some(answered) = answered {
                return answered.map(|value| RawJson::of(&value)).map_err(|e| CallError::new(CallCode::ToolFailed, e));
            }
            match call.tool.as_str() {
                "echo" => Ok(call.input),
                "never" => std::future::pending().await,
                "deny" => Err(CallError::new(CallCode::Denied, "the owner said no")),
                "deep" => Ok(RawJson::parse(&format!("{}1{}", "[".repeat(99), "]".repeat(99))).unwrap()),
                "big" => Ok(RawJson::of(&"line\n".repeat(100_000).into())),
                _ => Err(CallError::new(CallCode::NoTool, format!("there is no tool {}", call.tool))),
            }
        })
    }

    fn ask<'a>(&'a self, _: &'a Fleet, question: OwnerQuestion) -> BoxFuture<'a, Result<RawJson, CallError>> {
        Box::pin(async move {
            match question.default {
                _ if question.question == "wait" => {
                    self.0.owner.notified().await;
                    Ok(RawJson::of(&"answered".into()))
                }
                Some(default) => Ok(default),
                None => Err(CallError::new(CallCode::Unanswered, "nobody answered")),
            }
        })
    }

    fn graph(&self, slug: &Slug) -> Result<CalledGraph, CallError> {
        let source = self.0.graphs.lock().unwrap().get(slug.as_str()).cloned();
        let missing = || CallError::new(CallCode::NoGraph, format!("there is no ready Graph {slug}"));
        source.map(|source| CalledGraph { slug: slug.clone(), source }).ok_or_else(missing)
    }
}

pub struct Run {
    pub host: Arc<TestHost>,
    pub settings: Settings,
    pub args: RawJson,
    pub vm: Arc<dyn ScriptVm>,
}

impl Run {
    pub fn in_process() -> Self {
        Self::with(Arc::new(InProcessVm))
    }
    pub fn in_child() -> Self {
        Self::with(Arc::new(ChildVm::new(env!("CARGO_BIN_EXE_graph-vm").into())))
    }
    pub fn with(vm: Arc<dyn ScriptVm>) -> Self {
        let settings = Settings::new(Slug::parse("test").unwrap(), 7, Timestamp::from_ms(1_796_047_327_123));
        Self { host: Arc::default(), settings, args: RawJson::empty_object(), vm }
    }
    pub fn args(mut self, json: &str) -> Self {
        self.args = RawJson::parse(json).unwrap();
        self
    }
    pub fn set(mut self, change: impl FnOnce(&mut Settings)) -> Self {
        change(&mut self.settings);
        self
    }
    pub fn graph(self, slug: &str, source: &str) -> Self {
        self.host.graphs.lock().unwrap().insert(slug.into(), source.into());
        self
    }

    /// As the device does it: the Graph's own limits narrow the owner's.
    pub fn narrowed(mut self, source: &str) -> Self {
        self.settings = self.settings.narrowed(&engine::Meta::read(source).unwrap().limits);
        self
    }

    pub fn fleet(&self) -> Arc<Fleet> {
        let host = Arc::new(Port(Arc::clone(&self.host)));
        Fleet::new(ExecutionId::parse("exec-1").unwrap(), self.settings.clone(), host)
    }

    pub async fn run(&self, source: &str) -> Outcome {
        let fleet = self.fleet();
        self.run_in(&fleet, source).await
    }
    pub async fn run_in(&self, fleet: &Arc<Fleet>, source: &str) -> Outcome {
        let script = Script::new(Slug::parse("test").unwrap(), source);
        run_fleet_script(&script, &self.args, Arc::clone(fleet), &*self.vm).await
    }
}

/// `= JSON` for a result, `reason: first line of the error` for the rest.
pub fn shown(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Completed { result, .. } => format!("= {result}"),
        Outcome::Failed { why, error, .. } => format!("{why}: {}", error.lines().next().unwrap_or("")),
        Outcome::Cancelled { why, .. } => format!("cancelled: {why}"),
    }
}

/// Compares with a committed file; `UPDATE=1` writes it instead.
pub fn golden(path: &std::path::Path, text: &str) {
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(path, text).unwrap();
    }
    let kept = std::fs::read_to_string(path).unwrap_or_default();
    assert_eq!(text, kept, "{} differs; run the test with UPDATE=1 and look at the change", path.display());
}
