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
    machine::{self, Gone, Link, Pulse, Purpose},
    wire::{FromVm, ToVm},
};
use crate::host::BoxFuture;

#[derive(Debug, Clone, Copy, Default)]
pub struct InProcessVm;

const READ_AHEAD: usize = 64;

impl ScriptVm for InProcessVm {
    fn open(&self, order: ToVm) -> BoxFuture<'_, Result<Session, VmError>> {
        Box::pin(async move {
            let pulse = Arc::new(Pulse::default());
            let (orders, inbox) = channel();
            let (words, heard) = sync_channel(READ_AHEAD);
            let spawned = machine::spawn(Purpose::of(&order), Thread { inbox, words }, Arc::clone(&pulse));
            spawned.map_err(|why| VmError::NotStarted { program: "thread".into(), why })?;
            let (to, answers) = mpsc::unbounded_channel();
            // The driver is not there yet, but its queue is.
            let _ = to.send(order);
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

/// Turn by turn: one order to the script, then everything it says until it waits again. What it said is passed on only then, so that the
/// order of events does not depend on how fast its thread is.
async fn drive(orders: Sender<ToVm>, mut heard: Receiver<FromVm>, mut answers: mpsc::UnboundedReceiver<ToVm>, said: mpsc::Sender<Arrived>) {
    while let Some(order) = answers.recv().await {
        if orders.send(order).is_err() {
            break;
        }
        let Ok((turn, rest)) = tokio::task::spawn_blocking(move || (listen(&heard), heard)).await else { return };
        heard = rest;
        for word in turn.words {
            if said.send(Arrived::Said(word)).await.is_err() {
                return;
            }
        }
        if !turn.goes_on {
            break;
        }
    }
    // Nobody listening, or an end already told, is nobody to tell.
    let _ = said.send(Arrived::Gone(Exit::Crashed("its thread ended".to_owned()))).await;
}

struct Turn {
    words: Vec<FromVm>,
    goes_on: bool,
}

fn listen(heard: &Receiver<FromVm>) -> Turn {
    let mut words = Vec::new();
    loop {
        match heard.recv() {
            Ok(FromVm::Idle) => return Turn { words, goes_on: true },
            Ok(word) => words.push(word),
            Err(_) => return Turn { words, goes_on: false },
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
