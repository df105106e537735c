//! Invariant 6: every route × every kind of token, generated from the router's own table.
use serde_json::json;
use server::app::{Access, routes};

use crate::world::{READ, RUN, World};

/// Everything a caller may hold.
struct Tokens(Vec<(&'static str, String)>);

async fn tokens(w: &World) -> Tokens {
    let (desk, project, full) = w.set_up().await;
    let reader = desk.agent(&[&project], &[READ]).await;
    let revoked = desk.agent(&[&project], &[READ, RUN]).await;
    assert_eq!(desk.delete(&format!("agents/{}", revoked.id)).await.status, 200);
    let unpaired = w.pair("Ada", "Gone").await;
    assert_eq!(unpaired.delete("device").await.status, 200);
    let foreign = w.pair("Eve", "Elsewhere").await;
    let signed_out = browser(w, &desk).await;
    let sign_out = axum::http::Request::post("/owner/api/sign-out").header("cookie", &signed_out).header("content-type", "application/json");
    assert_eq!(w.send(sign_out.body(axum::body::Body::from("{}")).unwrap()).await.status, 200);
    Tokens(vec![
        ("nobody", String::new()),
        ("garbage", "osfd_AAAA".into()),
        ("device", desk.token.clone()),
        ("foreign device", foreign.token.clone()),
        ("unpaired device", unpaired.token.clone()),
        ("agent", full.token.clone()),
        ("reading agent", reader.token.clone()),
        ("revoked agent", revoked.token.clone()),
        ("browser", browser(w, &desk).await),
        ("foreign browser", browser(w, &foreign).await),
        ("signed-out browser", signed_out),
    ])
}

/// The cookie of a browser signed in with a code from this desktop.
pub async fn browser(w: &World, desk: &crate::world::Desk<'_>) -> String {
    let made = desk.post("sign-in-codes", json!({})).await.ok();
    let request = axum::http::Request::post("/owner/api/sign-in").header("content-type", "application/json");
    let reply = w.send(request.body(axum::body::Body::from(json!({"code": made["sign_in_code"]}).to_string())).unwrap()).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    reply.header("set-cookie").split(';').next().unwrap().to_owned()
}

fn may(access: Access, who: &str) -> bool {
    match access {
        Access::Anybody => true,
        Access::Device => matches!(who, "device" | "foreign device"),
        Access::Agent => matches!(who, "agent" | "reading agent"),
        Access::Browser => matches!(who, "browser" | "foreign browser"),
    }
}

#[tokio::test]
async fn every_route_takes_exactly_the_tokens_it_is_for() {
    let w = World::sqlite().await;
    let Tokens(tokens) = tokens(&w).await;
    let mut cells = 0;
    for route in routes() {
        // It would end the device's own token (that comes last), or the browser's cookie (that came first).
        if route.path.ends_with("/device") || route.path.ends_with("/sign-out") {
            continue;
        }
        for (who, token) in &tokens {
            cells += 1;
            let path = route.path.replace("{id}", "3f2b8c1e-9a4d-4c6b-8e2f-0a1b2c3d4e5f");
            let body =
                if route.path == "/mcp" { r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"list_projects"}}"# } else { "{}" };
            let mut request = axum::http::Request::builder().method(route.method.to_uppercase().as_str()).uri(&path);
            request = request.header("graph-relay-version", "1").header("content-type", "application/json");
            if who.ends_with("browser") {
                request = request.header("cookie", token);
            } else if !token.is_empty() {
                request = request.header("authorization", format!("Bearer {token}"));
            }
            let reply = w.send(request.body(axum::body::Body::from(body)).unwrap()).await;
            let oauth_client = route.path == "/oauth/token" || route.path == "/oauth/revoke";
            let refused = reply.status == 401 && !oauth_client;
            assert_eq!(!refused, may(route.access, who), "{} {} as {who}: {} {}", route.method, route.path, reply.status, reply.text);
            assert_ne!(reply.status, 405, "{} {} is in the table but not in the router", route.method, route.path);
            assert!(reply.status < 500, "{} {}", reply.status, reply.text);
            if !token.is_empty() {
                assert!(!reply.text.contains(token.as_str()), "a token is never said back");
            }
        }
    }
    println!("{cells} cells of the authorization matrix");
    assert!(cells >= 400, "{cells} cells");
    let (_, device) = &tokens[2];
    for (who, token) in tokens.iter().filter(|(who, _)| *who != "device") {
        let reply = w.device("DELETE", "device", token, "").await;
        assert_eq!(reply.status == 200, *who == "foreign device", "{who}");
    }
    assert_eq!(w.device("DELETE", "device", device, "").await.status, 200);
}

/// The paths of the real router, out of its own description of itself.
fn paths_of(router: &axum::Router) -> std::collections::BTreeSet<String> {
    let mut all = std::collections::BTreeSet::new();
    let whole = format!("{router:?}");
    // What stands behind that is the answer to everything else.
    let own = whole.split("fallback_router").next().unwrap_or_default();
    for map in own.split("paths: {").skip(1) {
        let mut pieces = map.split('"');
        while let (Some(between), Some(path)) = (pieces.next(), pieces.next())
            && !between.contains('}')
        {
            all.insert(path.to_owned());
        }
    }
    all.retain(|path| !path.contains("__private"));
    all
}

/// The table is written beside the routes; what the router serves without a row, by path or by method, fails here.
#[tokio::test]
async fn no_route_is_without_a_row_in_the_table() {
    let w = World::sqlite().await;
    let served = paths_of(&w.app.router());
    let listed: std::collections::BTreeSet<String> = routes().map(|r| r.path.to_owned()).collect();
    assert_eq!(served, listed, "left: what the router serves, right: what the authorization matrix knows");
    for path in &listed {
        for method in ["get", "post", "put", "patch", "delete"] {
            if routes().any(|r| r.path == path && r.method == method) {
                continue;
            }
            let request = axum::http::Request::builder().method(method.to_uppercase().as_str()).uri(path.replace("{id}", &crate::world::gs(1)));
            let reply = w.send(request.body(axum::body::Body::empty()).unwrap()).await;
            assert_eq!(reply.status, 405, "{method} {path} is served without a row");
        }
    }
}

#[tokio::test]
async fn a_strange_name_or_origin_is_turned_away() {
    let w = World::sqlite().await;
    let ask = async |host: Option<&str>, origin: Option<&str>, path: &str| {
        let mut request = axum::http::Request::get(path);
        if let Some(host) = host {
            request = request.header("host", host);
        }
        if let Some(origin) = origin {
            request = request.header("origin", origin);
        }
        w.send(request.body(axum::body::Body::empty()).unwrap()).await.status
    };
    for path in ["/healthz", "/.well-known/oauth-protected-resource"] {
        assert_eq!(ask(Some("evil.example"), None, path).await, 403);
        assert_eq!(ask(Some("queue.test"), Some("http://evil.example"), path).await, 403);
        assert_eq!(ask(Some("queue.test"), Some("null"), path).await, 403);
        assert_eq!(ask(Some("queue.test"), Some("https://queue.test"), path).await, 200);
        assert_eq!(ask(Some("queue.test:443"), None, path).await, 200);
        assert_eq!(ask(None, None, path).await, 200);
    }
    assert_eq!(ask(Some("queue.test"), None, "/metrics").await, 404, "numbers are not for the public");
    let numbers = w.send(axum::http::Request::get("/metrics").header("host", "127.0.0.1:1").body(axum::body::Body::empty()).unwrap()).await;
    assert!(numbers.status == 200 && numbers.text.contains("graph_queue_commands_queued 0"), "{}", numbers.text);
    assert_eq!(json!({"status": "ready"}), w.send(axum::http::Request::get("/readyz").body(axum::body::Body::empty()).unwrap()).await.json());
}

/// In the contract suite: the_owners_page_is_read_with_a_code_from_the_desktop.
pub async fn owners_page(w: &World) {
    let (desk, _, agent) = w.set_up().await;
    agent.run("key-00001").await;
    let program = "log('<b>')\nreturn 1";
    let put =
        w.device("PUT", &format!("graphs/{}", crate::world::gs(1)), &desk.token, json!({"name": "Digest <i>", "text": program}).to_string()).await;
    assert_eq!(put.status, 200, "{}", put.text);
    let foreign = w.pair("Eve", "Elsewhere").await;
    let taken = w.device("PUT", &format!("graphs/{}", crate::world::gs(1)), &foreign.token, json!({"name": "x", "text": "y"}).to_string()).await;
    assert_eq!(taken.code(), "session_held");
    let get = async |path: &str, cookie: &str| {
        w.send(axum::http::Request::get(path).header("cookie", cookie).body(axum::body::Body::empty()).unwrap()).await
    };
    let sign_in = async |code: &str| {
        w.send(axum::http::Request::post("/owner/plain/sign-in").body(axum::body::Body::from(format!("code={code}"))).unwrap()).await
    };
    assert!(get("/owner/plain", "").await.text.contains("Sign-in code"));
    let made = desk.post("sign-in-codes", json!({})).await.ok();
    assert_eq!(made["url"], "https://queue.test/owner");
    let code = made["sign_in_code"].as_str().unwrap();
    assert_eq!(sign_in("00000000").await.status, 400);
    let signed = sign_in(code).await;
    let cookie = signed.header("set-cookie").split(';').next().unwrap().to_owned();
    assert_eq!((signed.status, sign_in(code).await.status), (303, 400), "a code is used once");
    assert!(signed.header("set-cookie").contains("Path=/owner") && signed.header("set-cookie").contains("HttpOnly; SameSite=Strict; Secure"));
    let page = get("/owner/plain", &cookie).await;
    assert!(page.text.contains("Docs") && page.text.contains("session-1") && page.text.contains("Digest &lt;i&gt;"), "{}", page.text);
    assert!(page.header("content-security-policy").contains("default-src 'none'"));
    let graph = format!("/owner/plain/graphs/{}", crate::world::gs(1));
    assert!(get(&graph, &cookie).await.text.contains("log(&#39;&lt;b&gt;&#39;)\nreturn 1"));
    assert_eq!(desk.delete(&format!("graphs/{}", crate::world::gs(1))).await.status, 200);
    assert_eq!(get(&graph, &cookie).await.status, 404);
    w.pass_ms(12 * 3_600_000);
    assert!(get("/owner/plain", &cookie).await.text.contains("Sign-in code"), "twelve hours, not more");
    crate::owner_api::reads(w).await;
}
