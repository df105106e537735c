// The story of one execution, read from its events: the single source for the live picture, the waterfall and the transcripts.
// Pure and incremental: events may come in batches, twice, or after a reload. `seq` decides; streamed text has none and is known by its place
// in its agent's text.
import type { FleetEvent, RulingWord, Sentence } from "../generated/types";
import type { Look } from "./states";
import { hearText } from "./heard";
import { asData, readBack } from "./sentence";

export interface CallState {
  call: number;
  agent: number | null;
  tool: string;
  input: string;
  ruling: RulingWord;
  rule: Sentence;
  line: number | null;
  called: readonly string[];
  at: number;
  asked: { approval: number; at: number } | null;
  answer: { answer: string; by: Sentence; waitedMs: number } | null;
  result: { ok: boolean; bytes: number; ms: number; preview: string } | null;
}
export type Said = { kind: "text"; text: string } | { kind: "call"; call: number } | { kind: "retry"; why: string; attempt: number; waitMs: number };
export interface AgentState {
  agent: number;
  label: string;
  /** Its label, and from the second of that label on its number: many agents of a wave are called alike. */
  name: string;
  phase: string | null;
  wave: number | null;
  model: string;
  line: number | null;
  /** Slugs of the called Graphs it stands in; its line is of the last. */
  called: readonly string[];
  prompt: string;
  look: Look;
  replayed: boolean;
  queuedAt: number;
  startedAt: number | null;
  endedAt: number | null;
  tokens: number;
  estimated: boolean;
  cost: number | null;
  code: string | null;
  message: Sentence | null;
  said: Said[];
  /** How much of its text is known, in characters as JavaScript counts them. */
  heard: number;
  /** From and to of each wait for the owner; `to` is null while it lasts. */
  waits: { from: number; to: number | null; answer: string | null }[];
  retries: { at: number; why: string }[];
}
export interface PhaseState {
  title: string;
  from: number;
  to: number | null;
}
export interface WaveState {
  wave: number;
  form: string;
  size: number;
  done: number;
  failed: number;
  open: boolean;
  refused: string | null;
}
export interface FleetState {
  seq: number;
  runId: string | null;
  startedAt: number | null;
  lastAt: number;
  ceiling: number;
  spent: number;
  held: number;
  cost: number | null;
  agents: Map<number, AgentState>;
  /** How many agents of each label there were. */
  labels: Map<string, number>;
  calls: Map<number, CallState>;
  phases: PhaseState[];
  waves: Map<number, WaveState>;
  logs: { at: number; text: string; warning: boolean; line: number | null }[];
  asking: number;
  ended: { status: string; reason: string; error: string | null; line: number | null; at: number } | null;
}

export function emptyFleet(): FleetState {
  return { seq: 0, runId: null, startedAt: null, lastAt: 0, ceiling: 0, spent: 0, held: 0, cost: null, agents: new Map(), labels: new Map(), calls: new Map(), phases: [], waves: new Map(), logs: [], asking: 0, ended: null };
}

/** Applies what is new; true when anything was. Events already seen change nothing. */
export function applyEvents(fleet: FleetState, events: readonly FleetEvent[]): boolean {
  let isNew = false;
  for (const event of events) {
    if (event.kind === "agent_text") {
      isNew = hearText(fleet, event) || isNew;
      continue;
    }
    if (event.seq <= fleet.seq) continue;
    isNew = true;
    fleet.seq = event.seq;
    fleet.lastAt = Date.parse(event.at);
    applyOne(fleet, event, fleet.lastAt);
  }
  return isNew;
}

function newAgent(fleet: FleetState, event: Extract<FleetEvent, { kind: "agent_queued" }>, at: number): AgentState {
  const nth = (fleet.labels.get(event.label) ?? 0) + 1;
  fleet.labels.set(event.label, nth);
  return {
    agent: event.agent,
    label: event.label,
    name: nth === 1 ? event.label : `${event.label} ${nth}`,
    phase: event.phase ?? null,
    wave: event.wave ?? null,
    model: event.model,
    line: event.line ?? null,
    called: event.called ?? [],
    prompt: event.prompt,
    look: "waiting",
    replayed: false,
    queuedAt: at,
    startedAt: null,
    endedAt: null,
    tokens: 0,
    estimated: false,
    cost: null,
    code: null,
    message: null,
    said: [],
    heard: 0,
    waits: [],
    retries: [],
  };
}

function applyOne(fleet: FleetState, event: FleetEvent, at: number): void {
  switch (event.kind) {
    case "fleet_started":
      Object.assign(fleet, { runId: event.run_id, ceiling: event.ceiling, startedAt: at });
      return;
    case "phase": {
      const open = fleet.phases.at(-1);
      if (open) open.to ??= at;
      fleet.phases.push({ title: event.title, from: at, to: null });
      return;
    }
    case "log":
      fleet.logs.push({ at, text: event.text, warning: false, line: null });
      return;
    case "warning":
      fleet.logs.push({ at, text: event.text, warning: true, line: event.line ?? null });
      return;
    case "wave_started":
      fleet.waves.set(event.wave, { wave: event.wave, form: event.form, size: event.size, done: 0, failed: 0, open: true, refused: null });
      return;
    case "wave_finished":
      setWave(fleet, event.wave, { done: event.done, failed: event.failed, open: false });
      return;
    case "wave_refused":
      setWave(fleet, event.wave, { refused: event.reason, open: false });
      return;
    case "ledger":
      Object.assign(fleet, { spent: event.spent, held: event.held, ceiling: event.ceiling, cost: event.cost });
      return;
    case "fleet_waiting":
      fleet.asking = event.approvals;
      return;
    case "fleet_resumed":
      fleet.asking = 0;
      return;
    case "fleet_finished":
      finish(fleet, event, at);
      return;
    case "agent_text":
      return;
    case "agent_queued":
      fleet.agents.set(event.agent, newAgent(fleet, event, at));
      return;
    case "agent_started":
    case "model_call":
    case "agent_finished":
    case "retry":
      applyToAgent(fleet, event, at);
      return;
    case "tool_call":
    case "approval_asked":
    case "approval_answered":
    case "tool_result":
      applyToCall(fleet, event, at);
      return;
  }
}

function setWave(fleet: FleetState, wave: number, change: Partial<WaveState>): void {
  const known = fleet.waves.get(wave);
  if (known) Object.assign(known, change);
}

type AgentEvent = Extract<FleetEvent, { kind: "agent_started" | "model_call" | "agent_finished" | "retry" }>;

function applyToAgent(fleet: FleetState, event: AgentEvent, at: number): void {
  const agent = event.agent == null ? undefined : fleet.agents.get(event.agent);
  if (!agent) return;
  switch (event.kind) {
    case "agent_started":
      Object.assign(agent, { look: "running" satisfies Look, startedAt: at });
      return;
    case "model_call":
      agent.tokens += event.input + event.output;
      agent.estimated ||= event.estimated;
      if (event.cost !== null) agent.cost = (agent.cost ?? 0) + event.cost;
      return;
    case "retry":
      agent.retries.push({ at, why: event.why });
      agent.said.push({ kind: "retry", why: event.why, attempt: event.attempt, waitMs: event.wait_ms });
      return;
    case "agent_finished":
      Object.assign(agent, {
        look: event.end === "replayed" ? ("done" satisfies Look) : event.end,
        replayed: event.end === "replayed",
        endedAt: at,
        tokens: event.tokens,
        cost: event.cost ?? agent.cost,
        code: event.code ?? null,
        message: event.message == null ? null : readBack(event.message),
      });
      for (const wait of agent.waits) wait.to ??= at;
      bumpWave(fleet, agent);
      return;
  }
}

function bumpWave(fleet: FleetState, agent: AgentState): void {
  const wave = agent.wave === null ? undefined : fleet.waves.get(agent.wave);
  if (!wave?.open) return;
  if (agent.look === "done") wave.done++;
  else wave.failed++;
}

type CallEvent = Extract<FleetEvent, { kind: "tool_call" | "approval_asked" | "approval_answered" | "tool_result" }>;

function applyToCall(fleet: FleetState, event: CallEvent, at: number): void {
  if (event.kind === "tool_call") {
    const agent = event.agent ?? null;
    fleet.calls.set(event.call, { call: event.call, agent, tool: event.tool, input: event.input, ruling: event.ruling, rule: event.said ?? asData(event.rule), line: event.line ?? null, called: event.called ?? [], at, asked: null, answer: null, result: null });
    if (agent !== null) fleet.agents.get(agent)?.said.push({ kind: "call", call: event.call });
    return;
  }
  const call = fleet.calls.get(event.call);
  if (!call) return;
  const agent = call.agent === null ? undefined : fleet.agents.get(call.agent);
  if (event.kind === "approval_asked") {
    call.asked = { approval: event.approval, at };
    agent?.waits.push({ from: at, to: null, answer: null });
    if (agent) agent.look = "asking";
  } else if (event.kind === "approval_answered") {
    call.answer = { answer: event.answer, by: event.said ?? asData(event.by), waitedMs: event.waited_ms };
    const wait = agent?.waits.at(-1);
    if (wait) Object.assign(wait, { to: at, answer: event.answer });
    if (agent?.look === "asking") agent.look = "running";
  } else {
    call.result = { ok: event.ok, bytes: event.bytes, ms: event.ms, preview: event.preview };
  }
}

function finish(fleet: FleetState, event: Extract<FleetEvent, { kind: "fleet_finished" }>, at: number): void {
  fleet.ended = { status: event.status, reason: event.reason, error: event.error ?? null, line: event.line ?? null, at };
  Object.assign(fleet, { spent: event.tokens, held: 0, asking: 0, cost: event.cost ?? fleet.cost });
  const open = fleet.phases.at(-1);
  if (open) open.to ??= at;
  // Whatever had not ended when the script did was dropped with it.
  for (const agent of fleet.agents.values()) {
    if (agent.endedAt !== null) continue;
    agent.endedAt = at;
    agent.look = "cancelled";
    for (const wait of agent.waits) wait.to ??= at;
  }
}
