// How wide an owner dragged a pane. A view preference: kept in the window's own storage, absent until the first drag.
export class Split {
  /** Pixels; undefined for the design's own measure. */
  size: number | undefined = $state();
  readonly #key: string;

  constructor(name: string) {
    this.#key = `split:${name}`;
    const kept = Number(localStorage.getItem(this.#key));
    this.size = Number.isFinite(kept) && kept > 0 ? kept : undefined;
  }
  set(size: number | undefined): void {
    this.size = size;
    if (size === undefined) localStorage.removeItem(this.#key);
    else localStorage.setItem(this.#key, String(Math.round(size)));
  }
  /** For a grid track: never more than the window leaves for its neighbour. */
  track(design: string, neighbour: number): string {
    return this.size === undefined ? design : `min(${this.size}px, calc(100% - ${neighbour}px))`;
  }
}
