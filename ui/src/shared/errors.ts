// An error as a sentence: the catalogue's for its code, with the facts it came with; the desktop's own where the catalogue has none.
import type { ErrorView } from "../generated/types";
import { sentenceText } from "./sentence";

export function errorText({ code, facts, line, message }: ErrorView): string {
  return sentenceText({ code: `error.${code}`, facts: { ...facts, detail: message, ...(line === null ? {} : { line: String(line) }) }, text: message });
}
