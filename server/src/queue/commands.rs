//! The owner's own list of commands, newest first.
use domain::{
    CommandId, ProjectId, RawJson, Timestamp,
    command::Status,
    wire::relay::{CommandList, OwnedCommand},
};

use super::{Device, Queue};
use crate::{
    raw::RawMembers,
    store::{Row, StoreError, Tx, params},
};

/// What the owner asks for. `before` is the sequence number where the page ends.
#[derive(Debug, Clone, Default)]
pub struct CommandFilter {
    pub project: Option<ProjectId>,
    pub status: Option<Status>,
    pub before: Option<i64>,
    pub limit: usize,
}

impl CommandFilter {
    /// The state that a query names. `Err` says which ones there are.
    pub fn status(word: Option<&str>) -> Result<Option<Status>, String> {
        let all = || Status::ALL.iter().map(|status| status.as_str()).collect::<Vec<_>>().join(", ");
        word.map(|word| Status::parse(word).ok_or_else(|| format!("status must be one of {}", all()))).transpose()
    }
}

struct List {
    device: Device,
    filter: CommandFilter,
    now: Timestamp,
}

impl Queue {
    /// Arguments and results only for sessions of the asking device.
    pub async fn owners_commands(&self, device: &Device, filter: CommandFilter) -> Result<CommandList, StoreError> {
        let list = List { device: device.clone(), filter, now: self.now() };
        self.store.read(&list, |tx, it| Box::pin(read_page(tx, it))).await
    }
}

async fn read_page(tx: &mut Tx, it: &List) -> Result<CommandList, StoreError> {
    let limit = it.filter.limit as i64;
    let sql =
        "SELECT c.command_id, c.project_id, c.graph_session_id, c.slug, a.name_json, c.device_id, c.status, c.reason, c.queued_at, c.started_at,
                      c.ended_at, c.execution_id, c.expires_at, c.seq,
                      CASE WHEN c.device_id = $2 THEN c.arguments ELSE NULL END, CASE WHEN c.device_id = $2 THEN c.completion ELSE NULL END
                 FROM commands c JOIN agents a ON a.agent_id = c.agent_id
                WHERE c.owner_id = $1 AND c.seq < $3 AND ($4 = '' OR c.project_id = $4) AND ($5 = '' OR c.status = $5)
                ORDER BY c.seq DESC LIMIT $6";
    let project = it.filter.project.map(|p| p.to_string()).unwrap_or_default();
    let status = it.filter.status.map(Status::as_str).unwrap_or_default();
    let before = it.filter.before.unwrap_or(i64::MAX);
    let rows = tx.query(sql, params![it.device.owner, it.device.id, before, project, status, limit + 1]).await?;
    let mut commands = Vec::with_capacity(rows.len());
    for row in rows.iter().take(it.filter.limit) {
        commands.push(owned(row, it.now)?);
    }
    let more = rows.len() > it.filter.limit;
    let last = rows.get(it.filter.limit.saturating_sub(1)).filter(|_| more);
    let next_cursor = last.map(|row| row.int(13)).transpose()?.map(|seq| seq.to_string());
    Ok(CommandList { commands, next_cursor })
}

fn owned(row: &Row, now: Timestamp) -> Result<OwnedCommand, StoreError> {
    let (queued_at, started_at, expires_at) = (row.time(8)?, row.opt_time(9)?, row.time(12)?);
    let expired = row.text(6)? == Status::Queued.as_str() && expires_at <= now;
    Ok(OwnedCommand {
        command_id: row.id::<CommandId>(0)?,
        project_id: row.id(1)?,
        graph_session_id: row.id(2)?,
        slug: row.text(3)?.to_owned(),
        agent: row.quoted(4)?,
        device_id: row.id(5)?,
        status: if expired { Status::Expired.as_str().to_owned() } else { row.text(6)?.to_owned() },
        reason: row.opt_text(7)?.map(str::to_owned),
        queued_at,
        started_at,
        ended_at: if expired { Some(expires_at) } else { row.opt_time(10)? },
        pickup_wait_ms: started_at.map(|at| at.since_ms(queued_at).max(0) as u64),
        execution_id: row.opt_id(11)?,
        arguments: row.opt_text(14)?.map(|_| row.raw(14)).transpose()?,
        result: row.opt_text(15)?.and_then(result_of),
    })
}

/// The `result` member of a completion, to the letter.
pub fn result_of(completion: &str) -> Option<RawJson> {
    RawJson::parse(RawMembers::parse(completion).ok()?.get("result")?).ok()
}
