//! The real clock, randomness and socket. Only the shipped binaries make these.
use std::{error::Error as _, time::Duration};

use bytes::{Bytes, BytesMut};
use domain::Timestamp;
use futures::StreamExt;

use crate::ports::{BoxFuture, Clock, HttpSend, Random, TransportError};

pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        Timestamp::from_ms(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
    }
}

pub struct OsRandom;

impl Random for OsRandom {
    /// Without randomness there are no ids and no tokens: nothing sensible could go on.
    #[allow(clippy::expect_used)]
    fn bytes16(&self) -> [u8; 16] {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes).expect("the system gives no randomness");
        bytes
    }
}

/// Answers above this are not ours.
const ANSWER_BYTES_MAX: usize = 2 * domain::limits::SYNC_ANSWER_BYTES_MAX;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Trusts what the operating system trusts, goes through `HTTPS_PROXY`, never follows a redirect.
pub struct Network {
    client: reqwest::Client,
}

impl Network {
    pub fn new() -> Result<Self, TransportError> {
        let client = reqwest::Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(CONNECT_TIMEOUT)
            .user_agent(concat!("graph-desk/", env!("CARGO_PKG_VERSION")))
            .tcp_keepalive(Duration::from_secs(30))
            .build()
            .map_err(|e| TransportError::Unreachable(format!("the network client cannot start: {e}")))?;
        Ok(Self { client })
    }
}

impl HttpSend for Network {
    fn send(&self, request: http::Request<Bytes>, within: Duration) -> BoxFuture<'static, Result<http::Response<Bytes>, TransportError>> {
        let client = self.client.clone();
        Box::pin(async move {
            let host = request.uri().host().unwrap_or("the server").to_owned();
            let exchange = async {
                let request = reqwest::Request::try_from(request).map_err(|e| words(&host, &e))?;
                let answer = client.execute(request).await.map_err(|e| words(&host, &e))?;
                let mut response = http::Response::new(Bytes::new());
                *response.status_mut() = answer.status();
                *response.headers_mut() = answer.headers().clone();
                let (mut body, mut stream) = (BytesMut::new(), answer.bytes_stream());
                while let Some(piece) = stream.next().await {
                    body.extend_from_slice(&piece.map_err(|e| words(&host, &e))?);
                    if body.len() > ANSWER_BYTES_MAX {
                        return Err(TransportError::TooLarge(ANSWER_BYTES_MAX));
                    }
                }
                *response.body_mut() = body.freeze();
                Ok(response)
            };
            tokio::time::timeout(within, exchange).await.unwrap_or(Err(TransportError::TimedOut(within.as_secs())))
        })
    }
}

/// The innermost cause says what went wrong; the address is left out, since it may name more than the host.
fn words(host: &str, error: &reqwest::Error) -> TransportError {
    let mut innermost = error.source();
    let mut text = String::new();
    while let Some(cause) = innermost {
        text = cause.to_string();
        innermost = cause.source();
    }
    if text.is_empty() {
        text = if error.is_connect() { "no connection".into() } else { "the connection broke".into() };
    }
    if text.to_lowercase().contains("certificate") {
        return TransportError::Certificate { host: host.to_owned(), why: text };
    }
    TransportError::HostUnreachable { host: host.to_owned(), why: text }
}
