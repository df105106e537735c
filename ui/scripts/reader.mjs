// The owner's page in headless Chromium against the real queue: `node ui/scripts/reader.mjs <folder of the programs>`.
// Each test is a claim; the page is walked through once, so their order is the story. Pictures go to target/screens/reader-*.png.
import assert from "node:assert/strict";
import { mkdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join, resolve } from "node:path";
import { chromium } from "playwright-core";

import { World } from "./readerWorld.mjs";

const axeSource = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const out = resolve(import.meta.dirname, "../../target/screens");
mkdirSync(out, { recursive: true });

const EVIL = '<img src=x onerror="alert(1)">';
const SCRIPT = "</script><script>alert(2)</script>";
const HOME = `Home ${SCRIPT}`;
const REVIEW = `export const meta = {
  name: ${JSON.stringify(`Review ${EVIL}`)},
  description: ${JSON.stringify(`Three judges, one verdict. ${EVIL} javascript:alert(4)`)},
};
phase("Judge");
const changed = await tool("read_file", { path: args.path });
const judges = await parallel([
  () => agent("Judge the style of " + changed, { label: "style" }),
  () => agent("Judge the tests of " + changed, { label: "tests" }),
  () => retry(3, () => agent("Judge the risk of " + changed, { label: "risk" })),
]);
phase("Answer");
const verdict = await agent("Weigh the three: " + judges.join(), { label: "verdict" });
if (args.fail) throw new Error('${EVIL} is not a change set');
return { html: "<img src=x onerror=alert(3)>", link: "javascript:alert(5)", judges, verdict };
`;
const ECHO = `export const meta = { name: "Echo", description: "Says what it was told" };\nreturn args;\n`;
const FAILS = `export const meta = { name: "Fails", description: "" };\nphase("Fail");\nthrow new Error(${JSON.stringify(`${EVIL} cannot be read`)});\n`;
const ARGUMENTS = { html: "<img src=x onerror=alert(3)>", link: "javascript:alert(5)" };

const world = new World(process.argv[2]);
let browser;
let passed = 0;
const failures = [];
async function test(claim, work) {
  try {
    await work();
    passed++;
    console.log(`ok   ${claim}`);
  } catch (error) {
    failures.push(claim);
    console.error(`FAIL ${claim}\n${error.stack ?? error}`);
    for (const [i, open] of (browser?.contexts() ?? []).entries()) for (const page of open.pages()) await page.screenshot({ path: join(out, `reader-failed-${failures.length}-${i}.png`) }).catch(() => undefined);
  }
}

/** A browser of its own. What its pages complain of, ask of others or pop up is kept. */
async function visitor(options = {}) {
  const context = await browser.newContext({ locale: "en-GB", timezoneId: "UTC", reducedMotion: "reduce", viewport: { width: 1280, height: 800 }, ...options });
  const page = await context.newPage();
  page.setDefaultTimeout(30_000);
  const bad = [];
  page.on("console", (message) => message.type() === "error" && !/status of 4\d\d|net::ERR_FAILED/.test(message.text()) && bad.push(message.text()));
  page.on("pageerror", (error) => bad.push(error.message));
  page.on("dialog", (dialog) => (bad.push(`dialog: ${dialog.message()}`), dialog.dismiss()));
  page.on("request", (request) => !request.url().startsWith(world.address) && !/^(data|blob):/.test(request.url()) && bad.push(`asked ${request.url()}`));
  return { context, page, bad };
}
const code = () => world.json("sign-in").code;
async function signIn(page, path = "/owner") {
  await page.goto(`${world.address}${path}`);
  await page.getByTestId("sign-in-code").fill(code());
  await page.getByTestId("sign-in").click();
  await page.locator("main.Place h1").first().waitFor();
}
const go = (page, hash) => page.evaluate((to) => (location.hash = to), hash);
const text = (page, where = "body") => page.locator(where).innerText();
/** Waits until the page says so by itself. */
const says = (page, words, where = "body") => page.locator(where).filter({ hasText: words }).first().waitFor();

async function axe(page, name) {
  await page.evaluate(axeSource);
  const { violations } = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ["violations"], rules: { region: { enabled: false } } }));
  const serious = violations.filter((each) => each.impact === "serious" || each.impact === "critical");
  assert.deepEqual(serious.map((each) => `${name}: ${each.id}: ${each.nodes.slice(0, 3).map((node) => node.target.join(" ")).join(" | ")}`), []);
}
async function noMarkup(page) {
  assert.equal(await page.locator("#app img, #app iframe, #app script, #app a[href^='javascript']").count(), 0);
}

/** Every screen of a signed-in page, named. */
const SCREENS = [
  { name: "graphs", hash: "#/graphs", ready: (page) => page.getByTestId("graphs").waitFor() },
  { name: "graph", hash: () => `#/graphs/${world.review}`, ready: (page) => page.locator(".svelte-flow__node").first().waitFor() },
  { name: "runs", hash: () => `#/runs/${world.done}`, ready: (page) => page.getByTestId("command-result").waitFor() },
  { name: "run-failed", hash: () => `#/runs/${world.failed}`, ready: (page) => page.getByTestId("command-error").waitFor() },
  { name: "run-queued", hash: () => `#/runs/${world.queued}`, ready: (page) => says(page, "is not online") },
  { name: "sharing", hash: "#/sharing", ready: (page) => page.locator("table").waitFor() },
];

async function story() {
  await world.open();
  world.share("review", REVIEW, HOME);
  world.share("echo", ECHO, HOME);
  world.share("fails", FAILS, "Quiet");
  world.agent(`Claude ${EVIL}`, HOME, "Quiet");
  world.done = await world.queue("echo", ARGUMENTS, "key-00001");
  world.failed = await world.queue("fails", {}, "key-00002");
  world.review = await world.session("review");
  world.quiet = await world.session("fails");
  for (const command of [world.done, world.failed]) await world.ended(command);

  const { page, bad, context } = await visitor();
  await test("a stranger sees the sign-in and nothing else, under a strict policy, framed by nobody", async () => {
    const answer = await page.goto(`${world.address}/owner`);
    const headers = answer.headers();
    const policy = headers["content-security-policy"];
    assert.match(policy, /default-src 'none'; script-src 'self';/);
    assert.match(policy, /frame-ancestors 'none'/);
    assert.ok(!policy.includes("unsafe"), policy);
    assert.deepEqual([headers["x-frame-options"], headers["cache-control"], headers["content-encoding"]], ["DENY", "no-cache", "gzip"]);
    await page.getByTestId("sign-in-code").waitFor();
    assert.ok(!(await text(page)).includes("Ada"));
    assert.equal((await page.request.get(`${world.address}/owner/api/home`)).status(), 401);
    for (const theme of ["light", "dark"]) {
      await page.emulateMedia({ colorScheme: theme });
      await axe(page, `sign-in ${theme}`);
      await page.screenshot({ path: join(out, `reader-sign-in-${theme}.png`) });
    }
    await page.emulateMedia({ colorScheme: "light" });
  });
  await test("assets carry their hash, are kept for ever and come compressed", async () => {
    const name = /src="(\/owner\/assets\/[^"]+\.js)"/.exec(await (await page.request.get(`${world.address}/owner`)).text())[1];
    const answer = await page.request.get(`${world.address}${name}`);
    assert.deepEqual([answer.headers()["cache-control"], answer.headers()["content-encoding"]], ["public, max-age=31536000, immutable", "gzip"]);
    const plain = await page.request.get(`${world.address}${name}`, { headers: { "accept-encoding": "identity" } });
    assert.equal(plain.headers()["content-encoding"], undefined);
    assert.equal(await plain.text(), await answer.text());
    assert.equal((await page.request.get(`${world.address}/owner/assets/none.js`)).status(), 404);
  });
  await test("a wrong code says so, a right one signs in once, by keyboard alone", async () => {
    await page.getByTestId("sign-in-code").fill("AAAA-AAAA");
    await page.keyboard.press("Enter");
    await says(page, "This code is wrong, was used or has expired", "[role=alert]");
    const once = code();
    await page.getByTestId("sign-in-code").fill(once.toLowerCase());
    await page.keyboard.press("Enter");
    await says(page, "Signed in as Ada");
    const again = await page.request.post(`${world.address}/owner/api/sign-in`, { data: { code: once } });
    assert.equal(again.status(), 400);
    const cookie = (await context.cookies())[0];
    assert.deepEqual([cookie.httpOnly, cookie.sameSite, cookie.path], [true, "Strict", "/owner"]);
  });
  await test("without the switch no Graph is readable, and the page says where the switch is", async () => {
    await says(page, "No Graph is readable here");
    await page.screenshot({ path: join(out, "reader-graphs-empty-light.png") });
    assert.equal((await page.request.get(`${world.address}/owner/api/graphs/${world.review}`)).status(), 404);
  });
  await test("switched on, the project's Graphs come by themselves, and no other project's", async () => {
    world.deskd("readable", HOME);
    await page.getByTestId("graph-review").waitFor();
    await page.getByTestId("graph-echo").waitFor();
    assert.equal(await page.locator("[data-testid=graphs] > li").count(), 2);
    assert.equal((await page.request.get(`${world.address}/owner/api/graphs/${world.quiet}`)).status(), 404, "Quiet has no switch");
    assert.ok((await text(page)).includes(EVIL));
    await noMarkup(page);
  });
  await test("a Graph shows its code, read-only, and its picture", async () => {
    await page.getByTestId("graph-review").click();
    await page.locator(".svelte-flow__node").first().waitFor();
    const nodes = await text(page, "[data-testid=picture]");
    for (const word of ["Judge", "Answer", "parallel", "style", "tests", "risk", "3 tries", "verdict", "read_file"]) assert.ok(nodes.toLowerCase().includes(word.toLowerCase()), `${word} in ${nodes}`);
    const lines = page.getByTestId("code-text");
    const before = await lines.innerText();
    assert.ok(before.includes("await parallel("));
    await lines.focus();
    await page.keyboard.type("hello");
    await page.keyboard.press("Delete");
    assert.equal(await lines.innerText(), before);
    assert.equal(await lines.getAttribute("aria-readonly"), "true");
    assert.equal(await page.getByRole("button", { name: /^(Run|Stop|Save|Dry run)/ }).count(), 0);
    await says(page, "Running needs the desktop");
    await noMarkup(page);
  });
  await test("the picture leads to the line it was drawn from, with keys as well", async () => {
    await page.locator(".svelte-flow__node-leaf").first().focus();
    await page.keyboard.press("Enter");
    await page.locator(".cm-here").filter({ hasText: "read_file" }).waitFor();
    await page.getByTestId("code-text").focus();
    await page.keyboard.press("Control+f");
    await page.keyboard.type("verdict");
    assert.ok((await page.locator(".cm-searchMatch").count()) > 0);
    await page.keyboard.press("Escape");
  });
  await test("runs show their states, and a result to the letter and as text", async () => {
    await go(page, `#/runs/${world.done}`);
    await page.getByTestId("command-result").waitFor();
    const result = await text(page, "[data-testid=command-result]");
    assert.ok(result.includes(ARGUMENTS.html) && result.includes(ARGUMENTS.link), result);
    assert.equal(await page.getByTestId("command-state").getAttribute("data-state"), "completed");
    await go(page, `#/runs/${world.failed}`);
    await page.getByTestId("command-error").waitFor();
    assert.ok((await text(page, "[data-testid=command-error]")).includes(EVIL));
    assert.ok((await text(page, ".list")).includes(`Claude ${EVIL}`));
    await noMarkup(page);
  });
  await test("arrows move through the runs", async () => {
    const chosen = () => page.locator("[data-testid=command-row][aria-selected=true]").getAttribute("data-command");
    const before = await chosen();
    await page.locator("[data-testid=command-row][aria-selected=true]").focus();
    await page.keyboard.press("ArrowDown");
    await page.waitForFunction((was) => document.querySelector("[data-testid=command-row][aria-selected=true]")?.getAttribute("data-command") !== was, before);
    assert.equal(await page.evaluate(() => document.activeElement?.getAttribute("data-command")), await chosen());
  });
  await test("a run queued while the desktop is away says that it waits for the desktop", async () => {
    await world.stop(world.desk);
    world.queued = await world.queue("echo", { n: 1 }, "key-00003");
    await go(page, `#/runs/${world.queued}`);
    // Gone for less than a minute, a desktop still counts as online.
    await page.getByTestId("command-state").filter({ hasText: "Queued" }).waitFor();
    assert.equal(await page.getByTestId("command-result").count(), 0);
  });
  await test("sharing is shown by project, and a Graph that is not readable has no way to its code", async () => {
    await go(page, "#/sharing");
    await page.locator("table").waitFor();
    await page.getByRole("button", { name: "Fails" }).click();
    await says(page, "Its code is not here", "aside");
    assert.equal(await page.getByTestId("read-graph").count(), 0);
    await page.getByRole("button", { name: "Echo" }).click();
    await page.getByTestId("read-graph").waitFor();
    assert.equal(await page.locator("[role=checkbox], [role=switch], input").count(), 0, "nothing to tick");
    await noMarkup(page);
  });
  await test("what is waited for and what went wrong is said in words, with a way on", async () => {
    let hold = () => undefined;
    const held = new Promise((done) => (hold = done));
    await page.route("**/owner/api/graphs?*", async (route) => (await held, route.abort()));
    await go(page, "#/graphs");
    await says(page, "Reading the Graphs", "[role=status]");
    await page.screenshot({ path: join(out, "reader-graphs-loading-light.png") });
    hold();
    await says(page, "Graph Queue does not answer", "[role=alert]");
    await page.screenshot({ path: join(out, "reader-graphs-error-light.png") });
    await page.getByRole("button", { name: "Try again" }).waitFor();
    // It also comes back by itself.
    await page.unroute("**/owner/api/graphs?*");
    await page.getByTestId("graph-review").waitFor();
    await go(page, "#/graphs/gs_00000000000000000000000000000000");
    await says(page, "This Graph is not readable here");
  });
  await test("nothing it ever showed ran a script, opened a dialog or asked another host", () => assert.deepEqual(bad, []));

  for (const theme of ["light", "dark"]) {
    await test(`axe finds nothing serious on any screen, ${theme}`, async () => {
      await page.emulateMedia({ colorScheme: theme });
      for (const screen of SCREENS) {
        await go(page, typeof screen.hash === "string" ? screen.hash : screen.hash());
        if (screen.name === "run-queued") await page.getByTestId("command-state").filter({ hasText: "Queued" }).waitFor();
        else await screen.ready(page);
        await page.evaluate(() => document.fonts.ready);
        await axe(page, screen.name);
        await page.screenshot({ path: join(out, `reader-${screen.name}-${theme}.png`) });
      }
    });
  }
  await test("German, a phone and a wide screen hold every screen without a sideways scroll", async () => {
    const seen = new Set();
    for (const [name, options] of [["german", { locale: "de-DE" }], ["phone", { viewport: { width: 390, height: 780 } }], ["wide", { viewport: { width: 2560, height: 1440 } }]]) {
      const other = await visitor(options);
      await signIn(other.page);
      for (const screen of SCREENS.filter((each) => each.name !== "run-queued")) {
        await go(other.page, typeof screen.hash === "string" ? screen.hash : screen.hash());
        await screen.ready(other.page);
        assert.ok(await other.page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), `${name}: ${screen.name}`);
        await axe(other.page, `${name} ${screen.name}`);
        await other.page.screenshot({ path: join(out, `reader-${screen.name}-${name}.png`) });
      }
      seen.add(await other.page.evaluate(() => document.documentElement.lang));
      assert.deepEqual(other.bad, [], name);
      await other.context.close();
    }
    assert.deepEqual([...seen], ["de", "en"]);
  });
  await test("without a script the plain page shows the same", async () => {
    const plain = await visitor({ javaScriptEnabled: false });
    await plain.page.goto(`${world.address}/owner`);
    await plain.page.getByRole("link", { name: "Read it without." }).click();
    await plain.page.locator("#code").fill(code());
    await plain.page.locator("button").click();
    await says(plain.page, EVIL);
    await plain.page.getByRole("link", { name: "Review" }).click();
    assert.ok((await text(plain.page, "pre")).includes("await parallel("));
    assert.deepEqual(plain.bad, []);
    await plain.context.close();
  });
  await test("switched off, the Graphs go by themselves, also from an open page", async () => {
    await go(page, `#/graphs/${world.review}`);
    await page.locator(".svelte-flow__node").first().waitFor();
    world.deskd("readable", HOME, "--off");
    world.desk = (await world.start("graph-deskd", ["serve"])).child;
    await says(page, "This Graph is not readable here");
    assert.ok(!(await text(page)).includes("await parallel("));
    await go(page, "#/graphs");
    await says(page, "No Graph is readable here");
    assert.equal((await page.request.get(`${world.address}/owner/api/graphs/${world.review}`)).status(), 404);
  });
  await test("signed out, the cookie opens nothing and going back shows nothing", async () => {
    const cookies = await context.cookies();
    await page.getByTestId("sign-out").click();
    await page.getByTestId("sign-in-code").waitFor();
    const old = cookies.map((each) => `${each.name}=${each.value}`).join("; ");
    assert.equal((await fetch(`${world.address}/owner/api/home`, { headers: { cookie: old } })).status, 401);
    await page.goBack();
    await page.reload();
    await page.getByTestId("sign-in-code").waitFor();
    assert.ok(!(await text(page)).includes("Ada"));
  });
}

try {
  browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox"] });
  await story();
} finally {
  await browser?.close();
  await world.end();
}
console.log(` ${passed} passed, ${failures.length} failed`);
process.exit(failures.length === 0 && passed > 0 ? 0 : 1);
