// CodeMirror, dressed for Graphs. Loaded when an editor is first shown; nothing else in the window names CodeMirror.
import { autocompletion, closeBrackets, closeBracketsKeymap, completionKeymap } from "@codemirror/autocomplete";
import { defaultKeymap, history, historyField, historyKeymap, indentWithTab } from "@codemirror/commands";
import { javascript } from "@codemirror/lang-javascript";
import { bracketMatching, codeFolding, foldKeymap, indentOnInput, indentUnit, syntaxHighlighting } from "@codemirror/language";
import { lintGutter, lintKeymap, setDiagnostics, type Diagnostic } from "@codemirror/lint";
import { highlightSelectionMatches, search, searchKeymap } from "@codemirror/search";
import { Compartment, EditorState, type Extension } from "@codemirror/state";
import { crosshairCursor, drawSelection, EditorView, highlightSpecialChars, keymap, lineNumbers, rectangularSelection } from "@codemirror/view";

import { t } from "../../../app/texts/index.svelte";
import type { SourceFault } from "../../../generated/types";
import { keptText } from "../../../shared/sentence";
import { apiCompletions, apiHelp } from "./api";
import { apiWords, codeLook, highlight } from "./look";
import { find, foldMark, foldMeta, goTo, linesOfFold, markField, phrases, setMark } from "./view";

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
  /** Formats the whole text as one step of undo; what is wrong with it when it cannot. */
  format: () => Promise<SourceFault | undefined>;
  focus: () => void;
  /** What a reloaded window needs to go on: text, cursor and undo. */
  save: () => string;
  destroy: () => void;
}

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
    codeFolding({ preparePlaceholder: linesOfFold, placeholderDOM: foldMark }),
    readOnly.of([]),
    EditorView.contentAttributes.of({ "aria-label": t("editor.codeLabel"), "aria-description": t("editor.codeKeys"), "data-testid": "code-text", spellcheck: "false", tabindex: "0" }),
    EditorState.phrases.of(phrases()),
    keymap.of([...closeBracketsKeymap, ...completionKeymap, ...searchKeymap, ...historyKeymap, ...foldKeymap, ...lintKeymap, indentWithTab, ...defaultKeymap.filter((each) => each.key !== "Mod-Enter")]),
    EditorView.updateListener.of((update) => {
      if (update.docChanged) doors.changed(update.state.doc.toString());
      if (update.selectionSet || update.docChanged) doors.moved(update.state.doc.lineAt(update.state.selection.main.head).number);
    }),
    codeLook,
  ];
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
    goTo: (line, column) => goTo(view, line, column),
    mark: (line) => view.dispatch({ effects: setMark.of(line) }),
    showFaults: (faults) => view.dispatch(setDiagnostics(view.state, faults.map((fault) => diagnostic(view.state, fault)))),
    find: () => find(view),
    format: () => format(view),
    focus: () => view.focus(),
    save: () => JSON.stringify(view.state.toJSON({ history: historyField })),
    destroy: () => view.destroy(),
  };
}

async function format(view: EditorView): Promise<SourceFault | undefined> {
  const before = view.state.doc;
  const { formatCode } = await import("./format");
  const made = await formatCode(before.toString(), view.state.selection.main.head);
  if (!made.ok) return { line: made.line ?? 1, column: 1, message: made.message, severity: "error" };
  // Typed meanwhile: the answer is about another text.
  if (view.state.doc !== before || made.text === before.toString()) return undefined;
  view.dispatch({ changes: { from: 0, to: before.length, insert: made.text }, selection: { anchor: Math.min(made.cursor, made.text.length) }, userEvent: "input.format" });
  return undefined;
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
  return { from: from === to && from > line.from ? from - 1 : from, to, severity: fault.severity, message: keptText(fault.message) };
}
