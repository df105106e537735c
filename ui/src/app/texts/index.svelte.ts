// Words. Every text the owner sees comes from one catalogue; what comes from Graphs, agents and servers is data and passes unchanged.
import { en, type TextKey } from "./en";

export type { TextKey };
/** Keys that exist as `….one` and `….other`. */
export type CountKey = TextKey extends infer K ? (K extends `${infer Base}.other` ? Base : never) : never;
export type Params = Readonly<Record<string, string | number>>;
type Table = Readonly<Record<TextKey, string>>;

/** The running language. `pseudo` marks every text, so that a test finds what bypasses the catalogue. */
let language = $state.raw<{ code: string; table: Table; mark: boolean }>({ code: "en", table: en, mark: false });

export async function useLanguage(wanted: string): Promise<void> {
  const code = wanted === "system" || wanted === "" ? navigator.language.slice(0, 2) : wanted;
  if (code === language.code) return;
  if (code === "pseudo") language = { code: "en", table: en, mark: true };
  else if (code === "de") language = { code, table: (await import("./de")).de, mark: false };
  else language = { code: "en", table: en, mark: false };
  if (typeof document !== "undefined") document.documentElement.lang = language.code;
}

export function languageCode(): string {
  return language.code;
}

/** For dates: day before month, as the catalogue is written. */
export function languageTag(): string {
  return language.code === "en" ? "en-GB" : language.code;
}

export function t(key: TextKey, params: Params = {}): string {
  const text = language.table[key].replace(/\{(\w+)\}/g, (whole, name: string) => {
    const value = params[name];
    return value === undefined ? whole : String(value);
  });
  return language.mark ? `⟦${text}⟧` : text;
}

/** `{n}` in the text is the number, written as the language writes it. */
export function tn(base: CountKey, n: number, params: Params = {}): string {
  const form = new Intl.PluralRules(language.code).select(n) === "one" ? "one" : "other";
  return t(`${base}.${form}` as TextKey, { n: n.toLocaleString(language.code), ...params });
}

/** A text whose key and facts come from elsewhere; nothing where the key is unknown or a fact is missing. */
export function textWith(key: string, params: Params): string | undefined {
  if (!Object.hasOwn(language.table, key)) return undefined;
  const holes = [...language.table[key as TextKey].matchAll(/\{(\w+)\}/g)];
  return holes.every(([, name]) => name !== undefined && params[name] !== undefined) ? t(key as TextKey, params) : undefined;
}

/** A text that may be missing, such as the words for an error code of a newer desktop. */
export function textOr(key: string, otherwise: string): string {
  return Object.hasOwn(language.table, key) ? t(key as TextKey) : otherwise;
}
