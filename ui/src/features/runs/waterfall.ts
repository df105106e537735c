// Rows of the waterfall: phases and their agents on real time. Pure; positions are fractions of the whole.
import { t } from "../../app/texts/index.svelte";
import { answerWord } from "../../shared/answers";
import type { AgentState, FleetState } from "../../shared/fleet";
import { clockTime, inWords } from "../../shared/format";
import { phaseRows } from "../../shared/phases";
import { sentenceText } from "../../shared/sentence";
import type { Look } from "../../shared/states";

export interface Bar {
  kind: "work" | "wait" | "soft";
  from: number;
  to: number;
}
export interface Label {
  text: string;
  /** `after` the bar, `inside` at its end, or `before` it, wherever there is room. */
  at: "after" | "inside" | "before";
  x: number;
  ask: boolean;
}
export type WaterRow =
  | { key: string; kind: "phase"; title: string; note: string; tokens: number }
  | { key: string; kind: "agent"; agent: number; name: string; look: Look; bars: Bar[]; label: Label; tokens: number; estimated: boolean };

export interface Water {
  rows: WaterRow[];
  ticks: { at: number; text: string }[];
}

export function waterfall(fleet: FleetState, from: number, to: number): Water {
  const length = Math.max(1000, to - from);
  const at = (time: number) => Math.max(0, Math.min(1, (time - from) / length));
  const rows: WaterRow[] = [];
  for (const phase of phaseRows(fleet)) {
    const note = phase.from === null ? "" : inWords((phase.to ?? Math.min(to, fleet.ended?.at ?? to)) - phase.from);
    const waited = phase.waitedMs > 1000 ? t("water.waited", { took: note, waited: inWords(phase.waitedMs) }) : note;
    rows.push({ key: `p${phase.key}`, kind: "phase", title: phase.title ?? t("phase.none"), note: waited, tokens: phase.tokens });
    for (const agent of phase.members) rows.push(agentRow(agent, to, at));
  }
  return { rows, ticks: ticks(length) };
}

function agentRow(agent: AgentState, now: number, at: (time: number) => number): WaterRow {
  const end = agent.endedAt ?? now;
  const start = agent.startedAt ?? agent.queuedAt;
  const bars: Bar[] = [];
  if (agent.startedAt === null) bars.push({ kind: agent.look === "refused" ? "work" : "soft", from: at(start), to: at(end) });
  else {
    // Work, broken by the times in which the owner was waited for.
    let cursor = start;
    for (const wait of agent.waits) {
      if (wait.from > cursor) bars.push({ kind: "work", from: at(cursor), to: at(wait.from) });
      bars.push({ kind: "wait", from: at(wait.from), to: at(wait.to ?? now) });
      cursor = wait.to ?? now;
    }
    if (end > cursor || bars.length === 0) bars.push({ kind: "work", from: at(cursor), to: at(end) });
  }
  return { key: `a${agent.agent}`, kind: "agent", agent: agent.agent, name: agent.name, look: agent.look, bars, label: labelOf(agent, start, end, at), tokens: agent.tokens, estimated: agent.estimated };
}

function labelOf(agent: AgentState, start: number, end: number, at: (time: number) => number): Label {
  const wait = agent.waits.at(-1);
  const ask = wait !== undefined && (agent.look === "done" || agent.look === "asking");
  const text = words(agent, start, end);
  const room = Math.max(0.12, text.length * 0.011); // what the words need, roughly, as a part of the lane
  const [left, right] = [at(start), at(end)];
  if (right + room <= 1) return { text, at: "after", x: right, ask };
  if (right - left >= room + 0.02 && !ask) return { text, at: "inside", x: right, ask };
  // Where neither side has room for all of it, the wider one shows its beginning.
  return left >= 1 - right ? { text, at: "before", x: left, ask } : { text, at: "after", x: right, ask };
}

function words(agent: AgentState, start: number, end: number): string {
  const wait = agent.waits.at(-1);
  const time = clockTime(end - start);
  switch (agent.look) {
    case "asking":
      return t("water.asking");
    case "waiting":
      return t("state.waiting");
    case "running":
      return time;
    case "done":
      if (wait) return t("water.asked", { time: clockTime((wait.to ?? end) - wait.from), answer: wait.answer === null ? "" : answerWord(wait.answer) });
      return agent.replayed ? t("water.replayed") : time;
    case "failed":
    case "refused":
      return agent.message === null ? (agent.code ?? t(`state.${agent.look}`)) : sentenceText(agent.message);
    case "cancelled":
      return agent.message !== null ? sentenceText(agent.message) : t(agent.startedAt === null ? "water.neverStarted" : "state.cancelled");
  }
}

const STEPS_S = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 21_600, 86_400];

/** Round times under the lanes, and the end itself; none so close to the end that the two would touch. */
export function ticks(lengthMs: number): { at: number; text: string }[] {
  const step = (STEPS_S.find((s) => (lengthMs / 1000 / s) <= 5) ?? 86_400) * 1000;
  const out = [];
  for (let time = 0; time < lengthMs; time += step) {
    const at = time / lengthMs;
    if (at < 0.9) out.push({ at, text: clockTime(time) });
  }
  out.push({ at: 1, text: clockTime(lengthMs) });
  return out;
}
