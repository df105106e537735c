//! One execution from its first event to its outcome.
use std::{sync::Arc, time::Duration};

use domain::{
    FailReason, Outcome, RawJson,
    limits::{MIB, RESULT_LARGE_CHARS, VM_BUSY_MS_MAX, VM_HEAP_BYTES_MAX},
    text::{OVERRAN, QUIT, STOPPED},
    wire::event::FleetWhat,
};

use crate::{
    drive::{Job, drive},
    fleet::{Fleet, Stopped},
    host::CallCode,
    script::{Meta, Script, ScriptFault},
    vm::{Arrived, Exit, Fault, FaultKind, FromVm, Place, ScriptVm, ToVm, busy_words},
};

/// Runs a Graph to its end. The first event is `fleet_started`, the last `fleet_finished`; the outcome is returned after the latter.
/// Stop it with [`Fleet::stop`]; dropping the future stops it as well, without a last event.
pub async fn run_fleet_script(script: &Script, args: &RawJson, fleet: Arc<Fleet>, vm: &dyn ScriptVm) -> Outcome {
    fleet.host().event(FleetWhat::FleetStarted {
        run_id: fleet.run_id.clone(),
        ceiling: fleet.settings.token_ceiling,
        max_concurrency: fleet.settings.max_concurrency as u64,
        seed: fleet.settings.seed,
    });
    let ended = to_end(script, args, &fleet, vm).await;
    finish(&fleet, ended)
}

/// Reads `meta` and looks for syntax errors, without running anything, outside this process.
pub async fn inspect(source: &str, vm: &dyn ScriptVm) -> Result<Meta, ScriptFault> {
    let meta = Meta::read(source)?;
    let unreadable = |message: String| ScriptFault { message, line: 0, column: 0 };
    let mut session = vm.open(ToVm::Lint { source: source.to_owned() }).await.map_err(|e| unreadable(e.to_string()))?;
    loop {
        match session.next().await {
            Arrived::Said(FromVm::Linted(Ok(()))) => return Ok(meta),
            Arrived::Said(FromVm::Linted(Err(Place { message, line, column }))) => return Err(ScriptFault { message, line, column }),
            Arrived::Said(FromVm::Taken | FromVm::Call(_) | FromVm::Note { .. } | FromVm::Idle | FromVm::End(_)) => {}
            Arrived::Gone(exit) => return Err(unreadable(Broken::gone(&exit, None, "", VM_BUSY_MS_MAX).error)),
        }
    }
}

/// Why a script gave no result.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Broken {
    pub(crate) why: FailReason,
    pub(crate) error: String,
    pub(crate) line: Option<u32>,
    /// Code of the failed call that nobody caught.
    pub(crate) code: Option<CallCode>,
}

impl Broken {
    pub(crate) fn new(why: FailReason, error: impl Into<String>) -> Self {
        Self { why, error: error.into(), line: None, code: None }
    }

    pub(crate) fn fault(fault: Fault) -> Self {
        let code = fault.code.as_deref().and_then(CallCode::parse);
        let why = match (fault.kind, code) {
            (FaultKind::Thrown, Some(CallCode::CeilingReached)) => FailReason::CeilingReached,
            (FaultKind::Thrown, Some(CallCode::WaveStopped)) => FailReason::WaveStopped,
            (FaultKind::Thrown, Some(CallCode::NoModel)) => FailReason::NoModel,
            (FaultKind::Thrown | FaultKind::Syntax | FaultKind::Broken, _) => FailReason::ScriptError,
            (FaultKind::TooDeep, _) => FailReason::TooDeep,
            (FaultKind::Stalled, _) => FailReason::Stalled,
            (FaultKind::NotJson, _) => FailReason::ResultNotJson,
        };
        Self { why, error: fault.text, line: fault.line, code }
    }

    /// The process is gone; the last call tells about where.
    pub(crate) fn gone(exit: &Exit, last_line: Option<u32>, source: &str, busy_ms: u64) -> Self {
        let (why, what) = match exit {
            Exit::OutOfMemory => (FailReason::OutOfMemory, format!("The script used more than {} MiB of memory.", VM_HEAP_BYTES_MAX / MIB)),
            Exit::Busy => (FailReason::Stalled, busy_words(busy_ms)),
            Exit::Killed => (
                FailReason::OutOfMemory,
                "The script's process was killed by somebody else, most likely by the computer itself because its memory ran out.".to_owned(),
            ),
            Exit::Crashed(how) => (FailReason::TooDeep, format!("The script nested too deep and its process ended ({how}).")),
        };
        let line = last_line.and_then(|line| source.lines().nth((line as usize).saturating_sub(1)).map(|text| (line, text)));
        let seen = line.map(|(line, text)| format!(" It was last seen at line {line}:\n\n{line:>5} | {}", text.trim_end())).unwrap_or_default();
        Self { why, error: format!("{what}{seen}"), line: line.map(|(line, _)| line), code: None }
    }
}

enum Ended {
    Returned(RawJson),
    Broken(Broken),
    Stopped,
}

async fn to_end(script: &Script, args: &RawJson, fleet: &Arc<Fleet>, vm: &dyn ScriptVm) -> Ended {
    let job = match Job::first(script, args, fleet, vm) {
        Ok(job) => job,
        Err(broken) => return Ended::Broken(broken),
    };
    let deadline = Duration::from_millis(fleet.settings.deadline_ms);
    tokio::select! {
        biased;
        () = fleet.stop_token().cancelled() => Ended::Stopped,
        () = fleet.overrun().cancelled() => Ended::Broken(Broken::new(FailReason::CeilingReached, OVERRAN)),
        () = fleet.watch.ran(deadline) => {
            let minutes = fleet.settings.deadline_ms as f64 / 60_000.0;
            Ended::Broken(Broken::new(FailReason::Deadline, format!("The execution took longer than its {minutes} minutes.")))
        }
        result = drive(job) => match result {
            Ok(json) => Ended::Returned(json),
            Err(broken) => Ended::Broken(broken),
        },
    }
}

fn finish(fleet: &Fleet, ended: Ended) -> Outcome {
    let (used, tally) = (fleet.used(), fleet.tally());
    let (outcome, line) = match ended {
        Ended::Returned(result) => {
            let length = domain::text::utf16_len(result.as_str());
            if length > RESULT_LARGE_CHARS {
                let text = format!(
                    "The result is {length} characters long, much for an agent to read. End with a summary, key values and the execution id."
                );
                fleet.host().event(FleetWhat::Warning { text, line: None });
            }
            (Outcome::Completed { result, used }, None)
        }
        Ended::Broken(broken) => (Outcome::Failed { why: broken.why, error: broken.error, used }, broken.line),
        Ended::Stopped => (stopped(fleet), None),
    };
    let (status, reason, error) = match &outcome {
        Outcome::Completed { .. } => ("completed", "done", None),
        Outcome::Failed { why, error, .. } => ("failed", why.as_str(), Some(error.clone())),
        Outcome::Cancelled { why, error, .. } => ("cancelled", why.as_str(), Some(error.clone())),
    };
    fleet.host().event(FleetWhat::FleetFinished {
        status: status.to_owned(),
        reason: reason.to_owned(),
        error,
        line,
        tokens: used.total_tokens,
        cost: used.cost,
        agents_done: tally.agents_done,
        agents_failed: tally.agents_failed,
    });
    outcome
}

fn stopped(fleet: &Fleet) -> Outcome {
    let used = fleet.used();
    let why = fleet.why_stopped().unwrap_or(crate::StopWhy::Owner);
    match why.ending() {
        Stopped::Cancelled(reason) => Outcome::Cancelled { why: reason, error: STOPPED.to_owned(), used },
        Stopped::Failed(reason) => Outcome::Failed { why: reason, error: QUIT.to_owned(), used },
    }
}
