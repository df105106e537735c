import { afterEach, expect, test } from "vitest";

import { useLanguage } from "../app/texts/index.svelte";
import { aRule, say } from "../platform/fake/say";
import { asData, sentenceText } from "./sentence";

afterEach(() => useLanguage("en"));
const RULE = say("by_rule", { id: "3", rule: aRule("deny", say("calls_in_folder", { tool: "write_file", folder: "/home/ada/{tool}" }), say("rule_everywhere")) });

test("a sentence and the sentences in it are said in the window's language, and facts stay as they are", async () => {
  expect(sentenceText(RULE)).toBe("rule 3: deny write_file in /home/ada/{tool}, everywhere");
  await useLanguage("de");
  expect(sentenceText(RULE)).toBe("Regel 3: ablehnen: write_file in /home/ada/{tool}, überall");
});
test("a code of a newer desktop, a missing fact and somebody's own words are shown as they came", () => {
  expect(sentenceText({ code: "of_tomorrow", facts: {}, text: "Tomorrow's words." })).toBe("Tomorrow's words.");
  expect(sentenceText({ code: "by_rule", facts: { id: "3" }, text: "rule 3: deny" })).toBe("rule 3: deny");
  expect(sentenceText(asData("no such host"))).toBe("no such host");
});
test("a refusal among the sentences has the words of its error", () => {
  expect(sentenceText({ code: "error.folder_unusable", facts: { path: "/mnt", why: "gone", detail: "x" }, text: "x" })).toBe("/mnt cannot be opened as a folder: gone.");
});
