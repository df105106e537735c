// The names a Graph's script has in scope.
export const API_NAMES: ReadonlySet<string> = new Set(["agent", "parallel", "pipeline", "retry", "graph", "workflow", "tool", "ask", "phase", "log", "budget", "sleep", "lines"]);
