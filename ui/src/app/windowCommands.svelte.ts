// The window's own commands: the eight places and the palette. Places add theirs while they are shown.
import { useCommands } from "./commands.svelte";
import { nav, PLACES } from "./nav.svelte";
import { status } from "./status.svelte";
import { t, tn } from "./texts/index.svelte";
import { platform } from "../platform";
import { NO_CHANGE } from "../shared/settings";

/** The panes of a place, in reading order; F6 walks them. */
function nextPane(): void {
  const panes = [...document.querySelectorAll<HTMLElement>("nav.Rail, [data-pane], footer.StatusBar")];
  // In a place but in none of its controls: the first of its panes comes next.
  const at = document.activeElement?.id === "place" ? 0 : panes.findIndex((pane) => pane.contains(document.activeElement));
  const pane = panes[(at + 1) % panes.length];
  pane?.querySelector<HTMLElement>(":is(a, button, input, select, textarea, [tabindex='0'], .cm-content):not([tabindex='-1'])")?.focus();
}

/** Where the system opens nothing, Settings shows the path to copy. */
async function openLogs(): Promise<void> {
  await platform.call("logs_open", {}).catch(() => nav.go("settings"));
}

/** Where it is refused the place that owns the setting says why. */
async function setPaused(paused: boolean): Promise<void> {
  await platform.call("settings_update", { change: { ...NO_CHANGE, paused } }).catch(() => nav.go("settings"));
}

export function windowCommands(doors: { openPalette: () => void }): void {
  useCommands([
    { id: "palette", title: () => t("palette.title"), icon: "search", keys: "mod+k", run: doors.openPalette },
    ...PLACES.map((place, index) => ({
      id: `place.${place}`,
      title: () => t("command.goTo", { place: t(`place.${place}`) }),
      icon: place,
      keys: `mod+${index + 1}`,
      run: () => nav.go(place, place === "editor" ? nav.lastGraph : null),
    })),
    {
      id: "approvals.review",
      title: () => t("command.reviewApprovals"),
      hint: () => tn("status.approvals", status.value?.approvals_waiting ?? 0),
      icon: "approvals",
      keys: "mod+shift+a",
      run: () => nav.go("approvals"),
    },
    { id: "relay.pause", title: () => t(status.value?.relay.at === "paused" ? "command.resumeRelay" : "command.pauseRelay"), icon: "clock", run: () => void setPaused(status.value?.relay.at !== "paused") },
    { id: "logs.open", title: () => t("command.openLogs"), icon: "folder", run: () => void openLogs() },
    { id: "app.quit", title: () => t("command.quit"), icon: "x", keys: "mod+q", run: () => void platform.call("app_quit", {}) },
    { id: "pane.next", title: () => t("command.nextPane"), icon: "right", keys: "f6", run: nextPane },
  ]);
}
