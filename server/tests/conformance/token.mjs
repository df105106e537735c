// Pairs a device and mints an agent token; prints the token.
const [url, code] = process.argv.slice(2);
const ask = async (path, body, token) => {
  const headers = { "graph-relay-version": "1", "content-type": "application/json" };
  if (token) headers.authorization = `Bearer ${token}`;
  const reply = await fetch(`${url}/external-assistants/${path}`, { method: "POST", headers, body: JSON.stringify(body) });
  if (!reply.ok) throw new Error(`${path}: ${reply.status} ${await reply.text()}`);
  return reply.json();
};
const { device_token } = await ask("pair", { pairing_code: code, device_name: "Conformance" });
const { project_id } = await ask("projects", { name: "Conformance" }, device_token);
const sessions = [{ graph_session_id: `gs_${"0".repeat(31)}1`, name: "Echo", description: "Echoes.", slug: "echo", version: 1, status: "ready" }];
await ask("graph-relays/sync", { project_id, revision: 1, sessions }, device_token);
const grant = { name: "Conformance", project_ids: [project_id], scopes: ["osfoundry:read", "osfoundry:run"] };
console.log((await ask("agent-tokens", grant, device_token)).token);
