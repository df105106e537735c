// What a shared Graph gained since it was ticked, in words.
import { t } from "../app/texts/index.svelte";
import type { GainedPower } from "../generated/types";
import { count } from "./format";

export function gainedText(power: GainedPower): string {
  switch (power.what) {
    case "tool":
      return t("gained.tool", { name: power.name });
    case "model":
      return t("gained.model", { name: power.name });
    case "folder":
      return t(power.access === "write" ? "gained.folderWrite" : "gained.folderRead", { path: power.path });
    case "token_ceiling":
      return t("gained.tokens", { before: count(power.before), after: count(power.after) });
    case "agents_at_once":
      return t("gained.agents", { before: count(power.before), after: count(power.after) });
  }
}
