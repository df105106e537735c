//! `get_graph_run`: what stands, at once or as soon as the state changes.
use std::time::Duration;

use domain::{CommandId, Timestamp, text::RUN_NOT_FOUND};

use super::{Granted, Queue, Woken, grant_stands, view};
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

pub(super) struct Look {
    pub by: Granted,
    /// `None` for what cannot be an id: it takes the same way and the same time as an id that does not exist.
    pub command: Option<CommandId>,
    pub now: Timestamp,
}

impl Queue {
    /// The command as it stands; waits up to `wait` for any change of its status (or its cancel flag) while it is open.
    pub async fn get(&self, by: &Granted, command: Option<CommandId>, wait: Duration) -> Result<view::CommandView, RunError> {
        let first = self.look(by, command).await?;
        if wait.is_zero() || first.status.is_terminal() {
            return Ok(first);
        }
        let hold = self.hold(Bell::Command(first.command), wait);
        loop {
            let rung = hold.listen();
            let now = self.look(by, command).await?;
            if now.status != first.status || now.cancel_asked != first.cancel_asked || hold.woken(rung).await == Woken::TimeUp {
                return self.look(by, command).await;
            }
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
    if !grant_stands(tx, &it.by, it.now).await? {
        return Err(RunError::Revoked);
    }
    let id = it.command.map_or_else(|| "00000000-0000-0000-0000-000000000000".to_owned(), |id| id.to_string());
    let view = view::find(tx, "c.command_id = $1 AND c.agent_id = $2", params![id, it.by.agent], it.now).await?;
    view.ok_or(RunError::NotFound)
}
