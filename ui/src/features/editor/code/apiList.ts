// What is in scope of a Graph, for completion and hover.
export interface ApiEntry {
  name: string;
  signature: string;
  text: string;
  snippet: string;
}

export const API: readonly ApiEntry[] = [
  { name: "agent", signature: "(prompt, { label, phase, model, system, tools, schema, max_tokens, timeout_s })", text: "Launches one agent. Gives its text, or the object valid against schema. Throws AgentError with code, message, label, retryable and usage.", snippet: 'agent(${prompt}, { label: "${label}" })' },
  { name: "parallel", signature: "(thunks)", text: "Runs all at once under max_concurrency and waits for all. Order is kept; a failed one is null. Ceiling, limits and a cancel reject.", snippet: "parallel([\n  () => ${first},\n])" },
  { name: "pipeline", signature: "(items, ...stages)", text: "Each item goes through the stages by itself, without a barrier. A stage gets (previous, item, index); a failed item is null.", snippet: "pipeline(${items},\n  (item) => ${stage},\n)" },
  { name: "retry", signature: "(times, fn, { delay_s, backoff, on })", text: "Tries again, at most so many times. Throws the last error with all attempts. A cancel or a reached ceiling is never tried again.", snippet: "retry(${3}, () => ${work})" },
  { name: "graph", signature: "(slug, args)", text: "Runs another Graph in the same execution: same ceiling, concurrency, cancel and rules. Depth at most 5, no cycles.", snippet: 'graph("${slug}", { ${} })' },
  { name: "workflow", signature: "(slug, args)", text: "The same as graph.", snippet: 'workflow("${slug}", { ${} })' },
  { name: "tool", signature: "(name, input)", text: "One tool call by the script itself, under the same rules as an agent's.", snippet: 'tool("${name}", { ${} })' },
  { name: "ask", signature: "(question, { options, default, timeout_s })", text: "Asks you. No answer in time gives the default, honestly marked.", snippet: 'ask("${question}", { options: [${}] })' },
  { name: "phase", signature: "(title)", text: "Names what comes next, in the picture and in the progress Claude sees.", snippet: 'phase("${title}")' },
  { name: "log", signature: "(text)", text: "A line for the history and the progress.", snippet: "log(${text})" },
  { name: "sleep", signature: "(seconds)", text: "Waits; a cancel ends the wait.", snippet: "sleep(${seconds})" },
  { name: "lines", signature: "(text)", text: "Splits a text into its lines.", snippet: "lines(${text})" },
  { name: "budget", signature: ".total, .spent(), .remaining()", text: "The token ledger of this execution.", snippet: "budget.remaining()" },
  { name: "args", signature: "", text: "The arguments, checked against meta.args before the run.", snippet: "args" },
];
