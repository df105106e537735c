//! The reader's built pages, which are part of this program: `ui/reader.html` and its assets, put in by the build.
//!
//! A program that was built without them shows the plain page instead. Assets carry a hash of their content in their names, so they may be
//! kept for ever; the page itself is asked for anew each time.
use axum::{
    body::Body,
    extract::Path,
    http::{HeaderName, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};

use crate::http_error::{ApiError, Code};

/// A file's name, and its bytes compressed and as they are.
pub struct File {
    name: &'static str,
    gzip: &'static [u8],
    plain: &'static [u8],
}

include!(concat!(env!("OUT_DIR"), "/reader.rs"));

/// Only our own files, nothing inline, no page around it, no request elsewhere.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; \
connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; object-src 'none'";

const HEADERS: [(HeaderName, &str); 5] = [
    (header::CONTENT_SECURITY_POLICY, POLICY),
    (header::X_FRAME_OPTIONS, "DENY"),
    (header::REFERRER_POLICY, "no-referrer"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
];

/// The reader's page, where this program has one.
pub fn page(takes_gzip: bool) -> Option<Response> {
    let file = find(FILES, "reader.html")?;
    let mut response = serve(file, takes_gzip, "no-cache");
    for (name, value) in HEADERS {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    Some(response)
}

pub async fn asset(Path(name): Path<String>, headers: axum::http::HeaderMap) -> Response {
    match find(FILES, &format!("assets/{name}")) {
        Some(file) => serve(file, takes_gzip(&headers), "public, max-age=31536000, immutable"),
        None => ApiError::new(Code::NotFound, "there is nothing at this address").into_response(),
    }
}

pub fn takes_gzip(headers: &axum::http::HeaderMap) -> bool {
    let accepted = headers.get_all(header::ACCEPT_ENCODING).iter().filter_map(|v| v.to_str().ok()).flat_map(|v| v.split(','));
    // `gzip;q=0` is a way to refuse it.
    let is_wanted = |q: &str| q.trim().strip_prefix("q=").and_then(|q| q.parse::<f32>().ok()).is_some_and(|q| q > 0.0);
    accepted.map(|each| each.trim()).any(|each| each == "gzip" || each.strip_prefix("gzip;").is_some_and(is_wanted))
}

fn find(files: &'static [File], name: &str) -> Option<&'static File> {
    files.iter().find(|file| file.name == name)
}

fn kind(name: &str) -> &'static str {
    match name.rsplit('.').next() {
        Some("html") => "text/html; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("svg") => "image/svg+xml",
        Some("json") => "application/json",
        Some("woff2") => "font/woff2",
        Some(_) | None => "application/octet-stream",
    }
}

fn serve(file: &'static File, takes_gzip: bool, cache: &'static str) -> Response {
    let mut response = Response::new(Body::from(if takes_gzip { file.gzip } else { file.plain }));
    *response.status_mut() = StatusCode::OK;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind(file.name)));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static(cache));
    headers.insert(header::VARY, HeaderValue::from_static("accept-encoding"));
    if takes_gzip {
        headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gzip_goes_only_to_whom_takes_it() {
        let asks = |value: &'static str| takes_gzip(&[(header::ACCEPT_ENCODING, HeaderValue::from_static(value))].into_iter().collect());
        for (value, takes) in [("gzip, br", true), ("br,gzip;q=0.5", true), ("gzip;q=0", false), ("identity", false), ("xgzip", false), ("", false)] {
            assert_eq!(asks(value), takes, "{value}");
        }
    }

    #[tokio::test]
    async fn a_file_comes_with_its_kind_its_encoding_and_its_age() {
        static FILES: &[File] = &[File { name: "assets/a-1.js", gzip: b"zipped", plain: b"export {}" }];
        let file = find(FILES, "assets/a-1.js").unwrap();
        for (takes_gzip, body) in [(true, &b"zipped"[..]), (false, b"export {}")] {
            let response = serve(file, takes_gzip, "public");
            assert_eq!(response.headers()[header::CONTENT_TYPE], "text/javascript; charset=utf-8");
            assert_eq!(response.headers().contains_key(header::CONTENT_ENCODING), takes_gzip);
            assert_eq!(axum::body::to_bytes(response.into_body(), 100).await.unwrap(), body);
        }
        assert!(find(FILES, "assets/../a-1.js").is_none() && find(FILES, "").is_none());
    }
}
