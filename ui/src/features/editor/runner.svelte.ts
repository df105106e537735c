// Starts this Graph from the Editor and follows what it does. The arguments are kept as JSON text, as the desktop takes them.
import type { ErrorView, GraphDetail } from "../../generated/types";
import { asErrorView, platform } from "../../platform";
import { hear } from "../../shared/events";
import { Following } from "../../shared/following.svelte";
import type { EditSession } from "./session.svelte";
import { startArgs } from "./args";

export class Runner {
  args: string = $state("{}");
  following: Following | undefined = $state.raw();
  starting = $state(false);
  fault: ErrorView | undefined = $state.raw();
  readonly #id: string;
  #deaf: () => void;

  constructor(
    detail: GraphDetail,
    private readonly session: EditSession,
  ) {
    this.#id = detail.row.id;
    this.args = localStorage.getItem(`args:${this.#id}`) ?? startArgs(detail.inspection.args_schema);
    this.#deaf = hear((event) => {
      if (event.event === "fleet" && event.execution_id === this.following?.executionId) this.following.take(event.events);
      if (event.event === "changed" && event.topic === "executions") void this.following?.load();
    });
    this.meet(detail);
  }

  get running(): boolean {
    const fleet = this.following?.fleet;
    const state = this.following?.detail?.row.state;
    if (!this.following || fleet?.ended) return false;
    return state === undefined || state === "running" || state === "claiming";
  }

  /** The latest execution of this Graph is shown, whoever started it; one started here stays. */
  meet(detail: GraphDetail): void {
    const last = detail.row.last_execution;
    if (last && (!this.following || (last.state === "running" && !this.running))) this.#follow(last.execution_id);
  }
  #follow(executionId: string): void {
    if (this.following?.executionId === executionId) return;
    this.following?.stop();
    this.following = new Following(executionId);
  }

  setArgs(text: string): void {
    this.args = text;
    localStorage.setItem(`args:${this.#id}`, text);
  }

  /** Saves first: what runs is always a version. */
  async run(dry: boolean): Promise<void> {
    if (this.starting) return;
    this.starting = true;
    this.fault = undefined;
    try {
      if (!(await this.session.save())) return;
      const args = this.args.trim() === "" ? "{}" : this.args;
      this.#follow(await platform.call(dry ? "run_graph_dry" : "run_graph_now", { id: this.#id, args }));
    } catch (thrown) {
      this.fault = asErrorView(thrown);
    } finally {
      this.starting = false;
    }
  }
  async cancel(): Promise<void> {
    if (!this.following || !this.running) return;
    try {
      await platform.call("fleet_cancel_run", { execution_id: this.following.executionId });
    } catch (thrown) {
      this.fault = asErrorView(thrown);
    }
  }
  release(): void {
    this.#deaf();
    this.following?.stop();
  }
}
