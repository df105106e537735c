// Sample rows: what an owner with a few weeks of use would have.
import type { ExecutionRow, GraphRow, GraphStatus, Inspection, Powers, TemplateRow, VersionRow } from "../../generated/types";
import { asData } from "../../shared/sentence";
import { DEFAULT, say } from "./say";
import { BRANCH, DIGEST, PAGES, REVIEW, SIMPLE } from "./sources";

/** The moment at which the samples stand still. */
export const NOW = Date.parse("2026-11-29T14:05:53Z");
export const RUNNING_SINCE = NOW - 102_000;
export const FAILED_AT = Date.parse("2026-11-29T14:02:11Z") - 3_600_000;
const MIN = 60_000;
const HOUR = 60 * MIN;
const DAY = 24 * HOUR;

export const id = (n: number) => `gs_${n.toString(16).padStart(4, "0")}e1a27c5b4f0d9e3861f2a7c0d490c2`.slice(0, 35);

type Short = [name: string, slug: string, description: string, version: number, shared: string[], ago: number | null, state: NonNullable<GraphRow["last_execution"]>["state"], source: string, status?: GraphStatus];
const SHORT: Short[] = [
  ["Review a change set with three judges", "review-change-set", "Finds defects in a change set; three judges vote on each.", 14, ["Website", "Billing"], 102_000, "running", REVIEW],
  ["Nightly dependency check", "dependency-check", "Reads lock files and reports what needs an update.", 6, ["Billing"], 25 * MIN, "completed", SIMPLE],
  ["Draft release notes", "release-notes", "From merged changes to notes in the house style.", 9, ["Website", "Billing", "Archive"], 170 * MIN, "completed", SIMPLE],
  ["Find dead links", "dead-links", "Walks the site and lists what no longer answers.", 3, ["Website"], 214 * MIN, "completed", PAGES],
  ["Summarise support mail", "support-mail", "Sorts the day’s mail and writes one page about it.", 11, ["Website"], 58_000, "running", BRANCH],
  ["Translate the handbook", "translate-handbook", "Page by page, with a second reader for each.", 4, ["Home"], 187 * MIN, "cancelled", PAGES],
  ["Label new issues", "label-issues", "Reads new issues and proposes labels with reasons.", 7, ["Website", "Billing", "Archive"], 293 * MIN, "failed", BRANCH],
  ["Folder digest", "folder-digest", "Counts, longest files and word frequencies of a folder.", 2, ["Home"], 6 * HOUR, "completed", DIGEST],
  ["Compare two suppliers", "compare-suppliers", "Three readers, one table, one recommendation.", 5, ["Billing", "Home"], 26 * HOUR, "completed", REVIEW],
  ["Check translations", "check-translations", "Flags strings that drifted from their source.", 2, ["Home"], 27 * HOUR, "completed", PAGES],
  ["Plan the week", "plan-week", "Turns notes and dates into a plan of five days.", 1, ["Home"], 2 * DAY, "completed", SIMPLE],
  ["Watch the backup", "watch-backup", "Reads the log and tells only what needs a hand.", 3, ["Billing", "Home"], 3 * DAY, "completed", BRANCH],
  ["Sort the inbox", "sort-inbox", "", 2, [], null, "completed", SIMPLE, "draft"],
  ["Explain a stack trace", "explain-trace", "Finds the line, says why, proposes the smallest change.", 5, ["Billing"], 4 * DAY, "completed", SIMPLE],
  ["Rename the photos", "rename-photos", "By place and day, after asking once.", 2, ["Home"], 5 * DAY, "completed", PAGES],
  ["Test the install guide", "install-guide", "Follows the guide to the letter in an empty folder.", 6, ["Website", "Billing"], 8 * DAY, "completed", SIMPLE],
  ["Summarise a long thread", "long-thread", "Who wants what, what is decided, what is open.", 4, ["Website", "Billing"], 9 * DAY, "completed", BRANCH],
  ["Answer a survey", "answer-survey", "From the product’s own documents, with sources.", 1, ["Billing"], 12 * DAY, "completed", SIMPLE],
  ["Clean up old branches", "old-branches", "Lists what is merged and asks before each.", 3, ["Billing"], 14 * DAY, "completed", PAGES],
  ["Read invoices", "read-invoices", "Amounts, dates and what does not add up.", 8, ["Billing"], 20 * DAY, "completed", PAGES],
  ["Old crawler", "old-crawler", "Replaced by Find dead links.", 12, [], 40 * DAY, "completed", SIMPLE, "archived"],
];

export const PROJECTS = [
  { project_id: "4a1f6f0e-6f0c-4f3e-9d07-5a2c5d0c9b11", name: "Website" },
  { project_id: "8be23c5a-0a55-4a0e-8f0a-1d3f2b7c6e22", name: "Billing" },
  { project_id: "c0d4a9b7-3b1e-4c52-a1c9-7e8f9a0b1c33", name: "Home" },
  { project_id: "d7e8f9a0-1122-4334-8556-77889900aa44", name: "Archive" },
] as const;

export function sampleGraphs(): { row: GraphRow; source: string }[] {
  return SHORT.map(([name, slug, description, version, shared_with, ago, state, source, status = "ready"], n) => ({
    source,
    row: {
      id: id(n + 1),
      name,
      slug,
      description,
      version,
      status,
      shared_with,
      updated_at: NOW - (ago ?? DAY) - HOUR,
      last_execution: ago === null ? null : { execution_id: n === 0 ? "e-running" : n === 4 ? "e-asking" : `e-${n}`, state, at: NOW - ago },
      gained: n === 0 ? [{ what: "tool", name: "run_command" }, { what: "folder", path: "/home/ada/notes", access: "read" }, { what: "token_ceiling", before: 100_000, after: 200_000 }] : [],
    },
  }));
}

export function sampleVersions(version: number): VersionRow[] {
  return Array.from({ length: Math.min(version, 12) }, (_, i) => ({ version: version - i, name: i === 2 ? "before the judges" : null, saved_at: NOW - HOUR - i * 9 * HOUR, lines: 48 - i }));
}

export const POWERS: Powers = {
  tools: [
    { tool: "run_command", ruling: "ask", because: DEFAULT.command },
    { tool: "read_file", ruling: "allow", because: DEFAULT.read },
    { tool: "search_files", ruling: "allow", because: DEFAULT.read },
  ],
  folders: [{ path: "/home/ada/billing", access: "read", problem: null }],
  models: [],
  token_ceiling: 200_000,
  max_concurrency: 4,
  agents_max: 29,
};

/** What the engine would say of a source; here only enough for the samples. */
export function inspect(source: string): Inspection {
  const name = /name:\s*"([^"]*)"/.exec(source)?.[1] ?? null;
  const faults: Inspection["faults"] = [];
  source.split("\n").forEach((line, index) => {
    const at = line.indexOf("@@");
    if (at >= 0) faults.push({ line: index + 1, column: at + 1, message: "unexpected token '@@'", severity: "error" });
  });
  let args_schema: string | null = null;
  if (source.includes("focus:")) {
    args_schema = JSON.stringify({ type: "object", properties: { base: { type: "string", description: "branch to compare with", default: "main" }, focus: { type: "array", items: { type: "string" }, default: ["bugs", "security", "speed"] }, strict: { type: "boolean", description: "two of three agree", default: true }, depth: { type: "string", enum: ["quick", "normal", "thorough"], default: "normal" } }, required: ["base"] });
  } else if (source.includes("folder:")) {
    args_schema = JSON.stringify({ type: "object", properties: { folder: { type: "string" }, out: { type: "string", default: "digest.md" } }, required: ["folder"] });
  }
  return { name, description: null, phases: [], args_schema, tools: [...new Set([...source.matchAll(/tool\("(\w+)"/g)].map((match) => match[1] ?? ""))], models: [], faults };
}

export const TEMPLATES: TemplateRow[] = [
  { id: "folder-digest", name: "Folder digest", description: "Walks a folder and writes counts, longest files and word frequencies. Needs no model.", source: DIGEST },
  { id: "review-change-set", name: "Review a change set", description: "Finds, then judges each finding three times; two must agree.", source: REVIEW },
  { id: "extract-table", name: "Extract a table", description: "Reads texts of a folder and turns each into rows of one table.", source: SIMPLE },
  { id: "ask-before-acting", name: "Ask before acting", description: "Plans a small change, shows it, and acts only if you say so.", source: BRANCH },
  { id: "nightly-report", name: "Nightly report", description: "Runs folder-digest on several folders.", source: PAGES },
];

type ShortRun = [graph: number, state: ExecutionRow["state"], reason: string | null, ago: number, took: number, tokens: number, project: string | null, agent: string | null, delivery?: "delivered" | "outbox" | "attention"];
const RUNS: ShortRun[] = [
  [1, "running", null, 102_000, 0, 92_410, null, null],
  [5, "running", null, 58_000, 0, 4_100, "Website", "Claude Desktop"],
  [1, "failed", "script_error", NOW - FAILED_AT, 232_000, 98_980, "Billing", "Claude Code"],
  [2, "completed", "done", 25 * MIN, 47_000, 12_400, "Billing", "Claude Code"],
  [3, "completed", "done", 170 * MIN, 81_000, 31_200, null, null],
  [6, "cancelled", "not_shared", 187 * MIN, 0, 0, "Website", "Claude Desktop"],
  [4, "completed", "done", 214 * MIN, 129_000, 54_000, "Website", "Claude Desktop", "outbox"],
  [7, "failed", "ceiling_reached", 293 * MIN, 400_000, 198_400, "Home", "Claude Code", "attention"],
  [1, "completed", "done", 20 * HOUR, 178_000, 101_000, null, null],
  [2, "completed", "done", 25 * HOUR, 51_000, 12_100, "Billing", "Claude Code"],
  [3, "failed", "device_restarted", 26 * HOUR, 33_000, 8_000, "Billing", "Claude Code"],
  [4, "completed", "done", 27.5 * HOUR, 134_000, 52_000, "Website", "Claude Desktop"],
  [10, "completed", "done", 28.3 * HOUR, 38_000, 9_000, null, null],
];

export function sampleRuns(): ExecutionRow[] {
  const graphs = sampleGraphs();
  const rows = RUNS.map(([graph, state, reason, ago, took, tokens, project, agent, delivery = "delivered"], n): ExecutionRow => {
    const row = graphs[graph - 1]?.row;
    const started = NOW - ago;
    const running = state === "running";
    return {
      execution_id: ["e-running", "e-asking", "e-failed"][n] ?? `e-run-${n}`,
      graph_id: row?.id ?? "",
      graph: row?.name ?? "",
      slug: row?.slug ?? "",
      version: (row?.version ?? 1) - (n === 2 ? 1 : 0),
      state,
      reason,
      dry: false,
      started_at: started,
      ended_at: running ? null : started + took,
      tokens,
      cost: tokens > 0 ? tokens * 4.4e-6 : null,
      agents_done: running ? 14 : 10,
      agents_failed: state === "failed" ? 2 : 0,
      asking: n === 1 ? 1 : 0,
      command: project === null ? null : { command_id: `5f0c1e77-2b1a-4c3d-9e8f-${String(n).padStart(12, "0")}`, project_id: PROJECTS.find((each) => each.name === project)?.project_id ?? "", project, agent, pickup_wait_ms: n % 3 === 2 ? 20 : 9_800, delivery: deliveryOf(delivery, running, started + took) },
    };
  });
  for (let n = rows.length; n < 128; n++) {
    const base = rows[3 + (n % 10)];
    if (base) rows.push({ ...base, execution_id: `e-run-${n}`, started_at: base.started_at - (2 + n / 10) * DAY, ended_at: base.ended_at === null ? null : base.ended_at - (2 + n / 10) * DAY });
  }
  return rows;
}

function deliveryOf(kind: "delivered" | "outbox" | "attention", running: boolean, ended: number) {
  if (running) return { at: "not_yet" } as const;
  if (kind === "outbox") return { at: "in_outbox", tries: 3, last_error: say("no_answer_within", { seconds: "30" }) } as const;
  if (kind === "attention") return { at: "needs_attention", tries: 4, server_says: asData("command belongs to another device") } as const;
  return { at: "delivered", when: ended + 400 } as const;
}
