// The fake adapter: sample data for tests, for `npm run dev` and for the pictures. Its mood comes from the page's address:
// ?mood=empty|loading|error|offline|failing|full|long, ?theme=light|dark, ?language=de, ?question=command|diff|fetch|ask|typed|bare|none; for measuring:
// ?runs=10000 executions, ?stream=20 events a second into the running one.
import type { Theme } from "../../generated/types";
import { clock } from "../../shared/clock.svelte";
import { NOW } from "./data";
import { FakeDesk, type Mood, type QuestionName } from "./desk";
import { lengthen } from "./long";

export { FakeDesk } from "./desk";

export function fakeFromAddress(query: string): FakeDesk {
  const wanted = new URLSearchParams(query);
  const desk = new FakeDesk((wanted.get("mood") ?? "normal") as Mood, (wanted.get("question") ?? "command") as QuestionName);
  desk.settings = { ...desk.settings, theme: (wanted.get("theme") ?? "system") as Theme, language: wanted.get("language") ?? "en" };
  if (desk.mood === "long") lengthen(desk);
  clock.freeze(NOW);
  desk.crowd(Number(wanted.get("runs") ?? 0));
  desk.stream(Number(wanted.get("stream") ?? 0));
  return desk;
}
