// How long the picture of a Graph of 500 lines takes, read and laid out: wanted under 50 ms, so that it can follow the typing.
import { bench } from "vitest";

import { layout } from "./layout";
import { readPicture } from "./read";

const body = Array.from({ length: 120 }, (_, i) => `const r${i} = await parallel(\n  args.items.map((item) => () =>\n    agent("Read " + item, { label: "Read ${i}" })));\n`).join("\n");
const source = `export const meta = { name: "Long" };\n${body}`;

bench("the picture of 500 lines", () => {
  const reading = readPicture(source);
  if (reading.ok) layout(reading.phases, new Set());
});
