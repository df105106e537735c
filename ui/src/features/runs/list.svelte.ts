// The list of executions: filtered and paged by the desktop, kept in step with it.
import type { ErrorView, ExecutionFilter, ExecutionRow } from "../../generated/types";
import { asErrorView, platform } from "../../platform";

export const NO_FILTER: ExecutionFilter = { graph_id: null, project_id: null, agent: null, state: null, origin: null, text: null, since: null, until: null, after: null, limit: null };
const PAGE = 50;
const PAGE_MAX = 200;

export class RunList {
  filter: ExecutionFilter = $state.raw(NO_FILTER);
  rows: readonly ExecutionRow[] = $state.raw([]);
  total = $state(0);
  at: "loading" | "ready" | "failed" = $state("loading");
  error: ErrorView | undefined = $state.raw();
  readonly since = Date.now();
  #next: string | null = null;
  #turn = 0;
  #more = false;

  get filtered(): boolean {
    return Object.entries(this.filter).some(([name, value]) => name !== "after" && name !== "limit" && value !== null);
  }
  setFilter(change: Partial<ExecutionFilter>): void {
    this.filter = { ...this.filter, ...change };
    void this.reload(PAGE);
  }
  /** Asks anew for as many rows as are shown, so that the scroll position stays true. */
  async reload(limit = Math.max(PAGE, Math.min(PAGE_MAX, this.rows.length))): Promise<void> {
    const turn = ++this.#turn;
    try {
      const page = await platform.call("executions_list", { filter: { ...this.filter, after: null, limit } });
      if (turn !== this.#turn) return;
      this.rows = page.rows;
      this.total = page.total;
      this.#next = page.next;
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
      const page = await platform.call("executions_list", { filter: { ...this.filter, after: this.#next, limit: PAGE } });
      if (turn !== this.#turn) return;
      const known = new Set(this.rows.map((row) => row.execution_id));
      this.rows = [...this.rows, ...page.rows.filter((row) => !known.has(row.execution_id))];
      this.#next = page.next;
    } catch {
      // Scrolling on asks again.
    } finally {
      this.#more = false;
    }
  }
}
