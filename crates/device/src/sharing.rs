//! Consent: what a project's commands may run, asked at the instant of start, and what of it the server is told.
use domain::{
    GraphSessionId, ProjectId,
    wire::relay::{SessionStatus, SharedSession},
};

use crate::store::{Graph, Project, Store, StoreError};

/// The session as it stands, if a command of this project may start it now: the project is enabled, the session ticked, ready and not
/// deleted, and its slug still the one the command was queued with.
pub fn consent(store: &Store, project: ProjectId, graph: GraphSessionId, slug: &str) -> Result<Option<Graph>, StoreError> {
    let ticked = store.ticked_graph(project, graph)?;
    Ok(ticked.filter(|g| g.status == SessionStatus::Ready && g.slug.as_str() == slug))
}

/// Tells which tools of a Graph will ask the owner. `None` where the owner chose not to tell.
pub type AsksOf = dyn Fn(GraphSessionId, &[String]) -> Option<Vec<String>> + Send + Sync;

/// What a sync of this project says: its state and the metadata of its sessions, of one moment. `None` if there is no such project.
pub fn shared_sessions(store: &Store, project: ProjectId, asks: &AsksOf) -> Result<Option<(Project, Vec<SharedSession>)>, StoreError> {
    let Some((project, graphs)) = store.shared_graphs(project)? else { return Ok(None) };
    let sessions = graphs.into_iter().map(|(graph, facts)| SharedSession {
        graph_session_id: graph.id,
        name: graph.name,
        description: graph.description,
        slug: graph.slug,
        version: graph.version,
        status: graph.status,
        arguments_schema: facts.args_schema,
        asks: asks(graph.id, &facts.tools),
    });
    Ok(Some((project, sessions.collect())))
}
