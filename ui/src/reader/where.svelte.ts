// Where the reader is: kept in the address, so that a reloaded or shared page shows the same place.
export const PLACES = ["graphs", "runs", "sharing"] as const;
export type Place = (typeof PLACES)[number];
export type Where = { place: Place; id: string | null };

export function parse(hash: string): Where {
  const [name = "", id = ""] = hash.replace(/^#\/?/, "").split("/");
  return { place: PLACES.find((each) => each === name) ?? "graphs", id: id === "" ? null : decode(id) };
}
function decode(text: string): string | null {
  try {
    return decodeURIComponent(text);
  } catch {
    return null; // a mistyped address leads to the list
  }
}
export const address = (place: Place, id?: string) => `#/${place}${id ? `/${encodeURIComponent(id)}` : ""}`;

class Here {
  where: Where = $state.raw(parse(location.hash));
  constructor() {
    addEventListener("hashchange", () => (this.where = parse(location.hash)));
  }
}
export const here = new Here();
