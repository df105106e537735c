// What every client is driven through: list, run, the same key again, get, cancel, a run that is not ours. `call` is the client's own way.
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";

export const TOOLS = ["cancel_graph_run", "get_graph_run", "list_graph_sessions", "list_projects", "run_graph_session"];

export async function story(who, desk, { tools, call }) {
  let passed = 0;
  const holds = (what) => {
    passed += 1;
    console.log(`  ok  ${who}: ${what}`);
  };
  assert.deepEqual((await tools()).map((tool) => tool.name), TOOLS);
  holds("the five tools are listed");

  const { projects } = (await call("list_projects", {})).structuredContent;
  assert.ok(projects.some((project) => project.project_id === desk.project_id), JSON.stringify(projects));
  const listed = (await call("list_graph_sessions", { project_id: desk.project_id, limit: 50 })).structuredContent;
  assert.deepEqual(listed.sessions.map((session) => session.slug).sort(), Object.keys(desk.sessions).sort());
  assert.equal(listed.sessions[0].desktop.online, true);
  holds("projects and sessions are listed");

  const run = { graph_session_id: desk.sessions.echo, arguments: { n: 7, text: "ü" }, idempotency_key: `key-${randomUUID()}` };
  const ticket = (await call("run_graph_session", run)).structuredContent;
  const again = (await call("run_graph_session", run)).structuredContent;
  assert.deepEqual([ticket.replayed, again.replayed, again.command_id], [false, true, ticket.command_id]);
  holds("a run is queued once, whatever is repeated");

  const until = async (command_id) => {
    for (let n = 0; n < 10; n += 1) {
      const now = (await call("get_graph_run", { command_id, wait_seconds: 10 })).structuredContent;
      if (now.terminal) return now;
    }
    throw new Error(`${command_id} did not end`);
  };
  const ended = await until(ticket.command_id);
  assert.deepEqual([ended.status, ended.result], ["completed", { got: { n: 7, text: "ü" } }]);
  holds("its result is read");

  const slow = { graph_session_id: desk.sessions["slow-compute"], arguments: { seconds: 600 }, idempotency_key: `key-${randomUUID()}` };
  const long = (await call("run_graph_session", slow)).structuredContent;
  const cancelled = (await call("cancel_graph_run", { command_id: long.command_id })).structuredContent;
  assert.ok(cancelled.cancel_requested || cancelled.status === "cancelled", JSON.stringify(cancelled));
  assert.equal((await until(long.command_id)).status, "cancelled");
  holds("a run is cancelled");

  const foreign = await call("get_graph_run", { command_id: randomUUID() });
  assert.deepEqual([foreign.isError, foreign.content[0].text], [true, "Graph run not found or access removed"]);
  holds("a run that is not ours is not found");
  return passed;
}
