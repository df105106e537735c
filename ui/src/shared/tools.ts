// Glyphs of tools by kind, and the built-in ones in the owner's words: what the desktop says of them is written for models.
import { textOr } from "../app/texts/index.svelte";
import type { ToolSetting } from "../generated/types";

export const toolTitle = ({ tool, title }: Pick<ToolSetting, "tool" | "title">): string => textOr(`tool.${tool}`, title);
export const toolText = ({ tool, description }: Pick<ToolSetting, "tool" | "description">): string => textOr(`tool.${tool}.text`, description);

export function toolIcon(tool: string): string {
  if (tool === "run_command") return "terminal";
  if (tool === "http_fetch") return "cloud";
  if (tool === "search_files") return "search";
  if (tool === "list_files") return "folder";
  if (tool.startsWith("mcp__")) return "link";
  if (tool === "ask") return "info";
  return "file";
}
