//! One short-lived `graph-vm` process per script.
//!
//! A spare one is kept ready, so that a script starts without waiting for a process. It may have died while it waited: it must acknowledge
//! its order before anything of the order is done, else a fresh process gets the order, once. A look for syntax errors leaves the spare
//! alone: its own process makes no interpreter. The parent may kill a process at any moment: it holds nothing of value. It ends by itself
//! when its standard input does, so none outlives the app. One whose script has ended goes a moment later: taking it down keeps a processor
//! busy, and its result comes first.
use std::{
    path::{Path, PathBuf},
    process::{ExitStatus, Stdio},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::{
    io::BufReader,
    process::{Child, ChildStdin, ChildStdout, Command},
    runtime::Handle,
    sync::mpsc,
    task::JoinHandle,
};

use super::{
    Arrived, Exit, ScriptVm, Session, VmError, frames,
    machine::Purpose,
    stdio::{EXIT_BUSY, EXIT_OUT_OF_MEMORY, LINT},
    wire::{FromVm, ToVm},
};
use crate::host::BoxFuture;

/// Messages read ahead of the engine; the pipe and then the script wait for the rest.
const READ_AHEAD: usize = 64;
/// After a script's end its result is stored and told; only then is the machine free to take its process down and to make the next one's.
const REST: Duration = Duration::from_millis(25);

#[derive(Clone)]
pub struct ChildVm {
    program: PathBuf,
    /// A process that waits for its order. None until the first script: an idle app needs none.
    spare: Arc<Mutex<Option<Spawned>>>,
}

impl ChildVm {
    pub fn new(program: PathBuf) -> Self {
        Self { program, spare: Arc::default() }
    }

    /// `graph-vm` beside the running program.
    pub fn beside(current_exe: &Path) -> Self {
        let name = if cfg!(windows) { "graph-vm.exe" } else { "graph-vm" };
        Self::new(current_exe.with_file_name(name))
    }
    pub fn program(&self) -> &Path {
        &self.program
    }

    fn spawn(&self, purpose: Purpose) -> Result<Spawned, VmError> {
        let failed = |why| VmError::NotStarted { program: self.program.display().to_string(), why };
        let mut command = Command::new(&self.program);
        if purpose == Purpose::Lint {
            command.arg(LINT);
        }
        // Nothing of our environment is the script's business; its own words go over the pipes only.
        command.env_clear().stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).kill_on_drop(true);
        let mut child = command.spawn().map_err(failed)?;
        let missing = || failed(std::io::Error::other("its pipes are missing"));
        let stdin = child.stdin.take().ok_or_else(missing)?;
        let stdout = child.stdout.take().ok_or_else(missing)?;
        Ok(Spawned { child, stdin, stdout: BufReader::new(stdout) })
    }

    /// The spare at work on the order. None if there is none, or if it died before it acknowledged: then nothing of the order was done.
    async fn hand_to_spare(&self, order: &ToVm) -> Option<Spawned> {
        let mut spare = self.spare().take()?;
        frames::write_async(&mut spare.stdin, order).await.ok()?;
        matches!(frames::read_async(&mut spare.stdout).await, Ok(Some(FromVm::Taken))).then_some(spare)
    }

    /// Without a spare the next script starts one itself, and says why it cannot. A process is started where nobody waits for the thread:
    /// that takes milliseconds, in which the end of the very script that took the last spare would not be heard.
    fn keep_spare(self) {
        tokio::task::spawn_blocking(move || {
            if self.spare().is_none()
                && let Ok(spawned) = self.spawn(Purpose::Run)
            {
                *self.spare() = Some(spawned);
            }
        });
    }

    /// The process that waits for an order. For tests that stop or kill it.
    #[doc(hidden)]
    pub fn spare_id(&self) -> Option<u32> {
        self.spare().as_ref().and_then(|spare| spare.child.id())
    }

    fn spare(&self) -> MutexGuard<'_, Option<Spawned>> {
        self.spare.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for ChildVm {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ChildVm").field("program", &self.program).finish_non_exhaustive()
    }
}

struct Spawned {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
}

impl ScriptVm for ChildVm {
    fn open(&self, order: ToVm) -> BoxFuture<'_, Result<Session, VmError>> {
        Box::pin(async move {
            let purpose = Purpose::of(&order);
            let spare = if purpose == Purpose::Run { self.hand_to_spare(&order).await } else { None };
            let process = match spare {
                Some(spare) => spare,
                None => {
                    let mut fresh = self.spawn(purpose)?;
                    // An order that cannot be written means a process that is gone; the reader says so.
                    let _ = frames::write_async(&mut fresh.stdin, &order).await;
                    fresh
                }
            };
            let (to, answers) = mpsc::unbounded_channel();
            let (said, from) = mpsc::channel(READ_AHEAD);
            let has_ended = Arc::default();
            let reader = tokio::spawn(read(process.child, process.stdout, said, self.clone(), Arc::clone(&has_ended)));
            let next_spare = (purpose == Purpose::Run).then(|| self.clone());
            let life = Life { writer: tokio::spawn(write(process.stdin, answers)), reader, has_ended, next_spare };
            let send = move |message| {
                // A writer that is gone means a process that is gone; the reader says so.
                let _ = to.send(message);
            };
            Ok(Session { to: Box::new(send), from, _life: Box::new(life) })
        })
    }
}

/// Dropping it kills the process: the reader owns the child, which is killed on drop.
struct Life {
    writer: JoinHandle<()>,
    reader: JoinHandle<()>,
    /// Its script has said how it ended: there is nothing left that it could do.
    has_ended: Arc<AtomicBool>,
    /// Absent where no spare was used.
    next_spare: Option<ChildVm>,
}
impl Drop for Life {
    fn drop(&mut self) {
        let (writer, reader) = (self.writer.abort_handle(), self.reader.abort_handle());
        let kill = move || {
            writer.abort();
            reader.abort();
        };
        let (Some(vm), Ok(runtime)) = (self.next_spare.take(), Handle::try_current()) else { return kill() };
        let kill_after_rest = if self.has_ended.load(Ordering::SeqCst) {
            Some(kill)
        } else {
            kill();
            None
        };
        runtime.spawn(async move {
            tokio::time::sleep(REST).await;
            if let Some(kill) = kill_after_rest {
                kill();
            }
            vm.keep_spare();
        });
    }
}

async fn write(mut stdin: ChildStdin, mut orders: mpsc::UnboundedReceiver<ToVm>) {
    while let Some(message) = orders.recv().await {
        if frames::write_async(&mut stdin, &message).await.is_err() {
            return;
        }
    }
    // The process ends when this goes, and it goes when it is told to.
    std::future::pending::<()>().await;
}

async fn read(mut child: Child, mut stdout: BufReader<ChildStdout>, said: mpsc::Sender<Arrived>, vm: ChildVm, has_ended: Arc<AtomicBool>) {
    while let Ok(Some(message)) = frames::read_async(&mut stdout).await {
        if message == FromVm::Taken {
            continue;
        }
        let is_end = matches!(message, FromVm::End(_));
        if is_end {
            has_ended.store(true, Ordering::SeqCst);
        }
        if said.send(Arrived::Said(message)).await.is_err() {
            return;
        }
        // Only now, so that the beginning of this script did not wait for the next one's process.
        if !is_end {
            vm.clone().keep_spare();
        }
    }
    let exit = match child.wait().await {
        Ok(status) => exit(status),
        Err(e) => Exit::Crashed(e.to_string()),
    };
    // Nobody listening is nobody to tell.
    let _ = said.send(Arrived::Gone(exit)).await;
}

fn exit(status: ExitStatus) -> Exit {
    match status.code() {
        Some(EXIT_OUT_OF_MEMORY) => Exit::OutOfMemory,
        Some(EXIT_BUSY) => Exit::Busy,
        None if was_killed(status) => Exit::Killed,
        Some(_) | None => Exit::Crashed(status.to_string()),
    }
}

#[cfg(unix)]
fn was_killed(status: ExitStatus) -> bool {
    std::os::unix::process::ExitStatusExt::signal(&status) == Some(libc::SIGKILL)
}
#[cfg(not(unix))]
fn was_killed(_: ExitStatus) -> bool {
    false
}
