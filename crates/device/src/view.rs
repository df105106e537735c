//! What the window shows and asks: the types that cross the IPC border, and the list of commands that carry them.
//!
//! These are pictures of the truth, made afresh for each question; nothing reads them back. Ids are text, times are milliseconds
//! since 1970 (the window formats them), JSON that belongs to the owner is compact text. `ui/src/generated/types.ts` is written from
//! here by a test.
use serde::{Deserialize, Serialize};
use ts_rs::TS;

/// Every IPC command: name, arguments (members of one object), answer. The shell registers exactly these, the window calls no others.
/// `popup` commands are allowed to the approval window alone and act only on its own question.
pub const COMMANDS: &[(&str, &str, &str)] = &[
    ("status_get", "", "StatusView"),
    ("templates_list", "", "TemplateRow[]"),
    ("graphs_list", "", "GraphRow[]"),
    ("graph_open", "id: string", "GraphDetail"),
    ("graph_create", "source: string", "GraphDetail"),
    ("graph_create_from_template", "template: string", "GraphDetail"),
    ("graph_import", "file_name: string, source: string", "GraphDetail"),
    ("graph_export", "id: string", "ExportedFile"),
    ("graph_save", "id: string, source: string", "GraphDetail"),
    ("graph_update", "id: string, change: GraphChange", "GraphDetail"),
    ("graph_duplicate", "id: string", "GraphDetail"),
    ("graph_delete", "id: string", "null"),
    ("graph_undelete", "id: string", "GraphDetail"),
    ("graph_version_source", "id: string, version: number", "string"),
    ("graph_version_name", "id: string, version: number, name: string", "GraphDetail"),
    ("graph_inspect", "source: string", "Inspection"),
    ("run_graph_now", "id: string, args: string", "string"),
    ("run_graph_dry", "id: string, args: string", "string"),
    ("fleet_cancel_run", "execution_id: string", "null"),
    ("executions_list", "filter: ExecutionFilter", "ExecutionPage"),
    ("execution_open", "execution_id: string", "ExecutionDetail"),
    ("execution_events", "execution_id: string, after: number", "FleetEvent[]"),
    ("execution_export", "execution_id: string", "ExportedFile"),
    ("execution_resume", "execution_id: string", "string"),
    ("sharing_get", "", "SharingView"),
    ("sharing_tick", "project_id: string, graph_session_id: string, ticked: boolean", "SharingView"),
    ("project_enable", "project_id: string, enabled: boolean", "SharingView"),
    ("project_readable", "project_id: string, readable: boolean", "SharingView"),
    ("attention_retry", "command_id: string", "SharingView"),
    ("attention_discard", "command_id: string", "SharingView"),
    ("approvals_get", "", "ApprovalsView"),
    ("approval_answer", "approval: number, answer: ApprovalAnswer", "ApprovalsView"),
    ("tool_setting_set", "tool: string, ruling: Ruling", "ApprovalsView"),
    ("rule_add", "rule: RuleDraft", "ApprovalsView"),
    ("rule_delete", "rule_id: number", "ApprovalsView"),
    ("connections_get", "", "ConnectionsView"),
    ("pair", "address: string, pairing_code: string", "ConnectionsView"),
    ("pair_builtin", "", "ConnectionsView"),
    ("unpair", "", "ConnectionsView"),
    ("project_create", "name: string", "ConnectionsView"),
    ("project_rename", "project_id: string, name: string", "ConnectionsView"),
    ("project_delete", "project_id: string", "ConnectionsView"),
    ("agent_token_mint", "grant: GrantDraft", "MintedToken"),
    ("connect_code_make", "grant: GrantDraft", "MadeConnectCode"),
    ("sign_in_code_make", "", "MadeConnectCode"),
    ("agent_revoke", "agent_id: string", "ConnectionsView"),
    ("models_get", "", "ModelsView"),
    ("models_discover", "", "ModelsView"),
    ("provider_save", "provider: ProviderDraft", "ModelsView"),
    ("provider_delete", "provider_id: string", "ModelsView"),
    ("provider_test", "provider_id: string", "ProviderTest"),
    ("model_alias_set", "alias: string, model: string", "ModelsView"),
    ("price_set", "model: string, price: PriceDraft | null", "ModelsView"),
    ("mcp_get", "", "McpView"),
    ("mcp_save", "server: McpDraft", "McpView"),
    ("mcp_delete", "server_id: string", "McpView"),
    ("mcp_enable", "server_id: string, enabled: boolean", "McpView"),
    ("mcp_restart", "server_id: string", "McpView"),
    ("settings_get", "", "SettingsView"),
    ("settings_update", "change: SettingsChange", "SettingsView"),
    ("folder_pick", "", "string | null"),
    ("file_save", "file: ExportedFile", "string | null"),
    ("folder_add", "path: string, access: FolderAccess", "SettingsView"),
    ("folder_remove", "path: string", "SettingsView"),
    ("secret_store_choose", "choice: SecretStoreChoice", "ConnectionsView"),
    ("doctor_run", "", "DoctorReport"),
    ("window_ready", "", "null"),
    ("window_drawn", "", "null"),
    ("app_quit", "", "null"),
    ("log_ui", "level: string, message: string", "null"),
];

/// Commands of the approval popup. It learns its question from its window's label and can answer no other.
pub const POPUP_COMMANDS: &[(&str, &str, &str)] = &[
    ("popup_question", "", "ApprovalQuestion | null"),
    ("popup_answer", "answer: ApprovalAnswer", "null"),
    ("popup_log_ui", "level: string, message: string", "null"),
];

/// The window's one subscription: `changed` says what to ask again for, `fleet` carries the story of an execution as it happens.
#[derive(Debug, Clone, Serialize, TS)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum DeskEvent {
    Changed {
        topic: Topic,
    },
    /// Numbered events, and streamed text (`agent_text`) that has `seq` 0.
    Fleet {
        execution_id: String,
        #[ts(type = "FleetEvent[]")]
        events: Vec<domain::wire::event::FleetEvent>,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, TS)]
#[serde(rename_all = "snake_case")]
pub enum Topic {
    Status,
    Graphs,
    Executions,
    Sharing,
    Approvals,
    Connections,
    Models,
    Settings,
}

/// A refused or failed command: a code for programs, words for people.
#[derive(Debug, Clone, Serialize, TS)]
pub struct ErrorView {
    /// Stable word, key of the window's table of texts, such as `queue_unreachable`.
    pub code: String,
    /// What happened, what it means, what to do: whole sentences, in English.
    pub message: String,
    /// The facts in the message by name, for the window's own words.
    pub facts: std::collections::BTreeMap<String, String>,
    /// The argument at fault, where there is one.
    pub field: Option<String>,
    /// Position in a Graph's source, counted from 1.
    pub line: Option<u32>,
    pub column: Option<u32>,
}

// ── Status bar ──────────────────────────────────────────────────────────────────────────────────────────────────────

#[derive(Debug, Clone, Serialize, TS)]
#[serde(tag = "at", rename_all = "snake_case")]
pub enum RelayView {
    /// No Graph Queue is paired.
    NotConnected,
    Ready {
        last_contact: Option<i64>,
        pickup_instant: bool,
    },
    Busy {
        graph: String,
        execution_id: String,
        since: i64,
    },
    Paused {
        since: i64,
    },
    /// No answer since then; runs go on, endings wait in the outbox.
    Offline {
        since: i64,
        why: String,
    },
    /// The server refuses this device; the owner must act.
    ServerSays {
        message: String,
        repair: bool,
    },
}

#[derive(Debug, Clone, Serialize, TS)]
pub struct StatusView {
    pub relay: RelayView,
    pub running: Vec<RunningView>,
    pub tokens_today: u64,
    pub approvals_waiting: u64,
    /// Completions the server has not confirmed yet.
    pub outbox: u64,
    /// Completions the server refuses.
    pub needs_attention: u64,
    /// Address of the paired queue.
    pub queue: Option<String>,
    pub graphs: u64,
    pub version: String,
}

#[derive(Debug, Clone, Serialize, TS)]
pub struct RunningView {
    pub execution_id: String,
    pub graph: String,
    pub agents_running: u64,
    pub agents_waiting: u64,
    pub asking: u64,
    pub since: i64,
}

// ── Graphs ──────────────────────────────────────────────────────────────────────────────────────────────────────────

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "snake_case")]
pub enum GraphStatus {
    Draft,
    Ready,
    Archived,
}

#[derive(Debug, Clone, Serialize, TS)]
pub struct TemplateRow {
    pub id: String,
    pub name: String,
    pub description: String,
    pub source: String,
}

#[derive(Debug, Clone, Serialize, TS)]
pub struct GraphRow {
    pub id: String,
    pub name: String,
    pub slug: String,
    pub description: String,
    pub version: u64,
    pub status: GraphStatus,
    /// Names of the projects it is ticked for.
    pub shared_with: Vec<String>,
    pub updated_at: i64,
    pub last_execution: Option<LastExecution>,
    /// Powers gained since it was ticked; empty when none.
    pub gained: Vec<GainedPower>,
}

#[derive(Debug, Clone, Serialize, TS)]
pub struct LastExecution {
    pub execution_id: String,
    pub state: ExecutionState,
    pub at: i64,
}

/// What a shared Graph may do now and could not when it was ticked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, TS)]
#[serde(tag = "what", rename_all = "snake_case")]
pub enum GainedPower {
    Tool { name: String },
    Model { name: String },
    Folder { path: String, access: FolderAccess },
    TokenCeiling { before: u64, after: u64 },
    AgentsAtOnce { before: u64, after: u64 },
}

#[derive(Debug, Clone, Serialize, TS)]
pub struct GraphDetail {
    pub row: GraphRow,
    pub source: String,
    pub inspection: Inspection,
    pub versions: Vec<VersionRow>,
    pub powers: Powers,
}

#[derive(Debug, Clone, Serialize, TS)]
pub struct VersionRow {
    pub version: u64,
    pub name: Option<String>,
    pub saved_at: i64,
    pub lines: u64,
}

/// What can be told of a source without running it.
#[derive(Debug, Clone, Serialize, TS)]
pub struct Inspection {
    pub name: Option<String>,
    pub description: Option<String>,
    pub phases: Vec<String>,
    /// JSON Schema of the arguments, compact text.
    pub args_schema: Option<String>,
    pub tools: Vec<String>,
    pub models: Vec<String>,
    pub faults: Vec<SourceFault>,
}

#[derive(Debug, Clone, Serialize, TS)]
pub struct SourceFault {
    pub line: u32,
    pub column: u32,
    pub message: String,
    /// `error` keeps the Graph from being ready; `warning` does not.
    pub severity: Severity,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, TS)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    Error,
    Warning,
}

/// What this Graph may do: tools with today's ruling, folders, models, ceilings.
#[derive(Debug, Clone, Serialize, TS)]
pub struct Powers {
    pub tools: Vec<ToolPower>,
    pub folders: Vec<FolderView>,
    pub models: Vec<String>,
    pub token_ceiling: u64,
    pub max_concurrency: u64,
    /// Worst case, where it can be told from the source.
    pub agents_max: Option<u64>,
}

#[derive(Debug, Clone, Serialize, TS)]
pub struct ToolPower {
    pub tool: String,
    pub ruling: Ruling,
    pub because: String,
}

#[derive(Debug, Clone, Deserialize, TS)]
pub struct GraphChange {
    pub name: Option<String>,
    pub slug: Option<String>,
    pub description: Option<String>,
    pub status: Option<GraphStatus>,
}

#[derive(Debug, Clone, Serialize, Deserialize, TS)]
pub struct ExportedFile {
    pub file_name: String,
    pub text: String,
}

// ── Executions ──────────────────────────────────────────────────────────────────────────────────────────────────────

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "snake_case")]
pub enum ExecutionState {
    /// Stored, and the queue is asked whether it may start.
    Claiming,
    Running,
    Completed,
    Failed,
    Cancelled,
}

#[derive(Debug, Clone, Default, Deserialize, TS)]
#[serde(default)]
pub struct ExecutionFilter {
    pub graph_id: Option<String>,
    pub project_id: Option<String>,
    pub agent: Option<String>,
    pub state: Option<ExecutionState>,
    /// Only what the owner started (`owner`), or what came as a command (`command`).
    pub origin: Option<String>,
    pub text: Option<String>,
    /// Only what began then or later.
    pub since: Option<i64>,
    /// Only what began before.
    pub until: Option<i64>,
    /// `next` of the page before.
    pub after: Option<String>,
    /// 1 to 200, default 50.
    pub limit: Option<u64>,
}

#[derive(Debug, Clone, Serialize, TS)]
pub struct ExecutionPage {
    pub rows: Vec<ExecutionRow>,
    pub next: Option<String>,
    pub total: u64,
}

#[derive(Debug, Clone, Serialize, TS)]
pub struct ExecutionRow {
    pub execution_id: String,
    pub graph_id: String,
    pub graph: String,
    /// The Graph's slug; of a command's execution the one it was queued with.
    pub slug: String,
    pub version: u64,
    pub state: ExecutionState,
    pub reason: Option<String>,
    pub dry: bool,
    pub started_at: i64,
    pub ended_at: Option<i64>,
    pub tokens: u64,
    pub cost: Option<f64>,
    pub agents_done: u64,
    pub agents_failed: u64,
    pub asking: u64,
    /// Present for a command's execution.
    pub command: Option<CommandOrigin>,
}

#[derive(Debug, Clone, Serialize, TS)]
pub struct CommandOrigin {
    pub command_id: String,
    pub project_id: String,
    pub project: String,
    /// Name of the connected agent, where the server told it.
    pub agent: Option<String>,
    pub pickup_wait_ms: Option<u64>,
    pub delivery: Delivery,
}

#[derive(Debug, Clone, Serialize, TS)]
#[serde(tag = "at", rename_all = "snake_case")]
pub enum Delivery {
    /// The execution has not ended.
    NotYet,
    InOutbox {
        tries: u64,
        last_error: Option<String>,
    },
    Delivered {
        when: i64,
    },
    /// The server had ended the command before; its state stands.
    TooLate {
        when: i64,
        status: String,
    },
    NeedsAttention {
        tries: u64,
        server_says: String,
    },
    Discarded {
        when: i64,
    },
}

#[derive(Debug, Clone, Serialize, TS)]
pub struct ExecutionDetail {
    pub row: ExecutionRow,
    /// Compact JSON text.
    pub args: String,
    pub result: Option<String>,
    pub error: Option<String>,
    /// Line of the Graph's source where it failed, counted from 1.
    pub error_line: Option<u32>,
    /// The source that ran.
    pub source: String,
    pub ceiling: u64,
    pub ledger: Vec<LedgerRow>,
    pub can_resume: bool,
    #[ts(type = "FleetEvent[]")]
    pub events: Vec<domain::wire::event::FleetEvent>,
}

#[derive(Debug, Clone, Serialize, TS)]
pub struct LedgerRow {
    pub label: String,
    pub reserved: u64,
    pub settled: Option<u64>,
    pub estimated: bool,
}

// ── Sharing ─────────────────────────────────────────────────────────────────────────────────────────────────────────

#[derive(Debug, Clone, Serialize, TS)]
pub struct SharingView {
    pub connected: bool,
    pub projects: Vec<SharedProject>,
    pub rows: Vec<SharingRow>,
    /// At most this many sessions may be ticked for one project.
    pub limit: u64,
    pub attention: Vec<AttentionRow>,
    pub browser: BrowserView,
}

/// Graphs for reading in the browser: where the queue stands against the owner's switches.
#[derive(Debug, Clone, Serialize, TS)]
pub struct BrowserView {
    /// There, and up to date.
    pub readable: u64,
    pub uploading: u64,
    /// Not to be there any more, and the queue has not answered yet.
    pub removing: u64,
    /// The last trouble with one of them, in words.
    pub problem: Option<String>,
}

#[derive(Debug, Clone, Serialize, TS)]
pub struct SharedProject {
    pub project_id: String,
    pub name: String,
    pub enabled: bool,
    pub readable: bool,
    pub ticked: u64,
    pub last_sync: Option<i64>,
    pub syncing: bool,
    pub sync_error: Option<String>,
    /// Pickup waits of the last commands, newest first.
    pub pickup_waits_ms: Vec<u64>,
    /// What Claude sees for it now.
    pub visible: Vec<VisibleSession>,
}

#[derive(Debug, Clone, Serialize, TS)]
pub struct VisibleSession {
    pub name: String,
    pub slug: String,
    pub description: String,
    pub version: u64,
}

#[derive(Debug, Clone, Serialize, TS)]
pub struct SharingRow {
    pub graph_session_id: String,
    pub name: String,
    pub slug: String,
    pub status: GraphStatus,
    /// Project ids it is ticked for.
    pub ticked: Vec<String>,
    pub gained: Vec<GainedPower>,
}

#[derive(Debug, Clone, Serialize, TS)]
pub struct AttentionRow {
    pub command_id: String,
    pub execution_id: Option<String>,
    /// Absent for a command that never ran here.
    pub project_id: Option<String>,
    pub graph: String,
    pub server_says: String,
    pub tries: u64,
    pub next_try: Option<i64>,
}

// ── Approvals ───────────────────────────────────────────────────────────────────────────────────────────────────────

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
    /// Newest first.
    pub log: Vec<RulingLogRow>,
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
    pub title: String,
    /// All arguments as pretty JSON, nothing left out, hidden characters made visible.
    pub arguments: String,
    pub effect: Effect,
    /// Why it is asked: the rule or default in words.
    pub because: String,
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
    pub text: String,
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
    pub title: String,
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
    pub text: String,
    pub tool: String,
    pub ruling: Ruling,
    pub scope: String,
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

#[derive(Debug, Clone, Serialize, TS)]
pub struct RulingLogRow {
    pub at: i64,
    pub execution_id: String,
    pub graph: String,
    pub agent: Option<String>,
    pub tool: String,
    pub ruling: Ruling,
    pub because: String,
    /// How a question was answered, and by whom.
    pub answer: Option<String>,
    pub waited_ms: Option<u64>,
}

// ── Connections ─────────────────────────────────────────────────────────────────────────────────────────────────────

#[derive(Debug, Clone, Serialize, TS)]
pub struct ConnectionsView {
    pub paired: Option<Pairing>,
    /// The built-in queue can be used on this computer.
    pub builtin_offered: bool,
    pub projects: Vec<ProjectRow>,
    pub agents: Vec<AgentRow>,
    pub secrets: SecretStoreView,
    /// The last words of the server or the network, when something is wrong.
    pub problem: Option<String>,
}

#[derive(Debug, Clone, Serialize, TS)]
pub struct Pairing {
    pub address: String,
    pub owner: String,
    pub device_id: String,
    pub device_name: String,
    pub builtin: bool,
    pub mcp_url: String,
}

#[derive(Debug, Clone, Serialize, TS)]
pub struct ProjectRow {
    pub project_id: String,
    pub name: String,
    pub enabled: bool,
}

#[derive(Debug, Clone, Serialize, TS)]
pub struct AgentRow {
    pub agent_id: String,
    pub name: String,
    pub kind: String,
    pub projects: Vec<String>,
    pub scopes: Vec<String>,
    pub created_at: i64,
    pub last_used_at: Option<i64>,
    pub revoked: bool,
}

#[derive(Debug, Clone, Serialize, TS)]
pub struct SecretStoreView {
    /// `os`, `encrypted_file`, `memory`, or `unknown` while it is being probed.
    pub kind: String,
    pub text: String,
}

#[derive(Debug, Clone, Deserialize, TS)]
#[serde(tag = "store", rename_all = "snake_case")]
pub enum SecretStoreChoice {
    Os,
    EncryptedFile { passphrase: String },
    Memory,
}

#[derive(Debug, Clone, Deserialize, TS)]
pub struct GrantDraft {
    pub name: String,
    pub project_ids: Vec<String>,
    /// `read`, or `read` and `run`.
    pub may_run: bool,
}

/// Shown once.
#[derive(Debug, Clone, Serialize, TS)]
pub struct MintedToken {
    pub token: String,
    pub mcp_url: String,
    pub claude_code_line: String,
}

#[derive(Debug, Clone, Serialize, TS)]
pub struct MadeConnectCode {
    pub code: String,
    pub expires_at: i64,
    pub mcp_url: String,
    pub claude_code_line: String,
    pub claude_ai_steps: Vec<String>,
    pub claude_desktop_steps: Vec<String>,
}

// ── Models ──────────────────────────────────────────────────────────────────────────────────────────────────────────

#[derive(Debug, Clone, Serialize, TS)]
pub struct ModelsView {
    pub providers: Vec<ProviderRow>,
    /// default, fast, strong, local → model.
    pub aliases: Vec<AliasRow>,
    pub found: Vec<FoundServer>,
    pub prices: Vec<PriceRow>,
}

#[derive(Debug, Clone, Serialize, TS)]
pub struct ProviderRow {
    pub provider_id: String,
    /// `anthropic`, `openai_compatible` or `ollama`.
    pub kind: String,
    pub name: String,
    pub address: String,
    pub has_key: bool,
    pub models: Vec<String>,
    pub concurrency: u64,
    pub local: bool,
    /// Its models have no tool calls of their own: they are led by a JSON Schema.
    pub emulated_tools: bool,
    /// Ollama: tokens of context to ask for; absent for the default.
    pub context: Option<u64>,
}

#[derive(Debug, Clone, Serialize, TS)]
pub struct AliasRow {
    pub alias: String,
    pub model: Option<String>,
}

#[derive(Debug, Clone, Serialize, TS)]
pub struct FoundServer {
    pub name: String,
    pub address: String,
    pub kind: String,
    pub models: Vec<String>,
}

#[derive(Debug, Clone, Serialize, TS)]
pub struct PriceRow {
    pub model: String,
    pub input_per_mtok: f64,
    pub output_per_mtok: f64,
    /// The owner's own line; otherwise it is what Graph Desk knows.
    pub is_own: bool,
}

/// Dollars per million tokens.
#[derive(Debug, Clone, Copy, Deserialize, TS)]
pub struct PriceDraft {
    pub input_per_mtok: f64,
    pub output_per_mtok: f64,
}

#[derive(Debug, Clone, Deserialize, TS)]
pub struct ProviderDraft {
    pub provider_id: Option<String>,
    pub kind: String,
    pub name: String,
    pub address: String,
    /// Goes to the secret store and is never shown again; absent keeps the stored one.
    pub key: Option<String>,
    pub models: Vec<String>,
    pub concurrency: u64,
    #[serde(default)]
    pub emulated_tools: bool,
    #[serde(default)]
    pub context: Option<u64>,
}

#[derive(Debug, Clone, Serialize, TS)]
pub struct ProviderTest {
    pub ok: bool,
    pub text: String,
    pub ms: u64,
}

// ── Settings ────────────────────────────────────────────────────────────────────────────────────────────────────────

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "snake_case")]
pub enum FolderAccess {
    Read,
    Write,
}

#[derive(Debug, Clone, Serialize, TS)]
pub struct FolderView {
    pub path: String,
    pub access: FolderAccess,
    /// Why it cannot be used now, if so.
    pub problem: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "snake_case")]
pub enum Theme {
    System,
    Light,
    Dark,
}

#[derive(Debug, Clone, Serialize, TS)]
pub struct SettingsView {
    pub folders: Vec<FolderView>,
    pub token_ceiling: u64,
    /// Hundredths of a dollar that priced models may cost in a run; 0 for no such ceiling.
    pub cost_ceiling_cents: u64,
    pub max_concurrency: u64,
    pub max_tokens_per_call: u64,
    pub approval_timeout_s: u64,
    /// Instant (doorbell) or every 20 s.
    pub pickup_instant: bool,
    pub paused: bool,
    pub start_at_login: bool,
    pub keep_in_tray: bool,
    pub tell_asks: bool,
    pub theme: Theme,
    pub language: String,
    pub retention_days: u32,
    pub data_folder: String,
    pub logs_folder: String,
}

#[derive(Debug, Clone, Default, Deserialize, TS)]
#[serde(default)]
pub struct SettingsChange {
    pub token_ceiling: Option<u64>,
    pub cost_ceiling_cents: Option<u64>,
    pub max_concurrency: Option<u64>,
    pub max_tokens_per_call: Option<u64>,
    pub approval_timeout_s: Option<u64>,
    pub pickup_instant: Option<bool>,
    pub paused: Option<bool>,
    pub start_at_login: Option<bool>,
    pub keep_in_tray: Option<bool>,
    pub tell_asks: Option<bool>,
    pub theme: Option<Theme>,
    pub language: Option<String>,
    pub retention_days: Option<u32>,
}

// ── MCP servers ─────────────────────────────────────────────────────────────────────────────────────────────────────

#[derive(Debug, Clone, Serialize, TS)]
pub struct McpView {
    pub servers: Vec<McpServerRow>,
    /// At most this many are kept.
    pub limit: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "snake_case")]
pub enum McpWay {
    /// A program on this computer.
    Stdio,
    /// An address.
    Http,
}

#[derive(Debug, Clone, Serialize, TS)]
pub struct McpServerRow {
    pub server_id: String,
    /// The middle of its tools' names: `mcp__name__tool`.
    pub name: String,
    pub way: McpWay,
    /// The program, or the address.
    pub target: String,
    pub args: Vec<String>,
    /// Environment variables or headers it gets. Their values are never shown.
    pub value_names: Vec<String>,
    /// Longest a call may take.
    pub timeout_s: u64,
    pub enabled: bool,
    pub state: McpStateView,
    /// As they were last listed.
    pub tools: Vec<McpToolRow>,
}

#[derive(Debug, Clone, PartialEq, Serialize, TS)]
#[serde(tag = "at", rename_all = "snake_case")]
pub enum McpStateView {
    Off,
    /// Not running; the next call starts it.
    Idle,
    Starting,
    Ready,
    Failed {
        why: String,
    },
}

#[derive(Debug, Clone, Serialize, TS)]
pub struct McpToolRow {
    pub tool: String,
    pub title: String,
    pub description: String,
    /// What holds for it as a whole; rules with patterns stand above it.
    pub ruling: Ruling,
    /// The server changed it since the owner allowed it: it asks again.
    pub changed: bool,
}

#[derive(Debug, Clone, Deserialize, TS)]
pub struct McpDraft {
    /// Absent for a new one.
    pub server_id: Option<String>,
    pub name: String,
    pub way: McpWay,
    pub target: String,
    pub args: Vec<String>,
    pub values: Vec<McpValueDraft>,
    /// 0 for the default of two minutes.
    pub timeout_s: u64,
    pub enabled: bool,
}

/// An environment variable or a header.
#[derive(Debug, Clone, Deserialize, TS)]
pub struct McpValueDraft {
    pub name: String,
    /// Goes to the secret store and is never shown again; absent keeps the stored one.
    pub value: Option<String>,
}

#[derive(Debug, Clone, Serialize, TS)]
pub struct DoctorReport {
    pub hops: Vec<DoctorHop>,
    pub summary: String,
}

#[derive(Debug, Clone, Serialize, TS)]
pub struct DoctorHop {
    pub name: String,
    pub ok: bool,
    pub ms: Option<u64>,
    pub text: String,
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::wire::event;

    macro_rules! declare {
        ($out:ident: $($t:ty),+ $(,)?) => { $( $out.push_str(&format!("export {}\n", <$t as TS>::decl(&ts_rs::Config::from_env()))); )+ };
    }

    /// The window's types are written from these; `UPDATE=1 cargo nextest run -p device generated` rewrites the file.
    #[test]
    fn the_generated_types_of_the_window_are_up_to_date() {
        let mut out = String::from("// Written from crates/device/src/view.rs and domain::wire::event by a test. Do not edit.\n");
        declare!(out:
            event::AgentEnd, event::RulingWord, event::FleetWhat, event::FleetEvent,
            DeskEvent, Topic, ErrorView, RelayView, StatusView, RunningView, GraphStatus, TemplateRow, GraphRow, LastExecution, GainedPower, GraphDetail, VersionRow,
            Inspection, SourceFault, Severity, Powers, ToolPower, GraphChange, ExportedFile, ExecutionState, ExecutionFilter, ExecutionPage, ExecutionRow,
            CommandOrigin, Delivery, ExecutionDetail, LedgerRow, SharingView, BrowserView, SharedProject, VisibleSession, SharingRow, AttentionRow, Ruling, ApprovalsView,
            ApprovalQuestion, OfferedRule, RuleScope, Effect, ApprovalAnswer, ToolSetting, RuleRow, RuleDraft, RulingLogRow, ConnectionsView, Pairing, ProjectRow, AgentRow,
            SecretStoreView, SecretStoreChoice, GrantDraft, MintedToken, MadeConnectCode, ModelsView, ProviderRow, AliasRow, FoundServer, PriceRow,
            PriceDraft, ProviderDraft, ProviderTest, McpView, McpWay, McpServerRow, McpStateView, McpToolRow, McpDraft, McpValueDraft, FolderAccess, FolderView, Theme, SettingsView, SettingsChange, DoctorReport, DoctorHop,
        );
        for (name, list) in [("Commands", COMMANDS), ("PopupCommands", POPUP_COMMANDS)] {
            out.push_str(&format!("export type {name} = {{\n"));
            for (command, args, answer) in list {
                out.push_str(&format!("  {command}: {{ args: {{ {args} }}; answer: {answer} }};\n"));
            }
            out.push_str("};\n");
        }
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../ui/src/generated/types.ts");
        if std::env::var_os("UPDATE").is_some() {
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, &out).unwrap();
        }
        assert_eq!(std::fs::read_to_string(&path).unwrap_or_default(), out, "run with UPDATE=1");
    }
}
