// The status bar's facts, asked once for the window; places read the running executions from here.
import type { StatusView } from "../generated/types";
import { platform } from "../platform";
import { hear } from "../shared/events";
import { Live } from "../shared/live.svelte";

export const status = new Live<StatusView>(() => platform.call("status_get", {}));

/** Starts following; returns the way to stop. */
export function followStatus(): () => void {
  void status.reload();
  return hear((event) => {
    if (event.event === "changed" && (event.topic === "status" || event.topic === "approvals")) void status.reload();
  });
}
