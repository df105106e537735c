//! Client ID metadata documents: the client's id is the https address of what it says about itself.
//!
//! Fetching one is a request to an address a stranger chose, so it is fenced: https only, public addresses only (the name is resolved
//! by us and the connection goes to what was checked), no redirects, no proxy, 3 s, 64 KiB. An operator may pin copies instead.
use std::{
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use domain::limits::CLIENT_DOCUMENT_BYTES_MAX;
use futures::StreamExt as _;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use url::{Host, Url};

use crate::store::BoxFuture;

const FETCH_TIMEOUT: Duration = Duration::from_secs(3);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DocumentError {
    #[error("a client id that is an address must be https with a path, without user, port trick or fragment")]
    BadAddress,
    #[error("the client's document could not be fetched: {0}")]
    Unreachable(String),
    #[error("the client's document is larger than {CLIENT_DOCUMENT_BYTES_MAX} bytes")]
    TooLarge,
    #[error("this server fetches no client documents")]
    NotFetching,
}

/// Fetches a client's document. The binary hands in the real one.
pub trait Documents: Send + Sync + 'static {
    fn fetch(&self, url: Url) -> BoxFuture<'static, Result<String, DocumentError>>;
}

/// An address a client id may be.
pub fn address(client_id: &str) -> Result<Url, DocumentError> {
    let url = Url::parse(client_id).map_err(|_| DocumentError::BadAddress)?;
    let plain = url.scheme() == "https" && url.username().is_empty() && url.password().is_none() && url.fragment().is_none() && url.path() != "/";
    let host_ok = match url.host() {
        Some(Host::Domain(name)) => name.contains('.') && !name.ends_with(".localhost") && !name.ends_with(".internal") && !name.ends_with(".local"),
        Some(Host::Ipv4(ip)) => is_public(ip.into()),
        Some(Host::Ipv6(ip)) => is_public(ip.into()),
        None => false,
    };
    // `client_id` is compared to the letter, so an address that is not in its normal form could never match.
    if plain && host_ok && url.as_str() == client_id { Ok(url) } else { Err(DocumentError::BadAddress) }
}

/// Not loopback, private, link-local, shared, multicast, documentation or otherwise special.
fn is_public(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(v4) => {
            let [a, b, c, _] = v4.octets();
            let special = v4.is_private()
                || v4.is_loopback()
                || v4.is_link_local()
                || v4.is_broadcast()
                || v4.is_documentation()
                || v4.is_multicast()
                || v4.is_unspecified();
            !special
                && a != 0
                && a < 240
                && !(a == 100 && (64..128).contains(&b))
                && !(a == 192 && b == 0 && c == 0)
                && !(a == 198 && (b == 18 || b == 19))
        }
        IpAddr::V6(v6) => match v6.to_ipv4_mapped() {
            Some(v4) => is_public(v4.into()),
            // Global unicast is 2000::/3; what tunnels or documents inside it is left out.
            None => {
                let [first, second, ..] = v6.segments();
                first & 0xe000 == 0x2000 && !(first == 0x2001 && (second == 0x0db8 || second < 0x0200)) && first != 0x2002
            }
        },
    }
}

/// The real thing, over https.
pub struct HttpsDocuments {
    client: reqwest::Client,
}

struct PublicOnly;

impl Resolve for PublicOnly {
    fn resolve(&self, name: Name) -> Resolving {
        Box::pin(async move {
            let found = tokio::net::lookup_host((name.as_str(), 443)).await?;
            let public: Vec<SocketAddr> = found.filter(|a| is_public(a.ip())).collect();
            if public.is_empty() {
                return Err("the name leads to no public address".into());
            }
            Ok(Box::new(public.into_iter()) as Addrs)
        })
    }
}

impl HttpsDocuments {
    pub fn new() -> Result<Self, reqwest::Error> {
        let client = reqwest::Client::builder()
            .https_only(true)
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .timeout(FETCH_TIMEOUT)
            .dns_resolver(Arc::new(PublicOnly))
            .user_agent(concat!("graph-queue/", env!("CARGO_PKG_VERSION")))
            .build()?;
        Ok(Self { client })
    }
}

impl Documents for HttpsDocuments {
    fn fetch(&self, url: Url) -> BoxFuture<'static, Result<String, DocumentError>> {
        let request = self.client.get(url).header("accept", "application/json");
        Box::pin(async move {
            let failed = |e: reqwest::Error| DocumentError::Unreachable(e.without_url().to_string());
            let response = request.send().await.map_err(failed)?;
            if !response.status().is_success() {
                return Err(DocumentError::Unreachable(format!("status {}", response.status().as_u16())));
            }
            let (mut body, mut stream) = (Vec::new(), response.bytes_stream());
            while let Some(chunk) = stream.next().await {
                body.extend_from_slice(&chunk.map_err(failed)?);
                if body.len() > CLIENT_DOCUMENT_BYTES_MAX {
                    return Err(DocumentError::TooLarge);
                }
            }
            String::from_utf8(body).map_err(|_| DocumentError::Unreachable("it is not UTF-8".into()))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_address_may_not_lead_inside() {
        for (id, ok) in [
            ("https://claude.ai/oauth/claude-code-client-metadata", true),
            ("http://claude.ai/x", false),
            ("https://claude.ai/", false),
            ("https://claude.ai", false),
            ("https://user@claude.ai/x", false),
            ("https://claude.ai/x#y", false),
            ("https://CLAUDE.ai/x", false),
            ("https://localhost/x", false),
            ("https://intranet/x", false),
            ("https://127.0.0.1/x", false),
            ("https://169.254.169.254/latest", false),
            ("https://10.1.2.3/x", false),
            ("https://[::1]/x", false),
            ("https://[::ffff:10.0.0.1]/x", false),
            ("https://2130706433/x", false),
            ("https://db.internal/x", false),
        ] {
            assert_eq!(address(id).is_ok(), ok, "{id}");
        }
        for (ip, public) in [
            ("8.8.8.8", true),
            ("100.64.0.1", false),
            ("0.0.0.0", false),
            ("240.0.0.1", false),
            ("2606:4700::1", true),
            ("fd00::1", false),
            ("fe80::1", false),
            ("2002:7f00:1::", false),
        ] {
            assert_eq!(is_public(ip.parse().unwrap()), public, "{ip}");
        }
    }
}
