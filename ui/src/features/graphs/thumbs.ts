// Small pictures for the list, made from the code once per version. Parser and layout come with the first of them.
import { platform } from "../../platform";
import type { Placed, Spot } from "../../shared/picture/layout";

export interface Thumb {
  leaves: Spot[];
  frames: Spot[];
  edges: string[];
  x: number;
  y: number;
  scale: number;
}

const WIDTH = 84;
const HEIGHT = 40;
const EDGE = 5;
const SCALE_MAX = 0.13; // a single step must not fill the frame

const known = new Map<string, Promise<Thumb | undefined>>();

export function thumbOf(id: string, version: number): Promise<Thumb | undefined> {
  const key = `${id}:${version}`;
  let made = known.get(key);
  if (!made) {
    made = make(id).catch(() => undefined);
    known.set(key, made);
  }
  return made;
}

async function make(id: string): Promise<Thumb | undefined> {
  const [{ source }, { readPicture }, { layout }] = await Promise.all([platform.call("graph_open", { id }), import("../../shared/picture/read"), import("../../shared/picture/layout")]);
  const reading = readPicture(source);
  if (!reading.ok || reading.leaves === 0) return undefined;
  // Phases have names, for which a thumbnail has no room.
  return shrink(layout(reading.phases.map((phase) => ({ ...phase, title: null })), new Set()));
}

/** Fitted into the frame and centred. */
export function shrink(placed: Placed): Thumb {
  const scale = Math.min(SCALE_MAX, (WIDTH - 2 * EDGE) / Math.max(1, placed.width), (HEIGHT - 2 * EDGE) / Math.max(1, placed.height));
  return { leaves: placed.leaves, frames: placed.groups, edges: placed.edges.map((edge) => edge.path), x: (WIDTH - placed.width * scale) / 2, y: (HEIGHT - placed.height * scale) / 2, scale };
}
