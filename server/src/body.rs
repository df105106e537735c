//! Request bodies: read whole, within a size and a time.
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use domain::limits::BODY_BYTES_MAX;

use crate::http_error::{ApiError, Code};

/// A body must be whole within this time.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BodyError {
    #[error("a request body has at most {0} bytes")]
    TooLarge(usize),
    #[error("the request body did not arrive in time")]
    TooSlow,
    #[error("the request body ended early")]
    Broken,
    #[error("the request body is not UTF-8")]
    NotText,
}

impl From<BodyError> for ApiError {
    fn from(e: BodyError) -> Self {
        let code = match e {
            BodyError::TooLarge(_) => Code::TooLarge,
            BodyError::TooSlow => Code::TooSlow,
            BodyError::Broken | BodyError::NotText => Code::Malformed,
        };
        Self::new(code, e.to_string())
    }
}

pub async fn read(body: Body, max: usize) -> Result<Bytes, BodyError> {
    let whole = tokio::time::timeout(BODY_TIMEOUT, axum::body::to_bytes(body, max)).await.map_err(|_| BodyError::TooSlow)?;
    whole.map_err(|e| {
        let too_large = std::error::Error::source(&e).is_some_and(|e| e.is::<http_body_util::LengthLimitError>());
        if too_large { BodyError::TooLarge(max) } else { BodyError::Broken }
    })
}

pub async fn read_text(body: Body) -> Result<String, BodyError> {
    String::from_utf8(read(body, BODY_BYTES_MAX).await?.into()).map_err(|_| BodyError::NotText)
}
