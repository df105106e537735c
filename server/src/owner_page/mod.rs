//! The owner's own page in a browser: what is queued and what ran, and the Graphs the owner made readable. It changes nothing.
//!
//! Signed in by a one-time code from the desktop, with a cookie of its own; apart from consent, so that neither can be used for the other.
//! `/owner` is the reader (the window's own pages over a web adapter, [`files`] and [`api`]); `/owner/plain` says the same without any
//! script, and stands in where this program was built without the reader.
mod api;
mod files;

use axum::{
    Router,
    body::Body,
    extract::{Path, State},
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse, Redirect, Response},
    routing::{get, post},
};
use domain::GraphSessionId;

use crate::{
    app::{Access, App, Route},
    body,
    html::{self, escape, escape_lines},
    http_error::ApiError,
    oauth::Form,
    queue::owner_view::{Overview, SESSION_TTL_MS},
    relay_api::{From, too_many},
};

pub const ROUTES: &[Route] = &[
    Route { method: "get", path: "/owner", access: Access::Anybody },
    Route { method: "get", path: "/owner/assets/{id}", access: Access::Anybody },
    Route { method: "post", path: "/owner/api/sign-in", access: Access::Anybody },
    Route { method: "post", path: "/owner/api/sign-out", access: Access::Anybody },
    Route { method: "get", path: "/owner/api/home", access: Access::Browser },
    Route { method: "get", path: "/owner/api/sessions", access: Access::Browser },
    Route { method: "get", path: "/owner/api/graphs", access: Access::Browser },
    Route { method: "get", path: "/owner/api/graphs/{id}", access: Access::Browser },
    Route { method: "get", path: "/owner/api/commands", access: Access::Browser },
    Route { method: "get", path: "/owner/api/commands/{id}", access: Access::Browser },
    // Without a cookie these show the form that asks for a code.
    Route { method: "get", path: "/owner/plain", access: Access::Anybody },
    Route { method: "post", path: "/owner/plain/sign-in", access: Access::Anybody },
    Route { method: "post", path: "/owner/plain/sign-out", access: Access::Anybody },
    Route { method: "get", path: "/owner/plain/graphs/{id}", access: Access::Anybody },
];

const COOKIE: &str = "graph_queue_owner";

pub fn router() -> Router<App> {
    Router::new()
        .route("/owner", get(reader))
        .route("/owner/assets/{id}", get(files::asset))
        .route("/owner/api/sign-in", post(api::sign_in))
        .route("/owner/api/sign-out", post(api::sign_out))
        .route("/owner/api/home", get(api::home))
        .route("/owner/api/sessions", get(api::sessions))
        .route("/owner/api/graphs", get(api::graphs))
        .route("/owner/api/graphs/{id}", get(api::graph))
        .route("/owner/api/commands", get(api::commands))
        .route("/owner/api/commands/{id}", get(api::command))
        .route(PLAIN, get(overview))
        .route("/owner/plain/sign-in", post(sign_in))
        .route("/owner/plain/sign-out", post(sign_out))
        .route("/owner/plain/graphs/{id}", get(graph))
}

const PLAIN: &str = "/owner/plain";

async fn reader(headers: HeaderMap) -> Response {
    files::page(files::takes_gzip(&headers)).unwrap_or_else(|| Redirect::to(PLAIN).into_response())
}

const STYLE: &str = "body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#1c2024;background:#fbfcfd}\
table{border-collapse:collapse;width:100%}th,td{text-align:left;padding:.35rem .6rem;border-bottom:1px solid #e0e1e6}\
pre{background:#f0f1f3;padding:1rem;overflow:auto}input{font:1.2rem ui-monospace,monospace;padding:.4rem}button{font:inherit;padding:.5rem 1rem}\
.bad{color:#a3141f}:focus-visible{outline:3px solid #0b5cad;outline-offset:2px}";

fn page(app: &App, status: StatusCode, title: &str, body: &str) -> Response {
    let nonce = crate::secret::hex(&crate::ports::bytes::<12>(&*app.queue.random));
    html::page(&html::Page { status, nonce: &nonce, style: STYLE, form_targets: "", title, body })
}

fn ask_code(app: &App, status: StatusCode, wrong: &str) -> Response {
    let body = format!(
        "<h1>Graph Queue</h1><form method=\"post\" action=\"/owner/plain/sign-in\"><p><label for=\"code\">Sign-in code, from Graph Desk → Connections</label></p>{wrong}\
         <p><input id=\"code\" name=\"code\" autocomplete=\"off\" spellcheck=\"false\" maxlength=\"12\" autofocus> <button>Sign in</button></p></form>"
    );
    page(app, status, "Sign in", &body)
}

fn cookie(headers: &HeaderMap) -> Option<&str> {
    let all = headers.get_all(header::COOKIE).iter().filter_map(|v| v.to_str().ok()).flat_map(|v| v.split(';'));
    let mut pairs = all.filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(name, _)| *name == COOKIE).map(|(_, value)| value)
}

fn to_overview(app: &App, cookie: &str, max_age_s: i64) -> Response {
    set_cookie(app, cookie, max_age_s, (StatusCode::SEE_OTHER, [(header::LOCATION, PLAIN)]).into_response())
}

fn set_cookie(app: &App, cookie: &str, max_age_s: i64, mut response: Response) -> Response {
    let secure = if app.config.public_url.starts_with("https://") { "; Secure" } else { "" };
    let set = format!("{COOKIE}={cookie}; Path=/owner; Max-Age={max_age_s}; HttpOnly; SameSite=Strict{secure}");
    if let Ok(set) = HeaderValue::from_str(&set) {
        response.headers_mut().insert(header::SET_COOKIE, set);
    }
    response
}

async fn sign_in(From(address): From, State(app): State<App>, body: Body) -> Response {
    let form = Form::parse(&body::read_text(body).await.unwrap_or_default());
    if let Err(seconds) = app.guesses.admit(address).await {
        return too_many(seconds).into_response();
    }
    match app.queue.sign_in(form.get("code").unwrap_or_default()).await {
        Ok(Some(cookie)) => to_overview(&app, &cookie, SESSION_TTL_MS / 1000),
        Ok(None) => {
            app.guesses.wrong(address, "sign-in code");
            ask_code(&app, StatusCode::BAD_REQUEST, "<p class=\"bad\" role=\"alert\">This code is wrong, was used or has expired.</p>")
        }
        Err(e) => ApiError::from(e).into_response(),
    }
}

async fn sign_out(State(app): State<App>, headers: HeaderMap) -> Response {
    if let Some(cookie) = cookie(&headers)
        && let Err(e) = app.queue.sign_out(cookie).await
    {
        return ApiError::from(e).into_response();
    }
    to_overview(&app, "", 0)
}

async fn overview(State(app): State<App>, headers: HeaderMap) -> Response {
    let seen = match cookie(&headers) {
        Some(cookie) => app.queue.overview(cookie).await,
        None => Ok(None),
    };
    match seen {
        Ok(Some(overview)) => page(&app, StatusCode::OK, "Graph Queue", &render(&overview)),
        Ok(None) => ask_code(&app, StatusCode::OK, ""),
        Err(e) => ApiError::from(e).into_response(),
    }
}

fn render(it: &Overview) -> String {
    let mut out = format!(
        "<h1>{}</h1><form method=\"post\" action=\"/owner/plain/sign-out\"><button>Sign out</button></form><h2>Projects</h2><ul>",
        escape(&it.owner)
    );
    for name in &it.projects {
        out.push_str(&format!("<li>{}</li>", escape(name)));
    }
    out.push_str("</ul><h2>Commands</h2><table><tr><th>Queued</th><th>Graph</th><th>Agent</th><th>State</th></tr>");
    for c in &it.commands {
        let reason = c.reason.as_deref().filter(|r| *r != "done").map(|r| format!(" ({})", escape(r))).unwrap_or_default();
        out.push_str(&format!(
            "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}{reason}</td></tr>",
            c.queued_at,
            escape(&c.slug),
            escape(&c.agent),
            escape(&c.status)
        ));
    }
    out.push_str("</table><h2>Graphs you made readable</h2><ul>");
    for (id, name) in &it.graphs {
        out.push_str(&format!("<li><a href=\"/owner/plain/graphs/{id}\">{}</a></li>", escape(name)));
    }
    out.push_str("</ul>");
    out
}

async fn graph(State(app): State<App>, headers: HeaderMap, Path(id): Path<String>) -> Response {
    let (Some(cookie), Ok(id)) = (cookie(&headers), GraphSessionId::parse(&id)) else { return ask_code(&app, StatusCode::OK, "") };
    match app.queue.readable_graph(cookie, id).await {
        Ok(Some((name, text))) => {
            let body = format!("<p><a href=\"/owner/plain\">Back</a></p><h1>{}</h1><pre>{}</pre>", escape(&name), escape_lines(&text));
            page(&app, StatusCode::OK, &name, &body)
        }
        Ok(None) => page(&app, StatusCode::NOT_FOUND, "Not here", "<h1>This Graph is not readable here</h1><p><a href=\"/owner/plain\">Back</a></p>"),
        Err(e) => ApiError::from(e).into_response(),
    }
}
