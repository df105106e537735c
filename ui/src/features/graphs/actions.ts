// What can be done to a Graph from the list. Archive and delete act at once and can be undone: no question before, undo after.
import { saveFile } from "../../shared/save";
import { toaster } from "../../app/toast.svelte";
import { t } from "../../app/texts/index.svelte";
import type { ErrorView, GraphRow, GraphStatus } from "../../generated/types";
import { asErrorView, platform } from "../../platform";
import type { Item } from "../../shared/Menu.svelte";

interface Doors {
  failed: (error: ErrorView) => void;
  open: (id: string) => void;
}

export function cardActions(row: GraphRow, doors: Doors): Item[] {
  const { id, name } = row;
  const guard = (work: () => Promise<void>) => () => void work().catch((thrown: unknown) => doors.failed(asErrorView(thrown)));
  const setStatus = (status: GraphStatus) => platform.call("graph_update", { id, change: { name: null, slug: null, description: null, status } });
  const undoable = (text: string, back: () => Promise<unknown>) => toaster.show(text, () => void back().catch((thrown: unknown) => doors.failed(asErrorView(thrown))));
  const items: Item[] = [
    {
      text: t("graphs.duplicate"),
      icon: "copy",
      run: guard(async () => doors.open((await platform.call("graph_duplicate", { id })).row.id)),
    },
    {
      text: t("graphs.export"),
      icon: "file",
      run: guard(async () => saveFile(await platform.call("graph_export", { id }))),
    },
  ];
  if (row.status === "draft") {
    items.unshift({ text: t("graphs.setReady"), icon: "check", run: guard(async () => void (await setStatus("ready"))) });
  }
  if (row.status === "archived") {
    items.push({ text: t("graphs.unarchive"), icon: "refresh", run: guard(async () => void (await setStatus("draft"))) });
  } else {
    items.push({
      text: t("graphs.archive"),
      icon: "minus",
      run: guard(async () => {
        await setStatus("archived");
        undoable(t("graphs.archived", { name }), () => setStatus(row.status));
      }),
    });
  }
  items.push({
    text: t("graphs.delete"),
    icon: "x",
    danger: true,
    run: guard(async () => {
      await platform.call("graph_delete", { id });
      undoable(t("graphs.deleted", { name }), () => platform.call("graph_undelete", { id }));
    }),
  });
  return items;
}
