//! What the device is handed instead of reaching for it: the time, randomness, the network.
//!
//! Only the shipped binaries hold the real ones ([`crate::net`]); tests and the simulation hand in their own.
use std::{future::Future, pin::Pin, time::Duration};

use bytes::Bytes;
use domain::Timestamp;

pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Wall-clock time. Timers use `tokio::time`, so that a paused tokio clock drives them.
pub trait Clock: Send + Sync {
    fn now(&self) -> Timestamp;
}

/// Random bytes: for ids, tokens and jitter.
pub trait Random: Send + Sync {
    fn bytes16(&self) -> [u8; 16];

    /// A number below `bound`; 0 for a bound of 0. Good enough for jitter, not for secrets.
    fn below(&self, bound: u64) -> u64 {
        let [a, b, c, d, e, f, g, h, ..] = self.bytes16();
        u64::from_le_bytes([a, b, c, d, e, f, g, h]).checked_rem(bound).unwrap_or(0)
    }
}

/// Why no answer came. The words are for the owner and name the host where they can; they never hold a token.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TransportError {
    #[error("no answer within {0} s")]
    TimedOut(u64),
    #[error("{0}")]
    Unreachable(String),
    /// `why` is the system's own word for it, here and below.
    #[error("{host} cannot be reached: {why}")]
    HostUnreachable { host: String, why: String },
    #[error("the certificate of {host} is not trusted: {why}")]
    Certificate { host: String, why: String },
    #[error("the answer is larger than {0} bytes")]
    TooLarge(usize),
}

/// One HTTP exchange, whole bodies. Redirects are answers like any other: they are never followed, so no other host ever sees a token.
pub trait HttpSend: Send + Sync {
    /// Ends within `within`, dropped or not.
    fn send(&self, request: http::Request<Bytes>, within: Duration) -> BoxFuture<'static, Result<http::Response<Bytes>, TransportError>>;
}
