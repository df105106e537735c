import { afterEach, expect, test } from "vitest";

import { useLanguage } from "../../app/texts/index.svelte";
import { crowdedRun, failedRun } from "../../platform/fake/story";
import { applyEvents, emptyFleet } from "../../shared/fleet";
import { ticks, waterfall } from "./waterfall";

afterEach(() => useLanguage("en"));
const START = Date.parse("2026-11-29T13:02:11Z");

test("the wait for the owner is a bar of its own between two of work", () => {
  const fleet = emptyFleet();
  applyEvents(fleet, failedRun(START));
  const { rows } = waterfall(fleet, START, START + 232_000);
  const row = rows.find((each) => each.kind === "agent" && each.name === "Security 1");
  expect(row).toMatchObject({ bars: [{ kind: "work" }, { kind: "wait" }, { kind: "work" }], label: { text: "asked 1:12, allowed once", ask: true } });
});
test("a refused agent and one that never started say so", () => {
  const fleet = emptyFleet();
  applyEvents(fleet, failedRun(START));
  const { rows } = waterfall(fleet, START, START + 232_000);
  const label = (name: string) => rows.find((each) => each.kind === "agent" && each.name === name);
  expect(label("Speed 2")).toMatchObject({ look: "refused", label: { text: "The token ceiling is reached (98980 of 100000 spent): nothing new is started." } });
  expect(label("Find speed"), "its words are longer than either side: they stand where more of them is seen").toMatchObject({ label: { at: "after" } });
  expect(label("Write report")).toMatchObject({ look: "cancelled", bars: [{ kind: "soft" }], label: { text: "never started, the script had ended", at: "before" } });
});
test("why an agent failed is said in the window's language", async () => {
  await useLanguage("de");
  const fleet = emptyFleet();
  applyEvents(fleet, failedRun(START));
  const labels = waterfall(fleet, START, START + 232_000).rows.map((row) => (row.kind === "agent" ? row.label.text : ""));
  expect(labels).toContain("120 s lang kam kein Byte vom Modell");
  expect(labels).toContain("die Antwort passt auch nach 2 weiteren Versuchen nicht zum Schema: sie enthält keinen vollständigen JSON-Wert");
});
test("500 agents make 505 rows within every bound", () => {
  const fleet = emptyFleet();
  applyEvents(fleet, crowdedRun(START, 500));
  const { rows } = waterfall(fleet, START, START + 505_000);
  expect(rows).toHaveLength(505);
  for (const row of rows) if (row.kind === "agent") for (const bar of row.bars) expect(bar.from >= 0 && bar.to <= 1 && bar.from <= bar.to).toBe(true);
});
test("ticks are round and the end is one of them", () => {
  expect(ticks(232_000).map((tick) => tick.text)).toEqual(["0:00", "1:00", "2:00", "3:00", "3:52"]);
  expect(ticks(8_000).map((tick) => tick.text).at(-1)).toBe("0:08");
});
