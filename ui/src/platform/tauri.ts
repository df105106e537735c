// The desktop adapter: one shell command per window, one event. Nothing else in ui/ may import @tauri-apps.
import { invoke } from "@tauri-apps/api/core";
import { listen } from "@tauri-apps/api/event";

import type { DeskEvent } from "../generated/types";
import { asErrorView, type Platform } from "./port";

async function ask<T>(door: "desk_call" | "popup_call", name: string, args: object): Promise<T> {
  try {
    return await invoke<T>(door, { name, args });
  } catch (thrown) {
    throw asErrorView(thrown);
  }
}

export const tauri: Platform = {
  kind: "desktop",
  call: (name, args) => ask("desk_call", name, args),
  popup: (name, args) => ask("popup_call", name, args),
  listen(hear) {
    const stop = listen<DeskEvent>("desk", (event) => hear(event.payload));
    // The popup may not listen; it asks instead, so a refusal here is no fault.
    stop.catch(() => undefined);
    return () => void stop.then((off) => off()).catch(() => undefined);
  },
};
