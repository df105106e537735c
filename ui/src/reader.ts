// Entry of the owner's page in the browser, served by Graph Queue: the window's own views over the web adapter, reading only.
import "./app/tokens.css";
import "./app/base.css";

import { mount } from "svelte";

import { applyLook } from "./app/look.svelte";
import { usePlatform } from "./platform";
import { web } from "./platform/web";
import Reader from "./reader/Reader.svelte";

usePlatform(web);
// The browser's own theme and language; the address may say otherwise.
const asked = new URLSearchParams(location.search);
const theme = asked.get("theme");
await applyLook({ theme: theme === "light" || theme === "dark" ? theme : "system", language: asked.get("language") ?? "system" });
const target = document.getElementById("app");
if (target) mount(Reader, { target });
