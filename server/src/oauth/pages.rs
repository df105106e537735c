//! The consent page: plain HTML that works without JavaScript, is framed by nobody and is cached by nobody.
use std::fmt::Write as _;

use axum::{http::StatusCode, response::Response};
use domain::text::SCOPE_RUN;
use url::Url;

use crate::{
    html::{self, escape},
    queue::grant::{AuthorizeRequest, Offer},
};

const STYLE: &str = "body{font:16px/1.5 system-ui,sans-serif;max-width:34rem;margin:3rem auto;padding:0 1rem;color:#1c2024;background:#fbfcfd}\
h1{font-size:1.35rem}input[type=text]{font:1.4rem ui-monospace,monospace;letter-spacing:.15em;padding:.5rem;width:12rem;text-transform:uppercase}\
button{font:inherit;padding:.6rem 1.4rem;margin:.5rem .5rem 0 0;border-radius:.5rem;border:1px solid #80838d;background:#fff;cursor:pointer}\
button.main{background:#0b5cad;border-color:#0b5cad;color:#fff}.bad{color:#a3141f}.warn{background:#fff4d6;padding:.6rem .8rem;border-radius:.5rem}\
code{background:#eceef0;padding:0 .3rem}:focus-visible{outline:3px solid #0b5cad;outline-offset:2px}";

fn page(status: StatusCode, nonce: &str, form_targets: &str, title: &str, body: &str) -> Response {
    html::page(&html::Page { status, nonce, style: STYLE, form_targets, title, body })
}

/// A page that ends here.
pub fn stop(status: StatusCode, nonce: &str, text: &str) -> Response {
    let body = format!("<h1>This connection was not made</h1><p>{}</p><p>You can close this page.</p>", escape(text));
    page(status, nonce, "", "Not connected", &body)
}

/// Browsers check where a form leads also after a redirect, so the client's own origin must be allowed there.
fn form_targets(request: &AuthorizeRequest) -> String {
    let origin = Url::parse(&request.redirect_uri).map(|u| u.origin().ascii_serialization()).unwrap_or_default();
    format!(" {origin}")
}

fn who(request: &AuthorizeRequest) -> String {
    let host = Url::parse(&request.redirect_uri).ok().and_then(|u| u.host_str().map(str::to_owned)).unwrap_or_default();
    let mut out = format!(
        "<h1><strong>{}</strong> asks for access to your Graphs</h1><p>After this you are sent to <code>{}</code>.</p>",
        escape(&request.client_name),
        escape(&host)
    );
    if request.redirect_uri.starts_with("http://") {
        out.push_str("<p class=\"warn\">That is a program on this computer. Go on only if you started it yourself just now.</p>");
    }
    if request.verified {
        let _ = write!(out, "<p>Its identity was verified: <code>{}</code></p>", escape(&request.client_id));
    } else {
        out.push_str("<p class=\"warn\">Its name was chosen by whoever sent you here; only the address above is certain.</p>");
    }
    out
}

/// First: the connect code.
pub fn ask_code(nonce: &str, name: &str, request: &AuthorizeRequest, wrong: Option<&str>) -> Response {
    let wrong = wrong.map(|text| format!("<p class=\"bad\" role=\"alert\">{}</p>", escape(text))).unwrap_or_default();
    let body = format!(
        "{}<form method=\"post\" action=\"/oauth/authorize\"><input type=\"hidden\" name=\"request\" value=\"{}\">\
         <p><label for=\"code\">Connect code, from Graph Desk → Connections → Connect an agent</label></p>{wrong}\
         <p><input type=\"text\" id=\"code\" name=\"connect_code\" autocomplete=\"off\" autocapitalize=\"characters\" spellcheck=\"false\" maxlength=\"12\" autofocus></p>\
         <button class=\"main\" name=\"decision\" value=\"look\">Continue</button><button name=\"decision\" value=\"deny\">Cancel</button></form>",
        who(request),
        escape(name)
    );
    page(StatusCode::OK, nonce, &form_targets(request), "Connect an agent", &body)
}

/// Then: what it would be granted.
pub fn ask_consent(nonce: &str, name: &str, code: &str, request: &AuthorizeRequest, offer: &Offer) -> Response {
    let mut body = who(request);
    let _ = write!(body, "<p>Owner: <strong>{}</strong>. It may, in these projects:</p><ul>", escape(&offer.owner));
    for project in &offer.projects {
        let _ = write!(body, "<li>{}</li>", escape(&project.name));
    }
    body.push_str("</ul><ul><li>see the Graph sessions you share there, and the runs it started itself</li>");
    if offer.scopes.iter().any(|s| s == SCOPE_RUN) {
        body.push_str("<li>start and cancel runs on your desktop; your approval rules there still decide</li>");
    }
    let _ = write!(
        body,
        "</ul><form method=\"post\" action=\"/oauth/authorize\"><input type=\"hidden\" name=\"request\" value=\"{}\"><input type=\"hidden\" name=\"connect_code\" value=\"{}\">",
        escape(name),
        escape(code)
    );
    if !offer.earlier.is_empty() {
        let chosen = offer.earlier.iter().position(|(.., same)| *same);
        body.push_str("<p><label for=\"as\">Connect</label> <select id=\"as\" name=\"continue_as\"><option value=\"\">as a new agent, which sees no earlier runs</option>");
        for (i, (id, agent, _)) in offer.earlier.iter().enumerate() {
            let selected = if chosen == Some(i) { " selected" } else { "" };
            let _ = write!(body, "<option value=\"{id}\"{selected}>and continue as {}, with its runs</option>", escape(agent));
        }
        body.push_str("</select></p>");
    }
    body.push_str(
        "<button class=\"main\" name=\"decision\" value=\"allow\">Allow</button><button name=\"decision\" value=\"deny\">Deny</button></form>",
    );
    page(StatusCode::OK, nonce, &form_targets(request), "Connect an agent", &body)
}
