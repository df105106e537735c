// CodeMirror for reading: colours, help on hover, search and folding. Nothing here edits, completes or lints.
import { codeFolding, foldKeymap, syntaxHighlighting } from "@codemirror/language";
import { javascript } from "@codemirror/lang-javascript";
import { search, searchKeymap } from "@codemirror/search";
import { EditorState } from "@codemirror/state";
import { EditorView, highlightSpecialChars, keymap, lineNumbers } from "@codemirror/view";

import { t } from "../../../app/texts/index.svelte";
import { apiHelp } from "./api";
import { apiWords, codeLook, highlight } from "./look";
import { find, foldMark, foldMeta, goTo, linesOfFold, markField, phrases } from "./view";

export interface Reading {
  replace: (source: string) => void;
  goTo: (line: number) => void;
  find: () => void;
  focus: () => void;
  destroy: () => void;
}

export function openReading(parent: HTMLElement, source: string): Reading {
  const extensions = [
    lineNumbers(),
    highlightSpecialChars(),
    javascript(),
    syntaxHighlighting(highlight),
    apiWords,
    apiHelp,
    search({ top: true }),
    markField,
    codeFolding({ preparePlaceholder: linesOfFold, placeholderDOM: foldMark }),
    EditorState.readOnly.of(true),
    EditorView.editable.of(false),
    EditorView.contentAttributes.of({ "aria-label": t("editor.codeLabel"), "aria-readonly": "true", "data-testid": "code-text", tabindex: "0" }),
    EditorState.phrases.of(phrases()),
    keymap.of([...searchKeymap, ...foldKeymap]),
    codeLook,
    EditorView.theme({ "&": { flex: "1", minHeight: "0" } }),
  ];
  // In a shadow root CodeMirror brings its styles as constructed sheets: the page's policy allows no inline ones.
  const root = parent.attachShadow({ mode: "open" });
  const view = new EditorView({ parent: root, root, state: EditorState.create({ doc: source, extensions }) });
  foldMeta(view);
  return {
    replace(next) {
      if (next !== view.state.doc.toString()) view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: next } });
    },
    goTo: (line) => goTo(view, line),
    find: () => find(view),
    focus: () => view.focus(),
    destroy: () => view.destroy(),
  };
}
