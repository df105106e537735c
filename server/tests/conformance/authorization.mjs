// The suite's `authorization` command against the real program: `node authorization.mjs <queue-url> <connect-code> <suite>`.
// Registers the client the suite speaks for, and is the owner at the consent page when the suite prints its address.
import { spawn } from "node:child_process";
import net from "node:net";
import { consent } from "../../../tests/clients/consent.mjs";

const [url, connectCode, suite] = process.argv.slice(2);
const port = await new Promise((found) => {
  const probe = net.createServer().listen(0, "127.0.0.1", () => {
    const { port } = probe.address();
    probe.close(() => found(port));
  });
});
const about = { client_name: "Conformance", redirect_uris: [`http://127.0.0.1:${port}/callback`], token_endpoint_auth_method: "none" };
const client = await (await fetch(`${url}/oauth/register`, { method: "POST", body: JSON.stringify(about) })).json();

const args = [suite, "authorization", "--url", url, "--client-id", client.client_id, "--resource", `${url}/mcp`, "-p", String(port)];
const running = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "inherit"] });
let said = "";
let asked = false;
running.stdout.on("data", async (chunk) => {
  said += chunk;
  process.stdout.write(chunk);
  const page = said.match(/^(http\S+\/oauth\/authorize\?\S+)$/m);
  if (!page || asked) return;
  asked = true;
  try {
    await fetch(await consent(page[1], connectCode));
  } catch (e) {
    console.error(e);
    running.kill();
  }
});
running.on("exit", (status) => process.exit(status ?? 1));
