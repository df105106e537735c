// Sentences as the desktop makes them: a code and its facts. Their English is left to the catalogue, so that a sample it does not know stands out.
import type { Fact, OfferedRule, Sentence } from "../../generated/types";

export const say = (code: string, facts: Record<string, Fact> = {}): Sentence => ({ code, facts, text: code });

export const DEFAULT = { read: say("default_read"), write: say("default_write"), command: say("default_command"), network: say("default_network") };

export const aRule = (ruling: "allow" | "ask" | "deny", calls: Fact, scope: Sentence): Sentence => say("rule", { ruling: say(`ruling_${ruling}`), calls, scope });

/** The same rule in each scope, as the desktop offers it. */
export function offered(calls: Fact, version: number): OfferedRule[] {
  const scopes = { graph: say("rule_graph", { version: String(version) }), project: say("rule_project"), everywhere: say("rule_everywhere") };
  return (["graph", "project", "everywhere"] as const).map((scope) => ({ scope, text: aRule("allow", calls, scopes[scope]) }));
}
