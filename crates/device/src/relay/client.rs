//! Graph Queue's device API as one typed client over [`HttpSend`].
//!
//! Addresses, JSON, the bearer token and the meaning of answers live here, so that a simulation below [`HttpSend`] exercises all of them.
//! Invariants: the token stands in the one header and nowhere else; only a body of the expected shape is an answer; every request ends
//! within 30 s.
use std::{fmt, sync::Arc, time::Duration};

use bytes::Bytes;
use domain::{
    AgentId, CommandId, DeviceId, ExecutionId, GraphSessionId, ProjectId, Timestamp,
    limits::{CONTROL_HOLD_MS_MAX, DOORBELL_HOLD_MS_MAX, REQUEST_TIMEOUT_MS},
    text::{RELAY_VERSION, RELAY_VERSION_HEADER, cut_chars},
    wire::{
        relay as wire,
        said::{Sentence, said},
    },
};
use http::{Method, StatusCode, header};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::value::RawValue;

use crate::ports::{HttpSend, TransportError};

/// Longest held request: hold plus this is still under 30 s.
const HELD_EXTRA_MS: u64 = 4_500;
/// A control poll without an answer is given up so soon that the next ones can bring a cancel.
const CONTROL_EXTRA_MS: u64 = 9_000;
const _: () = assert!(DOORBELL_HOLD_MS_MAX + HELD_EXTRA_MS <= 30_000 && REQUEST_TIMEOUT_MS <= 30_000);
const _: () = assert!(CONTROL_HOLD_MS_MAX + CONTROL_EXTRA_MS <= 30_000);

/// Asked in the middle of a pass: short, so that a server that hangs on these still gets its next sync within a minute; longer for a
/// long completion on a slow line.
const START_MS: u64 = 15_000;
const COMPLETE_MS: u64 = 15_000;
const COMPLETE_MS_MAX: u64 = 28_000;
const BYTES_PER_MS: u64 = 10;

/// Longest wait that is taken from somebody who does not speak our language.
const GATEWAY_WAIT_MS_MAX: u64 = 120_000;

/// The server's words are shown and stored; not more of them than this.
const WORDS_CHARS_MAX: usize = 500;

/// A device token. Its `Debug` says nothing.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

impl Token {
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
    /// For the secret store alone.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}
impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

/// Where this device's queue is and as whom it speaks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    /// `https://queue.example`, without a trailing slash.
    pub address: String,
    pub device: DeviceId,
    pub token: Token,
}

/// Why a question has no answer. The words are for the owner: [`AskError::sentence`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AskError {
    Unreachable(TransportError),
    /// Something else answered: a captive portal, a proxy, another program.
    NotOurs {
        status: u16,
    },
    /// The server's own words. `state` is the command's state that stands, on a refused start.
    Refused {
        status: u16,
        code: String,
        message: String,
        retryable: bool,
        state: Option<String>,
    },
    Unauthorized {
        message: String,
    },
    TooMany {
        retry_after_ms: Option<u64>,
        message: String,
    },
}

impl std::error::Error for AskError {}
impl fmt::Display for AskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.sentence().text)
    }
}
impl From<TransportError> for AskError {
    fn from(e: TransportError) -> Self {
        Self::Unreachable(e)
    }
}

impl AskError {
    /// What the server or the network itself said is data.
    pub fn sentence(&self) -> Sentence {
        match self {
            Self::Unreachable(TransportError::TimedOut(seconds)) => {
                said("no_answer_within", "no answer within {seconds} s", [("seconds", (*seconds).into())])
            }
            Self::Unreachable(TransportError::HostUnreachable { host, why }) => {
                said("host_unreachable", "{host} cannot be reached: {why}", [("host", host.as_str().into()), ("why", why.as_str().into())])
            }
            Self::Unreachable(TransportError::Certificate { host, why }) => {
                let facts = [("host", host.as_str().into()), ("why", why.as_str().into())];
                said("certificate_untrusted", "the certificate of {host} is not trusted: {why}", facts)
            }
            Self::Unreachable(e @ (TransportError::Unreachable(_) | TransportError::TooLarge(_))) => e.to_string().into(),
            Self::NotOurs { status } => said(
                "answer_not_ours",
                "the answer (HTTP {status}) does not come from Graph Queue; a network in between may want a sign-in",
                [("status", u64::from(*status).into())],
            ),
            Self::Refused { message, .. } => message.as_str().into(),
            Self::Unauthorized { message } => said(
                "device_not_accepted",
                "Graph Queue no longer accepts this device ({message}). Pair it again; finished work is kept and will be delivered.",
                [("message", message.as_str().into())],
            ),
            Self::TooMany { message, .. } => {
                said("queue_asks_to_wait", "Graph Queue asks to wait: {message}", [("message", message.as_str().into())])
            }
        }
    }
    /// The server refused this very request, and waiting will not change that.
    pub const fn is_final(&self) -> bool {
        match self {
            Self::Refused { retryable, .. } => !*retryable,
            Self::Unreachable(_) | Self::NotOurs { .. } | Self::Unauthorized { .. } | Self::TooMany { .. } => false,
        }
    }
    /// Another request now would fare no better.
    pub const fn concerns_all(&self) -> bool {
        match self {
            Self::Refused { .. } => false,
            Self::Unreachable(_) | Self::NotOurs { .. } | Self::Unauthorized { .. } | Self::TooMany { .. } => true,
        }
    }
    pub const fn status(&self) -> Option<u16> {
        match self {
            Self::Refused { status, .. } | Self::NotOurs { status } => Some(*status),
            Self::Unauthorized { .. } => Some(401),
            Self::TooMany { .. } => Some(429),
            Self::Unreachable(_) => None,
        }
    }
}

/// A sync's answer whose members were read one by one, so that a broken one does not hide the others.
#[derive(Debug, Clone)]
pub struct Synced {
    pub commands: Vec<Offer>,
    pub more: bool,
    pub running: Vec<wire::RunningCommand>,
    pub revision: u64,
    pub server_time: Timestamp,
    /// What the server sent that this device refuses, in words.
    pub faults: Vec<String>,
}

/// An offered command whose id is one.
#[derive(Debug, Clone)]
pub struct Offer {
    pub command: CommandId,
    pub offered: wire::OfferedCommand,
}

#[derive(Clone)]
pub struct QueueClient {
    http: Arc<dyn HttpSend>,
    address: Arc<str>,
    token: Option<Token>,
}

impl QueueClient {
    pub fn new(http: Arc<dyn HttpSend>, link: &Link) -> Self {
        Self { http, address: link.address.trim_end_matches('/').into(), token: Some(link.token.clone()) }
    }

    /// Before pairing: only [`QueueClient::pair`] makes sense.
    pub fn without_token(http: Arc<dyn HttpSend>, address: &str) -> Self {
        Self { http, address: address.trim_end_matches('/').into(), token: None }
    }

    // ── Pairing ─────────────────────────────────────────────────────────────────────────────────────────────────────

    pub async fn pair(&self, request: &wire::PairRequest) -> Result<wire::PairAnswer, AskError> {
        self.ask(Method::POST, "/external-assistants/pair", Some(request)).await
    }

    pub async fn unpair(&self) -> Result<(), AskError> {
        self.done(Method::DELETE, "/external-assistants/device", None::<&()>).await
    }

    // ── The relay ───────────────────────────────────────────────────────────────────────────────────────────────────

    pub async fn sync(&self, request: &wire::SyncRequest) -> Result<Synced, AskError> {
        #[derive(Deserialize)]
        struct Body<'a> {
            #[serde(borrow)]
            commands: Vec<&'a RawValue>,
            #[serde(default)]
            more: bool,
            #[serde(borrow, default)]
            running: Vec<&'a RawValue>,
            #[serde(default)]
            revision: u64,
            server_time: Timestamp,
        }
        let (status, bytes) = self.send(Method::POST, &relay_path("sync"), Some(request), REQUEST_TIMEOUT_MS).await?;
        let body: Body<'_> = serde_json::from_slice(&bytes).map_err(|_| AskError::NotOurs { status })?;
        let mut faults = Vec::new();
        let mut commands = Vec::with_capacity(body.commands.len());
        for raw in body.commands {
            match read_offer(raw) {
                Ok(offer) => commands.push(offer),
                Err(fault) => faults.push(fault),
            }
        }
        let mut running = Vec::with_capacity(body.running.len());
        for raw in body.running {
            match serde_json::from_str(raw.get()) {
                Ok(command) => running.push(command),
                Err(e) => faults.push(format!("The server named a running command that cannot be read ({e}); it was left alone.")),
            }
        }
        Ok(Synced { commands, more: body.more, running, revision: body.revision, server_time: body.server_time, faults })
    }

    pub async fn doorbell(&self, request: &wire::DoorbellRequest) -> Result<wire::DoorbellAnswer, AskError> {
        self.ask_within(&relay_path("doorbell"), request, request.hold_ms + HELD_EXTRA_MS).await
    }

    pub async fn start(&self, command: CommandId, execution: &ExecutionId) -> Result<wire::StartAnswer, AskError> {
        let request = wire::StartRequest { execution_id: execution.clone() };
        let answer: wire::StartAnswer = self.ask_within(&command_path(command, "start"), &request, START_MS).await?;
        if answer.status == "running" { Ok(answer) } else { Err(AskError::NotOurs { status: 200 }) }
    }

    pub async fn control(&self, command: CommandId, request: &wire::ControlRequest) -> Result<wire::ControlAnswer, AskError> {
        self.ask_within(&command_path(command, "control"), request, request.hold_ms.unwrap_or(0) + CONTROL_EXTRA_MS).await
    }

    /// `body` is posted as it was stored.
    pub async fn complete(&self, command: CommandId, body: &str) -> Result<wire::CompleteAnswer, AskError> {
        let body = Bytes::copy_from_slice(body.as_bytes());
        let within_ms = (COMPLETE_MS + body.len() as u64 / BYTES_PER_MS).min(COMPLETE_MS_MAX);
        let (status, bytes) = self.send_bytes(Method::POST, &command_path(command, "complete"), Some(body), within_ms).await?;
        serde_json::from_slice(&bytes).map_err(|_| AskError::NotOurs { status })
    }

    // ── Projects, agents, the owner's commands ──────────────────────────────────────────────────────────────────────

    pub async fn projects(&self) -> Result<wire::ProjectList, AskError> {
        self.ask(Method::GET, "/external-assistants/projects", None::<&()>).await
    }
    pub async fn create_project(&self, name: &str) -> Result<wire::Project, AskError> {
        self.ask(Method::POST, "/external-assistants/projects", Some(&wire::ProjectName { name: name.into() })).await
    }
    pub async fn rename_project(&self, id: ProjectId, name: &str) -> Result<wire::Project, AskError> {
        let path = format!("/external-assistants/projects/{id}");
        self.ask(Method::PATCH, &path, Some(&wire::ProjectName { name: name.into() })).await
    }
    pub async fn delete_project(&self, id: ProjectId) -> Result<(), AskError> {
        self.done(Method::DELETE, &format!("/external-assistants/projects/{id}"), None::<&()>).await
    }
    pub async fn connect_code(&self, grant: &wire::GrantRequest) -> Result<wire::ConnectCodeAnswer, AskError> {
        self.ask(Method::POST, "/external-assistants/connect-codes", Some(grant)).await
    }
    /// The one-time code of the owner's browser page; the answer's shape is the caller's to read.
    pub async fn sign_in_code<T: DeserializeOwned>(&self) -> Result<T, AskError> {
        self.ask(Method::POST, "/external-assistants/sign-in-codes", Some(&serde_json::json!({}))).await
    }
    pub async fn mint_agent_token(&self, grant: &wire::GrantRequest) -> Result<wire::AgentTokenAnswer, AskError> {
        self.ask(Method::POST, "/external-assistants/agent-tokens", Some(grant)).await
    }
    pub async fn agents(&self) -> Result<wire::AgentList, AskError> {
        self.ask(Method::GET, "/external-assistants/agents", None::<&()>).await
    }
    pub async fn revoke_agent(&self, id: AgentId) -> Result<(), AskError> {
        self.done(Method::DELETE, &format!("/external-assistants/agents/{id}"), None::<&()>).await
    }
    /// `query` as in `project_id=…&limit=50`; empty for all.
    pub async fn commands(&self, query: &str) -> Result<wire::CommandList, AskError> {
        let mark = if query.is_empty() { "" } else { "?" };
        self.ask(Method::GET, &format!("/external-assistants/commands{mark}{query}"), None::<&()>).await
    }
    pub async fn cancel_command(&self, id: CommandId) -> Result<(), AskError> {
        self.done(Method::POST, &format!("/external-assistants/commands/{id}/cancel"), Some(&serde_json::json!({}))).await
    }
    /// Which texts of this device the queue holds for reading in the browser.
    pub async fn graphs(&self) -> Result<wire::ReadableGraphs, AskError> {
        self.ask(Method::GET, "/external-assistants/graphs", None::<&()>).await
    }
    /// A Graph's text for reading in the browser; only where the owner chose so.
    pub async fn put_graph(&self, id: GraphSessionId, graph: &impl Serialize) -> Result<(), AskError> {
        self.done(Method::PUT, &format!("/external-assistants/graphs/{id}"), Some(graph)).await
    }
    pub async fn delete_graph(&self, id: GraphSessionId) -> Result<(), AskError> {
        self.done(Method::DELETE, &format!("/external-assistants/graphs/{id}"), None::<&()>).await
    }

    // ── One exchange ────────────────────────────────────────────────────────────────────────────────────────────────

    async fn ask<T: DeserializeOwned>(&self, method: Method, path: &str, body: Option<&impl Serialize>) -> Result<T, AskError> {
        let (status, bytes) = self.send(method, path, body, REQUEST_TIMEOUT_MS).await?;
        serde_json::from_slice(&bytes).map_err(|_| AskError::NotOurs { status })
    }

    async fn ask_within<T: DeserializeOwned>(&self, path: &str, body: &impl Serialize, within_ms: u64) -> Result<T, AskError> {
        let (status, bytes) = self.send(Method::POST, path, Some(body), within_ms).await?;
        serde_json::from_slice(&bytes).map_err(|_| AskError::NotOurs { status })
    }

    /// Where the answer has no body worth reading, it must still be JSON or nothing: a portal's page is neither.
    async fn done(&self, method: Method, path: &str, body: Option<&impl Serialize>) -> Result<(), AskError> {
        let (status, bytes) = self.send(method, path, body, REQUEST_TIMEOUT_MS).await?;
        if bytes.is_empty() || serde_json::from_slice::<&RawValue>(&bytes).is_ok() { Ok(()) } else { Err(AskError::NotOurs { status }) }
    }

    async fn send(&self, method: Method, path: &str, body: Option<&impl Serialize>, within_ms: u64) -> Result<(u16, Bytes), AskError> {
        let unwritable = |e: serde_json::Error| AskError::Unreachable(TransportError::Unreachable(format!("the request cannot be written: {e}")));
        let bytes = body.map(|b| serde_json::to_vec(b).map(Bytes::from)).transpose().map_err(unwritable)?;
        self.send_bytes(method, path, bytes, within_ms).await
    }

    async fn send_bytes(&self, method: Method, path: &str, body: Option<Bytes>, within_ms: u64) -> Result<(u16, Bytes), AskError> {
        let mut request = http::Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.address))
            .header(RELAY_VERSION_HEADER, RELAY_VERSION)
            .header(header::ACCEPT, "application/json");
        if body.is_some() {
            request = request.header(header::CONTENT_TYPE, "application/json");
        }
        if let Some(token) = &self.token {
            request = request.header(header::AUTHORIZATION, format!("Bearer {}", token.0));
        }
        let unfit = |_| AskError::Unreachable(TransportError::Unreachable("the queue's address is not one a request can be sent to".into()));
        let request = request.body(body.unwrap_or_default()).map_err(unfit)?;
        let answer = self.http.send(request, Duration::from_millis(within_ms)).await?;
        read_status(&answer)?;
        Ok((answer.status().as_u16(), answer.into_body()))
    }
}

fn relay_path(what: &str) -> String {
    format!("/external-assistants/graph-relays/{what}")
}

fn command_path(command: CommandId, what: &str) -> String {
    format!("/external-assistants/graph-relays/commands/{command}/{what}")
}

fn read_offer(raw: &RawValue) -> Result<Offer, String> {
    let offered: wire::OfferedCommand =
        serde_json::from_str(raw.get()).map_err(|e| format!("The server offered a command that cannot be read ({e}); it was refused."))?;
    match CommandId::parse(&offered.command_id) {
        Ok(command) => Ok(Offer { command, offered }),
        Err(_) => {
            let id = cut_chars(&offered.command_id, 60).escape_debug().to_string();
            Err(format!("The server offered a command whose id is not a UUID (\"{id}\"); it was refused."))
        }
    }
}

/// `Retry-After` in either of its forms. A date is measured from the answer's own `Date`, so that this computer's clock has no say.
fn retry_after_ms(headers: &header::HeaderMap) -> Option<u64> {
    let text = |name| headers.get(name).and_then(|v| v.to_str().ok()).map(str::trim);
    let asked = text(header::RETRY_AFTER)?;
    if let Ok(seconds) = asked.parse::<u64>() {
        return Some(seconds.saturating_mul(1000));
    }
    let (until, from) = (httpdate::parse_http_date(asked).ok()?, httpdate::parse_http_date(text(header::DATE)?).ok()?);
    let wait = until.duration_since(from).unwrap_or_default();
    u64::try_from(wait.as_millis()).ok()
}

/// A 2xx may be an answer; everything else is an error of ours, or not ours at all (redirects included).
fn read_status(answer: &http::Response<Bytes>) -> Result<(), AskError> {
    let status = answer.status();
    if status.is_success() {
        return Ok(());
    }
    let retry_after_ms = retry_after_ms(answer.headers());
    let asks_to_wait = status == StatusCode::TOO_MANY_REQUESTS || (status == StatusCode::SERVICE_UNAVAILABLE && retry_after_ms.is_some());
    let Ok(wire::ErrorBody { error, status: state }) = serde_json::from_slice(answer.body()) else {
        // A gateway in front of the queue may ask for patience too; it is taken at its word for a while.
        return Err(match retry_after_ms {
            Some(ms) if asks_to_wait => AskError::TooMany {
                retry_after_ms: Some(ms.min(GATEWAY_WAIT_MS_MAX)),
                message: format!("something in front of it answers {}", status.as_u16()),
            },
            Some(_) | None => AskError::NotOurs { status: status.as_u16() },
        });
    };
    let message = cut_chars(&error.message, WORDS_CHARS_MAX).to_owned();
    if status == StatusCode::UNAUTHORIZED {
        return Err(AskError::Unauthorized { message });
    }
    if asks_to_wait {
        return Err(AskError::TooMany { retry_after_ms, message });
    }
    // What HTTP says it means: a server fault may pass, whatever the envelope thinks.
    let retryable = error.retryable || status.is_server_error();
    Err(AskError::Refused { status: status.as_u16(), code: error.code, message, retryable, state })
}
