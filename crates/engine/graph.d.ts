// Made from the table of crates/engine/src/api.rs; do not edit. Everything here is in scope of a Graph.
type CallCode = "ceiling_reached" | "wave_stopped" | "limit" | "cancelled" | "denied" | "unanswered" | "no_model" | "schema" | "timeout" | "stalled" | "refused" | "context_overflow" | "rate_limited" | "provider" | "loop" | "tool_failed" | "no_tool" | "no_graph" | "graph_failed" | "invalid";
interface AgentOptions {
  /** Short name in the story; made from the prompt where it is left out. */
  label?: string;
  /** Phase it is shown under; the current one where it is left out. */
  phase?: string;
  /** Name of a model the owner has set up; the owner's default where it is left out. */
  model?: string;
  system?: string;
  /** Tools it may use. Can only narrow what `meta.tools` and the rules allow. */
  tools?: string[];
  /** JSON Schema the answer must be valid against. */
  schema?: object;
  /** Most tokens one answer of the model may have; at most, and without it, what the owner allows (4,096). */
  max_tokens?: number;
  /** Longest it may take, 600 s by default; waiting for the owner does not count. */
  timeout_s?: number;
}
interface RetryOptions {
  delay_s?: number;
  backoff?: number;
  on?: string[] | ((error: any) => boolean);
}
interface AskOptions {
  /** Answers to choose from; free text where they are left out. */
  options?: string[];
  default?: any;
  timeout_s?: number;
}
interface Budget {
  readonly total: number;
  spent(): number;
  remaining(): number;
}
/** A failed call. `code` says why, `retryable` whether a later attempt may succeed, `usage` what it used all the same. */
declare class CallError extends Error {
  readonly code: CallCode;
  readonly label?: string;
  readonly retryable: boolean;
  readonly usage: { readonly tokens: number; readonly cost: number | null };
  /** After `retry`: the errors of all attempts. */
  readonly attempts?: any[];
}

/**
 * The arguments of this run, checked against `meta.args` before the Graph starts. Numbers are JavaScript numbers: integers beyond 2^53 lose digits.
 * @example const folder = args.folder;
 */
declare const args: any;
/**
 * Launches one agent: a model with tools that works until it has an answer. Resolves to its text, or with `schema` to an object that is valid against it. Throws an `AgentError` when it fails; unlike Claude's own workflows it never resolves to `null`. Runs under `max_concurrency`; waits for its turn in the order of calls.
 * @example const summary = await agent(`Summarise ${path}`, { label: "summary", tools: ["read_file"], max_tokens: 1024 });
 */
declare function agent(prompt: string, options?: AgentOptions): Promise<any>;
/**
 * Runs functions at once and waits for all. Results keep their order; one that failed is `null`. Rejects when the token ceiling is reached, a limit is hit, no model is set up, three agents failed the same way, or the script itself has a mistake (`TypeError`, `ReferenceError`, `RangeError`): then nothing that has not started is started. At most 1,000 functions.
 * @example const pages = (await parallel(paths.map((path) => () => agent(`Summarise ${path}`)))).filter(Boolean);
 */
declare function parallel<T>(thunks: Array<() => T | Promise<T>>): Promise<Array<T | null>>;
/**
 * Takes each item through the stages by itself, without waiting for the others. The first stage gets the item as `previous`. An item that failed is `null`. Rejects like `parallel`.
 * @example const checked = await pipeline(files, (file) => agent(`Review ${file}`), (review, file) => agent(`Is this true of ${file}? ${review}`));
 */
declare function pipeline(items: any[], ...stages: Array<(previous: any, item: any, index: number) => any>): Promise<any[]>;
/**
 * Calls `fn` until it succeeds, at most `times` times (1 to 20). Waits `delay_s` seconds (1) before the second attempt and `backoff` times (2) as long before each further one. `on` names the error codes to retry, or is a function of the error. The last error has all `attempts`. A reached ceiling, a limit or a mistake of the script is never retried.
 * @example const page = await retry(3, () => agent("Fetch and summarise the page"), { delay_s: 5, on: ["rate_limited", "timeout"] });
 */
declare function retry<T>(times: number, fn: (attempt: number) => T | Promise<T>, options?: RetryOptions): Promise<T>;
/**
 * Runs another Graph of this desktop that is ready, within this execution: same ceiling, concurrency, clock and stop. Tools are allowed only where both Graphs and all rules allow them. Five levels deep at most, no cycles. Throws a `GraphError` when it fails.
 * @example const counted = await graph("folder-digest", { folder: args.folder, output: args.output });
 */
declare function graph(slug: string, args?: any): Promise<any>;
/**
 * The same as `graph`.
 * @example await workflow("folder-digest", args);
 */
declare function workflow(slug: string, args?: any): Promise<any>;
/**
 * Calls one tool by the script itself, under the same rules and approvals as an agent's call. Throws a `ToolError` when it is denied or fails.
 * @example const file = await tool("read_file", { path: "/notes/today.md" });
 */
declare function tool(name: string, input: object): Promise<any>;
/**
 * Asks the owner and waits for the answer, ten minutes at most or `timeout_s`. Nobody's answer resolves to `default`; without a default it throws an `AskError` with the code `unanswered`. The clock of the execution stands still meanwhile. The connected agent cannot answer.
 * @example if ((await ask("Publish the report?", { options: ["yes", "no"], default: "no" })) === "no") return { published: false };
 */
declare function ask(question: string, options?: AskOptions): Promise<any>;
/**
 * Begins a phase: what follows is shown under its title. `meta.phases` lists the titles beforehand.
 * @example phase("Review");
 */
declare function phase(title: string): void;
/**
 * Writes one line of progress; what is not a text is written as JSON. The owner and the connected agent see it.
 * @example log(`${findings.length} findings`);
 */
declare function log(...values: any[]): void;
/**
 * The token ceiling of the execution: `total`, `spent()` and `remaining()`, the latter without what running calls hold. The ceiling is hard: a call that could pass it is refused before it is made.
 * @example while (budget.remaining() > 20_000) await searchOnceMore();
 */
declare const budget: Budget;
/**
 * Waits. A stop ends the wait.
 * @example await sleep(30);
 */
declare function sleep(seconds: number): Promise<void>;
/**
 * Splits a text into its lines, without their ends; an end at the very end makes no empty last line. Much faster than `split`, which takes very long for long texts here.
 * @example for (const line of lines(file.text)) if (line.startsWith("# ")) titles.push(line.slice(2));
 */
declare function lines(text: string): string[];
/**
 * What a failed `agent`, `parallel` or `pipeline` throws.
 * @example catch (e) { if (e instanceof AgentError && e.code === "ceiling_reached") return { partial: true, done }; throw e; }
 */
declare class AgentError extends CallError {}
/**
 * What a failed `tool` throws.
 * @example await tool("read_file", { path }).catch((e) => { if (e.code !== "tool_failed") throw e; });
 */
declare class ToolError extends CallError {}
/**
 * What an unanswered `ask` throws.
 * @example await ask("Go on?").catch((e) => "no");
 */
declare class AskError extends CallError {}
/**
 * What a failed `graph` throws.
 * @example await graph("nightly").catch((e) => log(e.message));
 */
declare class GraphError extends CallError {}
