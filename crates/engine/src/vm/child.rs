//! One short-lived `graph-vm` process per script.
//!
//! A spare one is kept ready, so that a script starts without waiting for a process. The parent may kill it at any moment: it holds nothing of value. It ends by itself when its standard input does, so none outlives the app.
use std::{
    path::{Path, PathBuf},
    process::{ExitStatus, Stdio},
    sync::{Arc, Mutex, PoisonError},
};

use tokio::{
    io::BufReader,
    process::{Child, ChildStdin, ChildStdout, Command},
    sync::mpsc,
    task::JoinHandle,
};

use super::{
    Arrived, Exit, ScriptVm, Session, VmError, frames,
    stdio::{EXIT_BUSY, EXIT_OUT_OF_MEMORY},
    wire::ToVm,
};
use crate::host::BoxFuture;

/// Messages read ahead of the engine; the pipe and then the script wait for the rest.
const READ_AHEAD: usize = 64;

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

    fn spawn(&self) -> Result<Spawned, VmError> {
        let failed = |why| VmError::NotStarted { program: self.program.display().to_string(), why };
        let mut command = Command::new(&self.program);
        // Nothing of our environment is the script's business; its own words go over the pipes only.
        command.env_clear().stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).kill_on_drop(true);
        let mut child = command.spawn().map_err(failed)?;
        let missing = || failed(std::io::Error::other("its pipes are missing"));
        let stdin = child.stdin.take().ok_or_else(missing)?;
        let stdout = child.stdout.take().ok_or_else(missing)?;
        Ok(Spawned { child, stdin, stdout })
    }

    /// The spare, if it still lives.
    fn take_spare(&self) -> Option<Spawned> {
        let mut spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner).take()?;
        matches!(spare.child.try_wait(), Ok(None)).then_some(spare)
    }

    /// After a script has begun, so that its beginning does not wait for this.
    fn keep_spare(&self) {
        let vm = self.clone();
        tokio::spawn(async move {
            // Without a spare the next script starts one itself, and says why it cannot.
            let Ok(spawned) = vm.spawn() else { return };
            *vm.spare.lock().unwrap_or_else(PoisonError::into_inner) = Some(spawned);
        });
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
    stdout: ChildStdout,
}

impl ScriptVm for ChildVm {
    fn open(&self) -> BoxFuture<'_, Result<Session, VmError>> {
        Box::pin(async move {
            let Spawned { child, stdin, stdout } = match self.take_spare() {
                Some(spare) => spare,
                None => self.spawn()?,
            };
            let (to, orders) = mpsc::unbounded_channel();
            let (said, from) = mpsc::channel(READ_AHEAD);
            let life = Life { writer: tokio::spawn(write(stdin, orders)), reader: tokio::spawn(read(child, stdout, said)) };
            let send = move |message| {
                // A writer that is gone means a process that is gone; the reader says so.
                let _ = to.send(message);
            };
            self.keep_spare();
            Ok(Session { to: Box::new(send), from, _life: Box::new(life) })
        })
    }
}

/// Dropping it kills the process: the reader owns the child, which is killed on drop.
struct Life {
    writer: JoinHandle<()>,
    reader: JoinHandle<()>,
}
impl Drop for Life {
    fn drop(&mut self) {
        self.writer.abort();
        self.reader.abort();
    }
}

async fn write(mut stdin: ChildStdin, mut orders: mpsc::UnboundedReceiver<ToVm>) {
    while let Some(message) = orders.recv().await {
        if frames::write_async(&mut stdin, &message).await.is_err() {
            return;
        }
    }
}

async fn read(mut child: Child, stdout: ChildStdout, said: mpsc::Sender<Arrived>) {
    let mut stdout = BufReader::new(stdout);
    while let Ok(Some(message)) = frames::read_async(&mut stdout).await {
        if said.send(Arrived::Said(message)).await.is_err() {
            return;
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
        Some(_) | None => Exit::Crashed(status.to_string()),
    }
}
