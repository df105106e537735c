//! Who a client is: registered here (RFC 7591), known by its metadata document, or pinned by the operator.
use std::{collections::BTreeMap, sync::Mutex, sync::PoisonError, time::Duration};

use axum::{
    Json,
    body::Body,
    extract::State,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use domain::limits::NAME_CHARS_MAX;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::Instant;
use url::{Host, Url};

use super::documents::{self, DocumentError};
use crate::{
    app::App,
    body,
    ports::{Random, bytes},
    queue::grant::Client,
    relay_api::{From, too_many},
    secret,
    store::StoreError,
};

const REDIRECTS_MAX: usize = 10;
const REDIRECT_BYTES_MAX: usize = 2_000;
/// A fetched document is believed this long.
const DOCUMENT_FRESH: Duration = Duration::from_secs(60 * 60);
const DOCUMENTS_KEPT_MAX: usize = 1_000;

#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    #[error("this client is not known here; it has to register again")]
    Unknown,
    #[error("the client's document cannot be used: {0}")]
    BadDocument(String),
    #[error(transparent)]
    Document(#[from] DocumentError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A client, and whether its id was verified.
#[derive(Debug, Clone)]
pub struct Known {
    pub client: Client,
    pub verified: bool,
}

/// Documents fetched lately. Lost at a restart and fetched again.
#[derive(Default)]
pub struct Fetched(Mutex<BTreeMap<String, (Instant, Client)>>);

/// What a client says about itself, there or at registration.
#[derive(Debug, Deserialize)]
struct About {
    #[serde(default)]
    client_id: Option<String>,
    #[serde(default)]
    client_name: Option<String>,
    #[serde(default)]
    redirect_uris: Vec<String>,
    #[serde(default)]
    token_endpoint_auth_method: Option<String>,
}

/// Reads a document that stands at `client_id`.
fn read_document(client_id: &str, text: &str) -> Result<Client, ClientError> {
    let bad = |why: &str| ClientError::BadDocument(why.into());
    let about: About = serde_json::from_str(text).map_err(|e| ClientError::BadDocument(e.to_string()))?;
    if about.client_id.as_deref() != Some(client_id) {
        return Err(bad("its client_id is not its address"));
    }
    if about.token_endpoint_auth_method.as_deref().is_some_and(|method| method != "none") {
        return Err(bad("only public clients (token_endpoint_auth_method none) are known by a document"));
    }
    let redirect_uris = check_redirects(about.redirect_uris).map_err(|why| bad(&why))?;
    Ok(Client { client_id: client_id.to_owned(), client_name: name_of(about.client_name), redirect_uris, secret_hash: None })
}

/// Pinned copies, by the id they name.
pub fn read_pinned(text: &str) -> Result<(String, Client), ClientError> {
    let about: About = serde_json::from_str(text).map_err(|e| ClientError::BadDocument(e.to_string()))?;
    let id = about.client_id.ok_or_else(|| ClientError::BadDocument("it names no client_id".into()))?;
    Ok((id.clone(), read_document(&id, text)?))
}

fn name_of(name: Option<String>) -> String {
    let name = name.unwrap_or_default();
    let shown: String = name.chars().filter(|c| !c.is_control()).take(NAME_CHARS_MAX).collect();
    if shown.trim().is_empty() { "MCP client".into() } else { shown }
}

fn check_redirects(uris: Vec<String>) -> Result<Vec<String>, String> {
    if uris.is_empty() || uris.len() > REDIRECTS_MAX {
        return Err(format!("redirect_uris must name 1 to {REDIRECTS_MAX} addresses"));
    }
    match uris.iter().find(|uri| !may_redirect_to(uri)) {
        Some(_) => Err("a redirect must be https, or http to this computer, without user or fragment".into()),
        None => Ok(uris),
    }
}

fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name.eq_ignore_ascii_case("localhost"),
        Some(Host::Ipv4(ip)) => ip.is_loopback(),
        Some(Host::Ipv6(ip)) => ip.is_loopback(),
        None => false,
    }
}

fn may_redirect_to(uri: &str) -> bool {
    let Ok(url) = Url::parse(uri) else { return false };
    let plain = url.fragment().is_none() && url.username().is_empty() && url.password().is_none() && uri.len() <= REDIRECT_BYTES_MAX;
    plain && url.host().is_some() && (url.scheme() == "https" || (url.scheme() == "http" && is_loopback(&url)))
}

/// To the letter; on this computer any port will do (RFC 8252, and `localhost` too: clients use it).
pub fn redirect_matches(registered: &[String], asked: &str) -> bool {
    if !may_redirect_to(asked) {
        return false;
    }
    registered.iter().any(|known| {
        known == asked || {
            let (Ok(mut a), Ok(mut b)) = (Url::parse(known), Url::parse(asked)) else { return false };
            is_loopback(&a) && is_loopback(&b) && a.set_port(None).is_ok() && b.set_port(None).is_ok() && a == b
        }
    })
}

/// Finds out who a client is.
pub async fn find(app: &App, client_id: &str) -> Result<Known, ClientError> {
    if let Some(client) = app.pinned.get(client_id) {
        return Ok(Known { client: client.clone(), verified: true });
    }
    if !client_id.starts_with("https://") {
        let client = app.queue.client(client_id).await?.ok_or(ClientError::Unknown)?;
        return Ok(Known { client, verified: false });
    }
    let address = documents::address(client_id)?;
    let kept = app.fetched.0.lock().unwrap_or_else(PoisonError::into_inner).get(client_id).cloned();
    if let Some((at, client)) = kept
        && at.elapsed() < DOCUMENT_FRESH
    {
        return Ok(Known { client, verified: true });
    }
    let documents = app.config.documents.clone().ok_or(DocumentError::NotFetching)?;
    let client = read_document(client_id, &documents.fetch(address).await?)?;
    let mut kept = app.fetched.0.lock().unwrap_or_else(PoisonError::into_inner);
    if kept.len() >= DOCUMENTS_KEPT_MAX {
        kept.clear();
    }
    kept.insert(client_id.to_owned(), (Instant::now(), client.clone()));
    Ok(Known { client, verified: true })
}

pub fn oauth_error(status: StatusCode, error: &str, description: &str) -> Response {
    let headers = [("cache-control", "no-store"), ("pragma", "no-cache")];
    (status, headers, Json(json!({"error": error, "error_description": description}))).into_response()
}

/// What a client may not ask for.
#[derive(Debug, thiserror::Error)]
pub enum MetadataError {
    #[error("{0}")]
    Redirects(String),
    #[error("token_endpoint_auth_method must be none, client_secret_post or client_secret_basic")]
    Method,
}

/// A new client, and its secret if its way to say who it is needs one.
pub fn make(random: &dyn Random, name: Option<String>, redirects: Vec<String>, method: &str) -> Result<(Client, Option<String>), MetadataError> {
    let redirect_uris = check_redirects(redirects).map_err(MetadataError::Redirects)?;
    let secret = match method {
        "none" => None,
        "client_secret_post" | "client_secret_basic" => Some(format!("osfs_{}", URL_SAFE_NO_PAD.encode(bytes::<32>(random)))),
        _ => return Err(MetadataError::Method),
    };
    let client_id = format!("osfc_{}", URL_SAFE_NO_PAD.encode(bytes::<18>(random)));
    let client = Client { client_id, client_name: name_of(name), redirect_uris, secret_hash: secret.as_deref().map(secret::hash) };
    Ok((client, secret))
}

/// RFC 7591. The asked auth method is honoured: `none` gets no secret, the others get one, shown once.
pub async fn register(From(address): From, State(app): State<App>, body: Body) -> Response {
    if let Some(address) = address
        && let Err(seconds) = app.strangers.take(&address.to_string())
    {
        return too_many(seconds).into_response();
    }
    let invalid = |error: &str, why: &str| oauth_error(StatusCode::BAD_REQUEST, error, why);
    let text = match body::read_text(body).await {
        Ok(text) if text.len() <= domain::limits::CLIENT_DOCUMENT_BYTES_MAX => text,
        Ok(_) | Err(_) => return invalid("invalid_client_metadata", "the body is too large or broken"),
    };
    let (Ok(about), Ok(Value::Object(mut echo))) = (serde_json::from_str::<About>(&text), serde_json::from_str::<Value>(&text)) else {
        return invalid("invalid_client_metadata", "the body is not a JSON object with redirect_uris");
    };
    let method = about.token_endpoint_auth_method.unwrap_or_else(|| "client_secret_basic".into());
    let (client, secret) = match make(&*app.queue.random, about.client_name, about.redirect_uris, &method) {
        Ok(made) => made,
        Err(e @ MetadataError::Redirects(_)) => return invalid("invalid_redirect_uri", &e.to_string()),
        Err(e @ MetadataError::Method) => return invalid("invalid_client_metadata", &e.to_string()),
    };
    let (client_id, redirect_uris) = (client.client_id.clone(), client.redirect_uris.clone());
    if let Err(e) = app.queue.register_client(client, false).await {
        return crate::http_error::ApiError::from(e).into_response();
    }
    echo.insert("client_id".into(), json!(client_id));
    echo.insert("client_id_issued_at".into(), json!(app.queue.now().ms() / 1000));
    echo.insert("redirect_uris".into(), json!(redirect_uris));
    echo.insert("token_endpoint_auth_method".into(), json!(method));
    echo.entry("grant_types").or_insert_with(|| json!(["authorization_code", "refresh_token"]));
    echo.entry("response_types").or_insert_with(|| json!(["code"]));
    if let Some(secret) = secret {
        echo.insert("client_secret".into(), json!(secret));
        echo.insert("client_secret_expires_at".into(), json!(0));
    }
    (StatusCode::CREATED, [("cache-control", "no-store")], Json(Value::Object(echo))).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_redirect_matches_to_the_letter_but_for_a_port_on_this_computer() {
        let known =
            ["https://claude.ai/api/mcp/auth_callback".to_owned(), "http://localhost/callback".to_owned(), "http://127.0.0.1:1/cb?a=1".to_owned()];
        for (asked, ok) in [
            ("https://claude.ai/api/mcp/auth_callback", true),
            ("https://claude.ai/api/mcp/auth_callback/", false),
            ("https://claude.ai:444/api/mcp/auth_callback", false),
            ("http://localhost:54321/callback", true),
            ("http://localhost:54321/other", false),
            ("http://127.0.0.1:9/cb?a=1", true),
            ("http://127.0.0.1:9/cb?a=2", false),
            ("http://127.0.0.1:9/callback", false),
            ("http://claude.ai/api/mcp/auth_callback", false),
            ("http://user@localhost/callback", false),
            ("javascript:alert(1)", false),
        ] {
            assert_eq!(redirect_matches(&known, asked), ok, "{asked}");
        }
    }

    #[test]
    fn a_document_must_name_its_own_address() {
        let id = "https://a.example/client";
        let text = json!({"client_id": id, "client_name": "A", "redirect_uris": ["https://a.example/cb"]}).to_string();
        assert_eq!(read_document(id, &text).unwrap().client_name, "A");
        assert!(read_document("https://b.example/client", &text).is_err());
        let keyed = json!({"client_id": id, "redirect_uris": ["https://a.example/cb"], "token_endpoint_auth_method": "private_key_jwt"}).to_string();
        assert!(read_document(id, &keyed).is_err());
        assert!(read_document(id, &json!({"client_id": id, "redirect_uris": ["http://a.example/cb"]}).to_string()).is_err());
    }
}
