// The picture during an execution: which agents and calls belong to which leaf, and what each leaf shows of them.
import type { AgentState, CallState, FleetState } from "../fleet";
import type { Look } from "../states";
import { leavesOf, type Group, type Item, type Leaf, type Phase } from "./model";

export interface Work {
  agents: AgentState[];
  calls: CallState[];
}
export type Works = Map<Leaf, Work>;

const NOT_CALLED: readonly string[] = [];
const isIn = (leaf: Leaf, called: readonly string[]) => (leaf.called ?? NOT_CALLED).join(" ") === called.join(" ");

/** In a called Graph that is not drawn with its content, the call itself owns what happens there. */
function callOwner(leaves: readonly Leaf[], called: readonly string[]): Leaf | undefined {
  for (let depth = called.length - 1; depth >= 0; depth--) {
    const here = leaves.filter((leaf) => leaf.kind === "graph" && isIn(leaf, called.slice(0, depth)));
    const found = here.find((leaf) => !leaf.dynamic && leaf.label === called[depth]) ?? here.find((leaf) => leaf.dynamic);
    if (found) return found;
  }
  return undefined;
}

interface Happened {
  line: number | null;
  called: readonly string[];
}

/** The narrowest call whose lines hold the event's; among equals the one with the same label, then the first. */
function owner(leaves: readonly Leaf[], kind: Leaf["kind"], { line, called }: Happened, label: string): Leaf | undefined {
  if (line === null) return undefined;
  let best: Leaf | undefined;
  for (const leaf of leaves) {
    if ((leaf.kind !== kind && leaf.kind !== "runtime") || !isIn(leaf, called)) continue;
    if (line < leaf.line || line > leaf.end) continue;
    const closer = best === undefined || leaf.end - leaf.line < best.end - best.line;
    const named = best !== undefined && best.line === leaf.line && best.label !== label && leaf.label === label;
    if (closer || named) best = leaf;
  }
  return best ?? callOwner(leaves, called);
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
    const leaf = owner(leaves, "agent", agent, agent.label);
    if (leaf) of(leaf).agents.push(agent);
  }
  for (const call of fleet.calls.values()) {
    if (call.agent !== null) continue;
    const leaf = owner(leaves, call.tool === "ask" ? "ask" : "tool", call, call.tool);
    if (leaf) of(leaf).calls.push(call);
  }
  return works;
}

const SPLIT_MAX = 6;

/** The parts of a leaf are the same objects each time, so that a picture laid out once keeps finding their work. */
const parts = new WeakMap<Leaf, Map<string, Leaf>>();

function partOf(leaf: Leaf, label: string): Leaf {
  const known = parts.get(leaf) ?? new Map<string, Leaf>();
  parts.set(leaf, known);
  const part = known.get(label) ?? { ...leaf, label, dynamic: false };
  known.set(label, part);
  return part;
}

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
        const part = partOf(only, label);
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
