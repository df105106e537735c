// What the desktop says, as a sentence: the catalogue's for its code, with its facts; the desktop's own English where the catalogue has none.
import { textWith } from "../app/texts/index.svelte";
import { keptEn } from "../app/texts/kept.en";
import type { Fact, Sentence } from "../generated/types";

export function sentenceText(sentence: Sentence): string {
  const { code, facts, text } = sentence.code === "" ? readBack(sentence.text) : sentence;
  if (code === "") return text;
  const wordsOf = (name: string, fact: Fact) => (typeof fact !== "string" ? sentenceText(fact) : name === "why" || name === "detail" ? keptText(fact) : fact);
  const words = Object.entries(facts).map(([name, fact]) => [name, wordsOf(name, fact)] as const);
  const said = textWith(code.includes(".") ? code : `said.${code}`, Object.fromEntries(words)) ?? text;
  return code.startsWith("kept.") && /^\p{Lu}/u.test(text) ? said.charAt(0).toUpperCase() + said.slice(1) : said;
}

/** Words without a code: ours are read back, somebody else's are shown as they are. */
export const asData = (text: string): Sentence => ({ code: "", facts: {}, text });
export const keptText = (text: string): string => sentenceText(asData(text));

const DEPTH_MAX = 6; // of sentences around a sentence

export function readBack(text: string, depth = DEPTH_MAX): Sentence {
  for (const [code, template] of depth > 0 ? TEMPLATES : []) {
    const found = template.exec(text);
    if (!found) continue;
    const { what, ...facts } = found.groups ?? {};
    if (what === undefined) return { code, facts, text };
    const inner = readBack(what, depth - 1);
    if (inner.code !== "") return { code, facts: { ...facts, what: inner }, text };
  }
  return asData(text);
}

// What stands around another sentence first; what begins with a hole last, it would take the words before for its own.
const rank = (english: string) => (/^\{wh/.test(english) ? 3000 : !english.startsWith("{") ? 2000 : english.includes("{what}") ? 1000 : 0);
const own = (english: string) => rank(english) + english.replace(/\{\w+\}/g, "").length;
const TEMPLATES = Object.entries(keptEn)
  .sort(([, a], [, b]) => own(b) - own(a))
  .map(([code, english]) => [code, templateOf(english)] as const);

function templateOf(english: string): RegExp {
  const parts = english.split(/\{(\w+)\}/).map((part, i) => {
    if (i % 2 === 1) return `(?<${part}>${/^(what|why|place|note)$/.test(part) ? "[^]*" : ".*?"})`;
    return part.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
  });
  // A sentence may begin another one, or stand in it.
  return new RegExp(`^${parts.join("").replace(/^[a-z]/i, (first) => `[${first.toLowerCase()}${first.toUpperCase()}]`)}$`);
}
