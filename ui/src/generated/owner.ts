// Written from domain::wire::owner by a test. Do not edit.
export type Page<T> = { items: Array<T>, next_cursor: string | null, };
export type OwnerHome = { owner: string, projects: Array<OwnerProject>, };
export type OwnerProject = { project_id: string, name: string, 
/**
 * Sessions that are shared with it now.
 */
sessions: number, };
export type OwnerDesktop = { name: string, online: boolean, last_contact_at: string | null, };
export type OwnerSession = { project_id: string, graph_session_id: string, name: string, description: string, slug: string, version: number, status: 'draft' | 'ready' | 'archived', desktop: OwnerDesktop, 
/**
 * Its code is here: the owner made it readable.
 */
readable: boolean, };
export type OwnerGraph = { graph_session_id: string, name: string, description: string, slug: string, version: number, 
/**
 * Names of the projects it is shared with.
 */
projects: Array<string>, desktop: OwnerDesktop, updated_at: string, };
export type OwnerGraphText = { graph: OwnerGraph, source: string, };
export type OwnerCommand = { command_id: string, project_id: string, project: string, graph_session_id: string, 
/**
 * Its name while it is shared there, else its slug.
 */
graph: string, slug: string, 
/**
 * The connected agent that asked.
 */
agent: string, desktop: OwnerDesktop, status: 'queued' | 'running' | 'completed' | 'failed' | 'cancelled' | 'expired', reason: string | null, cancel_requested: boolean, execution_id: string | null, queued_at: string, started_at: string | null, ended_at: string | null, expires_at: string, };
export type OwnerCommandDetail = { command: OwnerCommand, progress: { phase?: string, agents_done: number, agents_total?: number, tokens: number, waiting_approval: { tool: string, agent: string, seconds_left: number }[], text: string } | null, 
/**
 * Compact JSON text, to the letter.
 */
result: string | null, 
/**
 * It was too long to travel: the whole of it is in the desktop's history.
 */
result_truncated: boolean, error: string | null, total_tokens: number | null, reported_cost: number | null, };
