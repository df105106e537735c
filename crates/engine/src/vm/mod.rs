//! Where a script runs: in a child process ([`ChildVm`]), or on a thread for tests and simulation ([`InProcessVm`]).
//!
//! Whoever starts a script gets a [`Session`]: it says what the script asks for, takes the answers, and ends the script when dropped.
mod child;
mod frames;
mod in_process;
mod machine;
mod stdio;
mod wire;

use std::any::Any;

use tokio::sync::mpsc;

pub use child::ChildVm;
pub use in_process::InProcessVm;
#[doc(hidden)]
pub use stdio::{EXIT_OUT_OF_MEMORY, HEAP_USED, serve_stdio};
pub(crate) use wire::{Answer, Budget, Call, End, Failure, Fault, FaultKind, FromVm, Note, Place, Start, ToVm, What};

use crate::host::BoxFuture;

/// A place to run scripts in.
pub trait ScriptVm: Send + Sync + 'static {
    /// A fresh interpreter that waits for its one order.
    fn open(&self) -> BoxFuture<'_, Result<Session, VmError>>;
}

#[derive(Debug, thiserror::Error)]
pub enum VmError {
    #[error("the script process {program} could not be started: {why}")]
    NotStarted { program: String, why: std::io::Error },
}

/// One interpreter. Dropping it ends it at once.
pub struct Session {
    to: Box<dyn Fn(ToVm) + Send + Sync>,
    from: mpsc::Receiver<Arrived>,
    _life: Box<dyn Any + Send>,
}

impl Session {
    /// Never blocks: a script has at most so many calls in flight.
    pub(crate) fn send(&self, message: ToVm) {
        (self.to)(message);
    }
    pub(crate) async fn next(&mut self) -> Arrived {
        self.from.recv().await.unwrap_or(Arrived::Gone(Exit::Crashed("it ended without a word".to_owned())))
    }
}

pub(crate) enum Arrived {
    Said(FromVm),
    /// The process is gone without having said how it ended.
    Gone(Exit),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Exit {
    OutOfMemory,
    Busy,
    /// A signal or an unknown code: in practice a native stack overflow.
    Crashed(String),
}

/// The end of a path that is too long to show.
pub(crate) fn cut_path(path: &str) -> String {
    const SHOWN: usize = 80;
    let count = path.chars().count();
    if count <= SHOWN { path.to_owned() } else { format!("{}…", domain::text::cut_chars(path, SHOWN)) }
}
