// How long the picture of a Graph of 500 lines takes, read and laid out: wanted under 50 ms, so that it can follow the typing.
import { bench } from "vitest";

import { layout } from "./layout";
import { readPicture } from "./read";

const agents = (count: number, label: string) =>
  Array.from({ length: count }, (_, i) => `const r${i} = await parallel(\n  args.items.map((item) => () =>\n    agent("Read " + item, { label: "${label} ${i}" })));\n`).join("\n");
const draw = (body: string) => {
  const reading = readPicture(`export const meta = { name: "Long" };\n${body}`);
  if (reading.ok) layout(reading.phases, new Set());
};

let letters = 0;
bench("the picture of 500 lines, a letter typed", () => draw(agents(120, `Read${"x".repeat(letters++ % 5)}`)));
let more = 0;
bench("the picture of 500 lines, an agent more or less", () => draw(agents(100 + (more++ % 70), "Read")));
