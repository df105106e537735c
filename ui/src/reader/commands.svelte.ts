// The list of commands: filtered and paged by the queue, kept in step with it.
import type { OwnerCommand } from "../generated/owner";
import type { ErrorView } from "../generated/types";
import { asErrorView } from "../platform";
import { queue, type CommandFilter } from "../platform/web";
import type { Look } from "../shared/states";

const PAGE = 50;
const PAGE_MAX = 200;

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

export class CommandList {
  filter: CommandFilter = $state.raw({ project_id: null, status: null });
  rows: readonly OwnerCommand[] = $state.raw([]);
  at: "loading" | "ready" | "failed" = $state("loading");
  error: ErrorView | undefined = $state.raw();
  readonly since = Date.now();
  #next: string | null = null;
  #turn = 0;
  #more = false;

  get filtered(): boolean {
    return this.filter.project_id !== null || this.filter.status !== null;
  }
  setFilter(change: Partial<CommandFilter>): void {
    this.filter = { ...this.filter, ...change };
    void this.reload(PAGE);
  }
  /** Asks anew for as many rows as are shown, so that the scroll position stays true. */
  async reload(limit = Math.max(PAGE, Math.min(PAGE_MAX, this.rows.length))): Promise<void> {
    const turn = ++this.#turn;
    try {
      const page = await queue.commands(this.filter, null, limit);
      if (turn !== this.#turn) return;
      this.rows = page.items;
      this.#next = page.next_cursor;
      this.at = "ready";
    } catch (thrown) {
      if (turn !== this.#turn) return;
      this.error = asErrorView(thrown);
      if (this.at !== "ready") this.at = "failed";
    }
  }
  async more(): Promise<void> {
    if (this.#next === null || this.#more) return;
    this.#more = true;
    const turn = this.#turn;
    try {
      const page = await queue.commands(this.filter, this.#next);
      if (turn !== this.#turn) return;
      const known = new Set(this.rows.map((row) => row.command_id));
      this.rows = [...this.rows, ...page.items.filter((row) => !known.has(row.command_id))];
      this.#next = page.next_cursor;
    } catch {
      // Scrolling on asks again.
    } finally {
      this.#more = false;
    }
  }
}
