// Built on the host's primitives, inside the script's interpreter, before the script runs. What it needs of the language it takes
// now: a script that overrides Array.prototype or Promise breaks only itself. Own arrays are filled before they are written by index,
// so that no setter on a prototype is reached.
(function (host) {
  "use strict";
  const { freeze, defineProperty, setPrototypeOf } = Object;
  const isArray = Array.isArray;
  const PromiseNow = Promise;
  const NativeError = Error;
  const NativeTypeError = TypeError;
  const NativeReferenceError = ReferenceError;
  const NativeRangeError = RangeError;
  const StringNow = String;
  const NumberNow = Number;
  const isInteger = Number.isInteger;

  class CallError extends NativeError {}
  class AgentError extends CallError {}
  class ToolError extends CallError {}
  class AskError extends CallError {}
  class GraphError extends CallError {}
  const kinds = { __proto__: null, agent: AgentError, tool: ToolError, ask: AskError, graph: GraphError, wave: AgentError, sleep: CallError };
  const names = { __proto__: null, agent: "AgentError", tool: "ToolError", ask: "AskError", graph: "GraphError", wave: "AgentError", sleep: "CallError" };

  const own = (object, key, value) => defineProperty(object, key, { __proto__: null, value, writable: true, configurable: true, enumerable: false });

  const filled = (size) => {
    const list = [];
    for (let i = 0; i < size; i += 1) defineProperty(list, i, { __proto__: null, value: null, writable: true, configurable: true, enumerable: true });
    return list;
  };

  // Called by the host for every failed call; `stack` is the call site.
  const makeError = (kind, code, message, retryable, tokens, cost, label, stack) => {
    const error = new kinds[kind](message);
    own(error, "name", names[kind]);
    own(error, "code", code);
    own(error, "label", label);
    own(error, "retryable", retryable);
    own(error, "usage", freeze({ tokens, cost }));
    own(error, "stack", stack);
    return error;
  };

  const FATAL = { __proto__: null, ceiling_reached: true, wave_stopped: true, limit: true, cancelled: true, invalid: true, no_tool: true, no_graph: true, no_model: true };
  const isBug = (e) => e instanceof NativeTypeError || e instanceof NativeReferenceError || e instanceof NativeRangeError;
  const isFatal = (e) => isBug(e) || (e instanceof CallError && FATAL[e.code] === true);
  const same = 3;

  // One wave: counts its failures and stops itself at the third of one class. What is started in it belongs to it, also after it has
  // waited: the host resumes every step in the wave in which it began to wait.
  const openWave = async (form, size) => {
    const outer = host.wave();
    const wave = await host.call("wave", form, size);
    const counts = { __proto__: null };
    let done = 0;
    let failed = 0;
    let fatal;
    return {
      start(fn, a, b, c) {
        host.enterWave(wave);
        try {
          return fn(a, b, c);
        } finally {
          host.enterWave(outer);
        }
      },
      isStopped: () => fatal !== undefined,
      succeeded() {
        done += 1;
      },
      failed(error) {
        failed += 1;
        if (fatal !== undefined) return;
        if (isFatal(error)) {
          fatal = { error };
          host.stopWave(wave, error instanceof CallError ? error.code : "script_error");
        } else if (error instanceof AgentError) {
          counts[error.code] = (counts[error.code] || 0) + 1;
          if (counts[error.code] >= same) {
            const message = `${same} agents of this wave failed the same way (${error.code}: ${error.message}); what had not started was not started`;
            const stopped = makeError("wave", "wave_stopped", message, false, 0, null, undefined, error.stack);
            own(stopped, "cause", error);
            fatal = { error: stopped };
            host.stopWave(wave, "wave_stopped");
          }
        }
      },
      close() {
        host.closeWave(wave, done, failed);
        if (fatal !== undefined) throw fatal.error;
      },
    };
  };

  const checkList = (list, what) => {
    if (!isArray(list)) throw new NativeTypeError(`${what} takes an array`);
    if (list.length > host.itemsMax) throw makeError("wave", "limit", `${what}: ${list.length} items, at most ${host.itemsMax} are allowed`, false, 0, null, undefined, host.site());
  };

  const parallel = async function parallel(thunks) {
    checkList(thunks, "parallel");
    const size = thunks.length;
    for (let i = 0; i < size; i += 1) {
      if (typeof thunks[i] !== "function") throw new NativeTypeError(`parallel takes functions, like () => agent("…"); item ${i} is ${thunks[i] instanceof PromiseNow ? "a promise, already started" : typeof thunks[i]}`);
    }
    const results = filled(size);
    const running = filled(size);
    const wave = await openWave("parallel", size);
    const one = async (i) => {
      try {
        results[i] = await wave.start(thunks[i]);
        wave.succeeded();
      } catch (error) {
        wave.failed(error);
      }
    };
    for (let i = 0; i < size; i += 1) running[i] = one(i);
    for (let i = 0; i < size; i += 1) await running[i];
    wave.close();
    return results;
  };

  const pipeline = async function pipeline(items, ...stages) {
    checkList(items, "pipeline");
    const size = items.length;
    const count = stages.length;
    if (count === 0) throw new NativeTypeError("pipeline takes at least one stage");
    for (let s = 0; s < count; s += 1) {
      if (typeof stages[s] !== "function") throw new NativeTypeError(`pipeline takes functions as stages; stage ${s + 1} is ${typeof stages[s]}`);
    }
    const results = filled(size);
    const running = filled(size);
    const wave = await openWave("pipeline", size);
    const one = async (i) => {
      try {
        let previous = items[i];
        for (let s = 0; s < count; s += 1) {
          if (wave.isStopped()) return;
          previous = await wave.start(stages[s], previous, items[i], i);
        }
        results[i] = previous;
        wave.succeeded();
      } catch (error) {
        wave.failed(error);
      }
    };
    for (let i = 0; i < size; i += 1) running[i] = one(i);
    for (let i = 0; i < size; i += 1) await running[i];
    wave.close();
    return results;
  };

  const includes = (list, wanted) => {
    for (let i = 0; i < list.length; i += 1) if (list[i] === wanted) return true;
    return false;
  };

  const retry = async function retry(times, fn, options) {
    if (!isInteger(times) || times < 1 || times > host.attemptsMax) throw new NativeTypeError(`retry(times, fn): times must be a whole number from 1 to ${host.attemptsMax}`);
    if (typeof fn !== "function") throw new NativeTypeError("retry(times, fn): fn must be a function");
    const { delay_s = 1, backoff = 2, on } = options === undefined || options === null ? {} : options;
    let wait = NumberNow(delay_s);
    const attempts = [];
    for (let attempt = 1; ; attempt += 1) {
      try {
        return await fn(attempt);
      } catch (error) {
        own(attempts, attempts.length, error);
        const wanted = typeof on === "function" ? on(error) : isArray(on) ? includes(on, error.code) : true;
        if (attempt >= times || !wanted || isFatal(error)) {
          if (error instanceof NativeError) own(error, "attempts", attempts);
          throw error;
        }
        host.noteRetry(error instanceof NativeError ? StringNow(error.message) : StringNow(error), wait, attempt + 1);
        if (wait > 0) await host.call("sleep", wait);
        wait *= NumberNow(backoff);
      }
    }
  };

  const budget = { __proto__: null };
  defineProperty(budget, "spent", { __proto__: null, value: () => host.spent() });
  defineProperty(budget, "remaining", { __proto__: null, value: () => host.remaining() });
  // Called by the host when it knows the ceiling, once, before the script.
  const begin = (total) => {
    defineProperty(budget, "total", { __proto__: null, value: total, enumerable: true });
    freeze(budget);
  };

  const graph = function graph(slug, args) {
    return host.call("graph", slug, args);
  };
  return {
    makeError,
    begin,
    globals: {
      agent: function agent(prompt, options) { return host.call("agent", prompt, options); },
      tool: function tool(name, input) { return host.call("tool", name, input); },
      ask: function ask(question, options) { return host.call("ask", question, options); },
      graph,
      workflow: graph,
      sleep: function sleep(seconds) { return host.call("sleep", seconds); },
      parallel,
      pipeline,
      retry,
      phase: function phase(title) { host.phase(title); },
      log: host.log,
      lines: host.lines,
      budget,
      AgentError, ToolError, AskError, GraphError,
    },
  };
});
