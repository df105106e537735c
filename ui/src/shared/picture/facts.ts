// What a leaf and a group say in their second line: the plan's words, or the run's numbers.
import { t, tn, type TextKey } from "../../app/texts/index.svelte";
import type { FleetState } from "../fleet";
import { clockTime, inWords, shortCount } from "../format";
import type { Look } from "../states";
import type { PlacedGroup, PlacedLeaf } from "./layout";
import { lookOfWork, type Work, type Works } from "./live";
import { leavesOf } from "./model";

export interface Facts {
  /** Undefined in the plan: nothing has happened. */
  look: Look | undefined;
  left: string;
  right: string;
  /** Part done, for a leaf that stands for many. */
  progress: number | undefined;
}

const RUNTIME_WHY: Record<string, TextKey> = { recursion: "picture.why.recursion", depth: "picture.why.depth", list: "picture.why.list", function: "picture.why.function", reference: "picture.why.reference", unreached: "picture.why.unreached" };

export function whyText(detail: string): string {
  const key = RUNTIME_WHY[detail];
  return key ? t(key) : t("picture.runtime");
}

function plan(placed: PlacedLeaf): Facts {
  const { leaf } = placed;
  const kind = leaf.kind === "runtime" ? t("picture.runtime") : leaf.kind === "agent" && leaf.detail !== "" ? leaf.detail : leaf.kind === "tool" && leaf.detail !== leaf.label ? leaf.detail : t(`picture.kind.${leaf.kind}`);
  const right = placed.tries !== null ? tn("picture.tries", placed.tries) : placed.many ? t("picture.each") : "";
  return { look: undefined, left: kind, right, progress: undefined };
}

export function leafFacts(placed: PlacedLeaf, work: Work | undefined, fleet: FleetState | undefined, now: number): Facts {
  if (!fleet || fleet.startedAt === null) return plan(placed);
  const look = lookOfWork(work);
  if (!work || look === undefined) return { look: fleet.ended ? "cancelled" : "waiting", left: t(fleet.ended ? "picture.notReached" : "picture.notYet"), right: "", progress: undefined };
  const { agents, calls } = work;
  if (agents.length === 0) return callFacts(look, calls);
  const tokens = agents.reduce((sum, agent) => sum + agent.tokens, 0);
  if (agents.length > 1) {
    const done = agents.filter((agent) => agent.endedAt !== null).length;
    return { look, left: look === "asking" ? t("picture.asks") : t("picture.ofN", { done, n: agents.length }), right: look === "asking" ? "" : shortCount(tokens), progress: look === "done" ? undefined : done / agents.length };
  }
  const agent = agents[0];
  if (!agent) return plan(placed);
  const time = agent.startedAt === null ? "" : clockTime((agent.endedAt ?? now) - agent.startedAt);
  if (look === "asking") return { look, left: t("picture.asks"), right: time, progress: undefined };
  if (look === "failed" || look === "refused") return { look, left: agent.code ?? t(`state.${look}`), right: time, progress: undefined };
  if (look === "waiting") return { look, left: t("state.waiting"), right: "", progress: undefined };
  const tries = agent.retries.length > 0 ? t("picture.try", { n: agent.retries.length + 1 }) : "";
  return { look, left: tries === "" ? shortCount(tokens) : `${shortCount(tokens)}, ${tries}`, right: time, progress: undefined };
}

function callFacts(look: Look, calls: Work["calls"]): Facts {
  const last = calls.at(-1);
  if (!last) return { look, left: "", right: "", progress: undefined };
  if (calls.length > 1) {
    const done = calls.filter((call) => call.result !== null).length;
    return { look, left: t("picture.ofN", { done, n: calls.length }), right: "", progress: look === "done" ? undefined : done / calls.length };
  }
  return { look, left: look === "asking" ? t("picture.asks") : t(`picture.ruled.${last.ruling}`), right: last.result ? inWords(last.result.ms) : "", progress: undefined };
}

/** "3 of 3" on a group: ended and known agents and calls inside it. */
export function groupFacts(placed: PlacedGroup, works: Works, fleet: FleetState | undefined): { look: Look | undefined; right: string } {
  const { group } = placed;
  const size = group.kind === "retry" ? "" : group.count !== null ? t("picture.count", { n: group.count }) : group.many ? t("picture.each") : "";
  if (!fleet || fleet.startedAt === null) return { look: undefined, right: placed.collapsed ? tn("picture.inside", placed.leaves) : size };
  const inside = [...leavesOf([group])].flatMap((leaf) => works.get(leaf) ?? []);
  const agents = inside.flatMap((work) => work.agents);
  const calls = inside.flatMap((work) => work.calls);
  const all = agents.length + calls.length;
  if (all === 0) return { look: undefined, right: size };
  const done = agents.filter((agent) => agent.endedAt !== null).length + calls.filter((call) => call.result !== null).length;
  return { look: lookOfWork({ agents, calls }), right: t("picture.ofN", { done, n: all }) };
}
