//! The claim: a device says that it is about to run a command, immediately before it does.
use domain::{CommandId, ExecutionId, Timestamp, command::Status, text::RUN_NOT_FOUND};

use super::{
    Device, Queue,
    arrows::{self, Started},
};
use crate::store::{Collides, StoreError, Tx, params};

#[derive(Debug, thiserror::Error)]
pub enum ClaimError {
    #[error("{RUN_NOT_FOUND}")]
    NotFound,
    /// The command is no longer this execution's. The state that stands goes with it.
    #[error("the command is {0} and not this execution's")]
    NotYours(Status),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Collides for ClaimError {
    fn store_error(&self) -> Option<&StoreError> {
        if let Self::Store(e) = self { Some(e) } else { None }
    }
}

struct Start {
    device: Device,
    command: CommandId,
    execution: ExecutionId,
    now: Timestamp,
}

impl Queue {
    /// Grants the command to this execution, again if it already has it.
    pub async fn start(&self, device: &Device, command: CommandId, execution: ExecutionId) -> Result<Started, ClaimError> {
        let start = Start { device: device.clone(), command, execution, now: self.now() };
        self.store.write(start, |tx, it| Box::pin(run(tx, it))).await
    }
}

async fn run(tx: &mut Tx, it: &Start) -> Result<Started, ClaimError> {
    if let Some(started) = arrows::start(tx, it.command, it.device.id, &it.execution, it.now).await? {
        return Ok(started);
    }
    let (status, _) = standing(tx, it.command, it.device.id, it.now).await?.ok_or(ClaimError::NotFound)?;
    Err(ClaimError::NotYours(status))
}

/// The state that stands, of a command of this device, and whose execution it is.
pub(super) async fn standing(
    tx: &mut Tx,
    command: CommandId,
    device: domain::DeviceId,
    now: Timestamp,
) -> Result<Option<(Status, Option<ExecutionId>)>, StoreError> {
    let sql = "SELECT status, execution_id, expires_at FROM commands WHERE command_id = $1 AND device_id = $2";
    let Some(row) = tx.row(sql, params![command, device]).await? else { return Ok(None) };
    let status = Status::parse(row.text(0)?).ok_or_else(|| StoreError::Corrupt("status".into()))?;
    let expired = status == Status::Queued && row.time(2)? <= now;
    Ok(Some((if expired { Status::Expired } else { status }, row.opt_id(1)?)))
}
