import { expect, test } from "vitest";

import { failedRun, runningRun } from "../platform/fake/story";
import { applyEvents, emptyFleet } from "./fleet";
import { hasGap } from "./heard";
import { phaseRows } from "./phases";

const START = Date.parse("2026-11-29T14:04:11Z");

test("events told twice, or in pieces, give the same story", () => {
  const events = failedRun(START);
  const [once, pieces] = [emptyFleet(), emptyFleet()];
  applyEvents(once, events);
  for (let at = 0; at < events.length; at += 7) applyEvents(pieces, events.slice(Math.max(0, at - 3), at + 7));
  expect(pieces).toEqual(once);
  expect(applyEvents(once, events)).toBe(false);
});
test("a missing number is noticed, a known one is not", () => {
  const events = failedRun(START);
  const fleet = emptyFleet();
  applyEvents(fleet, events.slice(0, 4));
  expect(hasGap(fleet, events.slice(5, 8))).toBe(true);
  expect(hasGap(fleet, events.slice(2, 8))).toBe(false);
});
test("phases add up to what the agents spent, and waiting for the owner is told once", () => {
  const fleet = emptyFleet();
  applyEvents(fleet, failedRun(START));
  const rows = phaseRows(fleet);
  expect(rows.map((row) => [row.title, row.tokens])).toEqual([
    ["Read", 6104],
    ["Find", 51506],
    ["Judge", 41370],
  ]);
  expect(rows.reduce((sum, row) => sum + row.tokens, 0)).toBe(fleet.spent);
  expect(rows[2]?.waitedMs).toBe(72_000);
});
test("what had not ended when the script did ends with it", () => {
  const fleet = emptyFleet();
  applyEvents(fleet, failedRun(START));
  expect(fleet.agents.get(14)).toMatchObject({ look: "cancelled", startedAt: null });
  expect(fleet.ended).toMatchObject({ reason: "script_error", line: 44 });
});
test("an agent that asks looks like it until the answer comes", () => {
  const fleet = emptyFleet();
  const events = runningRun(START);
  applyEvents(fleet, events);
  expect(fleet.agents.get(21)?.look).toBe("asking");
  applyEvents(fleet, [{ seq: fleet.seq + 1, at: new Date(START + 101_000).toISOString(), kind: "approval_answered", call: 4, approval: 7, answer: "once", by: "owner", waited_ms: 4000 }]);
  expect(fleet.agents.get(21)?.look).toBe("running");
});
test("streamed text has no number: each piece is heard once, whatever comes twice or in pieces", () => {
  const events = runningRun(START);
  const fleet = emptyFleet();
  applyEvents(fleet, events);
  const text = () => fleet.agents.get(20)?.said.flatMap((said) => (said.kind === "text" ? [said.text] : [])).join("") ?? "";
  const before = text();
  expect(before).toContain("Three writers");
  const heard = fleet.agents.get(20)?.heard ?? 0;
  expect(applyEvents(fleet, events)).toBe(false);
  const piece = (from: number, words: string) => ({ seq: 0, at: new Date(START).toISOString(), kind: "agent_text" as const, agent: 20, from, text: words });
  applyEvents(fleet, [piece(heard, " it is "), piece(heard, " it is "), piece(heard + 4, "is reset.")]);
  expect(text()).toBe(`${before} it is reset.`);
  expect(hasGap(fleet, [piece(heard + 100, "later")])).toBe(true);
  expect(hasGap(fleet, [piece(heard + 13, "a"), piece(heard + 14, "b")])).toBe(false);
});
