//! Who asks, and what: the device behind a token, ids out of the path, bodies with their limit.
use std::{convert::Infallible, net::IpAddr};

use axum::{
    extract::{FromRequest, FromRequestParts, Path, Request},
    http::{HeaderMap, request::Parts},
};
use domain::{
    ids::IdError,
    text::{RELAY_VERSION, RELAY_VERSION_HEADER},
};
use serde::de::DeserializeOwned;

use crate::{
    app::App,
    body,
    http_error::{ApiError, Code},
    queue::Device,
    serve::Peer,
};

/// A request of the relay, in the one version this server speaks.
pub struct Version;

/// The device whose token came with the request.
pub struct Paired(pub Device);

/// A JSON body of this type.
pub struct Body<T>(pub T);

/// The body's text, within its limits.
pub struct Text(pub String);

/// An id in the path. What cannot be one is answered like one that does not exist.
pub struct Id<T>(pub T);

pub fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(http::header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

impl FromRequestParts<App> for Version {
    type Rejection = ApiError;
    async fn from_request_parts(parts: &mut Parts, _: &App) -> Result<Self, ApiError> {
        match parts.headers.get(RELAY_VERSION_HEADER) {
            Some(version) if version == RELAY_VERSION => Ok(Self),
            Some(_) | None => {
                let message = format!("every request names the header Graph-Relay-Version: {RELAY_VERSION}, the only version this server speaks");
                Err(ApiError::new(Code::RelayVersion, message))
            }
        }
    }
}

impl FromRequestParts<App> for Paired {
    type Rejection = ApiError;
    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, ApiError> {
        Version::from_request_parts(parts, app).await?;
        let refused = || ApiError::new(Code::Unauthorized, "the device token is missing, was replaced or its device was unpaired");
        let token = bearer(&parts.headers).ok_or_else(refused)?;
        let device = app.queue.device_of(token).await?.ok_or_else(refused)?;
        app.limiter.take(&device.id.to_string()).map_err(too_many)?;
        Ok(Self(device))
    }
}

impl FromRequest<App> for Text {
    type Rejection = ApiError;
    async fn from_request(request: Request, _: &App) -> Result<Self, ApiError> {
        Ok(Self(body::read_text(request.into_body()).await?))
    }
}

/// Who asks, for guesses: as a trusted proxy says, else the other end of the connection. Nobody inside this process.
pub struct From(pub Option<IpAddr>);

impl FromRequestParts<App> for From {
    type Rejection = Infallible;
    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Infallible> {
        let forwarded = parts.headers.get("x-forwarded-for").and_then(|v| v.to_str().ok()).and_then(|v| v.rsplit(',').next()?.trim().parse().ok());
        let peer = parts.extensions.get::<Peer>().map(|p| p.0);
        Ok(Self(if app.config.trust_forwarded { forwarded.or(peer) } else { peer }))
    }
}

pub fn too_many(seconds: u64) -> ApiError {
    ApiError { retry_after_s: Some(seconds), ..ApiError::new(Code::TooManyRequests, format!("too many requests; again in {seconds} s")) }
}

impl<T: DeserializeOwned> FromRequest<App> for Body<T> {
    type Rejection = ApiError;
    async fn from_request(request: Request, app: &App) -> Result<Self, ApiError> {
        let Text(text) = Text::from_request(request, app).await?;
        let text = if text.is_empty() { "{}" } else { &text };
        serde_json::from_str(text).map(Self).map_err(|e| ApiError::new(Code::Malformed, e.to_string()))
    }
}

impl<T: std::str::FromStr<Err = IdError> + Send> FromRequestParts<App> for Id<T> {
    type Rejection = ApiError;
    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, ApiError> {
        let unknown = || ApiError::new(Code::NotFound, "there is nothing with this id");
        let Path(text) = Path::<String>::from_request_parts(parts, app).await.map_err(|_| unknown())?;
        text.parse().map(Self).map_err(|_| unknown())
    }
}
