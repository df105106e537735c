// The tiers of the window, read from the imports themselves.
import { readdirSync, readFileSync, statSync } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";
import { expect, test } from "vitest";

const SRC = resolve(import.meta.dirname, "..");
/** Leaf modules of app/ that every tier may use: words, names, address, registry. The rest of app/ composes features. */
const KIT = ["app/texts/", "app/testids", "app/nav.svelte", "app/commands.svelte", "app/toast.svelte", "app/status.svelte"];

function files(folder: string): string[] {
  return readdirSync(folder).flatMap((name) => {
    const path = join(folder, name);
    return statSync(path).isDirectory() ? files(path) : /\.(ts|svelte)$/.test(name) ? [path] : [];
  });
}
const all = files(SRC).filter((path) => !/\.test\.ts$|\/testing\//.test(path));
const imports = all.flatMap((path) => {
  const text = readFileSync(path, "utf8");
  const found = [...text.matchAll(/(?:from|import)\s*\(?\s*"([^"]+)"/g)].map((match) => match[1] ?? "");
  return found.map((name) => ({ from: relative(SRC, path), to: name.startsWith(".") ? relative(SRC, resolve(dirname(path), name)) : name }));
});
const bad = (allowed: (from: string, to: string) => boolean) => imports.filter(({ from, to }) => !allowed(from, to)).map(({ from, to }) => `${from} imports ${to}`);
const feature = (path: string) => /^features\/(\w+)\//.exec(path)?.[1];

test("only platform/ imports @tauri-apps", () => {
  expect(bad((from, to) => !to.startsWith("@tauri-apps") || from.startsWith("platform/"))).toEqual([]);
});
test("features do not import each other", () => {
  expect(bad((from, to) => feature(from) === undefined || feature(to) === undefined || feature(from) === feature(to))).toEqual([]);
});
test("features and shared use of app/ only its leaf modules", () => {
  expect(bad((from, to) => from.startsWith("app/") || !from.includes("/") || from.startsWith("platform/") || !to.startsWith("app/") || KIT.some((kit) => to.startsWith(kit)))).toEqual([]);
});
test("shared imports no feature, platform neither features nor app", () => {
  expect(bad((from, to) => !from.startsWith("shared/") || !to.startsWith("features/"))).toEqual([]);
  expect(bad((from, to) => !from.startsWith("platform/") || (!to.startsWith("features/") && !to.startsWith("app/")))).toEqual([]);
});
test("nothing renders data as markup and nothing evaluates text", () => {
  const found = all.filter((path) => /\{@html|innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function\(/.test(readFileSync(path, "utf8")));
  expect(found.map((path) => relative(SRC, path))).toEqual([]);
});
test("no any, and nothing is silenced without a reason", () => {
  const found = all.flatMap((path) => {
    const text = readFileSync(path, "utf8");
    const any = /: any\b|<any>|as any\b|@ts-ignore|@ts-nocheck/.test(text);
    return any ? [relative(SRC, path)] : [];
  });
  expect(found).toEqual([]);
});
test("components and modules stay small", () => {
  // Catalogues and samples are data; their length is their content.
  const data = /texts\/|platform\/fake|generated|Sprite\.svelte/;
  const long = all.filter((path) => !data.test(path) && readFileSync(path, "utf8").split("\n").length > (path.endsWith(".svelte") ? 150 : 300));
  expect(long.map((path) => relative(SRC, path))).toEqual([]);
});
test("no measure belongs to one language: words make their own room", () => {
  const css = readFileSync(join(SRC, "app/base.css"), "utf8");
  expect(css).not.toContain(":lang(");
  // The rail grows with its longest word, from its usual width to its widest.
  expect(css).toContain("minmax(var(--rail), max-content)");
  expect(css).toMatch(/\.Rail \{[^}]*max-width: var\(--rail-max\)/);
});
