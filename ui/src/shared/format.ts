// Numbers and times as the owner reads them. `now` is handed in; the language is the catalogue's.
import { languageCode, languageTag, t } from "../app/texts/index.svelte";

const pad = (n: number) => String(n).padStart(2, "0");

/** 0:41, 12:05, 1:02:03. For tables and running clocks. */
export function clockTime(ms: number): string {
  const s = Math.max(0, Math.floor(ms / 1000));
  const hours = Math.floor(s / 3600);
  const minutes = Math.floor((s % 3600) / 60);
  return hours > 0 ? `${hours}:${pad(minutes)}:${pad(s % 60)}` : `${minutes}:${pad(s % 60)}`;
}

/** "8 min 42 s", "9 s", "0.4 s", "2 h 5 min". For sentences. */
export function inWords(ms: number): string {
  if (ms < 5) return t("time.instant");
  if (ms < 10_000) {
    const s = ms / 1000;
    const digits = s < 0.1 ? 2 : s < 10 && !Number.isInteger(s) ? 1 : 0;
    return t("time.s", { s: s.toLocaleString(languageCode(), { maximumFractionDigits: digits }) });
  }
  const s = Math.floor(ms / 1000);
  if (s < 60) return t("time.s", { s });
  const minutes = Math.floor(s / 60);
  if (minutes < 60) return s % 60 === 0 ? t("time.min", { min: minutes }) : t("time.minS", { min: minutes, s: s % 60 });
  return t("time.hMin", { h: Math.floor(minutes / 60), min: minutes % 60 });
}

export function ago(at: number, now: number): string {
  const ms = Math.max(0, now - at);
  if (ms < 1000) return t("time.justNow");
  if (ms < 3_600_000) return t("time.ago", { time: inWords(ms < 60_000 ? Math.floor(ms / 1000) * 1000 : Math.floor(ms / 60_000) * 60_000) });
  return when(at, now);
}

function dayStart(at: number): number {
  const date = new Date(at);
  date.setHours(0, 0, 0, 0);
  return date.getTime();
}

/** 14:02, or 14:02:11 with seconds. */
export function timeOfDay(at: number, seconds = false): string {
  const date = new Date(at);
  const base = `${pad(date.getHours())}:${pad(date.getMinutes())}`;
  return seconds ? `${base}:${pad(date.getSeconds())}` : base;
}

export function dayWord(at: number, now: number): string {
  const days = Math.round((dayStart(now) - dayStart(at)) / 86_400_000);
  if (days === 0) return t("time.today");
  if (days === 1) return t("time.yesterday");
  if (days > 1 && days < 7) return new Date(at).toLocaleDateString(languageTag(), { weekday: "long" });
  const sameYear = new Date(at).getFullYear() === new Date(now).getFullYear();
  return new Date(at).toLocaleDateString(languageTag(), sameYear ? { day: "numeric", month: "short" } : { day: "numeric", month: "short", year: "numeric" });
}

/** "today 14:02", "Friday 09:12", "3 Nov 18:20". */
export function when(at: number, now: number, seconds = false): string {
  return `${dayWord(at, now)} ${timeOfDay(at, seconds)}`;
}

export function count(n: number): string {
  return n.toLocaleString(languageCode());
}

/** 14.8k on a node or in a narrow column; 950 stays 950. */
export function shortCount(n: number): string {
  if (n < 1000) return String(n);
  if (n < 100_000) return `${(n / 1000).toLocaleString(languageCode(), { maximumFractionDigits: 1 })}k`;
  if (n < 1_000_000) return `${Math.round(n / 1000)}k`;
  return `${(n / 1_000_000).toLocaleString(languageCode(), { maximumFractionDigits: 1 })}M`;
}

/** Reported cost in dollars; small ones keep two figures that mean something. */
export function money(cost: number): string {
  const digits = cost !== 0 && Math.abs(cost) < 0.01 ? 4 : 2;
  return `$${cost.toLocaleString(languageCode(), { minimumFractionDigits: digits, maximumFractionDigits: digits })}`;
}

/** Pretty JSON of compact JSON text without going through JavaScript values: `1e+21`, `-0`, big integers and key order stay. */
export function prettyJson(text: string): string {
  let out = "";
  let depth = 0;
  const line = () => `\n${"  ".repeat(depth)}`;
  for (let i = 0; i < text.length; i++) {
    const c = text[i] ?? "";
    if (c === '"') {
      let end = i + 1;
      while (end < text.length && text[end] !== '"') end += text[end] === "\\" ? 2 : 1;
      out += text.slice(i, end + 1);
      i = end;
    } else if (c === "{" || c === "[") {
      const next = /\S/.exec(text.slice(i + 1));
      const close = c === "{" ? "}" : "]";
      if (next && next[0] === close) {
        out += c + close;
        i += 1 + next.index;
      } else {
        depth++;
        out += c + line();
      }
    } else if (c === "}" || c === "]") {
      depth = Math.max(0, depth - 1);
      out += line() + c;
    } else if (c === ",") out += c + line();
    else if (c === ":") out += ": ";
    else if (!/\s/.test(c)) out += c;
  }
  return out;
}
