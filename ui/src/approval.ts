// Entry of the approval window: the card alone. It can ask for its own question and answer it, nothing else.
import "./app/tokens.css";
import "./app/base.css";

import { mount } from "svelte";

import Popup from "./features/approvals/Popup.svelte";
import { tellFaults } from "./app/faults";
import { choosePlatform, platform, usePlatform } from "./platform";

usePlatform(await choosePlatform());
tellFaults((message) => void platform.popup("popup_log_ui", { level: "error", message }).catch(() => undefined));
const target = document.getElementById("app");
if (target) mount(Popup, { target });
