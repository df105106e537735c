// Where everything of a picture stands. Each level is laid out by dagre with the sizes of the level below it, so that groups nest
// and siblings never cross. Pure; sizes in pixels at zoom 1.
import dagre from "@dagrejs/dagre";

import { soleLeaf } from "./live";
import { leavesOf, type Group, type Item, type Lane, type Leaf, type Phase } from "./model";

export interface Spot {
  x: number;
  y: number;
  w: number;
  h: number;
}
export interface PlacedLeaf extends Spot {
  id: string;
  leaf: Leaf;
  many: boolean;
  /** At most so many tries, when the leaf stands alone in a retry. */
  tries: number | null;
}
export interface PlacedGroup extends Spot {
  id: string;
  group: Group;
  depth: number;
  collapsed: boolean;
  leaves: number;
  /** Names of lanes with their places, for branches. */
  laneLabels: (Spot & { text: string })[];
}
export interface PlacedEdge {
  from: string;
  to: string;
  path: string;
}
export interface Placed {
  leaves: PlacedLeaf[];
  groups: PlacedGroup[];
  edges: PlacedEdge[];
  phases: { title: string; line: number; y: number }[];
  width: number;
  height: number;
}

export const LEAF_W = 120;
export const LEAF_H = 44;
const HEAD = 28;
const PAD = 10;
const GAP = 22;
const LANE_GAP = 12;
const ROW_W = 600; // a row of the picture before it is stacked instead
const LANES_PER_ROW = 4;
const LANE_LABEL = 16;
const PHASE_ROOM = 76;

interface Box {
  w: number;
  h: number;
  /** Where edges arrive and leave. */
  first: string | undefined;
  last: string | undefined;
  put: (x: number, y: number) => void;
}

export function layout(phases: readonly Phase[], collapsed: ReadonlySet<string>): Placed {
  const placed: Placed = { leaves: [], groups: [], edges: [], phases: [], width: 0, height: 0 };
  const maker = new Maker(placed, collapsed);
  const named = phases.some((phase) => phase.title !== null);
  const boxes = phases.map((phase, i) => maker.sequence(phase.items, `p${i}`, { many: false, depth: 0 }, ROW_W));
  const rows = arrange(boxes, "TB", 24);
  rows.spots.forEach((spot, i) => {
    const phase = phases[i];
    boxes[i]?.put((named ? PHASE_ROOM : 0) + spot.x, spot.y);
    if (phase?.title != null) placed.phases.push({ title: phase.title, line: phase.line, y: spot.y + Math.min(spot.h, LEAF_H) / 2 });
  });
  placed.width = rows.w + (named ? PHASE_ROOM : 0);
  placed.height = rows.h;
  let before: Box | undefined;
  for (const box of boxes) {
    if (box.first === undefined) continue;
    if (before) maker.link(before.last, box.first);
    before = box;
  }
  maker.draw();
  return placed;
}

interface Arranged {
  spots: readonly Spot[];
  w: number;
  h: number;
}
/** The chains that were laid out last, by their sizes: while somebody types, hardly one changes. */
const known = new Map<string, Arranged>();
const KNOWN_MAX = 64;

/** Boxes in a chain: left to right or top to bottom. */
function arrange(boxes: readonly { w: number; h: number }[], direction: "LR" | "TB", gap: number): Arranged {
  const [only] = boxes;
  if (!only) return { spots: [], w: LEAF_W, h: LEAF_H };
  // Most groups hold one thing; the library takes a third of a millisecond to find that it may stand where it is.
  if (boxes.length === 1) return { spots: [{ x: 0, y: 0, w: only.w, h: only.h }], w: only.w, h: only.h };
  const key = [direction, gap, ...boxes.flatMap((box) => [box.w, box.h])].join(" ");
  let found = known.get(key);
  if (!found) {
    found = chain(boxes, direction, gap);
    if (known.size >= KNOWN_MAX) known.clear();
    known.set(key, found);
  }
  return found;
}

/** Placed by dagre. Corners, not centres. */
function chain(boxes: readonly { w: number; h: number }[], direction: "LR" | "TB", gap: number): Arranged {
  const graph = new dagre.graphlib.Graph();
  graph.setGraph({ rankdir: direction, ranksep: gap, nodesep: gap, marginx: 0, marginy: 0, ranker: "longest-path" });
  graph.setDefaultEdgeLabel(() => ({}));
  boxes.forEach((box, i) => graph.setNode(String(i), { width: box.w, height: box.h }));
  for (let i = 1; i < boxes.length; i++) graph.setEdge(String(i - 1), String(i));
  // A chain crosses nothing, so nothing is to be untangled.
  dagre.layout(graph, { disableOptimalOrderHeuristic: true });
  const spots = boxes.map((box, i) => {
    const node = graph.node(String(i));
    return { x: node.x - box.w / 2, y: node.y - box.h / 2, w: box.w, h: box.h };
  });
  return { spots, w: Math.max(...spots.map((spot) => spot.x + spot.w)), h: Math.max(...spots.map((spot) => spot.y + spot.h)) };
}

class Maker {
  readonly #spots = new Map<string, Spot>();
  readonly #links: [string, string][] = [];

  constructor(
    private readonly placed: Placed,
    private readonly collapsed: ReadonlySet<string>,
  ) {}

  link(from: string | undefined, to: string | undefined): void {
    if (from !== undefined && to !== undefined) this.#links.push([from, to]);
  }

  sequence(items: readonly Item[], id: string, inside: { many: boolean; depth: number }, room: number): Box {
    const boxes = items.map((item, i) => this.item(item, `${id}.${i}`, inside, room));
    const across = boxes.reduce((sum, box) => sum + box.w + GAP, -GAP);
    const direction = across <= room ? "LR" : "TB";
    const { spots, w, h } = arrange(boxes, direction, direction === "LR" ? GAP : 22);
    for (let i = 1; i < boxes.length; i++) this.link(boxes[i - 1]?.last, boxes[i]?.first);
    return { w, h, first: boxes[0]?.first, last: boxes.at(-1)?.last, put: (x, y) => spots.forEach((spot, i) => boxes[i]?.put(x + spot.x, y + spot.y)) };
  }

  item(item: Item, id: string, inside: { many: boolean; depth: number }, room: number): Box {
    if (item.type === "leaf") return this.leaf(item, id, inside.many, null);
    const alone = item.kind === "retry" ? soleLeaf([item]) : undefined;
    if (alone) return this.leaf(alone, id, inside.many, item.count);
    return this.group(item, id, inside, room);
  }

  leaf(leaf: Leaf, id: string, many: boolean, tries: number | null): Box {
    const put = (x: number, y: number) => {
      this.placed.leaves.push({ id, leaf, many, tries, x, y, w: LEAF_W, h: LEAF_H });
      this.#spots.set(id, { x, y, w: LEAF_W, h: LEAF_H });
    };
    return { w: LEAF_W, h: LEAF_H, first: id, last: id, put };
  }

  group(group: Group, id: string, inside: { many: boolean; depth: number }, room: number): Box {
    const depth = inside.depth;
    const leaves = [...leavesOf([group])].length;
    const shut = this.collapsed.has(id);
    const many = inside.many || group.many;
    const lanes = shut ? [] : group.lanes.map((lane, i) => this.lane(lane, `${id}.${i}`, { many, depth: depth + 1 }, room - 2 * PAD));
    const rows: { box: { w: number; h: number }; spots: Spot[] }[] = [];
    for (let i = 0; i < lanes.length; i += LANES_PER_ROW) {
      const part = lanes.slice(i, i + LANES_PER_ROW);
      // Side by side without order: the tallest says how high the row is, and all stand on its top.
      let x = 0;
      const spots = part.map((lane) => {
        const spot = { x, y: 0, w: lane.w, h: lane.h };
        x += lane.w + LANE_GAP;
        return spot;
      });
      rows.push({ box: { w: x - LANE_GAP, h: Math.max(...part.map((lane) => lane.h)) }, spots });
    }
    const stacked = arrange(rows.map((row) => row.box), "TB", LANE_GAP);
    const w = shut ? 200 : Math.max(stacked.w, 150) + 2 * PAD;
    const h = shut ? HEAD + 8 : stacked.h + HEAD + PAD;
    const put = (x: number, y: number) => {
      const mine: PlacedGroup = { id, group, depth, collapsed: shut, leaves, laneLabels: [], x, y, w, h };
      this.placed.groups.push(mine);
      this.#spots.set(id, mine);
      rows.forEach((row, r) => {
        const at = stacked.spots[r] as Spot;
        const left = x + PAD + (w - 2 * PAD - stacked.w) / 2 + at.x;
        row.spots.forEach((spot, i) => {
          const lane = lanes[r * LANES_PER_ROW + i] as Box & { label: string };
          if (lane.label !== "") mine.laneLabels.push({ text: lane.label, x: left + spot.x, y: y + HEAD + at.y, w: lane.w, h: LANE_LABEL });
          lane.put(left + spot.x, y + HEAD + at.y + (lane.label === "" ? 0 : LANE_LABEL));
        });
      });
    };
    return { w, h, first: id, last: id, put };
  }

  lane(lane: Lane, id: string, inside: { many: boolean; depth: number }, room: number): Box & { label: string } {
    const box = this.sequence(lane.items, id, inside, Math.max(room, LEAF_W));
    return { ...box, h: box.h + (lane.label === "" ? 0 : LANE_LABEL), label: lane.label };
  }

  /** Edges run from edge to edge: sideways where the next stands beside, down with a bend where it stands below. */
  draw(): void {
    for (const [from, to] of this.#links) {
      const a = this.#spots.get(from);
      const b = this.#spots.get(to);
      if (a && b) this.placed.edges.push({ from, to, path: pathOf(a, b) });
    }
  }
}

export function pathOf(a: Spot, b: Spot): string {
  const beside = b.x >= a.x + a.w && a.y < b.y + b.h && b.y < a.y + a.h;
  if (beside) {
    const [x1, y1, x2, y2] = [a.x + a.w, a.y + a.h / 2, b.x, b.y + b.h / 2];
    if (Math.abs(y1 - y2) < 1) return `M${x1} ${y1}H${x2}`;
    const middle = (x1 + x2) / 2;
    const r = Math.min(8, Math.abs(y2 - y1) / 2, (x2 - x1) / 2);
    const down = y2 > y1 ? 1 : -1;
    return `M${x1} ${y1}H${middle - r}q${r} 0 ${r} ${r * down}V${y2 - r * down}q0 ${r * down} ${r} ${r * down}H${x2}`;
  }
  const [x1, y1, x2, y2] = [a.x + a.w / 2, a.y + a.h, b.x + b.w / 2, b.y];
  if (Math.abs(x1 - x2) < 1) return `M${x1} ${y1}V${y2}`;
  const middle = (y1 + y2) / 2;
  const r = Math.min(8, Math.abs(x2 - x1) / 2, Math.abs(y2 - y1) / 2);
  const right = x2 > x1 ? 1 : -1;
  return `M${x1} ${y1}V${middle - r}q0 ${r} ${r * right} ${r}H${x2 - r * right}q${r * right} 0 ${r * right} ${r}V${y2}`;
}
