//! The owner's connected projects on this device, and the ticks: which sessions commands of a project may run.
//!
//! Invariant: every change of sharing counts the project's revision up in its own transaction, so that the server can tell old from new.
use domain::{GraphSessionId, ProjectId, Timestamp, limits::SESSIONS_PER_SYNC_MAX, wire, wire::relay::SessionStatus};
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::{Graph, Store, StoreError, VersionFacts, count, graphs, int, parsed};
use crate::view::Topic;

#[derive(Debug, thiserror::Error)]
pub enum SharingError {
    #[error("there is no project {0}")]
    ProjectUnknown(ProjectId),
    #[error("there is no Graph {0}")]
    GraphUnknown(GraphSessionId),
    #[error("{name} is {status}. Only a ready Graph can be shared.")]
    NotReady { name: String, status: &'static str },
    /// The words are the design's.
    #[error("{SESSIONS_PER_SYNC_MAX} of {SESSIONS_PER_SYNC_MAX} are ticked for {0}. Untick one first.")]
    Full(String),
    #[error(transparent)]
    Store(#[from] StoreError),
}
impl From<rusqlite::Error> for SharingError {
    fn from(e: rusqlite::Error) -> Self {
        Self::Store(e.into())
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Project {
    pub id: ProjectId,
    pub name: String,
    /// The owner's switch: only an enabled project is synced and may run.
    pub enabled: bool,
    /// The owner chose that its Graphs may be read in the browser.
    pub readable: bool,
    pub revision: u64,
    /// The last revision the server answered.
    pub answered_revision: u64,
    pub synced_at: Option<Timestamp>,
    /// The last failure in words; cleared by the next answer.
    pub sync_error: Option<String>,
}

impl Project {
    /// The server does not know the present state yet.
    pub const fn is_unanswered(&self) -> bool {
        self.answered_revision < self.revision
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tick {
    pub project: ProjectId,
    pub graph: GraphSessionId,
    pub ticked_at: Timestamp,
    /// What the Graph could do when it was ticked; JSON of the caller's.
    pub powers: String,
}

const COLUMNS: &str = "id, name, enabled, readable, revision, answered_revision, synced_at, sync_error";

fn project(row: &Row<'_>) -> rusqlite::Result<Result<Project, StoreError>> {
    let id: String = row.get(0)?;
    let (name, enabled, readable, sync_error) = (row.get(1)?, row.get(2)?, row.get(3)?, row.get(7)?);
    let (revision, answered_revision) = (count(row.get(4)?), count(row.get(5)?));
    let synced_at = row.get::<_, Option<i64>>(6)?.map(Timestamp::from_ms);
    Ok(parsed(&id, "project_id", |t| ProjectId::parse(t).ok()).map(|id| Project {
        id,
        name,
        enabled,
        readable,
        revision,
        answered_revision,
        synced_at,
        sync_error,
    }))
}

pub(super) fn find(on: &Connection, id: ProjectId) -> Result<Option<Project>, StoreError> {
    let mut statement = on.prepare_cached(&format!("SELECT {COLUMNS} FROM projects WHERE id = ?1"))?;
    statement.query_row([id.to_string()], project).optional()?.transpose()
}

pub(super) fn is_ticked(on: &Connection, project: ProjectId, graph: GraphSessionId) -> Result<bool, StoreError> {
    let mut statement = on.prepare_cached("SELECT EXISTS (SELECT 1 FROM ticks WHERE project_id = ?1 AND graph_session_id = ?2)")?;
    Ok(statement.query_row(params![project.to_string(), graph.to_string()], |row| row.get(0))?)
}

fn count_revision(on: &Connection, id: ProjectId) -> Result<(), StoreError> {
    on.prepare_cached("UPDATE projects SET revision = revision + 1 WHERE id = ?1")?.execute([id.to_string()])?;
    Ok(())
}

impl Store {
    /// By name.
    pub fn projects(&self) -> Result<Vec<Project>, StoreError> {
        self.read(|on| {
            let mut statement = on.prepare_cached(&format!("SELECT {COLUMNS} FROM projects ORDER BY name COLLATE NOCASE, id"))?;
            let rows: Vec<_> = statement.query_map([], project)?.collect::<rusqlite::Result<_>>()?;
            rows.into_iter().collect()
        })
    }

    pub fn project(&self, id: ProjectId) -> Result<Option<Project>, StoreError> {
        self.read(|on| find(on, id))
    }

    /// Takes over the owner's projects as the server lists them. New ones start disabled; ticks of vanished ones go with them.
    pub fn put_projects(&self, listed: &[wire::relay::Project], now: Timestamp) -> Result<(), StoreError> {
        let changed = self.write(|tx| {
            let mut changed = 0;
            let known: Vec<String> = tx.prepare_cached("SELECT id FROM projects")?.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
            for gone in known.iter().filter(|id| !listed.iter().any(|p| p.project_id.to_string() == **id)) {
                changed += tx.prepare_cached("DELETE FROM projects WHERE id = ?1")?.execute([gone])?;
            }
            for p in listed {
                changed += tx
                    .prepare_cached(
                        "INSERT INTO projects (id, name, added_at) VALUES (?1, ?2, ?3)
                         ON CONFLICT (id) DO UPDATE SET name = excluded.name WHERE name <> excluded.name",
                    )?
                    .execute(params![p.project_id.to_string(), p.name, now.ms()])?;
            }
            Ok::<_, StoreError>(changed)
        })?;
        if changed > 0 {
            self.tell(Topic::Connections);
            self.tell_sharing();
        }
        Ok(())
    }

    /// Disabling keeps the ticks: the next enabling shares the same sessions, but revives no command.
    pub fn enable_project(&self, id: ProjectId, enabled: bool) -> Result<(), SharingError> {
        self.switch(id, "UPDATE projects SET enabled = ?2, revision = revision + 1 WHERE id = ?1 AND enabled <> ?2", enabled)
    }

    pub fn make_project_readable(&self, id: ProjectId, readable: bool) -> Result<(), SharingError> {
        self.switch(id, "UPDATE projects SET readable = ?2 WHERE id = ?1 AND readable <> ?2", readable)
    }

    fn switch(&self, id: ProjectId, sql: &str, on_off: bool) -> Result<(), SharingError> {
        let changed = self.write(|tx| {
            find(tx, id)?.ok_or(SharingError::ProjectUnknown(id))?;
            Ok::<_, SharingError>(tx.prepare_cached(sql)?.execute(params![id.to_string(), on_off])?)
        })?;
        if changed > 0 {
            self.tell_sharing();
        }
        Ok(())
    }

    /// The owner's consent. Only a ready session can be ticked, and at most 100 for one project.
    pub fn tick(&self, project: ProjectId, graph: GraphSessionId, powers: &str, now: Timestamp) -> Result<(), SharingError> {
        let changed =
            self.write(|tx| {
                let to = find(tx, project)?.ok_or(SharingError::ProjectUnknown(project))?;
                let session = graphs::find(tx, graph)?.filter(|g| g.deleted_at.is_none()).ok_or(SharingError::GraphUnknown(graph))?;
                if session.status != SessionStatus::Ready {
                    return Err(SharingError::NotReady { name: session.name, status: graphs::status_word(session.status) });
                }
                if is_ticked(tx, project, graph)? {
                    // Ticked anew: the owner has seen what it can do today.
                    tx.prepare_cached("UPDATE ticks SET powers = ?3 WHERE project_id = ?1 AND graph_session_id = ?2")?.execute(params![
                        project.to_string(),
                        graph.to_string(),
                        powers
                    ])?;
                    return Ok(false);
                }
                let ticked: i64 =
                    tx.prepare_cached("SELECT count(*) FROM ticks WHERE project_id = ?1")?.query_row([project.to_string()], |row| row.get(0))?;
                if ticked >= SESSIONS_PER_SYNC_MAX as i64 {
                    return Err(SharingError::Full(to.name));
                }
                tx.prepare_cached("INSERT INTO ticks (project_id, graph_session_id, ticked_at, powers) VALUES (?1, ?2, ?3, ?4)")?
                    .execute(params![project.to_string(), graph.to_string(), now.ms(), powers])?;
                count_revision(tx, project)?;
                Ok(true)
            })?;
        if changed {
            self.tell_sharing();
        }
        Ok(())
    }

    /// Harmless to repeat. An execution that runs already goes on: consent is asked at the instant of start.
    pub fn untick(&self, project: ProjectId, graph: GraphSessionId) -> Result<(), SharingError> {
        let changed = self.write(|tx| {
            let sql = "DELETE FROM ticks WHERE project_id = ?1 AND graph_session_id = ?2";
            let changed = tx.prepare_cached(sql)?.execute(params![project.to_string(), graph.to_string()])?;
            if changed > 0 {
                count_revision(tx, project)?;
            }
            Ok::<_, SharingError>(changed)
        })?;
        if changed > 0 {
            self.tell_sharing();
        }
        Ok(())
    }

    pub fn ticks(&self) -> Result<Vec<Tick>, StoreError> {
        self.read(|on| {
            let mut statement =
                on.prepare_cached("SELECT project_id, graph_session_id, ticked_at, powers FROM ticks ORDER BY project_id, graph_session_id")?;
            let rows: Vec<(String, String, i64, String)> =
                statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)))?.collect::<Result<_, _>>()?;
            rows.into_iter()
                .map(|(project, graph, at, powers)| {
                    let project = parsed(&project, "project_id", |t| ProjectId::parse(t).ok())?;
                    let graph = parsed(&graph, "graph_session_id", |t| GraphSessionId::parse(t).ok())?;
                    Ok(Tick { project, graph, ticked_at: Timestamp::from_ms(at), powers })
                })
                .collect()
        })
    }

    /// The session, if the project is enabled and the session ticked for it and not deleted.
    pub(crate) fn ticked_graph(&self, project: ProjectId, graph: GraphSessionId) -> Result<Option<Graph>, StoreError> {
        self.read(|on| {
            let enabled = find(on, project)?.is_some_and(|p| p.enabled);
            if !enabled || !is_ticked(on, project, graph)? {
                return Ok(None);
            }
            Ok(graphs::find(on, graph)?.filter(|g| g.deleted_at.is_none()))
        })
    }

    /// The project and the sessions its next sync tells, with what is known of their newest version: at most 100, the oldest ticks, of
    /// one moment. A database with more (it should not) thus always shares the same hundred. A disabled project tells none.
    pub(crate) fn shared_graphs(&self, project: ProjectId) -> Result<Option<(Project, Vec<(Graph, VersionFacts)>)>, StoreError> {
        self.read(|on| {
            let tx = on.unchecked_transaction()?;
            let Some(project) = find(&tx, project)? else { return Ok(None) };
            let ids: Vec<String> = tx
                .prepare_cached(
                    "SELECT t.graph_session_id FROM ticks t JOIN graph_sessions g ON g.id = t.graph_session_id
                      WHERE t.project_id = ?1 AND ?2 AND g.deleted_at IS NULL ORDER BY t.ticked_at, t.graph_session_id LIMIT ?3",
                )?
                .query_map(params![project.id.to_string(), project.enabled, SESSIONS_PER_SYNC_MAX as i64], |row| row.get(0))?
                .collect::<Result<_, _>>()?;
            let mut shared = Vec::with_capacity(ids.len());
            for id in ids {
                let id = parsed(&id, "graph_session_id", |t| GraphSessionId::parse(t).ok())?;
                let Some(graph) = graphs::find(&tx, id)? else { continue };
                let facts = graphs::version(&tx, id, graph.version)?.map(|v| v.facts).unwrap_or_default();
                shared.push((graph, facts));
            }
            Ok(Some((project, shared)))
        })
    }

    /// The server answered a sync of revision `sent`; `stands` is the one it holds now. If that is newer than anything we ever said (our
    /// database was lost or restored), ours jumps over it, so that what the owner sees here counts. True if it has to be told again.
    pub(crate) fn note_sync(&self, id: ProjectId, sent: u64, stands: u64, fault: Option<&str>, now: Timestamp) -> Result<bool, StoreError> {
        let again = self.write_soon(|tx| {
            tx.prepare_cached("UPDATE projects SET synced_at = ?2, sync_error = ?3 WHERE id = ?1")?.execute(params![
                id.to_string(),
                now.ms(),
                fault
            ])?;
            let jump = "UPDATE projects SET revision = ?2 + 1 WHERE id = ?1 AND revision < ?2";
            if tx.prepare_cached(jump)?.execute(params![id.to_string(), int(stands)])? > 0 {
                return Ok::<_, StoreError>(true);
            }
            // `stands` above `sent` is our own newer sync, which overtook this one.
            tx.prepare_cached("UPDATE projects SET answered_revision = max(answered_revision, ?2) WHERE id = ?1")?
                .execute(params![id.to_string(), int(sent.max(stands))])?;
            Ok(false)
        })?;
        self.tell(Topic::Sharing);
        Ok(again)
    }

    pub(crate) fn note_sync_error(&self, id: ProjectId, words: &str) -> Result<(), StoreError> {
        let changed = self.write_soon(|tx| {
            let sql = "UPDATE projects SET sync_error = ?2 WHERE id = ?1 AND sync_error IS NOT ?2";
            Ok::<_, StoreError>(tx.prepare_cached(sql)?.execute(params![id.to_string(), words])?)
        })?;
        if changed > 0 {
            self.tell(Topic::Sharing);
        }
        Ok(())
    }
}
