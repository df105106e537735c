// Entry of the main window. The page shows its ground at once (index.html) and says when that and the window itself were drawn.
import "./app/tokens.css";
import "./app/base.css";

import { mount, tick } from "svelte";

import App from "./app/App.svelte";
import { followSettings } from "./app/look.svelte";
import { tellFaults } from "./app/faults";
import { choosePlatform, platform, usePlatform } from "./platform";

const chosen = await choosePlatform();
usePlatform(chosen);
tellFaults((message) => void platform.call("log_ui", { level: "error", message }).catch(() => undefined));
await followSettings();
const target = document.getElementById("app");
target?.replaceChildren();
if (target) mount(App, { target });
await tick();
// The second callback comes after the first frame.
requestAnimationFrame(() => requestAnimationFrame(() => void platform.call("window_drawn", { painted_ms_ago: sinceFirstPaint() }).catch(() => undefined)));

/** Milliseconds since anything of this page was on the screen first; nothing where the web view does not tell. */
function sinceFirstPaint(): number | null {
  const paint = performance.getEntriesByName("first-contentful-paint")[0];
  return paint === undefined ? null : Math.round(performance.now() - paint.startTime);
}
