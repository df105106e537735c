//! A dry run: the same program with agents answered from recordings or their schema, without network, tokens or effects.
//!
//! Reading tools that the rules allow read for real; every other tool only says what the rules would say. Invariant: nothing outside the
//! profile changes, and no ruling is logged, since nothing acts.
use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

use agent::{
    model::Models,
    policy::{self, GraphAt, Place, Ruling, Target, ToolClass},
    tools::{Prepared, Toolbox},
};
use domain::{Outcome, ProjectId, RawJson, Slug, completion::Used, wire::event::FleetWhat};
use engine::{AgentCall, BoxFuture, CallCode, CallError, CalledGraph, DryPort, DryReport, DryTool, Meta, Script, ToolCall};
use tokio_util::sync::CancellationToken;

use super::{
    Executor, ReceiptLine, StoredRules,
    host::{Member, find_graph},
    journal::{Journal, key_of},
    limited, lock,
    story::Story,
};
use crate::{
    relay::{RunFeed, RunRequest},
    store::{EndFacts, Store},
};

impl Executor {
    /// Runs a stored execution dry, to its end.
    pub async fn run_dry(&self, request: RunRequest) -> Outcome {
        let parts = &self.0.parts;
        let fail = |words: String| {
            let outcome = Outcome::Failed { why: domain::FailReason::ScriptError, error: words, used: Used::default() };
            self.store_end(&request.execution, &outcome, &EndFacts::default());
            outcome
        };
        let prepared = match self.prepare(&request) {
            Ok(prepared) => prepared,
            Err(words) => return fail(words),
        };
        let (owner, toolbox, journal) = match (parts.store.settings(), self.toolbox(), self.journal(&request)) {
            (Ok(owner), Ok(toolbox), Ok(journal)) => (owner, toolbox, journal),
            (Err(e), ..) | (_, Err(e), _) | (.., Err(e)) => return fail(format!("The profile cannot be read: {e}.")),
        };
        let meta = Meta::read(&prepared.version.source).unwrap_or_default();
        let me = Member { at: GraphAt { session: request.graph, version: request.version }, tools: limited(meta.tools.clone()) };
        let port = Arc::new(Port {
            store: parts.store.clone(),
            models: self.models(),
            toolbox,
            journal,
            members: Mutex::new(HashMap::from([(prepared.slug.clone(), me)])),
        });
        let settings = self.settings(&prepared.slug, &owner, &meta);
        let script = Script { slug: prepared.slug, source: prepared.version.source };
        let report = engine::dry_run(&script, &request.args, settings, port, &parts.vm, request.execution.clone()).await;
        let (story, writer) =
            Story::begin(request.execution.clone(), Arc::clone(&parts.clock), parts.store.clone(), parts.events.clone(), RunFeed::unheard());
        tell(&story, &report);
        story.close();
        if let Err(e) = writer.await {
            tracing::error!(execution = %request.execution, "the story's writer ended badly: {e}");
        }
        let outcome = without_tokens(report.outcome);
        let counts = story.counts();
        let worst = ReceiptLine { label: "worst case".into(), reserved: report.worst_tokens, settled: Some(0), estimated: true };
        let ledger = serde_json::to_string(&[worst]).unwrap_or_default();
        let facts = EndFacts { error_line: counts.error_line, agents_done: counts.agents_done, agents_failed: counts.agents_failed, ledger };
        self.store_end(&request.execution, &outcome, &facts);
        outcome
    }
}

/// The story, and before its last event what the dry run found out, in words.
fn tell(story: &Story, report: &DryReport) {
    let mut events = report.story.clone();
    let last = events.pop();
    events.into_iter().for_each(|what| story.tell(what));
    let mut lines =
        vec![format!("Dry run: {} agents, at worst {} tokens for one call each.", report.agents, crate::desk::powers::grouped(report.worst_tokens))];
    if report.recorded > 0 {
        lines.push(format!("{} agents have a recorded answer and would cost nothing.", report.recorded));
    }
    if report.agents_with_tools > 0 {
        lines.push(format!("{} agents have tools and may make more calls; how many cannot be told.", report.agents_with_tools));
    }
    for (tool, (calls, asks)) in &report.tools {
        lines.push(if *asks > 0 {
            format!("{tool}: called {calls} times, you would be asked {asks} times.")
        } else {
            format!("{tool}: called {calls} times.")
        });
    }
    if report.questions > 0 {
        lines.push(format!("The Graph itself would ask you {} times.", report.questions));
    }
    lines.into_iter().for_each(|text| story.tell(FleetWhat::Log { text }));
    last.into_iter().for_each(|what| story.tell(what));
}

/// Nothing was spent.
fn without_tokens(outcome: Outcome) -> Outcome {
    let used = Used { total_tokens: 0, cost: Some(0.0) };
    match outcome {
        Outcome::Completed { result, .. } => Outcome::Completed { result, used },
        Outcome::Failed { why, error, .. } => Outcome::Failed { why, error, used },
        Outcome::Cancelled { why, error, .. } => Outcome::Cancelled { why, error, used },
    }
}

struct Port {
    store: Store,
    models: Arc<Models>,
    toolbox: Toolbox,
    journal: Journal,
    members: Mutex<HashMap<Slug, Member>>,
}

impl Port {
    async fn look(&self, call: &ToolCall) -> DryTool {
        let refused = |code, text: String| DryTool { answer: Err(CallError::new(code, text)), asks: false };
        let Some(definition) = self.toolbox.definitions().into_iter().find(|d| d.name == call.tool) else {
            return refused(CallCode::NoTool, format!("There is no tool named {}.", call.tool));
        };
        let (graphs, offered) = {
            let members = lock(&self.members);
            let chain: Vec<&Member> = call.graphs.iter().filter_map(|slug| members.get(slug)).collect();
            let offered = chain.iter().filter_map(|m| m.tools.as_ref()).all(|tools| tools.contains(&call.tool));
            (chain.iter().map(|m| m.at).collect(), offered)
        };
        // Files can be looked at without harm; a command or an address is only judged.
        let prepared: Option<Prepared> = match definition.class {
            ToolClass::Read | ToolClass::Write => match self.toolbox.prepare(&call.tool, &call.input).await {
                Ok(prepared) => Some(prepared),
                Err(e) => return refused(CallCode::Invalid, e.to_string()),
            },
            ToolClass::Command | ToolClass::Network | ToolClass::Mcp => None,
        };
        let judged = policy::ToolCall {
            tool: call.tool.clone(),
            class: definition.class,
            target: prepared.as_ref().map_or(Target::Nothing, |p| p.target.clone()),
            input: call.input.clone(),
            fingerprint: definition.fingerprint,
            place: Place { project: None::<ProjectId>, graphs },
            offered,
        };
        let ruled = match agent::gate::Rules::current(&StoredRules(self.store.clone())) {
            Ok(book) => policy::rule(&judged, &book),
            Err(why) => return refused(CallCode::Denied, why),
        };
        let made_up = || Ok(RawJson::of(&serde_json::json!({ "dry_run": true })));
        match (ruled.ruling, definition.class, prepared) {
            (Ruling::Deny, ..) => refused(CallCode::Denied, format!("Not done: denied by the owner's rules ({}).", ruled.because)),
            (Ruling::Allow, ToolClass::Read, Some(prepared)) => {
                let output = prepared.run(CancellationToken::new()).await;
                let answer = if output.ok { Ok(output.json) } else { Err(CallError::new(CallCode::ToolFailed, output.json.to_string())) };
                DryTool { answer, asks: false }
            }
            (ruling, ..) => DryTool { answer: made_up(), asks: ruling == Ruling::Ask },
        }
    }
}

impl DryPort for Port {
    fn tool<'a>(&'a self, call: &'a ToolCall) -> BoxFuture<'a, DryTool> {
        Box::pin(self.look(call))
    }
    fn recorded(&self, call: &AgentCall) -> Option<RawJson> {
        let rules = self.store.rule_book().unwrap_or_default();
        self.journal.peek(&key_of(call, &self.models, &rules))
    }
    fn graph(&self, slug: &Slug) -> Result<CalledGraph, CallError> {
        let (member, called) = find_graph(&self.store, slug)?;
        lock(&self.members).insert(slug.clone(), member);
        Ok(called)
    }
}
