// Measures the window: the release program against an empty window of the same web view, and the pages in headless Chromium.
// Called by scripts/bench-window on a screen; writes JSON to the file named last. Nothing here is a test: figures depend on the machine.
import { execFileSync, spawn } from "node:child_process";
import { mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { extname, join } from "node:path";

const [programs, dist, out] = process.argv.slice(2);
const ROUNDS = Number(process.env.BENCH_ROUNDS ?? 3);
const SETTLE_MS = 4_000;
const pause = (ms) => new Promise((done) => setTimeout(done, ms));
const median = (all) => [...all].sort((a, b) => a - b)[Math.floor(all.length / 2)];

/** A process and all it started, by the kernel's own books. */
function family(pid) {
  const parents = new Map();
  for (const name of readdirSync("/proc").filter((each) => /^\d+$/.test(each))) {
    try {
      const stat = readFileSync(`/proc/${name}/stat`, "utf8");
      parents.set(Number(name), Number(stat.slice(stat.lastIndexOf(")") + 2).split(" ")[1]));
    } catch {
      // It ended while we looked.
    }
  }
  const found = [pid];
  for (let at = 0; at < found.length; at++) for (const [child, parent] of parents) if (parent === found[at]) found.push(child);
  return found;
}
function pssMib(pid) {
  let kib = 0;
  for (const each of family(pid)) {
    try {
      kib += Number(/^Pss:\s+(\d+)/m.exec(readFileSync(`/proc/${each}/smaps_rollup`, "utf8"))?.[1] ?? 0);
    } catch {
      // It ended while we looked.
    }
  }
  return Math.round(kib / 102.4) / 10;
}
async function until(what, look, ms = 60_000) {
  const end = Date.now() + ms;
  for (;;) {
    const seen = look();
    if (seen !== undefined) return seen;
    if (Date.now() > end) throw new Error(`${what}: not within ${ms / 1000} s`);
    await pause(20);
  }
}

// Both are timed from the start of their process, by one clock.
async function emptyWindow(home) {
  const begun = Date.now();
  let drawn;
  const child = spawn(join(programs, "empty-window"), { env: { ...process.env, HOME: home }, stdio: ["ignore", "pipe", "ignore"] });
  let said = "";
  child.stdout.on("data", (bytes) => {
    drawn ??= Date.now();
    said += bytes;
  });
  try {
    await until("the empty window's first frame", () => /^drawn (\d+)/m.exec(said) ?? undefined);
    await pause(SETTLE_MS);
    return { firstFrameMs: drawn - begun, pssMib: pssMib(child.pid) };
  } finally {
    child.kill();
    await new Promise((done) => child.once("exit", done));
  }
}

async function graphDesk(home) {
  const profile = join(home, "profile");
  const env = { ...process.env, HOME: home, GRAPH_DESK_PROFILE: profile, GRAPH_DESK_PASSPHRASE: "bench", XDG_DATA_HOME: join(home, "data"), XDG_CONFIG_HOME: join(home, "config") };
  const begun = Date.now();
  const child = spawn(join(programs, "graph-desk"), { env, stdio: ["ignore", "ignore", "ignore"] });
  const log = () => {
    try {
      return readFileSync(join(profile, "logs/graph-desk.log"), "utf8");
    } catch {
      return "";
    }
  };
  try {
    const [, at, first, whole] = await until("Graph Desk's first frame", () => /^(\S+) .*first frame ms=(\d+) window_ms=(\d+)/m.exec(log()) ?? undefined);
    const wholeWindowMs = Date.parse(at) - begun;
    const firstFrameMs = wholeWindowMs - (Number(whole) - Number(first));
    await pause(SETTLE_MS);
    const open = pssMib(child.pid);
    // Closed as an owner closes it; the web view goes, the relay stays.
    const window = execFileSync("xdotool", ["search", "--onlyvisible", "--name", "^Graph Desk$"], { encoding: "utf8" }).trim().split("\n")[0];
    execFileSync("xdotool", ["windowactivate", "--sync", window, "key", "alt+F4"]);
    await until("the web view to be gone", () => (family(child.pid).some((pid) => pid !== child.pid && /WebKitWebProcess/.test(nameOf(pid))) ? undefined : true));
    await pause(SETTLE_MS);
    return { firstFrameMs, wholeWindowMs, pssMib: open, trayPssMib: pssMib(child.pid) };
  } finally {
    child.kill();
    await new Promise((done) => child.once("exit", done));
  }
}
function nameOf(pid) {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, "utf8");
  } catch {
    return "";
  }
}

async function pages() {
  const require = createRequire(join(dist, "../../ui/package.json"));
  const { chromium } = require("playwright-core");
  const TYPES = { ".html": "text/html", ".js": "text/javascript", ".css": "text/css" };
  const server = createServer((request, response) => {
    try {
      const path = new URL(request.url, "http://x").pathname;
      const file = readFileSync(join(dist, path));
      response.writeHead(200, { "content-type": TYPES[extname(path)] ?? "text/plain" }).end(file);
    } catch {
      response.writeHead(404).end();
    }
  });
  await new Promise((done) => server.listen(0, "127.0.0.1", done));
  const base = `http://127.0.0.1:${server.address().port}/index.html`;
  const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox"] });
  const page = await browser.newPage({ viewport: { width: 1280, height: 800 } });
  /** The longest and the 95th of a hundred frames while something goes on. */
  const frames = (ms, act) =>
    page.evaluate(
      async ([ms, act]) => {
        const gaps = [];
        let last = performance.now();
        const end = last + ms;
        const list = act === "scroll" ? [...document.querySelectorAll("*")].filter((each) => each.scrollHeight > each.clientHeight + 400).sort((a, b) => b.scrollHeight - a.scrollHeight)[0] : undefined;
        while (performance.now() < end) {
          await new Promise(requestAnimationFrame);
          const now = performance.now();
          gaps.push(now - last);
          last = now;
          list?.scrollBy(0, 90);
        }
        gaps.sort((a, b) => a - b);
        return { frames: gaps.length, longestMs: Math.round(gaps.at(-1)), p95Ms: Math.round(gaps[Math.floor(gaps.length * 0.95)]) };
      },
      [ms, act],
    );
  try {
    const found = {};
    await page.goto(`${base}?stream=20#/runs/e-running?tab=transcripts&agent=20`);
    await page.waitForSelector("[role=tabpanel]");
    await pause(1_500);
    found.streaming20 = await frames(6_000, "watch");
    await page.goto("about:blank");
    await page.goto(`${base}#/runs/e-run-4`);
    await page.waitForSelector("[role=tabpanel] [role=table], [role=tabpanel] table");
    await pause(1_500);
    found.waterfall500 = await frames(4_000, "scroll");
    await page.goto("about:blank");
    const begun = Date.now();
    await page.goto(`${base}?runs=10000#/runs`);
    await page.waitForSelector("[data-testid=run-row]");
    found.runs10000 = { firstRowsMs: Date.now() - begun };
    await pause(1_500);
    Object.assign(found.runs10000, await frames(4_000, "scroll"));
    return found;
  } finally {
    await browser.close();
    server.close();
  }
}

const manager = spawn("openbox", { stdio: "ignore" });
const rounds = { graphDesk: [], empty: [] };
try {
  // In turn, so that both meet the same machine.
  for (let round = 0; round < ROUNDS; round++) {
    for (const [name, run] of [["empty", emptyWindow], ["graphDesk", graphDesk]]) {
      const home = mkdtempSync(join(tmpdir(), "graph-desk-bench-"));
      try {
        rounds[name].push(await run(home));
      } finally {
        rmSync(home, { recursive: true, force: true });
      }
    }
  }
} finally {
  manager.kill();
}
const mid = (name, fact) => median(rounds[name].map((each) => each[fact]));
const ratio = (fact) => Math.round((mid("graphDesk", fact) / mid("empty", fact)) * 100) / 100;
const report = {
  rounds: ROUNDS,
  firstFrameMs: { window: mid("graphDesk", "firstFrameMs"), empty: mid("empty", "firstFrameMs"), ratio: ratio("firstFrameMs"), wanted: 1.25 },
  wholeWindowMs: mid("graphDesk", "wholeWindowMs"),
  pssMib: { window: mid("graphDesk", "pssMib"), empty: mid("empty", "pssMib"), ratio: ratio("pssMib"), wanted: 1.25 },
  trayPssMib: { window: mid("graphDesk", "trayPssMib"), wanted: 140 },
  pages: await pages(),
};
writeFileSync(out, `${JSON.stringify(report, null, 2)}\n`);
console.log(JSON.stringify(report, null, 2));
