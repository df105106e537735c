// Sample approvals, connections, models and settings.
import type { ApprovalQuestion, ApprovalsView, RulingLog, ConnectionsView, DoctorReport, McpView, ModelsView, Sentence, SettingsView } from "../../generated/types";
import { asData } from "../../shared/sentence";
import { NOW, PROJECTS } from "./data";
import { aRule, DEFAULT, offered, say } from "./say";

const DAY = 86_400_000;

export const COMMAND_QUESTION: ApprovalQuestion = {
  approval: 7,
  execution_id: "e-running",
  graph: "Review a change set",
  agent: "Security",
  phase: "Judge",
  project: "Billing",
  connected_agent: "Claude Code",
  tool: "run_command",
  title: say("tool_run_command"),
  arguments: '{\n  "argv": ["cargo", "test", "--package", "relay", "--locked", "--test", "passes", "--", "--nocapture", "--test-threads", "1", "--format", "terse", "a_second_pass_never_starts_while_one_is_busy", "a_lost_answer_does_not_run_the_command_twice"]\n}',
  effect: { real_path: null, folder: "Billing, server/relay", diff: null, command_line: "cargo test --package relay --locked --test passes -- --nocapture --test-threads 1 --format terse a_second_pass_never_starts_while_one_is_busy a_lost_answer_does_not_run_the_command_twice", host: null, sandboxed: true },
  because: DEFAULT.command,
  rules: offered(say("calls_exactly", { tool: "run_command", words: "cargo test --package relay" }), 14),
  asked_at: NOW - 165_000,
  seconds_left: 435,
  seconds_total: 600,
  waiting_behind: 1,
  options: null,
};

export const DIFF_QUESTION: ApprovalQuestion = {
  ...COMMAND_QUESTION,
  approval: 8,
  agent: "Bugs",
  tool: "edit_file",
  title: say("tool_edit_file"),
  arguments: '{\n  "path": "src/relay/pass.rs",\n  "old": "if self.busy.load() { return Ok(()); }\\nself.busy.store(true);",\n  "new": "let Some(_pass) = self.busy.try_enter() else {\\n    return Ok(Pass::Skipped);\\n};"\n}',
  effect: {
    real_path: "/home/ada/billing/src/relay/pass.rs",
    folder: "Billing",
    diff: "--- a/src/relay/pass.rs\n+++ b/src/relay/pass.rs\n@@ -94,7 +94,8 @@\n let now = self.clock.now();\n-if self.busy.load() { return Ok(()); }\n-self.busy.store(true);\n+let Some(_pass) = self.busy.try_enter() else {\n+    return Ok(Pass::Skipped);\n+};\n let plan = sync::plan(&self.store, now)?;\n-self.busy.store(false);\n+// _pass leaves on every way out, errors too.\n Ok(Pass::Done(plan))\n",
    command_line: null,
    host: null,
    sandboxed: null,
  },
  because: DEFAULT.write,
  rules: offered(say("calls_in_folder", { tool: "edit_file", folder: "/home/ada/billing/src/relay" }), 14),
  seconds_left: 245,
  waiting_behind: 0,
};

export const FETCH_QUESTION: ApprovalQuestion = {
  ...COMMAND_QUESTION,
  approval: 9,
  graph: "Summarise support mail",
  execution_id: "e-asking",
  agent: "Reader",
  connected_agent: "Claude Desktop",
  project: "Website",
  tool: "http_fetch",
  title: say("tool_http_fetch"),
  arguments: '{\n  "method": "GET",\n  "url": "https://status.example.org/feed.json?since=2026-11-28"\n}',
  effect: { real_path: null, folder: null, diff: null, command_line: null, host: "status.example.org", sandboxed: null },
  because: DEFAULT.network,
  rules: [{ scope: "everywhere", text: aRule("allow", say("calls_to_host_by", { tool: "http_fetch", host: "status.example.org", methods: "GET" }), say("rule_everywhere")) }],
  seconds_left: 48,
};

export const ASK_QUESTION: ApprovalQuestion = {
  ...COMMAND_QUESTION,
  approval: 10,
  graph: "Rename the photos",
  agent: null,
  connected_agent: null,
  project: null,
  tool: "ask",
  title: asData("318 photos have no place in their data. Name them by day only?"),
  arguments: '"318 photos have no place in their data. Name them by day only?"',
  effect: { real_path: null, folder: null, diff: null, command_line: null, host: null, sandboxed: null },
  because: say("graph_asks"),
  rules: [],
  options: ["By day only", "Leave them as they are", "Stop here"],
};

/** A question of the script whose answer is typed. */
export const TYPED_QUESTION: ApprovalQuestion = { ...ASK_QUESTION, approval: 12, arguments: '"Which month shall the report be about?"', options: [] };

export const BARE_QUESTION: ApprovalQuestion = {
  ...COMMAND_QUESTION,
  approval: 11,
  effect: { ...COMMAND_QUESTION.effect, sandboxed: false },
  seconds_left: 31,
};

export function sampleApprovals(): ApprovalsView {
  const tool = (name: string, title: Sentence, description: string, ruling: "allow" | "ask" | "deny", is_default = true, source = "built in") => ({ tool: name, title, description, source, ruling, is_default });
  return {
    waiting: [COMMAND_QUESTION, FETCH_QUESTION],
    tools: [
      tool("list_files", say("tool_list_files"), "Names, sizes and times inside granted folders.", "allow"),
      tool("read_file", say("tool_read_file"), "Inside granted folders.", "allow"),
      tool("search_files", say("tool_search_files"), "Inside granted folders.", "allow"),
      tool("write_file", say("tool_write_file"), "Inside folders granted for writing.", "ask"),
      tool("edit_file", say("tool_edit_file"), "Inside folders granted for writing; the change is shown as a diff.", "ask"),
      tool("run_command", say("tool_run_command"), "Sandboxed, 60 s, 64 KB of output, empty environment.", "ask"),
      tool("http_fetch", say("tool_http_fetch"), "Public addresses only, at most 2 MB.", "deny", false),
      tool("mcp__linear__create_issue", say("tool_of_server", { tool: "create_issue", server: "linear" }), "Creates an issue in a Linear team.", "ask", true, "linear"),
    ],
    rules: [
      { rule_id: 1, text: aRule("allow", say("calls_in_folder", { tool: "write_file", folder: "/home/ada/Docs/out" }), say("rule_graph", { version: "2" })), tool: "write_file", ruling: "allow", scope: say("rule_of_graph", { graph: "Folder digest", version: "2" }), created_at: NOW - 9 * DAY, last_used_at: NOW - 21_600_000, uses: 41, broken: false },
      { rule_id: 2, text: aRule("deny", "run_command", say("rule_project")), tool: "run_command", ruling: "deny", scope: say("rule_of_project", { project: "Website" }), created_at: NOW - 20 * DAY, last_used_at: NOW - 2 * DAY, uses: 3, broken: false },
      { rule_id: 3, text: say("rule_unreadable"), tool: "", ruling: "deny", scope: asData(""), created_at: NOW - 30 * DAY, last_used_at: null, uses: 0, broken: true },
    ],
    log: { more: true, rows: [
      { number: 9, at: NOW - 120_000, execution_id: "e-running", graph: "Review a change set", agent: "Bugs", tool: "read_file", ruling: "allow", because: DEFAULT.read, answer: null, waited_ms: null },
      { number: 8, at: FAILED + 160_000, execution_id: "e-failed", graph: "Review a change set", agent: "Security 1", tool: "run_command", ruling: "allow", because: asData("owner"), answer: "once", waited_ms: 72_000 },
      { number: 7, at: NOW - 2 * DAY, execution_id: "e-run-11", graph: "Find dead links", agent: "Crawler", tool: "run_command", ruling: "deny", because: say("by_rule", { id: "2", rule: aRule("deny", "run_command", say("rule_project")) }), answer: null, waited_ms: null },
      { number: 6, at: NOW - 3 * DAY, execution_id: "e-run-12", graph: "Rename the photos", agent: null, tool: "write_file", ruling: "deny", because: asData("clock"), answer: "unanswered", waited_ms: 600_000 },
    ] },
  };
}
/** What the log holds behind its first page. */
export function sampleOlderLog(): RulingLog {
  return { more: false, rows: [{ number: 5, at: NOW - 5 * DAY, execution_id: "e-run-14", graph: "Folder digest", agent: "Reader", tool: "read_file", ruling: "allow", because: DEFAULT.read, answer: null, waited_ms: null }] };
}
const FAILED = NOW - 3_600_000 - 222_000;

export function sampleConnections(): ConnectionsView {
  const agent = (agent_id: string, name: string, kind: string, projects: string[], scopes: string[], age: number, used: number | null, revoked = false) => ({ agent_id, name, kind, projects, scopes, created_at: NOW - age * DAY, last_used_at: used === null ? null : NOW - used, revoked });
  return {
    paired: { address: "http://127.0.0.1:47821", owner: "ada", device_id: "1b7c2b0e-5a44-4d8e-9b1f-8f1f0a3f7a10", device_name: "workbench", builtin: true, mcp_url: "http://127.0.0.1:47821/mcp" },
    builtin_offered: true,
    projects: PROJECTS.map((project) => ({ ...project, enabled: project.name !== "Archive" })),
    agents: [
      agent("a1", "Claude Code", "token", ["Billing", "Website"], ["osfoundry:read", "osfoundry:run"], 26, 222_000),
      agent("a2", "Claude Desktop", "oauth", ["Website"], ["osfoundry:read", "osfoundry:run"], 20, 1_000),
      agent("a3", "Claude.ai", "oauth", ["Home"], ["osfoundry:read"], 8, 3 * DAY),
      agent("a4", "MCP Inspector", "oauth", ["Website"], ["osfoundry:read"], 0, null),
      agent("a5", "Old laptop", "token", ["Website"], ["osfoundry:read", "osfoundry:run"], 90, 40 * DAY, true),
    ],
    secrets: { kind: "os", text: say("secrets_os") },
    problem: null,
  };
}

export function sampleModels(): ModelsView {
  return {
    providers: [
      { provider_id: "p1", kind: "anthropic", name: "Anthropic", address: "https://api.anthropic.com", has_key: true, models: ["claude-opus-4-5", "claude-sonnet-4-5", "claude-haiku-4-5"], concurrency: 4, local: false, emulated_tools: false, context: null },
      { provider_id: "p2", kind: "ollama", name: "Ollama", address: "http://127.0.0.1:11434", has_key: false, models: ["qwen3:8b", "llama3.2:3b"], concurrency: 1, local: true, emulated_tools: false, context: 8192 },
      { provider_id: "p3", kind: "openai_compatible", name: "Office gateway", address: "https://models.example.org/v1", has_key: false, models: [], concurrency: 2, local: false, emulated_tools: true, context: null },
    ],
    aliases: [
      { alias: "default", model: "claude-sonnet-4-5" },
      { alias: "fast", model: "claude-haiku-4-5" },
      { alias: "strong", model: "claude-opus-4-5" },
      { alias: "local", model: null },
    ],
    found: [{ name: "LM Studio", address: "http://127.0.0.1:1234/v1", kind: "openai_compatible", models: ["gemma-3-4b"] }],
    prices: [
      { model: "claude-opus-4-5", input_per_mtok: 5, output_per_mtok: 25, is_own: false },
      { model: "claude-sonnet-4-5", input_per_mtok: 3, output_per_mtok: 15, is_own: true },
      { model: "claude-haiku-4-5", input_per_mtok: 1, output_per_mtok: 5, is_own: false },
    ],
  };
}

export function sampleMcp(): McpView {
  const row = { args: [], value_names: [], timeout_s: 120, enabled: true, tools: [] };
  return {
    limit: 32,
    servers: [
      { ...row, server_id: "m1", name: "files", way: "stdio", target: "npx", args: ["-y", "@example/files"], value_names: ["API_KEY"], state: { at: "ready" }, tools: [{ tool: "mcp__files__read", title: "Read", description: "Reads a file.", ruling: "allow", changed: false }, { tool: "mcp__files__send", title: "Send", description: "Sends a file away.", ruling: "ask", changed: true }] },
      { ...row, server_id: "m2", name: "tickets", way: "http", target: "https://mcp.example.org/mcp", value_names: ["Authorization"], state: { at: "failed", why: say("mcp_not_started", { id: "tickets", why: "401 Unauthorized" }) } },
      { ...row, server_id: "m3", name: "old", way: "stdio", target: "old-server", enabled: false, state: { at: "off" } },
    ],
  };
}

export function sampleSettings(): SettingsView {
  return {
    folders: [
      { path: "/home/ada/billing", access: "write", problem: null },
      { path: "/home/ada/notes", access: "read", problem: null },
      { path: "/mnt/share/handbook", access: "read", problem: say("error.folder_unusable", { path: "/mnt/share/handbook", why: "no such file or directory" }) },
    ],
    token_ceiling: 200_000,
    cost_ceiling_cents: 0,
    max_concurrency: 4,
    max_tokens_per_call: 4096,
    approval_timeout_s: 600,
    pickup_instant: true,
    paused: false,
    start_at_login: false,
    keep_in_tray: true,
    tell_asks: true,
    theme: "system",
    language: "en",
    retention_days: 90,
    data_folder: "/home/ada/.local/share/graph-desk",
    logs_folder: "/home/ada/.local/share/graph-desk/logs",
  };
}

export const DOCTOR: DoctorReport = {
  hops: [
    { name: "Profile", ok: true, ms: 1, text: say("hop_profile", { path: "/home/ada/.local/share/graph-desk" }) },
    { name: "Secrets", ok: true, ms: null, text: say("secrets_os") },
    { name: "Script runner", ok: true, ms: 81, text: say("hop_scripts") },
    { name: "Graph Queue", ok: true, ms: 12, text: say("hop_queue", { address: "http://127.0.0.1:47821", n: "4" }) },
    { name: "Relay", ok: true, ms: null, text: say("hop_relay", { n: "3" }) },
    { name: "Pickup", ok: false, ms: 30_000, text: say("hop_pickup_late", { why: "No doorbell rang within 30 s" }) },
  ],
};
