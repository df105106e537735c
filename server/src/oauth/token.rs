//! `/oauth/token` and `/oauth/revoke`.
use axum::{
    Json,
    body::Body,
    extract::State,
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use domain::limits::ACCESS_TOKEN_TTL_MS;
use serde_json::json;
use subtle::ConstantTimeEq as _;

use super::{Form, clients::oauth_error, resource_is_ours};
use crate::{
    app::App,
    body,
    http_error::ApiError,
    queue::grant::{TokenError, Tokens},
    secret,
    store::StoreError,
};

fn bad(error: &str, description: &str) -> Response {
    oauth_error(StatusCode::BAD_REQUEST, error, description)
}

/// Who the client says it is, proved where it has a secret. `Err` is the answer.
async fn authenticate(app: &App, headers: &HeaderMap, form: &Form) -> Result<String, Response> {
    let unknown = || {
        let mut response =
            oauth_error(StatusCode::UNAUTHORIZED, "invalid_client", "the client is unknown here or its secret is wrong; it may register again");
        response.headers_mut().insert(header::WWW_AUTHENTICATE, header::HeaderValue::from_static("Basic"));
        response
    };
    let (id, given) = match basic(headers) {
        Some((id, secret)) => (id, Some(secret)),
        None => (form.get("client_id").ok_or_else(unknown)?.to_owned(), form.get("client_secret").map(str::to_owned)),
    };
    // Known by its document: a public client; what it holds is bound to its id anyway.
    if id.starts_with("https://") {
        return Ok(id);
    }
    let client = app.queue.client(&id).await.map_err(unavailable)?.ok_or_else(unknown)?;
    match (&client.secret_hash, given) {
        (None, _) => Ok(id),
        (Some(hash), Some(given)) if bool::from(secret::hash(&given).as_bytes().ct_eq(hash.as_bytes())) => Ok(id),
        (Some(_), _) => Err(unknown()),
    }
}

fn basic(headers: &HeaderMap) -> Option<(String, String)> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, encoded) = value.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let text = String::from_utf8(STANDARD.decode(encoded.trim()).ok()?).ok()?;
    let (id, secret) = text.split_once(':')?;
    let plain = |text: &str| percent_encoding::percent_decode_str(&text.replace('+', " ")).decode_utf8().ok().map(|t| t.into_owned());
    Some((plain(id)?, plain(secret)?))
}

fn unavailable(e: StoreError) -> Response {
    ApiError::from(e).into_response()
}

async fn form_of(body: Body) -> Result<Form, Response> {
    let text = body::read_text(body).await.map_err(|_| bad("invalid_request", "the body did not arrive whole"))?;
    let form = Form::parse(&text);
    if form.has_twins() { Err(bad("invalid_request", "a parameter comes twice")) } else { Ok(form) }
}

pub async fn token(State(app): State<App>, headers: HeaderMap, body: Body) -> Response {
    issue(&app, &headers, body).await.unwrap_or_else(|refused| refused)
}

async fn issue(app: &App, headers: &HeaderMap, body: Body) -> Result<Response, Response> {
    let form = form_of(body).await?;
    let client = authenticate(app, headers, &form).await?;
    if !resource_is_ours(app, form.get("resource")) {
        return Err(bad("invalid_target", "resource must be the address of this queue's /mcp"));
    }
    let need = |name: &'static str| form.get(name).ok_or_else(|| bad("invalid_request", &format!("{name} is missing")));
    let given = match form.get("grant_type") {
        Some("authorization_code") => app.queue.redeem(need("code")?, &client, form.get("redirect_uri"), need("code_verifier")?).await,
        Some("refresh_token") => {
            let scopes = form.get("scope").map(|s| s.split_ascii_whitespace().map(str::to_owned).collect());
            app.queue.refresh(need("refresh_token")?, &client, scopes).await
        }
        Some(_) | None => return Err(bad("unsupported_grant_type", "grant_type must be authorization_code or refresh_token")),
    };
    given.map(|tokens| granted(&tokens)).map_err(|e| match e {
        TokenError::InvalidGrant => bad("invalid_grant", &e.to_string()),
        TokenError::InvalidScope => bad("invalid_scope", &e.to_string()),
        TokenError::Store(e) => unavailable(e),
    })
}

fn granted(tokens: &Tokens) -> Response {
    let body = json!({
        "access_token": tokens.access,
        "token_type": "Bearer",
        "expires_in": ACCESS_TOKEN_TTL_MS / 1000,
        "refresh_token": tokens.refresh,
        "scope": tokens.scopes.join(" "),
    });
    ([("cache-control", "no-store"), ("pragma", "no-cache")], Json(body)).into_response()
}

/// RFC 7009: 200 whatever the token was.
pub async fn revoke(State(app): State<App>, headers: HeaderMap, body: Body) -> Response {
    let revoked = async {
        let form = form_of(body).await?;
        let client = authenticate(&app, &headers, &form).await?;
        let token = form.get("token").ok_or_else(|| bad("invalid_request", "token is missing"))?;
        app.queue.revoke_token(token, &client).await.map_err(unavailable)
    };
    match revoked.await {
        Ok(()) => Json(json!({})).into_response(),
        Err(refused) => refused,
    }
}
