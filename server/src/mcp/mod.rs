//! `POST /mcp`: five tools for connected agents, stateless, protocol versions 2025-03-26 to 2026-07-28 side by side.
//!
//! [`gate`] stands in front of the protocol library: it knows tokens, scopes and raw JSON. [`server`] is what the library calls;
//! [`input`] checks what an agent sends, [`answer`] shapes what it gets, [`texts`] says it in words.
pub mod answer;
mod gate;
pub mod input;
mod server;
mod slots;
pub mod texts;
pub mod tools;

use std::sync::Arc;

use axum::{Json, Router, extract::State, middleware, routing::get};
use domain::text::{SCOPE_READ, SCOPE_RUN};
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService, session::never::NeverSessionManager};
use serde_json::{Value, json};

use crate::app::App;

/// Both: what a connected agent asks for when it connects.
pub const SCOPES: &str = "osfoundry:read osfoundry:run";

pub fn router(app: &App) -> Router<App> {
    // Host, Origin and size are judged before a request comes here, so the library's own checks are off.
    let config = StreamableHttpServerConfig::default()
        .with_legacy_session_mode(false)
        .with_json_response(true)
        .disable_allowed_hosts()
        .disable_allowed_origins()
        .with_max_request_body_bytes(2 * domain::limits::BODY_BYTES_MAX);
    let handler = server::Handler { app: app.clone() };
    let service = StreamableHttpService::new(move || Ok(handler.clone()), Arc::new(NeverSessionManager::default()), config);
    Router::new()
        .route_service("/mcp", service)
        .layer(middleware::from_fn_with_state(app.clone(), gate::gate))
        .route("/.well-known/oauth-protected-resource", get(resource_metadata))
        .route("/.well-known/oauth-protected-resource/mcp", get(resource_metadata))
}

/// RFC 9728. Addresses come from configuration, never from the Host header.
async fn resource_metadata(State(app): State<App>) -> Json<Value> {
    Json(json!({
        "resource": app.config.mcp_url(),
        "authorization_servers": [app.config.public_url],
        "scopes_supported": [SCOPE_READ, SCOPE_RUN],
        "bearer_methods_supported": ["header"],
        "resource_name": "Graph Queue",
    }))
}
