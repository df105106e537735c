//! Graph Queue as its own small authorization server: consent by connect code, opaque rotating tokens.
//!
//! RFC 6749 with PKCE S256, 7009, 7591, 8414, 8707, 9207, 9728 and client ID metadata documents. No passwords and no sessions: whoever
//! can read a connect code from the owner's desktop is the owner.
mod authorize;
mod clients;
pub mod documents;
mod pages;
mod token;

use axum::{
    Json, Router,
    extract::State,
    routing::{get, post},
};
use domain::text::{SCOPE_READ, SCOPE_RUN};
use serde_json::{Value, json};

use crate::app::{Access, App, Route};
pub use clients::MetadataError;
pub(crate) use clients::{Fetched, make, read_pinned};

pub const ROUTES: &[Route] = &[
    Route { method: "get", path: "/.well-known/oauth-authorization-server", access: Access::Anybody },
    Route { method: "get", path: "/oauth/authorize", access: Access::Anybody },
    Route { method: "post", path: "/oauth/authorize", access: Access::Anybody },
    Route { method: "post", path: "/oauth/token", access: Access::Anybody },
    Route { method: "post", path: "/oauth/revoke", access: Access::Anybody },
    Route { method: "post", path: "/oauth/register", access: Access::Anybody },
];

pub fn router() -> Router<App> {
    Router::new()
        .route("/.well-known/oauth-authorization-server", get(metadata))
        .route("/oauth/authorize", get(authorize::ask).post(authorize::answer))
        .route("/oauth/token", post(token::token))
        .route("/oauth/revoke", post(token::revoke))
        .route("/oauth/register", post(clients::register))
}

/// RFC 8414. Addresses come from configuration, never from the Host header.
async fn metadata(State(app): State<App>) -> Json<Value> {
    let url = &app.config.public_url;
    let methods = json!(["none", "client_secret_post", "client_secret_basic"]);
    Json(json!({
        "issuer": url,
        "authorization_endpoint": format!("{url}/oauth/authorize"),
        "token_endpoint": format!("{url}/oauth/token"),
        "registration_endpoint": format!("{url}/oauth/register"),
        "revocation_endpoint": format!("{url}/oauth/revoke"),
        "response_types_supported": ["code"],
        "response_modes_supported": ["query"],
        "grant_types_supported": ["authorization_code", "refresh_token"],
        "code_challenge_methods_supported": ["S256"],
        "token_endpoint_auth_methods_supported": methods,
        "revocation_endpoint_auth_methods_supported": methods,
        "scopes_supported": [SCOPE_READ, SCOPE_RUN],
        "client_id_metadata_document_supported": true,
        "authorization_response_iss_parameter_supported": true,
    }))
}

/// One value of a form or query; a name that comes twice counts as malformed.
pub(crate) struct Form(Vec<(String, String)>);

impl Form {
    pub fn parse(text: &str) -> Self {
        Self(url::form_urlencoded::parse(text.as_bytes()).into_owned().collect())
    }
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str()).filter(|value| !value.is_empty())
    }
    pub fn has_twins(&self) -> bool {
        self.0.iter().enumerate().any(|(i, (name, _))| self.0[..i].iter().any(|(other, _)| other == name))
    }
}

/// The one resource there is; absent means it.
fn resource_is_ours(app: &App, resource: Option<&str>) -> bool {
    resource.is_none_or(|r| r.trim_end_matches('/') == app.config.mcp_url() || r.trim_end_matches('/') == app.config.public_url)
}
