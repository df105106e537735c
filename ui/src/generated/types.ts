// Written from crates/device/src/view and domain::wire by a test. Do not edit.
export type Sentence = { 
/**
 * Stable word, the key of the window's catalogue (`said.rule_everywhere`); empty where the words are data.
 */
code: string, facts: { [key in string]: Fact }, 
/**
 * In English.
 */
text: string, };
export type Fact = string | Sentence;
export type AgentEnd = "done" | "failed" | "cancelled" | "refused" | "replayed";
export type RulingWord = "allow" | "ask" | "deny";
export type FleetWhat = { "kind": "fleet_started", run_id: string, ceiling: number, max_concurrency: number, seed: number, } | { "kind": "phase", title: string, } | { "kind": "log", text: string, } | { "kind": "wave_started", wave: number, size: number, form: string, } | { "kind": "wave_finished", wave: number, done: number, failed: number, } | { "kind": "wave_refused", wave: number, reason: string, } | { "kind": "agent_queued", agent: number, label: string, phase?: string | null, wave?: number | null, model: string, line?: number | null, 
/**
 * Slugs of the called Graphs this stands in, outermost first; empty for the executed Graph itself. `line` is of the last one.
 */
called?: Array<string>, prompt: string, } | { "kind": "agent_started", agent: number, } | { "kind": "model_call", agent: number, turn: number, attempt: number, input: number, output: number, cached: number, estimated: boolean, cost: number | null, ms: number, } | { "kind": "agent_text", agent: number, 
/**
 * UTF-16 units this agent had said before: who hears a piece twice, or missed one, knows it.
 */
from: number, text: string, } | { "kind": "retry", agent?: number | null, why: string, wait_ms: number, attempt: number, } | { "kind": "tool_call", call: number, agent?: number | null, tool: string, input: string, ruling: RulingWord, rule: string, line?: number | null, 
/**
 * Slugs of the called Graphs this stands in, outermost first; empty for the executed Graph itself. `line` is of the last one.
 */
called?: Array<string>, 
/**
 * `rule` with its facts; absent in stories of older desktops.
 */
said?: Sentence | null, } | { "kind": "approval_asked", call: number, approval: number, seconds_left: number, } | { "kind": "approval_answered", call: number, approval: number, answer: string, by: string, waited_ms: number, 
/**
 * `by` with its facts, where a rule saved meanwhile answered.
 */
said?: Sentence | null, } | { "kind": "tool_result", call: number, ok: boolean, bytes: number, ms: number, preview: string, } | { "kind": "agent_finished", agent: number, end: AgentEnd, code?: string | null, message?: string | null, tokens: number, cost: number | null, ms: number, } | { "kind": "ledger", spent: number, held: number, ceiling: number, cost: number | null, } | { "kind": "fleet_waiting", approvals: number, } | { "kind": "fleet_resumed", } | { "kind": "warning", text: string, line?: number | null, } | { "kind": "fleet_finished", status: string, reason: string, error?: string | null, line?: number | null, tokens: number, cost: number | null, agents_done: number, agents_failed: number, };
export type FleetEvent = { seq: number, at: string, } & ({ "kind": "fleet_started", run_id: string, ceiling: number, max_concurrency: number, seed: number, } | { "kind": "phase", title: string, } | { "kind": "log", text: string, } | { "kind": "wave_started", wave: number, size: number, form: string, } | { "kind": "wave_finished", wave: number, done: number, failed: number, } | { "kind": "wave_refused", wave: number, reason: string, } | { "kind": "agent_queued", agent: number, label: string, phase?: string | null, wave?: number | null, model: string, line?: number | null, 
/**
 * Slugs of the called Graphs this stands in, outermost first; empty for the executed Graph itself. `line` is of the last one.
 */
called?: Array<string>, prompt: string, } | { "kind": "agent_started", agent: number, } | { "kind": "model_call", agent: number, turn: number, attempt: number, input: number, output: number, cached: number, estimated: boolean, cost: number | null, ms: number, } | { "kind": "agent_text", agent: number, 
/**
 * UTF-16 units this agent had said before: who hears a piece twice, or missed one, knows it.
 */
from: number, text: string, } | { "kind": "retry", agent?: number | null, why: string, wait_ms: number, attempt: number, } | { "kind": "tool_call", call: number, agent?: number | null, tool: string, input: string, ruling: RulingWord, rule: string, line?: number | null, 
/**
 * Slugs of the called Graphs this stands in, outermost first; empty for the executed Graph itself. `line` is of the last one.
 */
called?: Array<string>, 
/**
 * `rule` with its facts; absent in stories of older desktops.
 */
said?: Sentence | null, } | { "kind": "approval_asked", call: number, approval: number, seconds_left: number, } | { "kind": "approval_answered", call: number, approval: number, answer: string, by: string, waited_ms: number, 
/**
 * `by` with its facts, where a rule saved meanwhile answered.
 */
said?: Sentence | null, } | { "kind": "tool_result", call: number, ok: boolean, bytes: number, ms: number, preview: string, } | { "kind": "agent_finished", agent: number, end: AgentEnd, code?: string | null, message?: string | null, tokens: number, cost: number | null, ms: number, } | { "kind": "ledger", spent: number, held: number, ceiling: number, cost: number | null, } | { "kind": "fleet_waiting", approvals: number, } | { "kind": "fleet_resumed", } | { "kind": "warning", text: string, line?: number | null, } | { "kind": "fleet_finished", status: string, reason: string, error?: string | null, line?: number | null, tokens: number, cost: number | null, agents_done: number, agents_failed: number, });
export type DeskEvent = { "event": "changed", topic: Topic, } | { "event": "fleet", execution_id: string, events: FleetEvent[], };
export type Topic = "status" | "graphs" | "executions" | "sharing" | "approvals" | "connections" | "models" | "settings";
export type ErrorView = { 
/**
 * Stable word, key of the window's table of texts, such as `queue_unreachable`.
 */
code: string, 
/**
 * What happened, what it means, what to do: whole sentences, in English.
 */
message: string, 
/**
 * The facts in the message by name, for the window's own words.
 */
facts: { [key in string]: string }, 
/**
 * The argument at fault, where there is one.
 */
field: string | null, 
/**
 * Position in a Graph's source, counted from 1.
 */
line: number | null, column: number | null, };
export type RelayView = { "at": "not_connected" } | { "at": "ready", last_contact: number | null, pickup_instant: boolean, } | { "at": "busy", graph: string, execution_id: string, since: number, } | { "at": "paused", since: number, } | { "at": "offline", since: number, why: Sentence, } | { "at": "server_says", message: Sentence, repair: boolean, } | { "at": "failing", since: number, times: number, };
export type StatusView = { relay: RelayView, running: Array<RunningView>, tokens_today: number, approvals_waiting: number, 
/**
 * Completions the server has not confirmed yet.
 */
outbox: number, 
/**
 * Completions the server refuses.
 */
needs_attention: number, 
/**
 * Address of the paired queue.
 */
queue: string | null, 
/**
 * Whether it is the one inside this app, whose address says nothing to its owner.
 */
queue_builtin: boolean, graphs: number, version: string, };
export type RunningView = { execution_id: string, graph: string, agents_running: number, agents_waiting: number, asking: number, since: number, };
export type GraphStatus = "draft" | "ready" | "archived";
export type TemplateRow = { id: string, name: string, description: string, source: string, };
export type GraphRow = { id: string, name: string, slug: string, description: string, version: number, status: GraphStatus, 
/**
 * Names of the projects it is ticked for.
 */
shared_with: Array<string>, updated_at: number, last_execution: LastExecution | null, 
/**
 * Powers gained since it was ticked; empty when none.
 */
gained: Array<GainedPower>, };
export type LastExecution = { execution_id: string, state: ExecutionState, at: number, };
export type GainedPower = { "what": "tool", name: string, } | { "what": "model", name: string, } | { "what": "folder", path: string, access: FolderAccess, } | { "what": "token_ceiling", before: number, after: number, } | { "what": "agents_at_once", before: number, after: number, };
export type GraphDetail = { row: GraphRow, source: string, inspection: Inspection, versions: Array<VersionRow>, powers: Powers, };
export type VersionRow = { version: number, name: string | null, saved_at: number, lines: number, };
export type Inspection = { name: string | null, description: string | null, phases: Array<string>, 
/**
 * JSON Schema of the arguments, compact text.
 */
args_schema: string | null, tools: Array<string>, models: Array<string>, faults: Array<SourceFault>, };
export type SourceFault = { line: number, column: number, message: string, 
/**
 * `error` keeps the Graph from being ready; `warning` does not.
 */
severity: Severity, };
export type Severity = "error" | "warning";
export type Powers = { tools: Array<ToolPower>, folders: Array<FolderView>, models: Array<string>, token_ceiling: number, max_concurrency: number, 
/**
 * Worst case, where the Graph bounds it. Tokens are always bounded, by the ceiling.
 */
agents_max: number | null, };
export type ToolPower = { tool: string, ruling: Ruling, because: Sentence, };
export type GraphChange = { name: string | null, slug: string | null, description: string | null, status: GraphStatus | null, };
export type ExportedFile = { file_name: string, text: string, };
export type ExecutionState = "claiming" | "running" | "completed" | "failed" | "cancelled";
export type ExecutionFilter = { graph_id: string | null, project_id: string | null, agent: string | null, state: ExecutionState | null, 
/**
 * Only what the owner started (`owner`), or what came as a command (`command`).
 */
origin: string | null, text: string | null, 
/**
 * Only what began then or later.
 */
since: number | null, 
/**
 * Only what began before.
 */
until: number | null, 
/**
 * `next` of the page before.
 */
after: string | null, 
/**
 * 1 to 200, default 50.
 */
limit: number | null, };
export type ExecutionPage = { rows: Array<ExecutionRow>, next: string | null, total: number, };
export type ExecutionRow = { execution_id: string, graph_id: string, graph: string, 
/**
 * The Graph's slug; of a command's execution the one it was queued with.
 */
slug: string, version: number, state: ExecutionState, reason: string | null, dry: boolean, started_at: number, ended_at: number | null, tokens: number, cost: number | null, agents_done: number, agents_failed: number, asking: number, 
/**
 * Present for a command's execution.
 */
command: CommandOrigin | null, };
export type CommandOrigin = { command_id: string, project_id: string, 
/**
 * Its name; absent once the project is gone.
 */
project: string | null, 
/**
 * Name of the connected agent, where the server told it.
 */
agent: string | null, pickup_wait_ms: number | null, delivery: Delivery, };
export type Delivery = { "at": "not_yet" } | { "at": "in_outbox", tries: number, last_error: Sentence | null, } | { "at": "delivered", when: number, } | { "at": "too_late", when: number, status: string, } | { "at": "needs_attention", tries: number, server_says: Sentence, } | { "at": "discarded", when: number, };
export type ExecutionDetail = { row: ExecutionRow, 
/**
 * Compact JSON text.
 */
args: string, result: string | null, 
/**
 * Our own words, or those of the script, a model or a tool.
 */
error: string | null, 
/**
 * Line of the Graph's source where it failed, counted from 1.
 */
error_line: number | null, 
/**
 * The source that ran.
 */
source: string, ceiling: number, ledger: Array<LedgerRow>, can_resume: boolean, events: FleetEvent[], };
export type LedgerRow = { label: string, reserved: number, settled: number | null, estimated: boolean, };
export type SharingView = { connected: boolean, projects: Array<SharedProject>, rows: Array<SharingRow>, 
/**
 * At most this many sessions may be ticked for one project.
 */
limit: number, attention: Array<AttentionRow>, browser: BrowserView, };
export type BrowserView = { 
/**
 * There, and up to date.
 */
readable: number, uploading: number, 
/**
 * Not to be there any more, and the queue has not answered yet.
 */
removing: number, 
/**
 * The last trouble with one of them, in words.
 */
problem: Sentence | null, };
export type SharedProject = { project_id: string, name: string, enabled: boolean, readable: boolean, ticked: number, last_sync: number | null, syncing: boolean, sync_error: Sentence | null, 
/**
 * Of the last commands, newest first.
 */
pickup_waits: Array<PickupWait>, 
/**
 * What Claude sees for it now.
 */
visible: Array<VisibleSession>, };
export type PickupWait = { graph: string, ms: number, };
export type VisibleSession = { name: string, slug: string, description: string, version: number, };
export type SharingRow = { graph_session_id: string, name: string, slug: string, status: GraphStatus, 
/**
 * Project ids it is ticked for.
 */
ticked: Array<string>, gained: Array<GainedPower>, };
export type AttentionRow = { command_id: string, execution_id: string | null, 
/**
 * Absent for a command that never ran here.
 */
project_id: string | null, 
/**
 * Absent for a command that never ran here.
 */
graph: string | null, server_says: Sentence, tries: number, next_try: number | null, };
export type Ruling = "allow" | "ask" | "deny";
export type ApprovalsView = { waiting: Array<ApprovalQuestion>, tools: Array<ToolSetting>, rules: Array<RuleRow>, 
/**
 * Its newest page.
 */
log: RulingLog, };
export type ApprovalQuestion = { approval: number, execution_id: string, graph: string, 
/**
 * Label of the agent; absent when the script itself calls the tool.
 */
agent: string | null, phase: string | null, project: string | null, connected_agent: string | null, tool: string, 
/**
 * The tool in plain words, such as "Write a file".
 */
title: Sentence, 
/**
 * All arguments as pretty JSON, nothing left out, hidden characters made visible.
 */
arguments: string, effect: Effect, 
/**
 * Why it is asked: the rule or default in words.
 */
because: Sentence, 
/**
 * What "Always allow" may save, narrowest scope first; empty where only once or this run is offered.
 */
rules: Array<OfferedRule>, asked_at: number, seconds_left: number, seconds_total: number, 
/**
 * Other questions behind this one.
 */
waiting_behind: number, 
/**
 * A question of the script (`ask`) instead of a tool: its answers to choose from; empty for a typed answer.
 */
options: Array<string> | null, };
export type OfferedRule = { scope: RuleScope, 
/**
 * The exact rule in words.
 */
text: Sentence, };
export type RuleScope = "graph" | "project" | "everywhere";
export type Effect = { real_path: string | null, folder: string | null, 
/**
 * Unified diff for a file edit or write.
 */
diff: string | null, command_line: string | null, host: string | null, 
/**
 * Present for commands: true when sandboxed.
 */
sandboxed: boolean | null, };
export type ApprovalAnswer = { "answer": "once" } | { "answer": "this_run" } | { "answer": "always", scope: RuleScope, } | { "answer": "deny", note: string | null, } | { "answer": "option", index: number, } | { "answer": "text", text: string, };
export type ToolSetting = { tool: string, title: Sentence, 
/**
 * As models read it; of the built-in tools the window has its own words.
 */
description: string, 
/**
 * Where it comes from: `built in`, or the MCP server's name.
 */
source: string, ruling: Ruling, 
/**
 * True when the owner has not set it: the class default holds.
 */
is_default: boolean, };
export type RuleRow = { rule_id: number, text: Sentence, tool: string, ruling: Ruling, scope: Sentence, created_at: number, last_used_at: number | null, uses: number, 
/**
 * A rule that cannot be read denies.
 */
broken: boolean, };
export type RuleDraft = { tool: string, ruling: Ruling, 
/**
 * Folder for file tools; host for http_fetch; argv prefix (JSON array) for run_command; empty for any.
 */
pattern: string | null, graph_session_id: string | null, project_id: string | null, };
export type RulingLog = { 
/**
 * Newest first.
 */
rows: Array<RulingLogRow>, 
/**
 * There are older ones.
 */
more: boolean, };
export type RulingLogRow = { 
/**
 * Position in the log: newer is larger.
 */
number: number, at: number, execution_id: string, graph: string, agent: string | null, tool: string, ruling: Ruling, 
/**
 * The rule or default; of an answered call who answered it.
 */
because: Sentence, 
/**
 * How a question was answered, and by whom.
 */
answer: string | null, waited_ms: number | null, };
export type ConnectionsView = { paired: Pairing | null, 
/**
 * The built-in queue can be used on this computer.
 */
builtin_offered: boolean, projects: Array<ProjectRow>, agents: Array<AgentRow>, secrets: SecretStoreView, 
/**
 * The last words of the server or the network, when something is wrong.
 */
problem: Sentence | null, };
export type Pairing = { address: string, owner: string, device_id: string, device_name: string, builtin: boolean, mcp_url: string, };
export type ProjectRow = { project_id: string, name: string, enabled: boolean, };
export type AgentRow = { agent_id: string, name: string, kind: string, projects: Array<string>, scopes: Array<string>, created_at: number, last_used_at: number | null, revoked: boolean, };
export type SecretStoreView = { 
/**
 * `os`, `encrypted_file`, `memory`, or `unknown` while it is being probed.
 */
kind: string, text: Sentence, };
export type SecretStoreChoice = { "store": "os" } | { "store": "encrypted_file", passphrase: string, } | { "store": "memory" };
export type GrantDraft = { name: string, project_ids: Array<string>, 
/**
 * `read`, or `read` and `run`.
 */
may_run: boolean, };
export type MintedToken = { token: string, mcp_url: string, claude_code_line: string, };
export type MadeConnectCode = { code: string, expires_at: number, mcp_url: string, claude_code_line: string, };
export type ModelsView = { providers: Array<ProviderRow>, 
/**
 * default, fast, strong, local → model.
 */
aliases: Array<AliasRow>, found: Array<FoundServer>, prices: Array<PriceRow>, };
export type ProviderRow = { provider_id: string, 
/**
 * `anthropic`, `openai_compatible` or `ollama`.
 */
kind: string, name: string, address: string, has_key: boolean, models: Array<string>, concurrency: number, local: boolean, 
/**
 * Its models have no tool calls of their own: they are led by a JSON Schema.
 */
emulated_tools: boolean, 
/**
 * Ollama: tokens of context to ask for; absent for the default.
 */
context: number | null, };
export type AliasRow = { alias: string, model: string | null, };
export type FoundServer = { name: string, address: string, kind: string, models: Array<string>, };
export type PriceRow = { model: string, input_per_mtok: number, output_per_mtok: number, 
/**
 * The owner's own line; otherwise it is what Graph Desk knows.
 */
is_own: boolean, };
export type PriceDraft = { input_per_mtok: number, output_per_mtok: number, };
export type ProviderDraft = { provider_id: string | null, kind: string, name: string, address: string, 
/**
 * Goes to the secret store and is never shown again; absent keeps the stored one.
 */
key: string | null, models: Array<string>, concurrency: number, emulated_tools: boolean, context: number | null, };
export type ProviderTest = { ok: boolean, text: Sentence, ms: number, };
export type McpView = { servers: Array<McpServerRow>, 
/**
 * At most this many are kept.
 */
limit: number, };
export type McpWay = "stdio" | "http";
export type McpServerRow = { server_id: string, 
/**
 * The middle of its tools' names: `mcp__name__tool`.
 */
name: string, way: McpWay, 
/**
 * The program, or the address.
 */
target: string, args: Array<string>, 
/**
 * Environment variables or headers it gets. Their values are never shown.
 */
value_names: Array<string>, 
/**
 * Longest a call may take.
 */
timeout_s: number, enabled: boolean, state: McpStateView, 
/**
 * As they were last listed.
 */
tools: Array<McpToolRow>, };
export type McpStateView = { "at": "off" } | { "at": "idle" } | { "at": "starting" } | { "at": "ready" } | { "at": "failed", why: Sentence, };
export type McpToolRow = { tool: string, title: string, description: string, 
/**
 * What holds for it as a whole; rules with patterns stand above it.
 */
ruling: Ruling, 
/**
 * The server changed it since the owner allowed it: it asks again.
 */
changed: boolean, };
export type McpDraft = { 
/**
 * Absent for a new one.
 */
server_id: string | null, name: string, way: McpWay, target: string, args: Array<string>, values: Array<McpValueDraft>, 
/**
 * 0 for the default of two minutes.
 */
timeout_s: number, enabled: boolean, };
export type McpValueDraft = { name: string, 
/**
 * Goes to the secret store and is never shown again; absent keeps the stored one.
 */
value: string | null, };
export type FolderAccess = "read" | "write";
export type FolderView = { path: string, access: FolderAccess, 
/**
 * Why it cannot be used now, if so.
 */
problem: Sentence | null, };
export type Theme = "system" | "light" | "dark";
export type SettingsView = { folders: Array<FolderView>, token_ceiling: number, 
/**
 * Hundredths of a dollar that priced models may cost in a run; 0 for no such ceiling.
 */
cost_ceiling_cents: number, max_concurrency: number, max_tokens_per_call: number, approval_timeout_s: number, 
/**
 * Instant (doorbell) or every 20 s.
 */
pickup_instant: boolean, paused: boolean, start_at_login: boolean, keep_in_tray: boolean, tell_asks: boolean, theme: Theme, language: string, retention_days: number, data_folder: string, logs_folder: string, };
export type SettingsChange = { token_ceiling: number | null, cost_ceiling_cents: number | null, max_concurrency: number | null, max_tokens_per_call: number | null, approval_timeout_s: number | null, pickup_instant: boolean | null, paused: boolean | null, start_at_login: boolean | null, keep_in_tray: boolean | null, tell_asks: boolean | null, theme: Theme | null, language: string | null, retention_days: number | null, };
export type DoctorReport = { hops: Array<DoctorHop>, };
export type DoctorHop = { 
/**
 * One of a fixed list, such as `Round trip`; the window has its own words for each.
 */
name: string, ok: boolean, ms: number | null, text: Sentence, };
export type Commands = {
  status_get: { args: {  }; answer: StatusView };
  templates_list: { args: {  }; answer: TemplateRow[] };
  graphs_list: { args: {  }; answer: GraphRow[] };
  graph_open: { args: { id: string }; answer: GraphDetail };
  graph_create: { args: { source: string }; answer: GraphDetail };
  graph_create_from_template: { args: { template: string }; answer: GraphDetail };
  graph_import: { args: { file_name: string, source: string }; answer: GraphDetail };
  graph_export: { args: { id: string }; answer: ExportedFile };
  graph_save: { args: { id: string, source: string }; answer: GraphDetail };
  graph_update: { args: { id: string, change: GraphChange }; answer: GraphDetail };
  graph_duplicate: { args: { id: string }; answer: GraphDetail };
  graph_delete: { args: { id: string }; answer: null };
  graph_undelete: { args: { id: string }; answer: GraphDetail };
  graph_version_source: { args: { id: string, version: number }; answer: string };
  graph_version_name: { args: { id: string, version: number, name: string }; answer: GraphDetail };
  graph_inspect: { args: { source: string }; answer: Inspection };
  run_graph_now: { args: { id: string, args: string }; answer: string };
  run_graph_dry: { args: { id: string, args: string }; answer: string };
  fleet_cancel_run: { args: { execution_id: string }; answer: null };
  executions_list: { args: { filter: ExecutionFilter }; answer: ExecutionPage };
  execution_open: { args: { execution_id: string }; answer: ExecutionDetail };
  execution_events: { args: { execution_id: string, after: number }; answer: FleetEvent[] };
  execution_export: { args: { execution_id: string }; answer: ExportedFile };
  execution_resume: { args: { execution_id: string }; answer: string };
  sharing_get: { args: {  }; answer: SharingView };
  sharing_tick: { args: { project_id: string, graph_session_id: string, ticked: boolean }; answer: SharingView };
  project_enable: { args: { project_id: string, enabled: boolean }; answer: SharingView };
  project_readable: { args: { project_id: string, readable: boolean }; answer: SharingView };
  attention_retry: { args: { command_id: string }; answer: SharingView };
  attention_discard: { args: { command_id: string }; answer: SharingView };
  approvals_get: { args: {  }; answer: ApprovalsView };
  approvals_log: { args: { before: number }; answer: RulingLog };
  approval_answer: { args: { approval: number, answer: ApprovalAnswer }; answer: ApprovalsView };
  tool_setting_set: { args: { tool: string, ruling: Ruling }; answer: ApprovalsView };
  rule_add: { args: { rule: RuleDraft }; answer: ApprovalsView };
  rule_delete: { args: { rule_id: number }; answer: ApprovalsView };
  connections_get: { args: {  }; answer: ConnectionsView };
  pair: { args: { address: string, pairing_code: string }; answer: ConnectionsView };
  pair_builtin: { args: {  }; answer: ConnectionsView };
  unpair: { args: {  }; answer: ConnectionsView };
  project_create: { args: { name: string }; answer: ConnectionsView };
  project_rename: { args: { project_id: string, name: string }; answer: ConnectionsView };
  project_delete: { args: { project_id: string }; answer: ConnectionsView };
  agent_token_mint: { args: { grant: GrantDraft }; answer: MintedToken };
  connect_code_make: { args: { grant: GrantDraft }; answer: MadeConnectCode };
  sign_in_code_make: { args: {  }; answer: MadeConnectCode };
  agent_revoke: { args: { agent_id: string }; answer: ConnectionsView };
  models_get: { args: {  }; answer: ModelsView };
  models_discover: { args: {  }; answer: ModelsView };
  provider_save: { args: { provider: ProviderDraft }; answer: ModelsView };
  provider_delete: { args: { provider_id: string }; answer: ModelsView };
  provider_test: { args: { provider_id: string }; answer: ProviderTest };
  model_alias_set: { args: { alias: string, model: string }; answer: ModelsView };
  price_set: { args: { model: string, price: PriceDraft | null }; answer: ModelsView };
  mcp_get: { args: {  }; answer: McpView };
  mcp_save: { args: { server: McpDraft }; answer: McpView };
  mcp_delete: { args: { server_id: string }; answer: McpView };
  mcp_enable: { args: { server_id: string, enabled: boolean }; answer: McpView };
  mcp_restart: { args: { server_id: string }; answer: McpView };
  settings_get: { args: {  }; answer: SettingsView };
  settings_update: { args: { change: SettingsChange }; answer: SettingsView };
  folder_pick: { args: {  }; answer: string | null };
  file_save: { args: { file: ExportedFile }; answer: string | null };
  logs_open: { args: {  }; answer: null };
  folder_add: { args: { path: string, access: FolderAccess }; answer: SettingsView };
  folder_remove: { args: { path: string }; answer: SettingsView };
  secret_store_choose: { args: { choice: SecretStoreChoice }; answer: ConnectionsView };
  doctor_run: { args: {  }; answer: DoctorReport };
  window_drawn: { args: { painted_ms_ago: number | null }; answer: null };
  app_quit: { args: {  }; answer: null };
  log_ui: { args: { level: string, message: string }; answer: null };
};
export type PopupCommands = {
  popup_question: { args: {  }; answer: ApprovalQuestion | null };
  popup_answer: { args: { answer: ApprovalAnswer }; answer: null };
  popup_log_ui: { args: { level: string, message: string }; answer: null };
};
