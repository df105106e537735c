// Typed-ahead keys and clicks meant for something else must not answer a question: answers count only after the card has
// stood still for half a second, and a press must begin after that.
export const LOCK_MS = 500;

export class Lock {
  open: boolean = $state(false);
  #timer: ReturnType<typeof setTimeout> | undefined;
  #openedAt = Infinity;
  #pressedAt = -Infinity;
  #left = false;

  /** Shuts for half a second, from now. */
  shut(): void {
    clearTimeout(this.#timer);
    this.open = false;
    this.#openedAt = Infinity;
    this.#timer = setTimeout(() => {
      this.open = true;
      this.#openedAt = performance.now();
    }, LOCK_MS);
  }
  blurred(): void {
    this.#left = true;
  }
  /** The press that brings a window back to the front is about the window, not about what lies under the pointer. */
  focused(): void {
    if (this.#left) this.shut();
    this.#left = false;
  }
  pressed(): void {
    this.#pressedAt = performance.now();
  }
  /** Does this click count? `detail` is 0 for keys. */
  counts(detail: number): boolean {
    return this.open && (detail === 0 || this.#pressedAt >= this.#openedAt);
  }
  release(): void {
    clearTimeout(this.#timer);
  }
}
