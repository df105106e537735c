// Labels from code: what is written there, and "…" for what only the run knows.
import type * as acorn from "acorn";

export interface Label {
  text: string;
  dynamic: boolean;
}

const SHORT = 34;

export function short(text: string): string {
  const flat = text.replace(/\s+/g, " ").trim();
  return flat.length <= SHORT ? flat : `${flat.slice(0, SHORT - 1)}…`;
}

/** A string of the code; undefined when the expression is no string at all. */
export function stringOf(node: acorn.Node | undefined | null): Label | undefined {
  if (!node) return undefined;
  const it = node as acorn.AnyNode;
  if (it.type === "Literal" && typeof it.value === "string") return { text: it.value, dynamic: false };
  if (it.type === "TemplateLiteral") {
    const text = it.quasis.map((quasi, i) => (i < it.quasis.length - 1 ? `${quasi.value.cooked ?? quasi.value.raw}…` : (quasi.value.cooked ?? quasi.value.raw))).join("");
    return { text, dynamic: it.expressions.length > 0 };
  }
  if (it.type === "BinaryExpression" && it.operator === "+") {
    const left = stringOf(it.left);
    const right = stringOf(it.right);
    if (!left && !right) return undefined;
    return { text: (left?.text ?? "…") + (right?.text ?? "…"), dynamic: left?.dynamic !== false || right?.dynamic !== false };
  }
  return undefined;
}

/** A member of an object literal. */
export function member(node: acorn.Node | undefined, name: string): acorn.Expression | undefined {
  const it = node as acorn.AnyNode | undefined;
  if (it?.type !== "ObjectExpression") return undefined;
  for (const property of it.properties) {
    if (property.type !== "Property" || property.computed) continue;
    const key = property.key.type === "Identifier" ? property.key.name : property.key.type === "Literal" ? String(property.key.value) : "";
    if (key === name) return property.value;
  }
  return undefined;
}

export function numberOf(node: acorn.Node | undefined): number | null {
  const it = node as acorn.AnyNode | undefined;
  return it?.type === "Literal" && typeof it.value === "number" ? it.value : null;
}
