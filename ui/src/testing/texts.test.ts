import { readdirSync, readFileSync, statSync } from "node:fs";
import { join, relative, resolve } from "node:path";
import { expect, test } from "vitest";

import { de } from "../app/texts/de";
import { en } from "../app/texts/en";

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
