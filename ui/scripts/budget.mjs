// What the first paint of each page costs over the wire, against its budget. Lazy parts (code, picture) do not count.
import { readdirSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { gzipSync } from "node:zlib";

const BUDGET = 350 * 1024;
const dist = resolve(import.meta.dirname, "../dist");
const size = (path) => gzipSync(readFileSync(path)).length;

/** A page's own files and what they import at once, followed to the end. */
function firstPaint(page) {
  const seen = new Set();
  const add = (path) => {
    if (seen.has(path)) return;
    seen.add(path);
    if (!path.endsWith(".js")) return;
    const text = readFileSync(path, "utf8");
    for (const [, name] of text.matchAll(/(?:import|from)\s*"\.\/([^"]+)"/g)) add(join(dist, "assets", name));
  };
  const html = readFileSync(join(dist, page), "utf8");
  for (const [, name] of html.matchAll(/(?:src|href)="\.\/([^"]+)"/g)) add(join(dist, name));
  return [...seen, join(dist, page)].reduce((sum, path) => sum + size(path), 0);
}

let over = false;
for (const page of ["index.html", "approval.html"]) {
  const bytes = firstPaint(page);
  over ||= bytes > BUDGET;
  console.log(`${page}: ${(bytes / 1024).toFixed(0)} KB gzip at first paint, budget ${BUDGET / 1024} KB`);
}
const all = readdirSync(join(dist, "assets")).reduce((sum, name) => sum + size(join(dist, "assets", name)), 0);
console.log(`everything: ${(all / 1024).toFixed(0)} KB gzip`);
for (const page of ["index.html", "approval.html"]) if (/<script(?![^>]*\bsrc=)|\son\w+=|style=/.test(readFileSync(join(dist, page), "utf8"))) throw new Error(`${page} holds something inline; the CSP would refuse it`);
process.exit(over ? 1 : 0);
