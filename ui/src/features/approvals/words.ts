// The question in words, and the facts of what would happen.
import { t, textOr } from "../../app/texts/index.svelte";
import type { ApprovalQuestion } from "../../generated/types";
import { sentenceText } from "../../shared/sentence";
import { toolTitle } from "../../shared/tools";

export function headline(question: ApprovalQuestion): string {
  return question.options ? t("approval.head.options") : textOr(`approval.head.${question.tool}`, t("approval.head", { title: toolTitle(question) }));
}

/** What Enter on a shell would see, word by word. Quotes stay with their word, so that a space inside one is no border. */
export function commandWords(line: string): string[] {
  return line.match(/(?:[^\s"']|"(?:\\.|[^"\\])*"|'[^']*')+/g) ?? [];
}

export interface Fact {
  name: string;
  text: string;
  mono: boolean;
}

export function facts(question: ApprovalQuestion): Fact[] {
  const { effect } = question;
  const list: Fact[] = [];
  if (effect.host !== null) list.push({ name: t("approval.host"), text: effect.host, mono: true });
  // The path says the folder too; the place for the arguments is worth more than saying it twice.
  if (effect.real_path !== null) list.push({ name: t("approval.path"), text: effect.real_path, mono: true });
  else if (effect.folder !== null) list.push({ name: t(effect.command_line === null ? "approval.folder" : "approval.runsIn"), text: effect.folder, mono: false });
  if (effect.command_line !== null) list.push({ name: t("approval.limits"), text: t("approval.commandLimits"), mono: false });
  if (question.phase !== null && question.agent === null) list.push({ name: t("approval.phase"), text: question.phase, mono: false });
  list.push({ name: t("approval.why"), text: sentenceText(question.because), mono: false });
  list.push({ name: t("approval.noAnswer"), text: t(question.options ? "approval.noAnswerOption" : "approval.noAnswerText"), mono: false });
  return list;
}

/** The words of a script's question; undefined when they are not plain text, and then the JSON stands. */
export function askedText(question: ApprovalQuestion): string | undefined {
  if (!question.options) return undefined;
  try {
    const value: unknown = JSON.parse(question.arguments);
    return typeof value === "string" ? value : undefined;
  } catch {
    return undefined;
  }
}

export interface Safety {
  safe: boolean;
  head: string;
  text: string;
}
export function safety(question: ApprovalQuestion): Safety | undefined {
  const { effect } = question;
  if (effect.sandboxed === true) return { safe: true, head: t("approval.sandboxed"), text: t("approval.sandboxedText") };
  if (effect.sandboxed === false) return { safe: false, head: t("approval.bare"), text: t("approval.bareText") };
  if (effect.folder !== null && effect.real_path !== null) return { safe: true, head: t("approval.inFolder"), text: t("approval.inFolderText") };
  if (effect.host !== null) return { safe: false, head: t("approval.leaves"), text: t("approval.leavesText") };
  return undefined;
}
