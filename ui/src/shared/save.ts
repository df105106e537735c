// Hands a text to the owner as a file.
import type { ExportedFile } from "../generated/types";

export function saveFile(file: ExportedFile): void {
  const url = URL.createObjectURL(new Blob([file.text], { type: "text/plain" }));
  const link = document.createElement("a");
  link.href = url;
  link.download = file.file_name;
  link.click();
  // Revoked late: some web views read the address only after the click has returned.
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}
