// The list's rows with their day headings.
import { t } from "../../app/texts/index.svelte";
import type { CommandOrigin, ExecutionRow } from "../../generated/types";
import { clockTime, dayWord, shortCount, timeOfDay } from "../../shared/format";
import { reasonText } from "../../shared/reasons";

export type Item = { key: string; kind: "day"; title: string } | { key: string; kind: "run"; row: ExecutionRow };

export function withDays(rows: readonly ExecutionRow[], now: number): Item[] {
  const items: Item[] = [];
  let last = "";
  for (const row of rows) {
    const word = row.ended_at === null ? t("runs.now") : dayWord(row.started_at, now);
    const title = word.charAt(0).toUpperCase() + word.slice(1);
    if (title !== last) items.push({ key: `day:${title}:${items.length}`, kind: "day", title });
    last = title;
    items.push({ key: row.execution_id, kind: "run", row });
  }
  return items;
}

export const sizeOf = (item: Item) => (item.kind === "day" ? 36 : 50);

export function starter(row: ExecutionRow): string {
  if (row.command === null) return t(row.dry ? "runs.ownerDry" : "runs.owner");
  return row.command.agent ?? t("approval.anAgent");
}

export const projectName = ({ project }: CommandOrigin): string => project ?? t("runs.projectGone");

/** Who started it and what is worth knowing at a glance. */
export function subline(row: ExecutionRow): string {
  if (row.ended_at === null) {
    if (row.asking > 0) return t("runs.subAsks", { who: starter(row) });
    return t("runs.subRunning", { who: starter(row), done: row.agents_done });
  }
  if (row.state !== "completed" && row.reason !== null && row.reason !== "script_error") return `${starter(row)}, ${reasonText(row.reason)}`;
  return row.command === null ? starter(row) : `${starter(row)}, ${projectName(row.command)}`;
}

export function took(row: ExecutionRow, now: number): string {
  return clockTime((row.ended_at ?? now) - row.started_at);
}

export function corner(row: ExecutionRow): string {
  return row.ended_at === null ? shortCount(row.tokens) : timeOfDay(row.started_at);
}
