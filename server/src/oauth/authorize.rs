//! `/oauth/authorize`: a checked request, the connect code, Allow.
use axum::{
    body::Body,
    extract::{RawQuery, State},
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use domain::{
    AgentId,
    text::{SCOPE_READ, SCOPE_RUN},
};
use url::Url;

use super::{
    Form,
    clients::{self, ClientError},
    pages, resource_is_ours,
};
use crate::{
    app::App,
    body,
    ports::bytes,
    queue::grant::{Allow, AuthorizeRequest, ConsentError},
    relay_api::{From, too_many},
    secret,
};

/// What a client may send along and gets back.
const STATE_BYTES_MAX: usize = 4_096;

fn nonce(app: &App) -> String {
    secret::hex(&bytes::<12>(&*app.queue.random))
}

fn stop(app: &App, text: &str) -> Response {
    pages::stop(StatusCode::BAD_REQUEST, &nonce(app), text)
}

fn failed(app: &App, e: &dyn std::fmt::Display) -> Response {
    tracing::error!(error = %e, "an authorize request failed");
    pages::stop(StatusCode::SERVICE_UNAVAILABLE, &nonce(app), "The queue could not answer at the moment. Try again in a minute.")
}

/// Back to the client, with `iss` on success and error alike (RFC 9207).
fn back(app: &App, redirect_uri: &str, state: Option<&str>, outcome: &[(&str, &str)]) -> Response {
    let Ok(mut url) = Url::parse(redirect_uri) else { return stop(app, "The client's address is broken.") };
    {
        let mut query = url.query_pairs_mut();
        for (name, value) in outcome {
            query.append_pair(name, value);
        }
        if let Some(state) = state {
            query.append_pair("state", state);
        }
        query.append_pair("iss", &app.config.public_url);
    }
    let Ok(location) = HeaderValue::from_str(url.as_str()) else { return stop(app, "The client's address is broken.") };
    let mut response = StatusCode::SEE_OTHER.into_response();
    response.headers_mut().insert(header::LOCATION, location);
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response.headers_mut().insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    response
}

pub async fn ask(From(address): From, State(app): State<App>, RawQuery(query): RawQuery) -> Response {
    if let Some(address) = address
        && let Err(seconds) = app.strangers.take(&address.to_string())
    {
        return too_many(seconds).into_response();
    }
    let form = Form::parse(&query.unwrap_or_default());
    // Until client and redirect are known to belong together, nothing is sent anywhere.
    if form.has_twins() {
        return stop(&app, "The request names a parameter twice.");
    }
    let (Some(client_id), Some(redirect_uri)) = (form.get("client_id"), form.get("redirect_uri")) else {
        return stop(&app, "The request names no client_id or no redirect_uri.");
    };
    let known = match clients::find(&app, client_id).await {
        Ok(known) => known,
        Err(ClientError::Store(e)) => return failed(&app, &e),
        Err(e @ (ClientError::Unknown | ClientError::BadDocument(_) | ClientError::Document(_))) => return stop(&app, &e.to_string()),
    };
    if !clients::redirect_matches(&known.client.redirect_uris, redirect_uri) {
        return stop(&app, "The redirect_uri is not one of this client's.");
    }
    let state = form.get("state");
    let request = match check(&app, &form) {
        Ok((scopes, code_challenge)) => AuthorizeRequest {
            client_id: client_id.to_owned(),
            client_name: known.client.client_name,
            verified: known.verified,
            redirect_uri: redirect_uri.to_owned(),
            state: state.map(str::to_owned),
            code_challenge,
            scopes,
            cookie_hash: String::new(),
        },
        Err((error, why)) => {
            return back(&app, redirect_uri, state.filter(|s| s.len() <= STATE_BYTES_MAX), &[("error", error), ("error_description", why)]);
        }
    };
    show_first(&app, request).await
}

/// The rest of the request: an error here goes back to the client.
fn check(app: &App, form: &Form) -> Result<(Vec<String>, String), (&'static str, &'static str)> {
    if form.get("response_type") != Some("code") {
        return Err(("unsupported_response_type", "response_type must be code"));
    }
    let challenge = form.get("code_challenge").filter(|c| c.len() == 43 && c.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_'));
    let (Some(challenge), Some("S256")) = (challenge, form.get("code_challenge_method")) else {
        return Err(("invalid_request", "PKCE with code_challenge_method S256 is required"));
    };
    if !resource_is_ours(app, form.get("resource")) {
        return Err(("invalid_target", "resource must be the address of this queue's /mcp"));
    }
    if form.get("state").is_some_and(|s| s.len() > STATE_BYTES_MAX) {
        return Err(("invalid_request", "state is too long"));
    }
    // Scopes that are not ours are not granted; none asked means both.
    let asked: Vec<&str> = form.get("scope").unwrap_or_default().split_ascii_whitespace().collect();
    let ours = [SCOPE_READ, SCOPE_RUN];
    let scopes: Vec<String> = ours.iter().filter(|s| asked.is_empty() || asked.contains(s)).map(|s| (*s).to_owned()).collect();
    if scopes.is_empty() {
        return Err(("invalid_scope", "the scopes here are osfoundry:read and osfoundry:run"));
    }
    Ok((scopes, challenge.to_owned()))
}

fn cookie_name(request_name: &str) -> String {
    format!("graph_queue_consent_{}", &secret::hash(request_name)[..12])
}

async fn show_first(app: &App, mut request: AuthorizeRequest) -> Response {
    let cookie = secret::hex(&bytes::<16>(&*app.queue.random));
    request.cookie_hash = secret::hash(&cookie);
    let name = match app.queue.begin_authorize(&request).await {
        Ok(name) => name,
        Err(e) => return failed(app, &e),
    };
    let mut response = pages::ask_code(&nonce(app), &name, &request, None);
    let secure = if app.config.public_url.starts_with("https://") { "; Secure" } else { "" };
    let set = format!("{}={cookie}; Path=/oauth/authorize; Max-Age=600; HttpOnly; SameSite=Strict{secure}", cookie_name(&name));
    if let Ok(set) = HeaderValue::from_str(&set) {
        response.headers_mut().insert(header::SET_COOKIE, set);
    }
    response
}

/// The form was sent from the page we showed to this browser.
fn cookie_fits(headers: &HeaderMap, name: &str, request: &AuthorizeRequest) -> bool {
    let wanted = cookie_name(name);
    let all = headers.get_all(header::COOKIE).iter().filter_map(|v| v.to_str().ok()).flat_map(|v| v.split(';'));
    let mut pairs = all.filter_map(|pair| pair.trim().split_once('='));
    pairs.any(|(n, value)| n == wanted && secret::hash(value) == request.cookie_hash)
}

pub async fn answer(From(address): From, State(app): State<App>, headers: HeaderMap, body: Body) -> Response {
    let Ok(text) = body::read_text(body).await else { return stop(&app, "The form did not arrive whole.") };
    let form = Form::parse(&text);
    let Some(name) = form.get("request") else { return stop(&app, "This form is not one of ours.") };
    let request = match app.queue.authorize_request(name).await {
        Ok(request) => request,
        Err(e) => return refused(&app, name, None, e),
    };
    if !cookie_fits(&headers, name, &request) {
        return stop(&app, "This form was not opened in this browser, or cookies are switched off. Start again from your client.");
    }
    let state = request.state.as_deref();
    let code = form.get("connect_code").unwrap_or_default();
    match form.get("decision") {
        Some("deny") => back(&app, &request.redirect_uri, state, &[("error", "access_denied"), ("error_description", "the owner said no")]),
        Some("allow") => {
            let continue_as = form.get("continue_as").and_then(|id| AgentId::parse(id).ok());
            let allow = Allow { request: name.to_owned(), connect_code: code.to_owned(), continue_as };
            match app.queue.allow(&allow).await {
                Ok(code) => back(&app, &request.redirect_uri, state, &[("code", &code)]),
                Err(e) => refused(&app, name, Some(&request), e),
            }
        }
        Some(_) | None => {
            if let Err(seconds) = app.guesses.admit(address).await {
                return too_many(seconds).into_response();
            }
            match app.queue.offer(name, code).await {
                Ok(offer) => pages::ask_consent(&nonce(&app), name, code, &request, &offer),
                Err(e) => {
                    if matches!(e, ConsentError::BadCode { .. } | ConsentError::Ended) {
                        app.guesses.wrong(address, "connect code");
                    }
                    refused(&app, name, Some(&request), e)
                }
            }
        }
    }
}

fn refused(app: &App, name: &str, request: Option<&AuthorizeRequest>, e: ConsentError) -> Response {
    match (&e, request) {
        (ConsentError::BadCode { tries_left }, Some(request)) if *tries_left > 0 => {
            let text = format!("This code is wrong, was used or has expired. {tries_left} more tries.");
            pages::ask_code(&nonce(app), name, request, Some(&text))
        }
        (ConsentError::Store(store), _) => failed(app, store),
        (ConsentError::BadCode { .. } | ConsentError::Ended | ConsentError::NoSuchAgent | ConsentError::NoScope | ConsentError::Agent(_), _) => {
            stop(app, &e.to_string())
        }
    }
}
