//! `/owner/api/…`: what the reader in the browser asks. The cookie of a signed-in browser opens it, nothing else does; it changes nothing
//! but the sign-in itself.
//!
//! The cookie is `SameSite=Strict` and the two requests that change the sign-in take JSON alone, which no form of another site can send;
//! foreign origins are turned away before any of this.
use axum::{
    Json,
    extract::{FromRequestParts, Query, State, rejection::QueryRejection},
    http::{HeaderMap, header, request::Parts},
    response::{IntoResponse, Response},
};
use domain::{
    CommandId, GraphSessionId, OwnerId, ProjectId,
    limits::{OWNER_PAGE_MAX, PAGE_MIN},
    wire::owner::{OwnerCommand, OwnerCommandDetail, OwnerGraph, OwnerGraphText, OwnerHome, OwnerSession, Page},
};
use serde::Deserialize;

use super::{cookie, set_cookie};
use crate::{
    app::App,
    http_error::{ApiError, Code},
    queue::{commands::CommandFilter, owner_view::SESSION_TTL_MS},
    relay_api::{Body, From, Id, too_many},
    secret,
};

type Answer<T> = Result<Fresh<T>, ApiError>;

/// An answer that no cache keeps: it is the owner's.
pub struct Fresh<T>(T);

impl<T: serde::Serialize> IntoResponse for Fresh<T> {
    fn into_response(self) -> Response {
        ([(header::CACHE_CONTROL, "no-store")], Json(self.0)).into_response()
    }
}

/// The owner whose browser this is.
pub struct Signed(OwnerId);

impl FromRequestParts<App> for Signed {
    type Rejection = ApiError;
    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, ApiError> {
        let refused = || ApiError::new(Code::Unauthorized, "this browser is not signed in; Graph Desk → Connections gives a code");
        let cookie = cookie(&parts.headers).ok_or_else(refused)?;
        let owner = app.queue.signed_in(cookie).await?.ok_or_else(refused)?;
        app.limiter.take(&secret::hash(cookie)).map_err(too_many)?;
        Ok(Self(owner))
    }
}

#[derive(Deserialize)]
pub struct SignIn {
    code: String,
}

fn only_json(headers: &HeaderMap) -> Result<(), ApiError> {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|v| v.to_str().ok()).unwrap_or_default();
    let is_json = kind.split(';').next().is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/json"));
    if is_json { Ok(()) } else { Err(ApiError::new(Code::Malformed, "this takes JSON only")) }
}

pub async fn sign_in(From(address): From, State(app): State<App>, headers: HeaderMap, Body(it): Body<SignIn>) -> Result<Response, ApiError> {
    only_json(&headers)?;
    app.guesses.admit(address).await.map_err(too_many)?;
    match app.queue.sign_in(&it.code).await? {
        Some(cookie) => Ok(set_cookie(&app, &cookie, SESSION_TTL_MS / 1000, Fresh(serde_json::json!({"signed_in": true})).into_response())),
        None => {
            app.guesses.wrong(address, "sign-in code");
            Err(ApiError::new(Code::SignInCodeInvalid, "this code is wrong, was used or has expired"))
        }
    }
}

pub async fn sign_out(State(app): State<App>, headers: HeaderMap) -> Result<Response, ApiError> {
    only_json(&headers)?;
    if let Some(cookie) = cookie(&headers) {
        app.queue.sign_out(cookie).await?;
    }
    Ok(set_cookie(&app, "", 0, Fresh(serde_json::json!({"signed_in": false})).into_response()))
}

pub async fn home(Signed(owner): Signed, State(app): State<App>) -> Answer<OwnerHome> {
    Ok(Fresh(app.queue.owner_home(owner).await?))
}

#[derive(Deserialize)]
pub struct PageQuery {
    project_id: Option<ProjectId>,
    status: Option<String>,
    limit: Option<u64>,
    cursor: Option<String>,
}

type Asked = Result<Query<PageQuery>, QueryRejection>;

fn malformed(words: impl Into<String>) -> ApiError {
    ApiError::new(Code::Malformed, words)
}

impl PageQuery {
    /// The query and its page's length.
    fn read(asked: Asked) -> Result<(Self, usize), ApiError> {
        let Query(query) = asked.map_err(|e| malformed(e.body_text()))?;
        match query.limit.unwrap_or(OWNER_PAGE_MAX) {
            limit if (PAGE_MIN..=OWNER_PAGE_MAX).contains(&limit) => Ok((query, limit as usize)),
            _ => Err(malformed(format!("limit must be {PAGE_MIN} to {OWNER_PAGE_MAX}"))),
        }
    }

    fn cursor<T>(&self, parse: impl FnOnce(&str) -> Option<T>) -> Result<Option<T>, ApiError> {
        let Some(cursor) = &self.cursor else { return Ok(None) };
        parse(cursor).map(Some).ok_or_else(|| malformed("cursor is not one that this list gave"))
    }
}

pub async fn sessions(Signed(owner): Signed, State(app): State<App>, asked: Asked) -> Answer<Page<OwnerSession>> {
    let (query, limit) = PageQuery::read(asked)?;
    let after = query.cursor(|text| {
        let (project, session) = text.split_once('/')?;
        Some((ProjectId::parse(project).ok()?, GraphSessionId::parse(session).ok()?))
    })?;
    Ok(Fresh(app.queue.owner_sessions(owner, after, limit).await?))
}

pub async fn graphs(Signed(owner): Signed, State(app): State<App>, asked: Asked) -> Answer<Page<OwnerGraph>> {
    let (query, limit) = PageQuery::read(asked)?;
    let after = query.cursor(|text| GraphSessionId::parse(text).ok())?;
    Ok(Fresh(app.queue.owner_graphs(owner, after, limit).await?))
}

pub async fn graph(Signed(owner): Signed, State(app): State<App>, Id(id): Id<GraphSessionId>) -> Answer<OwnerGraphText> {
    let found = app.queue.owner_graph(owner, id).await?;
    found.map(Fresh).ok_or_else(|| ApiError::new(Code::NotFound, "this Graph is not readable here"))
}

pub async fn commands(Signed(owner): Signed, State(app): State<App>, asked: Asked) -> Answer<Page<OwnerCommand>> {
    let (query, limit) = PageQuery::read(asked)?;
    let before = query.cursor(|text| text.parse().ok())?;
    let status = CommandFilter::status(query.status.as_deref()).map_err(malformed)?;
    Ok(Fresh(app.queue.owner_commands(owner, CommandFilter { project: query.project_id, status, before, limit }).await?))
}

pub async fn command(Signed(owner): Signed, State(app): State<App>, Id(id): Id<CommandId>) -> Answer<OwnerCommandDetail> {
    let found = app.queue.owner_command(owner, id).await?;
    found.map(Fresh).ok_or_else(|| ApiError::new(Code::CommandNotFound, "there is no such command; ended ones are kept 30 days"))
}
