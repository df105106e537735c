// The window's idea of now, for "4 s ago" and running clocks. Truth about time limits stays in Rust.
class Clock {
  #now = $state(Date.now());
  #frozen = false;

  constructor() {
    setInterval(() => {
      if (!this.#frozen) this.#now = Date.now();
    }, 1000);
  }
  get now(): number {
    return this.#now;
  }
  /** Pictures and tests stand still. */
  freeze(at: number): void {
    this.#frozen = true;
    this.#now = at;
  }
}

export const clock = new Clock();
