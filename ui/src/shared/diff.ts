// Line differences: of two texts, or read from a unified diff. One form for the eye, whatever it came from.
export interface DiffLine {
  kind: "same" | "add" | "del" | "gap";
  /** Line number on its side: the old one for removed lines, the new one for others; null where there is none. */
  number: number | null;
  text: string;
}

const CELLS_MAX = 4_000_000; // beyond this the exact answer costs too much; then the changed middle is shown as one replacement

/** The shortest way from one text to another, line by line, with `context` unchanged lines around each change. */
export function diffLines(from: string, to: string, context = 3): DiffLine[] {
  const a = from.split("\n");
  const b = to.split("\n");
  let head = 0;
  while (head < a.length && head < b.length && a[head] === b[head]) head++;
  let tail = 0;
  while (tail < a.length - head && tail < b.length - head && a[a.length - 1 - tail] === b[b.length - 1 - tail]) tail++;
  const lines: DiffLine[] = a.slice(0, head).map((text, i) => ({ kind: "same", number: i + 1, text }));
  lines.push(...middle(a.slice(head, a.length - tail), b.slice(head, b.length - tail), head));
  for (let i = tail; i > 0; i--) lines.push({ kind: "same", number: b.length - i + 1, text: b[b.length - i] ?? "" });
  return trim(lines, context);
}

function middle(a: readonly string[], b: readonly string[], offset: number): DiffLine[] {
  const del = (i: number): DiffLine => ({ kind: "del", number: offset + i + 1, text: a[i] ?? "" });
  const add = (j: number): DiffLine => ({ kind: "add", number: offset + j + 1, text: b[j] ?? "" });
  if (a.length * b.length > CELLS_MAX) return [...a.map((_, i) => del(i)), ...b.map((_, j) => add(j))];
  // Longest common subsequence from the end, then walked from the start.
  const width = b.length + 1;
  const longest = new Uint32Array((a.length + 1) * width);
  for (let i = a.length - 1; i >= 0; i--) {
    for (let j = b.length - 1; j >= 0; j--) {
      const same = a[i] === b[j] ? (longest[(i + 1) * width + j + 1] ?? 0) + 1 : 0;
      longest[i * width + j] = Math.max(same, longest[(i + 1) * width + j] ?? 0, longest[i * width + j + 1] ?? 0);
    }
  }
  const out: DiffLine[] = [];
  let i = 0;
  let j = 0;
  while (i < a.length || j < b.length) {
    if (i < a.length && j < b.length && a[i] === b[j]) {
      out.push({ kind: "same", number: offset + j + 1, text: b[j] ?? "" });
      i++;
      j++;
    } else if (j >= b.length || (i < a.length && (longest[(i + 1) * width + j] ?? 0) >= (longest[i * width + j + 1] ?? 0))) out.push(del(i++));
    else out.push(add(j++));
  }
  return out;
}

function trim(lines: readonly DiffLine[], context: number): DiffLine[] {
  const keep = new Set<number>();
  lines.forEach((line, at) => {
    if (line.kind === "same") return;
    for (let near = at - context; near <= at + context; near++) keep.add(near);
  });
  const out: DiffLine[] = [];
  lines.forEach((line, at) => {
    if (keep.has(at)) out.push(line);
    else if (out.at(-1)?.kind !== "gap" && keep.size > 0) out.push({ kind: "gap", number: null, text: "" });
  });
  return out;
}

/** A unified diff as lines. File headers are left out; everything else is shown, also what is not understood. */
export function readUnified(text: string): DiffLine[] {
  const out: DiffLine[] = [];
  let [oldAt, newAt] = [1, 1];
  let inHunk = false;
  const raws = text.replace(/\n$/, "").split("\n");
  for (const raw of raws) {
    const hunk = /^@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@/.exec(raw);
    if (hunk) {
      if (inHunk) out.push({ kind: "gap", number: null, text: "" });
      [oldAt, newAt, inHunk] = [Number(hunk[1]), Number(hunk[2]), true];
    } else if (!inHunk && /^(--- |\+\+\+ |diff |index )/.test(raw)) continue;
    else if (raw.startsWith("+")) out.push({ kind: "add", number: newAt++, text: raw.slice(1) });
    else if (raw.startsWith("-")) out.push({ kind: "del", number: oldAt++, text: raw.slice(1) });
    else if (raw.startsWith("\\")) out.push({ kind: "gap", number: null, text: raw.slice(2) });
    else {
      out.push({ kind: "same", number: newAt++, text: raw.startsWith(" ") ? raw.slice(1) : raw });
      oldAt++;
    }
  }
  return out;
}

export function changeCounts(lines: readonly DiffLine[]): { added: number; removed: number } {
  return { added: lines.filter((line) => line.kind === "add").length, removed: lines.filter((line) => line.kind === "del").length };
}
