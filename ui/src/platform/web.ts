// The browser's adapter: reads from the Graph Queue that served the page. Nothing here runs or changes anything but the sign-in; what the
// desktop does needs the desktop. What is asked often comes again by itself while the page is looked at.
import type { OwnerCommand, OwnerCommandDetail, OwnerGraph, OwnerGraphText, OwnerHome, OwnerSession, Page } from "../generated/owner";
import type { ErrorView, Topic } from "../generated/types";
import { asErrorView, type Platform } from "./port";

const AGAIN_MS = 5_000;
const PAGE = 50;
const TOPICS: readonly Topic[] = ["executions", "graphs", "sharing"];

export interface CommandFilter {
  project_id: string | null;
  status: OwnerCommand["status"] | null;
}

let signedOut: () => void = () => undefined;
/** Called when the queue no longer knows this browser. */
export function whenSignedOut(then: () => void): void {
  signedOut = then;
}

const fault = (code: string, message: string): ErrorView => ({ code, message, facts: {}, field: null, line: null, column: null });

/** The queue's words stand in lower case and without a dot. */
const sentence = (words: string) => `${words.charAt(0).toUpperCase()}${words.slice(1)}.`;

interface Refusal {
  error?: { code?: string; message?: string };
}

async function ask<T>(path: string, body?: object): Promise<T> {
  const post = body && { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) };
  const answer = await fetch(`/owner/api/${path}`, { credentials: "same-origin", cache: "no-store", ...post }).catch(() => undefined);
  if (!answer) throw fault("queue_silent", "");
  if (answer.ok) return (await answer.json()) as T;
  const refusal = (await answer.json().catch(() => ({}))) as Refusal;
  if (answer.status === 401) signedOut();
  const code = answer.status === 401 ? "signed_out" : (refusal.error?.code ?? "queue_silent");
  throw fault(code, sentence(refusal.error?.message ?? `HTTP ${answer.status}`));
}

function list<T>(path: string, params: Record<string, string | null>): Promise<Page<T>> {
  const given = Object.entries(params).filter((each): each is [string, string] => each[1] !== null);
  return ask(`${path}?${new URLSearchParams(given)}`);
}

/** Every page of a list whose length has a limit of its own. */
async function all<T>(path: string): Promise<T[]> {
  const items: T[] = [];
  let cursor: string | null = null;
  do {
    const page: Page<T> = await list(path, { cursor });
    items.push(...page.items);
    cursor = page.next_cursor;
  } while (cursor !== null);
  return items;
}

export const queue = {
  signIn: (code: string) => ask<unknown>("sign-in", { code }),
  signOut: () => ask<unknown>("sign-out", {}),
  home: () => ask<OwnerHome>("home"),
  sessions: () => all<OwnerSession>("sessions"),
  graphs: () => all<OwnerGraph>("graphs"),
  /** Nothing where it is not readable, or not any more. */
  graph: (id: string) =>
    ask<OwnerGraphText>(`graphs/${encodeURIComponent(id)}`).catch((thrown: unknown) => {
      if (asErrorView(thrown).code === "not_found") return null;
      throw thrown;
    }),
  commands: (filter: CommandFilter, cursor: string | null, limit = PAGE) => list<OwnerCommand>("commands", { ...filter, cursor, limit: String(limit) }),
  command: (id: string) => ask<OwnerCommandDetail>(`commands/${encodeURIComponent(id)}`),
};

const needsDesktop = () => Promise.reject(fault("needs_desktop", ""));

export const web: Platform = {
  kind: "reader",
  call: needsDesktop,
  popup: needsDesktop,
  listen(hear) {
    const tell = () => {
      if (document.visibilityState === "visible") for (const topic of TOPICS) hear({ event: "changed", topic });
    };
    const timer = setInterval(tell, AGAIN_MS);
    document.addEventListener("visibilitychange", tell);
    return () => {
      clearInterval(timer);
      document.removeEventListener("visibilitychange", tell);
    };
  },
};
