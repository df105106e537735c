import { expect, test } from "vitest";

import { formatCode } from "./format";

test("a Graph is formatted as the module it is, with await and return at its top level", async () => {
  const made = await formatCode("export const meta={name:'A'}\nconst a=await agent('Read',{label:'read'})\nif(!a)return null\nreturn {a}\n", 0);
  expect(made).toMatchObject({ ok: true, text: 'export const meta = { name: "A" };\nconst a = await agent("Read", { label: "read" });\nif (!a) return null;\nreturn { a };\n' });
});
test("code that cannot be read stays as it is, and its line is named", async () => {
  expect(await formatCode("const a = 1;\nconst b = ;\n", 0)).toMatchObject({ ok: false, line: 2 });
});
