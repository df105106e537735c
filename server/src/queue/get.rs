//! `get_graph_run`: what stands, at once or as soon as the state changes.
use std::{sync::LazyLock, time::Duration};

use domain::{CommandId, Timestamp, text::RUN_NOT_FOUND};
use tokio::time::Instant;

use super::{GRANT, Granted, Queue, Woken, grant_stands, view};
use crate::{
    bell::Bell,
    store::{Collides, StoreError, Tx, params},
};

#[derive(Debug, thiserror::Error)]
pub enum RunError {
    #[error("the access of this connected agent was removed")]
    Revoked,
    #[error("{RUN_NOT_FOUND}")]
    NotFound,
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Collides for RunError {
    fn store_error(&self) -> Option<&StoreError> {
        if let Self::Store(e) = self { Some(e) } else { None }
    }
}

/// Longer than a trivial Graph runs, shorter than anybody notices.
const START_TOLD_AFTER: Duration = Duration::from_millis(15);

/// The run of an agent whose grant stands, in one statement: of token, agent, moment and command.
pub(super) static STATEMENT: LazyLock<String> = LazyLock::new(|| view::statement(&format!("c.command_id = $4 AND c.agent_id = $2 AND EXISTS ({GRANT})")));

pub(super) struct Look {
    pub by: Granted,
    /// `None` for what cannot be an id: it takes the same way and the same time as an id that does not exist.
    pub command: Option<CommandId>,
    pub now: Timestamp,
}

impl Queue {
    /// The command as it stands; waits up to `wait` for any change of its status (or its cancel flag) while it is open. A start is told
    /// [`START_TOLD_AFTER`] it happened, so that a run that ends at once takes one call.
    pub async fn get(&self, by: &Granted, command: Option<CommandId>, wait: Duration) -> Result<view::CommandView, RunError> {
        let Some(id) = command.filter(|_| !wait.is_zero()) else { return self.look(by, command).await };
        let hold = self.hold(Bell::Command(id), wait);
        let (mut first, mut deadline, mut time_is_up) = (None, hold.deadline, false);
        loop {
            let rung = hold.listen();
            let now = self.look(by, command).await?;
            if time_is_up || now.status.is_terminal() {
                return Ok(now);
            }
            let &mut (status, cancel_asked) = first.get_or_insert((now.status, now.cancel_asked));
            if now.cancel_asked != cancel_asked {
                return Ok(now);
            }
            if now.status != status {
                deadline = deadline.min(Instant::now() + START_TOLD_AFTER);
            }
            time_is_up = hold.woken_before(deadline, rung).await == Woken::TimeUp;
        }
    }

    async fn look(&self, by: &Granted, command: Option<CommandId>) -> Result<view::CommandView, RunError> {
        let look = Look { by: by.clone(), command, now: self.now() };
        let mut view = self.store.read(&look, |tx, it| Box::pin(find(tx, it))).await?;
        self.freshen(&mut view.desktop);
        Ok(view)
    }
}

/// Another agent's run, one that never existed, a malformed id: one answer.
pub(super) async fn find(tx: &mut Tx, it: &Look) -> Result<view::CommandView, RunError> {
    let id = it.command.map_or_else(|| "00000000-0000-0000-0000-000000000000".to_owned(), |id| id.to_string());
    match view::find(tx, &STATEMENT, params![&it.by.token_hash, it.by.agent, it.now, id], it.now).await? {
        Some(view) => Ok(view),
        None if grant_stands(tx, &it.by, it.now).await? => Err(RunError::NotFound),
        None => Err(RunError::Revoked),
    }
}
