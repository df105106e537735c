// What the editor and the reading view have in common: the marked line, the folded meta, the words of the search.
import { foldEffect, foldable, forceParsing } from "@codemirror/language";
import { openSearchPanel } from "@codemirror/search";
import { StateEffect, StateField, type EditorState } from "@codemirror/state";
import { Decoration, EditorView, type DecorationSet } from "@codemirror/view";

import { t, tn } from "../../../app/texts/index.svelte";

const FOLD_META_LINES = 8; // a longer meta hides the program; it opens folded

export const setMark = StateEffect.define<number | null>();
export const markField = StateField.define<DecorationSet>({
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

export function goTo(view: EditorView, line: number, column?: number | null): void {
  const at = view.state.doc.line(Math.max(1, Math.min(line, view.state.doc.lines)));
  const anchor = Math.min(at.to, at.from + Math.max(0, (column ?? 1) - 1));
  view.dispatch({ selection: { anchor }, effects: [setMark.of(at.number), EditorView.scrollIntoView(anchor, { y: "center" })] });
}

export function find(view: EditorView): void {
  openSearchPanel(view);
}

export const linesOfFold = (state: EditorState, range: { from: number; to: number }) => state.doc.lineAt(range.to).number - state.doc.lineAt(range.from).number + 1;

export function foldMark(_view: EditorView, unfold: (event: Event) => void, lines: unknown): HTMLElement {
  const mark = document.createElement("span");
  mark.className = "cm-foldPlaceholder";
  mark.textContent = tn("editor.folded", Number(lines));
  mark.title = t("editor.unfold");
  mark.onclick = unfold;
  return mark;
}

export function phrases(): Record<string, string> {
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

export function foldMeta(view: EditorView): void {
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
