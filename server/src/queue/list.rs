//! What a connected agent may see of projects and sessions: exactly what the last sync uploaded, of the projects it was granted.
use domain::{
    GraphSessionId, ProjectId, RawJson, Slug, Timestamp,
    text::PROJECT_NOT_FOUND,
    wire::relay::{Project, SessionStatus},
};

use super::{Granted, Queue, grant_stands, sync::status_of, view};
use crate::store::{Collides, StoreError, Tx, params};

#[derive(Debug, thiserror::Error)]
pub enum ListError {
    #[error("the access of this connected agent was removed")]
    Revoked,
    #[error("{PROJECT_NOT_FOUND}")]
    ProjectNotFound,
    #[error("cursor is not one that list_graph_sessions gave")]
    BadCursor,
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Collides for ListError {
    fn store_error(&self) -> Option<&StoreError> {
        if let Self::Store(e) = self { Some(e) } else { None }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Listed {
    pub session: GraphSessionId,
    pub name: String,
    pub description: String,
    pub slug: Slug,
    pub version: i64,
    pub status: SessionStatus,
    pub arguments_schema: Option<RawJson>,
    pub asks: Option<Vec<String>>,
    pub desktop: view::Desktop,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Page {
    pub project: ProjectId,
    pub sessions: Vec<Listed>,
    /// Where the next page begins.
    pub next_cursor: Option<String>,
}

struct List {
    by: Granted,
    project: Option<ProjectId>,
    now: Timestamp,
}

impl Queue {
    pub async fn projects_of_agent(&self, by: &Granted) -> Result<Vec<Project>, ListError> {
        let list = List { by: by.clone(), project: None, now: self.now() };
        self.store.read(&list, |tx, it| Box::pin(granted_projects(tx, it))).await
    }

    /// One page in the order (name, id). `cursor` is what the page before gave.
    pub async fn list(&self, by: &Granted, project: Option<ProjectId>, limit: usize, cursor: Option<&str>) -> Result<Page, ListError> {
        let after = cursor.map(read_cursor).transpose()?;
        let Some(project) = project else { return Err(ListError::ProjectNotFound) };
        let list = List { by: by.clone(), project: Some(project), now: self.now() };
        let mut all = self.store.read(&list, |tx, it| Box::pin(sessions(tx, it))).await?;
        // Sorted here: the two databases do not agree about the order of texts, and there are at most 100 per device.
        all.sort_by(|a, b| (&a.name, a.session).cmp(&(&b.name, b.session)));
        if let Some((name, id)) = after {
            all.retain(|s| (&s.name, s.session) > (&name, id));
        }
        let more = all.len() > limit;
        all.truncate(limit);
        let next_cursor = all.last().filter(|_| more).map(|last| write_cursor(&last.name, last.session));
        all.iter_mut().for_each(|s| self.freshen(&mut s.desktop));
        Ok(Page { project, sessions: all, next_cursor })
    }
}

async fn granted_projects(tx: &mut Tx, it: &List) -> Result<Vec<Project>, ListError> {
    if !grant_stands(tx, &it.by, it.now).await? {
        return Err(ListError::Revoked);
    }
    let sql = "SELECT p.project_id, p.name_json FROM projects p JOIN agent_projects g ON g.project_id = p.project_id
                WHERE g.agent_id = $1 AND p.deleted_at IS NULL ORDER BY p.created_at, p.project_id";
    let rows = tx.query(sql, params![it.by.agent]).await?;
    Ok(rows.iter().map(|row| Ok(Project { project_id: row.id(0)?, name: row.quoted(1)? })).collect::<Result<_, StoreError>>()?)
}

async fn sessions(tx: &mut Tx, it: &List) -> Result<Vec<Listed>, ListError> {
    let granted = granted_projects(tx, it).await?;
    if !granted.iter().any(|p| Some(p.project_id) == it.project) {
        return Err(ListError::ProjectNotFound);
    }
    let sql = format!(
        "SELECT s.graph_session_id, s.name_json, s.description_json, s.slug, s.version, s.status, s.arguments_schema, s.asks_json, {}
           FROM shared_sessions s JOIN devices d ON d.device_id = s.device_id WHERE s.project_id = $1",
        view::DESKTOP_COLUMNS
    );
    let rows = tx.query(&sql, params![it.project]).await?;
    Ok(rows
        .iter()
        .map(|row| {
            Ok(Listed {
                session: row.id(0)?,
                name: row.quoted(1)?,
                description: row.quoted(2)?,
                slug: row.id(3)?,
                version: row.int(4)?,
                status: status_of(row.text(5)?)?,
                arguments_schema: row.opt_text(6)?.map(|_| row.raw(6)).transpose()?,
                asks: row.opt_text(7)?.map(serde_json::from_str).transpose().map_err(|e| StoreError::Corrupt(e.to_string()))?,
                desktop: view::desktop(row, 8)?,
            })
        })
        .collect::<Result<_, StoreError>>()?)
}

fn write_cursor(name: &str, id: GraphSessionId) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(format!("{id}{name}"))
}

fn read_cursor(cursor: &str) -> Result<(String, GraphSessionId), ListError> {
    use base64::Engine as _;
    let bytes = base64::engine::general_purpose::URL_SAFE_NO_PAD.decode(cursor).map_err(|_| ListError::BadCursor)?;
    let text = String::from_utf8(bytes).map_err(|_| ListError::BadCursor)?;
    let (id, name) = text.split_at_checked(35).ok_or(ListError::BadCursor)?;
    Ok((name.to_owned(), GraphSessionId::parse(id).map_err(|_| ListError::BadCursor)?))
}
