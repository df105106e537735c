import { expect, test } from "vitest";

import { fieldsOf, readArgs, startArgs, withArg } from "./args";

const SCHEMA = JSON.stringify({ type: "object", properties: { base: { type: "string", default: "main" }, n: { type: "integer" }, on: { type: "boolean" }, way: { enum: ["a", "b"] }, list: { type: "array", items: { type: "string" } }, deep: { type: "object" } }, required: ["base"] });

test("each kind of argument has its field, and what a form cannot hold is JSON", () => {
  expect(fieldsOf(SCHEMA)?.map((field) => [field.name, field.kind, field.required])).toEqual([
    ["base", "text", true],
    ["n", "number", false],
    ["on", "switch", false],
    ["way", "choice", false],
    ["list", "list", false],
    ["deep", "json", false],
  ]);
});
test("a schema that names no members leaves the JSON to the owner", () => {
  expect(fieldsOf('{"type":"array"}')).toBeUndefined();
  expect(fieldsOf("not json")).toBeUndefined();
  expect(fieldsOf(null)).toBeUndefined();
});
test("defaults fill the form, an emptied field is left out", () => {
  expect(JSON.parse(startArgs(SCHEMA))).toEqual({ base: "main" });
  expect(JSON.parse(withArg('{"base":"main","n":2}', "n", undefined))).toEqual({ base: "main" });
});
test("text that is no object is no set of arguments", () => {
  expect(readArgs("[1]")).toBeUndefined();
  expect(readArgs("{")).toBeUndefined();
  expect(readArgs(" ")).toEqual({});
});
