import { expect, test } from "vitest";

import { moved } from "./grid";

test.each([
  ["ArrowDown", { row: 1, column: 1 }],
  ["ArrowUp", { row: 0, column: 1 }],
  ["ArrowRight", { row: 0, column: 2 }],
  ["End", { row: 0, column: 3 }],
  ["Home", { row: 0, column: 0 }],
  ["PageDown", { row: 4, column: 1 }],
])("%s moves the focus inside the matrix and stops at its edge", (key, to) => expect(moved({ row: 0, column: 1 }, key, 5, 4)).toEqual(to));
test("other keys are not moves", () => expect(moved({ row: 0, column: 0 }, " ", 5, 4)).toBeUndefined());
