// The owner's page in every state of its places, over a queue that answers from a table.
import { cleanup, fireEvent, screen, waitFor } from "@testing-library/svelte";
import { afterEach, beforeEach, expect, test, vi } from "vitest";

import { usePlatform } from "../platform";
import { web } from "../platform/web";
import { show } from "../testing/render";
import Reader from "./Reader.svelte";
import { session } from "./session.svelte";
import { PLACES } from "./where.svelte";

const DESKTOP = { name: "Ada's desk", online: true, last_contact_at: "2026-11-29T12:00:00Z" };
const PROJECT = { project_id: "p1", name: "Home", sessions: 1 };
const SESSION = { project_id: "p1", graph_session_id: "gs_1", name: "Digest", description: "", slug: "digest", version: 3, status: "ready", desktop: DESKTOP, readable: true };
const GRAPH = { graph_session_id: "gs_1", name: "Digest", description: "", slug: "digest", version: 3, projects: ["Home"], desktop: DESKTOP, updated_at: "2026-11-29T12:00:00Z" };
const COMMAND = { command_id: "c1", project_id: "p1", project: "Home", graph_session_id: "gs_1", graph: "Digest", slug: "digest", agent: "Claude", desktop: DESKTOP, status: "completed", reason: "done", cancel_requested: false, execution_id: "e1", queued_at: "2026-11-29T12:00:00Z", started_at: "2026-11-29T12:00:01Z", ended_at: "2026-11-29T12:00:03Z", expires_at: "2026-12-06T12:00:00Z" };
const DETAIL = { command: COMMAND, progress: null, result: '{"big":9007199254740993,"neg":-0}', result_truncated: false, error: null, total_tokens: 7, reported_cost: null };

type Answer = (path: string) => { status?: number; body: object } | "never" | "broken";
const full: Answer = (path) => ({ body: path === "home" ? { owner: "Ada", projects: [PROJECT] } : path === "commands/c1" ? DETAIL : { items: [path.startsWith("sessions") ? SESSION : path.startsWith("graphs") ? GRAPH : COMMAND], next_cursor: null } });
const empty: Answer = (path) => ({ body: path === "home" ? { owner: "Ada", projects: [] } : { items: [], next_cursor: null } });
let answer: Answer;
const asked: { path: string; body: string | undefined }[] = [];

beforeEach(() => {
  asked.length = 0;
  session.seen = { at: "asking", since: Date.now() };
  vi.stubGlobal("fetch", (url: string, init?: RequestInit) => {
    const path = url.replace("/owner/api/", "");
    asked.push({ path, body: init?.body as string | undefined });
    const said = answer(path);
    if (said === "never") return new Promise(() => undefined);
    if (said === "broken") return Promise.reject(new TypeError("network"));
    return Promise.resolve(new Response(JSON.stringify(said.body), { status: said.status ?? 200 }));
  });
});
afterEach(() => {
  cleanup();
  vi.unstubAllGlobals();
});
function open(hash: string, answers: Answer): void {
  answer = answers;
  location.hash = hash;
  window.dispatchEvent(new Event("hashchange"));
  usePlatform(web);
  show(Reader, {});
}
const main = () => document.querySelector("main")?.textContent ?? "";
const rest = (home: Answer, other: Answer): Answer => (path) => (path === "home" ? home(path) : other(path));

test.each(PLACES.map((place) => [place, { graphs: "Digest", runs: "Claude", sharing: "Digest" }[place]] as const))("%s, normal", async (place, words) => {
  open(`#/${place}`, full);
  await waitFor(() => expect(main()).toContain(words));
});
test.each(PLACES.map((place) => [place, { graphs: "No Graph is readable here", runs: "No agent has asked for a run yet", sharing: "Nothing is shared" }[place]] as const))("%s, empty, with the next action", async (place, words) => {
  open(`#/${place}`, empty);
  await waitFor(() => expect(main()).toContain(words));
  expect(document.querySelector("main a.b")).not.toBeNull();
});
test.each(PLACES)("%s, loading, names what it waits for", async (place) => {
  open(`#/${place}`, rest(full, () => "never"));
  await waitFor(() => expect(document.querySelector("main .Waiting")?.textContent).toMatch(/Reading/));
});
test.each(PLACES)("%s, error, in words and with a way on", async (place) => {
  open(`#/${place}`, rest(full, () => "broken"));
  await waitFor(() => expect(screen.getAllByTestId("error-note")[0]?.textContent).toContain("Graph Queue does not answer"));
  answer = full;
  await fireEvent.click(screen.getAllByRole("button", { name: "Try again" })[0] as HTMLElement);
  await waitFor(() => expect(screen.queryByTestId("error-note")).toBeNull());
});
test("a result is shown to the letter", async () => {
  open("#/runs/c1", full);
  await waitFor(() => expect(screen.getByTestId("command-result").textContent).toBe('{\n  "big": 9007199254740993,\n  "neg": -0\n}'));
});
test("a queue that no longer knows the browser asks for a code, wherever the owner is", async () => {
  open("#/runs", rest(full, () => ({ status: 401, body: { error: { code: "unauthorized", message: "no" } } })));
  await screen.findByTestId("sign-in-code");
});
test("a code is sent as typed, and a wrong one says so", async () => {
  open("#/graphs", (path) => (path === "sign-in" ? { status: 400, body: { error: { code: "sign_in_code_invalid", message: "wrong" } } } : { status: 401, body: {} }));
  await fireEvent.input(await screen.findByTestId("sign-in-code"), { target: { value: " K7QF-3M9T " } });
  await fireEvent.click(screen.getByTestId("sign-in"));
  await waitFor(() => expect(screen.getByTestId("error-note").textContent).toContain("This code is wrong, was used or has expired."));
  expect(asked.find((each) => each.path === "sign-in")?.body).toBe('{"code":"K7QF-3M9T"}');
});
test("every page of a list is read", async () => {
  const pages: Answer = (path) => (path === "graphs?" ? { body: { items: [GRAPH], next_cursor: "gs_1" } } : path === "graphs?cursor=gs_1" ? { body: { items: [{ ...GRAPH, graph_session_id: "gs_2", name: "Second" }], next_cursor: null } } : full(path));
  open("#/graphs", pages);
  await waitFor(() => expect(main()).toContain("Second"));
});
test("what the desktop does needs the desktop", async () => {
  await expect(web.call("run_graph_now", { id: "gs_1", args: "{}" })).rejects.toMatchObject({ code: "needs_desktop" });
  await expect(web.call("graph_save", { id: "gs_1", source: "" })).rejects.toMatchObject({ code: "needs_desktop" });
});
