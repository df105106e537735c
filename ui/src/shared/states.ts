// How states look: one visual word for every state of agents, executions and deliveries.
import type { ExecutionState } from "../generated/types";

export type Look = "waiting" | "running" | "asking" | "done" | "failed" | "cancelled" | "refused";

export function lookOfExecution(state: ExecutionState, asking = 0): Look {
  switch (state) {
    case "claiming":
      return "waiting";
    case "running":
      return asking > 0 ? "asking" : "running";
    case "completed":
      return "done";
    case "failed":
      return "failed";
    case "cancelled":
      return "cancelled";
  }
}
