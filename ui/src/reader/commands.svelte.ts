// The list of commands, as the queue filters and pages it.
import type { OwnerCommand } from "../generated/owner";
import { queue, type CommandFilter } from "../platform/web";
import { PagedList } from "../shared/paged.svelte";
import type { Look } from "../shared/states";

export const STATUSES = ["queued", "running", "completed", "failed", "cancelled", "expired"] as const satisfies readonly OwnerCommand["status"][];

export function lookOf(status: OwnerCommand["status"]): Look {
  switch (status) {
    case "queued":
      return "waiting";
    case "running":
      return "running";
    case "completed":
      return "done";
    case "failed":
      return "failed";
    case "cancelled":
    case "expired":
      return "cancelled";
  }
}

/** Milliseconds from the start, or from queueing while nothing has started, to the end or to now. */
export function lasted(command: OwnerCommand, now: number): number {
  const from = Date.parse(command.started_at ?? command.queued_at);
  return Math.max(0, (command.ended_at === null ? now : Date.parse(command.ended_at)) - from);
}

export class CommandList extends PagedList<OwnerCommand, CommandFilter> {
  constructor() {
    const ask = async (filter: CommandFilter, after: string | null, limit: number) => {
      const page = await queue.commands(filter, after, limit);
      return { rows: page.items, next: page.next_cursor };
    };
    super({ project_id: null, status: null }, ask, (row) => row.command_id);
  }
}
