//! Approvals: what waits for the owner, the rules, the log. Only the owner's own hand comes through here.
use std::{path::Path, sync::Arc};

use agent::{
    approvals::{ASK, AnswerError, OwnersAnswer, Waiting},
    policy::{self, GraphAt, Pattern, Rule, Scope, ToolClass},
    tools::ToolDefinition,
};
use domain::{
    GraphSessionId, ProjectId,
    wire::said::{Sentence, said},
};

use super::{
    Desk,
    errors::{bad_argument, error},
    lock,
};
use crate::{
    store::{LOG_ROWS_MAX, RuleRecord, RulingRecord, StoreError},
    view::{
        ApprovalAnswer, ApprovalQuestion, ApprovalsView, Effect, ErrorView, OfferedRule, RuleDraft, RuleRow, RuleScope, Ruling, RulingLog,
        RulingLogRow, ToolSetting, Topic,
    },
};

const LOG_ROWS: u64 = 200;
const _: () = assert!(LOG_ROWS <= LOG_ROWS_MAX);

impl Desk {
    pub async fn approvals_get(&self) -> Result<ApprovalsView, ErrorView> {
        let book = self.store.rule_book()?;
        let setting = |tool: ToolDefinition| {
            // What was allowed of another description of the tool holds no longer: it asks.
            let set = book.settings.get(&tool.name).filter(|s| s.ruling != policy::Ruling::Allow || s.fingerprint == tool.fingerprint);
            ToolSetting {
                title: title_of(&tool.name),
                source: source_of(&tool.name),
                ruling: ruling_view(set.map_or(tool.class.default_ruling(), |s| s.ruling)),
                is_default: set.is_none(),
                description: tool.description,
                tool: tool.name,
            }
        };
        Ok(ApprovalsView {
            waiting: self.questions(),
            tools: self.toolbox()?.definitions().into_iter().map(setting).collect(),
            rules: self.store.rules()?.iter().map(|r| self.rule_row(r)).collect(),
            log: self.log_page(None)?,
        })
    }

    /// The log goes on, older than the line of this number.
    pub async fn approvals_log(&self, before: u64) -> Result<RulingLog, ErrorView> {
        Ok(self.log_page(Some(before))?)
    }

    fn log_page(&self, before: Option<u64>) -> Result<RulingLog, StoreError> {
        let (rows, more) = self.store.rulings(None, before, LOG_ROWS)?;
        Ok(RulingLog { rows: rows.into_iter().map(log_row).collect(), more })
    }

    pub async fn approval_answer(&self, approval: u64, answer: ApprovalAnswer) -> Result<ApprovalsView, ErrorView> {
        self.answer_approval(approval, answer).await?;
        self.approvals_get().await
    }

    /// The popup's question, and from then on its half second in which it takes no answer.
    pub(super) fn popup_question(&self, approval: u64) -> Option<ApprovalQuestion> {
        let question = self.questions().into_iter().find(|q| q.approval == approval)?;
        let waiting: Vec<u64> = self.approvals.waiting().iter().map(|w| w.id).collect();
        let mut shown = lock(&self.shown);
        shown.retain(|id| waiting.contains(id));
        if shown.insert(approval) {
            self.approvals.shown(approval);
        }
        Some(question)
    }

    pub(super) async fn answer_approval(&self, approval: u64, answer: ApprovalAnswer) -> Result<(), ErrorView> {
        let waiting = self.approvals.waiting().into_iter().find(|w| w.id == approval).ok_or_else(|| answer_error(AnswerError::NotOpen(approval)))?;
        let answer = match answer {
            ApprovalAnswer::Once => OwnersAnswer::Once,
            ApprovalAnswer::ThisRun => OwnersAnswer::Run,
            ApprovalAnswer::Deny { note } => OwnersAnswer::Deny { note },
            ApprovalAnswer::Always { scope } => {
                let offered = waiting.rules.into_iter().find(|rule| scope_view(rule.scope) == scope);
                let rule = offered.ok_or_else(|| answer_error(AnswerError::NotOffered(approval)))?;
                OwnersAnswer::Always(Box::new(rule))
            }
            ApprovalAnswer::Option { index } => {
                let known = options_of(&waiting).is_some_and(|options| (index as usize) < options.len());
                if !known {
                    return Err(bad_argument(Some("index"), "The question has no such answer."));
                }
                OwnersAnswer::Option(index as usize)
            }
            ApprovalAnswer::Text { text } => {
                if options_of(&waiting).is_none_or(|options| !options.is_empty()) {
                    return Err(bad_argument(Some("text"), "This question is answered by choosing, not by typing."));
                }
                OwnersAnswer::Text(text)
            }
        };
        let saved = if let OwnersAnswer::Always(rule) = &answer { Some(self.store.add_rule(rule, self.config.clock.now())?) } else { None };
        if let Err(e) = self.approvals.answer(approval, answer) {
            // The question took no answer, so the owner allowed nothing.
            if let Some(rule) = saved {
                self.store.delete_rule(rule)?;
            }
            return Err(answer_error(e));
        }
        if saved.is_some() {
            self.redecide()?;
        }
        Ok(())
    }

    pub async fn tool_setting_set(&self, tool: String, ruling: Ruling) -> Result<ApprovalsView, ErrorView> {
        let known = self.toolbox()?.definitions();
        let definition = known.iter().find(|d| d.name == tool).ok_or_else(|| unknown_tool(&tool, &known))?;
        let setting = policy::ToolSetting { ruling: ruling_of(ruling), fingerprint: definition.fingerprint.clone() };
        self.store.set_tool(&tool, &setting, self.config.clock.now())?;
        self.redecide()?;
        self.approvals_get().await
    }

    pub async fn rule_add(&self, rule: RuleDraft) -> Result<ApprovalsView, ErrorView> {
        self.add_rule(&rule)?;
        self.approvals_get().await
    }

    /// Saves the rule a draft means; the rule itself, whose sentence says what was saved.
    pub(super) fn add_rule(&self, draft: &RuleDraft) -> Result<Rule, ErrorView> {
        let known = self.toolbox()?.definitions();
        let definition = known.iter().find(|d| d.name == draft.tool);
        if definition.is_none() && draft.tool != "*" {
            return Err(unknown_tool(&draft.tool, &known));
        }
        let pattern = match draft.pattern.as_deref().map(str::trim).filter(|p| !p.is_empty()) {
            None => None,
            Some(text) => Some(pattern_of(definition, text)?),
        };
        let rule = Rule {
            tool: draft.tool.clone(),
            pattern,
            scope: self.scope_of(draft)?,
            effect: ruling_of(draft.ruling),
            fingerprint: definition.and_then(|d| d.fingerprint.clone()),
        };
        self.store.add_rule(&rule, self.config.clock.now())?;
        self.redecide()?;
        Ok(rule)
    }

    pub async fn rule_delete(&self, rule_id: u64) -> Result<ApprovalsView, ErrorView> {
        let gone = i64::try_from(rule_id).is_ok_and(|id| self.store.delete_rule(id).unwrap_or(false));
        if !gone {
            return Err(error("rule_gone", "This rule is already gone."));
        }
        self.redecide()?;
        self.approvals_get().await
    }

    /// All open questions, oldest first.
    pub fn questions(&self) -> Vec<ApprovalQuestion> {
        let waiting = self.approvals.waiting();
        let total = self.store.settings().map(|s| s.approval_timeout_s).unwrap_or_default();
        let behind = waiting.len() as u64;
        let now = self.config.clock.now().ms();
        waiting.into_iter().enumerate().map(|(at, w)| question(w, behind - at as u64 - 1, total, now)).collect()
    }

    /// The rules changed: what waits may be decided now.
    fn redecide(&self) -> Result<(), ErrorView> {
        let book = self.store.rule_book()?;
        self.approvals.redecide(|call| policy::rule(call, &book));
        self.changed(Topic::Approvals);
        self.changed(Topic::Graphs);
        Ok(())
    }

    fn scope_of(&self, draft: &RuleDraft) -> Result<Scope, ErrorView> {
        match (&draft.graph_session_id, &draft.project_id) {
            (None, None) => Ok(Scope::Everywhere),
            (Some(_), Some(_)) => Err(bad_argument(Some("project_id"), "A rule holds for one Graph or for one project, not for both.")),
            (None, Some(project)) => {
                let project = ProjectId::parse(project).map_err(|e| bad_argument(Some("project_id"), format!("{e}.")))?;
                Ok(Scope::Project(project))
            }
            (Some(graph), None) => {
                let session = GraphSessionId::parse(graph).map_err(|e| bad_argument(Some("graph_session_id"), format!("{e}.")))?;
                let graph = self.store.graph(session)?.ok_or_else(|| error("graph_gone", "This Graph is gone: it was deleted."))?;
                Ok(Scope::Graph(GraphAt { session, version: graph.version }))
            }
        }
    }

    fn rule_row(&self, record: &RuleRecord) -> RuleRow {
        let base = RuleRow {
            rule_id: record.id.unsigned_abs(),
            text: said("rule_unreadable", "This rule cannot be read and therefore denies. Delete it.", []),
            tool: String::new(),
            ruling: Ruling::Deny,
            scope: Sentence::default(),
            created_at: record.created_at.ms(),
            last_used_at: record.last_used_at.map(domain::Timestamp::ms),
            uses: record.uses,
            broken: true,
        };
        let Ok(rule) = Rule::from_json(&record.text) else { return base };
        let scope = match rule.scope {
            Scope::Everywhere => said("rule_everywhere", "everywhere", []),
            Scope::Project(id) => {
                let name = self.store.project(id).ok().flatten().map(|p| p.name);
                said("rule_of_project", "project {project}", [("project", name.unwrap_or_else(|| id.to_string()).into())])
            }
            Scope::Graph(at) => {
                let name = self.store.graph(at.session).ok().flatten().map(|g| g.name);
                let graph = name.unwrap_or_else(|| at.session.to_string());
                said("rule_of_graph", "{graph}, version {version}", [("graph", graph.into()), ("version", at.version.into())])
            }
        };
        RuleRow { text: rule.sentence(), tool: rule.tool.clone(), ruling: ruling_view(rule.effect), scope, broken: false, ..base }
    }

    /// Tells the window of every new or ended question until the desk is gone.
    pub(super) fn watch_approvals(self: &Arc<Self>) {
        let mut changes = self.approvals.watch();
        let desk = Arc::downgrade(self);
        tokio::spawn(async move {
            while changes.changed().await.is_ok() {
                let Some(desk) = desk.upgrade() else { return };
                desk.changed(Topic::Approvals);
                desk.changed(Topic::Status);
            }
        });
    }
}

fn question(w: Waiting, waiting_behind: u64, total: u64, now_ms: i64) -> ApprovalQuestion {
    let total = total.max(w.seconds_left);
    let options = options_of(&w);
    ApprovalQuestion {
        approval: w.id,
        execution_id: w.execution.to_string(),
        graph: w.who.graph,
        agent: w.who.agent,
        phase: w.who.phase,
        project: w.who.project,
        connected_agent: w.who.connected_agent,
        title: if options.is_some() { w.effect.sentence.as_str().into() } else { title_of(&w.tool) },
        tool: w.tool,
        arguments: w.input_shown,
        rules: w.rules.iter().map(|rule| OfferedRule { scope: scope_view(rule.scope), text: rule.sentence() }).collect(),
        effect: Effect {
            real_path: w.effect.real_path.map(|p| p.display().to_string()),
            folder: w.effect.folder.map(|p| p.display().to_string()),
            diff: w.effect.diff,
            command_line: w.effect.command_line,
            host: w.effect.request,
            sandboxed: w.effect.sandboxed,
        },
        because: w.because,
        asked_at: now_ms - ((total - w.seconds_left) * 1000) as i64,
        seconds_left: w.seconds_left,
        seconds_total: total,
        waiting_behind,
        options,
    }
}

const fn scope_view(scope: Scope) -> RuleScope {
    match scope {
        Scope::Graph(_) => RuleScope::Graph,
        Scope::Project(_) => RuleScope::Project,
        Scope::Everywhere => RuleScope::Everywhere,
    }
}

/// The answers of a Graph's own question; `None` for a tool's.
fn options_of(w: &Waiting) -> Option<Vec<String>> {
    let input = (w.tool == ASK).then(|| w.input.to_value())?;
    let options = input.get("options")?.as_array()?;
    Some(options.iter().filter_map(|o| o.as_str().map(str::to_owned)).collect())
}

fn log_row(record: RulingRecord) -> RulingLogRow {
    RulingLogRow {
        number: record.number,
        at: record.at.ms(),
        execution_id: record.execution,
        graph: record.graph,
        agent: record.agent,
        tool: record.tool,
        ruling: ruling_view(record.ruling),
        because: record.because,
        answer: record.answer,
        waited_ms: record.waited_ms,
    }
}

/// The pattern a text means for this tool: a folder, a host, or the first words of a command.
fn pattern_of(tool: Option<&ToolDefinition>, text: &str) -> Result<Pattern, ErrorView> {
    let wrong = |message: String| bad_argument(Some("pattern"), message);
    match tool.map(|t| t.class) {
        Some(ToolClass::Read | ToolClass::Write) => {
            let path = Path::new(text);
            if !path.is_absolute() {
                return Err(wrong(format!("{text} is not an absolute path. Name the folder from the root, like /home/ada/reports.")));
            }
            // Rules compare real paths; a folder that is not there yet is taken as it was written.
            let real = path.canonicalize().unwrap_or_else(|_| path.to_owned());
            Ok(Pattern::Folder(real.to_string_lossy().into_owned()))
        }
        Some(ToolClass::Network) => {
            let host = text.to_ascii_lowercase();
            let is_host = host.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'.' || b == b'-') && !host.is_empty();
            if is_host {
                Ok(Pattern::Http { host, methods: Vec::new() })
            } else {
                Err(wrong(format!("{text} is not a host name, like api.example.com.")))
            }
        }
        Some(ToolClass::Command) => {
            let words: Vec<String> = serde_json::from_str(text)
                .map_err(|_| wrong("Name the first words of the command as a JSON list, like [\"git\", \"status\"].".into()))?;
            if words.is_empty() { Err(wrong("The list of words is empty.".into())) } else { Ok(Pattern::ArgvPrefix(words)) }
        }
        Some(ToolClass::Mcp) | None => Err(wrong("This tool takes no pattern. Leave it empty.".into())),
    }
}

fn unknown_tool(tool: &str, known: &[ToolDefinition]) -> ErrorView {
    let names: Vec<&str> = known.iter().map(|d| d.name.as_str()).collect();
    ErrorView {
        field: Some("tool".into()),
        ..error("tool_unknown", format!("There is no tool named {tool}. The tools are {}.", names.join(", ")))
            .with("tool", tool)
            .with("tools", names.join(", "))
    }
}

fn answer_error(e: AnswerError) -> ErrorView {
    match e {
        AnswerError::NotOpen(_) => error("approval_closed", "This question is no longer open: it was answered, its time was over, or its run ended."),
        AnswerError::TooEarly(_) => {
            error("approval_locked", "The question has just appeared and takes no answer in its first half second. Read it, then answer.")
        }
        AnswerError::NotOffered(_) => error("approval_no_rule", "No rule can be saved for this call. Allow it once or for this run."),
    }
}

/// The tool in plain words.
fn title_of(tool: &str) -> Sentence {
    match tool {
        "list_files" => said("tool_list_files", "List files", []),
        "read_file" => said("tool_read_file", "Read a file", []),
        "search_files" => said("tool_search_files", "Search in files", []),
        "write_file" => said("tool_write_file", "Write a file", []),
        "edit_file" => said("tool_edit_file", "Change a file", []),
        "run_command" => said("tool_run_command", "Run a command", []),
        "http_fetch" => said("tool_http_fetch", "Fetch from the network", []),
        other => match other.strip_prefix("mcp__").and_then(|rest| rest.split_once("__")) {
            Some((server, tool)) => said("tool_of_server", "{tool} of {server}", [("tool", tool.into()), ("server", server.into())]),
            None => other.into(),
        },
    }
}

fn source_of(tool: &str) -> String {
    match tool.strip_prefix("mcp__").and_then(|rest| rest.split_once("__")) {
        Some((server, _)) => server.to_owned(),
        None => "built in".into(),
    }
}

pub(super) fn ruling_view(ruling: policy::Ruling) -> Ruling {
    match ruling {
        policy::Ruling::Allow => Ruling::Allow,
        policy::Ruling::Ask => Ruling::Ask,
        policy::Ruling::Deny => Ruling::Deny,
    }
}

pub(super) fn ruling_of(ruling: Ruling) -> policy::Ruling {
    match ruling {
        Ruling::Allow => policy::Ruling::Allow,
        Ruling::Ask => policy::Ruling::Ask,
        Ruling::Deny => policy::Ruling::Deny,
    }
}
