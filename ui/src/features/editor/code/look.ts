// How code looks: colours from tokens.css only, so that both themes come by themselves.
import { HighlightStyle, syntaxTree } from "@codemirror/language";
import { RangeSetBuilder } from "@codemirror/state";
import { Decoration, EditorView, ViewPlugin, type DecorationSet, type ViewUpdate } from "@codemirror/view";
import { tags } from "@lezer/highlight";

import { API_NAMES } from "./names";

export const highlight = HighlightStyle.define([
  { tag: [tags.keyword, tags.modifier, tags.operatorKeyword, tags.self, tags.null, tags.bool], color: "var(--code-keyword)" },
  { tag: [tags.string, tags.special(tags.string), tags.regexp], color: "var(--code-string)" },
  { tag: [tags.number], color: "var(--code-number)" },
  { tag: [tags.comment], color: "var(--code-comment)" },
  { tag: [tags.invalid], color: "var(--danger)" },
]);

const apiMark = Decoration.mark({ class: "cm-api" });

/** The words of the Graph API where they are names, not where they are letters in a string. */
function markApi(view: EditorView): DecorationSet {
  const marks = new RangeSetBuilder<Decoration>();
  for (const { from, to } of view.visibleRanges) {
    syntaxTree(view.state).iterate({
      from,
      to,
      enter(node) {
        if (node.name === "VariableName" && API_NAMES.has(view.state.sliceDoc(node.from, node.to))) marks.add(node.from, node.to, apiMark);
      },
    });
  }
  return marks.finish();
}

export const apiWords = ViewPlugin.fromClass(
  class {
    decorations: DecorationSet;
    constructor(view: EditorView) {
      this.decorations = markApi(view);
    }
    update(update: ViewUpdate): void {
      if (update.docChanged || update.viewportChanged || syntaxTree(update.startState) !== syntaxTree(update.state)) this.decorations = markApi(update.view);
    }
  },
  { decorations: (plugin) => plugin.decorations },
);

export const codeLook = EditorView.theme({
  "&": { height: "100%", background: "var(--surface-sunken)", color: "var(--code-text)" },
  "&.cm-focused": { outline: "none" },
  ".cm-scroller": { font: "var(--t-code)", fontVariantLigatures: "none", overflow: "auto" },
  ".cm-content": { padding: "8px 0", caretColor: "var(--accent)" },
  ".cm-line": { padding: "0 12px 0 0" },
  ".cm-gutters": { background: "var(--surface-sunken)", color: "var(--text-3)", border: "0", userSelect: "none" },
  ".cm-lineNumbers .cm-gutterElement": { minWidth: "34px", padding: "0 8px 0 8px" },
  ".cm-gutter-lint": { width: "12px", order: -1 },
  ".cm-gutter-lint .cm-gutterElement": { padding: "0" },
  ".cm-lint-marker": { width: "8px", height: "8px", margin: "5px 2px" },
  ".cm-cursor": { borderLeftColor: "var(--accent)", borderLeftWidth: "1.5px" },
  "&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground": { background: "color-mix(in srgb, var(--accent) 26%, transparent)" },
  ".cm-selectionMatch": { background: "var(--surface-active)" },
  "&.cm-focused .cm-matchingBracket": { background: "var(--surface-active)", outline: "1px solid var(--line-control)" },
  ".cm-here": { background: "var(--accent-soft)" },
  ".cm-api": { color: "var(--code-api)", fontWeight: "500" },
  ".cm-foldPlaceholder": { background: "var(--surface-active)", border: "0", borderRadius: "3px", padding: "0 4px", margin: "0 4px", color: "var(--text-3)", cursor: "default" },
  ".cm-diagnostic": { font: "var(--t-12)", padding: "4px 8px", borderLeft: "0" },
  ".cm-tooltip": { background: "var(--surface-raised)", border: "0", borderRadius: "var(--radius-2)", boxShadow: "var(--shadow-2)", color: "var(--text-1)", overflow: "hidden", maxWidth: "460px" },
  ".cm-tooltip-autocomplete > ul": { font: "var(--t-code)", maxHeight: "240px" },
  ".cm-tooltip-autocomplete > ul > li": { padding: "3px 10px" },
  ".cm-tooltip-autocomplete ul li[aria-selected]": { background: "var(--surface-active)", color: "var(--text-1)" },
  ".cm-completionMatchedText": { textDecoration: "none", fontWeight: "600" },
  ".cm-completionDetail": { color: "var(--text-3)", fontStyle: "normal" },
  ".cm-tooltip.cm-completionInfo, .cm-api-doc": { font: "var(--t-12)", padding: "8px 10px", maxWidth: "380px" },
  ".cm-api-doc code": { font: "var(--t-code)", whiteSpace: "pre-wrap", color: "var(--code-api)" },
  ".cm-api-doc p": { margin: "6px 0 0" },
  ".cm-api-doc pre": { font: "var(--t-code)", whiteSpace: "pre-wrap", margin: "6px 0 0", padding: "6px 8px", background: "var(--surface-sunken)", borderRadius: "var(--radius-1)" },
  ".cm-panels": { background: "var(--surface-base)", color: "var(--text-1)" },
  ".cm-panels.cm-panels-top": { borderBottom: "1px solid var(--line)" },
  ".cm-panel.cm-search": { font: "var(--t-12)", padding: "6px 28px 6px 8px" },
  ".cm-panel.cm-search label": { font: "var(--t-12)", display: "inline-flex", alignItems: "center", gap: "4px" },
  ".cm-textfield": { font: "var(--t-12)", height: "24px", background: "var(--surface-raised)", border: "1px solid var(--line-control)", borderRadius: "var(--radius-2)", padding: "0 6px", verticalAlign: "middle" },
  ".cm-button": { font: "var(--t-12)", height: "24px", background: "var(--surface-raised)", backgroundImage: "none", border: "1px solid var(--line)", borderRadius: "var(--radius-2)", padding: "0 8px", verticalAlign: "middle" },
  ".cm-searchMatch": { background: "var(--warning-soft)", outline: "1px solid var(--warning)" },
  ".cm-searchMatch-selected": { background: "var(--accent-soft)", outline: "1px solid var(--accent)" },
});
