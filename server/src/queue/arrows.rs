//! Every statement that changes a command's state, side by side.
//!
//! Each repeats in its WHERE the guard of the arrow it draws in [`domain::command::apply`]; a test walks the full state × event matrix
//! and compares. The WHERE is the lock: of two that race one matches, the other finds the state that stands.
use domain::{
    AgentId, CommandId, DeviceId, Ending, ExecutionId, OwnerId, ProjectId, Timestamp,
    command::{CancelReason, FailReason, Status},
};

use crate::{
    bell::Bell,
    store::{Row, StoreError, Tx, Value, params},
};

/// Who asks for the end of one command.
#[derive(Debug, Clone, Copy)]
pub enum Canceller {
    Agent(AgentId),
    Owner(OwnerId),
}

/// Whose open commands are withdrawn, and why.
#[derive(Debug, Clone, Copy)]
pub enum Withdrawn {
    AgentRevoked(AgentId),
    ProjectDeleted(ProjectId),
    /// The device disabled the project: only what has not begun, and only its own.
    Disabled(DeviceId, ProjectId),
    /// The owner unpaired the device: what has not begun will not.
    Unpaired(DeviceId),
}

/// queued → cancelled (cancelled_while_queued); running → the flag. Whether anything changed.
pub async fn cancel(tx: &mut Tx, command: CommandId, by: Canceller, now: Timestamp) -> Result<bool, StoreError> {
    let (column, who) = match by {
        Canceller::Agent(id) => ("agent_id", id.to_string()),
        Canceller::Owner(id) => ("owner_id", id.to_string()),
    };
    let sql = format!(
        "UPDATE commands SET cancel_asked = CASE WHEN status = 'running' THEN 1 ELSE 0 END,
                ended_at = CASE WHEN status = 'queued' THEN CAST($3 AS BIGINT) ELSE ended_at END,
                reason = CASE WHEN status = 'queued' THEN '{}' ELSE reason END,
                status = CASE WHEN status = 'queued' THEN 'cancelled' ELSE status END
          WHERE command_id = $1 AND {column} = $2 AND ((status = 'queued' AND expires_at > $3) OR (status = 'running' AND cancel_asked = 0))",
        CancelReason::CancelledWhileQueued
    );
    let changed = tx.execute(&sql, params![command, who, now]).await? > 0;
    if changed {
        tx.ring(Bell::Command(command));
    }
    Ok(changed)
}

/// An agent's open commands are looked for among those of its owner's devices: they alone stand in an index without history.
pub const OF_AGENT: &str =
    "device_id IN (SELECT d.device_id FROM devices d JOIN agents a ON a.owner_id = d.owner_id WHERE a.agent_id = $1) AND agent_id = $1";

/// queued → cancelled with the reason; running → the flag, where the withdrawal reaches running commands.
pub async fn withdraw(tx: &mut Tx, what: Withdrawn, now: Timestamp) -> Result<u64, StoreError> {
    let (whose, mut ids, reason, running_too) = match what {
        Withdrawn::AgentRevoked(id) => (OF_AGENT, vec![Value::from(id)], CancelReason::AgentRevoked, true),
        Withdrawn::ProjectDeleted(id) => ("project_id = $1", vec![Value::from(id)], CancelReason::NotShared, true),
        Withdrawn::Disabled(device, project) => {
            ("device_id = $1 AND project_id = $2", vec![Value::from(device), Value::from(project)], CancelReason::NotShared, false)
        }
        Withdrawn::Unpaired(id) => ("device_id = $1", vec![Value::from(id)], CancelReason::NotShared, false),
    };
    let mut changed = Vec::new();
    if running_too {
        let sql = format!("UPDATE commands SET cancel_asked = 1 WHERE {whose} AND status = 'running' AND cancel_asked = 0 RETURNING command_id");
        changed = tx.query(&sql, &ids).await?;
    }
    let sql = format!(
        "UPDATE commands SET status = 'cancelled', reason = '{reason}', ended_at = ${} WHERE {whose} AND status = 'queued' RETURNING command_id",
        ids.len() + 1
    );
    ids.push(now.into());
    changed.extend(tx.query(&sql, &ids).await?);
    ring_each(tx, &changed)?;
    Ok(changed.len() as u64)
}

/// A granted claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Started {
    /// A cancel was accepted meanwhile: end it without running it.
    pub cancel: bool,
    /// How long it waited for pickup; `None` when it had been granted before.
    pub waited_ms: Option<i64>,
}

/// queued → running, or running by this very execution (a lost answer). `None` when it is somebody else's or has ended.
pub async fn start(
    tx: &mut Tx,
    command: CommandId,
    device: DeviceId,
    execution: &ExecutionId,
    now: Timestamp,
) -> Result<Option<Started>, StoreError> {
    let sql = "UPDATE commands SET status = 'running', execution_id = $3, started_at = coalesce(started_at, $4), last_control_at = $4
                WHERE command_id = $1 AND device_id = $2
                  AND ((status = 'queued' AND expires_at > $4) OR (status = 'running' AND execution_id = $3))
            RETURNING cancel_asked, started_at, queued_at";
    let Some(row) = tx.row(sql, params![command, device, execution, now]).await? else { return Ok(None) };
    tx.ring(Bell::Command(command));
    let (started_at, queued_at) = (row.time(1)?, row.time(2)?);
    Ok(Some(Started { cancel: row.flag(0)?, waited_ms: (started_at == now).then(|| now.since_ms(queued_at)) }))
}

/// What a device reports about the end of an execution.
#[derive(Debug, Clone)]
pub struct Reported {
    pub execution: ExecutionId,
    pub ending: Ending,
    /// The completion's text, kept to the letter.
    pub text: String,
    /// The same without a result: what is kept where an accepted cancel has won.
    pub text_if_cancelled: String,
}

/// running (this execution) → its ending, or cancelled where a cancel was accepted; queued → its ending (the server forgot the start).
pub async fn end(tx: &mut Tx, command: CommandId, device: DeviceId, report: &Reported, now: Timestamp) -> Result<Option<Status>, StoreError> {
    let (status, reason) = words(report.ending);
    let sql = "UPDATE commands SET status = CASE WHEN cancel_asked = 1 THEN 'cancelled' ELSE $4 END,
                      reason = CASE WHEN cancel_asked = 1 THEN $5 ELSE $6 END,
                      completion = CASE WHEN cancel_asked = 1 THEN $7 ELSE $8 END,
                      execution_id = $3, ended_at = $9, progress = NULL
                WHERE command_id = $1 AND device_id = $2 AND (status = 'queued' OR (status = 'running' AND execution_id = $3))
            RETURNING status";
    let params = params![
        command,
        device,
        &report.execution,
        status.as_str(),
        report.ending.as_cancelled().as_str(),
        reason,
        &report.text_if_cancelled,
        &report.text,
        now
    ];
    let Some(row) = tx.row(sql, params).await? else { return Ok(None) };
    tx.ring(Bell::Command(command));
    Ok(Status::parse(row.text(0)?))
}

/// queued → cancelled (not_shared): the device found before the claim that consent is gone.
pub async fn not_shared(tx: &mut Tx, command: CommandId, device: DeviceId, text: &str, now: Timestamp) -> Result<bool, StoreError> {
    let sql = format!(
        "UPDATE commands SET status = 'cancelled', reason = '{}', completion = $3, ended_at = $4 WHERE command_id = $1 AND device_id = $2 AND status = 'queued'",
        CancelReason::NotShared
    );
    let changed = tx.execute(&sql, params![command, device, text, now]).await? > 0;
    if changed {
        tx.ring(Bell::Command(command));
    }
    Ok(changed)
}

/// queued → expired, for all whose time has come. They ended when it came, not when somebody looked.
pub async fn expire_queued(tx: &mut Tx, now: Timestamp) -> Result<u64, StoreError> {
    let sql = "UPDATE commands SET status = 'expired', ended_at = expires_at WHERE status = 'queued' AND expires_at <= $1 RETURNING command_id";
    let changed = tx.query(sql, params![now]).await?;
    ring_each(tx, &changed)?;
    Ok(changed.len() as u64)
}

/// running → failed or cancelled (device_did_not_return), for all whose device has been silent since `silent_since`.
pub async fn device_gone(tx: &mut Tx, silent_since: Timestamp, now: Timestamp) -> Result<u64, StoreError> {
    let sql = format!(
        "UPDATE commands SET status = CASE WHEN cancel_asked = 1 THEN 'cancelled' ELSE 'failed' END,
                reason = CASE WHEN cancel_asked = 1 THEN '{}' ELSE '{}' END, ended_at = $2, progress = NULL
          WHERE status = 'running' AND coalesce(last_control_at, started_at, queued_at) <= $1
            AND NOT EXISTS (SELECT 1 FROM devices d WHERE d.device_id = commands.device_id AND d.last_contact_at > $1)
      RETURNING command_id",
        CancelReason::DeviceDidNotReturn,
        FailReason::DeviceDidNotReturn
    );
    let changed = tx.query(&sql, params![silent_since, now]).await?;
    ring_each(tx, &changed)?;
    Ok(changed.len() as u64)
}

fn ring_each(tx: &mut Tx, changed: &[Row]) -> Result<(), StoreError> {
    for row in changed {
        tx.ring(Bell::Command(row.id(0)?));
    }
    Ok(())
}

/// An ending as the two words of its columns.
pub const fn words(ending: Ending) -> (Status, &'static str) {
    match ending {
        Ending::Completed => (Status::Completed, "done"),
        Ending::Failed(why) => (Status::Failed, why.as_str()),
        Ending::Cancelled(why) => (Status::Cancelled, why.as_str()),
    }
}
