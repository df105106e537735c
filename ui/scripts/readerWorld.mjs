// A queue, a desktop without a window and a connected agent: real programs in a temporary folder, ended by their ids.
import { execFileSync, spawn } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";

export class World {
  #children = [];

  constructor(bin) {
    this.bin = bin;
    this.dir = mkdtempSync(join(tmpdir(), "graph-reader-"));
    this.env = { ...process.env, GRAPH_DESK_PROFILE: join(this.dir, "profile"), GRAPH_DESK_PASSPHRASE: "a passphrase of the test" };
  }

  /** Starts a program and waits for its first line. */
  async start(name, args) {
    const child = spawn(join(this.bin, name), args, { env: this.env, stdio: ["ignore", "pipe", "inherit"] });
    this.#children.push(child);
    const lines = createInterface({ input: child.stdout });
    const first = await new Promise((done, fail) => {
      lines.once("line", done);
      child.once("exit", (code) => fail(new Error(`${name} ended with ${code}`)));
    });
    lines.on("line", () => undefined); // nothing printed later may block it
    return { child, first };
  }
  async stop(child) {
    if (child.exitCode !== null) return;
    const ended = new Promise((done) => child.once("exit", done));
    child.kill("SIGTERM");
    await ended;
  }
  async end() {
    for (const child of this.#children.reverse()) await this.stop(child);
    rmSync(this.dir, { recursive: true, force: true });
  }

  deskd(...args) {
    return execFileSync(join(this.bin, "graph-deskd"), args, { env: this.env, encoding: "utf8" });
  }
  json(...args) {
    return JSON.parse(this.deskd(...args, "--json"));
  }

  async open() {
    const queue = await this.start("graph-queue", ["serve", "--listen", "127.0.0.1:0", "--database", join(this.dir, "queue.db")]);
    this.address = queue.first.replace("listening on ", "");
    const paired = execFileSync(join(this.bin, "graph-queue"), ["pair", "--owner", "Ada", "--json", "--database", join(this.dir, "queue.db")], { encoding: "utf8" });
    this.deskd("pair", this.address, JSON.parse(paired).pairing_code);
    this.desk = (await this.start("graph-deskd", ["serve"])).child;
  }

  /** Imports a ready Graph and shares it. */
  share(slug, source, project) {
    const file = join(this.dir, `${slug}.graph.js`);
    writeFileSync(file, source);
    this.deskd("import", file, "--ready", "--slug", slug);
    this.deskd("share", slug, "--project", project);
  }
  agent(name, ...projects) {
    this.token = this.json("agent-token", name, ...projects.flatMap((project) => ["--project", project])).token;
  }
  async call(tool, args) {
    const answer = await fetch(`${this.address}/mcp`, {
      method: "POST",
      headers: { authorization: `Bearer ${this.token}`, "content-type": "application/json", accept: "application/json, text/event-stream", "mcp-protocol-version": "2025-06-18" },
      body: JSON.stringify({ jsonrpc: "2.0", id: 1, method: "tools/call", params: { name: tool, arguments: args } }),
    });
    const { result, error } = await answer.json();
    if (error || result.isError) throw new Error(error?.message ?? result.content[0].text);
    return result.structuredContent;
  }
  /** The session's id, as soon as the desktop has told of it. */
  async session(slug) {
    for (;;) {
      for (const { project_id } of (await this.call("list_projects", {})).projects) {
        const { sessions } = await this.call("list_graph_sessions", { project_id, limit: 50 });
        const found = sessions.find((each) => each.slug === slug);
        if (found) return found.graph_session_id;
      }
      await new Promise((done) => setTimeout(done, 50));
    }
  }
  async queue(slug, args, key) {
    return (await this.call("run_graph_session", { graph_session_id: await this.session(slug), arguments: args, idempotency_key: key })).command_id;
  }
  async ended(command) {
    for (;;) {
      const run = await this.call("get_graph_run", { command_id: command, wait_seconds: 5 });
      if (run.terminal) return run;
    }
  }
}
