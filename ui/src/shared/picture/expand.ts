// Calls of other Graphs, drawn with what is in them. Pure: the pictures of the called Graphs are handed in.
import type { Group, Item, Leaf, Phase } from "./model";

/** The picture of a Graph by its slug; undefined where it is not known, cannot be read, or is not what ran. */
export type PictureOf = (slug: string) => readonly Phase[] | undefined;

const LEAVES_MAX = 600; // a Graph called at many places is drawn at each; this many in all

/** Each call whose Graph is known becomes a frame with that Graph's own picture; every other call stays as it is. */
export function expandCalls(phases: readonly Phase[], pictureOf: PictureOf): Phase[] {
  let left = LEAVES_MAX;
  const item = (each: Item, called: readonly string[]): Item => {
    if (each.type === "group") return { ...each, called, lanes: each.lanes.map((lane) => ({ ...lane, items: lane.items.map((inner) => item(inner, called)) })) };
    return frame(each, called) ?? { ...each, called };
  };
  const frame = (leaf: Leaf, called: readonly string[]): Group | undefined => {
    // The engine refuses a Graph that calls itself; the picture need not draw what never runs.
    if (leaf.kind !== "graph" || leaf.dynamic || called.includes(leaf.label)) return undefined;
    const inner = pictureOf(leaf.label)?.flatMap((phase) => phase.items);
    if (!inner || inner.length === 0 || left < inner.length) return undefined;
    left -= inner.length;
    const chain = [...called, leaf.label];
    return { type: "group", kind: "graph", label: leaf.label, line: leaf.line, called, count: null, many: false, lanes: [{ label: "", items: inner.map((each) => item(each, chain)) }] };
  };
  return phases.map((phase) => ({ ...phase, items: phase.items.map((each) => item(each, [])) }));
}

/** Slugs of the Graphs that are called by name. */
export function calledSlugs(phases: readonly Phase[]): Set<string> {
  const slugs = new Set<string>();
  const visit = (items: readonly Item[]): void => {
    for (const each of items) {
      if (each.type === "group") each.lanes.forEach((lane) => visit(lane.items));
      else if (each.kind === "graph" && !each.dynamic) slugs.add(each.label);
    }
  };
  phases.forEach((phase) => visit(phase.items));
  return slugs;
}
