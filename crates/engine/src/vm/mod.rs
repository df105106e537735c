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
pub use stdio::{EXIT_OUT_OF_MEMORY, HEAP_USED, LINT, serve_stdio};
pub(crate) use wire::{Answer, Budget, Call, End, Failure, Fault, FaultKind, FromVm, Note, Place, Start, ToVm, What};

use crate::host::BoxFuture;

/// A place to run scripts in.
pub trait ScriptVm: Send + Sync + 'static {
    /// A fresh interpreter with its one order. Dropping the future ends it at once.
    fn open(&self, order: ToVm) -> BoxFuture<'_, Result<Session, VmError>>;
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
    /// By somebody else's hand, on Linux most often the kernel's when memory runs out.
    Killed,
    /// A signal or an unknown code: in practice a native stack overflow.
    Crashed(String),
}

pub(crate) fn busy_words(busy_ms: u64) -> String {
    format!("The script worked for {} seconds without coming back; it probably never ends.", busy_ms as f64 / 1000.0)
}

/// The end of a path that is too long to show.
pub(crate) fn cut_path(path: &str) -> String {
    const SHOWN: usize = 80;
    let count = path.chars().count();
    if count <= SHOWN { path.to_owned() } else { format!("{}…", domain::text::cut_chars(path, SHOWN)) }
}
