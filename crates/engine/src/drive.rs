//! One script and its calls: takes what the script asks for, starts it when its turn comes, hands the answers back one by one.
//!
//! Everything a call does lives in one set of futures: dropping the set drops every call at once. The order of events is the order in
//! which the script asked.
use std::{collections::BTreeSet, sync::Arc};

use domain::{FailReason, RawJson, Slug, wire::event::FleetWhat};
use futures::{StreamExt, stream::FuturesUnordered};
use tokio::time::Instant;

use crate::{
    calls,
    fleet::Fleet,
    host::{BoxFuture, CallError},
    run::Broken,
    script::{Meta, Script},
    vm::{Answer, Arrived, Budget, Call, End, Failure, FromVm, Note, ScriptVm, Start, ToVm},
};

/// One script to run: the outermost Graph, or one it calls.
pub(crate) struct Job<'a> {
    pub(crate) fleet: &'a Arc<Fleet>,
    pub(crate) vm: &'a dyn ScriptVm,
    pub(crate) source: String,
    args: RawJson,
    /// Outermost first, this one last.
    pub(crate) graphs: Vec<Slug>,
    /// The tools every Graph on the way declares. `None`: none of them does.
    pub(crate) tools: Option<BTreeSet<String>>,
}

impl<'a> Job<'a> {
    pub(crate) fn first(script: &Script, args: &RawJson, fleet: &'a Arc<Fleet>, vm: &'a dyn ScriptVm) -> Result<Self, Broken> {
        let meta = read_meta(&script.source)?;
        check_args(&meta, args).map_err(|error| Broken::new(FailReason::ArgumentsInvalid, error))?;
        let tools = declared(meta.tools);
        Ok(Self { fleet, vm, source: script.source.clone(), args: args.clone(), graphs: vec![script.slug.clone()], tools })
    }

    /// A Graph that this one calls: shares everything, and may use only tools that both declare.
    pub(crate) fn inner(&self, slug: Slug, source: String, args: RawJson) -> Result<Self, Broken> {
        let meta = read_meta(&source)?;
        check_args(&meta, &args).map_err(|error| Broken::new(FailReason::ArgumentsInvalid, error))?;
        let own = declared(meta.tools);
        let tools = match (&self.tools, own) {
            (Some(outer), Some(own)) => Some(outer.intersection(&own).cloned().collect()),
            (Some(outer), None) => Some(outer.clone()),
            (None, own) => own,
        };
        let mut graphs = self.graphs.clone();
        graphs.push(slug);
        Ok(Self { fleet: self.fleet, vm: self.vm, source, args, graphs, tools })
    }

    pub(crate) fn tell(&self, what: FleetWhat) {
        self.fleet.host().event(what);
    }
}

fn declared(tools: Vec<String>) -> Option<BTreeSet<String>> {
    (!tools.is_empty()).then(|| tools.into_iter().collect())
}

fn read_meta(source: &str) -> Result<Meta, Broken> {
    Meta::read(source).map_err(|fault| Broken { line: Some(fault.line), ..Broken::new(FailReason::ScriptError, fault.to_string()) })
}

/// Says which member is wrong and why; no schema allows everything.
fn check_args(meta: &Meta, args: &RawJson) -> Result<(), String> {
    let Some(schema) = &meta.args else { return Ok(()) };
    let validator = jsonschema::validator_for(&schema.to_value()).map_err(|e| format!("meta.args is not a JSON Schema: {e}"))?;
    let args = args.to_value();
    let mut errors = validator.iter_errors(&args).map(|e| {
        let path = e.instance_path().to_string();
        format!("{}: {e}", if path.is_empty() { "args".to_owned() } else { format!("args{}", path.replace('/', ".")) })
    });
    let shown: Vec<String> = errors.by_ref().take(3).collect();
    let more = errors.count();
    match shown.as_slice() {
        [] => Ok(()),
        shown => Err(format!(
            "The arguments do not fit this Graph. {}{}",
            shown.join("; "),
            if more > 0 { format!("; and {more} more") } else { String::new() }
        )),
    }
}

/// The answer to a call: JSON text or why not.
pub(crate) type Answered = Result<String, CallError>;
/// A call at work: its number, its line, its answer.
type Pending<'a> = BoxFuture<'a, (u64, Option<u32>, Answered)>;

/// Runs one script to its end. Dropping the future ends the script and every call of it.
pub(crate) fn drive(job: Job<'_>) -> BoxFuture<'_, Result<RawJson, Broken>> {
    Box::pin(async move {
        let order = ToVm::Start(Start {
            source: job.source.clone(),
            args: job.args.as_str().to_owned(),
            seed: job.fleet.settings.seed,
            now_ms: job.fleet.settings.started_at.ms(),
            budget: budget(job.fleet),
            busy_ms: job.fleet.settings.busy_ms,
        });
        let opened = job.vm.open(order).await;
        let mut session = opened.map_err(|e| Broken::new(FailReason::ScriptError, e.to_string()))?;
        let started = Instant::now();
        let mut told = Told::default();
        let mut pending: FuturesUnordered<Pending<'_>> = FuturesUnordered::new();
        loop {
            tokio::select! {
                biased;
                Some((id, line, answered)) = pending.next(), if !pending.is_empty() => {
                    // There the script goes on.
                    told.line = line.or(told.line);
                    let passed = started.elapsed().saturating_add(job.fleet.skipped());
                    let clock_ms = i64::try_from(passed.as_millis()).unwrap_or(i64::MAX);
                    session.send(ToVm::Answer(Answer { id, body: answered.map_err(failure), budget: budget(job.fleet), clock_ms }));
                }
                arrived = session.next() => match arrived {
                    Arrived::Said(FromVm::Call(call)) => {
                        told.line = call.line.or(told.line);
                        let Call { id, what, wave, line } = call;
                        let answer = calls::begin(&job, &told, what, wave, line);
                        pending.push(Box::pin(async move { (id, line, answer.await) }));
                    }
                    Arrived::Said(FromVm::Note { note, line }) => {
                        told.line = line.or(told.line);
                        told.note(&job, note);
                    }
                    Arrived::Said(FromVm::End(end)) => {
                        if !pending.is_empty() {
                            let text = format!("{} calls still ran when the script ended; they were stopped. Is an await missing?", pending.len());
                            job.tell(FleetWhat::Warning { text, line: told.line });
                        }
                        drop(pending);
                        return ended(end);
                    }
                    Arrived::Said(FromVm::Taken | FromVm::Idle | FromVm::Linted(_)) => {}
                    Arrived::Gone(exit) => return Err(Broken::gone(&exit, told.line, &job.source, job.fleet.settings.busy_ms)),
                },
            }
        }
    })
}

fn ended(end: End) -> Result<RawJson, Broken> {
    match end {
        End::Returned { json } => RawJson::parse(&json).map_err(|e| Broken::new(FailReason::ResultNotJson, format!("The result is {e}."))),
        End::Failed(fault) => Err(Broken::fault(fault)),
    }
}

fn budget(fleet: &Fleet) -> Budget {
    let ledger = fleet.ledger_totals();
    Budget { total: ledger.0, spent: ledger.1, free: ledger.2 }
}

fn failure(e: CallError) -> Failure {
    Failure { code: e.code.as_str().to_owned(), message: e.message, retryable: e.retryable, tokens: e.tokens, cost: e.cost }
}

/// What the script has said so far.
#[derive(Default)]
pub(crate) struct Told {
    pub(crate) phase: Option<String>,
    line: Option<u32>,
}

impl Told {
    fn note(&mut self, job: &Job<'_>, note: Note) {
        match note {
            Note::Log { text } => job.tell(FleetWhat::Log { text }),
            Note::Phase { title } => {
                self.phase = Some(title.clone());
                job.tell(FleetWhat::Phase { title });
            }
            Note::WaveFinished { wave, done, failed } => job.tell(FleetWhat::WaveFinished { wave, done, failed }),
            Note::WaveStopped { wave, reason } => {
                job.fleet.wave(Some(wave)).cancel();
                job.tell(FleetWhat::WaveRefused { wave, reason });
            }
            Note::Retry { why, wait_ms, attempt } => job.tell(FleetWhat::Retry { agent: None, why, wait_ms, attempt }),
            Note::Warning { text, line } => job.tell(FleetWhat::Warning { text, line }),
        }
    }
}
