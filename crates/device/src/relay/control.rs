//! While a command runs: asks every 3 s "go on, or stop?", carries the progress up, and passes a stop on exactly once.
use std::{convert::Infallible, time::Duration};

use domain::{
    CommandId, ExecutionId,
    limits::{CONTROL_HOLD_MS_MAX, CONTROL_POLL_EVERY_MS},
    wire::relay::{ControlAnswer, ControlRequest},
};
use futures::{StreamExt, stream::FuturesUnordered};
use tokio::{sync::watch, task::JoinHandle, time::Instant};

use super::{AskError, Relay, RunNews};

/// A trivial Graph ends sooner and is spared the question.
const FIRST_HELD_AFTER: Duration = Duration::from_millis(50);
const EVERY: Duration = Duration::from_millis(CONTROL_POLL_EVERY_MS);
/// An unanswered poll does not keep the next ones from asking.
const OPEN_POLLS_MAX: usize = 3;

impl Relay {
    /// Never ends by itself; dropped when the execution has ended. Questions on the wire are left to be answered (the completion ends a
    /// held one), so that their connection stays usable.
    pub(super) async fn watch_for_stop(&self, command: CommandId, execution: &ExecutionId, mut news: watch::Receiver<RunNews>) -> Infallible {
        let hold_ms = self.wishes().pickup_instant.then_some(CONTROL_HOLD_MS_MAX);
        let mut next = Instant::now() + if hold_ms.is_some() { FIRST_HELD_AFTER } else { EVERY };
        let mut open: FuturesUnordered<JoinHandle<Result<ControlAnswer, AskError>>> = FuturesUnordered::new();
        // Asked to stop, and the engine was told. A flag read before `fleet_started` is kept until the run has an id.
        let (mut stop, mut told, mut feed_open) = (false, false, true);
        loop {
            tokio::select! {
                biased; // answers, questions and news of one moment are taken in one order: a simulated world must run twice alike
                () = tokio::time::sleep_until(next), if open.len() < OPEN_POLLS_MAX => {
                    next = Instant::now() + EVERY;
                    let hold_ms = hold_ms.filter(|_| !stop); // once asked to stop, a held question would be answered at once
                    let progress = Some(news.borrow().progress_at(Instant::now()));
                    let request = ControlRequest { execution_id: execution.clone(), progress, hold_ms };
                    if let Some(client) = self.client() {
                        open.push(tokio::spawn(async move { client.control(command, &request).await }));
                    }
                }
                Some(answer) = open.next(), if !open.is_empty() => {
                    let Ok(answer) = answer else { continue };
                    match self.heard(answer) {
                        Ok(ControlAnswer { cancel: true }) if !stop => {
                            stop = true;
                            if let Err(e) = self.store.note_cancel_asked(execution) {
                                tracing::warn!(%execution, "the cancel flag could not be stored: {e}");
                            }
                        }
                        // No longer this execution's: whatever it goes on doing would be for nobody.
                        Err(AskError::Refused { status: 409, .. }) => stop = true,
                        Ok(_) | Err(_) => {}
                    }
                }
                changed = news.changed(), if stop && !told && feed_open => feed_open = changed.is_ok(),
            }
            if stop && !told {
                let run_id = news.borrow_and_update().run_id.clone();
                if let Some(run_id) = run_id {
                    self.ports.runner.fleet_cancel_run(&run_id);
                    told = true;
                }
            }
        }
    }
}
