// Calls that are not the Graph API: the script's own functions, the array methods, promises, and what nobody knows.
import type * as acorn from "acorn";

import { lineOf, repeated } from "./api";
import { member, numberOf } from "./labels";
import type { Reader } from "./read";
import { OTHER, type Scope, type Value } from "./scope";
import { branch, expression, repeat } from "./statements";

const EACH = new Set(["map", "forEach", "flatMap", "filter", "some", "every", "find", "findIndex", "reduce", "sort", "toSorted", "findLast"]);
/** Methods that hand on the same functions, perhaps fewer of them. */
const SAME = new Set(["filter", "slice", "flat", "reverse", "toReversed", "sort", "toSorted", "concat"]);
const TOGETHER = new Set(["all", "allSettled", "race", "any"]);

export function call(reader: Reader, node: acorn.CallExpression, scope: Scope): Value {
  const api = reader.api(node.callee, scope);
  if (api !== undefined) return reader.callApi(api, node, scope);
  const { callee } = node;
  if (callee.type === "MemberExpression" && callee.property.type === "Identifier" && !callee.computed) {
    const method = callee.property.name;
    if (callee.object.type === "Identifier" && callee.object.name === "Promise" && TOGETHER.has(method)) return together(reader, node, scope);
    return methodCall(reader, node, callee.object, method, scope);
  }
  const own = expression(reader, callee, scope);
  const args = node.arguments.map((each) => expression(reader, each, scope));
  if (own.t === "function") return reader.follow(own, args, node);
  unknown(reader, node, args);
  return OTHER;
}

function methodCall(reader: Reader, node: acorn.CallExpression, object: acorn.Expression | acorn.Super, method: string, scope: Scope): Value {
  const on = expression(reader, object, scope);
  const args = node.arguments.map((each) => expression(reader, each, scope));
  const [first] = args;
  const callback = node.arguments[0];
  if (method === "push" || method === "unshift") {
    if (on.t !== "array") return OTHER;
    on.elements.push(...args);
    if (reader.loops > 0) Object.assign(on, { each: true, over: "" });
    return OTHER;
  }
  if (EACH.has(method) && callback && reader.api(callback, scope)) {
    // `items.map(agent)`: an agent for each, with whatever the array holds.
    repeat(reader, node, reader.text(object), null, () => reader.runtime(callback, "reference"));
    return OTHER;
  }
  if (EACH.has(method) && first?.t === "function") return each(reader, node, object, on, first, method);
  if (SAME.has(method)) return on;
  if (method === "then" && first?.t === "function") return reader.follow(first, [], node);
  if (method === "catch" && first?.t === "function") {
    branch(reader, node, "catch", [() => reader.follow(first, [], node), undefined]);
    return OTHER;
  }
  if (method === "from" && args[1]?.t === "function") return fromLength(reader, node, args[1]);
  unknown(reader, node, args);
  return OTHER;
}

/** One function for every element: what it does is repeated, what it gives back stands for each. */
function each(reader: Reader, node: acorn.CallExpression, object: acorn.Expression | acorn.Super, on: Value, callback: Value, method: string): Value {
  const count = on.t === "array" && !on.each ? on.elements.length : null;
  // Over a short list of functions each one is followed for itself.
  let result: Value = OTHER;
  const over = reader.text(object);
  const handed = on.t === "array" && on.elements.length === 1 ? (on.elements[0] ?? OTHER) : OTHER;
  repeat(reader, node, over, count, () => (result = reader.follow(callback, [handed], node)));
  if (method === "filter" || method === "sort" || method === "toSorted") return on;
  return method === "map" || method === "flatMap" ? { t: "array", elements: [result], each: true, over } : OTHER;
}

/** `Array.from({ length: 3 }, fn)` */
function fromLength(reader: Reader, node: acorn.CallExpression, callback: Value): Value {
  const count = numberOf(member(node.arguments[0] as acorn.Node, "length"));
  let result: Value = OTHER;
  repeat(reader, node, reader.text(node.arguments[0] as acorn.Node), count, () => (result = reader.follow(callback, [], node)));
  return { t: "array", elements: [result], each: true, over: count === null ? reader.text(node.arguments[0] as acorn.Node) : `× ${count}` };
}

/** `Promise.all`: JavaScript's own way of side by side. */
function together(reader: Reader, node: acorn.CallExpression, scope: Scope): Value {
  const list = node.arguments[0];
  if (list?.type === "ArrayExpression") {
    const lanes = list.elements.map((element) => reader.lane("", () => (element ? expression(reader, element, scope) : undefined)));
    reader.group({ kind: "parallel", label: "", line: lineOf(node), count: lanes.length, many: false, lanes });
    return OTHER;
  }
  const items = reader.into(() => list && expression(reader, list, scope));
  for (const item of items) reader.add(item.type === "group" && item.kind === "loop" ? { ...item, kind: "parallel" } : item);
  return OTHER;
}

/** A function handed to something that is not known: whether and how often it runs is decided at run time. */
function unknown(reader: Reader, node: acorn.CallExpression, args: readonly Value[]): void {
  const lanes = args.flatMap((arg) => (arg.t === "function" ? [reader.lane("", () => repeated(reader, () => void reader.follow(arg, [], node)))] : []));
  reader.group({ kind: "runtime", label: reader.text(node.callee), line: lineOf(node), count: null, many: true, lanes });
}
