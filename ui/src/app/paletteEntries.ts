// What the palette can find, and how a few letters find it. Pure: rows in, groups out.
import type { ExecutionRow, GraphRow } from "../generated/types";
import { clockTime, when } from "../shared/format";
import { lookOfExecution, type Look } from "../shared/states";
import type { Command } from "./commands.svelte";
import { nav } from "./nav.svelte";
import { t } from "./texts/index.svelte";

export interface Entry {
  id: string;
  text: string;
  hint: string;
  icon: string;
  look?: Look;
  keys?: string;
  run: () => void;
  /** Ctrl/Cmd-Enter. */
  other?: () => void;
}
export type Part = { text: string; hit: boolean };
export type Found = { entry: Entry; parts: readonly Part[]; index: number };

const SHOWN_PER_GROUP = 6;

export function commandEntries(commands: readonly Command[]): Entry[] {
  return commands
    .filter((command) => command.id !== "palette")
    .map((command) => ({ id: command.id, text: command.title(), hint: command.hint?.() ?? "", icon: command.icon, ...(command.keys ? { keys: command.keys } : {}), run: command.run }));
}

export function graphEntries(rows: readonly GraphRow[], now: number): Entry[] {
  return rows.map((row) => ({
    id: row.id,
    text: row.name,
    hint: row.last_execution ? t("palette.lastRun", { when: when(row.last_execution.at, now) }) : t("palette.neverRun", { version: row.version }),
    icon: "graphs",
    run: () => nav.go("editor", row.id),
    other: () => nav.go("editor", row.id, { run: "1" }),
  }));
}

export function runEntries(rows: readonly ExecutionRow[], now: number): Entry[] {
  return rows.map((row) => ({
    id: row.execution_id,
    text: row.graph,
    hint: row.ended_at === null ? t("graphs.running", { time: clockTime(now - row.started_at) }) : `${when(row.started_at, now)}, ${t(`state.${lookOfExecution(row.state)}`)}`,
    icon: "runs",
    look: lookOfExecution(row.state, row.asking),
    run: () => nav.go("runs", row.execution_id),
  }));
}

/** Every word of the query must occur; the place of the first is marked. Word starts rank before middles. */
export function match(query: string, text: string): { rank: number; parts: Part[] } | undefined {
  const words = query.toLowerCase().split(/\s+/).filter(Boolean);
  const low = text.toLowerCase();
  if (words.length === 0) return { rank: 2, parts: [{ text, hit: false }] };
  if (!words.every((word) => low.includes(word))) return undefined;
  const first = words[0] ?? "";
  const at = low.indexOf(first);
  // A letter whose lower case is longer would shift the mark; then nothing is marked rather than the wrong letters.
  if (low.length !== text.length) return { rank: 2, parts: [{ text, hit: false }] };
  const rank = at === 0 ? 0 : /\W/.test(low[at - 1] ?? "") ? 1 : 2;
  const parts = [
    { text: text.slice(0, at), hit: false },
    { text: text.slice(at, at + first.length), hit: true },
    { text: text.slice(at + first.length), hit: false },
  ].filter((part) => part.text !== "");
  return { rank, parts };
}

export function groupEntries(query: string, all: { graphs: readonly Entry[]; commands: readonly Entry[]; runs: readonly Entry[] }): { title: string; found: Found[] }[] {
  let index = 0;
  const groups = [
    { title: t("palette.graphs"), entries: all.graphs },
    { title: t("palette.commands"), entries: all.commands },
    { title: t("palette.runs"), entries: all.runs },
  ];
  return groups
    .map(({ title, entries }) => ({
      title,
      found: entries
        .map((entry) => ({ entry, hit: match(query, entry.text) }))
        .filter((each) => each.hit !== undefined)
        .sort((a, b) => (a.hit?.rank ?? 0) - (b.hit?.rank ?? 0))
        .slice(0, query.trim() === "" ? 4 : SHOWN_PER_GROUP)
        .map(({ entry, hit }) => ({ entry, parts: hit?.parts ?? [], index: index++ })),
    }))
    .filter((group) => group.found.length > 0);
}
