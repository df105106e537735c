import { expect, test } from "vitest";

import { answeredText } from "./answers";
import { ago, clockTime, dayWord, inWords, money, prettyJson, shortCount, timeOfDay } from "./format";
import { asData } from "./sentence";

const NOW = new Date(2026, 10, 29, 14, 5, 53).getTime();

test.each([
  [0, "0:00"],
  [41_900, "0:41"],
  [725_000, "12:05"],
  [3_723_000, "1:02:03"],
  [-5, "0:00"],
])("%d ms on a clock is %s", (ms, text) => expect(clockTime(ms)).toBe(text));

test.each([
  [20, "0.02 s"],
  [400, "0.4 s"],
  [9_000, "9 s"],
  [9_900, "9.9 s"],
  [52_400, "52 s"],
  [522_000, "8 min 42 s"],
  [600_000, "10 min"],
  [7_500_000, "2 h 5 min"],
])("%d ms in a sentence is %s", (ms, text) => expect(inWords(ms)).toBe(text));

test.each([
  [950, "950"],
  [14_820, "14.8k"],
  [212_480, "212k"],
  [2_400_000, "2.4M"],
])("%d on a node is %s", (n, text) => expect(shortCount(n)).toBe(text));

test("days are told as a person would", () => {
  expect(dayWord(NOW - 3_600_000, NOW)).toBe("today");
  expect(dayWord(NOW - 20 * 3_600_000, NOW)).toBe("yesterday");
  expect(dayWord(NOW - 2 * 86_400_000, NOW)).toBe("Friday");
  expect(dayWord(NOW - 26 * 86_400_000, NOW)).toBe("3 Nov");
  expect(timeOfDay(NOW, true)).toBe("14:05:53");
});
test("what was just now is not told in seconds, what is hours ago is told by the clock", () => {
  expect(ago(NOW - 200, NOW)).toBe("just now");
  expect(ago(NOW - 4_200, NOW)).toBe("4 s ago");
  expect(ago(NOW - 185_000, NOW)).toBe("3 min ago");
  expect(ago(NOW - 7_200_000, NOW)).toBe("today 12:05");
});
test("small costs keep figures that mean something", () => {
  expect(money(0.41)).toBe("$0.41");
  expect(money(0.0042)).toBe("$0.0042");
});
test("JSON is indented without touching a single value", () => {
  expect(prettyJson('{"z":1e+21,"a":-0,"n":9223372036854775809,"t":"a{\\"b\\",[1]}","e":[],"o":{}}')).toBe(
    '{\n  "z": 1e+21,\n  "a": -0,\n  "n": 9223372036854775809,\n  "t": "a{\\"b\\",[1]}",\n  "e": [],\n  "o": {}\n}',
  );
});
test.each([
  ["once", "owner", "allowed once by you after 1 min 12 s"],
  ["unanswered", "clock", "no answer within 1 min 12 s, so denied"],
  ["deny", "no window", "denied: no window was there to ask you in"],
  ["once", "rule 3: allow run_command everywhere", "decided by rule 3: allow run_command everywhere, after 1 min 12 s"],
])("the answer %s of %s is a sentence", (answer, by, sentence) => expect(answeredText(answer, asData(by), 72_000)).toBe(sentence));
