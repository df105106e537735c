// Names of a script: which are the Graph API, which are the script's own, and what is known of those.
import type * as acorn from "acorn";

export type FunctionNode = acorn.ArrowFunctionExpression | acorn.FunctionExpression | acorn.FunctionDeclaration | acorn.AnonymousFunctionDeclaration;
export type Value =
  | { t: "function"; node: FunctionNode; scope: Scope }
  /** `each`: the elements stand for any number of their kind. */
  | { t: "array"; elements: Value[]; each: boolean; over: string }
  | { t: "other" };

export const OTHER: Value = { t: "other" };

export class Scope {
  readonly #names = new Map<string, Value>();

  constructor(private readonly outer?: Scope) {}

  bind(name: string, value: Value): void {
    this.#names.set(name, value);
  }
  /** Undefined when the script does not declare it. */
  find(name: string): Value | undefined {
    return this.#names.get(name) ?? this.outer?.find(name);
  }
  /** A name that is set again could be either; nothing is known of it any more. */
  forget(name: string): void {
    if (this.#names.has(name)) this.#names.set(name, OTHER);
    else this.outer?.forget(name);
  }
  /** Binds every name of a pattern to nothing known. */
  bindPattern(pattern: acorn.Pattern): void {
    switch (pattern.type) {
      case "Identifier":
        this.bind(pattern.name, OTHER);
        return;
      case "ObjectPattern":
        for (const property of pattern.properties) this.bindPattern(property.type === "RestElement" ? property.argument : property.value);
        return;
      case "ArrayPattern":
        for (const element of pattern.elements) if (element) this.bindPattern(element);
        return;
      case "RestElement":
        this.bindPattern(pattern.argument);
        return;
      case "AssignmentPattern":
        this.bindPattern(pattern.left);
        return;
      case "MemberExpression":
        return;
    }
  }
}
