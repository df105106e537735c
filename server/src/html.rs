//! Pages as plain HTML: escaped text inside one frame whose headers allow no script, no other source, no frame and no cache.
//!
//! The consent page and the owner's page are made of it. Whoever puts text of other people into `body` escapes it first.
use axum::{
    http::{HeaderValue, StatusCode, header},
    response::{Html, IntoResponse, Response},
};

/// Text as it may stand in an element or in a quoted attribute. Control characters, line ends among them, become blanks.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c if c.is_control() => out.push(' '),
            c => out.push(c),
        }
    }
    out
}

/// The same for a text of several lines, which keeps them.
pub fn escape_lines(text: &str) -> String {
    text.lines().map(escape).collect::<Vec<_>>().join("\n")
}

/// One page. `title` is escaped here, `body` is HTML already.
pub struct Page<'a> {
    pub status: StatusCode,
    /// Fresh for every answer: only the style that carries it is used.
    pub nonce: &'a str,
    pub style: &'a str,
    /// Where forms may lead besides here, each origin after a blank.
    pub form_targets: &'a str,
    pub title: &'a str,
    pub body: &'a str,
}

pub fn page(it: &Page<'_>) -> Response {
    let Page { status, nonce, style, form_targets, title, body } = *it;
    let html = format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\"><title>{}</title><style nonce=\"{nonce}\">{style}</style></head><body><main>{body}</main></body></html>",
        escape(title)
    );
    let policy = format!("default-src 'none'; style-src 'nonce-{nonce}'; form-action 'self'{form_targets}; frame-ancestors 'none'; base-uri 'none'");
    let mut response = (status, Html(html)).into_response();
    let headers = response.headers_mut();
    if let Ok(policy) = HeaderValue::from_str(&policy) {
        headers.insert(header::CONTENT_SECURITY_POLICY, policy);
    }
    headers.insert(header::X_FRAME_OPTIONS, HeaderValue::from_static("DENY"));
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("same-origin"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_others_cannot_leave_its_place() {
        assert_eq!(escape("<a href='x' \"y\">&\0\u{1b}[1m\n"), "&lt;a href=&#39;x&#39; &quot;y&quot;&gt;&amp;  [1m ");
        assert_eq!(escape_lines("if (a < b)\r\n  log('&')"), "if (a &lt; b)\n  log(&#39;&amp;&#39;)");
        let page = page(&Page { status: StatusCode::OK, nonce: "n1", style: "", form_targets: "", title: "</title>", body: "" });
        assert!(page.headers()[header::CONTENT_SECURITY_POLICY].to_str().unwrap().starts_with("default-src 'none'; style-src 'nonce-n1'"));
    }
}
