// Statements and expressions in the order in which they would happen.
import type * as acorn from "acorn";

import { lineOf } from "./api";
import { call } from "./calls";
import type { Reader } from "./read";
import { OTHER, Scope, type Value } from "./scope";

type Node = acorn.AnyNode;

export function statement(reader: Reader, node: acorn.Statement | acorn.ModuleDeclaration, scope: Scope): void {
  switch (node.type) {
    case "BlockStatement":
      reader.block(node.body, new Scope(scope));
      return;
    case "ExportNamedDeclaration":
      if (node.declaration) statement(reader, node.declaration, scope);
      return;
    case "VariableDeclaration":
      for (const each of node.declarations) {
        const init = each.init ? expression(reader, each.init, scope) : OTHER;
        if (each.id.type === "Identifier") scope.bind(each.id.name, init);
        else scope.bindPattern(each.id);
      }
      return;
    case "FunctionDeclaration":
      return; // bound when its block began; its body counts where it is called
    case "ClassDeclaration":
      scope.bind(node.id.name, OTHER);
      return;
    case "ExpressionStatement":
      expression(reader, node.expression, scope);
      return;
    case "ReturnStatement":
      if (node.argument) reader.returned = expression(reader, node.argument, scope);
      return;
    case "ThrowStatement":
      expression(reader, node.argument, scope);
      return;
    case "IfStatement":
      expression(reader, node.test, scope);
      branch(reader, node, reader.text(node.test), [() => statement(reader, node.consequent, scope), node.alternate ? () => statement(reader, node.alternate as acorn.Statement, scope) : undefined]);
      return;
    case "SwitchStatement":
      expression(reader, node.discriminant, scope);
      reader.group({ kind: "branch", label: reader.text(node.discriminant), line: lineOf(node), count: null, many: false, lanes: node.cases.map((each) => reader.lane(each.test ? reader.text(each.test) : "else", () => reader.block(each.consequent, new Scope(scope)))) });
      return;
    case "TryStatement":
      reader.block(node.block.body, new Scope(scope));
      if (node.handler) {
        const inner = new Scope(scope);
        if (node.handler.param) inner.bindPattern(node.handler.param);
        const { body } = node.handler.body;
        reader.group({ kind: "branch", label: "catch", line: lineOf(node.handler), count: null, many: false, lanes: [reader.lane("catch", () => reader.block(body, inner))] });
      }
      if (node.finalizer) reader.block(node.finalizer.body, new Scope(scope));
      return;
    case "ForOfStatement":
    case "ForInStatement":
      forEach(reader, node, scope);
      return;
    case "ForStatement":
    case "WhileStatement":
    case "DoWhileStatement":
      loop(reader, node, scope);
      return;
    case "LabeledStatement":
      statement(reader, node.body, scope);
      return;
    default:
      return; // breaks, imports, empty ones: nothing happens there
  }
}

function forEach(reader: Reader, node: acorn.ForOfStatement | acorn.ForInStatement, scope: Scope): void {
  const over = expression(reader, node.right, scope);
  const inner = new Scope(scope);
  const left = node.left;
  const name = left.type === "VariableDeclaration" ? left.declarations[0]?.id : left;
  if (name) inner.bindPattern(name);
  const count = over.t === "array" && !over.each ? over.elements.length : null;
  // A fixed list of functions is followed one by one; anything else is any number of the same.
  repeat(reader, node, reader.text(node.right), count, () => statement(reader, node.body, inner));
}

function loop(reader: Reader, node: acorn.ForStatement | acorn.WhileStatement | acorn.DoWhileStatement, scope: Scope): void {
  const inner = new Scope(scope);
  if (node.type === "ForStatement" && node.init) {
    if (node.init.type === "VariableDeclaration") statement(reader, node.init, inner);
    else expression(reader, node.init, inner);
  }
  const label = node.test ? reader.text(node.test) : "";
  repeat(reader, node, label, null, () => {
    if (node.test) expression(reader, node.test, inner);
    statement(reader, node.body, inner);
    if (node.type === "ForStatement" && node.update) expression(reader, node.update, inner);
  });
}

export function repeat(reader: Reader, node: acorn.Node, label: string, count: number | null, work: () => void): void {
  reader.loops++;
  const lane = reader.lane("", work);
  reader.loops--;
  reader.group({ kind: "loop", label, line: lineOf(node), count, many: true, lanes: [lane] });
}

/** Two ways, of which one is taken. */
export function branch(reader: Reader, node: acorn.Node, label: string, ways: readonly [(() => unknown) | undefined, (() => unknown) | undefined]): void {
  const lanes = ways.flatMap((way, i) => (way ? [reader.lane(i === 0 ? "then" : "else", () => void way())] : []));
  reader.group({ kind: "branch", label, line: lineOf(node), count: null, many: false, lanes });
}

export function expression(reader: Reader, node: acorn.Expression | acorn.Super | acorn.PrivateIdentifier | acorn.SpreadElement | acorn.Pattern, scope: Scope): Value {
  const it = node as Node;
  switch (it.type) {
    case "ArrowFunctionExpression":
    case "FunctionExpression":
      return { t: "function", node: it, scope };
    case "Identifier":
      return scope.find(it.name) ?? OTHER;
    case "CallExpression":
      return call(reader, it, scope);
    case "ArrayExpression": {
      const elements = it.elements.flatMap((element): Value[] => {
        if (!element) return [];
        const known = expression(reader, element, scope);
        if (element.type !== "SpreadElement") return [known];
        return known.t === "array" && !known.each ? known.elements : [OTHER];
      });
      return { t: "array", elements, each: false, over: "" };
    }
    case "AwaitExpression":
    case "UnaryExpression":
    case "UpdateExpression":
    case "SpreadElement":
      return expression(reader, it.argument, scope);
    case "ParenthesizedExpression":
    case "ChainExpression":
      return expression(reader, it.expression, scope);
    case "ConditionalExpression":
      expression(reader, it.test, scope);
      branch(reader, it, reader.text(it.test), [() => expression(reader, it.consequent, scope), () => expression(reader, it.alternate, scope)]);
      return OTHER;
    case "LogicalExpression":
      expression(reader, it.left, scope);
      branch(reader, it, reader.text(it.left), [() => expression(reader, it.right, scope), undefined]);
      return OTHER;
    case "AssignmentExpression": {
      const set = expression(reader, it.right, scope);
      if (it.left.type === "Identifier") {
        // The first value of a name declared without one is as good as its declaration; every further one makes it unknown.
        if (it.operator === "=" && scope.find(it.left.name) === OTHER && set.t === "function") scope.bind(it.left.name, set);
        else scope.forget(it.left.name);
      }
      return set;
    }
    case "SequenceExpression":
      return it.expressions.map((each) => expression(reader, each, scope)).at(-1) ?? OTHER;
    default:
      return children(reader, it, scope);
  }
}

/** Everything else: whatever it holds happens in order, and nothing is known of the outcome. */
function children(reader: Reader, node: Node, scope: Scope): Value {
  if (node.type === "ClassExpression") return OTHER;
  for (const [key, held] of Object.entries(node)) {
    if (key === "key" && !("computed" in node && node.computed)) continue;
    if (key === "property" && node.type === "MemberExpression" && !node.computed) continue;
    for (const each of Array.isArray(held) ? held : [held]) if (isNode(each)) expression(reader, each as acorn.Expression, scope);
  }
  return OTHER;
}

export const isNode = (held: unknown): held is acorn.AnyNode => typeof held === "object" && held !== null && typeof (held as { type?: unknown }).type === "string" && "start" in held;
