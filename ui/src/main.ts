// Entry of the main window. The window stays hidden until the first paint is there.
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
