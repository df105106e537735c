// Moving through the tick matrix by keys: one cell has the focus, the arrows hand it on.
export interface Cell {
  row: number;
  column: number;
}

/** The cell a key leads to, or undefined when the key is not a move. Edges stop; they do not wrap. */
export function moved(cell: Cell, key: string, rows: number, columns: number): Cell | undefined {
  const clamp = (n: number, max: number) => Math.max(0, Math.min(n, max - 1));
  switch (key) {
    case "ArrowUp":
      return { ...cell, row: clamp(cell.row - 1, rows) };
    case "ArrowDown":
      return { ...cell, row: clamp(cell.row + 1, rows) };
    case "ArrowLeft":
      return { ...cell, column: clamp(cell.column - 1, columns) };
    case "ArrowRight":
      return { ...cell, column: clamp(cell.column + 1, columns) };
    case "Home":
      return { ...cell, column: 0 };
    case "End":
      return { ...cell, column: columns - 1 };
    case "PageDown":
      return { ...cell, row: clamp(cell.row + 10, rows) };
    case "PageUp":
      return { ...cell, row: clamp(cell.row - 10, rows) };
    default:
      return undefined;
  }
}
