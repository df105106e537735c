// Renders a component over a fake desktop.
import { render } from "@testing-library/svelte";
import type { Component } from "svelte";

import { clock } from "../shared/clock.svelte";
import { NOW } from "../platform/fake/data";
import { FakeDesk, type Mood, type QuestionName } from "../platform/fake/desk";
import { usePlatform } from "../platform";

export function fakeDesk(mood: Mood = "normal", question: QuestionName = "command"): FakeDesk {
  const desk = new FakeDesk(mood, question);
  usePlatform(desk);
  clock.freeze(NOW);
  return desk;
}

export function show<P extends Record<string, unknown>>(component: Component<P>, props: P) {
  return render(component as unknown as Component, { props });
}
