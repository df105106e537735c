//! The one door for every tool call of one execution, by its script or its agents.
//!
//! Order of a call: check and prepare → ask the rules → store the ruling (durably; what cannot be stored is not done) → ask the owner where
//! the rules say so, with the seat given back → store the answer → act. What comes back is the tool's output or a [`Refusal`], whose text
//! says who refused: the owner, a rule, or that nobody answered.
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use domain::{
    ExecutionId, RawJson,
    limits::APPROVAL_TIMEOUT_MS_DEFAULT,
    wire::{
        event::FleetWhat,
        said::{Sentence, said},
    },
};
use futures::future::BoxFuture;
use sha2::{Digest, Sha256};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::{
    approvals::{Answer, Approvals, Question, Who},
    policy::{self, GraphAt, Place, RuleBook, Ruled, Ruling, Target, ToolCall, ToolClass},
    tools::{Effect, PrepareError, Prepared, ToolOutput, Toolbox},
};

/// Where the owner's rules come from. Read for each call, so that a rule saved a moment ago counts.
pub trait Rules: Send + Sync {
    /// `Err` (the store cannot be read) denies the call.
    fn current(&self) -> Result<RuleBook, String>;
}

/// Where rulings and events go.
pub trait Record: Send + Sync {
    /// Stores one line of the history. When it returns `Ok` the line survives a power loss. Called before the tool acts.
    fn ruled(&self, line: &RulingLine) -> Result<(), String>;
    /// Tells the execution's watchers.
    fn tell(&self, what: FleetWhat);
}

/// A line of the history: what was ruled of a call and by whom. An asked call has two lines: the question and its answer.
#[derive(Debug, Clone, PartialEq)]
pub struct RulingLine {
    pub execution: ExecutionId,
    pub call: u64,
    pub agent: Option<u64>,
    pub tool: String,
    /// SHA-256 of the input's canonical text, in hexadecimal.
    pub input_hash: String,
    pub ruling: Ruling,
    /// The rule, the default, or who answered.
    pub because: Sentence,
    pub rule: Option<i64>,
    /// Set on the second line of an asked call: how it was answered and after how long.
    pub answer: Option<(&'static str, Duration)>,
}

/// A place under `max_concurrency`. Given back while a call waits for the owner.
pub trait Seat: Send + Sync {
    /// The wait begins: somebody else may run, clocks stand still.
    fn give_back(&self);
    /// The wait is over; resolves once there is a place again.
    fn take_again(&self) -> BoxFuture<'_, ()>;
}

/// For callers that hold no place.
pub struct NoSeat;
impl Seat for NoSeat {
    fn give_back(&self) {}
    fn take_again(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }
}

/// Who calls a tool, and under what narrowing.
#[derive(Debug, Clone, Default)]
pub struct Caller {
    /// The agent's number in the events; `None` where the script itself calls.
    pub agent: Option<u64>,
    pub label: Option<String>,
    pub phase: Option<String>,
    /// Call site in the Graph's source, from 1.
    pub line: Option<u32>,
    /// The chain of Graphs to this call, the running one first.
    pub graphs: Vec<GraphAt>,
    /// Slugs of the called Graphs the call stands in, outermost first.
    pub called: Vec<String>,
    /// Tool lists that narrow (`meta.tools` of each Graph of the chain, the agent's own `tools`): a tool missing in any of them is denied.
    pub narrowed_to: Vec<Vec<String>>,
}
impl Caller {
    pub fn is_offered(&self, tool: &str) -> bool {
        self.narrowed_to.iter().all(|list| list.iter().any(|t| t == tool))
    }
}

/// Why a call was not done, as a model or script is told. Its `Display` is the text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error("Not done: the owner denied this call{}", note(.0))]
    ByOwner(Option<String>),
    #[error("Not done: denied by the owner's rules ({0}). Asking again will not change that.")]
    ByRule(String),
    #[error("Not done: nobody answered within {0} seconds. This is not a refusal by the owner; do not repeat the call in this run.")]
    Unanswered(u64),
    #[error("Not done: nobody answered the earlier questions of this run, so no more are asked. This is not a refusal by the owner.")]
    NotAsked,
    #[error("Not done: this call needs the owner's approval and nobody can be asked here. The owner can allow it beforehand: graph-deskd allow {0}")]
    Unattended(String),
    #[error("Not done: {0}")]
    Invalid(String),
    #[error("Not done: the ruling could not be written to the history ({0})")]
    NotRecorded(String),
    #[error("Not done: the run was stopped")]
    Stopped,
}
fn note(note: &Option<String>) -> String {
    note.as_ref().map_or_else(|| ".".to_owned(), |n| format!(": {n}"))
}
impl Refusal {
    /// For events and history.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::ByOwner(_) => "denied_by_owner",
            Self::ByRule(_) => "denied_by_rule",
            Self::Unanswered(_) | Self::NotAsked => "unanswered",
            Self::Unattended(_) => "unattended",
            Self::Invalid(_) => "invalid_call",
            Self::NotRecorded(_) => "not_recorded",
            Self::Stopped => "stopped",
        }
    }
}

/// Everything the door of one execution needs.
pub struct GateConfig {
    pub execution: ExecutionId,
    pub toolbox: Toolbox,
    pub rules: Arc<dyn Rules>,
    pub approvals: Approvals,
    pub record: Arc<dyn Record>,
    pub project: Option<domain::ProjectId>,
    /// Names for the popup; `agent` and `phase` come with each call.
    pub who: Who,
    /// `None` means the default of ten minutes.
    pub approval_timeout: Option<Duration>,
    pub stop: CancellationToken,
}

pub struct Gate {
    config: GateConfig,
    calls: AtomicU64,
}

impl Gate {
    pub fn new(config: GateConfig) -> Self {
        Self { config, calls: AtomicU64::new(0) }
    }

    /// Number of the next call in the execution's story, counted from 1; a Graph's own question takes one too.
    pub fn next_call(&self) -> u64 {
        self.calls.fetch_add(1, Ordering::Relaxed) + 1
    }

    pub fn toolbox(&self) -> &Toolbox {
        &self.config.toolbox
    }

    /// What the rules say of a tool as a whole: `Deny` tools are not offered to a model at all.
    pub fn is_denied_outright(&self, tool: &str) -> bool {
        let Ok(book) = self.config.rules.current() else { return true };
        policy::denied_outright(tool, self.config.project, &book)
    }

    /// One tool call, from its input to its output or refusal.
    pub async fn call(&self, caller: &Caller, tool: &str, input: &RawJson, seat: &dyn Seat) -> Result<ToolOutput, Refusal> {
        let started = Instant::now();
        let number = self.next_call();
        let result = self.decide_and_act(number, caller, tool, input, seat).await;
        let (ok, json) = match &result {
            Ok(output) => (output.ok, output.json.as_str().to_owned()),
            Err(refusal) => (false, refusal.to_string()),
        };
        self.config.record.tell(FleetWhat::ToolResult {
            call: number,
            ok,
            bytes: json.len() as u64,
            ms: started.elapsed().as_millis() as u64,
            preview: domain::text::cut_chars(&json, 500).to_owned(),
        });
        result
    }

    async fn decide_and_act(&self, number: u64, caller: &Caller, tool: &str, input: &RawJson, seat: &dyn Seat) -> Result<ToolOutput, Refusal> {
        let prepared = match self.config.toolbox.prepare(tool, input).await {
            Ok(prepared) => prepared,
            Err(why) => return Err(self.refuse_unprepared(number, caller, tool, input, &why)),
        };
        let call = self.tool_call(caller, tool, input, &prepared);
        let ruled = self.rule(&call);
        self.record_ruling(number, caller, &call, &ruled)?;
        match ruled.ruling {
            Ruling::Allow => {}
            Ruling::Deny => return Err(Refusal::ByRule(ruled.because.text)),
            Ruling::Ask => self.ask(number, caller, &call, &prepared.effect, ruled, seat).await?,
        }
        if self.config.stop.is_cancelled() {
            return Err(Refusal::Stopped);
        }
        Ok(prepared.run(self.config.stop.clone()).await)
    }

    fn tool_call(&self, caller: &Caller, tool: &str, input: &RawJson, prepared: &Prepared) -> ToolCall {
        ToolCall {
            tool: tool.to_owned(),
            class: prepared.class,
            target: prepared.target.clone(),
            input: input.clone(),
            fingerprint: prepared.fingerprint.clone(),
            place: Place { project: self.config.project, graphs: caller.graphs.clone() },
            offered: caller.is_offered(tool),
        }
    }

    fn rule(&self, call: &ToolCall) -> Ruled {
        match self.config.rules.current() {
            Ok(book) => policy::rule(call, &book),
            Err(why) => {
                let because = said("rules_unreadable", "the rules cannot be read: {why}", [("why", why.into())]);
                Ruled { ruling: Ruling::Deny, because, rule: None }
            }
        }
    }

    /// A call that names nothing the rules could judge still gets its line: denied, with the reason.
    fn refuse_unprepared(&self, number: u64, caller: &Caller, tool: &str, input: &RawJson, why: &PrepareError) -> Refusal {
        let call = ToolCall {
            tool: tool.to_owned(),
            class: ToolClass::Read,
            target: Target::Nothing,
            input: input.clone(),
            fingerprint: None,
            place: Place::default(),
            offered: false,
        };
        let because = said("call_unfit", "the call cannot be done: {why}", [("why", why.to_string().into())]);
        let ruled = Ruled { ruling: Ruling::Deny, because, rule: None };
        match self.record_ruling(number, caller, &call, &ruled) {
            Ok(()) => Refusal::Invalid(why.to_string()),
            Err(refusal) => refusal,
        }
    }

    fn record_ruling(&self, number: u64, caller: &Caller, call: &ToolCall, ruled: &Ruled) -> Result<(), Refusal> {
        let line = self.line(number, caller, call, ruled, None);
        self.config.record.ruled(&line).map_err(Refusal::NotRecorded)?;
        self.config.record.tell(FleetWhat::ToolCall {
            call: number,
            agent: caller.agent,
            tool: call.tool.clone(),
            input: call.input.to_string(),
            ruling: ruled.ruling.into(),
            rule: ruled.because.text.clone(),
            line: caller.line,
            called: caller.called.clone(),
            said: Some(ruled.because.clone()),
        });
        Ok(())
    }

    fn line(&self, number: u64, caller: &Caller, call: &ToolCall, ruled: &Ruled, answer: Option<(&'static str, Duration)>) -> RulingLine {
        RulingLine {
            execution: self.config.execution.clone(),
            call: number,
            agent: caller.agent,
            tool: call.tool.clone(),
            input_hash: sha256_hex(call.input.canonical().as_bytes()),
            ruling: ruled.ruling,
            because: ruled.because.clone(),
            rule: ruled.rule,
            answer,
        }
    }

    async fn ask(&self, number: u64, caller: &Caller, call: &ToolCall, effect: &Effect, ruled: Ruled, seat: &dyn Seat) -> Result<(), Refusal> {
        let question = self.question(number, caller, call, effect, &ruled);
        let (approval, answer, waited) = match self.config.approvals.put(question) {
            Err(answer) => (0, answer, Duration::ZERO),
            Ok(asked) => {
                let (approval, seconds_left) = (asked.id, asked.seconds_left());
                self.config.record.tell(FleetWhat::ApprovalAsked { call: number, approval, seconds_left });
                let (answer, waited) = self.wait(asked, seat).await;
                (approval, answer, waited)
            }
        };
        self.config.record.tell(FleetWhat::ApprovalAnswered {
            call: number,
            approval,
            answer: answer.word().to_owned(),
            by: answer.by().text,
            waited_ms: waited.as_millis() as u64,
            said: answer.said(),
        });
        let ruling = if answer.is_allowed() { Ruling::Allow } else { Ruling::Deny };
        let final_ruling = Ruled { ruling, because: answer.by(), rule: None };
        let line = self.line(number, caller, call, &final_ruling, Some((answer.word(), waited)));
        self.config.record.ruled(&line).map_err(Refusal::NotRecorded)?;
        refusal(answer, &call.tool)
    }

    /// Waits without a seat, and takes one again before going on.
    async fn wait(&self, asked: crate::approvals::Asked, seat: &dyn Seat) -> (Answer, Duration) {
        seat.give_back();
        let stop = self.config.stop.clone();
        let ended = tokio::select! {
            ended = asked.answer() => ended,
            () = stop.cancelled() => (Answer::Gone, Duration::ZERO),
        };
        tokio::select! {
            () = seat.take_again() => ended,
            () = stop.cancelled() => (Answer::Gone, ended.1),
        }
    }

    fn question(&self, number: u64, caller: &Caller, call: &ToolCall, effect: &Effect, ruled: &Ruled) -> Question {
        Question {
            execution: self.config.execution.clone(),
            number,
            who: Who { agent: caller.label.clone(), phase: caller.phase.clone(), ..self.config.who.clone() },
            call: call.clone(),
            effect: effect.clone(),
            because: ruled.because.clone(),
            timeout: self.config.approval_timeout.unwrap_or(Duration::from_millis(APPROVAL_TIMEOUT_MS_DEFAULT)),
        }
    }
}

fn refusal(answer: Answer, tool: &str) -> Result<(), Refusal> {
    match answer {
        Answer::Once | Answer::Run | Answer::Always(_) | Answer::Option(_) | Answer::Text(_) | Answer::ByRule { allowed: true, .. } => Ok(()),
        Answer::Deny { note } => Err(Refusal::ByOwner(note)),
        Answer::ByRule { allowed: false, because } => Err(Refusal::ByRule(because.text)),
        Answer::Unanswered { after } => Err(Refusal::Unanswered(after.as_secs())),
        Answer::NotAsked => Err(Refusal::NotAsked),
        Answer::Unattended => Err(Refusal::Unattended(tool.to_owned())),
        Answer::Gone => Err(Refusal::Stopped),
    }
}

pub(crate) fn sha256_hex(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|b| format!("{b:02x}")).collect()
}
