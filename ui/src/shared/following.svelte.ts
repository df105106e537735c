// Follows one execution: its facts, and its events as they come. The window may be reloaded at any moment and catches up by `seq`.
import { onDestroy } from "svelte";

import type { ErrorView, ExecutionDetail, FleetEvent } from "../generated/types";
import { asErrorView, platform } from "../platform";
import { hear } from "./events";
import { applyEvents, emptyFleet, type FleetState } from "./fleet";
import { hasGap } from "./heard";

type Seen = { at: "loading"; since: number } | { at: "failed"; error: ErrorView } | { at: "ready"; value: ExecutionDetail };

export class Following {
  seen: Seen = $state.raw({ at: "loading", since: Date.now() });
  /** A fresh object for every batch, so that what is derived from it is computed anew, once per frame at most. */
  fleet: FleetState = $state.raw(emptyFleet());
  #draft = emptyFleet();
  #frame = 0;
  #asking = false;
  #gone = false;

  constructor(readonly executionId: string) {
    void this.load();
  }

  get detail(): ExecutionDetail | undefined {
    return this.seen.at === "ready" ? this.seen.value : undefined;
  }
  retry(): void {
    this.seen = { at: "loading", since: Date.now() };
    void this.load();
  }
  async load(): Promise<void> {
    try {
      const value = await platform.call("execution_open", { execution_id: this.executionId });
      if (this.#gone) return;
      this.seen = { at: "ready", value };
      this.#takeWhole(value.events);
    } catch (thrown) {
      if (!this.#gone && this.seen.at !== "ready") this.seen = { at: "failed", error: asErrorView(thrown) };
    }
  }
  take(events: readonly FleetEvent[]): void {
    if (hasGap(this.#draft, events)) return void this.#fillGap();
    if (!applyEvents(this.#draft, events)) return;
    this.#frame ||= requestAnimationFrame(() => this.#show());
  }
  #show(): void {
    this.#frame = 0;
    if (!this.#gone) this.fleet = { ...this.#draft };
  }
  /** The whole story: told anew from its beginning, unless more was heard while it was on its way. */
  #takeWhole(events: readonly FleetEvent[]): void {
    const whole = emptyFleet();
    applyEvents(whole, events);
    if (whole.seq < this.#draft.seq) return void applyEvents(this.#draft, events);
    // Text heard since then stands behind what the story holds of its agent.
    for (const [id, agent] of whole.agents) {
      const known = this.#draft.agents.get(id);
      if (known && known.heard > agent.heard) whole.agents.set(id, { ...agent, said: known.said, heard: known.heard });
    }
    this.#draft = whole;
    this.#frame ||= requestAnimationFrame(() => this.#show());
  }
  async #fillGap(): Promise<void> {
    if (this.#asking) return;
    this.#asking = true;
    try {
      this.#takeWhole(await platform.call("execution_events", { execution_id: this.executionId, after: 0 }));
    } catch {
      // The next event finds the gap again and asks again.
    } finally {
      this.#asking = false;
    }
  }
  stop(): void {
    this.#gone = true;
    if (this.#frame) cancelAnimationFrame(this.#frame);
  }
}

/** Follows for the life of the calling component. */
export function follow(executionId: string): Following {
  const following = new Following(executionId);
  const deaf = hear((event) => {
    if (event.event === "fleet" && event.execution_id === executionId) following.take(event.events);
    if (event.event === "changed" && event.topic === "executions") void following.load();
  });
  onDestroy(() => {
    deaf();
    following.stop();
  });
  return following;
}
