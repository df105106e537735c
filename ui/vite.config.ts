/// The window's build: two entries (main window, approval popup), no inline scripts, so that the strict CSP of the shell holds.
/// `--mode fake` builds the same pages over the fake platform, for screenshots and for looking at them in a browser.
import { fileURLToPath } from "node:url";
import { svelte } from "@sveltejs/vite-plugin-svelte";
import { svelteTesting } from "@testing-library/svelte/vite";
import { defineConfig } from "vitest/config";

const at = (path: string) => fileURLToPath(new URL(path, import.meta.url));

export default defineConfig(({ mode }) => ({
  plugins: [svelte(), svelteTesting()],
  base: "./",
  clearScreen: false,
  server: { port: 1420, strictPort: true },
  build: {
    outDir: mode === "fake" ? at("../target/screens-dist") : "dist",
    emptyOutDir: true,
    target: ["es2023", "safari17"],
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    rollupOptions: { input: { index: at("index.html"), approval: at("approval.html") } },
  },
  test: { testTimeout: 30_000, environment: "jsdom", globals: false, include: ["src/**/*.test.ts"], setupFiles: ["src/testing/setup.ts"], restoreMocks: true },
}));
