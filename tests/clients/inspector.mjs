// The MCP Inspector's command line against a running queue: `node inspector.mjs <mcp-url> <desk-json>`, run by the Node that runs it.
import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { story } from "./story.mjs";

const [url, deskJson] = process.argv.slice(2);
const desk = JSON.parse(deskJson);
const exec = promisify(execFile);

async function inspect(...args) {
  const common = ["--cli", url, "--transport", "http", "--header", `Authorization: Bearer ${desk.agent_token}`];
  // A tool error makes it leave with 1; the answer is printed all the same.
  const { stdout, stderr } = await exec("mcp-inspector", [...common, ...args], { timeout: 60_000 }).catch((e) => e);
  try {
    return JSON.parse(stdout);
  } catch {
    throw new Error(`mcp-inspector ${args.join(" ")} said: ${stdout} ${stderr}`);
  }
}
const text = (value) => (typeof value === "object" ? JSON.stringify(value) : String(value));
const passed = await story("Inspector", desk, {
  tools: async () => (await inspect("--method", "tools/list")).tools,
  call: (name, args) => inspect("--method", "tools/call", "--tool-name", name, ...Object.entries(args).flatMap(([k, v]) => ["--tool-arg", `${k}=${text(v)}`])),
});
console.log(`inspector: ${passed} passed`);
