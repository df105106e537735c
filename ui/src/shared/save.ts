// Hands a text to the owner as a file: the desktop asks where, a browser downloads it.
import { toaster } from "../app/toast.svelte";
import { t } from "../app/texts/index.svelte";
import type { ExportedFile } from "../generated/types";
import { platform } from "../platform";

export async function saveFile(file: ExportedFile): Promise<void> {
  if (platform.kind === "reader") return download(file);
  const path = await platform.call("file_save", { file });
  if (path !== null) toaster.show(t("save.saved", { path }));
}

function download(file: ExportedFile): void {
  const url = URL.createObjectURL(new Blob([file.text], { type: "text/plain" }));
  const link = document.createElement("a");
  link.href = url;
  link.download = file.file_name;
  link.click();
  // Revoked late: some web views read the address only after the click has returned.
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}
