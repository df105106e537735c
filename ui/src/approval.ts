// Entry of the approval window: the card alone. It can ask for its own question and answer it, nothing else.
import "./app/tokens.css";
import "./app/base.css";

import { mount } from "svelte";

import Popup from "./features/approvals/Popup.svelte";
import { applyLook } from "./app/look.svelte";
import { tellFaults } from "./app/faults";
import { choosePlatform, platform, usePlatform } from "./platform";

usePlatform(await choosePlatform());
// This window may not ask for the settings; who opens it says how it should look, in its address.
const asked = new URLSearchParams(location.search);
const theme = asked.get("theme");
await applyLook({ theme: theme === "light" || theme === "dark" ? theme : "system", language: asked.get("language") ?? "en" });
tellFaults((message) => void platform.popup("popup_log_ui", { level: "error", message }).catch(() => undefined));
const target = document.getElementById("app");
if (target) mount(Popup, { target });
