// The suite cannot send a token of its own, so this adds it. Host and Origin pass unchanged: their check is part of the suite.
import http from "node:http";
const [target, token] = process.argv.slice(2);
const to = new URL(target);
const server = http.createServer((request, response) => {
  const headers = { authorization: `Bearer ${token}`, ...request.headers };
  const onward = http.request({ host: to.hostname, port: to.port, method: request.method, path: request.url, headers }, (answer) => {
    response.writeHead(answer.statusCode, answer.headers);
    answer.pipe(response);
  });
  onward.on("error", () => response.destroy());
  request.pipe(onward);
});
server.listen(0, "127.0.0.1", () => console.log(`http://127.0.0.1:${server.address().port}`));
