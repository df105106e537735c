// What a Graph may do, in a few words.
import { t, tn } from "../../app/texts/index.svelte";
import type { Powers, Ruling } from "../../generated/types";

const FILE_TOOLS = new Set(["list_files", "read_file", "search_files", "write_file", "edit_file"]);

export function powerWords(powers: Powers): { icon: string; text: string }[] {
  const words: { icon: string; text: string }[] = [];
  const ruling = (tool: string): Ruling | undefined => powers.tools.find((each) => each.tool === tool)?.ruling;
  const reads = powers.tools.some((each) => ["list_files", "read_file", "search_files"].includes(each.tool) && each.ruling !== "deny");
  const write = strictest([ruling("write_file"), ruling("edit_file")]);
  const writable = powers.folders.filter((folder) => folder.access === "write").length;
  if (reads) words.push({ icon: "folder", text: tn("powers.read", powers.folders.length) });
  if (write && write !== "deny") words.push({ icon: "file", text: withRuling(tn("powers.write", writable), write) });
  const command = ruling("run_command");
  if (command) words.push({ icon: "terminal", text: withRuling(t("powers.commands"), command) });
  const fetches = ruling("http_fetch");
  if (fetches) words.push({ icon: "cloud", text: withRuling(t("powers.network"), fetches) });
  const others = powers.tools.filter((each) => !FILE_TOOLS.has(each.tool) && each.tool !== "run_command" && each.tool !== "http_fetch" && each.ruling !== "deny");
  if (others.length > 0) words.push({ icon: "link", text: tn("powers.others", others.length) });
  return words;
}

/** The mildest of what may happen is not what the owner needs to read first. */
function strictest(rulings: readonly (Ruling | undefined)[]): Ruling | undefined {
  for (const each of ["ask", "allow", "deny"] as const) if (rulings.includes(each)) return each;
  return undefined;
}

function withRuling(text: string, ruling: Ruling): string {
  return ruling === "allow" ? text : t(`powers.with.${ruling}`, { text });
}
