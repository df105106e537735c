// One subscription to the platform for the whole window, handed on to whoever listens.
import type { DeskEvent } from "../generated/types";
import { platform } from "../platform";

type Ear = (event: DeskEvent) => void;
const ears = new Set<Ear>();
let stop: (() => void) | undefined;

export function hear(ear: Ear): () => void {
  ears.add(ear);
  stop ??= platform.listen((event) => {
    for (const each of [...ears]) each(event);
  });
  return () => {
    ears.delete(ear);
    if (ears.size === 0) {
      stop?.();
      stop = undefined;
    }
  };
}
