// Events of sample executions, told with seconds since their start.
import type { FleetEvent, FleetWhat } from "../../generated/types";
import { aRule, DEFAULT, say } from "./say";

const BY_RULE = say("by_rule", { id: "4", rule: aRule("allow", say("calls_starting", { tool: "run_command", words: "git diff" }), say("rule_everywhere")) });

export class Story {
  readonly events: FleetEvent[] = [];
  #next = 1;

  constructor(private readonly start: number) {}

  add(second: number, what: FleetWhat): this {
    this.events.push({ seq: this.#next++, at: new Date(this.start + second * 1000).toISOString(), ...what } as FleetEvent);
    return this;
  }
  /** An agent from its first to its last second; further events may lie between. */
  agent(agent: number, label: string, phase: string, from: number, to: number, tokens: number, more: { line?: number; wave?: number; end?: "done" | "failed" | "refused" | "cancelled"; message?: string; code?: string; estimated?: boolean } = {}): void {
    const { line = 40, wave = null, end = "done", message = null, code = null, estimated = false } = more;
    this.add(from, { kind: "agent_queued", agent, label, phase, wave, model: "default", line, prompt: `You are the agent “${label}”. Read what follows and answer in the schema given.` });
    if (end !== "refused") {
      this.add(from, { kind: "agent_started", agent });
      this.add(from + 1, { kind: "model_call", agent, turn: 1, attempt: 1, input: Math.round(tokens * 0.8), output: Math.round(tokens * 0.2), cached: 0, estimated, cost: null, ms: 900 });
      this.add(from + 2, { kind: "agent_text", agent, from: 0, text: "I read the change and compared it with the rules. " });
    }
    this.add(to, { kind: "agent_finished", agent, end, code, message, tokens, cost: null, ms: Math.round((to - from) * 1000) });
  }
  sorted(): FleetEvent[] {
    let seq = 0;
    const said = new Map<number, number>();
    return this.events
      .sort((a, b) => a.at.localeCompare(b.at))
      .map((event) => {
        if (event.kind !== "agent_text") return { ...event, seq: ++seq };
        // Streamed text has no number; it is known by its place in its agent's text.
        const from = said.get(event.agent) ?? 0;
        said.set(event.agent, from + event.text.length);
        return { ...event, seq: 0, from };
      });
  }
}

/** The failed run of the sample: a judge stalled, the script did not expect a missing vote. */
export function failedRun(start: number): FleetEvent[] {
  const story = new Story(start);
  story.add(0, { kind: "fleet_started", run_id: "failed", ceiling: 100_000, max_concurrency: 4, seed: 7 });
  story.add(0.1, { kind: "phase", title: "Read" });
  story.add(0.2, { kind: "tool_call", call: 1, agent: null, tool: "run_command", input: '{"argv":["git","diff","main"]}', ruling: "allow", rule: BY_RULE.text, said: BY_RULE, line: 22 });
  story.add(0.4, { kind: "tool_result", call: 1, ok: true, bytes: 8120, ms: 200, preview: "diff --git a/src/relay/pass.rs b/src/relay/pass.rs" });
  story.agent(1, "Group files", "Read", 0.9, 9.9, 6104, { line: 24 });
  story.add(10, { kind: "phase", title: "Find" });
  story.add(10, { kind: "wave_started", wave: 1, size: 3, form: "parallel" });
  story.agent(2, "Find bugs", "Find", 10, 51, 18402, { line: 30, wave: 1 });
  story.agent(3, "Find security", "Find", 10, 48, 15911, { line: 30, wave: 1 });
  story.agent(4, "Find speed", "Find", 10, 29, 7204, { line: 30, wave: 1, end: "failed", code: "schema", message: "the answer does not fit the schema after 2 more tries: it holds no complete JSON value" });
  story.agent(5, "Find speed, try 2", "Find", 31, 62, 9989, { line: 30, wave: 1 });
  story.add(62, { kind: "wave_finished", wave: 1, done: 3, failed: 1 });
  story.add(62, { kind: "phase", title: "Judge" });
  story.agent(6, "Restate 1", "Judge", 62, 69, 1210, { line: 37 });
  story.agent(7, "Restate 2", "Judge", 62, 71, 1344, { line: 37 });
  story.agent(8, "Bugs 1", "Judge", 70, 96, 6920);
  story.agent(9, "Security 1", "Judge", 70, 181, 8105);
  story.add(88, { kind: "tool_call", call: 2, agent: 9, tool: "run_command", input: '{"argv":["cargo","test","--package","relay"]}', ruling: "ask", rule: DEFAULT.command.text, said: DEFAULT.command, line: 40 });
  story.add(88, { kind: "approval_asked", call: 2, approval: 3, seconds_left: 600 });
  story.add(160, { kind: "approval_answered", call: 2, approval: 3, answer: "once", by: "owner", waited_ms: 72_000 });
  story.add(166, { kind: "tool_result", call: 2, ok: true, bytes: 900, ms: 6000, preview: "test result: ok. 12 passed; 0 failed" });
  story.agent(10, "Speed 1", "Judge", 70, 101, 5518);
  story.agent(11, "Bugs 2", "Judge", 96, 128, 7021);
  story.agent(12, "Security 2", "Judge", 101, 221, 11252, { end: "failed", code: "stalled", message: "no byte came from the model for 120 s", estimated: true });
  story.agent(13, "Speed 2", "Judge", 160, 163, 0, { end: "refused", code: "ceiling_reached", message: "The token ceiling is reached (98980 of 100000 spent): nothing new is started." });
  story.add(228, { kind: "ledger", spent: 98_980, held: 0, ceiling: 100_000, cost: 0.44 });
  story.add(228, { kind: "agent_queued", agent: 14, label: "Write report", phase: "Judge", wave: null, model: "default", line: 47, prompt: "Write the report." });
  story.add(232, { kind: "fleet_finished", status: "failed", reason: "script_error", error: 'cannot read "keep" of null', line: 44, tokens: 98_980, cost: 0.44, agents_done: 10, agents_failed: 2 });
  return story.sorted();
}

/** The run under way: judging, one agent asks. */
export function runningRun(start: number): FleetEvent[] {
  const story = new Story(start);
  story.add(0, { kind: "fleet_started", run_id: "running", ceiling: 200_000, max_concurrency: 4, seed: 11 });
  story.add(0.1, { kind: "phase", title: "Read" });
  story.add(0.2, { kind: "tool_call", call: 1, agent: null, tool: "run_command", input: '{"argv":["git","diff","main"]}', ruling: "allow", rule: BY_RULE.text, said: BY_RULE, line: 22 });
  story.add(0.4, { kind: "tool_result", call: 1, ok: true, bytes: 8120, ms: 200, preview: "diff --git a/src/relay/pass.rs" });
  story.agent(1, "Group files", "Read", 1, 10, 6104, { line: 24 });
  story.add(10, { kind: "phase", title: "Find" });
  story.add(10, { kind: "wave_started", wave: 1, size: 3, form: "parallel" });
  story.agent(2, "Find bugs", "Find", 10, 51, 18402, { line: 30, wave: 1 });
  story.agent(3, "Find security", "Find", 10, 48, 15911, { line: 30, wave: 1 });
  story.agent(4, "Find speed", "Find", 10, 62, 17193, { line: 30, wave: 1 });
  story.add(30, { kind: "retry", agent: 4, why: "the provider answered 529: overloaded", wait_ms: 0, attempt: 2 });
  story.add(62, { kind: "wave_finished", wave: 1, done: 3, failed: 0 });
  story.add(62, { kind: "phase", title: "Judge" });
  story.add(62, { kind: "wave_started", wave: 2, size: 6, form: "pipeline" });
  for (let n = 0; n < 4; n++) story.agent(5 + n, "Restate", "Judge", 62 + n, 69 + n, 725, { line: 37, wave: 2 });
  for (let n = 0; n < 2; n++) for (const [i, judge] of ["Bugs", "Security", "Speed"].entries()) story.agent(10 + n * 3 + i, judge, "Judge", 70 + n * 8, 78 + n * 8, 3000 + i * 400, { line: 40, wave: 3 + n });
  for (const [i, judge] of ["Bugs", "Security", "Speed"].entries()) {
    story.add(88, { kind: "agent_queued", agent: 20 + i, label: judge, phase: "Judge", wave: 5, model: "default", line: 40, prompt: `Judge the claim as ${judge}.` });
    story.add(88, { kind: "agent_started", agent: 20 + i });
    story.add(89, { kind: "model_call", agent: 20 + i, turn: 1, attempt: 1, input: 2900, output: 640, cached: 0, estimated: false, cost: null, ms: 1100 });
  }
  story.add(90, { kind: "agent_text", agent: 20, from: 0, text: "" });
  story.add(91, { kind: "tool_call", call: 2, agent: 20, tool: "read_file", input: "src/relay/pass.rs, lines 80–160", ruling: "allow", rule: DEFAULT.read.text, said: DEFAULT.read, line: 40 });
  story.add(92, { kind: "tool_result", call: 2, ok: true, bytes: 2200, ms: 3, preview: "fn pass(&self) {" });
  story.add(93, { kind: "agent_text", agent: 20, from: 0, text: "The claim is that a second pass can start while the first one still holds the outbox. The guard on line 96 is set before the await and cleared in the same block, so an early return leaves it set." });
  story.add(95, { kind: "tool_call", call: 3, agent: 20, tool: "search_files", input: '"busy.store" in src', ruling: "allow", rule: DEFAULT.read.text, said: DEFAULT.read, line: 40 });
  story.add(96, { kind: "agent_text", agent: 20, from: 0, text: "Three writers, one of them outside the guard. I keep the finding: an error between lines 96 and 118 would stop every later pass until" });
  story.add(97, { kind: "tool_call", call: 4, agent: 21, tool: "run_command", input: '{"argv":["cargo","test"]}', ruling: "ask", rule: DEFAULT.command.text, said: DEFAULT.command, line: 40 });
  story.add(97, { kind: "approval_asked", call: 4, approval: 7, seconds_left: 600 });
  story.add(98, { kind: "log", text: "2 of 6 findings judged" });
  story.add(100, { kind: "ledger", spent: 92_410, held: 24_600, ceiling: 200_000, cost: 0.41 });
  return story.sorted();
}

/** Many agents, for the waterfall's windowing. */
export function crowdedRun(start: number, agents: number): FleetEvent[] {
  const story = new Story(start);
  story.add(0, { kind: "fleet_started", run_id: "crowded", ceiling: 2_000_000, max_concurrency: 8, seed: 3 });
  for (let phase = 0; phase < 5; phase++) {
    story.add(phase * 100, { kind: "phase", title: `Part ${phase + 1}` });
    for (let i = 0; i < agents / 5; i++) {
      const from = phase * 100 + ((i * 37) % 90);
      story.agent(phase * 1000 + i, `Reader ${i + 1}`, `Part ${phase + 1}`, from, from + 3 + ((i * 13) % 7), 500 + ((i * 97) % 3000), { line: 12, end: i % 41 === 40 ? "failed" : "done" });
    }
  }
  story.add(505, { kind: "fleet_finished", status: "completed", reason: "done", error: null, line: null, tokens: 900_000, cost: 3.2, agents_done: agents, agents_failed: 0 });
  return story.sorted();
}
