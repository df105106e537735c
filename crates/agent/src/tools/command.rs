//! `run_command`: one program with its arguments, in the sandbox, with a clean environment, sixty seconds, and all its descendants killed.
//!
//! There is no shell in between: what the owner sees is the list of words that runs.
use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    process::{ExitStatus, Stdio},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use domain::limits::{COMMAND_TIMEOUT_MS, TOOL_OUTPUT_BYTES_MAX};
use serde::Deserialize;
use serde_json::json;
use tokio::{
    io::{AsyncRead, AsyncReadExt},
    process::{Child, Command},
};
use tokio_util::sync::CancellationToken;

use super::{Access, Effect, PrepareError, Prepared, ToolDefinition, ToolOutput, folders::Folders, input, shown_path};
use crate::{
    policy::{Target, ToolClass, command_line},
    sandbox::{self, Cage},
};

const WORDS_MAX: usize = 256;
const STREAM_BYTES_MAX: usize = TOOL_OUTPUT_BYTES_MAX / 2;
/// After the command itself ended and its group was killed, its pipes close at once.
const DRAIN_MS: u64 = 1_000;
const PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// How commands are run here.
#[derive(Debug, Clone)]
pub struct Commands {
    /// A program of ours that becomes the sandbox's helper when started with [`sandbox::HELPER_FLAG`].
    pub helper: PathBuf,
}

pub(super) fn definition() -> ToolDefinition {
    ToolDefinition {
        name: "run_command".into(),
        description: "Run one program (no shell) in a sandbox that sees only the granted folders and has no network. Gives exit code, stdout and stderr; ends after 60 seconds.".into(),
        input_schema: json!({
            "type": "object",
            "properties": {
                "argv": { "type": "array", "items": { "type": "string" }, "minItems": 1, "maxItems": WORDS_MAX, "description": "Program and arguments, one word each." },
                "cwd": { "type": "string", "description": "Absolute path of the folder to run in; by default the first granted folder." }
            },
            "required": ["argv"],
            "additionalProperties": false
        }),
        class: ToolClass::Command,
        fingerprint: None,
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CommandInput {
    argv: Vec<String>,
    cwd: Option<String>,
}

pub(super) fn prepare(folders: &Arc<Folders>, commands: &Commands, given: &domain::RawJson) -> Result<Prepared, PrepareError> {
    let CommandInput { argv, cwd } = input(given)?;
    if argv.is_empty() || argv.len() > WORDS_MAX || argv[0].is_empty() || argv.iter().any(|word| word.contains('\0')) {
        return Err(PrepareError::Input(format!("argv must be 1 to {WORDS_MAX} words, the first not empty, none with a NUL")));
    }
    let folder = match cwd {
        Some(cwd) => Some(folders.open_folder(&cwd)?.real),
        None => folders.for_commands().next().map(|f| f.root.clone()),
    };
    if let Some(folder) = &folder
        && !folders.for_commands().any(|f| folder.starts_with(&f.root))
    {
        return Err(PrepareError::Forbidden(format!("commands may not run in {}: its grant contains Graph Desk's own data", shown_path(folder))));
    }
    let line = command_line(&argv);
    let at = folder.as_ref().map_or_else(|| "an empty temporary folder".to_owned(), |f| shown_path(f));
    let state = if sandbox::EXPECTED { "in the sandbox" } else { "WITHOUT a sandbox" };
    let effect = Effect {
        sentence: format!("Run {} in {at}, {state}", crate::shown::visible(&line)),
        command_line: Some(line),
        folder: folder.clone(),
        sandboxed: Some(sandbox::EXPECTED),
        ..Effect::default()
    };
    let of = |access| folders.for_commands().filter(move |f| f.access == access).map(|f| f.root.clone()).collect();
    let words = argv.iter().map(OsString::from).collect();
    let cage = Cage { read: of(Access::Read), write: of(Access::Write), folder: folder.unwrap_or_default(), argv: words };
    let helper = commands.helper.clone();
    Ok(Prepared::new(ToolClass::Command, Target::Command { argv }, effect, Box::new(move |stop| Box::pin(run(helper, cage, stop)))))
}

async fn run(helper: PathBuf, mut cage: Cage, stop: CancellationToken) -> ToolOutput {
    let scratch = match Scratch::new() {
        Ok(scratch) => scratch,
        Err(e) => return ToolOutput::failed(format!("no temporary folder: {e}")),
    };
    cage.write.push(scratch.0.clone());
    if cage.folder.as_os_str().is_empty() {
        cage.folder.clone_from(&scratch.0);
    }
    match spawn(&helper, &cage, &scratch.0) {
        Ok(child) => watch(Group::new(child), stop).await,
        Err(e) => ToolOutput::failed(format!("the command could not be started: {e}")),
    }
}

fn spawn(helper: &Path, cage: &Cage, scratch: &Path) -> std::io::Result<Child> {
    let mut command = if sandbox::EXPECTED {
        let mut command = Command::new(helper);
        command.args(cage.to_args());
        command
    } else {
        let mut command = Command::new(cage.argv.first().map(OsString::as_os_str).unwrap_or_default());
        command.args(cage.argv.iter().skip(1)).current_dir(&cage.folder);
        command
    };
    command.env_clear().env("PATH", PATH).env("HOME", scratch).env("TMPDIR", scratch).env("LANG", "C.UTF-8").env("TERM", "dumb");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true).spawn()
}

/// Waits for the end, the sixty seconds or the stop, then kills whatever is left.
async fn watch(mut group: Group, stop: CancellationToken) -> ToolOutput {
    let out = tokio::spawn(capped(group.child.stdout.take()));
    let err = tokio::spawn(capped(group.child.stderr.take()));
    let ended = tokio::select! {
        status = group.child.wait() => Some(status),
        () = stop.cancelled() => None,
        () = tokio::time::sleep(Duration::from_millis(COMMAND_TIMEOUT_MS)) => None,
    };
    group.kill();
    if ended.is_none() {
        let _ = group.child.wait().await; // reaped; how it died is our own doing
    }
    let drained =
        tokio::time::timeout(Duration::from_millis(DRAIN_MS), async { (out.await.unwrap_or_default(), err.await.unwrap_or_default()) }).await;
    let (out, err) = drained.unwrap_or_default();
    match ended {
        None if stop.is_cancelled() => ToolOutput::failed("the run was stopped; the command was killed"),
        None => ToolOutput::failed(format!("the command was killed after {} seconds. {}", COMMAND_TIMEOUT_MS / 1000, told(&out, &err))),
        Some(Err(e)) => ToolOutput::failed(format!("the command could not be waited for: {e}")),
        Some(Ok(status)) if status.code() == Some(sandbox::NOT_CAGED.into()) => {
            ToolOutput::failed(format!("refused: the command was not run, because {}", err.text().trim()))
        }
        Some(Ok(status)) => ToolOutput::done(&json!({
            "exit": status.code(), "signal": signal(status), "stdout": out.text(), "stderr": err.text(), "truncated": out.is_cut() || err.is_cut(),
        })),
    }
}

fn told(out: &Output, err: &Output) -> String {
    const TOLD_CHARS: usize = 2_000;
    let (out, err) = (out.text(), err.text());
    format!("stdout began: {} stderr began: {}", domain::text::cut_chars(&out, TOLD_CHARS), domain::text::cut_chars(&err, TOLD_CHARS))
}

#[cfg(unix)]
fn signal(status: ExitStatus) -> Option<i32> {
    std::os::unix::process::ExitStatusExt::signal(&status)
}
#[cfg(not(unix))]
fn signal(_status: ExitStatus) -> Option<i32> {
    None
}

/// A command and everything it started: one process group, which it cannot leave. Killed when this is dropped, whatever happens.
struct Group {
    child: Child,
    #[cfg_attr(not(unix), allow(dead_code))]
    id: Option<i32>,
}
impl Group {
    fn new(child: Child) -> Self {
        let id = child.id().and_then(|id| i32::try_from(id).ok());
        Self { child, id }
    }

    fn kill(&mut self) {
        #[cfg(unix)]
        if let Some(group) = self.id.and_then(rustix::process::Pid::from_raw) {
            let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL); // nobody left is what is wanted
        }
        let _ = self.child.start_kill(); // a helper that has not made its group yet
    }
}
impl Drop for Group {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Beginning and end of a stream; the middle of a long one is dropped.
#[derive(Default)]
struct Output {
    head: Vec<u8>,
    tail: Vec<u8>,
    dropped: usize,
}
impl Output {
    fn take(&mut self, mut bytes: &[u8]) {
        const HALF: usize = STREAM_BYTES_MAX / 2;
        let room = (HALF - self.head.len()).min(bytes.len());
        self.head.extend_from_slice(&bytes[..room]);
        bytes = &bytes[room..];
        self.tail.extend_from_slice(bytes);
        if self.tail.len() > HALF {
            let too_much = self.tail.len() - HALF;
            self.tail.drain(..too_much);
            self.dropped += too_much;
        }
    }
    const fn is_cut(&self) -> bool {
        self.dropped > 0
    }
    fn text(&self) -> String {
        let head = String::from_utf8_lossy(&self.head);
        let tail = String::from_utf8_lossy(&self.tail);
        if self.is_cut() { format!("{head}\n[{} bytes left out]\n{tail}", self.dropped) } else { format!("{head}{tail}") }
    }
}

/// Reads to the end, so that the command never waits for us, and keeps what may be kept.
async fn capped(stream: Option<impl AsyncRead + Unpin>) -> Output {
    let mut output = Output::default();
    let Some(mut stream) = stream else { return output };
    let mut buffer = vec![0; 8 * 1024];
    while let Ok(read @ 1..) = stream.read(&mut buffer).await {
        output.take(&buffer[..read]);
    }
    output
}

/// A command's own empty folder: home and temporary files. Gone with it.
struct Scratch(PathBuf);
impl Scratch {
    fn new() -> std::io::Result<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let base = std::env::temp_dir().canonicalize()?;
        loop {
            let path = base.join(format!("graph-desk-command-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed)));
            let mut builder = std::fs::DirBuilder::new();
            #[cfg(unix)]
            std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
            match builder.create(&path) {
                Ok(()) => return Ok(Self(path)),
                Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => {} // left by a program of the same number
                Err(e) => return Err(e),
            }
        }
    }
}
impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0); // a leftover in the temporary folder harms nobody
    }
}
