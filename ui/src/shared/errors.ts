// An error as a sentence: the catalogue's for its code, with the facts it came with; the desktop's own where the catalogue has none.
import { textWith } from "../app/texts/index.svelte";
import type { ErrorView } from "../generated/types";

export function errorText(error: ErrorView): string {
  return textWith(`error.${error.code}`, { ...error.facts, detail: error.message, ...(error.line === null ? {} : { line: error.line }) }) ?? error.message;
}
