//! Errors of the device API: one envelope, one code per decision a device makes.
use axum::{
    Json,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use domain::{
    command::Status,
    wire::relay::{ErrorBody, ErrorDetail},
};

use crate::{
    queue::{
        agent::AgentError, complete::CompleteError, get::RunError, owner::PairError, owner_view::ReadableError, project::ProjectError,
        start::ClaimError, sync::SyncError,
    },
    store::StoreError,
};

macro_rules! codes {
    ($($variant:ident = $word:literal, $status:ident, $retryable:literal;)+) => {
        /// Why a request was refused. Its word is interface.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Code { $($variant),+ }
        impl Code {
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];
            pub const fn as_str(self) -> &'static str { match self { $(Self::$variant => $word),+ } }
            pub const fn status(self) -> StatusCode { match self { $(Self::$variant => StatusCode::$status),+ } }
            /// The same request may succeed later without anybody changing anything.
            pub const fn is_retryable(self) -> bool { match self { $(Self::$variant => $retryable),+ } }
        }
    };
}

codes! {
    Unauthorized = "unauthorized", UNAUTHORIZED, false;
    RelayVersion = "relay_version_unsupported", BAD_REQUEST, false;
    Malformed = "malformed", BAD_REQUEST, false;
    SignInCodeInvalid = "sign_in_code_invalid", BAD_REQUEST, false;
    PairingCodeInvalid = "pairing_code_invalid", BAD_REQUEST, false;
    TooManySessions = "too_many_sessions", BAD_REQUEST, false;
    SessionInvalid = "session_invalid", BAD_REQUEST, false;
    CompletionInvalid = "completion_invalid", BAD_REQUEST, false;
    CompletionTooLong = "completion_too_long", BAD_REQUEST, false;
    Forbidden = "forbidden", FORBIDDEN, false;
    NotFound = "not_found", NOT_FOUND, false;
    ProjectNotFound = "project_not_found", NOT_FOUND, false;
    CommandNotFound = "command_not_found", NOT_FOUND, false;
    AgentNotFound = "agent_not_found", NOT_FOUND, false;
    MethodNotAllowed = "method_not_allowed", METHOD_NOT_ALLOWED, false;
    NotYours = "not_this_execution", CONFLICT, false;
    SessionHeld = "session_held", CONFLICT, false;
    NameTaken = "name_taken", CONFLICT, false;
    LimitReached = "limit_reached", CONFLICT, false;
    TooSlow = "too_slow", REQUEST_TIMEOUT, true;
    TooLarge = "too_large", PAYLOAD_TOO_LARGE, false;
    TooManyRequests = "too_many_requests", TOO_MANY_REQUESTS, true;
    Internal = "internal", INTERNAL_SERVER_ERROR, true;
    Unavailable = "unavailable", SERVICE_UNAVAILABLE, true;
}

/// A refusal as it goes over the wire.
#[derive(Debug, Clone)]
pub struct ApiError {
    pub code: Code,
    pub message: String,
    /// The state that stands, on a refused claim.
    pub status: Option<Status>,
    pub retry_after_s: Option<u64>,
}

impl ApiError {
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), status: None, retry_after_s: None }
    }
    fn standing(code: Code, message: String, status: Status) -> Self {
        Self { status: Some(status), ..Self::new(code, message) }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let body = ErrorBody {
            error: ErrorDetail { code: self.code.as_str().into(), message: self.message, retryable: self.code.is_retryable() },
            status: self.status.map(|s| s.as_str().into()),
        };
        let mut response = (self.code.status(), Json(body)).into_response();
        if let Some(seconds) = self.retry_after_s {
            response.headers_mut().insert(http::header::RETRY_AFTER, seconds.into());
        }
        if self.code == Code::Unauthorized {
            response.headers_mut().insert(http::header::WWW_AUTHENTICATE, http::HeaderValue::from_static("Bearer"));
        }
        response
    }
}

/// The owner's data never goes into an error of the store; its own words go to the log.
impl From<StoreError> for ApiError {
    fn from(e: StoreError) -> Self {
        tracing::error!(error = %e, "the store failed");
        match e {
            StoreError::Unavailable(_) | StoreError::Closing => Self::new(Code::Unavailable, "the database is not available at the moment"),
            StoreError::Sqlite(_) | StoreError::Postgres(_) | StoreError::Corrupt(_) | StoreError::TooNew { .. } => {
                Self::new(Code::Internal, "the server failed to answer; its log says why")
            }
        }
    }
}

macro_rules! from_operation {
    ($error:ident, |$e:ident| { $($pattern:pat => $answer:expr),+ $(,)? }) => {
        impl From<$error> for ApiError {
            fn from($e: $error) -> Self {
                let message = $e.to_string();
                let _ = &message;
                match $e { $($pattern => { let make: fn(String) -> Self = $answer; make(message) })+ $error::Store(e) => e.into() }
            }
        }
    };
}

from_operation!(PairError, |e| { PairError::BadCode => |m| Self::new(Code::PairingCodeInvalid, m), PairError::BadName(_) => |m| Self::new(Code::Malformed, m) });
from_operation!(ProjectError, |e| {
    ProjectError::NotFound => |m| Self::new(Code::ProjectNotFound, m),
    ProjectError::BadName(_) => |m| Self::new(Code::Malformed, m),
    ProjectError::NameTaken => |m| Self::new(Code::NameTaken, m),
    ProjectError::TooMany => |m| Self::new(Code::LimitReached, m),
});
from_operation!(AgentError, |e| {
    AgentError::NotFound => |m| Self::new(Code::AgentNotFound, m),
    AgentError::ProjectNotFound => |m| Self::new(Code::ProjectNotFound, m),
    AgentError::Malformed(_) => |m| Self::new(Code::Malformed, m),
    AgentError::TooMany => |m| Self::new(Code::LimitReached, m),
});
from_operation!(SyncError, |e| {
    SyncError::ProjectNotFound => |m| Self::new(Code::ProjectNotFound, m),
    SyncError::TooMany(_) => |m| Self::new(Code::TooManySessions, m),
    SyncError::BadSession { .. } => |m| Self::new(Code::SessionInvalid, m),
    SyncError::HeldByAnother { .. } => |m| Self::new(Code::SessionHeld, m),
});
from_operation!(ReadableError, |e| {
    ReadableError::NotYours => |m| Self::new(Code::SessionHeld, m),
    ReadableError::Malformed(_) => |m| Self::new(Code::Malformed, m),
});
from_operation!(RunError, |e| {
    RunError::NotFound => |m| Self::new(Code::CommandNotFound, m),
    RunError::Revoked => |m| Self::new(Code::Unauthorized, m),
});

impl From<ClaimError> for ApiError {
    fn from(e: ClaimError) -> Self {
        let message = e.to_string();
        match e {
            ClaimError::NotFound => Self::new(Code::CommandNotFound, message),
            ClaimError::NotYours(status) => Self::standing(Code::NotYours, message, status),
            ClaimError::Store(e) => e.into(),
        }
    }
}

impl From<CompleteError> for ApiError {
    fn from(e: CompleteError) -> Self {
        let message = e.to_string();
        match e {
            CompleteError::NotFound => Self::new(Code::CommandNotFound, message),
            CompleteError::TooLong(_) => Self::new(Code::CompletionTooLong, message),
            CompleteError::Malformed(_) => Self::new(Code::CompletionInvalid, message),
            CompleteError::OtherExecution(status) => Self::standing(Code::NotYours, message, status),
            CompleteError::Store(e) => e.into(),
        }
    }
}
