// Formats a Graph's code. Loaded when an owner first asks for it.
import * as babel from "prettier/plugins/babel";
import * as estree from "prettier/plugins/estree";
import { formatWithCursor } from "prettier/standalone";

const WIDTH = 110;

export type Formatted = { ok: true; text: string; cursor: number } | { ok: false; message: string; line: number | null };

/** The same program in the house's shape, and where the cursor stands in it. Code that cannot be read stays as it is. */
export async function formatCode(source: string, cursor: number): Promise<Formatted> {
  try {
    // A Graph returns and awaits at its top level, which this parser allows.
    const made = await formatWithCursor(source, { parser: "babel", plugins: [babel, estree], printWidth: WIDTH, cursorOffset: cursor });
    return { ok: true, text: made.formatted, cursor: made.cursorOffset };
  } catch (thrown) {
    const { message, loc } = thrown as { message: string; loc?: { start?: { line: number } } };
    return { ok: false, message: message.split("\n")[0]?.replace(/ \(\d+:\d+\)$/, "") ?? message, line: loc?.start?.line ?? null };
  }
}
