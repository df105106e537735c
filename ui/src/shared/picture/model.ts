// The picture of a Graph: what its code will do, as leaves in nested groups. Made from the code alone.
export type LeafKind = "agent" | "tool" | "graph" | "ask" | "runtime";
export type GroupKind = "parallel" | "pipeline" | "loop" | "branch" | "retry" | "runtime" | "graph";

export interface Leaf {
  type: "leaf";
  kind: LeafKind;
  /** What the code says; a part known only at run time is written as "…". */
  label: string;
  /** The label holds something known only at run time. */
  dynamic: boolean;
  /** For tools: the tool; for runtime leaves: why it cannot be told. */
  detail: string;
  /** Lines of the call, counted from 1. */
  line: number;
  end: number;
  /** Slugs of the called Graphs it stands in, outermost first; its lines are those of the last. Absent in this Graph itself. */
  called?: readonly string[];
}
export interface Lane {
  label: string;
  items: Item[];
}
export interface Group {
  type: "group";
  kind: GroupKind;
  label: string;
  line: number;
  /** How many times or items, where the code says; null when only the run knows. */
  count: number | null;
  /** Its content may run more than once. */
  many: boolean;
  lanes: Lane[];
  called?: readonly string[];
}
export type Item = Leaf | Group;
export interface Phase {
  /** Null for what stands before the first phase. */
  title: string | null;
  line: number;
  items: Item[];
}
export type Reading =
  | { ok: true; phases: Phase[]; leaves: number; cut: boolean }
  | { ok: false; message: string; line: number; column: number };

/** Every leaf, in reading order. */
export function* leavesOf(items: readonly Item[]): Generator<Leaf> {
  for (const item of items) {
    if (item.type === "leaf") yield item;
    else for (const lane of item.lanes) yield* leavesOf(lane.items);
  }
}
