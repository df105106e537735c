// A desktop as the tests of other people's clients need it: pairs, shares three Graph sessions and runs what is queued, all at once.
//
//   node desk.mjs <queue-url> <pairing-code>
//
// Its first line says in JSON how to come in: {project_id, sessions: {slug: id}, agent_token, connect_codes}. Then it serves until killed.
// `echo` gives its arguments back, `slow-compute` takes {"seconds": n} and can be stopped, `failing-job` fails.
import { randomUUID } from "node:crypto";

const [url, code] = process.argv.slice(2);
let token;
async function ask(path, body) {
  const headers = { "graph-relay-version": "1", "content-type": "application/json" };
  if (token) headers.authorization = `Bearer ${token}`;
  const reply = await fetch(`${url}/external-assistants/${path}`, { method: "POST", headers, body: JSON.stringify(body) });
  if (!reply.ok) throw new Error(`${path}: ${reply.status} ${await reply.text()}`);
  return reply.json();
}

token = (await ask("pair", { pairing_code: code, device_name: "Scripted desktop" })).device_token;
const { project_id } = await ask("projects", { name: "Clients" });
const shared = ["echo", "slow-compute", "failing-job"].map((slug, n) => ({
  graph_session_id: `gs_${String(n + 1).padStart(32, "0")}`, name: slug, description: `The session ${slug}.`, slug, version: 1, status: "ready",
}));
const sync = () => ask("graph-relays/sync", { project_id, revision: 1, sessions: shared, relay: { pickup: "doorbell", paused: false } });
await sync();
const grant = { name: "Clients", project_ids: [project_id], scopes: ["osfoundry:read", "osfoundry:run"] };
const { token: agent_token } = await ask("agent-tokens", grant);
const connect_codes = [];
for (let n = 0; n < 4; n += 1) connect_codes.push((await ask("connect-codes", grant)).connect_code);
const sessions = Object.fromEntries(shared.map((s) => [s.slug, s.graph_session_id]));
console.log(JSON.stringify({ project_id, sessions, agent_token, connect_codes }));

const used = { total_tokens: 0, reported_cost: null };
async function run({ command_id, slug, arguments: given }) {
  const execution_id = randomUUID();
  const end = (body) => ask(`graph-relays/commands/${command_id}/complete`, { execution_id, ...body, ...used });
  let { cancel } = await ask(`graph-relays/commands/${command_id}/start`, { execution_id });
  const until = Date.now() + (slug === "slow-compute" ? (given.seconds ?? 0) * 1000 : 0);
  while (!cancel && Date.now() < until) {
    const hold_ms = Math.min(1000, until - Date.now());
    ({ cancel } = await ask(`graph-relays/commands/${command_id}/control`, { execution_id, hold_ms }));
  }
  if (cancel) return end({ status: "cancelled", reason: "stopped", error: "Stopped." });
  if (slug === "failing-job") return end({ status: "failed", reason: "script_error", error: "It was made to fail." });
  return end({ status: "completed", result: slug === "echo" ? { got: given } : { computed: given.seconds ?? 0 } });
}

const seen = new Set();
for (let after = 0; ; ) {
  const { rang, seq } = await ask("graph-relays/doorbell", { project_ids: [project_id], after, hold_ms: 25_000 });
  after = seq;
  if (!rang) continue;
  for (const command of (await sync()).commands) {
    if (seen.has(command.command_id)) continue;
    seen.add(command.command_id);
    // Cancelled in the same instant: nothing to do.
    run(command).catch((e) => console.error(`${command.command_id}: ${e.message}`));
  }
}
