//! The control poll: go on, or stop? It carries progress up and is the lease of a running command.
use std::time::Duration;

use domain::{
    CommandId, ExecutionId, Timestamp,
    command::Status,
    limits::{CONTACT_STORED_EVERY_MS, NAME_CHARS_MAX, PROGRESS_TEXT_CHARS_MAX},
    text::cut_chars,
    wire::relay::Progress,
};

use super::{Device, Queue, Woken, start::ClaimError};
use crate::{
    bell::Bell,
    store::{StoreError, Tx, params},
};

/// Open questions shown to the agent, at most.
const WAITING_SHOWN_MAX: usize = 20;

struct Poll {
    device: Device,
    command: CommandId,
    execution: ExecutionId,
    progress: Option<String>,
    now: Timestamp,
}

struct Look {
    cancel: bool,
    /// The progress is new, or the lease is worth writing.
    is_news: bool,
}

impl Queue {
    /// The cancel flag: at once if it is set, else as soon as it is set, or after `hold`.
    pub async fn control(
        &self,
        device: &Device,
        command: CommandId,
        execution: ExecutionId,
        progress: Option<Progress>,
        hold: Duration,
    ) -> Result<bool, ClaimError> {
        let progress = progress.map(|p| serde_json::to_string(&bounded(p))).transpose().map_err(|e| StoreError::Corrupt(e.to_string()))?;
        let poll = Poll { device: device.clone(), command, execution: execution.clone(), progress, now: self.now() };
        let first = self.store.read(&poll, |tx, it| Box::pin(look(tx, it))).await?;
        if first.is_news {
            let lease = Poll { device: device.clone(), command, execution: execution.clone(), progress: poll.progress.clone(), now: poll.now };
            self.store.write(lease, |tx, it| Box::pin(renew(tx, it))).await?;
        }
        if first.cancel || hold.is_zero() {
            return Ok(first.cancel);
        }
        let again = Poll { progress: None, ..poll };
        let hold = self.hold(Bell::Command(command), hold);
        loop {
            let rung = hold.listen();
            let now = self.store.read(&again, |tx, it| Box::pin(look(tx, it))).await?;
            if now.cancel || hold.woken(rung).await == Woken::TimeUp {
                return Ok(now.cancel);
            }
        }
    }
}

async fn look(tx: &mut Tx, it: &Poll) -> Result<Look, ClaimError> {
    let sql = "SELECT status, execution_id, cancel_asked, progress, last_control_at FROM commands WHERE command_id = $1 AND device_id = $2";
    let row = tx.row(sql, params![it.command, it.device.id]).await?.ok_or(ClaimError::NotFound)?;
    let status = Status::parse(row.text(0)?).ok_or_else(|| StoreError::Corrupt("status".into()))?;
    if status != Status::Running || row.opt_id::<ExecutionId>(1)?.as_ref() != Some(&it.execution) {
        return Err(ClaimError::NotYours(status));
    }
    let progress_is_new = it.progress.is_some() && it.progress.as_deref() != row.opt_text(3)?;
    let lease_is_old = row.opt_time(4)?.is_none_or(|at| it.now.since_ms(at) >= CONTACT_STORED_EVERY_MS);
    Ok(Look { cancel: row.flag(2)?, is_news: progress_is_new || lease_is_old })
}

async fn renew(tx: &mut Tx, it: &Poll) -> Result<(), ClaimError> {
    let sql = "UPDATE commands SET last_control_at = $4, progress = coalesce($5, progress)
                WHERE command_id = $1 AND device_id = $2 AND status = 'running' AND execution_id = $3";
    tx.execute(sql, params![it.command, it.device.id, &it.execution, it.now, it.progress.as_ref()]).await?;
    Ok(())
}

/// Progress is told to an agent, so it is cut to what an agent may see. It never fails a poll.
fn bounded(mut progress: Progress) -> Progress {
    let cut = |text: &mut String, max: usize| *text = cut_chars(text, max).to_owned();
    cut(&mut progress.text, PROGRESS_TEXT_CHARS_MAX);
    if let Some(phase) = &mut progress.phase {
        cut(phase, NAME_CHARS_MAX);
    }
    progress.waiting_approval.truncate(WAITING_SHOWN_MAX);
    for waiting in &mut progress.waiting_approval {
        cut(&mut waiting.tool, NAME_CHARS_MAX);
        cut(&mut waiting.agent, NAME_CHARS_MAX);
    }
    progress
}
