// What a call of the Graph API looks like in the picture.
import type * as acorn from "acorn";

import { member, numberOf, short, stringOf, type Label } from "./labels";
import type { Lane } from "./model";
import type { Reader } from "./read";
import { OTHER, type Scope, type Value } from "./scope";
import { expression } from "./statements";

export const API_LEAVES = ["agent", "tool", "graph", "workflow", "ask"] as const;
const API_ALL = [...API_LEAVES, "parallel", "pipeline", "retry", "phase", "log", "sleep", "lines"] as const;
export type ApiName = (typeof API_ALL)[number];

export const isApi = (name: string): name is ApiName => (API_ALL as readonly string[]).includes(name);
export const isLeafApi = (name: string): boolean => (API_LEAVES as readonly string[]).includes(name);

export function apiCall(reader: Reader, name: ApiName, node: acorn.CallExpression, scope: Scope): Value {
  const [first, second, ...more] = node.arguments;
  switch (name) {
    case "agent":
    case "tool":
    case "graph":
    case "workflow":
    case "ask":
      // What stands in the arguments happens before the call.
      values(reader, node.arguments, scope);
      reader.leaf(node, leafOf(reader, name, node));
      return OTHER;
    case "parallel": {
      const thunks = first ? value(reader, first, scope) : OTHER;
      reader.group({ kind: "parallel", label: overText(reader, first, thunks), line: lineOf(node), ...sizeOf(thunks), lanes: lanesOf(reader, thunks, first ?? node) });
      return OTHER;
    }
    case "pipeline": {
      const items = first ? value(reader, first, scope) : OTHER;
      const stages = second ? [second, ...more] : [];
      const size = items.t === "array" && !items.each ? items.elements.length : null;
      const lane = reader.lane("", () => repeated(reader, () => stages.forEach((stage) => runThunk(reader, value(reader, stage, scope), stage, scope))));
      reader.group({ kind: "pipeline", label: first ? reader.text(first) : "", line: lineOf(node), count: size, many: size !== 1, lanes: [lane] });
      return { t: "array", elements: [OTHER], each: true, over: "" };
    }
    case "retry": {
      const work = second ? value(reader, second, scope) : OTHER;
      if (more[0]) value(reader, more[0], scope);
      reader.group({ kind: "retry", label: first ? reader.text(first) : "", line: lineOf(node), count: numberOf(first), many: false, lanes: [reader.lane("", () => runThunk(reader, work, second ?? node, scope))] });
      return OTHER;
    }
    case "phase":
      reader.phase(short(stringOf(first)?.text ?? (first ? reader.text(first) : "")), lineOf(node));
      return OTHER;
    case "log":
    case "sleep":
    case "lines":
      values(reader, node.arguments, scope);
      return OTHER;
  }
}

export const lineOf = (node: acorn.Node) => node.loc?.start.line ?? 1;
const value = (reader: Reader, node: acorn.Expression | acorn.SpreadElement, scope: Scope): Value => expression(reader, node.type === "SpreadElement" ? node.argument : node, scope);
const values = (reader: Reader, nodes: readonly (acorn.Expression | acorn.SpreadElement)[], scope: Scope): Value[] => nodes.map((each) => value(reader, each, scope));

function sizeOf(thunks: Value): { count: number | null; many: boolean } {
  if (thunks.t !== "array") return { count: null, many: true };
  return thunks.each ? { count: null, many: true } : { count: thunks.elements.length, many: false };
}

/** Over what a group of any number runs, as the code says it. */
function overText(reader: Reader, node: acorn.Node | undefined, thunks: Value): string {
  if (thunks.t === "array") return thunks.each ? thunks.over : "";
  return node ? reader.text(node) : "";
}

function lanesOf(reader: Reader, thunks: Value, at: acorn.Node): Lane[] {
  if (thunks.t !== "array" || thunks.elements.length === 0) return [reader.lane("", () => reader.runtime(at, "list"))];
  return thunks.elements.map((each) =>
    reader.lane("", () => {
      if (each.t !== "function") reader.runtime(at, "list");
      else if (thunks.each) repeated(reader, () => void reader.follow(each, [], at));
      else reader.follow(each, [], at);
    }),
  );
}

export function repeated(reader: Reader, work: () => void): void {
  reader.loops++;
  work();
  reader.loops--;
}

function runThunk(reader: Reader, work: Value, at: acorn.Node, scope: Scope): void {
  const name = reader.api(at, scope);
  if (name !== undefined) reader.runtime(at, "reference");
  else if (work.t === "function") reader.follow(work, [], at);
  else reader.runtime(at, "function");
}

function leafOf(reader: Reader, name: ApiName, node: acorn.CallExpression) {
  const [first, second] = node.arguments;
  if (name === "agent") {
    const option = member(second, "label");
    const label = stringOf(option) ?? (option ? { text: reader.text(option), dynamic: true } : undefined) ?? fromPrompt(first);
    const model = stringOf(member(second, "model"));
    return { kind: "agent" as const, label: short(label.text), dynamic: label.dynamic, detail: model?.text ?? "" };
  }
  if (name === "tool") {
    const tool = stringOf(first);
    const words = tool?.text === "run_command" ? argv(second) : undefined;
    const label = words ?? tool ?? { text: first ? reader.text(first) : "", dynamic: true };
    return { kind: "tool" as const, label: short(label.text), dynamic: label.dynamic, detail: tool?.text ?? "" };
  }
  if (name === "ask") {
    const question = stringOf(first) ?? { text: first ? reader.text(first) : "", dynamic: true };
    return { kind: "ask" as const, label: short(question.text), dynamic: question.dynamic, detail: "" };
  }
  const slug = stringOf(first) ?? { text: first ? reader.text(first) : "", dynamic: true };
  return { kind: "graph" as const, label: short(slug.text), dynamic: slug.dynamic, detail: "" };
}

/** Without a label the beginning of the prompt names an agent; a prompt that is only computed names nothing. */
function fromPrompt(node: acorn.Expression | acorn.SpreadElement | undefined): Label {
  const prompt = stringOf(node);
  const words = prompt?.text.trim().split("\n")[0] ?? "";
  return words.replaceAll("…", "").trim() === "" ? { text: "agent", dynamic: false } : { text: words, dynamic: prompt?.dynamic ?? false };
}

/** The first words of a command, which say more than "run_command". */
function argv(node: acorn.Expression | acorn.SpreadElement | undefined): Label | undefined {
  const list = member(node, "argv");
  if (list?.type !== "ArrayExpression") return undefined;
  const words = list.elements.slice(0, 2).map((element) => (element && element.type !== "SpreadElement" ? stringOf(element) : undefined));
  if (!words[0]) return undefined;
  const known = words.filter((word) => word !== undefined);
  return { text: known.map((word) => word.text).join(" "), dynamic: known.some((word) => word.dynamic) };
}
