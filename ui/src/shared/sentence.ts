// What the desktop says, as a sentence: the catalogue's for its code, with its facts; the desktop's own English where the catalogue has none.
import { textWith } from "../app/texts/index.svelte";
import type { Sentence } from "../generated/types";

export function sentenceText({ code, facts, text }: Sentence): string {
  const words = Object.entries(facts).map(([name, fact]) => [name, typeof fact === "string" ? fact : sentenceText(fact)] as const);
  return textWith(code.startsWith("error.") ? code : `said.${code}`, Object.fromEntries(words)) ?? text;
}

/** Somebody else's words, or those of an older desktop: shown as they are. */
export const asData = (text: string): Sentence => ({ code: "", facts: {}, text });
