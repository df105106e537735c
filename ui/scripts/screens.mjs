// Pictures of every screen in both themes over the fake platform, served with the shell's own CSP, into target/screens/.
// Ends with 1 when a page writes an error to its console (a broken CSP, a thrown exception) or when axe finds something serious.
import { createServer } from "node:http";
import { execFileSync } from "node:child_process";
import { mkdirSync, readFileSync } from "node:fs";
import { extname, join, resolve } from "node:path";
import { createRequire } from "node:module";
import { chromium } from "playwright-core";

const axeSource = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const root = resolve(import.meta.dirname, "../..");
const dist = join(root, "target/screens-dist");
const out = join(root, "target/screens");
const only = process.argv.slice(2);
if (!process.env.SCREENS_NO_BUILD) execFileSync("npx", ["vite", "build", "--mode", "fake", "--logLevel", "warn"], { cwd: resolve(import.meta.dirname, ".."), stdio: "inherit" });
mkdirSync(out, { recursive: true });

const CSP = "default-src 'self'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; font-src 'self' data:; worker-src 'self' blob:; connect-src 'self'; object-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
const TYPES = { ".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".json": "application/json" };
const server = createServer((request, response) => {
  const path = new URL(request.url, "http://x").pathname;
  try {
    const body = readFileSync(join(dist, path === "/" ? "index.html" : path));
    response.writeHead(200, { "content-type": TYPES[extname(path)] ?? "text/html", "content-security-policy": CSP });
    response.end(body);
  } catch {
    response.writeHead(path === "/favicon.ico" ? 204 : 404).end();
  }
});
await new Promise((done) => server.listen(0, "127.0.0.1", done));
const base = `http://127.0.0.1:${server.address().port}`;

const { SCREENS } = await import("./screenList.mjs");
const wanted = SCREENS.filter((screen) => only.length === 0 || only.some((word) => screen.name.includes(word)));
const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox"] });
const faults = [];
try {
  for (const theme of ["light", "dark"]) {
    let name = "";
    const pages = new Map();
    for (const screen of wanted) {
      if (screen.themes && !screen.themes.includes(theme)) continue;
      name = `${screen.name}-${theme}`;
      const page = await pageAt(screen.zoom ?? 1);
      await page.setViewportSize(screen.size ?? { width: 1280, height: 800 });
      await page.goto("about:blank");
      await page.goto(`${base}/${screen.page ?? "index.html"}?theme=${theme}&${screen.query ?? ""}${screen.hash ?? ""}`, { waitUntil: "networkidle" });
      if (screen.dir) await page.evaluate((dir) => (document.documentElement.dir = dir), screen.dir);
      await page.evaluate(() => document.fonts.ready);
      if (screen.act) await screen.act(page).catch((error) => faults.push(`${name}: ${error.message.split("\n")[0]}`));
      await page.waitForTimeout(screen.wait ?? 250);
      // Evaluated through the debugger, which the page's CSP does not concern.
      await page.evaluate(axeSource);
      const { violations } = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ["violations"], rules: { region: { enabled: false } } }));
      for (const each of violations) if (each.impact === "serious" || each.impact === "critical") faults.push(`${name}: axe ${each.id}: ${each.nodes.slice(0, 3).map((node) => node.target.join(" ")).join(" | ")}`);
      await page.screenshot({ path: join(out, `${name}.png`) });
    }
    for (const page of pages.values()) await page.context().close();

    /** One page for each zoom; a browser zooms by having fewer and larger pixels. */
    async function pageAt(zoom) {
      const known = pages.get(zoom);
      if (known) return known;
      const context = await browser.newContext({ locale: "en-GB", timezoneId: "UTC", reducedMotion: "reduce", deviceScaleFactor: zoom });
      const page = await context.newPage();
      page.on("console", (message) => message.type() === "error" && faults.push(`${name}: ${message.text()}`));
      page.on("pageerror", (error) => faults.push(`${name}: ${error.message}`));
      pages.set(zoom, page);
      return page;
    }
  }
} finally {
  await browser.close();
  server.close();
}
for (const fault of new Set(faults)) console.error(fault);
console.log(`${wanted.length} screens in ${out}, ${new Set(faults).size} faults`);
process.exit(faults.length > 0 ? 1 : 0);
