//! The threads that answer requests: each a runtime of one thread, with connections of its own.
//!
//! A connection stays where it was put, so that what one request starts changes no thread: waking another one takes longer than a small
//! request. Connections come in turn. What blocks (a commit) moves the other tasks of its runtime to a fresh thread for as long.
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::runtime::{Builder, Handle, Runtime};

pub struct Workers {
    runtimes: Vec<Runtime>,
    next: AtomicUsize,
}

impl Workers {
    /// One for each core of this machine. Fails where the system gives no more threads or files.
    pub fn start() -> std::io::Result<Self> {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let runtime = |_| Builder::new_multi_thread().worker_threads(1).thread_name("worker").enable_all().build();
        Ok(Self { runtimes: (0..cores).map(runtime).collect::<Result<_, _>>()?, next: AtomicUsize::new(0) })
    }

    /// None of its own: everything runs on the caller's runtime.
    pub const fn of_caller() -> Self {
        Self { runtimes: Vec::new(), next: AtomicUsize::new(0) }
    }

    /// Whose turn it is.
    pub(crate) fn next(&self) -> Handle {
        let turn = self.next.fetch_add(1, Ordering::Relaxed);
        turn.checked_rem(self.runtimes.len()).and_then(|at| self.runtimes.get(at)).map_or_else(Handle::current, |r| r.handle().clone())
    }
}

/// What is still in hand is dropped: whoever drains waits before.
impl Drop for Workers {
    fn drop(&mut self) {
        self.runtimes.drain(..).for_each(Runtime::shutdown_background);
    }
}
