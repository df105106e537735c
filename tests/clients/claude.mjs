// Acts as Claude: the official MCP client library against a running Graph Queue, one step per printed paragraph.
//
//   node claude.mjs <mcp-url> <session-slug> <arguments-json> [--key KEY]      (the agent token comes in AGENT_TOKEN)
//
// Exit 0 only when the run completed. The last line is the final get_graph_run answer as JSON.
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { randomUUID } from "node:crypto";

const [url, slug, argumentsJson, ...rest] = process.argv.slice(2);
const key = rest[0] === "--key" ? rest[1] : `demo-${randomUUID()}`;
if (!url || !slug || !argumentsJson || !process.env.AGENT_TOKEN) {
  console.error("usage: AGENT_TOKEN=… node claude.mjs <mcp-url> <session-slug> <arguments-json> [--key KEY]");
  process.exit(2);
}

const transport = new StreamableHTTPClientTransport(new URL(url), {
  requestInit: { headers: { Authorization: `Bearer ${process.env.AGENT_TOKEN}` } },
});
const client = new Client({ name: "claude-demo", version: "1.0.0" }, { versionNegotiation: { mode: "auto" } });
await client.connect(transport);

async function call(name, args = {}) {
  const answer = await client.callTool({ name, arguments: args });
  if (answer.isError) throw new Error(`${name}: ${answer.content?.map((block) => block.text).join(" ")}`);
  return answer.structuredContent;
}
function say(title, lines) {
  console.log(`\n  ${title}`);
  for (const line of lines) console.log(`    ${line}`);
}

const { projects } = await call("list_projects");
say("list_projects", projects.map((project) => `${project.name}  ${project.project_id}`));

let session;
for (let tries = 0; !session && tries < 60; tries++) {
  if (tries > 0) await new Promise((done) => setTimeout(done, 500)); // what was ticked a moment ago is still on its way
  const found = [];
  for (const project of projects) {
    const listed = await call("list_graph_sessions", { project_id: project.project_id });
    session ??= listed.sessions.find((s) => s.slug === slug);
    found.push([project.name, listed.sessions.map((s) => `${s.name} [${s.slug}] v${s.version}, ${s.status}, desktop ${s.desktop?.online ? "online" : "offline"}`)]);
  }
  if (session) for (const [name, lines] of found) say(`list_graph_sessions (${name})`, lines);
}
if (!session) throw new Error(`no shared session has the slug ${slug}`);

const wanted = { graph_session_id: session.graph_session_id, arguments: JSON.parse(argumentsJson), idempotency_key: key };
const queuedAt = performance.now();
const ticket = await call("run_graph_session", wanted);
say("run_graph_session", [`ticket ${ticket.command_id}: ${ticket.status}, place ${ticket.queue_position} in the queue`, ticket.next_step]);
const again = await call("run_graph_session", wanted);
if (again.command_id !== ticket.command_id || again.replayed !== true) throw new Error("the same key gave another ticket");
say("run_graph_session, once more with the same key", [`the same ticket ${again.command_id}, replayed: ${again.replayed}`]);

let run;
const deadline = Date.now() + 300_000; // a small model on a busy computer takes its time
do {
  run = await call("get_graph_run", { command_id: ticket.command_id, wait_seconds: 5 });
  const progress = run.progress ? `, ${run.progress.phase ?? "working"}${run.progress.text ? `: ${run.progress.text}` : ""}` : "";
  say("get_graph_run", [`${run.status}${progress}`, run.next_step]);
} while (!run.terminal && Date.now() < deadline);
const tookMs = Math.round(performance.now() - queuedAt);
await client.close();

say("From the ticket to the result", [`${tookMs} ms, of which ${run.pickup_wait_ms ?? "?"} ms waiting for pickup`]);
console.log(JSON.stringify({ ...run, took_ms: tookMs }));
process.exit(run.status === "completed" ? 0 : 1);
