// The one seam between the window and what carries it (desktop shell, browser reader, fake).
// The window asks by command and hears by event; it holds no truth of its own.
import type { Commands, DeskEvent, ErrorView, PopupCommands } from "../generated/types";

export type CommandName = keyof Commands;
export type PopupName = keyof PopupCommands;

export interface Platform {
  /** `desktop` can do everything; `reader` only reads; `fake` is sample data for tests and pictures. */
  readonly kind: "desktop" | "reader" | "fake";
  /** Rejects with `ErrorView`, always. */
  call<N extends CommandName>(name: N, args: Commands[N]["args"]): Promise<Commands[N]["answer"]>;
  popup<N extends PopupName>(name: N, args: PopupCommands[N]["args"]): Promise<PopupCommands[N]["answer"]>;
  /** Returns the way to stop listening. */
  listen(hear: (event: DeskEvent) => void): () => void;
}

/** Whatever was thrown, as the error the window can show. */
export function asErrorView(thrown: unknown): ErrorView {
  if (typeof thrown === "object" && thrown !== null && "code" in thrown && "message" in thrown) {
    const seen = thrown as Partial<ErrorView>;
    return {
      code: String(seen.code),
      message: String(seen.message),
      facts: seen.facts ?? {},
      field: seen.field ?? null,
      line: seen.line ?? null,
      column: seen.column ?? null,
    };
  }
  const message = thrown instanceof Error ? thrown.message : String(thrown);
  return { code: "unexpected", message, facts: {}, field: null, line: null, column: null };
}
