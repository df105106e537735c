// The status bar: what the relay does and where it asks, in words an owner can act on.
import { cleanup, screen, waitFor } from "@testing-library/svelte";
import { afterEach, expect, test } from "vitest";

import App from "../app/App.svelte";
import { testid } from "../app/testids";
import type { FakeDesk, Mood } from "../platform/fake/desk";
import { fakeDesk, show } from "./render";

afterEach(cleanup);

async function open(mood: Mood, change?: (desk: FakeDesk) => void): Promise<FakeDesk> {
  location.hash = "#/graphs";
  const desk = fakeDesk(mood);
  change?.(desk);
  show(App, {});
  await screen.findByTestId(testid.statusRelay);
  return desk;
}

function paired(desk: FakeDesk, address: string, builtin: boolean) {
  return desk.connections.paired && { ...desk.connections.paired, address, builtin };
}

test("a relay that keeps failing is told in the status bar: what happened, what it means, what to do", async () => {
  await open("failing");
  const relay = await screen.findByTestId(testid.statusRelay);
  expect(relay.textContent).toBe("Relay failed 4 times: commands wait. Restart Graph Desk.");
  expect(relay.classList.contains("ask")).toBe(true);
  expect(relay.title).toMatch(/^The relay failed 4 times in a row since .*other commands wait in the queue\. Restart Graph Desk; if that does not help, the logs say why/);
  expect(document.querySelector(".StatusBar [role=status]")?.textContent).toContain(relay.title);
});
test("the queue is told by its host, and the one inside the app by its name", async () => {
  const queue = () => document.querySelector(".StatusBar a.end")?.textContent;
  await open("normal", (desk) => (desk.connections = { ...desk.connections, paired: paired(desk, "https://queue.example.org:8443/", false) }));
  await waitFor(() => expect(queue()).toBe("queue.example.org:8443"));
  cleanup();
  await open("normal", (desk) => (desk.connections = { ...desk.connections, paired: paired(desk, "http://127.0.0.1:47821", true) }));
  await waitFor(() => expect(queue()).toBe("Built-in queue"));
  cleanup();
  await open("empty");
  await waitFor(() => expect(queue()).toBe("No queue"));
});
