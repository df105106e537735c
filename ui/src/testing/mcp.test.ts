import { cleanup, fireEvent, screen, waitFor } from "@testing-library/svelte";
import { afterEach, expect, test } from "vitest";

import { testid } from "../app/testids";
import McpServers from "../features/settings/McpServers.svelte";
import type { Mood } from "../platform/fake/desk";
import { fakeDesk, show } from "./render";

afterEach(cleanup);
const text = () => document.body.textContent ?? "";
function open(mood: Mood = "normal") {
  const desk = fakeDesk(mood);
  show(McpServers, {});
  return desk;
}

test("each server shows its state in words, what it gets by name, and its tools with their ruling", async () => {
  open();
  await waitFor(() => expect(screen.getByTestId(testid.mcpServer("files")).textContent).toContain("gets API_KEY"));
  expect(screen.getByTestId(testid.mcpServer("files")).textContent).toContain("changed since you allowed it");
  expect(screen.getByTestId(testid.mcpServer("tickets")).textContent).toContain("401 Unauthorized");
  expect(screen.getByTestId(testid.mcpServer("old")).dataset["state"]).toBe("off");
});
test("without servers it says so and offers to add one; while loading it names what it waits for", async () => {
  open("empty");
  await waitFor(() => expect(text()).toContain("None yet."));
  expect(screen.getByTestId(testid.mcpAdd)).toBeTruthy();
  cleanup();
  open("loading");
  await waitFor(() => expect(text()).toContain("Reading the MCP servers"));
});
test("a stored value is kept when its field is left empty, and what is refused stays in the dialog", async () => {
  const desk = open();
  await waitFor(() => screen.getByTestId(testid.mcpServer("files")));
  await fireEvent.click(screen.getAllByRole("button", { name: "Change…" })[0] as HTMLElement);
  await fireEvent.input(screen.getByTestId(testid.mcpTarget), { target: { value: "nowhere" } });
  await fireEvent.submit(document.querySelector("#mcp-form") as HTMLFormElement);
  await waitFor(() => expect(screen.getByTestId("error-note").textContent).toContain("Name the program"));
  await fireEvent.input(screen.getByTestId(testid.mcpTarget), { target: { value: "uvx" } });
  await fireEvent.submit(document.querySelector("#mcp-form") as HTMLFormElement);
  await waitFor(() => expect(document.querySelector("#mcp-form")).toBeNull());
  const saved = desk.calls.filter((call) => call.name === "mcp_save").at(-1)?.args as { server: { target: string; args: string[]; values: unknown } };
  expect([saved.server.target, saved.server.args, saved.server.values]).toEqual(["uvx", ["-y", "@example/files"], [{ name: "API_KEY", value: null }]]);
});
test("switching off, restarting and removing act on the one server", async () => {
  const desk = open();
  await waitFor(() => screen.getByTestId(testid.mcpServer("files")));
  await fireEvent.click(screen.getByRole("switch", { name: "files is on" }));
  await waitFor(() => expect(screen.getByTestId(testid.mcpServer("files")).dataset["state"]).toBe("off"));
  // Only what is on can be restarted.
  await fireEvent.click(screen.getByRole("button", { name: "Restart" }));
  await waitFor(() => expect(screen.getByTestId(testid.mcpServer("tickets")).dataset["state"]).toBe("ready"));
  await fireEvent.click(screen.getAllByRole("button", { name: "Remove…" })[2] as HTMLElement);
  await fireEvent.click(screen.getByTestId(testid.confirm));
  await waitFor(() => expect(screen.queryByTestId(testid.mcpServer("old"))).toBeNull());
  expect(desk.calls.map((call) => call.name).filter((name) => name !== "mcp_get")).toEqual(["mcp_enable", "mcp_restart", "mcp_delete"]);
});
