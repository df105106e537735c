// The MCP clients with their own instructions. These are product names, the same in every language.
export const CLIENTS = ["Claude Code", "Claude Desktop", "Claude.ai"] as const;
export type Client = (typeof CLIENTS)[number];
