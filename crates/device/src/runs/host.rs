//! What the engine's host does in the app: agents, tools, the owner's questions and other Graphs, all under the owner's rules.
//!
//! What not: no scheduling (the engine's), no ruling (the agent crate's), no ending (the executor's).
//! Invariant: a called Graph's rules and tool list narrow what its caller may do, and never widen it.
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use agent::{
    AgentContext, AgentErrorCode, AgentSpec,
    approvals::{ASK, Answer, Approvals, Question, Who},
    gate::{Caller, Gate, Refusal},
    model::Models,
    policy::{GraphAt, Place, Target, ToolClass},
    tools::Effect,
};
use domain::{
    ExecutionId, RawJson, Slug,
    wire::{event::FleetWhat, relay::SessionStatus, said::said},
};
use engine::{AgentAnswer, AgentCall, BoxFuture, CallCode, CallError, CalledGraph, Fleet, FleetHost, Meta, OwnerQuestion, Seat, ToolCall};

use super::{
    journal::{Journal, key_of},
    seat::work_in,
    story::Story,
};
use crate::store::{Store, StoreError};

/// A Graph that takes part in an execution.
#[derive(Debug, Clone)]
pub struct Member {
    pub at: GraphAt,
    /// `meta.tools`; `None` where the Graph does not limit itself.
    pub tools: Option<Vec<String>>,
}

pub struct Host {
    pub story: Arc<Story>,
    pub gate: Arc<Gate>,
    pub record: Arc<dyn agent::gate::Record>,
    pub models: Arc<Models>,
    pub store: Store,
    pub execution: ExecutionId,
    pub approvals: Approvals,
    /// Names for the owner's questions.
    pub who: Who,
    pub journal: Journal,
    pub jitter: Arc<dyn Fn() -> f64 + Send + Sync>,
    /// Tells the fleet that an agent reserved or settled.
    pub ledger_changed: Arc<dyn Fn() + Send + Sync>,
    /// The running Graph and those it has called, by slug.
    pub members: Mutex<HashMap<Slug, Member>>,
}

impl Host {
    fn caller(&self, slugs: &[Slug], agent: Option<u64>, label: Option<String>, line: Option<u32>) -> Caller {
        let members = lock(&self.members);
        let chain: Vec<&Member> = slugs.iter().filter_map(|slug| members.get(slug)).collect();
        Caller {
            agent,
            label,
            phase: self.story.counts().phase,
            line,
            graphs: chain.iter().map(|m| m.at).collect(),
            called: slugs.iter().skip(1).map(ToString::to_string).collect(),
            narrowed_to: chain.iter().filter_map(|m| m.tools.clone()).collect(),
        }
    }

    async fn run_agent(&self, fleet: &Fleet, call: AgentCall, seat: Seat) -> Result<AgentAnswer, CallError> {
        // Rules that cannot be read deny every tool; the answer of such an agent has a key of its own.
        let rules = self.store.rule_book().unwrap_or_default();
        let key = key_of(&call, &self.models, &rules);
        if let Some(value) = self.journal.recorded(&key) {
            return Ok(AgentAnswer { value, tokens: 0, cost: Some(0.0), replayed: true });
        }
        let mut caller = self.caller(&call.graphs, Some(call.agent), Some(call.label.clone()), call.line);
        if call.phase.is_some() {
            caller.phase.clone_from(&call.phase);
        }
        let tools = call.tools.unwrap_or_else(|| caller.narrowed_to.last().cloned().unwrap_or_default());
        let spec = AgentSpec {
            label: call.label,
            prompt: call.prompt,
            model: call.model,
            system: call.system,
            tools,
            schema: call.schema.as_ref().map(RawJson::to_value),
            max_tokens: Some(call.max_tokens),
            timeout: Some(Duration::from_millis(call.timeout_ms)),
        };
        let answer = work_in(seat, |seat| {
            agent::run_agent(
                spec,
                AgentContext {
                    caller,
                    gate: Arc::clone(&self.gate),
                    models: Arc::clone(&self.models),
                    ledger: fleet.shared_ledger(),
                    ledger_changed: Arc::clone(&self.ledger_changed),
                    record: Arc::clone(&self.record),
                    seat,
                    stop: fleet.stop_token().clone(),
                    jitter: Arc::clone(&self.jitter),
                },
            )
        })
        .await;
        let answer = answer.map_err(call_error)?;
        self.journal.keep(&key, &answer.value);
        Ok(AgentAnswer { tokens: answer.usage.input + answer.usage.output, cost: answer.cost, value: answer.value, replayed: false })
    }

    async fn run_tool(&self, call: ToolCall, seat: Seat) -> Result<RawJson, CallError> {
        let caller = self.caller(&call.graphs, None, None, call.line);
        let gate = Arc::clone(&self.gate);
        let (tool, input) = (call.tool, call.input);
        let answer = work_in(seat, |seat| async move { gate.call(&caller, &tool, &input, seat.as_ref()).await }).await;
        match answer {
            Ok(output) if output.ok => Ok(output.json),
            Ok(output) => Err(CallError::new(CallCode::ToolFailed, words_of(&output.json))),
            Err(refusal) => Err(CallError::new(refusal_code(&refusal), refusal.to_string())),
        }
    }
}

impl Host {
    /// The script's own question: in the same queue as the tools' questions, answered by the owner's hand or by its default.
    async fn ask_owner(&self, asked: OwnerQuestion) -> Result<RawJson, CallError> {
        let caller = self.caller(&asked.graphs, None, None, asked.line);
        let number = self.gate.next_call();
        let call = agent::policy::ToolCall {
            tool: ASK.into(),
            class: ToolClass::Mcp,
            target: Target::Nothing,
            input: RawJson::of(&serde_json::json!({ "question": asked.question, "options": asked.options })),
            fingerprint: None,
            place: Place { project: None, graphs: caller.graphs },
            offered: true,
        };
        let who = Who { phase: caller.phase, ..self.who.clone() };
        let effect = Effect { sentence: asked.question.clone(), ..Effect::default() };
        let timeout = Duration::from_millis(asked.timeout_ms);
        let because = said("graph_asks", "the Graph asks you", []);
        let question = Question { execution: self.execution.clone(), number, who, call, effect, because, timeout };
        let (approval, answer, waited) = match self.approvals.put(question) {
            Err(answer) => (0, answer, Duration::ZERO),
            Ok(standing) => {
                let (approval, seconds_left) = (standing.id, standing.seconds_left());
                self.story.tell(FleetWhat::ApprovalAsked { call: number, approval, seconds_left });
                let (answer, waited) = standing.answer().await;
                (approval, answer, waited)
            }
        };
        let (word, by, waited_ms) = (answer.word().to_owned(), answer.by().text, waited.as_millis() as u64);
        self.story.tell(FleetWhat::ApprovalAnswered { call: number, approval, answer: word, by, waited_ms, said: answer.said() });
        let json = |text: &str| RawJson::of(&text.into());
        let unanswered = |why: &str| {
            let text = format!("{why} It is not a refusal by the owner. Give the question a default, and it goes on with that.");
            asked.default.clone().ok_or_else(|| CallError::new(CallCode::Unanswered, text))
        };
        match answer {
            Answer::Option(at) => asked.options.get(at).map(|o| json(o)).ok_or_else(|| CallError::new(CallCode::Invalid, "There is no such option.")),
            Answer::Text(text) => Ok(json(&text)),
            Answer::Deny { note } => {
                let note = note.map(|n| format!(": {n}")).unwrap_or_else(|| ".".into());
                Err(CallError::new(CallCode::Denied, format!("The owner would not answer{note}")))
            }
            Answer::Unanswered { after } => unanswered(&format!("Nobody answered within {} seconds.", after.as_secs())),
            Answer::NotAsked => unanswered("Nobody answered the earlier questions of this run, so no more are asked."),
            Answer::Unattended => unanswered("Nobody can be asked here."),
            Answer::Gone | Answer::Once | Answer::Run | Answer::Always(_) | Answer::ByRule { .. } => {
                Err(CallError::new(CallCode::Cancelled, "The run was stopped."))
            }
        }
    }
}

impl FleetHost for Host {
    fn event(&self, what: FleetWhat) {
        self.story.tell(what);
    }

    fn agent<'a>(&'a self, fleet: &'a Fleet, call: AgentCall, seat: Seat) -> BoxFuture<'a, Result<AgentAnswer, CallError>> {
        Box::pin(self.run_agent(fleet, call, seat))
    }

    fn tool<'a>(&'a self, _fleet: &'a Fleet, call: ToolCall, seat: Seat) -> BoxFuture<'a, Result<RawJson, CallError>> {
        Box::pin(self.run_tool(call, seat))
    }

    fn ask<'a>(&'a self, _fleet: &'a Fleet, question: OwnerQuestion) -> BoxFuture<'a, Result<RawJson, CallError>> {
        Box::pin(self.ask_owner(question))
    }

    fn graph(&self, slug: &Slug) -> Result<CalledGraph, CallError> {
        let (member, called) = find_graph(&self.store, slug)?;
        lock(&self.members).insert(slug.clone(), member);
        Ok(called)
    }
}

/// Another Graph of this device, if it is ready: its newest version.
pub(super) fn find_graph(store: &Store, slug: &Slug) -> Result<(Member, CalledGraph), CallError> {
    let none =
        || CallError::new(CallCode::NoGraph, format!("There is no ready Graph with the slug {slug}. Save it, set it to ready, then run again."));
    let broken = |e: StoreError| CallError::new(CallCode::NoGraph, format!("The Graph {slug} cannot be read: {e}."));
    let graph = store.graph_by_slug(slug).map_err(broken)?.filter(|g| g.status == SessionStatus::Ready).ok_or_else(none)?;
    let version = store.graph_version(graph.id, graph.version).map_err(broken)?.ok_or_else(none)?;
    let tools = Meta::read(&version.source).ok().and_then(|meta| super::limited(meta.tools));
    let member = Member { at: GraphAt { session: graph.id, version: graph.version }, tools };
    Ok((member, CalledGraph { slug: slug.clone(), source: version.source }))
}

fn words_of(json: &RawJson) -> String {
    match json.to_value().get("error") {
        Some(serde_json::Value::String(text)) => text.clone(),
        _ => json.to_string(),
    }
}

fn refusal_code(refusal: &Refusal) -> CallCode {
    match refusal {
        Refusal::ByOwner(_) | Refusal::ByRule(_) | Refusal::Unattended(_) | Refusal::NotRecorded(_) | Refusal::Unanswered(_) | Refusal::NotAsked => {
            CallCode::Denied
        }
        Refusal::Invalid(_) => CallCode::Invalid,
        Refusal::Stopped => CallCode::Cancelled,
    }
}

fn call_error(e: agent::AgentError) -> CallError {
    let code = match e.code {
        AgentErrorCode::NoModel | AgentErrorCode::UnknownModel => CallCode::NoModel,
        AgentErrorCode::CeilingReached => CallCode::CeilingReached,
        AgentErrorCode::Schema => CallCode::Schema,
        AgentErrorCode::Timeout => CallCode::Timeout,
        AgentErrorCode::Stalled => CallCode::Stalled,
        AgentErrorCode::Refused => CallCode::Refused,
        AgentErrorCode::ContextOverflow => CallCode::ContextOverflow,
        AgentErrorCode::Provider | AgentErrorCode::Cut => CallCode::Provider,
        AgentErrorCode::RateLimited => CallCode::RateLimited,
        AgentErrorCode::Loop | AgentErrorCode::Turns => CallCode::Loop,
        AgentErrorCode::Cancelled => CallCode::Cancelled,
        AgentErrorCode::Options => CallCode::Invalid,
    };
    let error = CallError::new(code, e.message).used(e.usage.input + e.usage.output, e.cost);
    if e.code.is_retryable() { error.retryable() } else { error }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
