//! `graph_sessions`: the saved Graphs and their immutable versions.
//!
//! A slug is unique among the sessions that are not deleted. Every change an agent could see counts up the revision of each project the
//! session is ticked for, in the same transaction.
use domain::{
    GraphSessionId, RawJson, Slug, Timestamp,
    limits::{DESCRIPTION_CHARS_MAX, NAME_CHARS_MAX, SCHEMA_BYTES_MAX, SLUG_CHARS_MAX, SOURCE_BYTES_MAX},
    wire::relay::SessionStatus,
};
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::{Store, StoreError, count, int, parsed};
use crate::view::Topic;

#[derive(Debug, thiserror::Error)]
pub enum GraphError {
    #[error("there is no Graph {0}")]
    Unknown(GraphSessionId),
    #[error("Graph {0} has no version {1}")]
    VersionUnknown(GraphSessionId, u64),
    #[error("the slug {0} belongs to another Graph")]
    SlugTaken(Slug),
    #[error("{field} has {chars} characters; at most {max} are allowed")]
    TooLong { field: &'static str, chars: usize, max: usize },
    #[error("the source has {0} bytes; at most {SOURCE_BYTES_MAX} are allowed")]
    SourceTooLong(usize),
    #[error("the arguments' schema has {0} bytes; at most {SCHEMA_BYTES_MAX} are allowed")]
    SchemaTooLong(usize),
    #[error("a Graph needs a name")]
    NoName,
    #[error(transparent)]
    Store(#[from] StoreError),
}
impl From<rusqlite::Error> for GraphError {
    fn from(e: rusqlite::Error) -> Self {
        Self::Store(e.into())
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Graph {
    pub id: GraphSessionId,
    pub name: String,
    pub slug: Slug,
    pub description: String,
    pub status: SessionStatus,
    /// The newest version.
    pub version: u64,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    pub deleted_at: Option<Timestamp>,
}

/// What inspection found in a source when it was saved.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct VersionFacts {
    pub args_schema: Option<RawJson>,
    pub tools: Vec<String>,
    pub models: Vec<String>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct GraphVersion {
    pub version: u64,
    pub source: String,
    pub name: Option<String>,
    pub saved_at: Timestamp,
    pub facts: VersionFacts,
}

/// A version without its source.
#[derive(Debug, Clone, PartialEq)]
pub struct VersionRow {
    pub version: u64,
    pub name: Option<String>,
    pub saved_at: Timestamp,
    pub lines: u64,
}

#[derive(Debug, Clone)]
pub struct NewGraph {
    pub id: GraphSessionId,
    pub name: String,
    pub slug: Slug,
    pub description: String,
    pub status: SessionStatus,
    pub source: String,
    pub facts: VersionFacts,
}

#[derive(Debug, Clone, Default)]
pub struct GraphEdit {
    pub name: Option<String>,
    pub slug: Option<Slug>,
    pub description: Option<String>,
    pub status: Option<SessionStatus>,
}

pub(super) const fn status_word(status: SessionStatus) -> &'static str {
    match status {
        SessionStatus::Draft => "draft",
        SessionStatus::Ready => "ready",
        SessionStatus::Archived => "archived",
    }
}

fn status(word: &str) -> Option<SessionStatus> {
    match word {
        "draft" => Some(SessionStatus::Draft),
        "ready" => Some(SessionStatus::Ready),
        "archived" => Some(SessionStatus::Archived),
        _ => None,
    }
}

const COLUMNS: &str = "id, name, slug, description, status, version, created_at, updated_at, deleted_at";

fn graph(row: &Row<'_>) -> rusqlite::Result<Result<Graph, StoreError>> {
    let (id, slug, word): (String, String, String) = (row.get(0)?, row.get(2)?, row.get(4)?);
    let (name, description, version) = (row.get(1)?, row.get(3)?, count(row.get(5)?));
    let (created_at, updated_at) = (Timestamp::from_ms(row.get(6)?), Timestamp::from_ms(row.get(7)?));
    let deleted_at = row.get::<_, Option<i64>>(8)?.map(Timestamp::from_ms);
    Ok((|| {
        let id = parsed(&id, "graph_session_id", |t| GraphSessionId::parse(t).ok())?;
        let slug = parsed(&slug, "slug", |t| Slug::parse(t).ok())?;
        let status = parsed(&word, "status", status)?;
        Ok(Graph { id, name, slug, description, status, version, created_at, updated_at, deleted_at })
    })())
}

/// The session, deleted ones included.
pub(super) fn find(on: &Connection, id: GraphSessionId) -> Result<Option<Graph>, StoreError> {
    let mut statement = on.prepare_cached(&format!("SELECT {COLUMNS} FROM graph_sessions WHERE id = ?1"))?;
    statement.query_row([id.to_string()], graph).optional()?.transpose()
}

fn living(on: &Connection, id: GraphSessionId) -> Result<Graph, GraphError> {
    find(on, id)?.filter(|g| g.deleted_at.is_none()).ok_or(GraphError::Unknown(id))
}

/// Counts up the revision of every project the session is ticked for. How many there were.
pub(super) fn count_revisions(on: &Connection, session: GraphSessionId) -> Result<usize, StoreError> {
    let sql = "UPDATE projects SET revision = revision + 1 WHERE id IN (SELECT project_id FROM ticks WHERE graph_session_id = ?1)";
    Ok(on.prepare_cached(sql)?.execute([session.to_string()])?)
}

fn check_texts(name: &str, description: &str) -> Result<(), GraphError> {
    if name.trim().is_empty() {
        return Err(GraphError::NoName);
    }
    for (field, text, max) in [("name", name, NAME_CHARS_MAX), ("description", description, DESCRIPTION_CHARS_MAX)] {
        let chars = text.chars().count();
        if chars > max {
            return Err(GraphError::TooLong { field, chars, max });
        }
    }
    Ok(())
}

fn check_source(source: &str, facts: &VersionFacts) -> Result<(), GraphError> {
    if source.len() > SOURCE_BYTES_MAX {
        return Err(GraphError::SourceTooLong(source.len()));
    }
    match &facts.args_schema {
        Some(schema) if schema.as_str().len() > SCHEMA_BYTES_MAX => Err(GraphError::SchemaTooLong(schema.as_str().len())),
        _ => Ok(()),
    }
}

fn slug_is_free(on: &Connection, slug: &Slug, but: Option<GraphSessionId>) -> Result<bool, StoreError> {
    let sql = "SELECT NOT EXISTS (SELECT 1 FROM graph_sessions WHERE slug = ?1 AND deleted_at IS NULL AND id <> ?2)";
    let but = but.map(|id| id.to_string()).unwrap_or_default();
    Ok(on.prepare_cached(sql)?.query_row(params![slug.as_str(), but], |row| row.get(0))?)
}

/// `base`, or `base-2`, `base-3` … cut so that the number fits.
fn free_slug(on: &Connection, base: &Slug) -> Result<Slug, StoreError> {
    let mut slug = base.clone();
    for n in 2u64.. {
        if slug_is_free(on, &slug, None)? {
            break;
        }
        let tail = format!("-{n}");
        let stem: String = base.as_str().chars().take(SLUG_CHARS_MAX - tail.len()).collect();
        slug = parsed(&format!("{stem}{tail}"), "slug", |t| Slug::parse(t).ok())?;
    }
    Ok(slug)
}

fn insert_version(on: &Connection, id: GraphSessionId, version: u64, source: &str, facts: &VersionFacts, now: Timestamp) -> Result<(), StoreError> {
    let list = |items: &[String]| serde_json::Value::from(items).to_string();
    on.prepare_cached(
        "INSERT INTO graph_versions (graph_session_id, version, source, saved_at, args_schema, tools, models) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
    )?
    .execute(params![
        id.to_string(),
        int(version),
        source,
        now.ms(),
        facts.args_schema.as_ref().map(RawJson::as_str),
        list(&facts.tools),
        list(&facts.models)
    ])?;
    Ok(())
}

pub(super) fn version(on: &Connection, id: GraphSessionId, number: u64) -> Result<Option<GraphVersion>, StoreError> {
    let mut statement = on.prepare_cached(
        "SELECT source, name, saved_at, args_schema, tools, models FROM graph_versions WHERE graph_session_id = ?1 AND version = ?2",
    )?;
    let row = statement
        .query_row(params![id.to_string(), int(number)], |row| {
            let texts: (Option<String>, String, String) = (row.get(3)?, row.get(4)?, row.get(5)?);
            Ok((row.get(0)?, row.get(1)?, row.get(2)?, texts))
        })
        .optional()?;
    let Some((source, name, saved_at, (schema, tools, models))) = row else { return Ok(None) };
    let list = |text: &str| parsed(text, "list", |t| serde_json::from_str::<Vec<String>>(t).ok());
    let args_schema = schema.map(|t| parsed(&t, "schema", |t| RawJson::parse(t).ok())).transpose()?;
    let facts = VersionFacts { args_schema, tools: list(&tools)?, models: list(&models)? };
    Ok(Some(GraphVersion { version: number, source, name, saved_at: Timestamp::from_ms(saved_at), facts }))
}

impl Store {
    pub fn create_graph(&self, new: NewGraph, now: Timestamp) -> Result<Graph, GraphError> {
        check_texts(&new.name, &new.description)?;
        check_source(&new.source, &new.facts)?;
        let made = self.write(|tx| {
            if !slug_is_free(tx, &new.slug, None)? {
                return Err(GraphError::SlugTaken(new.slug.clone()));
            }
            tx.prepare_cached(
                "INSERT INTO graph_sessions (id, name, slug, description, status, version, created_at, updated_at) VALUES (?1, ?2, ?3, ?4, ?5, 1, ?6, ?6)",
            )?
            .execute(params![new.id.to_string(), new.name, new.slug.as_str(), new.description, status_word(new.status), now.ms()])?;
            insert_version(tx, new.id, 1, &new.source, &new.facts, now)?;
            living(tx, new.id)
        })?;
        self.tell(Topic::Graphs);
        Ok(made)
    }

    /// A slug like `base` that no living session has.
    pub fn free_slug(&self, base: &Slug) -> Result<Slug, StoreError> {
        self.read(|on| free_slug(on, base))
    }

    /// Saves a new version, unless the source is the newest one's. The newest version's number.
    pub fn save_version(&self, id: GraphSessionId, source: &str, facts: &VersionFacts, now: Timestamp) -> Result<u64, GraphError> {
        check_source(source, facts)?;
        let (number, shared) = self.write(|tx| {
            let graph = living(tx, id)?;
            if version(tx, id, graph.version)?.is_some_and(|newest| newest.source == source && newest.facts == *facts) {
                return Ok::<_, GraphError>((graph.version, 0));
            }
            let number = graph.version + 1;
            insert_version(tx, id, number, source, facts, now)?;
            tx.prepare_cached("UPDATE graph_sessions SET version = ?2, updated_at = ?3 WHERE id = ?1")?.execute(params![
                id.to_string(),
                int(number),
                now.ms()
            ])?;
            Ok((number, count_revisions(tx, id)?))
        })?;
        self.tell_graphs(shared);
        Ok(number)
    }

    pub fn change_graph(&self, id: GraphSessionId, edit: GraphEdit, now: Timestamp) -> Result<Graph, GraphError> {
        let (graph, shared) = self.write(|tx| {
            let before = living(tx, id)?;
            let after = Graph {
                name: edit.name.unwrap_or_else(|| before.name.clone()),
                slug: edit.slug.unwrap_or_else(|| before.slug.clone()),
                description: edit.description.unwrap_or_else(|| before.description.clone()),
                status: edit.status.unwrap_or(before.status),
                updated_at: now,
                ..before.clone()
            };
            check_texts(&after.name, &after.description)?;
            if !slug_is_free(tx, &after.slug, Some(id))? {
                return Err(GraphError::SlugTaken(after.slug));
            }
            if (Graph { updated_at: before.updated_at, ..after.clone() }) == before {
                return Ok((before, 0));
            }
            tx.prepare_cached("UPDATE graph_sessions SET name = ?2, slug = ?3, description = ?4, status = ?5, updated_at = ?6 WHERE id = ?1")?
                .execute(params![id.to_string(), after.name, after.slug.as_str(), after.description, status_word(after.status), now.ms()])?;
            let shared = count_revisions(tx, id)?;
            Ok((after, shared))
        })?;
        self.tell_graphs(shared);
        Ok(graph)
    }

    /// Soft: [`Store::undelete_graph`] brings it back, but not its ticks. Consent once withdrawn is given again by hand.
    pub fn delete_graph(&self, id: GraphSessionId, now: Timestamp) -> Result<(), GraphError> {
        let shared = self.write(|tx| {
            living(tx, id)?;
            let shared = count_revisions(tx, id)?;
            tx.prepare_cached("DELETE FROM ticks WHERE graph_session_id = ?1")?.execute([id.to_string()])?;
            tx.prepare_cached("UPDATE graph_sessions SET deleted_at = ?2 WHERE id = ?1")?.execute(params![id.to_string(), now.ms()])?;
            Ok::<_, GraphError>(shared)
        })?;
        self.tell_graphs(shared);
        Ok(())
    }

    /// With its old slug, or the next free one like it.
    pub fn undelete_graph(&self, id: GraphSessionId, now: Timestamp) -> Result<Graph, GraphError> {
        let graph = self.write(|tx| {
            let Some(gone) = find(tx, id)? else { return Err(GraphError::Unknown(id)) };
            if gone.deleted_at.is_some() {
                let slug = free_slug(tx, &gone.slug)?;
                tx.prepare_cached("UPDATE graph_sessions SET deleted_at = NULL, slug = ?2, updated_at = ?3 WHERE id = ?1")?.execute(params![
                    id.to_string(),
                    slug.as_str(),
                    now.ms()
                ])?;
            }
            living(tx, id)
        })?;
        self.tell(Topic::Graphs);
        Ok(graph)
    }

    /// `None` for one that never was or is deleted.
    pub fn graph(&self, id: GraphSessionId) -> Result<Option<Graph>, StoreError> {
        self.read(|on| Ok(find(on, id)?.filter(|g| g.deleted_at.is_none())))
    }

    pub fn graph_by_slug(&self, slug: &Slug) -> Result<Option<Graph>, StoreError> {
        self.read(|on| {
            let mut statement = on.prepare_cached(&format!("SELECT {COLUMNS} FROM graph_sessions WHERE slug = ?1 AND deleted_at IS NULL"))?;
            statement.query_row([slug.as_str()], graph).optional()?.transpose()
        })
    }

    /// All that are not deleted, by name.
    pub fn graphs(&self) -> Result<Vec<Graph>, StoreError> {
        self.read(|on| {
            let mut statement =
                on.prepare_cached(&format!("SELECT {COLUMNS} FROM graph_sessions WHERE deleted_at IS NULL ORDER BY name COLLATE NOCASE, id"))?;
            let rows: Vec<_> = statement.query_map([], graph)?.collect::<rusqlite::Result<_>>()?;
            rows.into_iter().collect()
        })
    }

    /// Also of a deleted session: executions point at what they ran.
    pub fn graph_version(&self, id: GraphSessionId, number: u64) -> Result<Option<GraphVersion>, StoreError> {
        self.read(|on| version(on, id, number))
    }

    /// Newest first.
    pub fn graph_versions(&self, id: GraphSessionId) -> Result<Vec<VersionRow>, StoreError> {
        self.read(|on| {
            let mut statement = on.prepare_cached(
                "SELECT version, name, saved_at, length(source) - length(replace(source, char(10), '')) + 1
                   FROM graph_versions WHERE graph_session_id = ?1 ORDER BY version DESC",
            )?;
            let rows = statement.query_map([id.to_string()], |row| {
                let (version, lines) = (count(row.get(0)?), count(row.get(3)?));
                Ok(VersionRow { version, name: row.get(1)?, saved_at: Timestamp::from_ms(row.get(2)?), lines })
            })?;
            Ok(rows.collect::<rusqlite::Result<_>>()?)
        })
    }

    /// An empty name takes the name away.
    pub fn name_version(&self, id: GraphSessionId, number: u64, name: &str) -> Result<(), GraphError> {
        let chars = name.chars().count();
        if chars > NAME_CHARS_MAX {
            return Err(GraphError::TooLong { field: "name", chars, max: NAME_CHARS_MAX });
        }
        let name = Some(name.trim()).filter(|n| !n.is_empty());
        let changed = self.write(|tx| {
            let sql = "UPDATE graph_versions SET name = ?3 WHERE graph_session_id = ?1 AND version = ?2";
            Ok::<_, GraphError>(tx.prepare_cached(sql)?.execute(params![id.to_string(), int(number), name])?)
        })?;
        self.tell(Topic::Graphs);
        if changed == 0 { Err(GraphError::VersionUnknown(id, number)) } else { Ok(()) }
    }

    fn tell_graphs(&self, shared: usize) {
        self.tell(Topic::Graphs);
        if shared > 0 {
            self.tell_sharing();
        }
    }
}
