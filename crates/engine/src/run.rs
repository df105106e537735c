//! One execution from its first event to its outcome.
use std::sync::Arc;

use domain::{FailReason, Outcome, RawJson, completion::Used};

use crate::{
    fleet::Fleet,
    script::{Meta, Script, ScriptFault},
    vm::ScriptVm,
};

/// Runs a Graph to its end. The first event is `fleet_started`, the last `fleet_finished`; the outcome is returned after the latter.
/// Stop it with [`Fleet::stop`]; dropping the future stops it as well, without a last event.
pub async fn run_fleet_script(script: &Script, args: &RawJson, fleet: Arc<Fleet>, vm: &dyn ScriptVm) -> Outcome {
    let _ = (script, args, fleet, vm);
    Outcome::Failed { why: FailReason::Stalled, error: "the engine is not finished yet".to_owned(), used: Used::default() }
}

/// Reads `meta` and looks for syntax errors, without running anything, outside this process.
pub async fn inspect(source: &str, vm: &dyn ScriptVm) -> Result<Meta, ScriptFault> {
    let _ = (source, vm);
    Ok(Meta::default())
}
