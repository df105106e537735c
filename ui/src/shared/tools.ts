// Glyphs of tools by kind, and their names and uses in the owner's words: the description the desktop has is written for models.
import { textOr } from "../app/texts/index.svelte";
import type { ToolSetting } from "../generated/types";
import { sentenceText } from "./sentence";

export const toolTitle = ({ title }: Pick<ToolSetting, "title">): string => sentenceText(title);
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
