// What is shared, turned around: one row for each Graph session, with the projects it is shared with.
import type { OwnerSession } from "../generated/owner";

export interface SharedRow {
  session: OwnerSession;
  projects: ReadonlySet<string>;
}

export function rowsOf(sessions: readonly OwnerSession[]): SharedRow[] {
  const rows = new Map<string, { session: OwnerSession; projects: Set<string> }>();
  for (const session of sessions) {
    const row = rows.get(session.graph_session_id);
    if (row) row.projects.add(session.project_id);
    else rows.set(session.graph_session_id, { session, projects: new Set([session.project_id]) });
  }
  return [...rows.values()].sort((a, b) => a.session.name.localeCompare(b.session.name) || a.session.slug.localeCompare(b.session.slug));
}
