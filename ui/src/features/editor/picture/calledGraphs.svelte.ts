// The pictures of Graphs that are called by the one on the screen, as they are saved now.
import { onDestroy } from "svelte";

import { platform } from "../../../platform";
import { hear } from "../../../shared/events";
import { calledSlugs } from "../../../shared/picture/expand";
import type { Phase } from "../../../shared/picture/model";
import { readPicture } from "../../../shared/picture/read";

export interface CalledGraph {
  id: string;
  /** When its newest version was saved. */
  savedAt: number;
  phases: readonly Phase[];
}

const DEPTH_MAX = 8; // the engine allows fewer

export class CalledGraphs {
  known: ReadonlyMap<string, CalledGraph> = $state.raw(new Map());
  #wanted = "";
  #asking = 0;

  constructor() {
    onDestroy(
      hear((event) => {
        if (event.event === "changed" && event.topic === "graphs" && this.#wanted !== "") void this.#ask(this.#wanted.split(" "));
      }),
    );
  }

  /** What the picture calls by name; asked again only when that changes. */
  want(phases: readonly Phase[]): void {
    const slugs = [...calledSlugs(phases)].sort();
    const wanted = slugs.join(" ");
    if (wanted === this.#wanted) return;
    this.#wanted = wanted;
    void this.#ask(slugs);
  }
  async #ask(first: readonly string[]): Promise<void> {
    const turn = ++this.#asking;
    const found = new Map<string, CalledGraph>();
    try {
      const rows = first.length > 0 ? await platform.call("graphs_list", {}) : [];
      let slugs = first;
      for (let depth = 0; depth < DEPTH_MAX && slugs.length > 0; depth++) {
        const next = new Set<string>();
        for (const slug of slugs) {
          const row = rows.find((each) => each.slug === slug);
          if (!row || found.has(slug)) continue;
          const reading = readPicture((await platform.call("graph_open", { id: row.id })).source);
          if (!reading.ok) continue;
          found.set(slug, { id: row.id, savedAt: row.updated_at, phases: reading.phases });
          calledSlugs(reading.phases).forEach((each) => next.add(each));
        }
        slugs = [...next];
      }
    } catch {
      // The calls stay drawn as calls.
    }
    if (turn === this.#asking) this.known = found;
  }
}
