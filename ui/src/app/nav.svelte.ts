// Where the owner is: kept in the address, so that a reloaded window shows the same place.
export const PLACES = ["graphs", "editor", "runs", "sharing", "approvals", "connections", "models", "settings"] as const;
export type Place = (typeof PLACES)[number];

export type Where = { place: Place; id: string | null; params: Readonly<Record<string, string>> };

export function parseWhere(hash: string): Where {
  const [path = "", query = ""] = hash.replace(/^#\/?/, "").split("?");
  const [name = "", id = ""] = path.split("/");
  const place = PLACES.find((each) => each === name) ?? "graphs";
  return { place, id: id === "" ? null : decodeURIComponent(id), params: Object.fromEntries(new URLSearchParams(query)) };
}

export function address(place: Place, id?: string | null, params: Record<string, string> = {}): string {
  const query = new URLSearchParams(params).toString();
  return `#/${place}${id ? `/${encodeURIComponent(id)}` : ""}${query ? `?${query}` : ""}`;
}

class Nav {
  where: Where = $state.raw(parseWhere(location.hash));
  /** What the rail's "Editor" and "Runs" return to. A view preference, not a truth. */
  lastGraph: string | null = $state(localStorage.getItem("last-graph"));

  constructor() {
    addEventListener("hashchange", () => this.#read());
    this.#read();
  }
  #read(): void {
    this.where = parseWhere(location.hash);
    if (this.where.place === "editor" && this.where.id) {
      this.lastGraph = this.where.id;
      localStorage.setItem("last-graph", this.where.id);
    }
  }
  go(place: Place, id?: string | null, params: Record<string, string> = {}): void {
    location.hash = address(place, id, params);
  }
  /** Puts a parameter into the address without leaving the place. */
  set(params: Record<string, string>): void {
    this.go(this.where.place, this.where.id, params);
  }
}

export const nav = new Nav();

export const to = {
  graph: (id: string, line?: number | null) => address("editor", id, line ? { line: String(line) } : {}),
  execution: (id: string) => address("runs", id),
  place: (place: Place) => address(place),
};
