//! A completion arrives, perhaps again, perhaps too late. Whatever it says, a terminal state never changes.
use domain::{
    CommandId, Completion, ExecutionId, Timestamp,
    command::Status,
    completion::Used,
    limits::COMPLETION_UTF16_MAX,
    text::{RUN_NOT_FOUND, utf16_len},
    wire::relay::read_completion,
};

use super::{Device, Queue, arrows, start::standing};
use crate::store::{Collides, StoreError, Tx, params};

#[derive(Debug, thiserror::Error)]
pub enum CompleteError {
    #[error("{RUN_NOT_FOUND}")]
    NotFound,
    #[error("a completion's JSON has {0} UTF-16 code units; at most {COMPLETION_UTF16_MAX} are allowed")]
    TooLong(usize),
    #[error("not a completion: {0}")]
    Malformed(String),
    #[error("the command is {0} by another execution")]
    OtherExecution(Status),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Collides for CompleteError {
    fn store_error(&self) -> Option<&StoreError> {
        if let Self::Store(e) = self { Some(e) } else { None }
    }
}

/// What the device is told. `recorded` is false when another ending stood already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Recorded {
    pub recorded: bool,
    pub status: Status,
}

struct Complete {
    device: Device,
    command: CommandId,
    text: String,
    report: Option<arrows::Reported>,
    now: Timestamp,
}

impl Queue {
    pub async fn complete(&self, device: &Device, command: CommandId, body: &str) -> Result<Recorded, CompleteError> {
        let raw = domain::RawJson::parse(body).map_err(|e| CompleteError::Malformed(e.to_string()))?;
        let text = raw.as_str().to_owned();
        let units = utf16_len(&text);
        if units > COMPLETION_UTF16_MAX {
            return Err(CompleteError::TooLong(units));
        }
        let completion = read_completion(&text).map_err(CompleteError::Malformed)?;
        let report = completion.execution().map(|execution| report(execution, &completion, &text));
        let complete = Complete { device: device.clone(), command, text, report, now: self.now() };
        self.store.write(complete, |tx, it| Box::pin(record(tx, it))).await
    }
}

fn report(execution: &ExecutionId, completion: &Completion, text: &str) -> arrows::Reported {
    let ending = completion.ending();
    let (error, used) = match completion {
        Completion::Ended { error, used, .. } => (error.clone(), *used),
        Completion::Done { used, .. } => (String::new(), *used),
        Completion::DoneTruncated { .. } | Completion::NotShared => (String::new(), Used::default()),
    };
    let cancelled = domain::Ending::Cancelled(ending.as_cancelled());
    let without_result = Completion::Ended { execution: execution.clone(), ending: cancelled, error, used };
    arrows::Reported { execution: execution.clone(), ending, text: text.to_owned(), text_if_cancelled: without_result.to_json() }
}

async fn record(tx: &mut Tx, it: &Complete) -> Result<Recorded, CompleteError> {
    let recorded = match &it.report {
        Some(report) => arrows::end(tx, it.command, it.device.id, report, it.now).await?,
        None => arrows::not_shared(tx, it.command, it.device.id, &it.text, it.now).await?.then_some(Status::Cancelled),
    };
    if let Some(status) = recorded {
        return Ok(Recorded { recorded: true, status });
    }
    let (status, holder) = standing(tx, it.command, it.device.id, it.now).await?.ok_or(CompleteError::NotFound)?;
    if !status.is_terminal() {
        return Err(CompleteError::OtherExecution(status));
    }
    Ok(Recorded { recorded: is_repeated(tx, it, holder.as_ref()).await?, status })
}

/// The very report that made the state, sent again because its answer was lost.
async fn is_repeated(tx: &mut Tx, it: &Complete, holder: Option<&ExecutionId>) -> Result<bool, StoreError> {
    if it.report.as_ref().map(|r| &r.execution) != holder {
        return Ok(false);
    }
    let sql = "SELECT completion FROM commands WHERE command_id = $1";
    let Some(row) = tx.row(sql, params![it.command]).await? else { return Ok(false) };
    let kept = row.opt_text(0)?;
    Ok(kept == Some(it.text.as_str()) || (kept.is_some() && kept == it.report.as_ref().map(|r| r.text_if_cancelled.as_str())))
}
