// Everything the owner can do by name: the palette lists it, the keyboard starts it. One registry, so that no action is mouse-only.
import { onDestroy } from "svelte";

export interface Command {
  /** Stable, such as `graph.run`. */
  id: string;
  title: () => string;
  icon: string;
  /** What it would act on, in a few words. */
  hint?: () => string;
  /** `mod` is Ctrl, or Cmd on a Mac: `mod+enter`, `mod+shift+a`, `f6`. */
  keys?: string;
  run: () => void;
}

class Registry {
  #all = $state.raw<readonly Command[]>([]);
  // The state itself is no ground to count on while a component goes: there it reads as it was before the change, and what the
  // next place has just added would be lost.
  #now: readonly Command[] = [];

  get all(): readonly Command[] {
    return this.#all;
  }
  add(commands: readonly Command[]): () => void {
    this.#put([...this.#now, ...commands]);
    return () => this.#put(this.#now.filter((each) => !commands.includes(each)));
  }
  #put(commands: readonly Command[]): void {
    this.#now = commands;
    this.#all = commands;
  }
  /** The newest command with these keys: what a place registers wins over the window's own. */
  byKeys(keys: string): Command | undefined {
    return this.#all.findLast((each) => each.keys === keys);
  }
}

export const registry = new Registry();

/** For the life of the calling component. */
export function useCommands(commands: readonly Command[]): void {
  onDestroy(registry.add(commands));
}

export function keysOf(event: KeyboardEvent): string {
  const parts = [];
  if (event.ctrlKey || event.metaKey) parts.push("mod");
  if (event.altKey) parts.push("alt");
  if (event.shiftKey) parts.push("shift");
  parts.push(event.key === " " ? "space" : event.key.toLowerCase());
  return parts.join("+");
}

const isMac = /Mac|iPhone|iPad/.test(navigator.userAgent);

/** The keys as the owner reads them: `Ctrl K`, or `⌘ K` on a Mac. */
export function keysText(keys: string | undefined): string {
  if (!keys) return "";
  const names: Record<string, string> = { mod: isMac ? "⌘" : "Ctrl", shift: "Shift", alt: isMac ? "⌥" : "Alt", enter: "↵", escape: "Esc" };
  return keys
    .split("+")
    .map((part) => names[part] ?? (part.length === 1 ? part.toUpperCase() : part.charAt(0).toUpperCase() + part.slice(1)))
    .join(" ");
}

export function onKey(event: KeyboardEvent): void {
  if (event.defaultPrevented || event.isComposing) return;
  // While a dialog is open its own keys count, and Escape closes it by itself.
  if (document.querySelector("dialog[open]")) return;
  const keys = keysOf(event);
  const typing = event.target instanceof Element && event.target.closest("input, textarea, select, [contenteditable]");
  if (typing && !keys.includes("mod") && !/^f\d/.test(keys)) return;
  const command = registry.byKeys(keys);
  if (!command) return;
  event.preventDefault();
  command.run();
}
