// Reads a Graph's code with a real parser and follows what it would do, without running it. Never wrong in silence: every call of
// an agent, a tool, a Graph or a question becomes a leaf, and what cannot be told from the code is a leaf that says so.
import * as acorn from "acorn";

import { apiCall, isApi, type ApiName } from "./api";
import { short } from "./labels";
import type { Group, Item, Lane, Leaf, Phase, Reading } from "./model";
import { OTHER, Scope, type FunctionNode, type Value } from "./scope";
import { missedCalls } from "./sites";
import { expression, statement } from "./statements";

const LEAVES_MAX = 600; // a function used everywhere, written out at each use, could grow without end
const DEPTH_MAX = 24;

export function readPicture(source: string): Reading {
  let program: acorn.Program;
  try {
    program = acorn.parse(source, { ecmaVersion: "latest", sourceType: "module", allowReturnOutsideFunction: true, allowAwaitOutsideFunction: true, locations: true });
  } catch (thrown) {
    const at = thrown as { message: string; loc?: { line: number; column: number } };
    return { ok: false, message: at.message.replace(/ \(\d+:\d+\)$/, ""), line: at.loc?.line ?? 1, column: (at.loc?.column ?? 0) + 1 };
  }
  const reader = new Reader(source);
  reader.program(program);
  return { ok: true, phases: reader.phases.filter((phase) => phase.title !== null || phase.items.length > 0), leaves: reader.leaves, cut: reader.cut };
}

export class Reader {
  readonly phases: Phase[] = [{ title: null, line: 1, items: [] }];
  leaves = 0;
  cut = false;
  /** Where a function that is being followed puts what it returns. */
  returned: Value = OTHER;
  /** Inside something that may run more than once: arrays filled here hold any number. */
  loops = 0;
  #items: Item[];
  #nested = 0;
  readonly #covered = new Set<number>();
  readonly #following: FunctionNode[] = [];

  constructor(readonly source: string) {
    this.#items = (this.phases[0] as Phase).items;
  }

  program(program: acorn.Program): void {
    const scope = new Scope();
    this.block(program.body as acorn.Statement[], scope);
    const missed = missedCalls(program, this.#covered, (node) => this.text(node));
    if (missed.length > 0) {
      const first = missed[0] as Leaf;
      this.add({ type: "group", kind: "runtime", label: "", line: first.line, count: null, many: false, lanes: [{ label: "", items: missed }] });
      this.leaves += missed.length;
    }
  }
  text(node: acorn.Node): string {
    return short(this.source.slice(node.start, node.end));
  }
  add(item: Item): void {
    if (item.type === "leaf") {
      if (this.leaves >= LEAVES_MAX) {
        this.cut = true;
        return;
      }
      this.leaves++;
    }
    this.#items.push(item);
  }
  leaf(node: acorn.Node, facts: Pick<Leaf, "kind" | "label" | "dynamic" | "detail">): void {
    const { loc } = node;
    this.#covered.add(node.start);
    this.add({ type: "leaf", ...facts, line: loc?.start.line ?? 1, end: loc?.end.line ?? 1 });
  }
  runtime(node: acorn.Node, detail: string): void {
    this.leaf(node, { kind: "runtime", label: this.text(node), dynamic: true, detail });
  }
  phase(title: string, line: number): void {
    // Inside a group a phase only names the time; the picture's rows follow the script's own order.
    if (this.#nested > 0) return;
    const next: Phase = { title, line, items: [] };
    this.phases.push(next);
    this.#items = next.items;
  }
  /** What `work` would do, gathered instead of drawn. */
  into(work: () => void): Item[] {
    const kept = this.#items;
    const gathered: Item[] = [];
    this.#items = gathered;
    this.#nested++;
    work();
    this.#nested--;
    this.#items = kept;
    return gathered;
  }
  lane(label: string, work: () => void): Lane {
    return { label, items: this.into(work) };
  }
  /** Draws a group, unless nothing of interest is in it. */
  group(group: Omit<Group, "type">): void {
    const lanes = group.lanes.filter((lane) => lane.items.length > 0);
    if (lanes.length > 0) this.add({ type: "group", ...group, lanes });
  }
  block(statements: readonly acorn.Statement[], scope: Scope): void {
    for (const each of statements) if (each.type === "FunctionDeclaration") scope.bind(each.id.name, { t: "function", node: each, scope });
    for (const each of statements) statement(this, each, scope);
  }
  api(node: acorn.Node, scope: Scope): ApiName | undefined {
    const it = node as acorn.AnyNode;
    return it.type === "Identifier" && isApi(it.name) && scope.find(it.name) === undefined ? it.name : undefined;
  }
  callApi(name: ApiName, node: acorn.CallExpression, scope: Scope): Value {
    return apiCall(this, name, node, scope);
  }

  /** Follows a function into its body, with its parameters bound to what is known of the arguments. */
  follow(callee: Value, args: readonly Value[], at: acorn.Node): Value {
    if (callee.t !== "function") return OTHER;
    if (this.#following.includes(callee.node)) {
      this.runtime(at, "recursion");
      return OTHER;
    }
    if (this.#following.length >= DEPTH_MAX) {
      this.runtime(at, "depth");
      return OTHER;
    }
    const scope = new Scope(callee.scope);
    callee.node.params.forEach((param, i) => {
      if (param.type === "Identifier") scope.bind(param.name, args[i] ?? OTHER);
      else scope.bindPattern(param);
    });
    this.#following.push(callee.node);
    const outer = this.returned;
    this.returned = OTHER;
    const body = callee.node.body;
    if (body.type === "BlockStatement") this.block(body.body, scope);
    else this.returned = expression(this, body, scope);
    const result = this.returned;
    this.returned = outer;
    this.#following.pop();
    return result;
  }
}
