import { expect, test } from "vitest";

import { changeCounts, diffLines, readUnified } from "./diff";

test("a changed line is one taken away and one added, with its neighbours", () => {
  const lines = diffLines("a\nb\nc\nd\ne\nf\ng\nh", "a\nb\nc\nd\nE\nf\ng\nh", 1);
  expect(lines.map((line) => `${line.kind}:${line.text}`)).toEqual(["gap:", "same:d", "del:e", "add:E", "same:f", "gap:"]);
});
test("equal texts have no changed line", () => expect(diffLines("a\nb", "a\nb")).toEqual([]));
test("a very long change is still told, as one replacement", () => {
  const many = (mark: string) => Array.from({ length: 3000 }, (_, i) => mark + i).join("\n");
  expect(changeCounts(diffLines(many("a"), many("b")))).toEqual({ added: 3000, removed: 3000 });
});
test("a unified diff keeps its line numbers, and nothing of it is left out", () => {
  const lines = readUnified("--- a/x\n+++ b/x\n@@ -94,3 +94,3 @@\n one\n-two\n+2\n three\n\\ No newline at end of file\n");
  expect(lines.map((line) => [line.kind, line.number, line.text])).toEqual([
    ["same", 94, "one"],
    ["del", 95, "two"],
    ["add", 95, "2"],
    ["same", 96, "three"],
    ["gap", null, "No newline at end of file"],
  ]);
});
test("lines that look like file headers inside a change are change", () => {
  expect(readUnified("@@ -1 +1 @@\n--- old\n+++ new\n").map((line) => [line.kind, line.text])).toEqual([
    ["del", "-- old"],
    ["add", "++ new"],
  ]);
});
