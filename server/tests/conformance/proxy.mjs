// Stands between the suite and the real program, which stays as it is: `node proxy.mjs <queue-url> <desk-json>`.
//
// The suite cannot send a token of its own, so this adds it. Host and Origin pass unchanged: their check is part of the suite.
// The tasks-* scenarios call tools of a sample server. Where one of those is the same thing as a run of a Graph, the call is sent on as
// run_graph_session of a session that does it; the task that comes back, and everything asked of it, is the program's own.
import { randomUUID } from "node:crypto";
import http from "node:http";

const [target, deskJson] = process.argv.slice(2);
const to = new URL(target);
const desk = JSON.parse(deskJson);

const run = (slug, args) => ({
  name: "run_graph_session",
  arguments: { graph_session_id: desk.sessions[slug], arguments: args, idempotency_key: `conformance-${randomUUID()}` },
});
const SAMPLES = {
  slow_compute: ({ seconds = 0 }) => run("slow-compute", { seconds }),
  failing_job: () => run("failing-job", {}),
  // Nothing here asks the client: the owner is asked on the desktop. This one ends at once instead.
  confirm_delete: () => run("slow-compute", {}),
  test_error_handling: () => ({ name: "get_graph_run", arguments: { command_id: "none" } }),
  // A tool that never makes a task.
  greet: () => ({ name: "list_projects", arguments: {} }),
};

function translated(body, headers) {
  let message;
  try {
    message = JSON.parse(body);
  } catch {
    return body;
  }
  const sample = message?.method === "tools/call" && SAMPLES[message.params?.name];
  if (!sample) return body;
  const { name, arguments: args } = sample(message.params.arguments ?? {});
  // A header that agrees with the body goes on agreeing; one that does not stays as it is.
  if (headers["mcp-name"] === message.params.name) headers["mcp-name"] = name;
  return JSON.stringify({ ...message, params: { ...message.params, name, arguments: args } });
}

const server = http.createServer((request, response) => {
  const chunks = [];
  request.on("data", (chunk) => chunks.push(chunk));
  request.on("end", () => {
    const headers = { authorization: `Bearer ${desk.agent_token}`, ...request.headers };
    const body = translated(Buffer.concat(chunks).toString(), headers);
    delete headers["transfer-encoding"];
    headers["content-length"] = Buffer.byteLength(body);
    const onward = http.request({ host: to.hostname, port: to.port, method: request.method, path: request.url, headers }, (answer) => {
      response.writeHead(answer.statusCode, answer.headers);
      answer.pipe(response);
    });
    onward.on("error", () => response.destroy());
    onward.end(body);
  });
});
server.listen(0, "127.0.0.1", () => console.log(`http://127.0.0.1:${server.address().port}`));
