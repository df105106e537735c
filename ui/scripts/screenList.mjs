// The screens worth a picture: each place in its states, the popup, and the narrow window.
const POPUP = { width: 480, height: 560 };
const NARROW = { width: 900, height: 600 };
const REVIEW = "gs_0001e1a27c5b4f0d9e3861f2a7c0d490c2".slice(0, 35);

export const SCREENS = [
  { name: "graphs", hash: "#/graphs" },
  { name: "graphs-empty", hash: "#/graphs", query: "mood=empty" },
  { name: "graphs-loading", hash: "#/graphs", query: "mood=loading" },
  { name: "graphs-error", hash: "#/graphs", query: "mood=error" },
  { name: "graphs-new", hash: "#/graphs", act: (page) => page.getByTestId("new-graph").click() },
  { name: "graphs-900x600", hash: "#/graphs", size: NARROW, themes: ["light"] },
  { name: "palette", hash: "#/graphs", act: async (page) => { await page.keyboard.press("Control+k"); await page.getByTestId("palette-input").fill("rev"); } },
  { name: "editor", hash: `#/editor/${REVIEW}`, wait: 900 },
  { name: "editor-900x600", hash: `#/editor/${REVIEW}`, size: NARROW, wait: 900, themes: ["light"] },
  { name: "popup-command", page: "approval.html", size: POPUP, query: "question=command", wait: 700 },
  { name: "popup-diff", page: "approval.html", size: POPUP, query: "question=diff", wait: 700 },
  { name: "popup-fetch", page: "approval.html", size: POPUP, query: "question=fetch", wait: 700 },
  { name: "popup-ask", page: "approval.html", size: POPUP, query: "question=ask", wait: 700 },
  { name: "popup-bare", page: "approval.html", size: POPUP, query: "question=bare", wait: 700, themes: ["dark"] },
  { name: "popup-gone", page: "approval.html", size: POPUP, query: "question=none", themes: ["light"] },
];
