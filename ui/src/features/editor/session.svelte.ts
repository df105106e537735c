// One Graph being edited: the text on the screen, what of it is saved, and what the engine says about it.
import type { ErrorView, GraphDetail, Inspection } from "../../generated/types";
import { asErrorView, platform } from "../../platform";

const INSPECT_AFTER_MS = 250;
const key = (id: string) => `draft:${id}`;

interface Draft {
  /** The version the text was started from. */
  version: number;
  source: string;
  /** CodeMirror's own state: cursor and undo. */
  code: string | null;
}

export class EditSession {
  source: string = $state("");
  inspection: Inspection = $state.raw({ name: null, description: null, phases: [], args_schema: null, tools: [], models: [], faults: [] });
  saving = $state(false);
  fault: ErrorView | undefined = $state.raw();
  /** A newer version was saved elsewhere while this text was changed. */
  overtaken = $state(false);
  readonly kept: string | null;
  #detail: GraphDetail = $state.raw() as GraphDetail;
  #base = $state(0);
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(
    detail: GraphDetail,
    private readonly put: (detail: GraphDetail) => void,
  ) {
    this.#detail = detail;
    this.inspection = detail.inspection;
    const draft = readDraft(detail.row.id);
    // A draft of an older version counts only while it holds unsaved words.
    const usable = draft !== null && (draft.version === detail.row.version || draft.source !== detail.source);
    this.source = usable ? draft.source : detail.source;
    this.#base = usable ? draft.version : detail.row.version;
    this.kept = usable ? draft.code : null;
    this.overtaken = usable && draft.version < detail.row.version && this.dirty;
    if (this.dirty) this.#inspectSoon();
  }

  get dirty(): boolean {
    return this.source !== this.#detail.source;
  }
  get errors(): number {
    return this.inspection.faults.filter((fault) => fault.severity === "error").length;
  }

  /** The desktop tells of a new state of this Graph (saved here or elsewhere). True when the text on the screen should be replaced. */
  follow(detail: GraphDetail): boolean {
    if (detail === this.#detail) return false;
    const wasDirty = this.dirty;
    const newer = detail.row.version !== this.#detail.row.version;
    this.#detail = detail;
    if (!newer) return false;
    if (!wasDirty) {
      const replace = this.source !== detail.source;
      this.source = detail.source;
      this.#base = detail.row.version;
      this.inspection = detail.inspection;
      return replace;
    }
    this.overtaken = this.dirty;
    return false;
  }

  type(source: string, code: () => string): void {
    this.source = source;
    this.#inspectSoon();
    this.keep(code());
  }
  /** Keeps text and undo through a reload of the window. */
  keep(code: string | null): void {
    writeDraft(this.#detail.row.id, { version: this.#base, source: this.source, code });
  }

  #inspectSoon(): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => void this.#inspect(), INSPECT_AFTER_MS);
  }
  async #inspect(): Promise<void> {
    const source = this.source;
    try {
      const inspection = await platform.call("graph_inspect", { source });
      if (source === this.source) this.inspection = inspection;
    } catch (thrown) {
      this.fault = asErrorView(thrown);
    }
  }

  /** Each save is a version. True when the text is saved. */
  async save(): Promise<boolean> {
    if (!this.dirty) return true;
    if (this.saving) return false;
    this.saving = true;
    this.fault = undefined;
    try {
      const detail = await platform.call("graph_save", { id: this.#detail.row.id, source: this.source });
      this.#detail = detail;
      this.#base = detail.row.version;
      this.inspection = detail.inspection;
      this.overtaken = false;
      this.put(detail);
      return true;
    } catch (thrown) {
      this.fault = asErrorView(thrown);
      return false;
    } finally {
      this.saving = false;
    }
  }
  stop(): void {
    clearTimeout(this.#timer);
  }
}

function readDraft(id: string): Draft | null {
  try {
    const text = localStorage.getItem(key(id));
    return text === null ? null : (JSON.parse(text) as Draft);
  } catch {
    return null;
  }
}
function writeDraft(id: string, draft: Draft): void {
  try {
    localStorage.setItem(key(id), JSON.stringify(draft));
  } catch {
    // Full: undo will not survive a reload; the text still can.
    try {
      localStorage.setItem(key(id), JSON.stringify({ ...draft, code: null }));
    } catch {
      localStorage.removeItem(key(id));
    }
  }
}
