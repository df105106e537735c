// The reasons of endings as words; an unknown one of a newer desktop is shown as it is.
import { textOr } from "../app/texts/index.svelte";

export function reasonText(reason: string): string {
  return textOr(`reason.${reason}`, reason);
}
