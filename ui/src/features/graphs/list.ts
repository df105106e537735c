// Which Graphs the list shows, and in which order.
import type { GraphRow } from "../../generated/types";

export const FILTERS = ["all", "ready", "draft", "archived"] as const;
export type Filter = (typeof FILTERS)[number];

/** Archived ones only where asked for; the last used first, then the last changed. */
export function shown(rows: readonly GraphRow[], query: string, filter: Filter): GraphRow[] {
  const words = query.toLowerCase().split(/\s+/).filter(Boolean);
  const used = (row: GraphRow) => row.last_execution?.at ?? 0;
  return rows
    .filter((row) => (filter === "all" ? row.status !== "archived" : row.status === filter))
    .filter((row) => {
      const text = `${row.name} ${row.slug} ${row.description}`.toLowerCase();
      return words.every((word) => text.includes(word));
    })
    .sort((a, b) => used(b) - used(a) || b.updated_at - a.updated_at);
}
