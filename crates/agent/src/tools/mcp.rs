//! Tools of MCP servers the owner added, over stdio or HTTP, through the official SDK. Named `mcp__server__tool`.
//!
//! A server is a stranger's program: its tools ask unless a rule says otherwise, rules are bound to the hash of a tool's name, description
//! and schema, and what it says of itself (annotations) changes nothing. A server that went away is started once more at the next call.
//! Its own process group is killed when it is stopped. Stdio servers are not sandboxed: the owner installed them to do their work.
use std::{
    collections::BTreeMap,
    fmt,
    process::Stdio,
    sync::{Arc, Mutex, PoisonError, RwLock},
    time::Duration,
};

use domain::RawJson;
use rmcp::{
    RoleClient, ServiceExt,
    model::{CallToolRequestParams, CallToolResult, ContentBlock, Tool},
    service::{RunningService, ServiceError},
    transport::{StreamableHttpClientTransport, TokioChildProcess, streamable_http_client::StreamableHttpClientTransportConfig},
};
use serde_json::{Value, json};
use tokio::io::AsyncReadExt;
use tokio_util::sync::CancellationToken;

use super::{Effect, PrepareError, Prepared, ToolDefinition, ToolOutput};
use crate::{
    Secret,
    gate::sha256_hex,
    policy::{Target, ToolClass},
};

const START_MS: u64 = 30_000;
const CALL_MS_DEFAULT: u64 = 120_000;
const NAME_CHARS_MAX: usize = 64;
const DESCRIPTION_CHARS_MAX: usize = 4_000;
const TOOLS_PER_SERVER_MAX: usize = 200;
const STDERR_KEPT: usize = 2_000;
/// What a stdio server gets of our environment, beside what the owner set for it.
const ENVIRONMENT: &[&str] = &["PATH", "HOME", "USER", "LOGNAME", "LANG", "TMPDIR", "SystemRoot", "APPDATA", "LOCALAPPDATA", "USERPROFILE", "TEMP"];

#[derive(Clone)]
pub enum McpWay {
    Stdio { program: String, args: Vec<String>, env: BTreeMap<String, Secret> },
    Http { url: String, token: Option<Secret> },
}
/// One server as the owner set it up.
#[derive(Clone)]
pub struct McpConfig {
    /// 1 to 32 lower-case letters, digits or dashes: the middle of its tools' names.
    pub id: String,
    pub way: McpWay,
    /// `None` means two minutes.
    pub call_timeout: Option<Duration>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum McpError {
    #[error("an MCP server's id must be 1 to 32 lower-case letters, digits or dashes")]
    Id,
    #[error("the MCP server {id} could not be started: {why}")]
    Start { id: String, why: String },
    #[error("the MCP server {id} did not answer within {seconds} s")]
    Timeout { id: String, seconds: u64 },
}

type Running = RunningService<RoleClient, ()>;

/// A server that was started at least once.
pub struct McpServer {
    config: McpConfig,
    running: tokio::sync::Mutex<Option<Arc<Live>>>,
    tools: RwLock<Vec<Known>>,
}
struct Live {
    service: Running,
    #[cfg_attr(not(unix), allow(dead_code))]
    group: Option<i32>,
    said: Arc<Mutex<String>>,
}
#[derive(Clone)]
struct Known {
    definition: ToolDefinition,
    /// The name as the server knows it.
    own_name: String,
}

impl McpServer {
    /// Starts the server and asks for its tools.
    pub async fn start(config: McpConfig) -> Result<Arc<Self>, McpError> {
        let ok = (1..=32).contains(&config.id.len()) && config.id.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
        if !ok {
            return Err(McpError::Id);
        }
        let server = Self { config, running: tokio::sync::Mutex::new(None), tools: RwLock::default() };
        server.live().await?;
        Ok(Arc::new(server))
    }

    pub fn id(&self) -> &str {
        &self.config.id
    }

    /// Its tools as they were last listed.
    pub fn definitions(&self) -> Vec<ToolDefinition> {
        self.known().into_iter().map(|k| k.definition).collect()
    }

    /// Asks for the tools again; true if any of them changed.
    pub async fn refresh(&self) -> Result<bool, McpError> {
        let live = self.live().await?;
        let before = self.known();
        self.list(&live).await?;
        let prints = |tools: &[Known]| tools.iter().map(|k| k.definition.fingerprint.clone()).collect::<Vec<_>>();
        Ok(prints(&before) != prints(&self.known()))
    }

    /// Ends the server. The next call starts it anew.
    pub async fn stop(&self) {
        if let Some(live) = self.running.lock().await.take() {
            live.service.cancellation_token().cancel();
        }
    }

    fn known(&self) -> Vec<Known> {
        self.tools.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The running server, started if it is not.
    async fn live(&self) -> Result<Arc<Live>, McpError> {
        let mut running = self.running.lock().await;
        if let Some(live) = running.as_ref().filter(|live| !live.service.is_closed()) {
            return Ok(Arc::clone(live));
        }
        *running = None;
        let live = Arc::new(self.connect().await?);
        self.list(&live).await?;
        *running = Some(Arc::clone(&live));
        Ok(live)
    }

    /// Lets go of a server whose line broke, unless another one has taken its place.
    async fn forget(&self, broken: &Arc<Live>) {
        let mut running = self.running.lock().await;
        if running.as_ref().is_some_and(|live| Arc::ptr_eq(live, broken)) {
            *running = None;
        }
    }

    async fn connect(&self) -> Result<Live, McpError> {
        let id = self.config.id.clone();
        let failed = |why: String| McpError::Start { id: id.clone(), why: self.scrub(&why) };
        let said = Arc::new(Mutex::new(String::new()));
        let limit = Duration::from_millis(START_MS);
        let (started, group) = match &self.config.way {
            McpWay::Stdio { program, args, env } => {
                let (process, group) = spawn(program, args, env, &said).map_err(|e| failed(format!("{program}: {e}")))?;
                (tokio::time::timeout(limit, ().serve(process)).await, group)
            }
            McpWay::Http { url, token } => (tokio::time::timeout(limit, ().serve(http(url, token.as_ref()).map_err(failed)?)).await, None),
        };
        match started {
            Ok(Ok(service)) => Ok(Live { service, group, said }),
            Ok(Err(e)) => {
                kill(group);
                let words = said.lock().unwrap_or_else(PoisonError::into_inner).trim().to_owned();
                Err(failed(if words.is_empty() { e.to_string() } else { format!("{e}; it said: {words}") }))
            }
            Err(_) => {
                kill(group);
                Err(McpError::Timeout { id, seconds: limit.as_secs() })
            }
        }
    }

    async fn list(&self, live: &Live) -> Result<(), McpError> {
        let limit = Duration::from_millis(START_MS);
        let listed = tokio::time::timeout(limit, live.service.peer().list_all_tools()).await;
        let tools = listed.map_err(|_| McpError::Timeout { id: self.config.id.clone(), seconds: limit.as_secs() })?;
        let tools = tools.map_err(|e| McpError::Start { id: self.config.id.clone(), why: self.scrub(&e.to_string()) })?;
        let mut known: Vec<Known> = Vec::new();
        for tool in tools.into_iter().take(TOOLS_PER_SERVER_MAX) {
            let tool = describe(&self.config.id, &tool);
            // Two names that look alike to a model would be one to the rules: the first stands.
            if !known.iter().any(|k| k.definition.name == tool.definition.name) {
                known.push(tool);
            }
        }
        *self.tools.write().unwrap_or_else(PoisonError::into_inner) = known;
        Ok(())
    }

    fn find(&self, tool: &str) -> Option<Known> {
        self.known().into_iter().find(|k| k.definition.name == tool)
    }

    async fn call(&self, known: &Known, input: &RawJson, stop: CancellationToken) -> ToolOutput {
        let limit = self.config.call_timeout.unwrap_or(Duration::from_millis(CALL_MS_DEFAULT));
        let work = async {
            let live = self.live().await.map_err(|e| e.to_string())?;
            // The owner spoke of the tool as it was shown; a server started anew may have another.
            let now = self.find(&known.definition.name).and_then(|k| k.definition.fingerprint);
            if now != known.definition.fingerprint {
                return Err("the server changed this tool meanwhile; call it again to be asked anew".to_owned());
            }
            let Value::Object(arguments) = input.to_value() else { return Err("the input is not an object".to_owned()) };
            let params = CallToolRequestParams::new(known.own_name.clone()).with_arguments(arguments);
            match live.service.call_tool(params).await {
                Ok(result) => Ok(result),
                Err(e) => {
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
            () = tokio::time::sleep(limit) => Err(format!("the MCP server {} did not answer within {} s", self.config.id, limit.as_secs())),
        };
        match result {
            Ok(result) => output(result),
            Err(why) => ToolOutput::failed(why),
        }
    }

    fn in_words(&self, e: &ServiceError, live: &Live) -> String {
        let words = live.said.lock().unwrap_or_else(PoisonError::into_inner).trim().to_owned();
        let tail = if live.service.is_closed() && !words.is_empty() { format!("; it said: {words}") } else { String::new() };
        self.scrub(&format!("{e}{tail}"))
    }

    fn scrub(&self, text: &str) -> String {
        let secrets: Vec<&Secret> = match &self.config.way {
            McpWay::Stdio { env, .. } => env.values().collect(),
            McpWay::Http { token, .. } => token.iter().collect(),
        };
        secrets.into_iter().fold(text.to_owned(), |text, secret| secret.scrub(&text))
    }
}
impl fmt::Debug for McpServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("McpServer").field("id", &self.config.id).finish_non_exhaustive()
    }
}
impl Drop for Live {
    fn drop(&mut self) {
        kill(self.group);
    }
}

fn kill(group: Option<i32>) {
    #[cfg(unix)]
    if let Some(group) = group.and_then(rustix::process::Pid::from_raw) {
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL); // gone already is as good
    }
    #[cfg(not(unix))]
    let _ = group;
}

fn spawn(
    program: &str,
    args: &[String],
    env: &BTreeMap<String, Secret>,
    said: &Arc<Mutex<String>>,
) -> std::io::Result<(TokioChildProcess, Option<i32>)> {
    let mut command = tokio::process::Command::new(program);
    command.args(args).env_clear().kill_on_drop(true);
    command.envs(ENVIRONMENT.iter().filter_map(|name| Some((*name, std::env::var_os(name)?))));
    command.envs(env.iter().map(|(name, value)| (name, value.reveal())));
    #[cfg(unix)]
    command.process_group(0);
    let (process, stderr) = TokioChildProcess::builder(command).stderr(Stdio::piped()).spawn()?;
    let group = process.id().and_then(|id| i32::try_from(id).ok());
    if let Some(mut stderr) = stderr {
        let said = Arc::clone(said);
        tokio::spawn(async move {
            let mut buffer = vec![0; 1024];
            while let Ok(read @ 1..) = stderr.read(&mut buffer).await {
                let mut said = said.lock().unwrap_or_else(PoisonError::into_inner);
                said.push_str(&String::from_utf8_lossy(&buffer[..read]));
                let too_much = said.len().saturating_sub(STDERR_KEPT);
                if let Some(cut) = (too_much..=said.len()).find(|at| said.is_char_boundary(*at)) {
                    said.drain(..cut);
                }
            }
        });
    }
    Ok((process, group))
}

/// Redirects are not followed: they would carry the token and the conversation to a host the owner did not name.
fn http(url: &str, token: Option<&Secret>) -> Result<StreamableHttpClientTransport<reqwest::Client>, String> {
    let parsed = url::Url::parse(url).map_err(|e| e.to_string())?;
    let mut builder = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).pool_max_idle_per_host(0);
    if matches!(parsed.host_str(), Some("localhost" | "127.0.0.1" | "[::1]")) {
        builder = builder.no_proxy();
    }
    let mut config = StreamableHttpClientTransportConfig::with_uri(url);
    if let Some(token) = token {
        config = config.auth_header(token.reveal());
    }
    Ok(StreamableHttpClientTransport::with_client(builder.build().map_err(|e| e.to_string())?, config))
}

fn describe(server: &str, tool: &Tool) -> Known {
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '_' || c == '-' { c } else { '_' };
    let name: String = format!("mcp__{server}__{}", tool.name).chars().map(plain).take(NAME_CHARS_MAX).collect();
    let description = tool.description.as_deref().unwrap_or("");
    let schema = Value::Object(tool.input_schema.as_ref().clone());
    let whole = RawJson::of(&json!({ "name": tool.name, "title": tool.title, "description": description, "schema": schema }));
    let definition = ToolDefinition {
        name,
        description: domain::text::cut_chars(description, DESCRIPTION_CHARS_MAX).to_owned(),
        input_schema: schema,
        class: ToolClass::Mcp,
        fingerprint: Some(sha256_hex(whole.canonical().as_bytes())),
    };
    Known { definition, own_name: tool.name.to_string() }
}

pub(super) fn prepare(servers: &[Arc<McpServer>], tool: &str, input: &RawJson) -> Result<Prepared, PrepareError> {
    let found = servers.iter().find_map(|server| Some((Arc::clone(server), server.find(tool)?)));
    let (server, known) = found.ok_or_else(|| PrepareError::Unknown(tool.to_owned()))?;
    if !input.is_object() {
        return Err(PrepareError::Input("it must be an object".into()));
    }
    let schema = jsonschema::validator_for(&known.definition.input_schema);
    if let Some(error) = schema.ok().and_then(|schema| schema.validate(&input.to_value()).err().map(|e| e.to_string())) {
        return Err(PrepareError::Input(error));
    }
    let description = domain::text::cut_chars(&known.definition.description, 300);
    let sentence = crate::shown::visible(&format!("Call {} of the MCP server {} (it says: {description})", known.own_name, server.id()));
    let effect = Effect { sentence, sandboxed: Some(false), ..Effect::default() };
    let fingerprint = known.definition.fingerprint.clone();
    let input = input.clone();
    let run =
        Box::new(move |stop| -> futures::future::BoxFuture<'static, ToolOutput> { Box::pin(async move { server.call(&known, &input, stop).await }) });
    Ok(Prepared { fingerprint, ..Prepared::new(ToolClass::Mcp, Target::Nothing, effect, run) })
}

/// Text as text, structured content as it is, everything else named and left out.
fn output(result: CallToolResult) -> ToolOutput {
    let text: Vec<String> = result.content.iter().map(block).collect();
    let text = text.join("\n");
    if result.is_error == Some(true) {
        return ToolOutput::failed(text);
    }
    let mut value = json!({ "text": text });
    if let Some(structured) = result.structured_content {
        value["structured"] = structured;
    }
    ToolOutput::done(&value)
}

fn block(block: &ContentBlock) -> String {
    match block {
        ContentBlock::Text(text) => text.text.clone(),
        ContentBlock::Image(image) => format!("[image {}, {} characters of base64 left out]", image.mime_type, image.data.len()),
        ContentBlock::Audio(audio) => format!("[audio {}, {} characters of base64 left out]", audio.mime_type, audio.data.len()),
        ContentBlock::Resource(_) => "[embedded resource left out]".to_owned(),
        ContentBlock::ResourceLink(link) => format!("[resource {}]", link.uri),
        _ => "[content of an unknown kind left out]".to_owned(), // the SDK's own enum may grow
    }
}
