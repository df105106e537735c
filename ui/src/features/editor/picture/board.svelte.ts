// What the nodes of one picture share: the live facts by id, the selection, and what a click does. The flow itself only knows places.
import { getContext, setContext } from "svelte";

import type { Facts } from "../../../shared/picture/facts";
import type { PlacedEdge, PlacedGroup, PlacedLeaf } from "../../../shared/picture/layout";
import type { Look } from "../../../shared/states";

export class Board {
  leaves: ReadonlyMap<string, Facts> = $state.raw(new Map());
  groups: ReadonlyMap<string, { look: Look | undefined; right: string }> = $state.raw(new Map());
  phases: ReadonlyMap<string, Look> = $state.raw(new Map());
  selected: string | undefined = $state();

  constructor(
    readonly pick: (leaf: PlacedLeaf) => void,
    readonly toLine: (line: number, called: readonly string[]) => void,
    readonly toggle: (id: string) => void,
  ) {}

  /** An edge is alive while it leads into work, and only planned while it leads to what waits. */
  edgeLook(edge: PlacedEdge): "plain" | "live" | "todo" {
    const look = this.leaves.get(edge.to)?.look ?? this.groups.get(edge.to)?.look;
    const any = [...this.leaves.values()].some((facts) => facts.look !== undefined);
    if (!any) return "plain";
    if (look === "running" || look === "asking") return "live";
    return look === undefined || look === "waiting" || look === "cancelled" ? "todo" : "plain";
  }
}

const KEY = Symbol("board");
export const shareBoard = (board: Board) => setContext(KEY, board);
export const board = () => getContext<Board>(KEY);

export type LeafData = { placed: PlacedLeaf };
export type GroupData = { placed: PlacedGroup };
export type PhaseData = { title: string; line: number };
