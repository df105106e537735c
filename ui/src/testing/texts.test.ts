import { readdirSync, readFileSync, statSync } from "node:fs";
import { join, relative, resolve } from "node:path";
import { expect, test } from "vitest";

import { de } from "../app/texts/de";
import { en } from "../app/texts/en";
import { keptEn } from "../app/texts/kept.en";
import { readBack } from "../shared/sentence";

const SRC = resolve(import.meta.dirname, "..");
const files = (folder: string): string[] => readdirSync(folder).flatMap((name) => (statSync(join(folder, name)).isDirectory() ? files(join(folder, name)) : [join(folder, name)]));
const holes = (text: string) => [...text.matchAll(/\{(\w+)\}/g)].map((match) => match[1]).sort();

test("every text of the catalogue exists in German, with the same holes", () => {
  for (const [key, text] of Object.entries(en)) expect([key, holes(de[key as keyof typeof en])]).toEqual([key, holes(text)]);
});
test("every counted text has both forms", () => {
  const keys = new Set(Object.keys(en));
  for (const key of keys) {
    if (key.endsWith(".one")) expect(keys).toContain(key.replace(/\.one$/, ".other"));
    if (key.endsWith(".other")) expect(keys).toContain(key.replace(/\.other$/, ".one"));
  }
});
test("the words keep the house's manners: no exclamation, no please, no oops, no successfully", () => {
  for (const [key, text] of Object.entries(en)) expect(text, key).not.toMatch(/!|\bplease\b|\boops\b|successfully|\bworkflow\b|\bworkspace\b/i);
});
test("no text of the catalogue is unused", () => {
  const code = files(SRC)
    .filter((path) => /\.(ts|svelte)$/.test(path) && !/texts\/|\.test\.ts/.test(path))
    .map((path) => readFileSync(path, "utf8"))
    .join("\n");
  // Keys put together from a part known at run time: `state.${look}` uses every key that begins with "state.".
  const starts = [...code.matchAll(/`([\w.]+\.)\$\{/g)].map((match) => match[1] ?? "");
  const unused = Object.keys(en).filter((key) => {
    if (Object.hasOwn(keptEn, key)) return false;
    const base = key.replace(/\.(one|other)$/, "");
    return !code.includes(`"${key}"`) && !code.includes(`"${base}"`) && !starts.some((start) => key.startsWith(start));
  });
  expect(unused).toEqual([]);
});
test("markup holds no words of its own", () => {
  const found = files(SRC)
    .filter((path) => path.endsWith(".svelte"))
    .flatMap((path) => {
      const markup = readFileSync(path, "utf8")
        .replace(/<script[\s\S]*?<\/script>|<style[\s\S]*?<\/style>|<!--[\s\S]*?-->/g, "")
        .replace(/\{(?:[^{}]|\{(?:[^{}]|\{[^{}]*\})*\})*\}/g, "");
      return [...markup.matchAll(/>([^<>]*\p{L}{3,}[^<>]*)</gu)].map((match) => `${relative(SRC, path)}: ${(match[1] ?? "").trim()}`);
    });
  // The word of the API in the drawing of the first run is code, not language.
  expect(found.filter((line) => !line.endsWith(": parallel"))).toEqual([]);
});
test("every sentence of the desktop has its words in the catalogue: its English, and its German by the test above", () => {
  const root = resolve(SRC, "../..");
  const code = ["crates/agent/src", "crates/device/src", "src-tauri/src"].flatMap((folder) => files(join(root, folder))).filter((path) => path.endsWith(".rs")).map((path) => readFileSync(path, "utf8").split("#[cfg(test)]")[0] ?? "");
  const made = code.flatMap((text) => [...text.matchAll(/\bsaid\(\s*"([a-z_]+)",\s*"((?:[^"\\]|\\[^])*)"/g)].map((match): [string, string] => [`said.${match[1] ?? ""}`, JSON.parse(`"${(match[2] ?? "").replace(/\\\n\s*/g, "")}"`) as string]));
  const calls = code.flatMap((text) => [...text.matchAll(/(?<!fn |\.)\bsaid\(/g)]).length;
  expect(made.length).toBe(calls);
  const kept = Object.fromEntries(Object.entries(en).filter(([key]) => key.startsWith("said.")));
  expect(Object.fromEntries(made)).toEqual(kept);
});
// Sentences that are kept without a code: what the desktop says and what its catalogue knows must stay the same words.
const ROOT = resolve(SRC, "../..");
const literal = (text: string) => text.replace(/\\\n\s*/g, "").replace(/\\(["\\])/g, "$1").replace(/\\n/g, "\n");
const sources = ["crates/domain/src", "crates/engine/src", "crates/agent/src", "crates/device/src", "src-tauri/src"]
  .flatMap((folder) => files(join(ROOT, folder)))
  .filter((path) => /\.(rs|js)$/.test(path))
  .map((path) => readFileSync(path, "utf8").split("#[cfg(test)]")[0] ?? "");

test("every sentence that is read back is still made", () => {
  const code = sources.map(literal).join("\n");
  const parts = (text: string) => text.split(/\{\w+\}/).map((part) => part.trim());
  const isMade = (part: string) => [part, part.charAt(0).toLowerCase() + part.slice(1), part.replaceAll("{", "{{").replaceAll("}", "}}"), part.replace(/[.:]$/, ""), part.replace(/^" | "$/g, "")].some((form) => code.includes(form));
  expect(Object.entries(keptEn).flatMap(([key, text]) => parts(text).filter((part) => !isMade(part)).map((part) => `${key}: ${part}`))).toEqual([]);
});
test("every refusal that a script, an agent or a field gets is read back", () => {
  const heads = String.raw`Failure::new\(\s*AgentErrorCode::\w+,|CallError::new\(\s*(?:CallCode::\w+|code),|refused\(CallCode::\w+,|PrepareError::\w+\(|ModelError::\w+\(|bad_argument\(\s*Some\("\w+"\),|wrong\(|fault\(|ScriptFault::at\([^"\n]*,|Warning \{ text:`;
  const said = new RegExp(String.raw`(?:${heads})\s*&?(?:format!\(\s*)?"((?:[^"\\]|\\[^])*)"(?!,\s*(?:format!|"))`, "g");
  // Something stands in the holes, but in one behind a word, which may add to it.
  const made = sources.flatMap((text) => [...text.matchAll(said)]).map((match) => literal(match[1] ?? "").replace(/(?<=\w)(\{\w*\})+/g, "").replace(/\{\w*:\?\}/g, '"7"').replace(/\{[^{}]*\}/g, "7"));
  // Never shown, and said on the command line.
  const ELSEWHERE = ["no such call", "stopped", "Name the project with --project."];
  expect(made.length).toBeGreaterThan(100);
  expect([...new Set(made)].filter((text) => /[a-z]{3}/.test(text) && !ELSEWHERE.includes(text) && [text, `${text}.`].every((form) => readBack(form).code === ""))).toEqual([]);
});
test("every refusal of the desktop and of the server has its sentence in the catalogue", () => {
  const root = resolve(SRC, "../..");
  const read = (folder: string) => files(join(root, folder)).filter((path) => path.endsWith(".rs")).map((path) => readFileSync(path, "utf8")).join("\n");
  const said = read("crates/device/src/desk") + read("src-tauri/src");
  const codes = [...said.matchAll(/\b(?:error|refused)\(\s*"([a-z_]+)"/g), ...readFileSync(join(root, "server/src/http_error.rs"), "utf8").matchAll(/ = "([a-z_]+)", [A-Z_]+, (?:true|false);/g)].map((match) => match[1] ?? "");
  expect(codes.length).toBeGreaterThan(60);
  // Said by `graph-deskd` on the command line, never to the window.
  const ELSEWHERE = ["graph_unknown", "project_unknown", "project_ambiguous", "window_only", "no_window", "nothing", "mcp_unknown", "provider_unknown"];
  const words = new Set(Object.keys(en));
  expect([...new Set(codes)].filter((code) => !words.has(`error.${code}`) && !ELSEWHERE.includes(code))).toEqual([]);
});
