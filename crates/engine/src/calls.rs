//! The calls of a script: checked and queued at once, started when there is a place, refused when they must not start any more.
use std::{sync::Arc, time::Duration};

use domain::{
    RawJson, Slug,
    limits::{APPROVAL_TIMEOUT_MS_DEFAULT, GRAPH_DEPTH_MAX, NAME_CHARS_MAX},
    text::cut_chars,
    wire::event::{AgentEnd, FleetWhat},
};
use futures::FutureExt;
use serde::{Deserialize, de::IgnoredAny};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::{
    drive::{Answered, Job, Told, drive},
    fleet::Fleet,
    host::{AgentAnswer, AgentCall, BoxFuture, CallCode, CallError, OwnerQuestion, ToolCall},
    run::Broken,
    seat::Seat,
    vm::What,
};

/// How much of a prompt names an agent that has no label.
const LABEL_CHARS: usize = 60;
const SLEEP_SECONDS_MAX: f64 = 86_400.0;

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct AgentOptions {
    label: Option<String>,
    phase: Option<String>,
    model: Option<String>,
    system: Option<String>,
    tools: Option<Vec<String>>,
    schema: Option<RawJson>,
    max_tokens: Option<u64>,
    timeout_s: Option<f64>,
    // What the dialect knows elsewhere and has no meaning here: accepted with a warning, so that such scripts run unchanged.
    effort: Option<IgnoredAny>,
    isolation: Option<IgnoredAny>,
    #[serde(rename = "agentType")]
    agent_type: Option<IgnoredAny>,
}

impl AgentOptions {
    fn ignored(&self) -> impl Iterator<Item = &'static str> {
        let all = [("effort", self.effort.is_some()), ("isolation", self.isolation.is_some()), ("agentType", self.agent_type.is_some())];
        all.into_iter().filter_map(|(name, is_given)| is_given.then_some(name))
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct AskOptions {
    options: Vec<String>,
    default: Option<RawJson>,
    timeout_s: Option<f64>,
}

/// Checks a call and takes its place in the order of events; the returned future does it.
pub(crate) fn begin<'a>(job: &'a Job<'a>, told: &Told, what: What, wave: Option<u64>, line: Option<u32>) -> BoxFuture<'a, Answered> {
    let begun = match what {
        What::Agent { prompt, options } => queue_agent(job, told, prompt, &options, wave, line),
        What::Tool { name, input } => queue_tool(job, name, &input, wave, line),
        What::Ask { question, options } => queue_question(job, question, &options, line),
        What::Graph { slug, args } => queue_graph(job, &slug, &args),
        What::Sleep { seconds } => {
            let wait = Duration::from_secs_f64(seconds.clamp(0.0, SLEEP_SECONDS_MAX));
            Ok(Box::pin(async move {
                if job.fleet.settings.is_dry {
                    job.fleet.skip(wait);
                } else {
                    tokio::time::sleep(wait).await;
                }
                Ok("null".to_owned())
            }) as BoxFuture<'a, Answered>)
        }
        What::Wave { form, size } => open_wave(job, form, size, wave),
    };
    begun.unwrap_or_else(|e| Box::pin(std::future::ready(Err(e))))
}

type Begun<'a> = Result<BoxFuture<'a, Answered>, CallError>;

fn invalid(what: &str, e: impl std::fmt::Display) -> CallError {
    CallError::new(CallCode::Invalid, format!("{what}: {e}"))
}

fn millis(seconds: f64, what: &str) -> Result<u64, CallError> {
    if !(seconds > 0.0 && seconds.is_finite()) {
        return Err(invalid(what, "timeout_s must be a number above 0"));
    }
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // saturates, which is what we want
    Ok((seconds * 1000.0).ceil() as u64)
}

fn open_wave<'a>(job: &'a Job<'a>, form: String, size: u64, inside: Option<u64>) -> Begun<'a> {
    let wave = job.fleet.open_wave(inside);
    if let Some(refused) = refusal(job.fleet, &job.fleet.wave(inside)) {
        job.tell(FleetWhat::WaveRefused { wave, reason: refused.code.as_str().to_owned() });
        return Err(refused);
    }
    job.tell(FleetWhat::WaveStarted { wave, size, form });
    Ok(Box::pin(std::future::ready(Ok(wave.to_string()))))
}

/// Why nothing new may start, if so.
fn refusal(fleet: &Fleet, wave: &CancellationToken) -> Option<CallError> {
    if fleet.closed().is_cancelled() {
        let (total, spent, _) = fleet.ledger_totals();
        return Some(CallError::new(
            CallCode::CeilingReached,
            format!("The token ceiling is reached ({spent} of {total} spent): nothing new is started."),
        ));
    }
    wave.is_cancelled().then(|| CallError::new(CallCode::WaveStopped, "This wave was stopped before the call started."))
}

/// Waits for a place; gives up as soon as the call must not start any more.
async fn seat(fleet: &Fleet, wave: &CancellationToken, minds_ceiling: bool) -> Result<Seat, CallError> {
    let never = CancellationToken::new();
    let closed = if minds_ceiling { fleet.closed() } else { &never };
    let taken = tokio::select! {
        biased;
        () = closed.cancelled() => None,
        () = wave.cancelled() => None,
        seat = fleet.seats.take() => Some(seat),
    };
    match taken {
        Some(seat) => Ok(seat),
        None => Err(refusal(fleet, wave).unwrap_or_else(|| CallError::new(CallCode::Cancelled, "stopped"))),
    }
}

/// A panic in the host's work is that call's failure, not the execution's.
async fn guarded<T>(code: CallCode, work: BoxFuture<'_, Result<T, CallError>>) -> Result<T, CallError> {
    let done = std::panic::AssertUnwindSafe(work).catch_unwind().await;
    done.unwrap_or_else(|_| Err(CallError::new(code, "Graph Desk itself failed in this call; its log says more.")))
}

// ── agent ───────────────────────────────────────────────────────────────────────────────────────────────────────────

fn queue_agent<'a>(job: &'a Job<'a>, told: &Told, prompt: String, options: &str, wave: Option<u64>, line: Option<u32>) -> Begun<'a> {
    let options: AgentOptions = serde_json::from_str(options).map_err(|e| invalid("agent options", e))?;
    for name in options.ignored() {
        if job.fleet.is_first_warning(name) {
            job.tell(FleetWhat::Warning { text: format!("The agent option {name} has no meaning here and is ignored."), line });
        }
    }
    let fleet = job.fleet;
    if let Some(tool) = options.tools.iter().flatten().find(|tool| job.tools.as_ref().is_some_and(|declared| !declared.contains(*tool))) {
        return Err(invalid("agent options", format!("meta.tools does not name the tool {tool}")));
    }
    let most = fleet.settings.agent_timeout_ms;
    let timeout_ms = options.timeout_s.map_or(Ok(most), |s| millis(s, "agent options").map(|ms| ms.min(most)))?;
    let most_tokens = fleet.settings.max_tokens_per_call;
    let agent = fleet.next_agent();
    if agent > fleet.settings.agents as u64 {
        return Err(CallError::new(CallCode::Limit, format!("This execution may launch {} agents, and has.", fleet.settings.agents)));
    }
    let label = options.label.filter(|l| !l.trim().is_empty()).unwrap_or_else(|| prompt.split_whitespace().collect::<Vec<_>>().join(" "));
    let call = AgentCall {
        agent,
        label: cut_chars(&label, LABEL_CHARS).to_owned(),
        phase: options.phase.or_else(|| told.phase.clone()).map(|p| cut_chars(&p, NAME_CHARS_MAX).to_owned()),
        model: options.model,
        system: options.system,
        tools: options.tools.or_else(|| job.tools.as_ref().map(|declared| declared.iter().cloned().collect())),
        schema: options.schema,
        max_tokens: options.max_tokens.map_or(most_tokens, |asked| asked.min(most_tokens)),
        timeout_ms,
        wave,
        line,
        graphs: job.graphs.clone(),
        prompt,
    };
    job.tell(FleetWhat::AgentQueued {
        agent,
        label: call.label.clone(),
        phase: call.phase.clone(),
        wave,
        model: call.model.clone().unwrap_or_else(|| fleet.settings.default_model.clone()),
        line,
        called: job.graphs.iter().skip(1).map(ToString::to_string).collect(),
        prompt: call.prompt.clone(),
    });
    let story = AgentStory { fleet, agent, started: None, is_told: false };
    Ok(Box::pin(run_agent(fleet, call, story)))
}

async fn run_agent(fleet: &Arc<Fleet>, call: AgentCall, mut story: AgentStory<'_>) -> Answered {
    let token = fleet.wave(call.wave);
    let seat = match refusal(fleet, &token) {
        Some(refused) => Err(refused),
        None => seat(fleet, &token, true).await,
    };
    let seat = match seat {
        Ok(seat) => seat,
        Err(refused) => {
            story.finished(AgentEnd::Refused, Some(&refused), 0, None);
            return Err(refused);
        }
    };
    story.started();
    let (watch, timeout_ms) = (seat.watch(), call.timeout_ms);
    let answer = tokio::select! {
        biased;
        answer = guarded(CallCode::Provider, fleet.host().agent(fleet, call, seat)) => answer,
        () = watch.ran(Duration::from_millis(timeout_ms)) => {
            Err(CallError::new(CallCode::Timeout, format!("The agent took longer than its {} seconds.", timeout_ms / 1000)))
        }
    };
    match answer {
        Ok(AgentAnswer { value, tokens, cost, replayed }) => {
            story.finished(if replayed { AgentEnd::Replayed } else { AgentEnd::Done }, None, tokens, cost);
            Ok(value.as_str().to_owned())
        }
        Err(e) => {
            let end = if e.code == CallCode::CeilingReached && e.tokens == 0 { AgentEnd::Refused } else { AgentEnd::Failed };
            story.finished(end, Some(&e), e.tokens, e.cost);
            Err(e)
        }
    }
}

/// Tells an agent's end exactly once, also when its future is dropped.
struct AgentStory<'a> {
    fleet: &'a Arc<Fleet>,
    agent: u64,
    started: Option<Instant>,
    is_told: bool,
}

impl AgentStory<'_> {
    fn started(&mut self) {
        self.started = Some(Instant::now());
        self.fleet.host().event(FleetWhat::AgentStarted { agent: self.agent });
    }

    fn finished(&mut self, end: AgentEnd, error: Option<&CallError>, tokens: u64, cost: Option<f64>) {
        self.is_told = true;
        match end {
            AgentEnd::Done | AgentEnd::Replayed => self.fleet.count_agent(true),
            AgentEnd::Failed => self.fleet.count_agent(false),
            AgentEnd::Refused | AgentEnd::Cancelled => {}
        }
        self.fleet.host().event(FleetWhat::AgentFinished {
            agent: self.agent,
            end,
            code: error.map(|e| e.code.as_str().to_owned()),
            message: error.map(|e| e.message.clone()),
            tokens,
            cost,
            ms: self.started.map_or(0, |at| u64::try_from(at.elapsed().as_millis()).unwrap_or(u64::MAX)),
        });
    }
}

impl Drop for AgentStory<'_> {
    fn drop(&mut self) {
        if !self.is_told {
            self.finished(AgentEnd::Cancelled, None, 0, None);
        }
    }
}

// ── tool, ask, graph ────────────────────────────────────────────────────────────────────────────────────────────────

fn queue_tool<'a>(job: &'a Job<'a>, tool: String, input: &str, wave: Option<u64>, line: Option<u32>) -> Begun<'a> {
    let input = RawJson::parse(input).map_err(|e| invalid("tool input", e))?;
    if !input.is_object() {
        return Err(invalid("tool input", "it must be an object"));
    }
    if job.tools.as_ref().is_some_and(|declared| !declared.contains(&tool)) {
        return Err(CallError::new(CallCode::NoTool, format!("meta.tools does not name the tool {tool}.")));
    }
    let call = ToolCall { tool, input, line, graphs: job.graphs.clone() };
    Ok(Box::pin(async move {
        // A reached token ceiling does not keep a script from writing down what it has.
        let seat = seat(job.fleet, &job.fleet.wave(wave), false).await?;
        guarded(CallCode::ToolFailed, job.fleet.host().tool(job.fleet, call, seat)).await.map(|json| json.as_str().to_owned())
    }))
}

fn queue_question<'a>(job: &'a Job<'a>, question: String, options: &str, line: Option<u32>) -> Begun<'a> {
    let options: AskOptions = serde_json::from_str(options).map_err(|e| invalid("ask options", e))?;
    let most = APPROVAL_TIMEOUT_MS_DEFAULT;
    let timeout_ms = options.timeout_s.map_or(Ok(most), |s| millis(s, "ask options"))?;
    let question = OwnerQuestion { question, options: options.options, default: options.default, timeout_ms, line, graphs: job.graphs.clone() };
    Ok(Box::pin(async move {
        let asked = guarded(CallCode::Unanswered, job.fleet.host().ask(job.fleet, question));
        job.fleet.seats.away_while(asked).await.map(|json| json.as_str().to_owned())
    }))
}

fn queue_graph<'a>(job: &'a Job<'a>, slug: &str, args: &str) -> Begun<'a> {
    let slug = Slug::parse(slug).map_err(|e| invalid("graph(slug)", e))?;
    let args = RawJson::parse(args).map_err(|e| invalid("graph args", e))?;
    if job.graphs.contains(&slug) {
        let way: Vec<&str> = job.graphs.iter().chain([&slug]).map(Slug::as_str).collect();
        return Err(CallError::new(CallCode::Limit, format!("A Graph cannot call itself, not even through others: {}.", way.join(" → "))));
    }
    if job.graphs.len() >= GRAPH_DEPTH_MAX {
        return Err(CallError::new(CallCode::Limit, format!("Graphs may call each other {GRAPH_DEPTH_MAX} levels deep.")));
    }
    let called = job.fleet.host().graph(&slug)?;
    let inner = job.inner(slug.clone(), called.source, args).map_err(|broken| graph_error(&slug, broken))?;
    Ok(Box::pin(async move { drive(inner).await.map(|json| json.as_str().to_owned()).map_err(|broken| graph_error(&slug, broken)) }))
}

fn graph_error(slug: &Slug, broken: Broken) -> CallError {
    let code = broken.code.filter(|code| code.ends_waves()).unwrap_or(CallCode::GraphFailed);
    CallError::new(code, format!("The Graph {slug} failed ({}): {}", broken.why, broken.error))
}
