// The official TypeScript client against a running queue: `node typescript.mjs <mcp-url> <desk-json>`, with a token in both protocol
// generations, then through the whole OAuth flow.
import { Client, StreamableHTTPClientTransport, UnauthorizedError } from "@modelcontextprotocol/client";
import assert from "node:assert/strict";
import { consent } from "./consent.mjs";
import { story } from "./story.mjs";

const [url, deskJson] = process.argv.slice(2);
const desk = JSON.parse(deskJson);

const ways = (client) => ({
  tools: async () => (await client.listTools()).tools,
  call: (name, args) => client.callTool({ name, arguments: args }),
});
const connect = async (transport, mode) => {
  const client = new Client({ name: "clients-test", version: "1.0.0" }, mode ? { versionNegotiation: { mode } } : {});
  await client.connect(transport);
  return client;
};

let passed = 0;
for (const [name, mode] of [["TypeScript, stateless", "auto"], ["TypeScript, handshake", undefined]]) {
  const headers = { Authorization: `Bearer ${desk.agent_token}` };
  const client = await connect(new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers } }), mode);
  passed += await story(name, desk, ways(client));
  await client.close();
}

// Registers itself, is sent to the consent page, comes back with a code, and refreshes.
const kept = {};
const provider = {
  redirectUrl: "http://localhost:39999/callback",
  clientMetadata: { client_name: "clients-test", redirect_uris: ["http://localhost:39999/callback"], token_endpoint_auth_method: "none", grant_types: ["authorization_code", "refresh_token"], response_types: ["code"] },
  state: () => "a-state",
  clientInformation: () => kept.client,
  saveClientInformation: (client) => void (kept.client = client),
  tokens: () => kept.tokens,
  saveTokens: (tokens) => void (kept.tokens = tokens),
  saveDiscoveryState: (state) => void (kept.discovery = state),
  discoveryState: () => kept.discovery,
  redirectToAuthorization: (to) => void (kept.to = to),
  saveCodeVerifier: (verifier) => void (kept.verifier = verifier),
  codeVerifier: () => kept.verifier,
};
const open = () => new StreamableHTTPClientTransport(new URL(url), { authProvider: provider });
let transport = open();
const client = await connect(transport, "auto");
await assert.rejects(client.callTool({ name: "list_projects", arguments: {} }), (e) => e instanceof UnauthorizedError || /unauthor/i.test(String(e)));
const back = new URL(await consent(kept.to, desk.connect_codes[0]));
assert.equal(back.searchParams.get("state"), "a-state");
await transport.finishAuth(back.searchParams);
await client.close();
const first = kept.tokens.access_token;
const signedIn = await connect(open(), "auto");
passed += await story("TypeScript, OAuth", desk, ways(signedIn));
await signedIn.close();
// An access token that is not taken any more makes the client refresh by itself.
kept.tokens = { ...kept.tokens, access_token: "osfa_gone" };
const refreshed = await connect(open(), "auto");
assert.equal((await refreshed.callTool({ name: "list_projects", arguments: {} })).isError ?? false, false);
assert.ok(kept.tokens.access_token !== "osfa_gone" && kept.tokens.access_token !== first);
await refreshed.close();
console.log("  ok  TypeScript, OAuth: a token that is not taken any more is refreshed");
console.log(`typescript client: ${passed + 1} passed`);
