import { expect, test } from "vitest";

import type { AgentState } from "../fleet";
import { emptyFleet } from "../fleet";
import { calledSlugs, expandCalls } from "./expand";
import { worksOf } from "./live";
import { leavesOf, type Phase } from "./model";
import { readPicture } from "./read";

const read = (source: string): Phase[] => {
  const reading = readPicture(source);
  if (!reading.ok) throw new Error(reading.message);
  return reading.phases;
};
const OUTER = read('const a = await agent("First", { label: "first" });\nconst b = await graph("inner", {});\nconst c = await graph(args.slug, {});\n');
const INNER = read('const x = await agent("In", { label: "inside" });\nawait graph("outer", {});\n');
const known = (slug: string) => (slug === "inner" ? INNER : slug === "outer" ? OUTER : undefined);
const leaves = (phases: readonly Phase[]) => phases.flatMap((phase) => [...leavesOf(phase.items)]);

const agent = (id: number, line: number, called: string[]): AgentState => ({ agent: id, label: "x", name: "x", phase: null, wave: null, model: "m", line, called, prompt: "", look: "running", replayed: false, queuedAt: 0, startedAt: 0, endedAt: null, tokens: 0, estimated: false, cost: null, code: null, message: null, said: [], heard: 0, waits: [], retries: [] });
const at = (phases: readonly Phase[], agents: AgentState[]) => {
  const fleet = emptyFleet();
  for (const each of agents) fleet.agents.set(each.agent, each);
  return [...worksOf(phases, fleet)].map(([leaf, work]) => [leaf.label, work.agents.map((each) => each.agent)]);
};

test("a called Graph is drawn with what is in it, but never inside itself, and a name known only at run time stays a call", () => {
  expect([...calledSlugs(OUTER)]).toEqual(["inner"]);
  const labels = leaves(expandCalls(OUTER, known)).map((leaf) => [leaf.label, leaf.kind, (leaf.called ?? []).join(">")]);
  expect(labels).toEqual([
    ["first", "agent", ""],
    ["inside", "agent", "inner"],
    ["first", "agent", "inner>outer"],
    ["inner", "graph", "inner>outer"],
    ["args.slug", "graph", "inner>outer"],
    ["args.slug", "graph", ""],
  ]);
});
test("what a called Graph's agent does is never drawn on a line of the caller", () => {
  // Line 1 of the called Graph, not of this one.
  expect(at(OUTER, [agent(1, 1, ["inner"])])).toEqual([["inner", [1]]]);
  expect(at(expandCalls(OUTER, known), [agent(1, 1, ["inner"]), agent(2, 1, [])])).toEqual([
    ["inside", [1]],
    ["first", [2]],
  ]);
});
test("a call decided at run time owns what its Graph does", () => {
  expect(at(OUTER, [agent(1, 1, ["elsewhere"])])).toEqual([["args.slug", [1]]]);
});
