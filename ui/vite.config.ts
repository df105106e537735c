/// The window's build: two entries (main window, approval popup), no inline scripts, so that the strict CSP of the shell holds.
/// `--mode fake` builds the same pages over the fake platform, for screenshots and for looking at them in a browser.
/// `--mode reader` builds the owner's page in the browser, into the crate of the server that serves it under /owner.
import { fileURLToPath } from "node:url";
import { svelte } from "@sveltejs/vite-plugin-svelte";
import { svelteTesting } from "@testing-library/svelte/vite";
import { defineConfig } from "vitest/config";

const at = (path: string) => fileURLToPath(new URL(path, import.meta.url));

export default defineConfig(({ mode }) => ({
  plugins: [svelte(), svelteTesting()],
  base: mode === "reader" ? "/owner/" : "./",
  clearScreen: false,
  server: { port: 1420, strictPort: true },
  build: {
    outDir: mode === "fake" ? at("../target/screens-dist") : mode === "reader" ? at("../server/reader/dist") : "dist",
    emptyOutDir: true,
    target: ["es2023", "safari17"],
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    rollupOptions: { input: (mode === "reader" ? ["reader"] : ["index", "approval"]).map((page) => at(`${page}.html`)) },
  },
  test: { testTimeout: 30_000, environment: "jsdom", globals: false, include: ["src/**/*.test.ts"], setupFiles: ["src/testing/setup.ts"], restoreMocks: true },
}));
