// Theme and language: the owner's settings, applied to the page. The system decides unless the owner pinned something.
import type { SettingsView } from "../generated/types";
import { platform } from "../platform";
import { hear } from "../shared/events";
import { useLanguage } from "./texts/index.svelte";

export async function applyLook(settings: Pick<SettingsView, "theme" | "language">): Promise<void> {
  const root = document.documentElement;
  if (settings.theme === "system") delete root.dataset["theme"];
  else root.dataset["theme"] = settings.theme;
  await useLanguage(settings.language);
}

/** Applies the settings now and after every change. Without an answer the system's look stays. */
export async function followSettings(): Promise<void> {
  const follow = async () => {
    try {
      await applyLook(await platform.call("settings_get", {}));
    } catch {
      // The Settings place shows the error; the look is no reason for one.
    }
  };
  hear((event) => {
    if (event.event === "changed" && event.topic === "settings") void follow();
  });
  await follow();
}
