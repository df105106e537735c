//! A dry run: the same program, its agents answered from recordings or made up from their schema, without network, tokens or effects.
//!
//! What tools answer comes from whoever starts it: reading for real is harmless, writing is not. The clock does not wait.
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use domain::{ExecutionId, Outcome, RawJson, Slug, ledger::Usage, wire::event::FleetWhat};
use serde_json::{Map, Value, json};

use crate::{
    fleet::{Fleet, Need},
    host::{AgentAnswer, AgentCall, BoxFuture, CallCode, CallError, CalledGraph, FleetHost, OwnerQuestion, ToolCall},
    run::run_fleet_script,
    script::Script,
    seat::Seat,
    settings::Settings,
    vm::ScriptVm,
};

/// What a dry run needs to know of the desktop.
pub trait DryPort: Send + Sync + 'static {
    /// What the tool would answer, without effects: reading tools may read, others make something up. And whether it would ask the owner.
    fn tool<'a>(&'a self, call: &'a ToolCall) -> BoxFuture<'a, DryTool>;
    /// An answer recorded before for the same call.
    fn recorded(&self, call: &AgentCall) -> Option<RawJson>;
    fn graph(&self, slug: &Slug) -> Result<CalledGraph, CallError>;
}

#[derive(Debug, Clone, PartialEq)]
pub struct DryTool {
    pub answer: Result<RawJson, CallError>,
    pub asks: bool,
}

/// What a run would do, as far as made-up answers take it.
#[derive(Debug, Clone, PartialEq)]
pub struct DryReport {
    pub outcome: Outcome,
    pub phases: Vec<String>,
    pub agents: u64,
    /// Agents whose answer was recorded: they would cost nothing on a resume.
    pub recorded: u64,
    /// Every model call at its worst, one call per agent.
    pub worst_tokens: u64,
    /// Agents with tools make more calls than one; how many cannot be known.
    pub agents_with_tools: u64,
    /// Calls by the script itself: name → how often, and how often of those the owner would be asked.
    pub tools: BTreeMap<String, (u64, u64)>,
    pub questions: u64,
    pub warnings: Vec<String>,
    pub story: Vec<FleetWhat>,
}

/// Runs a Graph dry. The ceiling holds as in a real run, so that its path is the same.
pub async fn dry_run(
    script: &Script,
    args: &RawJson,
    mut settings: Settings,
    port: Arc<dyn DryPort>,
    vm: &dyn ScriptVm,
    run_id: ExecutionId,
) -> DryReport {
    settings.is_dry = true;
    let host = Arc::new(DryHost { port, seen: Mutex::default() });
    let fleet = Fleet::new(run_id, settings, Arc::clone(&host) as Arc<dyn FleetHost>);
    let outcome = run_fleet_script(script, args, Arc::clone(&fleet), vm).await;
    let mut seen = std::mem::take(&mut *host.seen.lock().unwrap_or_else(PoisonError::into_inner));
    let mut warnings = Vec::new();
    for event in &seen.story {
        match event {
            FleetWhat::Phase { title } if !seen.phases.contains(title) => seen.phases.push(title.clone()),
            FleetWhat::Warning { text, .. } => warnings.push(text.clone()),
            _ => {}
        }
    }
    DryReport {
        outcome,
        phases: seen.phases,
        agents: seen.agents,
        recorded: seen.recorded,
        worst_tokens: fleet.ledger().spent(),
        agents_with_tools: seen.agents_with_tools,
        tools: seen.tools,
        questions: seen.questions,
        warnings,
        story: seen.story,
    }
}

#[derive(Default)]
struct Seen {
    phases: Vec<String>,
    agents: u64,
    recorded: u64,
    agents_with_tools: u64,
    tools: BTreeMap<String, (u64, u64)>,
    questions: u64,
    story: Vec<FleetWhat>,
}

struct DryHost {
    port: Arc<dyn DryPort>,
    seen: Mutex<Seen>,
}

impl DryHost {
    fn see(&self, look: impl FnOnce(&mut Seen)) {
        look(&mut self.seen.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

impl FleetHost for DryHost {
    fn event(&self, what: FleetWhat) {
        self.see(|seen| seen.story.push(what));
    }

    fn agent<'a>(&'a self, fleet: &'a Fleet, call: AgentCall, _: Seat) -> BoxFuture<'a, Result<AgentAnswer, CallError>> {
        Box::pin(async move {
            let recorded = self.port.recorded(&call);
            self.see(|seen| {
                seen.agents += 1;
                seen.recorded += u64::from(recorded.is_some());
                seen.agents_with_tools += u64::from(call.tools.as_ref().is_some_and(|tools| !tools.is_empty()));
            });
            if let Some(value) = recorded {
                return Ok(AgentAnswer { value, tokens: 0, cost: Some(0.0), replayed: true });
            }
            let need = worst(&call);
            let held = fleet.reserve(&call.label, need)?;
            fleet.settle(held, Usage::Known { input: need.input, output: need.max_output }, None);
            let value = call.schema.as_ref().map_or_else(|| json!(format!("(answer of {})", call.label)), |schema| sample(&schema.to_value()));
            Ok(AgentAnswer { value: RawJson::of(&value), tokens: need.input + need.max_output, cost: None, replayed: false })
        })
    }

    fn tool<'a>(&'a self, _: &'a Fleet, call: ToolCall, _: Seat) -> BoxFuture<'a, Result<RawJson, CallError>> {
        Box::pin(async move {
            let DryTool { answer, asks } = self.port.tool(&call).await;
            self.see(|seen| {
                let counts = seen.tools.entry(call.tool.clone()).or_default();
                counts.0 += 1;
                counts.1 += u64::from(asks);
            });
            answer
        })
    }

    fn ask<'a>(&'a self, _: &'a Fleet, question: OwnerQuestion) -> BoxFuture<'a, Result<RawJson, CallError>> {
        self.see(|seen| seen.questions += 1);
        let first = question.options.first().map(|option| RawJson::of(&json!(option)));
        let answer = question.default.or(first).ok_or_else(|| CallError::new(CallCode::Unanswered, "A dry run asks nobody."));
        Box::pin(std::future::ready(answer))
    }

    fn graph(&self, slug: &Slug) -> Result<CalledGraph, CallError> {
        self.port.graph(slug)
    }
}

/// A token is at least a byte; 64 more per message for what surrounds it.
fn worst(call: &AgentCall) -> Need {
    const PER_MESSAGE: usize = 64;
    let texts = [Some(call.prompt.as_str()), call.system.as_deref(), call.schema.as_ref().map(RawJson::as_str)];
    let input: usize = texts.iter().flatten().map(|text| text.len() + PER_MESSAGE).sum();
    Need { input: input as u64, max_output: call.max_tokens, cost: None }
}

/// A small value that is valid against a schema, as far as its usual words go.
pub fn sample(schema: &Value) -> Value {
    sample_of(schema, schema, 0)
}

fn sample_of(schema: &Value, root: &Value, depth: usize) -> Value {
    const DEPTH_MAX: usize = 20;
    let Value::Object(words) = schema else { return Value::Null };
    if depth > DEPTH_MAX {
        return Value::Null;
    }
    let inner = |schema: &Value| sample_of(schema, root, depth + 1);
    if let Some(target) = words.get("$ref").and_then(Value::as_str).and_then(|r| r.strip_prefix('#')).and_then(|pointer| root.pointer(pointer)) {
        return inner(target);
    }
    for word in ["const", "default"] {
        if let Some(value) = words.get(word) {
            return value.clone();
        }
    }
    for word in ["enum", "examples"] {
        if let Some(value) = words.get(word).and_then(Value::as_array).and_then(|values| values.first()) {
            return value.clone();
        }
    }
    for word in ["anyOf", "oneOf", "allOf"] {
        if let Some(first) = words.get(word).and_then(Value::as_array).and_then(|choices| choices.first()) {
            return inner(first);
        }
    }
    let named = match words.get("type") {
        Some(Value::String(name)) => Some(name.as_str()),
        Some(Value::Array(names)) => names.first().and_then(Value::as_str),
        _ => None,
    };
    let count = |word: &str| words.get(word).and_then(Value::as_u64).and_then(|n| usize::try_from(n).ok()).unwrap_or(0);
    match named.unwrap_or(if words.contains_key("properties") { "object" } else { "string" }) {
        "object" => {
            let required = words.get("required").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
            let member = |name: &str| words.get("properties").and_then(|p| p.get(name)).map_or(Value::Null, inner);
            Value::Object(required.iter().filter_map(Value::as_str).map(|name| (name.to_owned(), member(name))).collect::<Map<_, _>>())
        }
        // One item at least, so that what is done with items is seen.
        "array" => Value::Array(vec![words.get("items").map_or(Value::Null, inner); count("minItems").clamp(1, 5)]),
        "integer" | "number" => match (words.get("minimum"), words.get("exclusiveMinimum").and_then(Value::as_f64)) {
            (Some(least), _) => least.clone(),
            (None, Some(above)) => json!(above.floor() as i64 + 1),
            (None, None) => json!(0),
        },
        "boolean" => json!(true),
        "null" => Value::Null,
        _ => json!("x".repeat(count("minLength").clamp(1, 200))),
    }
}
