import { cleanup, fireEvent, screen } from "@testing-library/svelte";
import { tick } from "svelte";
import { afterEach, beforeEach, expect, test, vi } from "vitest";

import { testid } from "../../app/testids";
import type { QuestionName } from "../../platform/fake/desk";
import { fakeDesk, show } from "../../testing/render";
import { commandWords } from "./words";
import Popup from "./Popup.svelte";

beforeEach(() => void vi.useFakeTimers({ shouldAdvanceTime: false }));
afterEach(() => {
  cleanup();
  vi.useRealTimers();
});

async function open(question: QuestionName = "command") {
  const desk = fakeDesk("normal", question);
  show(Popup, {});
  await vi.advanceTimersByTimeAsync(0);
  return { desk, answers: () => desk.calls.filter((call) => call.name === "popup_answer").map((call) => (call.args as { answer: object }).answer) };
}
const press = async (id: string) => {
  const button = screen.getByTestId(id);
  await fireEvent.pointerDown(button);
  await fireEvent.click(button, { detail: 1 });
  await tick();
};
const unlock = () => vi.advanceTimersByTimeAsync(600);

test("no answer counts in the first half second, the same click counts after it", async () => {
  const { answers } = await open();
  for (const id of [testid.popupDeny, testid.popupOnce, testid.popupRun, testid.popupAlways]) await press(id);
  expect(answers()).toEqual([]);
  await unlock();
  await press(testid.popupOnce);
  expect(answers()).toEqual([{ answer: "once" }]);
});
test("a press that began while the card was locked does not count when it ends", async () => {
  const { answers } = await open();
  await fireEvent.pointerDown(screen.getByTestId(testid.popupOnce));
  await unlock();
  await fireEvent.click(screen.getByTestId(testid.popupOnce), { detail: 1 });
  expect(answers()).toEqual([]);
});
test("the focus is on the card, and typed-ahead keys answer nothing", async () => {
  const { answers } = await open();
  const card = screen.getByTestId(testid.question);
  expect(document.activeElement).toBe(card);
  await unlock();
  for (let i = 0; i < 100; i++) {
    for (const key of ["Enter", " ", "y", "a", "Escape"]) {
      await fireEvent.keyDown(document.activeElement ?? card, { key });
      await fireEvent.keyUp(document.activeElement ?? card, { key });
    }
  }
  expect(answers()).toEqual([]);
});
test("each button gives its answer, and none of them is emphasised", async () => {
  for (const [id, answer] of [
    [testid.popupDeny, { answer: "deny", note: null }],
    [testid.popupOnce, { answer: "once" }],
    [testid.popupRun, { answer: "this_run" }],
    [testid.popupAlways, { answer: "always", scope: "graph" }],
  ] as const) {
    const { answers } = await open();
    await unlock();
    expect(screen.getByTestId(id).className).not.toContain("ink");
    await press(id);
    expect(answers()).toEqual([answer]);
    cleanup();
  }
});
test("a rule that would hold everywhere is asked once more, and locked again", async () => {
  const { answers } = await open("fetch");
  await unlock();
  await press(testid.popupAlways);
  await press(testid.popupAlwaysSure);
  expect(answers()).toEqual([]);
  await unlock();
  await press(testid.popupAlwaysSure);
  expect(answers()).toEqual([{ answer: "always", scope: "everywhere" }]);
});
test("a deny can carry a note for the agent", async () => {
  const { answers } = await open();
  await unlock();
  await fireEvent.click(screen.getByRole("button", { name: "Deny with a note to the agent" }));
  await fireEvent.input(screen.getByTestId(testid.popupNote), { target: { value: "use the test folder" } });
  await press(testid.popupDeny);
  expect(answers()).toEqual([{ answer: "deny", note: "use the test folder" }]);
});
test("a question of the script offers its own answers and no rule", async () => {
  const { answers } = await open("ask");
  await unlock();
  expect(screen.queryByTestId(testid.popupAlways)).toBeNull();
  await press("popup-option-1");
  expect(answers()).toEqual([{ answer: "option", index: 1 }]);
});
test("all words of a command are there, and the JSON is one click away, uncut", async () => {
  const { desk } = await open();
  expect(document.querySelectorAll(".w")).toHaveLength(15);
  await fireEvent.click(screen.getByRole("button", { name: "As JSON" }));
  expect(document.querySelector("pre")?.textContent).toBe(desk.question?.arguments);
});
test("a command line is cut at words, not inside quotes", () => {
  expect(commandWords(`git commit -m "two words" --author='A B' x\\ y`)).toEqual(["git", "commit", "-m", '"two words"', "--author='A B'", "x\\", "y"]);
});
test("a change is shown whole, with what was taken away and what came", async () => {
  await open("diff");
  expect(document.body.textContent).toContain("+4");
  expect(document.body.textContent).toContain("−3");
  expect(document.querySelectorAll(".l.add")).toHaveLength(4);
});
test("an unsandboxed command says so", async () => {
  await open("bare");
  expect(document.body.textContent).toContain("Not sandboxed.");
});
test("a question answered elsewhere leaves nothing to press", async () => {
  const { desk } = await open();
  desk.question = null;
  await vi.advanceTimersByTimeAsync(1100);
  expect(screen.queryByTestId(testid.popupOnce)).toBeNull();
  expect(document.body.textContent).toContain("Nothing to answer");
});
