// What a rule's pattern means for each tool. Examples are technical and the same in every language.
import type { TextKey } from "../../app/texts/index.svelte";

export function patternHint(tool: string): { label: TextKey; example: string } | undefined {
  if (["list_files", "read_file", "search_files", "write_file", "edit_file"].includes(tool)) return { label: "rules.patternFolder", example: "/home/ada/billing/src" };
  if (tool === "http_fetch") return { label: "rules.patternHost", example: "status.example.org" };
  if (tool === "run_command") return { label: "rules.patternArgv", example: '["cargo", "test"]' };
  return undefined;
}
