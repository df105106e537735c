// CodeMirror, dressed for Graphs. Loaded when an editor is first shown; nothing else in the window names CodeMirror.
import { autocompletion, closeBrackets, closeBracketsKeymap, completionKeymap } from "@codemirror/autocomplete";
import { defaultKeymap, history, historyField, historyKeymap, indentWithTab } from "@codemirror/commands";
import { javascript } from "@codemirror/lang-javascript";
import { bracketMatching, codeFolding, foldEffect, foldable, foldKeymap, forceParsing, indentOnInput, indentUnit, syntaxHighlighting } from "@codemirror/language";
import { lintGutter, lintKeymap, setDiagnostics, type Diagnostic } from "@codemirror/lint";
import { highlightSelectionMatches, openSearchPanel, search, searchKeymap } from "@codemirror/search";
import { Compartment, EditorState, StateEffect, StateField, type Extension } from "@codemirror/state";
import { crosshairCursor, Decoration, drawSelection, EditorView, highlightSpecialChars, keymap, lineNumbers, rectangularSelection, type DecorationSet } from "@codemirror/view";

import { t, tn } from "../../../app/texts/index.svelte";
import type { SourceFault } from "../../../generated/types";
import { apiCompletions, apiHelp } from "./api";
import { apiWords, codeLook, highlight } from "./look";

export interface CodeDoors {
  changed: (source: string) => void;
  /** The line of the cursor, counted from 1. */
  moved: (line: number) => void;
}
export interface CodeHandle {
  source: () => string;
  replace: (source: string) => void;
  goTo: (line: number, column?: number | null) => void;
  mark: (line: number | null) => void;
  showFaults: (faults: readonly SourceFault[]) => void;
  find: () => void;
  focus: () => void;
  /** What a reloaded window needs to go on: text, cursor and undo. */
  save: () => string;
  destroy: () => void;
}

const FOLD_META_LINES = 8; // a longer meta hides the program; it opens folded

const setMark = StateEffect.define<number | null>();
const markField = StateField.define<DecorationSet>({
  create: () => Decoration.none,
  update(marks, tr) {
    for (const effect of tr.effects) {
      if (!effect.is(setMark)) continue;
      if (effect.value === null || effect.value > tr.state.doc.lines) return Decoration.none;
      return Decoration.set([Decoration.line({ class: "cm-here" }).range(tr.state.doc.line(effect.value).from)]);
    }
    return marks.map(tr.changes);
  },
  provide: (field) => EditorView.decorations.from(field),
});

function extensions(doors: CodeDoors, readOnly: Compartment): Extension[] {
  return [
    lineNumbers(),
    highlightSpecialChars(),
    history(),
    drawSelection(),
    rectangularSelection(),
    crosshairCursor(),
    EditorState.allowMultipleSelections.of(true),
    indentOnInput(),
    indentUnit.of("  "),
    bracketMatching(),
    closeBrackets(),
    javascript(),
    syntaxHighlighting(highlight),
    apiWords,
    autocompletion({ override: [apiCompletions], icons: false }),
    apiHelp,
    highlightSelectionMatches(),
    search({ top: true }),
    lintGutter(),
    markField,
    codeFolding({ preparePlaceholder: (state, range) => state.doc.lineAt(range.to).number - state.doc.lineAt(range.from).number + 1, placeholderDOM: foldMark }),
    readOnly.of([]),
    EditorView.contentAttributes.of({ "aria-label": t("editor.codeLabel"), "data-testid": "code-text", spellcheck: "false", tabindex: "0" }),
    EditorState.phrases.of(phrases()),
    keymap.of([...closeBracketsKeymap, ...completionKeymap, ...searchKeymap, ...historyKeymap, ...foldKeymap, ...lintKeymap, indentWithTab, ...defaultKeymap.filter((each) => each.key !== "Mod-Enter")]),
    EditorView.updateListener.of((update) => {
      if (update.docChanged) doors.changed(update.state.doc.toString());
      if (update.selectionSet || update.docChanged) doors.moved(update.state.doc.lineAt(update.state.selection.main.head).number);
    }),
    codeLook,
  ];
}

function foldMark(_view: EditorView, unfold: (event: Event) => void, lines: unknown): HTMLElement {
  const mark = document.createElement("span");
  mark.className = "cm-foldPlaceholder";
  mark.textContent = tn("editor.folded", Number(lines));
  mark.title = t("editor.unfold");
  mark.onclick = unfold;
  return mark;
}

function phrases(): Record<string, string> {
  return {
    Find: t("find.find"),
    Replace: t("find.replace"),
    next: t("find.next"),
    previous: t("find.previous"),
    all: t("find.all"),
    "match case": t("find.case"),
    regexp: t("find.regexp"),
    "by word": t("find.word"),
    replace: t("find.replaceOne"),
    "replace all": t("find.replaceAll"),
    close: t("do.close"),
  };
}

/** `kept` is an earlier `save()`; when it cannot be read the source stands alone. */
export function openCode(parent: HTMLElement, source: string, kept: string | null, doors: CodeDoors): CodeHandle {
  const readOnly = new Compartment();
  const config = { doc: source, extensions: extensions(doors, readOnly) };
  const view = new EditorView({ parent, state: restore(kept, config) ?? EditorState.create(config) });
  foldMeta(view);

  return {
    source: () => view.state.doc.toString(),
    replace(next) {
      if (next !== view.state.doc.toString()) view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: next } });
    },
    goTo(line, column) {
      const at = view.state.doc.line(Math.max(1, Math.min(line, view.state.doc.lines)));
      const anchor = Math.min(at.to, at.from + Math.max(0, (column ?? 1) - 1));
      view.dispatch({ selection: { anchor }, effects: [setMark.of(at.number), EditorView.scrollIntoView(anchor, { y: "center" })] });
    },
    mark: (line) => view.dispatch({ effects: setMark.of(line) }),
    showFaults: (faults) => view.dispatch(setDiagnostics(view.state, faults.map((fault) => diagnostic(view.state, fault)))),
    find: () => openSearchPanel(view),
    focus: () => view.focus(),
    save: () => JSON.stringify(view.state.toJSON({ history: historyField })),
    destroy: () => view.destroy(),
  };
}

function restore(kept: string | null, config: { doc: string; extensions: Extension[] }): EditorState | undefined {
  if (kept === null) return undefined;
  try {
    return EditorState.fromJSON(JSON.parse(kept), { extensions: config.extensions }, { history: historyField });
  } catch {
    return undefined;
  }
}

function diagnostic(state: EditorState, fault: SourceFault): Diagnostic {
  const line = state.doc.line(Math.max(1, Math.min(fault.line, state.doc.lines)));
  const from = Math.min(line.to, line.from + Math.max(0, fault.column - 1));
  // A fault at the end of a line still needs a letter to stand under.
  const to = Math.min(line.to, Math.max(from + 1, state.wordAt(from)?.to ?? 0));
  return { from: from === to && from > line.from ? from - 1 : from, to, severity: fault.severity, message: fault.message };
}

function foldMeta(view: EditorView): void {
  const { doc } = view.state;
  forceParsing(view, Math.min(doc.length, 20_000), 100);
  for (let number = 1; number <= Math.min(doc.lines, 40); number++) {
    const line = doc.line(number);
    if (!line.text.startsWith("export const meta")) continue;
    const range = foldable(view.state, line.from, line.to);
    if (range && doc.lineAt(range.to).number - number >= FOLD_META_LINES) view.dispatch({ effects: foldEffect.of(range) });
    return;
  }
}
