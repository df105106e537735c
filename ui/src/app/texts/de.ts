import type { TextKey } from "./en";
import { en } from "./en";

export const de: Readonly<Record<TextKey, string>> = en;
