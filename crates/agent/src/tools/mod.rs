//! The tools and what they may touch. A call is prepared first (its input checked, what it names opened and resolved), then ruled on, then
//! run: exactly the prepared value is carried out, so nothing can be swapped between the question and the act.
//!
//! What not: no ruling is made here. Invariant: no tool leaves the granted folders, and none reads or writes the app's own data.
mod command;
mod fetch;
mod folders;
mod mcp;
mod read;
mod write;

pub use command::Commands;
pub use fetch::{Fetch, Resolve, SystemResolver, is_public};
pub use mcp::{CALL_TIMEOUT_MS_DEFAULT, McpConfig, McpError, McpServer, McpState, McpTool, McpWay};

use std::{
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
};

use domain::RawJson;
use futures::future::BoxFuture;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use tokio_util::sync::CancellationToken;

use crate::{
    policy::{Target, ToolClass},
    shown::visible,
};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Access {
    Read,
    /// Reading and writing.
    Write,
}

/// A folder the owner lets tools see.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    pub path: PathBuf,
    pub access: Access,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GrantRefused {
    #[error("{0} is not an absolute path")]
    NotAbsolute(PathBuf),
    #[error("{path} cannot be opened as a folder: {why}")]
    NotAFolder { path: PathBuf, why: String },
    #[error("{path} contains Graph Desk's own data ({own}); choose a folder inside it, or grant reading only")]
    ContainsOwnData { path: PathBuf, own: PathBuf },
    #[error("{path} is Graph Desk's own data and is never open to tools")]
    IsOwnData { path: PathBuf },
}

/// Everything a toolbox is made from.
#[derive(Clone, Default)]
pub struct ToolboxConfig {
    pub folders: Vec<Grant>,
    /// The app's own folders: no tool reads or writes there, whatever is granted.
    pub excluded: Vec<PathBuf>,
    /// `None`: there is no `run_command`.
    pub commands: Option<Commands>,
    /// `None`: there is no `http_fetch`.
    pub fetch: Option<Fetch>,
    /// Their tools are offered beside our own.
    pub mcp: Vec<Arc<McpServer>>,
}

/// The tools of one execution. Cheap to clone.
#[derive(Clone)]
pub struct Toolbox {
    folders: Arc<folders::Folders>,
    commands: Option<Commands>,
    fetch: Option<Fetch>,
    mcp: Vec<Arc<McpServer>>,
}

/// What a tool is, for models, scripts, the editor and the owner.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolDefinition {
    pub name: String,
    pub description: String,
    /// JSON Schema of the input, an object.
    pub input_schema: serde_json::Value,
    pub class: ToolClass,
    pub fingerprint: Option<String>,
}

/// What a call would do, for the owner who is asked. All of it, nothing shortened.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Effect {
    /// In plain words: "Write 1,204 bytes to /home/me/out/digest.md".
    pub sentence: String,
    /// Where it would really act, symbolic links followed.
    pub real_path: Option<PathBuf>,
    /// Unified diff of a change to a file.
    pub diff: Option<String>,
    pub command_line: Option<String>,
    /// Working folder of a command.
    pub folder: Option<PathBuf>,
    /// Of a command: whether a sandbox will hold it.
    pub sandboxed: Option<bool>,
    /// Method and address of a request.
    pub request: Option<String>,
}
impl Effect {
    pub(crate) fn made_visible(&self) -> Self {
        let path = |p: &PathBuf| PathBuf::from(visible(&p.to_string_lossy()));
        Self {
            sentence: visible(&self.sentence),
            real_path: self.real_path.as_ref().map(path),
            diff: self.diff.as_deref().map(visible),
            command_line: self.command_line.as_deref().map(visible),
            folder: self.folder.as_ref().map(path),
            sandboxed: self.sandboxed,
            request: self.request.as_deref().map(visible),
        }
    }
}

/// What a tool gave back. It is data: shown as such to a model, never able to change a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolOutput {
    pub ok: bool,
    /// The result; of a failure `{"error": "…"}`.
    pub json: RawJson,
}
impl ToolOutput {
    pub fn done(value: &serde_json::Value) -> Self {
        Self { ok: true, json: RawJson::of(value) }
    }
    pub fn failed(why: impl fmt::Display) -> Self {
        Self { ok: false, json: RawJson::of(&serde_json::json!({ "error": why.to_string() })) }
    }
    /// The first characters, for lists and logs.
    pub fn preview(&self) -> String {
        const PREVIEW_CHARS: usize = 500;
        domain::text::cut_chars(self.json.as_str(), PREVIEW_CHARS).to_owned()
    }
}

/// A call that cannot even be put before the rules.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PrepareError {
    #[error("there is no tool named {0}")]
    Unknown(String),
    #[error("the input does not fit the tool: {0}")]
    Input(String),
    /// Outside the granted folders, a private address, the app's own data …
    #[error("{0}")]
    Forbidden(String),
    #[error("{0}")]
    Failed(String),
}

type Run = Box<dyn FnOnce(CancellationToken) -> BoxFuture<'static, ToolOutput> + Send>;

/// A call that is ready: resolved, described, not yet done.
pub struct Prepared {
    pub class: ToolClass,
    pub target: Target,
    pub effect: Effect,
    pub fingerprint: Option<String>,
    run: Run,
}
impl Prepared {
    pub(crate) fn new(class: ToolClass, target: Target, effect: Effect, run: Run) -> Self {
        Self { class, target, effect, fingerprint: None, run }
    }
    /// Acts, once.
    pub async fn run(self, stop: CancellationToken) -> ToolOutput {
        (self.run)(stop).await
    }
}

impl Toolbox {
    /// Opens the granted folders. A grant that must not be is left out and named with its reason.
    pub fn open(config: ToolboxConfig) -> (Self, Vec<GrantRefused>) {
        let (folders, refused) = folders::Folders::open(&config.folders, &config.excluded);
        (Self { folders: Arc::new(folders), commands: config.commands, fetch: config.fetch, mcp: config.mcp }, refused)
    }

    /// Whether a grant may be made: for the settings page, before it is saved.
    pub fn check_grant(grant: &Grant, excluded: &[PathBuf]) -> Result<(), GrantRefused> {
        folders::Folders::check(grant, excluded)
    }

    /// All tools that exist here, in a fixed order.
    pub fn definitions(&self) -> Vec<ToolDefinition> {
        let mut all = read::definitions();
        all.extend(write::definitions());
        all.extend(self.commands.is_some().then(command::definition));
        all.extend(self.fetch.is_some().then(fetch::definition));
        all.extend(self.mcp.iter().flat_map(|server| server.definitions()));
        all
    }

    /// Reads the input and opens what it names. Acts on nothing.
    pub async fn prepare(&self, tool: &str, input: &RawJson) -> Result<Prepared, PrepareError> {
        let (this, name, given) = (self.clone(), tool.to_owned(), input.clone());
        let prepared = tokio::task::spawn_blocking(move || this.prepare_blocking(name, &given));
        prepared.await.map_err(|e| PrepareError::Failed(e.to_string()))?
    }

    fn prepare_blocking(&self, name: String, given: &RawJson) -> Result<Prepared, PrepareError> {
        match (name.as_str(), &self.commands, &self.fetch) {
            ("list_files", ..) => read::list(&self.folders, given),
            ("read_file", ..) => read::read(&self.folders, given),
            ("search_files", ..) => read::search(&self.folders, given),
            ("write_file", ..) => write::write(&self.folders, given),
            ("edit_file", ..) => write::edit(&self.folders, given),
            ("run_command", Some(commands), _) => command::prepare(&self.folders, commands, given),
            ("http_fetch", _, Some(fetch)) => fetch::prepare(fetch, given),
            _ => mcp::prepare(&self.mcp, &name, given),
        }
    }
}

/// The typed input of a tool.
fn input<T: DeserializeOwned>(given: &RawJson) -> Result<T, PrepareError> {
    serde_json::from_str(given.as_str()).map_err(|e| PrepareError::Input(e.to_string()))
}

/// Work on files runs where it may block.
fn blocking(work: impl FnOnce(CancellationToken) -> ToolOutput + Send + 'static) -> Run {
    Box::new(|stop| {
        Box::pin(async move {
            let done = tokio::task::spawn_blocking(move || work(stop)).await;
            done.unwrap_or_else(|e| ToolOutput::failed(format!("the tool broke off: {e}")))
        })
    })
}

/// A path in a sentence, with what hides in it spelled out.
fn shown_path(path: &Path) -> String {
    visible(&path.to_string_lossy())
}
