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
const READ_MAX = 1_000; // texts whose reading is remembered: a place draws the same ones again and again
const read = new Map<string, Sentence>();

export function readBack(text: string): Sentence {
  const known = read.get(text);
  if (known) return known;
  if (read.size >= READ_MAX) read.clear();
  const found = matched(text, DEPTH_MAX);
  read.set(text, found);
  return found;
}

function matched(text: string, depth: number): Sentence {
  for (const [code, template] of depth > 0 ? TEMPLATES : []) {
    const found = template.exec(text);
    if (!found) continue;
    const { what, ...facts } = found.groups ?? {};
    if (what === undefined) return { code, facts, text };
    const inner = matched(what, depth - 1);
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
