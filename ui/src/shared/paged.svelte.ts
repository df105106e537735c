// A list that somebody else filters and pages: loaded page by page, kept in step, never older than the last question.
import type { ErrorView } from "../generated/types";
import { asErrorView } from "../platform";

const PAGE = 50;
const PAGE_MAX = 200;

export interface Page<Row> {
  rows: readonly Row[];
  next: string | null;
  /** How many there are in all, where the answer says so. */
  total?: number;
}

export class PagedList<Row, Filter extends object> {
  filter: Filter;
  rows: readonly Row[] = $state.raw([]);
  total = $state(0);
  at: "loading" | "ready" | "failed" = $state("loading");
  error: ErrorView | undefined = $state.raw();
  readonly since = Date.now();
  readonly #ask: (filter: Filter, after: string | null, limit: number) => Promise<Page<Row>>;
  readonly #keyOf: (row: Row) => string;
  #next: string | null = null;
  #turn = 0;
  #more = false;

  /** `none` is the filter that leaves everything: each of its members is null. */
  constructor(none: Filter, ask: (filter: Filter, after: string | null, limit: number) => Promise<Page<Row>>, keyOf: (row: Row) => string) {
    this.filter = $state.raw(none);
    this.#ask = ask;
    this.#keyOf = keyOf;
  }

  get filtered(): boolean {
    return Object.values(this.filter).some((value) => value !== null);
  }
  setFilter(change: Partial<Filter>): void {
    this.filter = { ...this.filter, ...change };
    void this.reload(PAGE);
  }
  /** Asks anew for as many rows as are shown, so that the scroll position stays true. */
  async reload(limit = Math.max(PAGE, Math.min(PAGE_MAX, this.rows.length))): Promise<void> {
    const turn = ++this.#turn;
    try {
      const page = await this.#ask(this.filter, null, limit);
      if (turn !== this.#turn) return;
      this.rows = page.rows;
      this.total = page.total ?? page.rows.length;
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
      const page = await this.#ask(this.filter, this.#next, PAGE);
      if (turn !== this.#turn) return;
      const known = new Set(this.rows.map(this.#keyOf));
      this.rows = [...this.rows, ...page.rows.filter((row) => !known.has(this.#keyOf(row)))];
      this.#next = page.next;
    } catch {
      // Scrolling on asks again.
    } finally {
      this.#more = false;
    }
  }
}

/** The row that an arrow key leads to from the one with the key `shown`; nothing for another key, or at the ends of an empty list. */
export function arrowTo<Row>(event: KeyboardEvent, rows: readonly Row[], isShown: (row: Row) => boolean): Row | undefined {
  const step = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
  if (step === 0) return undefined;
  event.preventDefault();
  return rows[Math.max(0, Math.min(rows.length - 1, rows.findIndex(isShown) + step))];
}
