// Completion, hover and signature help for the Graph API, from the engine's own definitions. Everything shown is text.
import { snippetCompletion, type Completion, type CompletionContext, type CompletionResult } from "@codemirror/autocomplete";
import { syntaxTree } from "@codemirror/language";
import { Prec, StateEffect, StateField, type EditorState, type Extension } from "@codemirror/state";
import { EditorView, hoverTooltip, keymap, showTooltip, type Tooltip } from "@codemirror/view";

import { API, signature, type ApiEntry } from "./names";

const KEYWORDS = ["await", "async", "const", "let", "for", "of", "if", "else", "return", "while", "try", "catch", "throw", "function"];

const options: Completion[] = [
  ...API.map((entry) => {
    const base: Completion = { label: entry.name, detail: signature(entry), info: () => docOf(entry), type: "function", boost: 1 };
    return entry.declaration.startsWith("function") ? snippetCompletion(`${entry.name}(\${})`, base) : base;
  }),
  ...KEYWORDS.map((label): Completion => ({ label, type: "keyword" })),
];

/** The API's names where a name may stand: not after a dot, not in strings and comments. */
export function apiCompletions(context: CompletionContext): CompletionResult | null {
  const word = context.matchBefore(/[\w$]+/);
  if (!word && !context.explicit) return null;
  const node = syntaxTree(context.state).resolveInner(context.pos, -1);
  if (/String|Comment|TemplateString|PropertyName|PropertyDefinition/.test(node.name)) return null;
  const from = word?.from ?? context.pos;
  if (context.state.sliceDoc(from - 1, from) === ".") return null;
  return { from, options, validFor: /^[\w$]*$/ };
}

function docOf(entry: ApiEntry): HTMLElement {
  const dom = document.createElement("div");
  dom.className = "cm-api-doc";
  dom.appendChild(document.createElement("code")).textContent = entry.declaration;
  dom.appendChild(document.createElement("p")).textContent = entry.doc;
  if (entry.example !== "") dom.appendChild(document.createElement("pre")).textContent = entry.example;
  return dom;
}

const known = (name: string) => API.find((entry) => entry.name === name);

/** What there is to say of the word at a place: nothing in strings and comments, and nothing of a property that only shares a name. */
export function entryAt(state: EditorState, at: number): { entry: ApiEntry; from: number; to: number } | undefined {
  const word = state.wordAt(at);
  const node = word && syntaxTree(state).resolveInner(word.from, 1);
  if (!word || !node || !/^Variable(Name|Definition)$/.test(node.name)) return undefined;
  const entry = known(state.sliceDoc(word.from, word.to));
  return entry && { entry, from: word.from, to: word.to };
}

const hover = hoverTooltip((view, at): Tooltip | null => {
  const found = entryAt(view.state, at);
  return found ? { pos: found.from, end: found.to, above: true, create: () => ({ dom: docOf(found.entry) }) } : null;
});

/** The API call around the cursor. */
export function callAround(state: EditorState): { entry: ApiEntry; at: number } | undefined {
  const head = state.selection.main.head;
  for (let node = syntaxTree(state).resolveInner(head, -1); node.parent; node = node.parent) {
    // A function between cursor and call has arguments of its own.
    if (node.name === "Block") return undefined;
    if (node.name !== "ArgList" || head <= node.from) continue;
    const callee = node.parent.firstChild;
    const entry = callee?.name === "VariableName" ? known(state.sliceDoc(callee.from, callee.to)) : undefined;
    return entry && callee ? { entry, at: callee.from } : undefined;
  }
  return undefined;
}

const hideHelp = StateEffect.define<null>();
/** Comes with an opening bracket or a comma, stays while the cursor is inside, goes with Escape. */
export const help = StateField.define<Tooltip | null>({
  create: () => null,
  update(shown, tr) {
    if (tr.effects.some((effect) => effect.is(hideHelp))) return null;
    if (!tr.docChanged && !tr.selection) return shown;
    let asked = false;
    tr.changes.iterChanges((_fromA, _toA, _fromB, _toB, inserted) => (asked ||= /[(,]/.test(inserted.toString())));
    if (shown === null && !(asked && tr.isUserEvent("input"))) return null;
    const call = callAround(tr.state);
    if (!call) return null;
    return { pos: call.at, above: true, strictSide: false, create: () => ({ dom: helpOf(call.entry) }) };
  },
  provide: (field) => showTooltip.from(field),
});

function helpOf(entry: ApiEntry): HTMLElement {
  const dom = document.createElement("div");
  dom.className = "cm-api-doc";
  dom.appendChild(document.createElement("code")).textContent = entry.declaration;
  return dom;
}

const escape = (view: EditorView): boolean => {
  if (view.state.field(help) === null) return false;
  view.dispatch({ effects: hideHelp.of(null) });
  return true;
};

export const apiHelp: Extension = [hover, help, Prec.high(keymap.of([{ key: "Escape", run: escape }]))];
