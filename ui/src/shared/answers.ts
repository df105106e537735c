// How a question was answered, as a sentence. The desktop tells the answer's word and whose it was: `owner`, `clock`, `stop`,
// `no window`, or, where a rule saved meanwhile decided it, that rule.
import { t, textOr } from "../app/texts/index.svelte";
import type { Sentence } from "../generated/types";
import { inWords } from "./format";
import { sentenceText } from "./sentence";

export const answerWord = (answer: string): string => textOr(`answer.${answer}`, answer);

export function answeredText(answer: string, by: Sentence, waitedMs: number | null): string {
  const time = inWords(waitedMs ?? 0);
  switch (by.text) {
    case "owner":
      return t("call.byYou", { answer: answerWord(answer), time });
    case "clock":
      return t("call.unanswered", { time });
    case "no window":
      return t("call.noWindow");
    case "stop":
      return t("call.stopped", { time });
    default:
      return t("call.byRule", { rule: sentenceText(by), time });
  }
}
