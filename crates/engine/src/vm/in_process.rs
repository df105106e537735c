//! The twin for tests and simulation: same interpreter, on a big-stack thread of this process.
//!
//! Only for scripts that are trusted not to be hostile: nothing bounds their memory or their native loops here.
//! Works under a paused tokio clock: while the script computes, a blocking task keeps the clock from running ahead.
use std::sync::{
    Arc,
    atomic::Ordering,
    mpsc::{Receiver, Sender, SyncSender, channel, sync_channel},
};

use tokio::sync::mpsc;

use super::{
    Arrived, Exit, ScriptVm, Session, VmError,
    machine::{self, Gone, Link, Pulse},
    wire::{FromVm, ToVm},
};
use crate::host::BoxFuture;

#[derive(Debug, Clone, Copy, Default)]
pub struct InProcessVm;

const READ_AHEAD: usize = 64;

impl ScriptVm for InProcessVm {
    fn open(&self) -> BoxFuture<'_, Result<Session, VmError>> {
        Box::pin(async move {
            let pulse = Arc::new(Pulse::default());
            let (orders, inbox) = channel();
            let (words, heard) = sync_channel(READ_AHEAD);
            machine::spawn(Thread { inbox, words }, Arc::clone(&pulse)).map_err(|why| VmError::NotStarted { program: "thread".into(), why })?;
            let (to, answers) = mpsc::unbounded_channel();
            let (said, from) = mpsc::channel(READ_AHEAD);
            let driver = tokio::spawn(drive(orders, heard, answers, said));
            let send = move |message| {
                // A driver that is gone means a script that has ended.
                let _ = to.send(message);
            };
            Ok(Session { to: Box::new(send), from, _life: Box::new(Life { pulse, driver }) })
        })
    }
}

/// Dropping it asks the script to stop between two jobs; a thread cannot be killed.
struct Life {
    pulse: Arc<Pulse>,
    driver: tokio::task::JoinHandle<()>,
}
impl Drop for Life {
    fn drop(&mut self) {
        self.pulse.stop.store(true, Ordering::SeqCst);
        self.driver.abort();
    }
}

/// Turn by turn: one order to the script, then everything it says until it waits again.
async fn drive(orders: Sender<ToVm>, mut heard: Receiver<FromVm>, mut answers: mpsc::UnboundedReceiver<ToVm>, said: mpsc::Sender<Arrived>) {
    while let Some(order) = answers.recv().await {
        if orders.send(order).is_err() {
            break;
        }
        loop {
            let listened = tokio::task::spawn_blocking(move || (heard.recv(), heard)).await;
            let Ok((word, rest)) = listened else { return };
            heard = rest;
            match word {
                Ok(FromVm::Idle) => break,
                Ok(word) => {
                    let is_last = matches!(word, FromVm::End(_) | FromVm::Linted(_));
                    if said.send(Arrived::Said(word)).await.is_err() || is_last {
                        return;
                    }
                }
                Err(_) => {
                    // Nobody listening is nobody to tell.
                    let _ = said.send(Arrived::Gone(Exit::Crashed("its thread ended".to_owned()))).await;
                    return;
                }
            }
        }
    }
}

struct Thread {
    inbox: Receiver<ToVm>,
    words: SyncSender<FromVm>,
}
impl Link for Thread {
    fn send(&mut self, message: FromVm) -> Result<(), Gone> {
        self.words.send(message).map_err(|_| Gone)
    }
    fn receive(&mut self) -> Result<ToVm, Gone> {
        self.inbox.recv().map_err(|_| Gone)
    }
}
