//! The end of a command as its agent or the owner asks for it: at once while it is queued, by a flag while it runs.
use domain::{CommandId, OwnerId, Timestamp};

use super::{
    Granted, Queue,
    arrows::{self, Canceller},
    get::{self, Look, RunError},
    view,
};
use crate::store::{Tx, params};

struct OwnersCancel {
    owner: OwnerId,
    command: CommandId,
    now: Timestamp,
}

impl Queue {
    /// Cancelling what has ended, or again, changes nothing and answers with the state that stands.
    pub async fn cancel(&self, by: &Granted, command: Option<CommandId>) -> Result<view::CommandView, RunError> {
        let look = Look { by: by.clone(), command, now: self.now() };
        let mut view = self.store.write(look, |tx, it| Box::pin(agents_cancel(tx, it))).await?;
        self.freshen(&mut view.desktop);
        Ok(view)
    }

    pub async fn owner_cancel(&self, owner: OwnerId, command: CommandId) -> Result<view::CommandView, RunError> {
        let cancel = OwnersCancel { owner, command, now: self.now() };
        self.store.write(cancel, |tx, it| Box::pin(owners_cancel(tx, it))).await
    }
}

async fn agents_cancel(tx: &mut Tx, it: &Look) -> Result<view::CommandView, RunError> {
    if let Some(id) = it.command
        && super::grant_stands(tx, &it.by, it.now).await?
    {
        arrows::cancel(tx, id, Canceller::Agent(it.by.agent), it.now).await?;
    }
    get::find(tx, it).await
}

async fn owners_cancel(tx: &mut Tx, it: &OwnersCancel) -> Result<view::CommandView, RunError> {
    arrows::cancel(tx, it.command, Canceller::Owner(it.owner), it.now).await?;
    let view = view::find(tx, &view::statement("c.command_id = $1 AND c.owner_id = $2"), params![it.command, it.owner], it.now).await?;
    view.ok_or(RunError::NotFound)
}
