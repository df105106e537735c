// The spans of the history an owner asks for, in local days.
export const SPANS = ["today", "yesterday", "week", "month", "days"] as const;
export type Span = (typeof SPANS)[number];
export interface Times {
  since: number | null;
  until: number | null;
}

const dayStart = (at: number, days = 0): number => {
  const date = new Date(at);
  return new Date(date.getFullYear(), date.getMonth(), date.getDate() + days).getTime();
};

export function timesOf(span: Span | null, now: number): Times {
  switch (span) {
    case "today":
      return { since: dayStart(now), until: null };
    case "yesterday":
      return { since: dayStart(now, -1), until: dayStart(now) };
    case "week":
      return { since: dayStart(now, -6), until: null };
    case "month":
      return { since: dayStart(now, -29), until: null };
    case "days":
    case null:
      return { since: null, until: null };
  }
}

/** From the first day to the last one, both whole; a day that is not one leaves its side open. */
export function timesBetween(first: string, last: string): Times {
  const day = (text: string, plus: number) => {
    const [year, month, date] = text.split("-").map(Number);
    return year && month && date ? new Date(year, month - 1, date + plus).getTime() : null;
  };
  return { since: day(first, 0), until: day(last, 1) };
}
