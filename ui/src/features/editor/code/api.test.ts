import { CompletionContext } from "@codemirror/autocomplete";
import { javascript } from "@codemirror/lang-javascript";
import { ensureSyntaxTree } from "@codemirror/language";
import { EditorState } from "@codemirror/state";
import { expect, test } from "vitest";

import { apiCompletions, apiHelp, callAround, entryAt, help } from "./api";
import { API } from "./names";

/** A text with its cursor at `|`. */
function at(text: string): EditorState {
  const cursor = text.indexOf("|");
  const state = EditorState.create({ doc: text.replace("|", ""), selection: { anchor: cursor }, extensions: [javascript(), apiHelp] });
  ensureSyntaxTree(state, state.doc.length, 1000);
  return state;
}
const cursor = (state: EditorState) => state.selection.main.head;
const labels = (text: string, explicit = false) => apiCompletions(new CompletionContext(at(text), cursor(at(text)), explicit))?.options.map((option) => option.label) ?? [];

test.each(API.map((entry) => [entry.name, entry] as const))("%s is completed, explained on hover, and its signature is shown inside its brackets", (name, entry) => {
  expect(labels(`const a = await ${name.slice(0, 2)}|`)).toContain(name);
  expect(entry.doc.length).toBeGreaterThan(10);
  const hovered = at(`const a = |${name};`);
  expect(entryAt(hovered, cursor(hovered))?.entry).toBe(entry);
  if (entry.declaration.startsWith("function")) {
    const inside = at(`await ${name}("x", |)`);
    expect(callAround(inside)?.entry).toBe(entry);
  }
});
test.each(["'age|'", "// age|", "`age|`", "x.age|"])("nothing is completed in %s", (text) => expect(labels(text)).toEqual([]));
test("asked for, the whole API is listed where nothing is typed yet", () => expect(labels("const a = |", true)).toEqual(expect.arrayContaining(API.map((entry) => entry.name))));
test.each(["const a = 'age|nt';", "// |agent", "x.|agent", "({ |agent: 1 })"])("nothing is explained in %s", (text) => {
  const state = at(text);
  expect(entryAt(state, cursor(state))).toBeUndefined();
});
test("the signature comes with an opening bracket, stays to its end, and is not that of a call around a function", () => {
  let state = at("await agent|");
  expect(state.field(help)).toBeNull();
  state = state.update({ changes: { from: cursor(state), insert: "(" }, selection: { anchor: cursor(state) + 1 }, userEvent: "input.type" }).state;
  expect(state.field(help)).not.toBeNull();
  const inThunk = at("await parallel([() => { |; }])");
  expect(callAround(inThunk)).toBeUndefined();
});
