//! Sends what is in the outbox.
use domain::CommandId;

use super::{AskError, PassError, Relay};
use crate::{
    crash,
    store::{OutboxRow, Verdict},
};

impl Relay {
    /// Tries every due completion, oldest first. One that is refused does not hold up the others; where nobody answers, the rest waits.
    pub(super) async fn deliver_all(&self) -> Result<(), PassError> {
        let Some((_, link)) = self.linked() else { return Ok(()) };
        for row in self.store.outbox_due(link.device, self.now())? {
            self.deliver(&row).await?;
        }
        Ok(())
    }

    /// The completion of one command, if it is due and the server may be asked.
    pub(super) async fn deliver_one(&self, command: CommandId) -> Result<(), PassError> {
        if self.is_quiet() {
            return Ok(());
        }
        let Some((_, link)) = self.linked() else { return Ok(()) };
        for row in self.store.outbox_due(link.device, self.now())?.iter().filter(|row| row.command == command) {
            self.deliver(row).await?;
        }
        Ok(())
    }

    /// An error only where the next request would fare no better.
    async fn deliver(&self, row: &OutboxRow) -> Result<(), PassError> {
        let Some(client) = self.client() else { return Ok(()) };
        let answer = self.heard(client.complete(row.command, &row.body).await);
        crash::point("after_completion_posted");
        let verdict = match &answer {
            Ok(answer) => Verdict::Answered { recorded: answer.recorded, status: answer.status.clone() },
            Err(error) if error.is_final() => Verdict::Refused { words: error.sentence().to_column() },
            Err(error) => Verdict::NotDelivered { words: error.sentence().to_column() },
        };
        self.store.outbox_settle(row.command, &verdict, self.now())?;
        if let Verdict::Answered { .. } = verdict {
            crash::point("after_outbox_delete");
        }
        match answer {
            Err(error) if error.concerns_all() => Err(PassError::Ask(error)),
            Ok(_) | Err(AskError::Refused { .. }) | Err(_) => Ok(()),
        }
    }
}
