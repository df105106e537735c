// Streamed text has no number: it is known by its place in its agent's text. And what shows that events were missed.
import type { FleetEvent } from "../generated/types";
import type { FleetState } from "./fleet";

const TEXT_KEPT = 200_000; // characters of an agent's text held in the window; the whole stands in the history

type TextEvent = Extract<FleetEvent, { kind: "agent_text" }>;

/** Only what is new of a piece; a piece behind a gap waits for the story to be asked again. */
export function hearText(fleet: FleetState, event: TextEvent): boolean {
  const agent = fleet.agents.get(event.agent);
  if (!agent || event.from > agent.heard) return false;
  const text = event.text.slice(agent.heard - event.from);
  if (text === "") return false;
  agent.heard += text.length;
  const last = agent.said.at(-1);
  if (last?.kind !== "text") agent.said.push({ kind: "text", text });
  else if (last.text.length < TEXT_KEPT) last.text += text;
  return true;
}

/** Something is missing between what is known and what came: the caller asks for it. */
export function hasGap(fleet: FleetState, events: readonly FleetEvent[]): boolean {
  const first = events.find((event) => event.seq > fleet.seq);
  if (first !== undefined && first.seq !== fleet.seq + 1) return true;
  // A piece of an agent that begins in these very events has no gap before it.
  return events.some((event) => event.kind === "agent_text" && event.from > (fleet.agents.get(event.agent)?.heard ?? Infinity) && !isSaidBefore(events, event));
}

function isSaidBefore(events: readonly FleetEvent[], piece: TextEvent): boolean {
  return events.some((event) => event.kind === "agent_text" && event.agent === piece.agent && event.from + event.text.length >= piece.from && event.from < piece.from);
}
