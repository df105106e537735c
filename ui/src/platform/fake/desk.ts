// An imitation of the desktop over sample data, good enough to click through. It answers like the real one and tells changes,
// but nothing here decides anything: the rules live in Rust.
import type { Commands, DeskEvent, ErrorView, ExecutionDetail, GraphDetail, PopupCommands, SharingView, StatusView, Topic } from "../../generated/types";
import { asData } from "../../shared/sentence";
import type { Platform } from "../port";
import { inspect, NOW, POWERS, PROJECTS, RUNNING_SINCE, sampleGraphs, sampleRuns, sampleVersions, TEMPLATES, FAILED_AT } from "./data";
import { ASK_QUESTION, BARE_QUESTION, COMMAND_QUESTION, DIFF_QUESTION, DOCTOR, FETCH_QUESTION, sampleApprovals, sampleOlderLog, sampleConnections, sampleMcp, sampleModels, sampleSettings, TYPED_QUESTION } from "./more";
import { aRule, DEFAULT, say } from "./say";
import { crowdedRun, failedRun, runningRun } from "./story";

export type Mood = "normal" | "empty" | "loading" | "error" | "offline" | "failing" | "full" | "long";
type Handlers = { [N in keyof Commands]: (args: Commands[N]["args"]) => Commands[N]["answer"] | Promise<Commands[N]["answer"]> };
type PopupHandlers = { [N in keyof PopupCommands]: (args: PopupCommands[N]["args"]) => PopupCommands[N]["answer"] };

export const fault = (code: string, message: string, field: string | null = null, facts: Record<string, string> = {}): ErrorView => ({ code, message, facts, field, line: null, column: null });
const QUESTIONS = { command: COMMAND_QUESTION, diff: DIFF_QUESTION, fetch: FETCH_QUESTION, ask: ASK_QUESTION, typed: TYPED_QUESTION, bare: BARE_QUESTION, none: null } as const;
export type QuestionName = keyof typeof QUESTIONS;
const ONE_KEY = "4TQK-9ZMX";

export class FakeDesk implements Platform {
  readonly kind = "fake";
  readonly calls: { name: string; args: object }[] = [];
  readonly graphs = sampleGraphs();
  readonly runs = sampleRuns();
  approvals = sampleApprovals();
  connections = sampleConnections();
  models = sampleModels();
  mcp = sampleMcp();
  settings = sampleSettings();
  question = QUESTIONS.command as (typeof QUESTIONS)[QuestionName];
  readonly #enabled = new Set<string>(PROJECTS.filter((project) => project.name !== "Archive").map((project) => project.project_id));
  readonly #readable = new Set<string>([PROJECTS[1].project_id]);
  readonly #ears = new Set<(event: DeskEvent) => void>();
  attention = true;

  constructor(
    public mood: Mood = "normal",
    question: QuestionName = "command",
  ) {
    this.question = QUESTIONS[question];
    if (mood !== "empty") return;
    this.graphs.length = 0;
    this.runs.length = 0;
    this.attention = false;
    this.approvals = { ...this.approvals, waiting: [], rules: [], log: { rows: [], more: false } };
    this.connections = { ...this.connections, paired: null, projects: [], agents: [] };
    this.models = { ...this.models, providers: [], found: [{ name: "Ollama", address: "http://127.0.0.1:11434", kind: "ollama", models: ["qwen3:8b"] }] };
    this.settings = { ...this.settings, folders: [] };
    this.mcp = { ...this.mcp, servers: [] };
  }

  async call<N extends keyof Commands>(name: N, args: Commands[N]["args"]): Promise<Commands[N]["answer"]> {
    this.calls.push({ name, args });
    const reads = name.endsWith("_get") || name.endsWith("_list") || name.endsWith("_open");
    if (reads && this.mood === "loading" && name !== "settings_get" && name !== "status_get") return new Promise(() => undefined);
    if (reads && this.mood === "error" && name !== "settings_get" && name !== "status_get") throw fault("store_failed", "The database does not answer: the disk is full. Free some space, then try again. Nothing was lost.");
    return this.#handlers[name](args);
  }
  async popup<N extends keyof PopupCommands>(name: N, args: PopupCommands[N]["args"]): Promise<PopupCommands[N]["answer"]> {
    this.calls.push({ name, args });
    return this.#popup[name](args);
  }
  listen(hear: (event: DeskEvent) => void): () => void {
    this.#ears.add(hear);
    return () => this.#ears.delete(hear);
  }
  tell(event: DeskEvent): void {
    for (const ear of [...this.#ears]) ear(event);
  }
  changed(...topics: Topic[]): void {
    for (const topic of topics) this.tell({ event: "changed", topic });
  }

  /** So many executions in the history, for measuring the list. */
  crowd(count: number): void {
    const sample = this.runs.at(-1);
    for (let n = this.runs.length; sample && n < count; n++) this.runs.push({ ...sample, execution_id: `e-crowd-${n}`, started_at: sample.started_at - n * 60_000, ended_at: (sample.ended_at ?? sample.started_at) - n * 60_000 });
  }
  /** So many events a second into the running execution: half of them streamed text, as a busy fleet tells. */
  stream(perSecond: number): void {
    if (perSecond <= 0) return;
    let seq = this.#execution("e-running").events.reduce((most, event) => Math.max(most, event.seq), 0);
    let from = this.#execution("e-running").events.reduce((sum, event) => sum + (event.kind === "agent_text" && event.agent === 20 ? event.text.length : 0), 0);
    let turn = 0;
    setInterval(() => {
      const at = new Date(NOW + turn * 10).toISOString();
      const text = `finding ${turn} stands because the guard is set before the await. `;
      if (turn++ % 2 === 0) this.tell({ event: "fleet", execution_id: "e-running", events: [{ seq: ++seq, at, kind: "ledger", spent: 92_410 + turn, held: 24_600, ceiling: 200_000, cost: 0.4 }] });
      else {
        this.tell({ event: "fleet", execution_id: "e-running", events: [{ seq: 0, at, kind: "agent_text", agent: 20, from, text }] });
        from += text.length;
      }
    }, 1000 / perSecond);
  }

  #status(): StatusView {
    const empty = this.mood === "empty";
    const running = this.runs.filter((run) => run.state === "running");
    return {
      relay: this.connections.paired === null ? { at: "not_connected" } : this.mood === "offline" ? { at: "offline", since: NOW - 180_000, why: say("no_answer_within", { seconds: "30" }) } : this.mood === "failing" ? { at: "failing", since: NOW - 40_000, times: 4 } : { at: "busy", graph: "Summarise support mail", execution_id: "e-asking", since: NOW - 58_000 },
      running: running.map((run) => ({ execution_id: run.execution_id, graph: run.graph, agents_running: 3, agents_waiting: 12, asking: run.asking, since: run.started_at })),
      tokens_today: empty ? 0 : 212_480,
      approvals_waiting: this.approvals.waiting.length,
      outbox: this.mood === "offline" ? 2 : 0,
      needs_attention: 0,
      queue: this.connections.paired?.address ?? null,
      queue_builtin: this.connections.paired?.builtin === true,
      graphs: this.graphs.length,
      version: "0.1.0",
    };
  }
  #graph(id: string) {
    const found = this.graphs.find((each) => each.row.id === id);
    if (!found) throw fault("graph_gone", "This Graph is not here any more. It may have been deleted in another window.");
    return found;
  }
  #detail(id: string): GraphDetail {
    const { row, source } = this.#graph(id);
    const powers = source.includes("write_file") ? { ...POWERS, tools: [{ tool: "list_files", ruling: "allow", because: DEFAULT.read } as const, { tool: "write_file", ruling: "ask", because: DEFAULT.write } as const], folders: [...POWERS.folders, { path: "/home/ada/out", access: "write", problem: null } as const], agents_max: 0 } : POWERS;
    return { row: { ...row }, source, inspection: inspect(source), versions: sampleVersions(row.version), powers };
  }
  #make(source: string, name: string): GraphDetail {
    const n = this.graphs.length + 1;
    const slug = name.toLowerCase().replace(/[^a-z0-9]+/g, "-");
    const id = `gs_${n.toString(16).padStart(32, "0")}`;
    this.graphs.unshift({ source, row: { id, name, slug, description: "", version: 1, status: "draft", shared_with: [], updated_at: NOW, last_execution: null, gained: [] } });
    this.changed("graphs", "status");
    return this.#detail(id);
  }
  #execution(execution_id: string): ExecutionDetail {
    const row = this.runs.find((each) => each.execution_id === execution_id);
    if (!row) throw fault("execution_gone", "This run is not in the history any more. It was older than the 90 days you keep.");
    const failed = execution_id === "e-failed";
    const source = this.#graph(row.graph_id).source;
    const events = failed ? failedRun(FAILED_AT) : execution_id === "e-running" ? runningRun(RUNNING_SINCE) : execution_id === "e-run-8" ? runningRun(row.started_at) : execution_id === "e-run-4" ? crowdedRun(row.started_at, 500) : [];
    return {
      row: { ...row },
      args: '{"base":"main","focus":["bugs","security","speed"],"strict":true,"ceiling":1e+21}',
      result: row.state === "completed" ? '{"kept":3,"dropped":11,"report":"Three findings stand. The first stops every later pass after an error between two lines.","execution_id":"' + execution_id + '"}' : null,
      error: failed ? "TypeError: cannot read .keep of verdict, which is null or undefined" : row.reason === "ceiling_reached" ? "AgentError: token ceiling reached: 198400 of 200000 spent, 0 held, the next call needed 4100" : row.reason === "not_shared" ? "Graph session is no longer shared with this project" : row.reason === "device_restarted" ? "The desktop restarted while this run was in progress" : null,
      error_line: failed ? 44 : null,
      source,
      ceiling: failed ? 100_000 : 200_000,
      ledger: [
        { label: "Group files, call 1", reserved: 9_200, settled: 6_104, estimated: false },
        { label: "Find bugs, call 1", reserved: 22_100, settled: 18_402, estimated: false },
        { label: "Security 2, call 1", reserved: 11_252, settled: 11_252, estimated: true },
        { label: "Write report, call 1", reserved: 4_096, settled: null, estimated: false },
      ],
      can_resume: row.state === "failed",
      events,
    };
  }
  #sharing(): SharingView {
    const full = this.mood === "full";
    const ready = this.graphs.filter(({ row }) => row.status !== "archived");
    return {
      connected: this.connections.paired !== null,
      limit: 100,
      projects: this.connections.projects.map((project, n) => ({
        project_id: project.project_id,
        name: project.name,
        enabled: this.#enabled.has(project.project_id),
        readable: this.#readable.has(project.project_id),
        ticked: full && n === 1 ? 100 : ready.filter(({ row }) => row.shared_with.includes(project.name)).length,
        last_sync: NOW - 4000,
        syncing: false,
        sync_error: this.mood === "offline" && n === 0 ? say("no_answer_within", { seconds: "30" }) : null,
        pickup_waits: n < 3 ? [{ graph: "Label new issues", ms: 20 }, { graph: "Summarise support mail", ms: 30 }, { graph: "Label new issues", ms: 9800 }] : [],
        visible: ready.filter(({ row }) => row.shared_with.includes(project.name)).map(({ row }) => ({ name: row.name, slug: row.slug, description: row.description, version: row.version })),
      })),
      rows: ready.map(({ row }) => ({ graph_session_id: row.id, name: row.name, slug: row.slug, status: row.status, ticked: this.connections.projects.filter((project) => row.shared_with.includes(project.name)).map((project) => project.project_id), gained: row.gained })),
      browser: { readable: this.#readable.size > 0 ? 7 : 0, uploading: 0, removing: this.#readable.size > 0 ? 0 : 2, problem: null },
      attention: this.attention ? [{ command_id: "5f0c1e77-2b1a-4c3d-9e8f-000000000007", execution_id: "e-run-7", project_id: PROJECTS[1].project_id, graph: "Label new issues", server_says: asData("command belongs to another device"), tries: 4, next_try: NOW + 1_200_000 }] : [],
    };
  }
  #tick({ project_id, graph_session_id, ticked }: Commands["sharing_tick"]["args"]): SharingView {
    const { row } = this.#graph(graph_session_id);
    const project = this.connections.projects.find((each) => each.project_id === project_id);
    const view = this.#sharing().projects.find((each) => each.project_id === project_id);
    if (!project || !view) throw fault("project_not_found", "Project not found or access removed");
    if (ticked && view.ticked >= 100) throw fault("ticks_full", `100 of 100 are ticked for ${project.name}. Untick one first.`, null, { project: project.name, limit: "100" });
    row.shared_with = ticked ? [...row.shared_with, project.name] : row.shared_with.filter((name) => name !== project.name);
    return this.#sharing();
  }

  readonly #handlers: Handlers = {
    status_get: () => this.#status(),
    templates_list: () => TEMPLATES,
    graphs_list: () => this.graphs.map(({ row }) => ({ ...row })),
    graph_open: ({ id }) => this.#detail(id),
    graph_create: ({ source }) => this.#make(source, inspect(source).name ?? "New Graph"),
    graph_create_from_template: ({ template }) => {
      const chosen = TEMPLATES.find((each) => each.id === template);
      return this.#make(chosen?.source ?? "", chosen?.name ?? "New Graph");
    },
    graph_import: ({ file_name, source }) => this.#make(source, inspect(source).name ?? file_name.replace(/\.graph\.js$|\.js$/, "")),
    graph_export: ({ id }) => ({ file_name: `${this.#graph(id).row.slug}.graph.js`, text: this.#graph(id).source }),
    graph_save: ({ id, source }) => {
      const graph = this.#graph(id);
      graph.source = source;
      graph.row.version++;
      this.changed("graphs");
      return this.#detail(id);
    },
    graph_update: ({ id, change }) => {
      const { row } = this.#graph(id);
      if (change.slug !== null && !/^[a-z0-9-]+$/.test(change.slug)) throw fault("bad_argument", "Slugs are lower-case letters, digits and dashes, like review-change-set.", "slug");
      Object.assign(row, Object.fromEntries(Object.entries(change).filter(([, value]) => value !== null)));
      this.changed("graphs", "sharing");
      return this.#detail(id);
    },
    graph_duplicate: ({ id }) => this.#make(this.#graph(id).source, `${this.#graph(id).row.name} 2`),
    graph_delete: ({ id }) => {
      const at = this.graphs.findIndex((each) => each.row.id === id);
      this.#deleted = this.graphs.splice(at, 1)[0];
      this.changed("graphs", "status");
      return null;
    },
    graph_undelete: ({ id }) => {
      if (this.#deleted) this.graphs.unshift(this.#deleted);
      this.changed("graphs", "status");
      return this.#detail(id);
    },
    graph_version_source: ({ id, version }) => {
      const { row, source } = this.#graph(id);
      return version === row.version ? source : source.replace("slice(0, 6)", `slice(0, ${version})`).replace('"before"', "").replace("const kept = judged.filter((votes) =>\n  votes.filter((vote) => vote.keep).length >= 2);\n", "");
    },
    graph_version_name: ({ id }) => this.#detail(id),
    graph_inspect: ({ source }) => inspect(source),
    run_graph_now: ({ id }) => {
      const { row } = this.#graph(id);
      const execution_id = `e-new-${this.runs.length}`;
      this.runs.unshift({ execution_id, graph_id: id, graph: row.name, slug: row.slug, version: row.version, state: "running", reason: null, dry: false, started_at: NOW, ended_at: null, tokens: 0, cost: null, agents_done: 0, agents_failed: 0, asking: 0, command: null });
      row.last_execution = { execution_id, state: "running", at: NOW };
      this.changed("executions", "status");
      return execution_id;
    },
    run_graph_dry: (args) => {
      const execution_id = this.#handlers.run_graph_now(args) as string;
      const run = this.runs[0];
      if (run) Object.assign(run, { dry: true, state: "completed", ended_at: NOW + 500 });
      return execution_id;
    },
    fleet_cancel_run: ({ execution_id }) => {
      const run = this.runs.find((each) => each.execution_id === execution_id);
      if (run) Object.assign(run, { state: "cancelled", reason: "owner_stopped", ended_at: NOW });
      this.changed("executions", "status");
      return null;
    },
    executions_list: ({ filter }) => {
      const text = filter.text?.toLowerCase() ?? "";
      const found = this.runs.filter((run) => (filter.graph_id === null || run.graph_id === filter.graph_id) && (filter.project_id === null || run.command?.project_id === filter.project_id) && (filter.agent === null || run.command?.agent === filter.agent) && (filter.state === null || run.state === filter.state) && (filter.origin === null || (run.command === null) === (filter.origin === "owner")) && (filter.since === null || run.started_at >= filter.since) && (filter.until === null || run.started_at < filter.until) && run.graph.toLowerCase().includes(text));
      const from = filter.after === null ? 0 : Number(filter.after);
      const to = from + (filter.limit ?? 50);
      return { rows: found.slice(from, to), next: to < found.length ? String(to) : null, total: found.length };
    },
    execution_open: ({ execution_id }) => this.#execution(execution_id),
    execution_events: ({ execution_id, after }) => this.#execution(execution_id).events.filter((event) => event.seq > after),
    execution_export: ({ execution_id }) => ({ file_name: `${execution_id}.json`, text: JSON.stringify(this.#execution(execution_id)) }),
    execution_resume: ({ execution_id }) => this.#handlers.run_graph_now({ id: this.#execution(execution_id).row.graph_id, args: "{}" }),
    sharing_get: () => this.#sharing(),
    sharing_tick: (args) => this.#tick(args),
    project_enable: ({ project_id, enabled }) => {
      if (enabled) this.#enabled.add(project_id);
      else this.#enabled.delete(project_id);
      return this.#sharing();
    },
    project_readable: ({ project_id, readable }) => {
      if (readable) this.#readable.add(project_id);
      else this.#readable.delete(project_id);
      return this.#sharing();
    },
    attention_retry: () => this.#sharing(),
    attention_discard: () => {
      this.attention = false;
      return this.#sharing();
    },
    approvals_get: () => this.approvals,
    approvals_log: () => sampleOlderLog(),
    approval_answer: ({ approval }) => {
      this.approvals = { ...this.approvals, waiting: this.approvals.waiting.filter((each) => each.approval !== approval) };
      this.changed("status");
      return this.approvals;
    },
    tool_setting_set: ({ tool, ruling }) => (this.approvals = { ...this.approvals, tools: this.approvals.tools.map((each) => (each.tool === tool ? { ...each, ruling, is_default: false } : each)) }),
    rule_add: ({ rule }) => (this.approvals = { ...this.approvals, rules: [...this.approvals.rules, { rule_id: this.approvals.rules.length + 1, text: aRule(rule.ruling, rule.pattern === null ? rule.tool : say("calls_in_folder", { tool: rule.tool, folder: rule.pattern }), say("rule_everywhere")), tool: rule.tool, ruling: rule.ruling, scope: say("rule_everywhere"), created_at: NOW, last_used_at: null, uses: 0, broken: false }] }),
    rule_delete: ({ rule_id }) => (this.approvals = { ...this.approvals, rules: this.approvals.rules.filter((each) => each.rule_id !== rule_id) }),
    connections_get: () => this.connections,
    pair: ({ address, pairing_code }) => {
      if (pairing_code !== ONE_KEY) throw fault("pairing_code_invalid", "The server does not know this pairing code. Codes work once and for 10 minutes; make a new one with graph-queue pair.", "pairing_code");
      return this.#pair(address, false);
    },
    pair_builtin: () => this.#pair("http://127.0.0.1:47821", true),
    unpair: () => (this.connections = { ...this.connections, paired: null, projects: [], agents: [] }),
    project_create: ({ name }) => (this.connections = { ...this.connections, projects: [...this.connections.projects, { project_id: crypto.randomUUID(), name, enabled: true }] }),
    project_rename: ({ project_id, name }) => (this.connections = { ...this.connections, projects: this.connections.projects.map((each) => (each.project_id === project_id ? { ...each, name } : each)) }),
    project_delete: ({ project_id }) => (this.connections = { ...this.connections, projects: this.connections.projects.filter((each) => each.project_id !== project_id) }),
    agent_token_mint: ({ grant }) => ({ token: "gqa_3f9a1c7be2d04d5c8a61", mcp_url: "http://127.0.0.1:47821/mcp", claude_code_line: `claude mcp add --transport http graph-queue http://127.0.0.1:47821/mcp --header "Authorization: Bearer gqa_3f9a1c7be2d04d5c8a61"${grant.may_run ? "" : " --scope local"}` }),
    connect_code_make: () => this.#code(),
    sign_in_code_make: () => ({ ...this.#code(), mcp_url: "https://queue.example.org/owner" }),
    agent_revoke: ({ agent_id }) => (this.connections = { ...this.connections, agents: this.connections.agents.map((each) => (each.agent_id === agent_id ? { ...each, revoked: true } : each)) }),
    models_get: () => this.models,
    models_discover: () => this.models,
    provider_save: ({ provider }) => (this.models = { ...this.models, providers: [...this.models.providers.filter((each) => each.provider_id !== provider.provider_id), { provider_id: provider.provider_id ?? crypto.randomUUID(), kind: provider.kind, name: provider.name, address: provider.address, has_key: provider.key !== null, models: provider.models, concurrency: provider.concurrency, local: provider.kind === "ollama", emulated_tools: provider.emulated_tools, context: provider.context }] }),
    provider_delete: ({ provider_id }) => (this.models = { ...this.models, providers: this.models.providers.filter((each) => each.provider_id !== provider_id) }),
    provider_test: ({ provider_id }) => (provider_id === "p3" ? { ok: false, text: say("test_key_refused", { status: "401", message: "no such key" }), ms: 120 } : { ok: true, text: say("test_said", { model: "anthropic/claude-sonnet-4-5", words: "Hello", used: say("tokens_used", { input: "14", output: "3" }) }), ms: 214 }),
    model_alias_set: ({ alias, model }) => (this.models = { ...this.models, aliases: this.models.aliases.map((each) => (each.alias === alias ? { alias, model: model === "" ? null : model } : each)) }),
    price_set: ({ model, price }) => (this.models = { ...this.models, prices: [...this.models.prices.filter((each) => each.model !== model), ...(price === null ? [] : [{ model, ...price, is_own: true }])] }),
    mcp_get: () => this.mcp,
    mcp_save: ({ server }) => {
      if (server.target === "nowhere") throw fault("bad_argument", "Name the program, like npx or /usr/local/bin/server; its arguments stand apart.", "target");
      const { values, server_id, ...rest } = server;
      const row = { ...rest, server_id: server_id ?? crypto.randomUUID(), value_names: values.map((each) => each.name), state: { at: "ready" as const }, tools: [] };
      return (this.mcp = { ...this.mcp, servers: [...this.mcp.servers.filter((each) => each.server_id !== server_id), row] });
    },
    mcp_delete: ({ server_id }) => (this.mcp = { ...this.mcp, servers: this.mcp.servers.filter((each) => each.server_id !== server_id) }),
    mcp_enable: ({ server_id, enabled }) => (this.mcp = { ...this.mcp, servers: this.mcp.servers.map((each) => (each.server_id === server_id ? { ...each, enabled, state: { at: enabled ? "ready" : "off" } } : each)) }),
    mcp_restart: ({ server_id }) => (this.mcp = { ...this.mcp, servers: this.mcp.servers.map((each) => (each.server_id === server_id ? { ...each, state: { at: "ready" } } : each)) }),
    settings_get: () => this.settings,
    settings_update: ({ change }) => {
      this.settings = { ...this.settings, ...Object.fromEntries(Object.entries(change).filter(([, value]) => value !== null)) };
      this.changed("settings");
      return this.settings;
    },
    folder_pick: () => "/home/ada/photos",
    folder_add: ({ path, access }) => (this.settings = { ...this.settings, folders: [...this.settings.folders, { path, access, problem: null }] }),
    folder_remove: ({ path }) => (this.settings = { ...this.settings, folders: this.settings.folders.filter((each) => each.path !== path) }),
    secret_store_choose: ({ choice }) => (this.connections = { ...this.connections, secrets: { kind: choice.store, text: say("secrets_os") } }),
    doctor_run: () => DOCTOR,
    logs_open: () => null,
    file_save: ({ file }) => `/home/ada/${file.file_name}`,
    window_drawn: () => null,
    app_quit: () => null,
    log_ui: () => null,
  };
  readonly #popup: PopupHandlers = {
    popup_question: () => this.question,
    popup_answer: () => null,
    popup_log_ui: () => null,
  };
  #deleted: (typeof this.graphs)[number] | undefined;

  #pair(address: string, builtin: boolean) {
    const fresh = sampleConnections();
    this.connections = { ...fresh, agents: [], projects: fresh.projects.slice(0, 1), paired: { address, owner: "ada", device_id: "1b7c2b0e-5a44-4d8e-9b1f-8f1f0a3f7a10", device_name: "workbench", builtin, mcp_url: `${address}/mcp` } };
    this.changed("status", "sharing");
    return this.connections;
  }
  #code() {
    return { code: "K7QF-3M9T", expires_at: NOW + 552_000, mcp_url: "http://127.0.0.1:47821/mcp", claude_code_line: "claude mcp add --transport http graph-queue http://127.0.0.1:47821/mcp" };
  }
}
