// The other half of "never wrong in silence": all call sites of a script, compared with those the picture has.
import type * as acorn from "acorn";

import { isLeafApi } from "./api";
import type { Leaf } from "./model";
import { isNode } from "./statements";

/** Calls of the API that the reading never reached, and uses of its names as values, as leaves that say so. */
export function missedCalls(program: acorn.Program, covered: ReadonlySet<number>, text: (node: acorn.Node) => string): Leaf[] {
  const missed: Leaf[] = [];
  const leaf = (node: acorn.Node, detail: string) => missed.push({ type: "leaf", kind: "runtime", label: text(node), dynamic: true, detail, line: node.loc?.start.line ?? 1, end: node.loc?.end.line ?? 1 });
  visit(program, new Set(), (node, callee) => {
    if (covered.has(node.start)) return;
    if (node.type === "CallExpression") leaf(node, "unreached");
    else if (!callee) leaf(node, "reference");
  });
  return missed;
}

/** Tells of each call of, and each other use of, an API name that the script did not take for itself. */
function visit(node: acorn.AnyNode, shadowed: ReadonlySet<string>, tell: (node: acorn.AnyNode, callee: boolean) => void, callee = false): void {
  const added = declared(node);
  const own = added.length === 0 ? shadowed : new Set([...shadowed, ...added]);
  if (node.type === "Identifier" && isLeafApi(node.name) && !own.has(node.name)) tell(node, callee);
  if (node.type === "CallExpression" && node.callee.type === "Identifier" && isLeafApi(node.callee.name) && !own.has(node.callee.name)) tell(node, false);
  for (const [key, held] of Object.entries(node)) {
    if (key === "key" && !("computed" in node && node.computed) && !("shorthand" in node && node.shorthand)) continue;
    if (key === "property" && node.type === "MemberExpression" && !node.computed) continue;
    for (const child of Array.isArray(held) ? held : [held]) if (isNode(child)) visit(child, own, tell, node.type === "CallExpression" && key === "callee");
  }
}

/** Names that are the script's own inside this node. */
function declared(node: acorn.AnyNode): string[] {
  if (node.type === "ArrowFunctionExpression" || node.type === "FunctionExpression" || node.type === "FunctionDeclaration") return node.params.flatMap(names);
  if (node.type === "CatchClause") return node.param ? names(node.param) : [];
  if (node.type === "ForOfStatement" || node.type === "ForInStatement") return node.left.type === "VariableDeclaration" ? node.left.declarations.flatMap((each) => names(each.id)) : [];
  if (node.type !== "Program" && node.type !== "BlockStatement") return [];
  return node.body.flatMap((each) => {
    if (each.type === "VariableDeclaration") return each.declarations.flatMap((one) => names(one.id));
    if (each.type === "FunctionDeclaration" || each.type === "ClassDeclaration") return [each.id.name];
    return [];
  });
}

function names(pattern: acorn.Pattern): string[] {
  switch (pattern.type) {
    case "Identifier":
      return [pattern.name];
    case "ObjectPattern":
      return pattern.properties.flatMap((property) => names(property.type === "RestElement" ? property.argument : property.value));
    case "ArrayPattern":
      return pattern.elements.flatMap((element) => (element ? names(element) : []));
    case "RestElement":
      return names(pattern.argument);
    case "AssignmentPattern":
      return names(pattern.left);
    case "MemberExpression":
      return [];
  }
}
