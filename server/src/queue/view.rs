//! One command as its connected agent may see it, read in one statement.
use domain::{
    CommandId, DeviceId, ExecutionId, GraphSessionId, ProjectId, Timestamp,
    command::Status,
    limits::DEVICE_ONLINE_MS,
    wire::relay::{Pickup, Progress},
};

use super::Queue;
use crate::{
    contact::Who,
    raw::RawMembers,
    store::{Row, StoreError, Tx, Value},
};

/// A device as an agent may see it.
#[derive(Debug, Clone, PartialEq)]
pub struct Desktop {
    pub device: DeviceId,
    pub name: String,
    pub last_contact_at: Option<Timestamp>,
    pub pickup: Pickup,
    pub paused: bool,
}

impl Desktop {
    /// Computed from the last contact, never stored.
    pub fn online(&self, now: Timestamp) -> bool {
        self.last_contact_at.is_some_and(|at| now.since_ms(at) < DEVICE_ONLINE_MS)
    }
}

/// One command, and what stands around it.
#[derive(Debug, Clone, PartialEq)]
pub struct CommandView {
    pub command: CommandId,
    pub project: ProjectId,
    pub session: GraphSessionId,
    pub status: Status,
    pub reason: Option<String>,
    pub execution: Option<ExecutionId>,
    pub cancel_asked: bool,
    pub queued_at: Timestamp,
    pub started_at: Option<Timestamp>,
    pub ended_at: Option<Timestamp>,
    pub expires_at: Timestamp,
    pub progress: Option<Progress>,
    /// The completion's text as the device posted it.
    pub completion: Option<String>,
    pub desktop: Desktop,
    /// Queued commands of the same device that stand before this one.
    pub ahead: i64,
    /// Commands that device is running now.
    pub running: i64,
}

impl CommandView {
    /// It completed, but its result was too long to travel.
    pub fn result_was_truncated(&self) -> bool {
        let members = self.completion.as_deref().and_then(|text| RawMembers::parse(text).ok());
        members.is_some_and(|m| m.get("result_truncated") == Some("true"))
    }

    pub fn pickup_wait_ms(&self) -> Option<i64> {
        self.started_at.map(|at| at.since_ms(self.queued_at).max(0))
    }
}

pub const DESKTOP_COLUMNS: &str = "d.device_id, d.name_json, d.last_contact_at, d.pickup, d.paused";

/// Everything a view needs. The counts are taken only for a queued command, from indexes that hold queued and running ones alone.
const COLUMNS: &str = "c.command_id, c.project_id, c.graph_session_id, c.status, c.reason, c.execution_id, c.cancel_asked, c.queued_at,
  c.started_at, c.ended_at, c.expires_at, c.progress, c.completion,
  CASE WHEN c.status = 'queued' THEN (SELECT count(*) FROM commands q WHERE q.device_id = c.device_id AND q.status = 'queued' AND q.seq < c.seq) ELSE 0 END,
  CASE WHEN c.status = 'queued' THEN (SELECT count(*) FROM commands r WHERE r.device_id = c.device_id AND r.status = 'running') ELSE 0 END";

/// Reads one command by a [`statement`].
pub async fn find(tx: &mut Tx, statement: &str, params: &[Value], now: Timestamp) -> Result<Option<CommandView>, StoreError> {
    tx.row(statement, params).await?.map(|row| read(&row, now)).transpose()
}

/// Of one command, by a condition on `c`.
pub fn statement(condition: &str) -> String {
    format!("SELECT {COLUMNS}, {DESKTOP_COLUMNS} FROM commands c JOIN devices d ON d.device_id = c.device_id WHERE {condition}")
}

fn read(row: &Row, now: Timestamp) -> Result<CommandView, StoreError> {
    let stored = Status::parse(row.text(3)?).ok_or_else(|| StoreError::Corrupt("status".into()))?;
    let expires_at = row.time(10)?;
    // Judged by the clock, not by when somebody last swept.
    let expired = stored == Status::Queued && expires_at <= now;
    let progress = row.opt_text(11)?.map(serde_json::from_str).transpose().map_err(|e| StoreError::Corrupt(e.to_string()))?;
    Ok(CommandView {
        command: row.id(0)?,
        project: row.id(1)?,
        session: row.id(2)?,
        status: if expired { Status::Expired } else { stored },
        reason: row.opt_text(4)?.map(str::to_owned),
        execution: row.opt_id(5)?,
        cancel_asked: row.flag(6)?,
        queued_at: row.time(7)?,
        started_at: row.opt_time(8)?,
        ended_at: if expired { Some(expires_at) } else { row.opt_time(9)? },
        expires_at,
        progress,
        completion: row.opt_text(12)?.map(str::to_owned),
        ahead: row.int(13)?,
        running: row.int(14)?,
        desktop: desktop(row, 15)?,
    })
}

/// Reads [`DESKTOP_COLUMNS`] from `first` on.
pub fn desktop(row: &Row, first: usize) -> Result<Desktop, StoreError> {
    Ok(Desktop {
        device: row.id(first)?,
        name: row.quoted(first + 1)?,
        last_contact_at: row.opt_time(first + 2)?,
        pickup: if row.text(first + 3)? == "doorbell" { Pickup::Doorbell } else { Pickup::Poll },
        paused: row.flag(first + 4)?,
    })
}

impl Queue {
    /// What this instance has heard counts before what is stored.
    pub(crate) fn freshen(&self, desktop: &mut Desktop) {
        desktop.last_contact_at = self.contacts.last(Who::Device(desktop.device), desktop.last_contact_at);
    }
}
