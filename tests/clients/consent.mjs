// The owner at the consent page: types the connect code, sees what is asked, presses Allow. As a browser without JavaScript would.
//
//   node consent.mjs <authorize-url> <connect-code>      prints where the browser is sent
import { fileURLToPath } from "node:url";

const field = (html, name) => {
  const found = html.match(new RegExp(`name="${name}" value="([^"]*)"`));
  if (!found) throw new Error(`the page has no field ${name}: ${html}`);
  return found[1];
};

export async function consent(authorizeUrl, connectCode) {
  const first = await fetch(authorizeUrl, { redirect: "manual" });
  const cookie = first.headers.get("set-cookie")?.split(";")[0];
  let html = await first.text();
  if (first.status !== 200 || !cookie) throw new Error(`no consent page: ${first.status} ${first.headers.get("location") ?? html}`);
  const action = new URL("/oauth/authorize", authorizeUrl);
  const send = (decision) => {
    const body = new URLSearchParams({ request: field(html, "request"), connect_code: connectCode, decision });
    return fetch(action, { method: "POST", redirect: "manual", headers: { cookie }, body });
  };
  const second = await send("look");
  html = await second.text();
  if (!html.includes("Allow")) throw new Error(`the code was not taken: ${html}`);
  const last = await send("allow");
  const location = last.headers.get("location");
  if (last.status !== 303 || !location) throw new Error(`not granted: ${last.status} ${await last.text()}`);
  return location;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) console.log(await consent(process.argv[2], process.argv[3]));
