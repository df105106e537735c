//! In front of `/mcp`: size, JSON, token, scope; and raw JSON on the way in and out.
//!
//! Who may call what is decided here, before the protocol library sees the request. A token that is not valid is 401 on every method,
//! so that clients refresh it; a missing one is 401 wherever one is needed.
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use axum::{
    body::Body,
    extract::{Request, State},
    http::{HeaderValue, Method, StatusCode, header, request::Parts},
    middleware::Next,
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use domain::{
    json::depth,
    limits::JSON_DEPTH_MAX,
    text::{SCOPE_READ, SCOPE_RUN},
};
use serde_json::{Value, json};

use super::{SCOPES, server::Call, slots::Slots, tools::Name};
use crate::{
    app::App,
    body::{self, BodyError},
    http_error::{ApiError, Code},
    queue::Granted,
    raw::RawMembers,
    relay_api::{bearer, too_many},
};

/// JSON-RPC error codes. Those of HTTP's own kind stand outside the reserved range.
const PARSE_ERROR: i64 = -32_700;
const INVALID_REQUEST: i64 = -32_600;

/// What a request needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Need {
    Nothing,
    Token,
    Scope(&'static str),
}

/// A JSON-RPC message as far as the gate reads it.
struct Message<'a> {
    id: Option<&'a str>,
    method: String,
    tool: Option<String>,
    /// The tool's arguments as they came.
    arguments: Option<&'a str>,
    members: RawMembers<'a>,
}

pub async fn gate(State(app): State<App>, request: Request, next: Next) -> Response {
    if request.method() != Method::POST {
        let mut refused = ApiError::new(Code::MethodNotAllowed, "this address takes POST only").into_response();
        refused.headers_mut().insert(header::ALLOW, HeaderValue::from_static("POST"));
        return refused;
    }
    let (parts, body) = request.into_parts();
    let text = match body::read_text(body).await {
        Ok(text) => text,
        Err(e @ (BodyError::TooLarge(_) | BodyError::TooSlow)) => return ApiError::from(e).into_response(),
        Err(e @ (BodyError::Broken | BodyError::NotText)) => {
            return rpc_error(StatusCode::BAD_REQUEST, None, PARSE_ERROR, &format!("Parse error: {e}"));
        }
    };
    let message = match Message::read(&text) {
        Ok(message) => message,
        Err((code, why)) => return rpc_error(StatusCode::BAD_REQUEST, None, code, &why),
    };
    let by = match admit(&app, &parts, &message).await {
        Ok(by) => by,
        Err(refused) => return refused,
    };
    let id = message.id.map(str::to_owned);
    let is_list = message.method == "tools/list";
    let call = Call { by, arguments: message.arguments.unwrap_or("{}").into(), slots: Slots::default(), revoked: Arc::new(AtomicBool::new(false)) };
    let inner = match message.for_library() {
        Ok(inner) => inner,
        Err((code, why)) => return rpc_error(StatusCode::BAD_REQUEST, id.as_deref(), code, &why),
    };
    let is_json = parts.headers.get(header::CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(b"application/json"));
    let response = next.run(forward(parts, inner, call.clone())).await;
    // The library answers both a wrong content type and what is no message of the protocol with 415 and plain text.
    if response.status() == StatusCode::UNSUPPORTED_MEDIA_TYPE {
        return match is_json {
            true => rpc_error(StatusCode::BAD_REQUEST, id.as_deref(), INVALID_REQUEST, "Invalid Request: this is no message of JSON-RPC 2.0"),
            false => rpc_error(response.status(), id.as_deref(), INVALID_REQUEST, "Invalid Request: the content type is to be application/json"),
        };
    }
    if call.revoked.load(Ordering::Relaxed) {
        return challenge(&app, id.as_deref(), true);
    }
    finish(response, &call.slots, is_list).await
}

impl<'a> Message<'a> {
    fn read(text: &'a str) -> Result<Self, (i64, String)> {
        let members = RawMembers::parse(text).map_err(|e| match text.trim_start().as_bytes().first() {
            Some(b'[') => (INVALID_REQUEST, "Invalid Request: one message per request; batches are not taken".to_owned()),
            _ if e.is_data() => (INVALID_REQUEST, "Invalid Request: a JSON-RPC message is an object".to_owned()),
            _ => (PARSE_ERROR, format!("Parse error: {e}")),
        })?;
        let method = members.string("method").unwrap_or_default();
        let (mut tool, mut arguments) = (None, None);
        if method == "tools/call"
            && let Some(params) = members.get("params").and_then(|p| RawMembers::parse(p).ok())
        {
            tool = params.string("name");
            arguments = params.get("arguments");
        }
        Ok(Self { id: members.get("id"), method, tool, arguments, members })
    }

    fn need(&self, anonymous_list: bool) -> Need {
        match self.method.as_str() {
            "initialize" | "server/discover" | "ping" | "" => Need::Nothing,
            "tools/list" if anonymous_list => Need::Nothing,
            method if method.starts_with("notifications/") => Need::Nothing,
            "tools/call" => self.tool.as_deref().and_then(Name::parse).map_or(Need::Token, |name| Need::Scope(name.scope())),
            "tasks/get" => Need::Scope(SCOPE_READ),
            "tasks/cancel" | "tasks/update" => Need::Scope(SCOPE_RUN),
            _ => Need::Token,
        }
    }

    /// The message with the tool's arguments taken out: the library would parse and lose their numbers, and refuse their depth.
    fn for_library(&self) -> Result<String, (i64, String)> {
        let mut out = String::from("{");
        for (name, value) in self.members.iter() {
            let value = match (self.arguments, name) {
                (Some(_), "params") => without_arguments(value),
                _ => value.to_owned(),
            };
            push_member(&mut out, name, &value);
        }
        out.push('}');
        if depth(&out) > JSON_DEPTH_MAX {
            return Err((PARSE_ERROR, format!("Parse error: nested deeper than {JSON_DEPTH_MAX} levels")));
        }
        Ok(out)
    }
}

fn push_member(out: &mut String, name: &str, value: &str) {
    if out.len() > 1 {
        out.push(',');
    }
    out.push_str(&Value::from(name).to_string());
    out.push(':');
    out.push_str(value);
}

fn without_arguments(params: &str) -> String {
    let Ok(members) = RawMembers::parse(params) else { return params.to_owned() };
    let mut out = String::from("{");
    for (name, value) in members.iter() {
        push_member(&mut out, name, if name == "arguments" { "{}" } else { value });
    }
    out.push('}');
    out
}

/// Who asks, if a token came; refused where one is missing, invalid or too narrow.
async fn admit(app: &App, parts: &Parts, message: &Message<'_>) -> Result<Option<Granted>, Response> {
    let need = message.need(app.config.anonymous_list);
    if !parts.headers.contains_key(header::AUTHORIZATION) {
        return if need == Need::Nothing { Ok(None) } else { Err(challenge(app, message.id, false)) };
    }
    let by = match (bearer(&parts.headers), need) {
        // Whatever needs a scope checks the grant again inside its own transaction.
        (Some(token), Need::Scope(_)) => app.queue.granted_lately(token).await,
        (Some(token), Need::Token | Need::Nothing) => app.queue.granted(token).await,
        (None, _) => Ok(None),
    };
    let by = by.map_err(|e| ApiError::from(e).into_response())?;
    let Some(by) = by else { return Err(challenge(app, message.id, true)) };
    app.limiter.take(&by.agent.to_string()).map_err(|seconds| too_many(seconds).into_response())?;
    match need {
        Need::Scope(scope) if !by.allows(scope) => Err(insufficient(app, message.id, scope)),
        Need::Token if by.scopes.is_empty() => Err(insufficient(app, message.id, SCOPE_READ)),
        Need::Scope(_) | Need::Token | Need::Nothing => Ok(Some(by)),
    }
}

fn forward(mut parts: Parts, body: String, call: Call) -> Request {
    parts.extensions.insert(call);
    parts.headers.remove(header::CONTENT_LENGTH);
    parts.headers.remove(header::TRANSFER_ENCODING);
    // Sessions are a thing of older versions; a stale one does no harm.
    parts.headers.remove("mcp-session-id");
    parts.headers.remove("last-event-id");
    // The library wants a Host; ours was judged already, and a request inside this process, or over HTTP/2, has none.
    parts.headers.insert(header::HOST, HeaderValue::from_static("localhost"));
    // Who asks for anything, or for JSON, gets JSON.
    let accept = parts.headers.get(header::ACCEPT).and_then(|v| v.to_str().ok()).unwrap_or("*/*");
    if accept.contains("*/*") || accept.contains("application/") || accept.contains("text/event-stream") {
        parts.headers.insert(header::ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
    }
    Request::from_parts(parts, Body::from(body))
}

/// Puts raw JSON and the tools' `securitySchemes` into the answer.
async fn finish(response: Response, slots: &Slots, is_list: bool) -> Response {
    // A stream is passed on as it comes: nothing of ours is in it.
    let is_json = response.headers().get(header::CONTENT_TYPE).and_then(|v| v.to_str().ok()).is_some_and(|v| v.starts_with("application/json"));
    if !is_json {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    let Ok(bytes) = axum::body::to_bytes(body, usize::MAX).await else {
        return ApiError::new(Code::Internal, "the answer broke off").into_response();
    };
    let filled = match std::str::from_utf8(&bytes) {
        Ok(text) if is_list => with_security_schemes(text),
        Ok(text) => slots.fill(text),
        Err(_) => None,
    };
    parts.headers.remove(header::CONTENT_LENGTH);
    Response::from_parts(parts, Body::from(filled.map_or(bytes, Bytes::from)))
}

fn with_security_schemes(body: &str) -> Option<String> {
    let mut body: Value = serde_json::from_str(body).ok()?;
    for tool in body.pointer_mut("/result/tools")?.as_array_mut()? {
        let schemes = tool.pointer("/_meta/securitySchemes").cloned()?;
        tool.as_object_mut()?.insert("securitySchemes".into(), schemes);
    }
    Some(body.to_string())
}

fn rpc_error(status: StatusCode, id: Option<&str>, code: i64, message: &str) -> Response {
    let id: Value = id.and_then(|id| serde_json::from_str(id).ok()).unwrap_or(Value::Null);
    let body = json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}});
    (status, axum::Json(body)).into_response()
}

fn with_challenge(mut response: Response, value: &str) -> Response {
    if let Ok(value) = HeaderValue::from_str(value) {
        response.headers_mut().insert(header::WWW_AUTHENTICATE, value);
    }
    response
}

fn metadata_url(app: &App) -> String {
    format!("{}/.well-known/oauth-protected-resource/mcp", app.config.public_url)
}

/// 401: no token, or one that is not valid (any more).
fn challenge(app: &App, id: Option<&str>, token_came: bool) -> Response {
    let (error, message) = if token_came {
        (
            ", error=\"invalid_token\", error_description=\"The access token is unknown, expired or revoked\"",
            "The access token is unknown, expired or revoked",
        )
    } else {
        ("", "Authorization is required")
    };
    let response = rpc_error(StatusCode::UNAUTHORIZED, id, 401, message);
    with_challenge(response, &format!("Bearer resource_metadata=\"{}\", scope=\"{SCOPES}\"{error}", metadata_url(app)))
}

/// 403: both scopes are named, because clients ask again only for what the challenge names.
fn insufficient(app: &App, id: Option<&str>, scope: &str) -> Response {
    let message = format!("Insufficient scope: this needs {scope}");
    let response = rpc_error(StatusCode::FORBIDDEN, id, 403, &message);
    let challenge = format!(
        "Bearer error=\"insufficient_scope\", scope=\"{SCOPES}\", resource_metadata=\"{}\", error_description=\"{message}\"",
        metadata_url(app)
    );
    with_challenge(response, &challenge)
}
