import { afterEach, expect, test } from "vitest";

import { useLanguage } from "../app/texts/index.svelte";
import { aRule, say } from "../platform/fake/say";
import { asData, keptText, sentenceText } from "./sentence";

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

test("words that were kept without their code are said in the window's language, whatever stands around them", async () => {
  const ceiling = "AgentError: token ceiling reached: 5 of 10 spent, 0 held, the next call needed 9\n    at line 3, column 7 in judge\n    at line 9, column 1 in the Graph\n\n    3 | await agent(x)\n      |       ^";
  expect(keptText(ceiling)).toBe(ceiling);
  await useLanguage("de");
  expect(keptText(ceiling)).toBe("AgentError: Token-Obergrenze erreicht: 5 von 10 verbraucht, 0 vorgemerkt, der nächste Aufruf brauchte 9\n    in Zeile 3, Spalte 7 in judge\n    in Zeile 9, Spalte 1 im Graph\n\n    3 | await agent(x)\n      |       ^");
  expect(keptText("the provider answered 529: overloaded (after 4 tries)")).toBe("der Anbieter antwortete 529: overloaded (nach 4 Versuchen)");
  expect(keptText("The script used more than 512 MiB of memory. It was last seen at line 3:\n\n    3 | grow()")).toBe("Das Skript brauchte mehr als 512 MiB Speicher. Zuletzt war es in Zeile 3:\n\n    3 | grow()");
  expect(keptText("ToolError: Not done: /x is granted for reading only")).toBe("ToolError: Nicht getan: /x ist nur zum Lesen freigegeben");
  expect(keptText("Meta must be an object.")).toBe("Meta muss ein Objekt sein.");
  expect(sentenceText({ code: "call_unfit", facts: { why: "there is no tool named x" }, text: "" })).toBe("der Aufruf ist nicht möglich: es gibt kein Werkzeug namens x");
});
test("somebody else's words stay theirs", async () => {
  await useLanguage("de");
  for (const words of ["x is not defined", "Error: mine (after 3 tries)", "mine\n\n    3 | x", "mine.", ""]) expect(keptText(words)).toBe(words);
  expect(keptText("Error: mine\n    at line 3, column 7 in the Graph")).toBe("Error: mine\n    in Zeile 3, Spalte 7 im Graph");
});
