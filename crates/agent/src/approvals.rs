//! The questions that wait for the owner: one per tool call, first in first out over all executions, never merged.
//!
//! Deadlines run on the monotonic clock (`tokio::time`); outsiders are told the seconds that are left. Nothing here decides by itself
//! but the clock: an unanswered question is denied, and after [`UNANSWERED_MAX`] of them the rest of that execution is denied at once.
//! Nothing is stored: a restart interrupts the execution, and its questions end with it.
//! Invariant: a question is answered at most once, and only by the owner, a rule of the owner, the clock or the end of its execution.
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use domain::{
    ExecutionId, RawJson,
    limits::{POPUP_LOCKED_MS, UNANSWERED_MAX},
    wire::said::{Sentence, said},
};
use tokio::{
    sync::{oneshot, watch},
    time::Instant,
};

use crate::{
    policy::{self, Rule, Ruled, Ruling, ToolCall},
    shown::visible,
    tools::Effect,
};

pub type ApprovalId = u64;

/// The name under which a Graph's own question (`ask`) stands among the calls. No tool bears it; the owner chooses an option or types an
/// answer, no rule decides it.
pub const ASK: &str = "ask";

/// Who stands behind a call, in the words the owner knows.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Who {
    pub graph: String,
    /// The agent's label, or `None` where the script itself calls the tool.
    pub agent: Option<String>,
    pub phase: Option<String>,
    pub project: Option<String>,
    pub connected_agent: Option<String>,
}

/// One question about one tool call.
#[derive(Debug, Clone)]
pub struct Question {
    pub execution: ExecutionId,
    /// The call's number in its execution's events.
    pub number: u64,
    pub who: Who,
    pub call: ToolCall,
    pub effect: Effect,
    /// The rule or default that made it a question.
    pub because: Sentence,
    pub timeout: Duration,
}

/// How a question ended.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    Once,
    /// Allowed, and calls like it for the rest of this execution.
    Run,
    /// Allowed, and this rule was saved.
    Always(Box<Rule>),
    Deny {
        note: Option<String>,
    },
    /// Of a Graph's own question: the option chosen, counted from 0.
    Option(usize),
    /// Of a Graph's own question without options.
    Text(String),
    /// A rule saved meanwhile decided.
    ByRule {
        allowed: bool,
        because: Sentence,
    },
    Unanswered {
        after: Duration,
    },
    /// Too many questions of this execution went unanswered before.
    NotAsked,
    /// Nobody can be asked here.
    Unattended,
    /// The execution was stopped or the agent ended.
    Gone,
}
impl Answer {
    pub const fn is_allowed(&self) -> bool {
        match self {
            Self::Once | Self::Run | Self::Always(_) | Self::Option(_) | Self::Text(_) | Self::ByRule { allowed: true, .. } => true,
            Self::Deny { .. } | Self::ByRule { allowed: false, .. } | Self::Unanswered { .. } | Self::NotAsked | Self::Unattended | Self::Gone => {
                false
            }
        }
    }
    /// The word in `approval_answered`.
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Once | Self::ByRule { allowed: true, .. } => "once",
            Self::Run => "run",
            Self::Option(_) | Self::Text(_) => "option",
            Self::Always(_) => "always",
            Self::Deny { .. } | Self::ByRule { allowed: false, .. } | Self::Unattended => "deny",
            Self::Unanswered { .. } | Self::NotAsked => "unanswered",
            Self::Gone => "gone",
        }
    }
    /// Who answered: a fixed word, or the rule saved meanwhile as a sentence with a code.
    pub fn by(&self) -> Sentence {
        match self {
            Self::Once | Self::Run | Self::Always(_) | Self::Option(_) | Self::Text(_) | Self::Deny { .. } => "owner".into(),
            Self::ByRule { because, .. } => because.clone(),
            Self::Unanswered { .. } | Self::NotAsked => "clock".into(),
            Self::Unattended => "no window".into(),
            Self::Gone => "stop".into(),
        }
    }
    /// The rule saved meanwhile, where one answered.
    pub fn said(&self) -> Option<Sentence> {
        if let Self::ByRule { because, .. } = self { Some(because.clone()) } else { None }
    }
}

/// What a window sends. Only the owner's own hand makes one.
#[derive(Debug, Clone, PartialEq)]
pub enum OwnersAnswer {
    Once,
    Run,
    /// One of the rules offered with the question; whoever calls [`Approvals::answer`] saves it first and re-decides the others after.
    Always(Box<Rule>),
    Deny {
        note: Option<String>,
    },
    /// To a Graph's own question alone.
    Option(usize),
    Text(String),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AnswerError {
    #[error("approval {0} is no longer open")]
    NotOpen(ApprovalId),
    #[error("approval {0} was shown a moment ago and takes no answer yet")]
    TooEarly(ApprovalId),
    #[error("this rule was not offered with approval {0}")]
    NotOffered(ApprovalId),
}

/// Whether somebody can be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Attendance {
    Window,
    /// `graph-deskd`: every question is denied at once, in words.
    None,
}

/// One open question as windows and callers see it. Every text is made [`visible`].
#[derive(Debug, Clone)]
pub struct Waiting {
    pub id: ApprovalId,
    pub execution: ExecutionId,
    pub number: u64,
    pub who: Who,
    pub tool: String,
    /// All arguments, nothing left out.
    pub input: RawJson,
    /// `input` for reading: indented, hidden characters spelled out.
    pub input_shown: String,
    pub effect: Effect,
    pub because: Sentence,
    pub seconds_left: u64,
    /// What "Always allow …" may save, narrowest first; `Rule::sentence` says each in words.
    pub rules: Vec<Rule>,
    /// The call itself, for re-deciding after a rule was saved.
    pub call: ToolCall,
}

struct Open {
    question: Question,
    deadline: Instant,
    shown: Option<Instant>,
    tell: oneshot::Sender<Answer>,
}

#[derive(Default)]
struct State {
    next: ApprovalId,
    /// Ordered by id, which is the order of asking.
    open: BTreeMap<ApprovalId, Open>,
    unanswered: BTreeMap<ExecutionId, usize>,
    /// "Allow for this run": exact rules that die with the execution.
    allowed_for_run: BTreeMap<ExecutionId, Vec<Rule>>,
}

/// All open questions of the app. Cheap to clone; every clone is the same queue.
#[derive(Clone)]
pub struct Approvals(Arc<Shared>);

struct Shared {
    attendance: Attendance,
    state: Mutex<State>,
    version: watch::Sender<u64>,
}

impl Approvals {
    pub fn new(attendance: Attendance) -> Self {
        Self(Arc::new(Shared { attendance, state: Mutex::default(), version: watch::channel(0).0 }))
    }

    /// Changes whenever the list of questions does. Then read [`Approvals::waiting`].
    pub fn watch(&self) -> watch::Receiver<u64> {
        self.0.version.subscribe()
    }

    /// All open questions, oldest first.
    pub fn waiting(&self) -> Vec<Waiting> {
        let now = Instant::now();
        self.lock().open.iter().map(|(id, open)| waiting(*id, open, now)).collect()
    }

    /// Puts the question and says at once whether it stands: its id, or the answer that needs no asking.
    pub fn put(&self, question: Question) -> Result<Asked, Answer> {
        if self.0.attendance == Attendance::None {
            return Err(Answer::Unattended);
        }
        let mut state = self.lock();
        let already_allowed = state.allowed_for_run.get(&question.execution).is_some_and(|rules| allows(rules, &question.call));
        if already_allowed {
            return Err(Answer::ByRule { allowed: true, because: allowed_for_run() });
        }
        if state.unanswered.get(&question.execution).is_some_and(|n| *n >= UNANSWERED_MAX) {
            return Err(Answer::NotAsked);
        }
        state.next += 1;
        let (id, timeout) = (state.next, question.timeout);
        let (tell, told) = oneshot::channel();
        let asked_at = Instant::now();
        let deadline = asked_at + timeout;
        state.open.insert(id, Open { question, deadline, shown: None, tell });
        drop(state);
        self.changed();
        Ok(Asked { id, asked_at, deadline, told: Some(told), approvals: self.clone() })
    }

    /// Puts the question and waits for its end.
    pub async fn ask(&self, question: Question) -> Answer {
        match self.put(question) {
            Ok(asked) => asked.answer().await.0,
            Err(answer) => answer,
        }
    }

    /// The popup now shows this question: for the next [`POPUP_LOCKED_MS`] it takes no answer.
    pub fn shown(&self, id: ApprovalId) {
        if let Some(open) = self.lock().open.get_mut(&id) {
            open.shown = Some(Instant::now());
        }
    }

    /// The owner's answer to this one question.
    pub fn answer(&self, id: ApprovalId, answer: OwnersAnswer) -> Result<(), AnswerError> {
        let mut state = self.lock();
        let open = state.open.get(&id).ok_or(AnswerError::NotOpen(id))?;
        if open.shown.is_some_and(|at| at.elapsed() < Duration::from_millis(POPUP_LOCKED_MS)) {
            return Err(AnswerError::TooEarly(id));
        }
        if let OwnersAnswer::Always(rule) = &answer
            && !policy::exact_rules_for(&open.question.call).contains(rule)
        {
            return Err(AnswerError::NotOffered(id));
        }
        let is_own_question = open.question.call.tool == ASK;
        let fits = match &answer {
            OwnersAnswer::Once | OwnersAnswer::Run | OwnersAnswer::Always(_) => !is_own_question,
            OwnersAnswer::Option(_) | OwnersAnswer::Text(_) => is_own_question,
            OwnersAnswer::Deny { .. } => true,
        };
        if !fits {
            return Err(AnswerError::NotOffered(id));
        }
        tracing::debug!(approval = id, shown_ms = open.shown.map(|at| at.elapsed().as_millis() as u64), "answered by hand");
        let execution = open.question.execution.clone();
        let rule_for_run = policy::exact_rule_for(&open.question.call, policy::Scope::Everywhere);
        let answer = match answer {
            OwnersAnswer::Once => Answer::Once,
            OwnersAnswer::Run => {
                state.allowed_for_run.entry(execution.clone()).or_default().push(rule_for_run);
                Answer::Run
            }
            OwnersAnswer::Always(rule) => Answer::Always(rule),
            OwnersAnswer::Deny { note } => Answer::Deny { note: note.filter(|n| !n.trim().is_empty()) },
            OwnersAnswer::Option(at) => Answer::Option(at),
            OwnersAnswer::Text(text) => Answer::Text(text),
        };
        close(&mut state, id, answer);
        let like_it = allowed_meanwhile(&state, &execution);
        for other in like_it {
            close(&mut state, other, Answer::ByRule { allowed: true, because: allowed_for_run() });
        }
        drop(state);
        self.changed();
        Ok(())
    }

    /// Asks the rules anew for every open question, after one was saved or removed. What they now allow or deny ends; the rest waits on.
    pub fn redecide(&self, decide: impl Fn(&ToolCall) -> Ruled) -> usize {
        let mut state = self.lock();
        let ruled: Vec<_> =
            state.open.iter().filter(|(_, open)| open.question.call.tool != ASK).map(|(id, open)| (*id, decide(&open.question.call))).collect();
        let mut ended = 0;
        for (id, ruled) in ruled {
            let allowed = match ruled.ruling {
                Ruling::Allow => true,
                Ruling::Deny => false,
                Ruling::Ask => continue,
            };
            close(&mut state, id, Answer::ByRule { allowed, because: ruled.because });
            ended += 1;
        }
        drop(state);
        if ended > 0 {
            self.changed();
        }
        ended
    }

    /// Ends every open question of an execution that was stopped or has ended, and forgets what was allowed for it.
    pub fn withdraw(&self, execution: &ExecutionId) {
        let mut state = self.lock();
        let of_it: Vec<_> = state.open.iter().filter(|(_, o)| &o.question.execution == execution).map(|(id, _)| *id).collect();
        for id in &of_it {
            close(&mut state, *id, Answer::Gone);
        }
        state.unanswered.remove(execution);
        state.allowed_for_run.remove(execution);
        drop(state);
        if !of_it.is_empty() {
            self.changed();
        }
    }

    fn expire(&self, id: ApprovalId, after: Duration) {
        let mut state = self.lock();
        let Some(execution) = state.open.get(&id).map(|o| o.question.execution.clone()) else { return };
        close(&mut state, id, Answer::Unanswered { after });
        let count = state.unanswered.entry(execution.clone()).or_default();
        *count += 1;
        if *count >= UNANSWERED_MAX {
            let rest: Vec<_> = state.open.iter().filter(|(_, o)| o.question.execution == execution).map(|(id, _)| *id).collect();
            for id in rest {
                close(&mut state, id, Answer::NotAsked);
            }
        }
        drop(state);
        self.changed();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn changed(&self) {
        self.0.version.send_modify(|v| *v += 1);
    }
}

fn waiting(id: ApprovalId, open: &Open, now: Instant) -> Waiting {
    let Question { execution, number, who, call, effect, because, .. } = &open.question;
    let pretty = serde_json::to_string_pretty(&call.input).unwrap_or_else(|_| call.input.to_string());
    Waiting {
        id,
        execution: execution.clone(),
        number: *number,
        who: Who {
            graph: visible(&who.graph),
            agent: who.agent.as_deref().map(visible),
            phase: who.phase.as_deref().map(visible),
            project: who.project.as_deref().map(visible),
            connected_agent: who.connected_agent.as_deref().map(visible),
        },
        tool: visible(&call.tool),
        input: call.input.clone(),
        input_shown: visible(&pretty),
        effect: effect.made_visible(),
        because: because.map(&visible),
        seconds_left: open.deadline.saturating_duration_since(now).as_secs_f64().ceil() as u64,
        rules: if call.tool == ASK { Vec::new() } else { policy::exact_rules_for(call) },
        call: call.clone(),
    }
}

/// The open questions that "Allow for this run" of another question covers too.
fn allowed_meanwhile(state: &State, execution: &ExecutionId) -> Vec<ApprovalId> {
    let Some(rules) = state.allowed_for_run.get(execution) else { return Vec::new() };
    let covered = |open: &Open| &open.question.execution == execution && allows(rules, &open.question.call);
    state.open.iter().filter(|(_, open)| covered(open)).map(|(id, _)| *id).collect()
}

fn allowed_for_run() -> Sentence {
    said("allowed_for_run", "allowed by the owner for this run", [])
}

fn allows(rules: &[Rule], call: &ToolCall) -> bool {
    rules.iter().any(|rule| rule.covers(call))
}

fn close(state: &mut State, id: ApprovalId, answer: Answer) {
    if let Some(open) = state.open.remove(&id) {
        let _ = open.tell.send(answer); // nobody waits any more: the agent ended in the same moment
    }
}

/// One question that stands. Dropping it withdraws the question.
pub struct Asked {
    pub id: ApprovalId,
    asked_at: Instant,
    deadline: Instant,
    told: Option<oneshot::Receiver<Answer>>,
    approvals: Approvals,
}

impl Asked {
    pub fn seconds_left(&self) -> u64 {
        self.deadline.saturating_duration_since(Instant::now()).as_secs_f64().ceil() as u64
    }

    /// Waits for the end of this question; also says how long it took.
    pub async fn answer(mut self) -> (Answer, Duration) {
        let Some(mut told) = self.told.take() else { return (Answer::Gone, Duration::ZERO) };
        let answer = tokio::select! {
            biased;
            answer = &mut told => answer,
            () = tokio::time::sleep_until(self.deadline) => {
                self.approvals.expire(self.id, self.deadline - self.asked_at);
                told.await
            }
        };
        (answer.unwrap_or(Answer::Gone), self.asked_at.elapsed())
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        let mut state = self.approvals.lock();
        if state.open.remove(&self.id).is_some() {
            drop(state);
            self.approvals.changed();
        }
    }
}
