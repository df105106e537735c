// The names a Graph's script has in scope, from the engine's own definitions.
import api from "../../../generated/graph-api.json";

export interface ApiEntry {
  name: string;
  declaration: string;
  doc: string;
  example: string;
}
export const API: readonly ApiEntry[] = api;
export const API_NAMES: ReadonlySet<string> = new Set(API.map((entry) => entry.name).filter((name) => name !== "args" && name !== "meta"));

/** What follows the name in a declaration: parameters and result. */
export function signature(entry: ApiEntry): string {
  const at = entry.declaration.indexOf(entry.name);
  return at < 0 ? entry.declaration : entry.declaration.slice(at + entry.name.length);
}
