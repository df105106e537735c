import { expect, test } from "vitest";

import { timesBetween, timesOf } from "./times";

const at = (day: number, hour = 0, month = 10) => new Date(2026, month, day, hour).getTime();
const NOW = at(29, 14);

test.each([
  ["today", at(29), null],
  ["yesterday", at(28), at(29)],
  ["week", at(23), null],
  ["month", at(31, 0, 9), null],
  [null, null, null],
] as const)("%s begins at midnight of its first day", (span, since, until) => expect(timesOf(span, NOW)).toEqual({ since, until }));

test("days are whole ones, the last included, and one that is missing leaves its side open", () => {
  expect(timesBetween("2026-11-02", "2026-11-02")).toEqual({ since: at(2), until: at(3) });
  expect(timesBetween("", "2026-11-30")).toEqual({ since: null, until: at(1, 0, 11) });
  expect(timesBetween("2026-11-02", "")).toEqual({ since: at(2), until: null });
});
