// What a place shows of the desktop: asked once, asked again when its topic changes. Never edited here:
// the answer of a changing command is put in its place.
import { onDestroy } from "svelte";

import type { ErrorView, Topic } from "../generated/types";
import { asErrorView } from "../platform";
import { hear } from "./events";

export type Seen<T> = { at: "loading"; since: number } | { at: "failed"; error: ErrorView } | { at: "ready"; value: T };

export class Live<T> {
  seen: Seen<T> = $state.raw({ at: "loading", since: Date.now() });
  #asked = 0;
  #again = false;
  #busy = false;

  constructor(private readonly ask: () => Promise<T>) {}

  get value(): T | undefined {
    return this.seen.at === "ready" ? this.seen.value : undefined;
  }

  /** The answer of a command that changed it. Questions still under way are older and are dropped. */
  put(value: T): void {
    this.#asked++;
    this.seen = { at: "ready", value };
  }

  /** Asks again. While one question is under way, further ones become a single one after it. */
  async reload(): Promise<void> {
    if (this.#busy) {
      this.#again = true;
      return;
    }
    this.#busy = true;
    do {
      this.#again = false;
      const mine = ++this.#asked;
      try {
        const value = await this.ask();
        if (mine === this.#asked) this.seen = { at: "ready", value };
      } catch (thrown) {
        // What was shown stays when a refresh fails: old facts with a moment beat an empty screen.
        if (mine === this.#asked && this.seen.at !== "ready") this.seen = { at: "failed", error: asErrorView(thrown) };
      }
    } while (this.#again);
    this.#busy = false;
  }

  retry(): void {
    this.seen = { at: "loading", since: Date.now() };
    void this.reload();
  }
}

/** A `Live` for the life of the calling component. */
export function live<T>(topics: readonly Topic[], ask: () => Promise<T>): Live<T> {
  const made = new Live(ask);
  void made.reload();
  const stop = hear((event) => {
    if (event.event === "changed" && topics.includes(event.topic)) void made.reload();
  });
  onDestroy(stop);
  return made;
}
