// Completion and hover for the Graph API. The list is a stand-in until the engine's generated one is there.
import { completeFromList, type CompletionSource, snippetCompletion } from "@codemirror/autocomplete";
import { hoverTooltip, type Tooltip } from "@codemirror/view";

import { API } from "./apiList";

export const apiCompletions: CompletionSource = completeFromList(
  API.map((entry) => snippetCompletion(entry.snippet, { label: entry.name, detail: entry.signature, info: entry.text, type: "function" })),
);

/** Name, signature and what it does, as text. */
export const apiHover = hoverTooltip((view, at): Tooltip | null => {
  const word = view.state.wordAt(at);
  const entry = word && API.find((each) => each.name === view.state.sliceDoc(word.from, word.to));
  if (!word || !entry) return null;
  return {
    pos: word.from,
    end: word.to,
    above: true,
    create() {
      const dom = document.createElement("div");
      dom.className = "cm-api-doc";
      const head = dom.appendChild(document.createElement("code"));
      head.textContent = entry.name + entry.signature;
      const text = dom.appendChild(document.createElement("div"));
      text.textContent = entry.text;
      return { dom };
    },
  };
});
