// Agents gathered by phase, in the order the phases began. What ran before any phase stands first, without a name.
import type { AgentState, FleetState } from "./fleet";
import type { Look } from "./states";

export interface PhaseRow {
  key: string;
  title: string | null;
  look: Look;
  agents: number;
  tokens: number;
  from: number | null;
  to: number | null;
  /** How long the owner was waited for, overlaps counted once. */
  waitedMs: number;
  members: AgentState[];
}

export function phaseRows(fleet: FleetState): PhaseRow[] {
  const rows = new Map<string, PhaseRow>();
  const row = (title: string | null, from: number | null, to: number | null): PhaseRow => {
    const key = title === null ? "" : `=${title}`;
    let known = rows.get(key);
    if (!known) rows.set(key, (known = { key, title, look: "waiting", agents: 0, tokens: 0, from, to, waitedMs: 0, members: [] }));
    return known;
  };
  const loose = [...fleet.agents.values()].some((agent) => agent.phase === null);
  if (loose) row(null, fleet.startedAt, fleet.phases[0]?.from ?? null);
  for (const phase of fleet.phases) row(phase.title, phase.from, phase.to);
  for (const agent of fleet.agents.values()) row(agent.phase, null, null).members.push(agent);
  for (const each of rows.values()) {
    each.agents = each.members.length;
    each.tokens = each.members.reduce((sum, agent) => sum + agent.tokens, 0);
    each.look = lookOf(each, fleet);
    each.waitedMs = union(each.members.flatMap((agent) => agent.waits.map((wait) => [wait.from, wait.to ?? fleet.lastAt] as const)));
  }
  return [...rows.values()];
}

function lookOf(row: PhaseRow, fleet: FleetState): Look {
  const has = (look: Look) => row.members.some((agent) => agent.look === look);
  if (has("asking")) return "asking";
  if (has("running")) return "running";
  const open = row.to === null && fleet.ended === null;
  if (open && row.from !== null) return "running";
  if (has("waiting")) return "waiting";
  if (row.members.length > 0 && row.members.every((agent) => agent.look === "failed")) return "failed";
  if (row.members.length > 0 && row.members.every((agent) => agent.look === "cancelled")) return "cancelled";
  return "done";
}

function union(spans: (readonly [number, number])[]): number {
  let total = 0;
  let end = -Infinity;
  for (const [from, to] of spans.sort((a, b) => a[0] - b[0])) {
    total += Math.max(0, to - Math.max(from, end));
    end = Math.max(end, to);
  }
  return total;
}
