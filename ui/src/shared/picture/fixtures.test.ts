import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";

import { layout } from "./layout";
import { leavesOf, type Item, type Phase } from "./model";
import { readPicture } from "./read";
import { API_LEAVES } from "./api";

const FOLDER = join(import.meta.dirname, "fixtures");
const fixtures = readdirSync(FOLDER).filter((name) => name.endsWith(".graph.js"));

/** The picture in the form of the expected files: what a person can check against the code. */
function plain(phases: readonly Phase[]) {
  const item = (each: Item): object =>
    each.type === "leaf"
      ? { [each.kind]: each.label, line: each.line, ...(each.dynamic ? { dynamic: true } : {}), ...(each.kind === "runtime" ? { why: each.detail } : {}) }
      : { group: each.kind, label: each.label, line: each.line, ...(each.count === null ? {} : { count: each.count }), ...(each.many ? { many: true } : {}), lanes: each.lanes.map((lane) => ({ ...(lane.label === "" ? {} : { label: lane.label }), items: lane.items.map(item) })) };
  return phases.map((phase) => ({ phase: phase.title, items: phase.items.map(item) }));
}

test.each(fixtures)("the picture of %s is the expected one, nodes and edges", async (name) => {
  const source = readFileSync(join(FOLDER, name), "utf8");
  const reading = readPicture(source);
  if (!reading.ok) throw new Error(reading.message);
  const { edges } = layout(reading.phases, new Set());
  const picture = { phases: plain(reading.phases), edges: edges.map((edge) => `${edge.from} → ${edge.to}`) };
  await expect(`${JSON.stringify(picture, null, 2)}\n`).toMatchFileSnapshot(join(FOLDER, name.replace(".graph.js", ".json")));
});

test.each(fixtures)("every call site of %s is a leaf or decided at run time", (name) => {
  const source = readFileSync(join(FOLDER, name), "utf8");
  const reading = readPicture(source);
  if (!reading.ok) throw new Error(reading.message);
  const lines = new Set(reading.phases.flatMap((phase) => [...leavesOf(phase.items)].flatMap((leaf) => Array.from({ length: leaf.end - leaf.line + 1 }, (_, i) => leaf.line + i))));
  // A plain look at the text is enough here: the fixtures shadow no API name on a line of its own call.
  const code = source.split("\n").map((line) => line.replace(/\/\/.*$/, ""));
  code.forEach((line, index) => {
    const call = new RegExp(String.raw`(?<![.\w"'\`])(?:${API_LEAVES.join("|")})\(`).exec(line);
    if (call && !line.includes("not the API")) expect(lines, `line ${index + 1} of ${name}: ${line.trim()}`).toContain(index + 1);
  });
});

test("a Graph of 500 lines is read and laid out in less time than a frame of typing allows", () => {
  const body = Array.from({ length: 120 }, (_, i) => `const r${i} = await parallel(\n  args.items.map((item) => () =>\n    agent("Read " + item, { label: "Read ${i}" })));\n`).join("\n");
  const source = `export const meta = { name: "Long" };\n${body}`;
  expect(source.split("\n").length).toBeGreaterThan(480);
  const reading = readPicture(source);
  if (!reading.ok) throw new Error(reading.message);
  expect(reading.leaves).toBe(120);
  expect(layout(reading.phases, new Set()).leaves).toHaveLength(120);
});

test("a Graph with a syntax error has no picture but says where", () => {
  const reading = readPicture("const a = 1;\nconst b = ;\n");
  expect(reading).toMatchObject({ ok: false, line: 2, column: 11 });
});
