// Glyphs of tools by kind.
export function toolIcon(tool: string): string {
  if (tool === "run_command") return "terminal";
  if (tool === "http_fetch") return "cloud";
  if (tool === "search_files") return "search";
  if (tool === "list_files") return "folder";
  if (tool.startsWith("mcp__")) return "link";
  if (tool === "ask") return "info";
  return "file";
}
