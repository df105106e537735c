import { cleanup, fireEvent, screen, waitFor } from "@testing-library/svelte";
import { afterEach, beforeEach, describe, expect, test } from "vitest";

import App from "../app/App.svelte";
import { registry } from "../app/commands.svelte";
import { nav, PLACES, type Place } from "../app/nav.svelte";
import { testid } from "../app/testids";
import { t, useLanguage } from "../app/texts/index.svelte";
import type { Sentence } from "../generated/types";
import type { FakeDesk, Mood } from "../platform/fake/desk";
import { asData } from "../shared/sentence";
import { fakeDesk, show } from "./render";

beforeEach(() => localStorage.clear());
afterEach(async () => {
  cleanup();
  await useLanguage("en");
});

async function open(place: Place, mood: Mood = "normal", id?: string, change?: (desk: FakeDesk) => void): Promise<FakeDesk> {
  location.hash = `#/${place}${id ? `/${id}` : ""}`;
  window.dispatchEvent(new Event("hashchange"));
  const desk = fakeDesk(mood);
  change?.(desk);
  show(App, {});
  await waitFor(() => expect(document.querySelector("main h1, main .Waiting, main [data-testid=error-note]")).not.toBeNull());
  return desk;
}
const main = () => document.querySelector("main")?.textContent ?? "";
const REVIEW = () => fakeDesk().graphs[0]?.row.id ?? "";

describe("every place shows each of its states", () => {
  const NORMAL: Record<Place, string> = { graphs: "Review a change set with three judges", editor: "No Graph is open", runs: "Nightly dependency check", sharing: "20 Graph sessions, 19 ready", approvals: "Run this command?", connections: "MCP Inspector", models: "claude-sonnet-4-5", settings: "/home/ada/billing" };
  const EMPTY: Partial<Record<Place, string>> = { graphs: "Write your first Graph", runs: "Nothing has run yet", sharing: "No queue is connected", approvals: "Nothing waits for you", connections: "Use the one built in", models: "No model yet" };

  test.each(PLACES)("%s, normal", async (place) => {
    localStorage.clear();
    await open(place);
    await waitFor(() => expect(main()).toContain(NORMAL[place]));
  });
  test.each(Object.entries(EMPTY))("%s, empty, with the next action", async (place, words) => {
    if (place === "approvals") location.hash = "#/approvals?show=waiting";
    await open(place as Place, "empty", undefined);
    if (place === "approvals") nav.set({ show: "waiting" });
    await waitFor(() => expect(main()).toContain(words));
    expect(document.querySelector("main button, main a.b")).not.toBeNull();
  });
  test.each(PLACES.filter((place) => place !== "editor" && place !== "settings"))("%s, loading, names what it waits for", async (place) => {
    await open(place, "loading");
    await waitFor(() => expect(document.querySelector("main .Waiting")?.textContent).toMatch(/Reading/));
  });
  test.each(PLACES.filter((place) => place !== "editor" && place !== "settings"))("%s, error, in words and with a way on", async (place) => {
    const desk = await open(place, "error");
    await waitFor(() => expect(screen.getAllByTestId("error-note")[0]?.textContent).toContain("The database does not answer"));
    desk.mood = "normal";
    await fireEvent.click(screen.getAllByRole("button", { name: "Try again" })[0] as HTMLElement);
    await waitFor(() => expect(screen.queryByTestId("error-note")).toBeNull());
  });
});

test("names, results and errors are always text", async () => {
  const evil = '<img src=x onerror="alert(1)"></script><script>alert(2)</script>';
  const poison = (desk: FakeDesk) => {
    for (const { row } of desk.graphs) Object.assign(row, { name: evil, description: evil, slug: "evil", gained: [{ what: "tool", name: evil }] });
    for (const run of desk.runs) Object.assign(run, { graph: evil });
    desk.connections = { ...desk.connections, problem: asData(evil), projects: desk.connections.projects.map((project) => ({ ...project, name: evil })), agents: desk.connections.agents.map((agent) => ({ ...agent, name: evil })) };
    desk.approvals = { ...desk.approvals, waiting: desk.approvals.waiting.map((question) => ({ ...question, graph: evil, agent: evil, arguments: evil, because: asData(evil), rules: [{ scope: "everywhere", text: asData(evil) }], effect: { ...question.effect, command_line: null, folder: evil } })) };
  };
  for (const place of ["graphs", "runs", "sharing", "approvals", "connections"] as const) {
    await open(place, "normal", undefined, poison);
    await waitFor(() => expect(main()).toContain("<img src=x"));
    expect(document.querySelector("main img, main script, main iframe")).toBeNull();
    cleanup();
  }
});

test("the 101st tick is refused with the reason", async () => {
  await open("sharing", "full");
  const tick = await screen.findByTestId(testid.tick("dead-links", "Billing"));
  expect(tick.getAttribute("aria-disabled")).toBe("true");
  expect(tick.title).toBe("100 of 100 are ticked for Billing. Untick one first.");
  await fireEvent.click(tick);
  await waitFor(() => expect(screen.getByTestId("error-note").textContent).toContain("100 of 100 are ticked for Billing. Untick one first."));
});
test("the worst case of a run: agents where the Graph bounds them, tokens by the ceiling in any case", async () => {
  for (const [agents_max, words] of [[29, "at most 29 agents, 200,000 tokens by the ceiling"], [null, "agents cannot be told from the code, 200,000 tokens by the ceiling"]] as const) {
    await open("editor", "normal", REVIEW(), (desk) => {
      const call = desk.call.bind(desk);
      desk.call = async (name, args) => {
        const answer = await call(name, args);
        return answer !== null && typeof answer === "object" && "powers" in answer ? { ...answer, powers: { ...answer.powers, agents_max } } : answer;
      };
    });
    await fireEvent.click(await screen.findByRole("button", { name: "Details" }));
    await waitFor(() => expect(document.querySelector("dialog")?.textContent).toContain(words));
    cleanup();
  }
});
test("each pickup wait names its Graph", async () => {
  await open("sharing");
  const cells = () => [...document.querySelectorAll(".waits > *")].map((each) => each.textContent);
  await waitFor(() => expect(cells()).toEqual(["Label new issues", "in 0.02 s", "Summarise support mail", "in 0.03 s", "Label new issues", "in 9.8 s"]));
});
test("a tick acts at once and can be undone", async () => {
  const desk = await open("sharing");
  const tick = await screen.findByTestId(testid.tick("plan-week", "Website"));
  await fireEvent.click(tick);
  await waitFor(() => expect(screen.getByTestId(testid.tick("plan-week", "Website")).getAttribute("aria-checked")).toBe("true"));
  await fireEvent.click(screen.getByRole("button", { name: "Undo" }));
  await waitFor(() => expect(screen.getByTestId(testid.tick("plan-week", "Website")).getAttribute("aria-checked")).toBe("false"));
  expect(desk.calls.filter((call) => call.name === "sharing_tick")).toHaveLength(2);
});
test("pairing says what is wrong with a code, and works with a right one", async () => {
  await open("connections", "empty");
  await fireEvent.input(await screen.findByTestId(testid.pairAddress), { target: { value: "https://queue.example.org" } });
  await fireEvent.input(screen.getByTestId(testid.pairCode), { target: { value: "AAAA-AAAA" } });
  await fireEvent.click(screen.getByTestId(testid.pair));
  await waitFor(() => expect(screen.getByTestId("error-note").textContent).toContain("does not know this pairing code"));
  expect(screen.getByTestId(testid.pairCode).getAttribute("aria-invalid")).toBe("true");
  await fireEvent.input(screen.getByTestId(testid.pairCode), { target: { value: "4TQK-9ZMX" } });
  await fireEvent.click(screen.getByTestId(testid.pair));
  await waitFor(() => expect(screen.getByTestId(testid.paired)).toBeTruthy());
});
test("first run takes two clicks to the built-in queue and gives the exact line for Claude Code", async () => {
  await open("connections", "empty");
  await fireEvent.click(await screen.findByTestId(testid.pairBuiltin));
  await fireEvent.click(await screen.findByTestId(testid.mint));
  await waitFor(() => expect(screen.getByTestId(testid.claudeCodeLine).textContent).toMatch(/^claude mcp add --transport http graph-queue http:\/\/127\.0\.0\.1:\d+\/mcp --header "Authorization: Bearer /));
});
test("revoking asks once, says what follows, and then acts", async () => {
  const desk = await open("connections");
  await fireEvent.click(await screen.findByTestId(testid.revoke("Claude Code")));
  expect(document.querySelector("dialog")?.textContent).toContain("its running command stops within 3 s");
  await fireEvent.click(screen.getByTestId(testid.confirm));
  await waitFor(() => expect(desk.calls.some((call) => call.name === "agent_revoke")).toBe(true));
});
test("deleting a Graph acts at once and undo brings it back", async () => {
  const desk = await open("graphs");
  await fireEvent.click(await screen.findByRole("button", { name: "More about Plan the week" }));
  await fireEvent.click(screen.getByRole("menuitem", { name: "Delete" }));
  await waitFor(() => expect(main()).not.toContain("plan-week"));
  await fireEvent.click(screen.getByRole("button", { name: "Undo" }));
  await waitFor(() => expect(main()).toContain("plan-week"));
  expect(desk.calls.map((call) => call.name)).toContain("graph_undelete");
});
test("the keyboard goes on beside what was removed", async () => {
  await open("settings");
  const remove = await screen.findByRole("button", { name: "Remove /home/ada/notes" });
  remove.focus();
  await fireEvent.click(remove);
  await waitFor(() => expect(main()).not.toContain("/home/ada/notes"));
  await waitFor(() => expect(document.activeElement?.closest("section")?.textContent).toContain("/home/ada/billing"));
});
test("every command with keys is started by them, and no two share keys", async () => {
  await open("editor", "normal", REVIEW());
  await waitFor(() => expect(document.querySelector(".cm-editor, .svelte-flow")).not.toBeNull(), { timeout: 8000 });
  const keyed = registry.all.filter((command) => command.keys !== undefined);
  expect(new Set(keyed.map((command) => command.keys)).size).toBe(keyed.length);
  for (const command of keyed) {
    let ran = 0;
    const remove = registry.add([{ ...command, run: () => ran++ }]);
    const parts = (command.keys ?? "").split("+");
    await fireEvent.keyDown(window, { key: parts.at(-1) ?? "", ctrlKey: parts.includes("mod"), shiftKey: parts.includes("shift"), altKey: parts.includes("alt") });
    remove();
    expect([command.id, ran]).toEqual([command.id, 1]);
  }
});
test("two runs stand side by side, and Escape goes back to one", async () => {
  await open("runs", "normal", "e-failed");
  nav.set({ with: "e-run-8" });
  await waitFor(() => expect(screen.getByTestId("compare-pane").textContent).toMatch(/Find speed.*7,204.*17,193.*\+9,989/));
  await fireEvent.keyDown(window, { key: "Escape" });
  await waitFor(() => expect(screen.queryByTestId("compare-pane")).toBeNull());
});
test("a place that comes keeps its commands when the one before it goes", async () => {
  await open("graphs");
  await screen.findByTestId(testid.newGraph);
  nav.go("models");
  await screen.findByTestId("add-provider");
  expect(registry.all.map((command) => command.id)).toEqual(expect.arrayContaining(["models.add", "models.look"]));
  expect(registry.byKeys("mod+n")).toBeUndefined();
});
test("taking commands is paused by name, and nothing else changes with it", async () => {
  const desk = await open("graphs");
  const before = desk.settings;
  registry.all.find((command) => command.id === "relay.pause")?.run();
  await waitFor(() => expect(desk.settings).toEqual({ ...before, paused: true }));
});
test("the logs folder opens by name and from Settings; where it cannot, Settings says so", async () => {
  const desk = await open("settings");
  const asked = () => desk.calls.filter((call) => call.name === "logs_open").length;
  registry.all.find((command) => command.id === "logs.open")?.run();
  await waitFor(() => expect(asked()).toBe(1));
  await fireEvent.click(await screen.findByTestId(testid.openLogs));
  expect(asked()).toBe(2);
  expect(screen.queryByTestId("error-note")).toBeNull();
  const call = desk.call.bind(desk);
  desk.call = async (name, args) => (name === "logs_open" ? Promise.reject({ code: "folder_not_opened", message: "The system did not open it.", facts: {}, field: null, line: null, column: null }) : call(name, args));
  await fireEvent.click(screen.getByTestId(testid.openLogs));
  await waitFor(() => expect(screen.getByTestId("error-note").textContent).toContain("The system did not open it."));
});
test("the palette finds Graphs, commands and runs by a few letters", async () => {
  await open("graphs");
  await fireEvent.keyDown(window, { key: "k", ctrlKey: true });
  await fireEvent.input(await screen.findByTestId(testid.paletteInput), { target: { value: "rev" } });
  await waitFor(() => expect(screen.getByTestId(testid.palette).textContent).toMatch(/Review a change set with three judges.*Review waiting approvals/));
  await fireEvent.input(screen.getByTestId(testid.paletteInput), { target: { value: "zzz" } });
  await waitFor(() => expect(screen.getByTestId(testid.palette).textContent).toContain("Nothing is called “zzz”."));
});

test("the log of calls goes on as long as there are any, and keeps what it showed", async () => {
  const desk = await open("approvals");
  nav.set({ show: "log" });
  await waitFor(() => expect(main()).toContain("Rename the photos"));
  expect(main()).not.toContain("Folder digest");
  await fireEvent.click(screen.getByTestId(testid.logOlder));
  await waitFor(() => expect(main()).toContain("Folder digest"));
  expect(screen.queryByTestId(testid.logOlder)).toBeNull();
  // A newer call pushes the oldest of the first page off it.
  const { rows } = desk.approvals.log;
  desk.approvals = { ...desk.approvals, log: { more: true, rows: [...rows.slice(0, 1).map((row) => ({ ...row, number: 10, graph: "The newest" })), ...rows.slice(0, -1)] } };
  desk.changed("approvals");
  await waitFor(() => expect(main()).toContain("The newest"));
  expect(main()).toContain("Rename the photos");
});

/** Of a sentence its facts are data; its words must be the catalogue's. */
function dataOf(_: string, value: unknown): unknown {
  const sentence = value as Partial<Sentence> | null;
  return typeof sentence?.code === "string" && sentence.code !== "" && typeof sentence.facts === "object" ? sentence.facts : value;
}
test("no text of any place bypasses the catalogue", async () => {
  await useLanguage("pseudo");
  const DATES = /^(?:(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day|Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sept?|Oct|Nov|Dec)$/; // the platform writes dates in the catalogue's language
  const words = (text: string) => text.match(/\p{L}{2,}/gu) ?? [];
  const places: [Place, Mood, string?][] = [...PLACES.map((place): [Place, Mood] => [place, "normal"]), ["graphs", "empty"], ["runs", "empty"], ["sharing", "empty"], ["connections", "empty"], ["models", "empty"], ["graphs", "error"], ["runs", "normal", "e-failed"], ["runs", "normal", "e-running"]];
  const found: string[] = [];
  for (const [place, mood, id] of places) {
    const desk = await open(place, mood, id);
    await new Promise((done) => setTimeout(done, 30)); // lazily loaded parts; nothing to wait for that all places share
    const data = JSON.stringify([desk.graphs, desk.runs, desk.approvals, desk.connections, desk.models, desk.mcp, desk.settings, await desk.call("sharing_get", {}).catch(() => 0), await desk.call("templates_list", {}).catch(() => 0), id ? await desk.call("execution_open", { execution_id: id }) : 0, "The database does not answer: the disk is full. Free some space, then try again. Nothing was lost."], dataOf).toLowerCase();
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    for (let node = walker.nextNode(); node; node = walker.nextNode()) {
      if (node.parentElement?.closest("script, style, kbd, code, pre, option, .cm-editor")) continue;
      let bare = node.textContent ?? "";
      while (/⟦[^⟦⟧]*⟧/.test(bare)) bare = bare.replace(/⟦[^⟦⟧]*⟧/g, " ");
      const alien = words(bare).filter((word) => !data.includes(word.toLowerCase()) && !DATES.test(word));
      if (alien.length > 0) found.push(`${place}: ${bare.trim()}`);
    }
    cleanup();
  }
  expect([...new Set(found)]).toEqual(["settings: English", "settings: Deutsch", "graphs: parallel"].filter((line) => found.includes(line)));
  expect(t("place.graphs")).toBe("⟦Graphs⟧");
});
