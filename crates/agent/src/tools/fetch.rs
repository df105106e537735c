//! `http_fetch`: one request to a public address.
//!
//! The name is resolved first; if any of its addresses is not public the call is refused; the checked address is the one connected to.
//! Redirects within the same host are followed and checked again; one to another host is given back, for the rules know only the host that
//! was asked for. No cookies, no proxy (it would resolve the name anew), two megabytes, thirty seconds.
use std::{
    collections::BTreeMap,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use domain::limits::HTTP_FETCH_BYTES_MAX;
use futures::{StreamExt, future::BoxFuture};
use reqwest::{Method, header::LOCATION, redirect::Policy};
use serde::Deserialize;
use serde_json::json;
use tokio_util::sync::CancellationToken;
use url::{Host, Url};

use super::{Effect, PrepareError, Prepared, ToolDefinition, ToolOutput, input};
use crate::policy::{Target, ToolClass};

const REDIRECTS_MAX: usize = 5;
const FETCH_MS: u64 = 30_000;
const METHODS: &[&str] = &["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"];
/// Headers that speak of the connection, or that would carry an identity nobody granted.
const HEADERS_REFUSED: &[&str] =
    &["host", "connection", "content-length", "transfer-encoding", "upgrade", "te", "trailer", "proxy-authorization", "proxy-connection", "cookie"];

/// Finds the addresses of a host name.
pub trait Resolve: Send + Sync {
    fn resolve<'a>(&'a self, host: &'a str) -> BoxFuture<'a, std::io::Result<Vec<IpAddr>>>;
}

/// The system's own resolver.
pub struct SystemResolver;
impl Resolve for SystemResolver {
    fn resolve<'a>(&'a self, host: &'a str) -> BoxFuture<'a, std::io::Result<Vec<IpAddr>>> {
        Box::pin(async move { Ok(tokio::net::lookup_host((host, 0)).await?.map(|a| a.ip()).collect()) })
    }
}

/// How requests are made here.
#[derive(Clone)]
pub struct Fetch {
    resolver: Arc<dyn Resolve>,
    /// For tests alone: where a checked public address is really connected to.
    reroute: Option<Arc<dyn Fn(IpAddr) -> SocketAddr + Send + Sync>>,
}
impl Fetch {
    pub fn new(resolver: Arc<dyn Resolve>) -> Self {
        Self { resolver, reroute: None }
    }
    /// The one way by which a test reaches its own server: names and checks stay real, only the connection of an address that passed them is
    /// led elsewhere.
    pub fn rerouted(self, reroute: Arc<dyn Fn(IpAddr) -> SocketAddr + Send + Sync>) -> Self {
        Self { reroute: Some(reroute), ..self }
    }
}

pub(super) fn definition() -> ToolDefinition {
    ToolDefinition {
        name: "http_fetch".into(),
        description: "Make one HTTP request to a public address. Gives status, content type and text (up to 2 MB). A redirect to another host is not followed but given as `location`.".into(),
        input_schema: json!({
            "type": "object",
            "properties": {
                "url": { "type": "string", "description": "http or https address." },
                "method": { "enum": METHODS, "description": "GET by default." },
                "headers": { "type": "object", "additionalProperties": { "type": "string" } },
                "body": { "type": "string" }
            },
            "required": ["url"],
            "additionalProperties": false
        }),
        class: ToolClass::Network,
        fingerprint: None,
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FetchInput {
    url: String,
    method: Option<String>,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    body: Option<String>,
}

struct Request {
    url: Url,
    method: Method,
    headers: BTreeMap<String, String>,
    body: Option<String>,
}

/// Nothing is resolved here: a name looked up is a message sent.
pub(super) fn prepare(fetch: &Fetch, given: &domain::RawJson) -> Result<Prepared, PrepareError> {
    let FetchInput { url, method, headers, body } = input(given)?;
    let url = Url::parse(&url).map_err(|e| PrepareError::Input(format!("url: {e}")))?;
    let method = method.unwrap_or_else(|| "GET".into());
    if !METHODS.contains(&method.as_str()) {
        return Err(PrepareError::Input(format!("method must be one of {}", METHODS.join(", "))));
    }
    let host = checked_host(&url).map_err(PrepareError::Forbidden)?;
    if let Some(refused) = headers.keys().find(|h| HEADERS_REFUSED.contains(&h.to_ascii_lowercase().as_str())) {
        return Err(PrepareError::Input(format!("the header {refused} cannot be set")));
    }
    let effect =
        Effect { sentence: format!("{method} {url}"), request: Some(describe(&method, &url, &headers, body.as_deref())), ..Effect::default() };
    let request = Request { url, method: Method::from_bytes(method.as_bytes()).map_err(|e| PrepareError::Input(e.to_string()))?, headers, body };
    let target = Target::Http { host, method };
    let fetch = fetch.clone();
    Ok(Prepared::new(ToolClass::Network, target, effect, Box::new(move |stop| Box::pin(run(fetch, request, stop)))))
}

fn describe(method: &str, url: &Url, headers: &BTreeMap<String, String>, body: Option<&str>) -> String {
    let headers: String = headers.iter().map(|(name, value)| format!("\n{name}: {value}")).collect();
    let body = body.map(|b| format!("\n\n{b}")).unwrap_or_default();
    format!("{method} {url}{headers}{body}")
}

/// The host of an address that may be asked at all, before any name is looked up.
fn checked_host(url: &Url) -> Result<String, String> {
    if !matches!(url.scheme(), "http" | "https") {
        return Err(format!("{} is not http or https", url.scheme()));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("an address must not hold a name or password".into());
    }
    let literal = match url.host() {
        None => return Err("the address has no host".into()),
        Some(Host::Domain(name)) => return Ok(name.trim_end_matches('.').to_ascii_lowercase()),
        Some(Host::Ipv4(ip)) => IpAddr::V4(ip),
        Some(Host::Ipv6(ip)) => IpAddr::V6(ip),
    };
    if is_public(literal) { Ok(literal.to_string()) } else { Err(not_public(&literal.to_string(), literal)) }
}

fn not_public(host: &str, ip: IpAddr) -> String {
    format!("{host} leads to {ip}, which is not a public address")
}

async fn run(fetch: Fetch, request: Request, stop: CancellationToken) -> ToolOutput {
    let result = tokio::select! {
        result = follow(&fetch, request) => result,
        () = stop.cancelled() => Err("the run was stopped".to_owned()),
        () = tokio::time::sleep(Duration::from_millis(FETCH_MS)) => Err(format!("no whole answer within {} seconds", FETCH_MS / 1000)),
    };
    result.unwrap_or_else(ToolOutput::failed)
}

async fn follow(fetch: &Fetch, mut request: Request) -> Result<ToolOutput, String> {
    for _ in 0..=REDIRECTS_MAX {
        let response = send(fetch, &request).await?;
        let next = redirect(&request, &response)?;
        let Some(next) = next else { return read(response, None).await };
        if next.host_str() != request.url.host_str() {
            return read(response, Some(next)).await;
        }
        // As browsers do: after 301, 302 and 303 the body is not sent again.
        if matches!(response.status().as_u16(), 301..=303) && request.method != Method::HEAD {
            request.method = Method::GET;
            request.body = None;
        }
        request.url = next;
    }
    Err(format!("more than {REDIRECTS_MAX} redirects"))
}

fn redirect(request: &Request, response: &reqwest::Response) -> Result<Option<Url>, String> {
    if !matches!(response.status().as_u16(), 301 | 302 | 303 | 307 | 308) {
        return Ok(None);
    }
    let Some(location) = response.headers().get(LOCATION).and_then(|l| l.to_str().ok()) else { return Ok(None) };
    let next = request.url.join(location).map_err(|e| format!("a redirect to nowhere: {e}"))?;
    checked_host(&next)?;
    Ok(Some(next))
}

async fn send(fetch: &Fetch, request: &Request) -> Result<reqwest::Response, String> {
    let host = checked_host(&request.url)?;
    let address = public_address(fetch, &request.url, &host).await?;
    let port = request.url.port_or_known_default().unwrap_or(80);
    let to = fetch.reroute.as_ref().map_or_else(|| SocketAddr::new(address, port), |reroute| reroute(address));
    // Pinned: the client is given the address that was checked and asks nobody again. A literal address is connected to as it stands.
    let mut url = request.url.clone();
    if fetch.reroute.is_some() {
        url.set_port(Some(to.port())).map_err(|()| "no port".to_owned())?;
    }
    let client = reqwest::Client::builder().redirect(Policy::none()).no_proxy().resolve_to_addrs(url.host_str().unwrap_or(&host), &[to]);
    let client = client.user_agent("graph-desk").build().map_err(|e| e.to_string())?;
    let mut call = client.request(request.method.clone(), url);
    for (name, value) in &request.headers {
        call = call.header(name, value);
    }
    if let Some(body) = &request.body {
        call = call.body(body.clone());
    }
    call.send().await.map_err(|e| without_address(&e))
}

async fn public_address(fetch: &Fetch, url: &Url, host: &str) -> Result<IpAddr, String> {
    let found = match url.host() {
        Some(Host::Ipv4(ip)) => vec![IpAddr::V4(ip)],
        Some(Host::Ipv6(ip)) => vec![IpAddr::V6(ip)],
        Some(Host::Domain(_)) | None => fetch.resolver.resolve(host).await.map_err(|e| format!("{host} cannot be found: {e}"))?,
    };
    if let Some(inside) = found.iter().find(|ip| !is_public(**ip)) {
        return Err(not_public(host, *inside));
    }
    found.first().copied().ok_or_else(|| format!("{host} has no address"))
}

fn without_address(e: &reqwest::Error) -> String {
    let mut text = e.to_string();
    let mut at = std::error::Error::source(e);
    while let Some(cause) = at {
        text = cause.to_string();
        at = cause.source();
    }
    format!("the request failed: {text}")
}

async fn read(response: reqwest::Response, location: Option<Url>) -> Result<ToolOutput, String> {
    let (status, url) = (response.status().as_u16(), response.url().to_string());
    let content_type = response.headers().get(reqwest::header::CONTENT_TYPE).and_then(|t| t.to_str().ok()).unwrap_or("").to_owned();
    let (mut body, mut truncated) = (Vec::new(), false);
    let mut stream = response.bytes_stream();
    while let Some(piece) = stream.next().await {
        let piece = piece.map_err(|e| without_address(&e))?;
        let room = HTTP_FETCH_BYTES_MAX - body.len();
        body.extend_from_slice(&piece[..room.min(piece.len())]);
        if piece.len() > room {
            truncated = true;
            break;
        }
    }
    let bytes = body.len();
    let is_text = ["text/", "json", "xml", "javascript", "yaml", "x-www-form"].iter().any(|t| content_type.contains(t));
    let text = if is_text { Some(String::from_utf8_lossy(&body).into_owned()) } else { String::from_utf8(body).ok() };
    let location = location.map(|l| l.to_string());
    let value = json!({ "status": status, "url": url, "content_type": content_type, "text": text, "bytes": bytes, "truncated": truncated, "location": location });
    Ok(ToolOutput::done(&value))
}

/// Whether an address belongs to the open internet. What is not known to be public is not.
pub fn is_public(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => is_public_v4(ip),
        IpAddr::V6(ip) => is_public_v6(ip),
    }
}

fn is_public_v4(ip: Ipv4Addr) -> bool {
    let [a, b, c, _] = ip.octets();
    let special = match (a, b, c) {
        (0 | 10 | 127, ..) | (224.., ..) => true,  // this network, private, loopback, multicast and reserved
        (100, 64..=127, _) => true,                // carrier-grade NAT
        (169, 254, _) => true,                     // link-local, the clouds' metadata
        (172, 16..=31, _) | (192, 168, _) => true, // private
        (192, 0, 0 | 2) | (192, 88, 99) => true,   // protocol assignments, documentation, old relays
        (198, 18 | 19, _) => true,                 // benchmarks
        (198, 51, 100) | (203, 0, 113) => true,    // documentation
        (168, 63, 129) => ip == Ipv4Addr::new(168, 63, 129, 16), // a cloud's own services
        _ => false,
    };
    !special
}

fn is_public_v6(ip: Ipv6Addr) -> bool {
    if let Some(inner) = ip.to_ipv4_mapped() {
        return is_public_v4(inner);
    }
    let s = ip.segments();
    let embedded = |high: u16, low: u16| Ipv4Addr::from((u32::from(high) << 16) | u32::from(low));
    match s {
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => is_public_v4(embedded(high, low)), // NAT64
        [0x2002, high, low, ..] => is_public_v4(embedded(high, low)),               // 6to4
        [0x2001, 0..=0x1ff, ..] | [0x2001, 0xdb8, ..] => false,                     // Teredo and other assignments, documentation
        [0x3fff, 0..=0xfff, ..] => false,                                           // documentation
        [first, ..] => (first & 0xe000) == 0x2000,                                  // global unicast; all else is local, multicast or unknown
    }
}
