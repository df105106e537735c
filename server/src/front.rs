//! What every request passes first: Host and Origin against DNS rebinding, a request id, one line in the log.
//!
//! Of a request only method, path and id are logged: never a query, a header or a body.
use axum::{
    extract::{Request, State},
    http::{HeaderMap, HeaderValue, header},
    middleware::Next,
    response::{IntoResponse, Response},
};
use tokio::time::Instant;
use url::Url;

use crate::{
    app::App,
    http_error::{ApiError, Code},
    ports::bytes,
    secret::hex,
};

/// Names and origins under which this queue may be addressed.
#[derive(Debug, Clone)]
pub struct Names {
    hosts: Vec<String>,
    origins: Vec<String>,
    public_is_loopback: bool,
}

fn is_loopback(host: &str) -> bool {
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host.eq_ignore_ascii_case("localhost") || host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

/// `host` or `host:port`, without the port.
fn without_port(authority: &str) -> &str {
    match authority.rsplit_once(':') {
        Some((host, port)) if !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit()) && (!host.contains(':') || host.ends_with(']')) => host,
        _ => authority,
    }
}

impl Names {
    pub fn new(public_url: &str, hosts: &[String], origins: &[String]) -> Self {
        let public = Url::parse(public_url).ok();
        let public_host = public.as_ref().and_then(|u| u.host_str()).unwrap_or_default().to_owned();
        let mut all_origins: Vec<String> = origins.to_vec();
        all_origins.extend(public.as_ref().map(|u| u.origin().ascii_serialization()));
        let public_is_loopback = is_loopback(&public_host);
        let mut all_hosts: Vec<String> = hosts.to_vec();
        all_hosts.extend(Some(public_host).filter(|host| !host.is_empty()));
        Self { hosts: all_hosts, origins: all_origins, public_is_loopback }
    }

    fn host_is_ours(&self, authority: &str) -> bool {
        let host = without_port(authority);
        is_loopback(host) || self.hosts.iter().any(|ours| ours.eq_ignore_ascii_case(host) || ours.eq_ignore_ascii_case(authority))
    }

    /// Pages of this computer may talk to a queue that only this computer can reach.
    fn origin_is_ours(&self, origin: &str) -> bool {
        let local = || Url::parse(origin).ok().and_then(|u| u.host_str().map(is_loopback)).unwrap_or(false);
        self.origins.iter().any(|ours| ours.eq_ignore_ascii_case(origin)) || (self.public_is_loopback && local())
    }

    fn check(&self, headers: &HeaderMap) -> Result<(), ApiError> {
        let text = |name| headers.get(name).map(|v: &HeaderValue| v.to_str().unwrap_or("\u{0}"));
        match text(header::HOST) {
            Some(host) if !self.host_is_ours(host) => {
                return Err(ApiError::new(
                    Code::Forbidden,
                    "this queue is not served under this host name; the operator can allow it with --allowed-host",
                ));
            }
            Some(_) | None => {}
        }
        match text(header::ORIGIN) {
            Some(origin) if !self.origin_is_ours(origin) => Err(ApiError::new(Code::Forbidden, "requests from this origin are not taken")),
            Some(_) | None => Ok(()),
        }
    }

    /// Asked directly on this computer, not through the public address.
    pub fn is_direct(&self, headers: &HeaderMap) -> bool {
        headers.get(header::HOST).and_then(|v| v.to_str().ok()).is_none_or(|host| is_loopback(without_port(host)))
    }
}

pub async fn front(State(app): State<App>, request: Request, next: Next) -> Response {
    let id = hex(&bytes::<8>(&*app.queue.random));
    let (method, path, begin) = (request.method().clone(), request.uri().path().to_owned(), Instant::now());
    let mut response = match app.names.check(request.headers()) {
        Ok(()) => next.run(request).await,
        Err(refused) => refused.into_response(),
    };
    let status = response.status().as_u16();
    app.metrics.request(&path, status);
    let ms = begin.elapsed().as_millis() as u64;
    if response.status().is_server_error() {
        tracing::error!(%method, path, status, ms, request = id, "answered");
    } else {
        tracing::debug!(%method, path, status, ms, request = id, "answered");
    }
    if let Ok(id) = HeaderValue::from_str(&id) {
        response.headers_mut().insert("x-request-id", id);
    }
    response.headers_mut().insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_own_names_are_taken() {
        let names = Names::new("https://queue.example.org", &["inner:8080".into()], &[]);
        for (host, ok) in [
            ("queue.example.org", true),
            ("QUEUE.example.org:443", true),
            ("inner:8080", true),
            ("127.0.0.1:9", true),
            ("[::1]:9", true),
            ("localhost", true),
            ("evil.example", false),
            ("queue.example.org.evil.example", false),
            ("127.0.0.1.evil.example", false),
            ("", false),
        ] {
            assert_eq!(names.host_is_ours(host), ok, "{host}");
        }
        for (origin, ok) in
            [("https://queue.example.org", true), ("http://queue.example.org", false), ("null", false), ("http://localhost:3000", false)]
        {
            assert_eq!(names.origin_is_ours(origin), ok, "{origin}");
        }
        let local = Names::new("http://127.0.0.1:8787", &[], &[]);
        assert!(local.origin_is_ours("http://localhost:3000") && !local.origin_is_ours("http://evil.example"));
    }
}
