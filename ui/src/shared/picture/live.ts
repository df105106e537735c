// The picture during an execution: which agents and calls belong to which leaf, and what each leaf shows of them.
import type { AgentState, CallState, FleetState } from "../fleet";
import type { Look } from "../states";
import { leavesOf, type Group, type Item, type Leaf, type Phase } from "./model";

export interface Work {
  agents: AgentState[];
  calls: CallState[];
}
export type Works = Map<Leaf, Work>;

/** The narrowest call whose lines hold the event's; among equals the one with the same label, then the first. */
function owner(leaves: readonly Leaf[], kind: Leaf["kind"], line: number | null, label: string): Leaf | undefined {
  if (line === null) return undefined;
  let best: Leaf | undefined;
  for (const leaf of leaves) {
    if (leaf.kind !== kind && leaf.kind !== "runtime") continue;
    if (line < leaf.line || line > leaf.end) continue;
    const closer = best === undefined || leaf.end - leaf.line < best.end - best.line;
    const named = best !== undefined && best.line === leaf.line && best.label !== label && leaf.label === label;
    if (closer || named) best = leaf;
  }
  return best;
}

export function worksOf(phases: readonly Phase[], fleet: FleetState): Works {
  const works: Works = new Map();
  const leaves = phases.flatMap((phase) => [...leavesOf(phase.items)]);
  const of = (leaf: Leaf): Work => {
    let work = works.get(leaf);
    if (!work) works.set(leaf, (work = { agents: [], calls: [] }));
    return work;
  };
  for (const agent of fleet.agents.values()) {
    const leaf = owner(leaves, "agent", agent.line, agent.label);
    if (leaf) of(leaf).agents.push(agent);
  }
  for (const call of fleet.calls.values()) {
    if (call.agent !== null) continue;
    const leaf = owner(leaves, call.tool === "ask" ? "ask" : "tool", call.line, call.tool);
    if (leaf) of(leaf).calls.push(call);
  }
  return works;
}

const SPLIT_MAX = 6;

/** A leaf that stands for many becomes one for each name the run gave, as long as those are few. The code's shape stays. */
export function splitByLabel(phases: readonly Phase[], works: Works): Phase[] {
  const item = (each: Item): Item => (each.type === "leaf" ? each : group(each));
  const group = (each: Group): Group => {
    const lanes = each.lanes.flatMap((lane) => {
      const only = soleLeaf(lane.items);
      const work = only && works.get(only);
      if (!each.many || !only || !work || !only.dynamic) return [{ ...lane, items: lane.items.map(item) }];
      const names = [...new Set(work.agents.map((agent) => agent.label))];
      if (names.length < 2 || names.length > SPLIT_MAX) return [lane];
      return names.map((label) => {
        const part: Leaf = { ...only, label, dynamic: false };
        works.set(part, { agents: work.agents.filter((agent) => agent.label === label), calls: [] });
        return { label: "", items: [part] };
      });
    });
    return { ...each, lanes };
  };
  return phases.map((phase) => ({ ...phase, items: phase.items.map(item) }));
}

/** The one leaf of a lane, also when it stands alone in a retry. */
export function soleLeaf(items: readonly Item[]): Leaf | undefined {
  const [only] = items;
  if (items.length !== 1 || only === undefined) return undefined;
  if (only.type === "leaf") return only;
  return only.kind === "retry" && only.lanes.length === 1 ? soleLeaf(only.lanes[0]?.items ?? []) : undefined;
}

export function lookOfWork(work: Work | undefined): Look | undefined {
  if (!work) return undefined;
  const looks = [...work.agents.map((agent) => agent.look), ...work.calls.map(lookOfCall)];
  if (looks.length === 0) return undefined;
  for (const loud of ["asking", "running", "failed", "refused", "waiting"] as const) if (looks.includes(loud)) return loud;
  return looks.every((look) => look === "cancelled") ? "cancelled" : "done";
}

export function lookOfCall(call: CallState): Look {
  if (call.asked && !call.answer) return "asking";
  if (call.ruling === "deny" || (call.answer !== null && call.result === null && /den|nobody/i.test(call.answer.answer))) return "refused";
  if (call.result === null) return "running";
  return call.result.ok ? "done" : "failed";
}
