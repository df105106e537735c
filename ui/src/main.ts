// Entry of the main window. It stays hidden until the page is there, and says when its first frame was drawn.
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
if (target) mount(App, { target });
await tick();
await platform.call("window_ready", {}).catch(() => undefined);
// A hidden window draws nothing: only now that it is shown can a frame be real. The second callback comes after the first frame.
requestAnimationFrame(() => requestAnimationFrame(() => void platform.call("window_drawn", {}).catch(() => undefined)));
