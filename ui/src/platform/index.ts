// Which adapter carries this window. Chosen once, before anything is mounted.
import type { Platform } from "./port";

export { asErrorView, type CommandName, type Platform } from "./port";

let current: Platform | undefined;

function adapter(): Platform {
  if (!current) throw new Error("no platform was chosen before the window asked for one");
  return current;
}

export const platform: Platform = {
  get kind() {
    return adapter().kind;
  },
  call: (name, args) => adapter().call(name, args),
  popup: (name, args) => adapter().popup(name, args),
  listen: (hear) => adapter().listen(hear),
};

export function usePlatform(chosen: Platform): void {
  current = chosen;
}

/** The desktop shell where there is one; otherwise the fake, which release builds do not contain. */
export async function choosePlatform(): Promise<Platform> {
  if ("__TAURI_INTERNALS__" in window) return (await import("./tauri")).tauri;
  if (import.meta.env.DEV || import.meta.env.MODE === "fake") return (await import("./fake")).fakeFromAddress(location.search);
  throw new Error("this page needs Graph Desk around it");
}
