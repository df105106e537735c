//! Tools of MCP servers the owner added, over stdio or HTTP, through the official SDK. Named `mcp__server__tool`.
//!
//! A server is a stranger's program: its tools ask unless a rule says otherwise, rules are bound to the hash of a tool's name, description
//! and schema, and what it says of itself (annotations) changes nothing. A server starts at its first call, or when it is asked to; one that
//! went away is started once more at the next call. Its own process group is killed when it is stopped. Stdio servers are not sandboxed: the
//! owner installed them to do their work. Invariant: a tool that is no longer what was ruled on is not called.
mod call;
mod connect;

use std::{
    collections::BTreeMap,
    fmt,
    sync::{
        Arc, Mutex, PoisonError, RwLock,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use domain::RawJson;
use rmcp::{
    ClientHandler, RoleClient, ServiceExt,
    model::{CallToolRequestParams, Tool},
    service::{NotificationContext, RunningService, ServiceError},
};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::{ToolDefinition, ToolOutput};
use crate::Secret;

pub use call::McpTool;
pub(super) use call::prepare;

const START_MS: u64 = 30_000;
pub const CALL_TIMEOUT_MS_DEFAULT: u64 = 120_000;
const TOOLS_PER_SERVER_MAX: usize = 200;

#[derive(Clone)]
pub enum McpWay {
    Stdio { program: String, args: Vec<String>, env: BTreeMap<String, Secret> },
    Http { url: String, headers: BTreeMap<String, Secret> },
}

/// One server as the owner set it up.
#[derive(Clone)]
pub struct McpConfig {
    /// The middle of its tools' names: see [`McpConfig::is_id`].
    pub id: String,
    pub way: McpWay,
    /// `None` means two minutes.
    pub call_timeout: Option<Duration>,
}
impl McpConfig {
    /// 1 to 32 lower-case letters, digits or dashes.
    pub fn is_id(id: &str) -> bool {
        (1..=32).contains(&id.len()) && id.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum McpError {
    #[error("an MCP server's id must be 1 to 32 lower-case letters, digits or dashes")]
    Id,
    #[error("the MCP server {id} could not be started: {why}")]
    Start { id: String, why: String },
    #[error("the MCP server {id} did not answer within {seconds} s")]
    Timeout { id: String, seconds: u64 },
    #[error("the MCP server {0} was taken away or changed by the owner")]
    Retired(String),
}

/// Where a server stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum McpState {
    /// Not running; the next call starts it.
    Idle,
    Starting,
    Ready,
    /// The last start failed; the next call tries again.
    Failed(McpError),
}

type Running = RunningService<RoleClient, Ears>;

/// One server, whether it runs or not.
pub struct McpServer {
    config: McpConfig,
    running: tokio::sync::Mutex<Option<Arc<Live>>>,
    tools: RwLock<Vec<McpTool>>,
    state: Mutex<McpState>,
    is_retired: AtomicBool,
    /// Told after each change of state or tools.
    changed: Box<dyn Fn(&Self) + Send + Sync>,
}

struct Live {
    service: Running,
    /// Its process and all that came of it end with this.
    _group: connect::Group,
    said: Arc<Mutex<String>>,
    /// The server said that its tools changed: they are listed anew before the next call.
    is_stale: Arc<AtomicBool>,
}

/// What a server may tell us beside its answers.
struct Ears {
    is_stale: Arc<AtomicBool>,
}
impl ClientHandler for Ears {
    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.is_stale.store(true, Ordering::SeqCst);
    }
}

impl McpServer {
    /// A server that does not run yet, with its tools as they were last listed.
    pub fn new(config: McpConfig, tools: Vec<McpTool>, changed: impl Fn(&Self) + Send + Sync + 'static) -> Result<Arc<Self>, McpError> {
        if !McpConfig::is_id(&config.id) {
            return Err(McpError::Id);
        }
        Ok(Arc::new(Self {
            config,
            running: tokio::sync::Mutex::new(None),
            tools: RwLock::new(tools),
            state: Mutex::new(McpState::Idle),
            is_retired: AtomicBool::new(false),
            changed: Box::new(changed),
        }))
    }

    pub fn id(&self) -> &str {
        &self.config.id
    }

    pub fn state(&self) -> McpState {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Its tools as they were last listed.
    pub fn tools(&self) -> Vec<McpTool> {
        self.tools.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub fn definitions(&self) -> Vec<ToolDefinition> {
        self.tools().iter().map(|tool| tool.definition(self.id())).collect()
    }

    /// Starts the server if it does not run, and asks for its tools; true if any of them changed.
    pub async fn refresh(&self) -> Result<bool, McpError> {
        let before = self.tools();
        let live = self.live().await?;
        self.list(&live).await?;
        Ok(before != self.tools())
    }

    /// Ends the server. The next call starts it anew.
    pub async fn stop(&self) {
        if let Some(live) = self.running.lock().await.take() {
            live.service.cancellation_token().cancel();
        }
        self.stands(McpState::Idle);
    }

    /// Ends the server for good: the owner took it away, or another takes its place. Executions that still know it are told so.
    pub async fn retire(&self) {
        self.is_retired.store(true, Ordering::SeqCst);
        self.stop().await;
    }

    fn stands(&self, state: McpState) {
        *self.state.lock().unwrap_or_else(PoisonError::into_inner) = state;
        (self.changed)(self);
    }

    /// The running server, started if it is not, with its tools as they are now.
    async fn live(&self) -> Result<Arc<Live>, McpError> {
        let mut running = self.running.lock().await;
        if self.is_retired.load(Ordering::SeqCst) {
            return Err(McpError::Retired(self.config.id.clone()));
        }
        if let Some(live) = running.as_ref().filter(|live| !live.service.is_closed()) {
            let live = Arc::clone(live);
            if live.is_stale.swap(false, Ordering::SeqCst) {
                self.list(&live).await?;
            }
            return Ok(live);
        }
        *running = None;
        self.stands(McpState::Starting);
        let started = async {
            let live = Arc::new(self.connect().await?);
            self.list(&live).await?;
            Ok(live)
        };
        // Whoever waits may give up: the state must not stay at "starting".
        let mut standing = Standing { server: self, state: Some(McpState::Idle) };
        let started: Result<Arc<Live>, McpError> = started.await;
        standing.state = Some(started.as_ref().map_or_else(|e| McpState::Failed(e.clone()), |_| McpState::Ready));
        *running = started.as_ref().ok().cloned();
        started
    }

    /// Lets go of a server whose line broke, unless another one has taken its place.
    async fn forget(&self, broken: &Arc<Live>) {
        let mut running = self.running.lock().await;
        if running.as_ref().is_some_and(|live| Arc::ptr_eq(live, broken)) {
            *running = None;
            self.stands(McpState::Idle);
        }
    }

    async fn connect(&self) -> Result<Live, McpError> {
        let id = self.config.id.clone();
        let failed = |why: String| McpError::Start { id: id.clone(), why: self.scrub(&why) };
        let (said, is_stale) = (Arc::new(Mutex::new(String::new())), Arc::new(AtomicBool::new(false)));
        let ears = Ears { is_stale: Arc::clone(&is_stale) };
        let limit = Duration::from_millis(START_MS);
        let (started, group) = match &self.config.way {
            McpWay::Stdio { program, args, env } => {
                let (process, group) = connect::spawn(program, args, env, &said).map_err(|e| failed(format!("{program}: {e}")))?;
                (tokio::time::timeout(limit, ears.serve(process)).await, group)
            }
            McpWay::Http { url, headers } => {
                let transport = connect::http(url, headers).map_err(failed)?;
                (tokio::time::timeout(limit, ears.serve(transport)).await, connect::Group::none())
            }
        };
        match started {
            Ok(Ok(service)) => Ok(Live { service, _group: group, said, is_stale }),
            Ok(Err(e)) => {
                let words = said.lock().unwrap_or_else(PoisonError::into_inner).trim().to_owned();
                Err(failed(if words.is_empty() { e.to_string() } else { format!("{e}; it said: {words}") }))
            }
            Err(_) => Err(McpError::Timeout { id, seconds: limit.as_secs() }),
        }
    }

    async fn list(&self, live: &Live) -> Result<(), McpError> {
        let limit = Duration::from_millis(START_MS);
        let listed = tokio::time::timeout(limit, live.service.peer().list_all_tools()).await;
        let listed = listed.map_err(|_| McpError::Timeout { id: self.config.id.clone(), seconds: limit.as_secs() })?;
        let listed: Vec<Tool> = listed.map_err(|e| McpError::Start { id: self.config.id.clone(), why: self.scrub(&e.to_string()) })?;
        let mut tools: Vec<McpTool> = Vec::new();
        for tool in listed.into_iter().take(TOOLS_PER_SERVER_MAX).map(McpTool::of) {
            // Two names that look alike to a model would be one to the rules: the first stands.
            if !tools.iter().any(|known| known.name_here(self.id()) == tool.name_here(self.id())) {
                tools.push(tool);
            }
        }
        let before = std::mem::replace(&mut *self.tools.write().unwrap_or_else(PoisonError::into_inner), tools.clone());
        if before != tools {
            (self.changed)(self);
        }
        Ok(())
    }

    fn find(&self, tool: &str) -> Option<McpTool> {
        self.tools().into_iter().find(|known| known.name_here(self.id()) == tool)
    }

    async fn call(&self, known: &McpTool, input: &RawJson, stop: CancellationToken) -> ToolOutput {
        let limit = self.config.call_timeout.unwrap_or(Duration::from_millis(CALL_TIMEOUT_MS_DEFAULT));
        let silent = || format!("the MCP server {} did not answer within {} s", self.config.id, limit.as_secs_f64());
        let work = async {
            // A start has its own limit: it may fetch the program first.
            let live = self.live().await.map_err(|e| e.to_string())?;
            // The owner spoke of the tool as it was shown; a server started anew may have another.
            if self.find(&known.name_here(self.id())).as_ref() != Some(known) {
                return Err("the server changed this tool meanwhile; call it again to be asked anew".to_owned());
            }
            let Value::Object(arguments) = input.to_value() else { return Err("the input is not an object".to_owned()) };
            let params = CallToolRequestParams::new(known.name.clone()).with_arguments(arguments);
            match tokio::time::timeout(limit, live.service.call_tool(params)).await {
                Err(_) => Err(silent()),
                Ok(Ok(result)) => Ok(result),
                Ok(Err(e)) => {
                    // A refusal in the protocol's words leaves the server as it is; anything else means the line is gone, and the next
                    // call starts it again. The service itself may notice only later that it is closed.
                    if !matches!(e, ServiceError::McpError(_)) {
                        self.forget(&live).await;
                    }
                    Err(self.in_words(&e, &live))
                }
            }
        };
        let result = tokio::select! {
            result = work => result,
            () = stop.cancelled() => Err("the run was stopped".to_owned()),
        };
        match result {
            Ok(result) => call::output(result),
            Err(why) => ToolOutput::failed(why),
        }
    }

    fn in_words(&self, e: &ServiceError, live: &Live) -> String {
        let words = live.said.lock().unwrap_or_else(PoisonError::into_inner).trim().to_owned();
        let tail = if live.service.is_closed() && !words.is_empty() { format!("; it said: {words}") } else { String::new() };
        self.scrub(&format!("{e}{tail}"))
    }

    fn scrub(&self, text: &str) -> String {
        let secrets = match &self.config.way {
            McpWay::Stdio { env, .. } => env.values(),
            McpWay::Http { headers, .. } => headers.values(),
        };
        secrets.fold(text.to_owned(), |text, secret| secret.scrub(&text))
    }
}
impl fmt::Debug for McpServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("McpServer").field("id", &self.config.id).finish_non_exhaustive()
    }
}

/// Sets the state when a start is over, whichever way it ended.
struct Standing<'a> {
    server: &'a McpServer,
    state: Option<McpState>,
}
impl Drop for Standing<'_> {
    fn drop(&mut self) {
        if let Some(state) = self.state.take() {
            self.server.stands(state);
        }
    }
}
