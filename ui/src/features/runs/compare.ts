// Two executions beside each other: their facts, their agents by label, their texts. Pure.
import type { ExecutionDetail } from "../../generated/types";
import type { AgentState } from "../../shared/fleet";
import { applyEvents, emptyFleet } from "../../shared/fleet";
import { prettyJson } from "../../shared/format";
import { keptText } from "../../shared/sentence";

export interface AgentsRow {
  label: string;
  a: AgentsSum | undefined;
  b: AgentsSum | undefined;
}
export interface AgentsSum {
  agents: number;
  tokens: number;
  ms: number;
  failed: number;
}

/** Agents with one label are one row: a run of thirty readers against one of forty is read in one line. */
export function agentRows(a: ExecutionDetail, b: ExecutionDetail): AgentsRow[] {
  const [left, right] = [sums(a), sums(b)];
  return [...new Set([...left.keys(), ...right.keys()])].map((label) => ({ label, a: left.get(label), b: right.get(label) }));
}

function sums(detail: ExecutionDetail): Map<string, AgentsSum> {
  const fleet = emptyFleet();
  applyEvents(fleet, detail.events);
  const found = new Map<string, AgentsSum>();
  for (const agent of fleet.agents.values()) {
    const sum = found.get(agent.label) ?? { agents: 0, tokens: 0, ms: 0, failed: 0 };
    found.set(agent.label, { agents: sum.agents + 1, tokens: sum.tokens + agent.tokens, ms: sum.ms + worked(agent, fleet.lastAt), failed: sum.failed + (agent.look === "failed" ? 1 : 0) });
  }
  return found;
}

function worked(agent: AgentState, now: number): number {
  return agent.startedAt === null ? 0 : (agent.endedAt ?? now) - agent.startedAt;
}

/** What an execution gave: its result, or how it failed. */
export function outcomeText(detail: ExecutionDetail): string {
  return detail.result !== null ? prettyJson(detail.result) : detail.error === null ? "" : keptText(detail.error);
}

/** How much more the second is: `+1,200`, `−3`, nothing when equal. */
export function difference(a: number, b: number, write: (n: number) => string): string {
  if (a === b) return "";
  return `${b > a ? "+" : "−"}${write(Math.abs(b - a))}`;
}
