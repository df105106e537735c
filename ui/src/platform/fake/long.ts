// Names as long as the limits let them be: with spaces and without, and some from right to left.
import { asData } from "../../shared/sentence";
import type { FakeDesk } from "./desk";

const NAME_CHARS_MAX = 120;
const SPOKEN = "Reads every document of the quarter, compares the figures with those of last year and writes down what does not add up ";
const SOLID = "DonaudampfschifffahrtsgesellschaftskapitänsmützenfabrikÜberprüfung";
const RIGHT = "مراجعة التغييرات مع ثلاثة حكام ";

/** The longest name of a row: three kinds take turns, each with its own number so that names stay apart. */
const long = (turn: number, max = NAME_CHARS_MAX) => `${turn} ${([SPOKEN, SOLID, RIGHT][turn % 3] ?? SPOKEN).repeat(8)}`.slice(0, max);

export function lengthen(desk: FakeDesk): void {
  const projects = new Map(desk.connections.projects.map((project, n) => [project.name, long(n, 80)]));
  const renamed = (name: string) => projects.get(name) ?? name;
  for (const [n, { row }] of desk.graphs.entries()) Object.assign(row, { name: long(n), slug: "a-long-slug-".repeat(6).slice(0, 61) + n, description: SPOKEN.repeat(3), shared_with: row.shared_with.map(renamed) });
  for (const [n, run] of desk.runs.entries()) Object.assign(run, { graph: long(n), command: run.command && { ...run.command, project: renamed(run.command.project ?? ""), agent: long(n + 1, 80) } });
  desk.connections = {
    ...desk.connections,
    projects: desk.connections.projects.map((project) => ({ ...project, name: renamed(project.name) })),
    agents: desk.connections.agents.map((agent, n) => ({ ...agent, name: long(n, 80), projects: agent.projects.map(renamed) })),
  };
  desk.approvals = {
    ...desk.approvals,
    waiting: desk.approvals.waiting.map((question, n) => ({ ...question, graph: long(n), agent: long(n + 1), phase: long(n + 2), project: long(n, 80), connected_agent: long(n + 1, 80) })),
    tools: desk.approvals.tools.map((tool, n) => ({ ...tool, description: SPOKEN, title: asData(long(n, 60)) })),
    rules: desk.approvals.rules.map((rule, n) => ({ ...rule, text: asData(`allow run_command ["cargo", "${SOLID}"]`), scope: asData(long(n)) })),
  };
  desk.models = {
    ...desk.models,
    providers: desk.models.providers.map((provider, n) => ({ ...provider, name: long(n, 80), address: `https://${"long.".repeat(20)}example.org/v1/${n}`, models: provider.models.map((model) => `${SOLID.slice(0, 40)}/${model}`) })),
  };
  desk.settings = { ...desk.settings, folders: desk.settings.folders.map((folder, n) => ({ ...folder, path: `/home/ada/${"a long folder name/".repeat(8)}${n}` })) };
}
