//! Approvals: the popup, rules, the log.
use domain::wire::said::Sentence;
use serde::{Deserialize, Serialize};
use ts_rs::TS;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "snake_case")]
pub enum Ruling {
    Allow,
    Ask,
    Deny,
}

#[derive(Debug, Clone, Serialize, TS)]
pub struct ApprovalsView {
    pub waiting: Vec<ApprovalQuestion>,
    pub tools: Vec<ToolSetting>,
    pub rules: Vec<RuleRow>,
    /// Its newest page.
    pub log: RulingLog,
}

#[derive(Debug, Clone, Serialize, TS)]
pub struct ApprovalQuestion {
    pub approval: u64,
    pub execution_id: String,
    pub graph: String,
    /// Label of the agent; absent when the script itself calls the tool.
    pub agent: Option<String>,
    pub phase: Option<String>,
    pub project: Option<String>,
    pub connected_agent: Option<String>,
    pub tool: String,
    /// The tool in plain words, such as "Write a file".
    pub title: Sentence,
    /// All arguments as pretty JSON, nothing left out, hidden characters made visible.
    pub arguments: String,
    pub effect: Effect,
    /// Why it is asked: the rule or default in words.
    pub because: Sentence,
    /// What "Always allow" may save, narrowest scope first; empty where only once or this run is offered.
    pub rules: Vec<OfferedRule>,
    pub asked_at: i64,
    pub seconds_left: u64,
    pub seconds_total: u64,
    /// Other questions behind this one.
    pub waiting_behind: u64,
    /// A question of the script (`ask`) instead of a tool: its answers to choose from; empty for a typed answer.
    pub options: Option<Vec<String>>,
}

/// One rule that "Always allow" may save. The window asks once more before one that holds everywhere.
#[derive(Debug, Clone, Serialize, TS)]
pub struct OfferedRule {
    pub scope: RuleScope,
    /// The exact rule in words.
    pub text: Sentence,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "snake_case")]
pub enum RuleScope {
    /// This version of this Graph.
    Graph,
    Project,
    Everywhere,
}

/// Where it would act.
#[derive(Debug, Clone, Default, Serialize, TS)]
pub struct Effect {
    pub real_path: Option<String>,
    pub folder: Option<String>,
    /// Unified diff for a file edit or write.
    pub diff: Option<String>,
    pub command_line: Option<String>,
    pub host: Option<String>,
    /// Present for commands: true when sandboxed.
    pub sandboxed: Option<bool>,
}

#[derive(Debug, Clone, Deserialize, TS)]
#[serde(tag = "answer", rename_all = "snake_case")]
pub enum ApprovalAnswer {
    Once,
    ThisRun,
    /// Saves the offered rule of this scope, exactly as it was shown.
    Always {
        scope: RuleScope,
    },
    Deny {
        note: Option<String>,
    },
    /// Answer of an `ask` question.
    Option {
        index: u64,
    },
    /// Answer of an `ask` question without options.
    Text {
        text: String,
    },
}

#[derive(Debug, Clone, Serialize, TS)]
pub struct ToolSetting {
    pub tool: String,
    pub title: Sentence,
    /// As models read it; of the built-in tools the window has its own words.
    pub description: String,
    /// Where it comes from: `built in`, or the MCP server's name.
    pub source: String,
    pub ruling: Ruling,
    /// True when the owner has not set it: the class default holds.
    pub is_default: bool,
}

#[derive(Debug, Clone, Serialize, TS)]
pub struct RuleRow {
    pub rule_id: u64,
    pub text: Sentence,
    pub tool: String,
    pub ruling: Ruling,
    pub scope: Sentence,
    pub created_at: i64,
    pub last_used_at: Option<i64>,
    pub uses: u64,
    /// A rule that cannot be read denies.
    pub broken: bool,
}

#[derive(Debug, Clone, Deserialize, TS)]
pub struct RuleDraft {
    pub tool: String,
    pub ruling: Ruling,
    /// Folder for file tools; host for http_fetch; argv prefix (JSON array) for run_command; empty for any.
    pub pattern: Option<String>,
    pub graph_session_id: Option<String>,
    pub project_id: Option<String>,
}

/// A page of the log.
#[derive(Debug, Clone, Serialize, TS)]
pub struct RulingLog {
    /// Newest first.
    pub rows: Vec<RulingLogRow>,
    /// There are older ones.
    pub more: bool,
}

#[derive(Debug, Clone, Serialize, TS)]
pub struct RulingLogRow {
    /// Position in the log: newer is larger.
    pub number: u64,
    pub at: i64,
    pub execution_id: String,
    pub graph: String,
    pub agent: Option<String>,
    pub tool: String,
    pub ruling: Ruling,
    /// The rule or default; of an answered call who answered it.
    pub because: Sentence,
    /// How a question was answered, and by whom.
    pub answer: Option<String>,
    pub waited_ms: Option<u64>,
}
