//! What the owner reads in the browser: projects, what is shared with them, commands with their endings, and the Graphs made readable.
//!
//! A Graph's text is shown only while its session is shared with a project: a withdrawal hides it at once, before its removal arrives.
use domain::{
    CommandId, GraphSessionId, OwnerId, ProjectId, Timestamp,
    command::Status,
    limits::DEVICE_ONLINE_MS,
    wire::owner::{OwnerCommand, OwnerCommandDetail, OwnerDesktop, OwnerGraph, OwnerGraphText, OwnerHome, OwnerProject, OwnerSession, Page},
};

use super::{Queue, commands::CommandFilter, sync::status_of, view};
use crate::{
    contact::Who,
    raw::RawMembers,
    store::{Row, StoreError, Tx, params},
};

/// A page of a list; `after` is where the page before ended.
struct List<A> {
    owner: OwnerId,
    after: A,
    limit: usize,
}

/// A row with the device it came from, whose last contact this instance may know better.
type Of<T> = (T, view::Desktop);

impl Queue {
    pub async fn owner_home(&self, owner: OwnerId) -> Result<OwnerHome, StoreError> {
        self.store.read(&owner, |tx, owner| Box::pin(home(tx, *owner))).await
    }

    /// Everything shared with any project, in the order of their ids. `after` is the last one of the page before.
    pub async fn owner_sessions(
        &self,
        owner: OwnerId,
        after: Option<(ProjectId, GraphSessionId)>,
        limit: usize,
    ) -> Result<Page<OwnerSession>, StoreError> {
        let list = List { owner, after: after.map_or_else(Default::default, |(p, s)| (p.to_string(), s.to_string())), limit };
        let rows = self.store.read(&list, |tx, it| Box::pin(sessions(tx, it))).await?;
        let items = rows.into_iter().map(|(session, desktop)| OwnerSession { desktop: self.desktop(desktop), ..session }).collect();
        Ok(page(items, limit, |last: &OwnerSession| format!("{}/{}", last.project_id, last.graph_session_id)))
    }

    pub async fn owner_graphs(&self, owner: OwnerId, after: Option<GraphSessionId>, limit: usize) -> Result<Page<OwnerGraph>, StoreError> {
        let list = List { owner, after: after.map(|id| id.to_string()).unwrap_or_default(), limit };
        let rows = self.store.read(&list, |tx, it| Box::pin(graphs(tx, it))).await?;
        let items = rows.into_iter().map(|(graph, desktop)| OwnerGraph { desktop: self.desktop(desktop), ..graph }).collect();
        Ok(page(items, limit, |last: &OwnerGraph| last.graph_session_id.to_string()))
    }

    pub async fn owner_graph(&self, owner: OwnerId, id: GraphSessionId) -> Result<Option<OwnerGraphText>, StoreError> {
        let found = self.store.read(&(owner, id), |tx, (owner, id)| Box::pin(graph(tx, *owner, *id))).await?;
        Ok(found.map(|((graph, desktop), source)| OwnerGraphText { graph: OwnerGraph { desktop: self.desktop(desktop), ..graph }, source }))
    }

    /// Newest first, without results.
    pub async fn owner_commands(&self, owner: OwnerId, filter: CommandFilter) -> Result<Page<OwnerCommand>, StoreError> {
        let limit = filter.limit;
        let rows = self.store.read(&(owner, filter, self.now()), |tx, (owner, filter, now)| Box::pin(commands(tx, *owner, filter, *now))).await?;
        let more = rows.len() > limit;
        let next_cursor = rows.get(limit.saturating_sub(1)).filter(|_| more).map(|(seq, _)| seq.to_string());
        let items = rows.into_iter().take(limit).map(|(_, row)| self.command(row)).collect();
        Ok(Page { items, next_cursor })
    }

    pub async fn owner_command(&self, owner: OwnerId, id: CommandId) -> Result<Option<OwnerCommandDetail>, StoreError> {
        let found = self.store.read(&(owner, id, self.now()), |tx, (owner, id, now)| Box::pin(command(tx, *owner, *id, *now))).await?;
        Ok(found.map(|(row, detail)| OwnerCommandDetail { command: self.command(row), ..detail }))
    }

    fn command(&self, (command, desktop): Of<OwnerCommand>) -> OwnerCommand {
        OwnerCommand { desktop: self.desktop(desktop), ..command }
    }

    fn desktop(&self, desktop: view::Desktop) -> OwnerDesktop {
        let last_contact_at = self.contacts.last(Who::Device(desktop.device), desktop.last_contact_at);
        let now = self.now();
        OwnerDesktop { name: desktop.name, online: last_contact_at.is_some_and(|at| now.since_ms(at) < DEVICE_ONLINE_MS), last_contact_at }
    }
}

/// `items` may hold one more than the page: then there is a next one.
fn page<T>(mut items: Vec<T>, limit: usize, cursor: impl Fn(&T) -> String) -> Page<T> {
    let more = items.len() > limit;
    items.truncate(limit);
    let next_cursor = items.last().filter(|_| more).map(cursor);
    Page { items, next_cursor }
}

/// Filled in by [`Queue::desktop`].
fn unknown() -> OwnerDesktop {
    OwnerDesktop { name: String::new(), online: false, last_contact_at: None }
}

async fn home(tx: &mut Tx, owner: OwnerId) -> Result<OwnerHome, StoreError> {
    let row = tx.row("SELECT name_json FROM owners WHERE owner_id = $1", params![owner]).await?;
    let name = row.map_or(Ok(String::new()), |row| row.quoted(0))?;
    let sql = "SELECT p.project_id, p.name_json, (SELECT count(*) FROM shared_sessions s WHERE s.project_id = p.project_id)
                 FROM projects p WHERE p.owner_id = $1 AND p.deleted_at IS NULL ORDER BY p.created_at, p.project_id";
    let rows = tx.query(sql, params![owner]).await?;
    let projects = rows.iter().map(|row| Ok(OwnerProject { project_id: row.id(0)?, name: row.quoted(1)?, sessions: count(row.int(2)?) }));
    Ok(OwnerHome { owner: name, projects: projects.collect::<Result<_, StoreError>>()? })
}

async fn sessions(tx: &mut Tx, it: &List<(String, String)>) -> Result<Vec<Of<OwnerSession>>, StoreError> {
    let sql = format!(
        "SELECT s.project_id, s.graph_session_id, s.name_json, s.description_json, s.slug, s.version, s.status,
                (SELECT count(*) FROM readable_graphs r WHERE r.graph_session_id = s.graph_session_id AND r.device_id = s.device_id), {}
           FROM shared_sessions s JOIN projects p ON p.project_id = s.project_id JOIN devices d ON d.device_id = s.device_id
          WHERE p.owner_id = $1 AND p.deleted_at IS NULL AND (s.project_id > $2 OR (s.project_id = $2 AND s.graph_session_id > $3))
          ORDER BY s.project_id, s.graph_session_id LIMIT $4",
        view::DESKTOP_COLUMNS
    );
    let rows = tx.query(&sql, params![it.owner, &it.after.0, &it.after.1, it.limit as i64 + 1]).await?;
    let session = |row: &Row| {
        let session = OwnerSession {
            project_id: row.id(0)?,
            graph_session_id: row.id(1)?,
            name: row.quoted(2)?,
            description: row.quoted(3)?,
            slug: row.text(4)?.to_owned(),
            version: count(row.int(5)?),
            status: status_of(row.text(6)?)?,
            readable: row.flag(7)?,
            desktop: unknown(),
        };
        Ok((session, view::desktop(row, 8)?))
    };
    rows.iter().map(session).collect()
}

/// Condition on a readable Graph `r`: its session is shared with one of the owner's projects, by the device that sent the text.
pub(super) const STILL_SHARED: &str = "EXISTS (SELECT 1 FROM shared_sessions s JOIN projects p ON p.project_id = s.project_id
    WHERE s.graph_session_id = r.graph_session_id AND s.device_id = r.device_id AND p.owner_id = r.owner_id AND p.deleted_at IS NULL)";

async fn graphs(tx: &mut Tx, it: &List<String>) -> Result<Vec<Of<OwnerGraph>>, StoreError> {
    let sql = format!(
        "SELECT r.graph_session_id, r.name_json, r.updated_at, {} FROM readable_graphs r JOIN devices d ON d.device_id = r.device_id
          WHERE r.owner_id = $1 AND r.graph_session_id > $2 AND {STILL_SHARED} ORDER BY r.graph_session_id LIMIT $3",
        view::DESKTOP_COLUMNS
    );
    let rows = tx.query(&sql, params![it.owner, &it.after, it.limit as i64 + 1]).await?;
    let mut graphs = Vec::with_capacity(rows.len());
    for row in &rows {
        graphs.push(read_graph(tx, row).await?);
    }
    Ok(graphs)
}

async fn graph(tx: &mut Tx, owner: OwnerId, id: GraphSessionId) -> Result<Option<(Of<OwnerGraph>, String)>, StoreError> {
    let sql = format!(
        "SELECT r.graph_session_id, r.name_json, r.updated_at, {}, r.text_json FROM readable_graphs r JOIN devices d ON d.device_id = r.device_id
          WHERE r.owner_id = $1 AND r.graph_session_id = $2 AND {STILL_SHARED}",
        view::DESKTOP_COLUMNS
    );
    let Some(row) = tx.row(&sql, params![owner, id]).await? else { return Ok(None) };
    Ok(Some((read_graph(tx, &row).await?, row.quoted(8)?)))
}

async fn read_graph(tx: &mut Tx, row: &Row) -> Result<Of<OwnerGraph>, StoreError> {
    let (id, desktop) = (row.id::<GraphSessionId>(0)?, view::desktop(row, 3)?);
    let sql = "SELECT p.name_json, s.description_json, s.slug, s.version FROM shared_sessions s JOIN projects p ON p.project_id = s.project_id
                WHERE s.graph_session_id = $1 AND s.device_id = $2 AND p.deleted_at IS NULL ORDER BY p.created_at, p.project_id";
    let shared = tx.query(sql, params![id, desktop.device]).await?;
    let mut graph = OwnerGraph {
        graph_session_id: id,
        name: row.quoted(1)?,
        description: String::new(),
        slug: String::new(),
        version: 0,
        projects: Vec::with_capacity(shared.len()),
        desktop: unknown(),
        updated_at: row.time(2)?,
    };
    for row in &shared {
        graph.projects.push(row.quoted(0)?);
        (graph.description, graph.slug, graph.version) = (row.quoted(1)?, row.text(2)?.to_owned(), count(row.int(3)?));
    }
    Ok((graph, desktop))
}

const COMMAND_COLUMNS: &str = "c.command_id, c.project_id, p.name_json, c.graph_session_id, s.name_json, c.slug, a.name_json, c.status, c.reason,
  c.cancel_asked, c.execution_id, c.queued_at, c.started_at, c.ended_at, c.expires_at, c.seq";
const COMMAND_TABLES: &str = "commands c JOIN agents a ON a.agent_id = c.agent_id JOIN projects p ON p.project_id = c.project_id
  JOIN devices d ON d.device_id = c.device_id
  LEFT JOIN shared_sessions s ON s.project_id = c.project_id AND s.graph_session_id = c.graph_session_id";

async fn commands(tx: &mut Tx, owner: OwnerId, filter: &CommandFilter, now: Timestamp) -> Result<Vec<(i64, Of<OwnerCommand>)>, StoreError> {
    let sql = format!(
        "SELECT {COMMAND_COLUMNS}, {} FROM {COMMAND_TABLES}
          WHERE c.owner_id = $1 AND c.seq < $2 AND ($3 = '' OR c.project_id = $3) AND ($4 = '' OR c.status = $4) ORDER BY c.seq DESC LIMIT $5",
        view::DESKTOP_COLUMNS
    );
    let project = filter.project.map(|p| p.to_string()).unwrap_or_default();
    let status = filter.status.map(Status::as_str).unwrap_or_default();
    let rows = tx.query(&sql, params![owner, filter.before.unwrap_or(i64::MAX), project, status, filter.limit as i64 + 1]).await?;
    rows.iter().map(|row| Ok((row.int(15)?, read_command(row, now)?))).collect()
}

async fn command(tx: &mut Tx, owner: OwnerId, id: CommandId, now: Timestamp) -> Result<Option<(Of<OwnerCommand>, OwnerCommandDetail)>, StoreError> {
    let sql = format!(
        "SELECT {COMMAND_COLUMNS}, {}, c.progress, c.completion FROM {COMMAND_TABLES} WHERE c.owner_id = $1 AND c.command_id = $2",
        view::DESKTOP_COLUMNS
    );
    let Some(row) = tx.row(&sql, params![owner, id]).await? else { return Ok(None) };
    let (command, desktop) = read_command(&row, now)?;
    let running = command.status == Status::Running.as_str();
    let progress = row.opt_text(21)?.filter(|_| running).map(serde_json::from_str).transpose();
    let progress = progress.map_err(|e| StoreError::Corrupt(e.to_string()))?;
    let detail = outcome(
        OwnerCommandDetail {
            command: command.clone(),
            progress,
            result: None,
            result_truncated: false,
            error: None,
            total_tokens: None,
            reported_cost: None,
        },
        row.opt_text(22)?,
    );
    Ok(Some(((command, desktop), detail)))
}

fn read_command(row: &Row, now: Timestamp) -> Result<Of<OwnerCommand>, StoreError> {
    let expires_at = row.time(14)?;
    let expired = row.text(7)? == Status::Queued.as_str() && expires_at <= now;
    let slug = row.text(5)?.to_owned();
    let command = OwnerCommand {
        command_id: row.id(0)?,
        project_id: row.id(1)?,
        project: row.quoted(2)?,
        graph_session_id: row.id(3)?,
        graph: if row.opt_text(4)?.is_some() { row.quoted(4)? } else { slug.clone() },
        slug,
        agent: row.quoted(6)?,
        desktop: unknown(),
        status: if expired { Status::Expired.as_str().to_owned() } else { row.text(7)?.to_owned() },
        reason: row.opt_text(8)?.map(str::to_owned),
        cancel_requested: row.flag(9)?,
        execution_id: row.opt_id(10)?,
        queued_at: row.time(11)?,
        started_at: row.opt_time(12)?,
        ended_at: if expired { Some(expires_at) } else { row.opt_time(13)? },
        expires_at,
    };
    Ok((command, view::desktop(row, 16)?))
}

/// What the completion says. Of a cancelled run no result is readable, here as for the agent that asked.
fn outcome(mut detail: OwnerCommandDetail, completion: Option<&str>) -> OwnerCommandDetail {
    let Some(members) = completion.and_then(|text| RawMembers::parse(text).ok()) else { return detail };
    match Status::parse(&detail.command.status) {
        Some(Status::Completed) => {
            detail.result_truncated = members.get("result_truncated") == Some("true");
            detail.result = members.get("result").map(str::to_owned);
        }
        Some(Status::Failed | Status::Cancelled) => detail.error = members.string("error"),
        Some(Status::Queued | Status::Running | Status::Expired) | None => return detail,
    }
    detail.total_tokens = members.get("total_tokens").and_then(|text| text.parse().ok());
    detail.reported_cost = members.get("reported_cost").and_then(|text| text.parse().ok());
    detail
}

fn count(n: i64) -> u64 {
    u64::try_from(n).unwrap_or(0)
}
