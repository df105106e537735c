//! The authorization server: consent by connect code, PKCE, rotation, reuse, and what must never happen.
use axum::{
    body::Body,
    http::{Request, header},
};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use url::Url;

use crate::world::{Agent, Desk, READ, RUN, Reply, URL, World, gs};

const CALLBACK: &str = "http://localhost:4711/callback";
const VERIFIER: &str = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";

fn form(pairs: &[(&str, &str)]) -> String {
    url::form_urlencoded::Serializer::new(String::new()).extend_pairs(pairs).finish()
}

async fn post(w: &World, path: &str, cookie: &str, pairs: &[(&str, &str)]) -> Reply {
    let mut request = Request::post(path).header("content-type", "application/x-www-form-urlencoded");
    if !cookie.is_empty() {
        request = request.header("cookie", cookie);
    }
    w.send(request.body(Body::from(form(pairs))).unwrap()).await
}

async fn register(w: &World, method: &str) -> Value {
    let body = json!({"client_name": "Claude Code (queue)", "redirect_uris": ["http://localhost:1/callback"], "token_endpoint_auth_method": method, "scope": format!("{READ} {RUN}"), "application_type": "native"});
    let reply = w.send(Request::post("/oauth/register").body(Body::from(body.to_string())).unwrap()).await;
    assert_eq!(reply.status, 201, "{}", reply.text);
    reply.json()
}

/// What the consent page holds.
struct Page {
    cookie: String,
    request: String,
    html: String,
}

fn hidden(html: &str, name: &str) -> String {
    let start = html.find(&format!("name=\"{name}\" value=\"")).unwrap_or_else(|| panic!("{html}")) + name.len() + 15;
    html[start..].split('"').next().unwrap().to_owned()
}

async fn ask(w: &World, client_id: &str, more: &[(&str, &str)]) -> Reply {
    let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest(VERIFIER));
    let mut pairs = vec![
        ("response_type", "code"),
        ("client_id", client_id),
        ("redirect_uri", CALLBACK),
        ("code_challenge", &challenge),
        ("code_challenge_method", "S256"),
        ("state", "st&te"),
        ("resource", "https://queue.test/mcp"),
    ];
    for (name, value) in more {
        pairs.retain(|(n, _)| n != name);
        if !value.is_empty() {
            pairs.push((name, value));
        }
    }
    w.send(Request::get(format!("/oauth/authorize?{}", form(&pairs))).body(Body::empty()).unwrap()).await
}

async fn page(w: &World, client_id: &str, more: &[(&str, &str)]) -> Page {
    let reply = ask(w, client_id, more).await;
    assert_eq!(reply.status, 200, "{} {}", reply.text, reply.header("location"));
    let cookie = reply.header("set-cookie").to_owned();
    assert!(cookie.contains("HttpOnly; SameSite=Strict; Secure"), "{cookie}");
    let policy = reply.header("content-security-policy");
    assert!(policy.contains("frame-ancestors 'none'") && policy.contains("default-src 'none'"), "{policy}");
    assert_eq!((reply.header("x-frame-options"), reply.header("cache-control")), ("DENY", "no-store"));
    Page { cookie: cookie.split(';').next().unwrap().to_owned(), request: hidden(&reply.text, "request"), html: reply.text }
}

async fn connect_code(desk: &Desk<'_>, project: &str, scopes: &[&str]) -> String {
    let answer = desk.post("connect-codes", json!({"name": "From the desk", "project_ids": [project], "scopes": scopes})).await.ok();
    assert_eq!(answer["mcp_url"], "https://queue.test/mcp");
    answer["connect_code"].as_str().unwrap().into()
}

async fn allow(w: &World, page: &Page, code: &str, more: &[(&str, &str)]) -> Reply {
    let mut pairs = vec![("request", page.request.as_str()), ("connect_code", code), ("decision", "allow")];
    pairs.extend_from_slice(more);
    post(w, "/oauth/authorize", &page.cookie, &pairs).await
}

fn query(location: &str, name: &str) -> Option<String> {
    Url::parse(location).unwrap().query_pairs().find(|(n, _)| n == name).map(|(_, v)| v.into_owned())
}

/// The whole way to a code.
async fn code_for(w: &World, client_id: &str, connect: &str, more: &[(&str, &str)]) -> String {
    let page = page(w, client_id, &[]).await;
    let reply = allow(w, &page, connect, more).await;
    assert_eq!(reply.status, 303, "{}", reply.text);
    query(reply.header("location"), "code").unwrap()
}

async fn redeem(w: &World, client_id: &str, code: &str, more: &[(&str, &str)]) -> Reply {
    let mut pairs =
        vec![("grant_type", "authorization_code"), ("code", code), ("code_verifier", VERIFIER), ("redirect_uri", CALLBACK), ("client_id", client_id)];
    for (name, value) in more {
        pairs.retain(|(n, _)| n != name);
        pairs.push((name, value));
    }
    post(w, "/oauth/token", "", &pairs).await
}

async fn refresh(w: &World, client_id: &str, token: &str, more: &[(&str, &str)]) -> Reply {
    let mut pairs = vec![("grant_type", "refresh_token"), ("refresh_token", token), ("client_id", client_id), ("resource", "https://queue.test/mcp")];
    pairs.extend_from_slice(more);
    post(w, "/oauth/token", "", &pairs).await
}

fn agent<'w>(w: &'w World, tokens: &Value) -> Agent<'w> {
    Agent { world: w, id: String::new(), token: tokens["access_token"].as_str().unwrap().into() }
}

fn error(reply: &Reply) -> (u16, String) {
    (reply.status, reply.json()["error"].as_str().unwrap_or_default().to_owned())
}

async fn set_up(w: &World) -> (Desk<'_>, String, String) {
    let (desk, project, _) = w.set_up().await;
    let client = register(w, "none").await["client_id"].as_str().unwrap().to_owned();
    (desk, project, client)
}

/// In the contract suite: a_client_connects_by_the_book.
pub async fn by_the_book(w: &World) {
    let metadata = w.send(Request::get("/.well-known/oauth-authorization-server").body(Body::empty()).unwrap()).await.ok();
    assert_eq!((metadata["issuer"].as_str(), metadata["code_challenge_methods_supported"][0].as_str()), (Some(URL), Some("S256")));
    let (desk, project, client) = set_up(w).await;
    let connect = connect_code(&desk, &project, &[READ, RUN]).await;
    let first = page(w, &client, &[]).await;
    assert!(first.html.contains("Claude Code (queue)") && first.html.contains("localhost") && first.html.contains("program on this computer"));
    let shown =
        post(w, "/oauth/authorize", &first.cookie, &[("request", &first.request), ("connect_code", &connect.to_lowercase()), ("decision", "look")])
            .await;
    assert!(shown.text.contains("Docs") && shown.text.contains("Ada") && shown.text.contains("start and cancel runs"), "{}", shown.text);
    let granted = allow(w, &first, &connect, &[]).await;
    let location = granted.header("location").to_owned();
    assert!(location.starts_with("http://localhost:4711/callback?"), "{location}");
    assert_eq!((query(&location, "state").unwrap(), query(&location, "iss").unwrap()), ("st&te".into(), URL.into()));
    let again = allow(w, &first, &connect, &[]).await;
    assert_eq!(again.header("location"), location, "a double submit gives the same code");

    let code = query(&location, "code").unwrap();
    let reply = redeem(w, &client, &code, &[("resource", "https://queue.test/mcp")]).await;
    let tokens = reply.ok();
    assert_eq!(
        (reply.header("cache-control"), tokens["token_type"].as_str(), tokens["expires_in"].as_i64()),
        ("no-store", Some("Bearer"), Some(3600))
    );
    assert_eq!(tokens["scope"], format!("{READ} {RUN}"));
    let connected = agent(w, &tokens);
    connected.run("key-00001").await;
    let listed = desk.get("agents").await.ok();
    let new = listed["agents"].as_array().unwrap().iter().find(|a| a["kind"] == "oauth").unwrap().clone();
    assert_eq!((new["name"].as_str(), new["project_ids"][0].as_str()), (Some("Claude Code (queue)"), Some(project.as_str())));
    w.pass_ms(3_600_000);
    assert_eq!(connected.call("list_projects", "{}").await.reply.status, 401, "an hour, not more");
    let next = refresh(w, &client, tokens["refresh_token"].as_str().unwrap(), &[]).await.ok();
    assert_eq!(next["scope"], format!("{READ} {RUN}"), "a refresh without scope keeps them");
    agent(w, &next).call("list_projects", "{}").await.ok();
    assert_eq!(desk.delete(&format!("agents/{}", new["agent_id"].as_str().unwrap())).await.status, 200);
    assert_eq!(agent(w, &next).call("list_projects", "{}").await.reply.status, 401);
    assert_eq!(error(&refresh(w, &client, next["refresh_token"].as_str().unwrap(), &[]).await), (400, "invalid_grant".into()));
}

/// In the contract suite: a_rotated_token_has_a_grace_and_then_ends_its_grant.
pub async fn rotation(w: &World) {
    let (desk, project, client) = set_up(w).await;
    let connect = connect_code(&desk, &project, &[READ]).await;
    let tokens = redeem(w, &client, &code_for(w, &client, &connect, &[]).await, &[]).await.ok();
    assert_eq!(tokens["scope"], READ, "what the code granted, not what was asked");
    let old = tokens["refresh_token"].as_str().unwrap();
    let (one, two) = (refresh(w, &client, old, &[]).await.ok(), refresh(w, &client, old, &[]).await.ok());
    assert_eq!(one["refresh_token"], two["refresh_token"], "the same successor within the grace");
    assert_ne!(one["refresh_token"], tokens["refresh_token"]);
    assert_eq!(error(&refresh(w, &client, old, &[("scope", RUN)]).await), (400, "invalid_scope".into()));
    w.pass_ms(60_001);
    agent(w, &two).call("list_projects", "{}").await.ok();
    assert_eq!(error(&refresh(w, &client, old, &[]).await), (400, "invalid_grant".into()));
    assert_eq!(agent(w, &two).call("list_projects", "{}").await.reply.status, 401, "reuse ends the grant");
    assert_eq!(error(&refresh(w, &client, one["refresh_token"].as_str().unwrap(), &[]).await), (400, "invalid_grant".into()));
}

/// In the contract suite: a_code_is_used_once_by_whom_it_was_given_to.
pub async fn codes(w: &World) {
    let (desk, project, client) = set_up(w).await;
    let other = register(w, "none").await["client_id"].as_str().unwrap().to_owned();
    let code = code_for(w, &client, &connect_code(&desk, &project, &[READ]).await, &[]).await;
    for (who, more) in [
        (&other, [("client_id", other.as_str())]),
        (&client, [("code_verifier", "wrong-wrong-wrong-wrong-wrong-wrong-wrong-wrong")]),
        (&client, [("redirect_uri", "http://localhost:4712/callback")]),
        (&client, [("code", "nonsense")]),
    ] {
        assert_eq!(error(&redeem(w, who, &code, &more).await), (400, "invalid_grant".into()), "{more:?}");
    }
    assert_eq!(error(&redeem(w, &client, &code, &[("resource", "https://other.example/mcp")]).await), (400, "invalid_target".into()));
    assert_eq!(error(&redeem(w, "osfc_unknown", &code, &[("client_id", "osfc_unknown")]).await), (401, "invalid_client".into()));
    let tokens = redeem(w, &client, &code, &[]).await.ok();
    agent(w, &tokens).call("list_projects", "{}").await.ok();
    assert_eq!(error(&redeem(w, &client, &code, &[]).await), (400, "invalid_grant".into()));
    assert_eq!(agent(w, &tokens).call("list_projects", "{}").await.reply.status, 401, "a second use ends the grant");
    let late = code_for(w, &client, &connect_code(&desk, &project, &[READ]).await, &[]).await;
    w.pass_ms(60_000);
    assert_eq!(error(&redeem(w, &client, &late, &[]).await), (400, "invalid_grant".into()));
}

#[tokio::test]
async fn a_connect_code_takes_five_tries_and_one_use() {
    let w = World::sqlite().await;
    let (desk, project, client) = set_up(&w).await;
    let connect = connect_code(&desk, &project, &[READ]).await;
    let first = page(&w, &client, &[]).await;
    let look = async |code: &str| {
        post(&w, "/oauth/authorize", &first.cookie, &[("request", &first.request), ("connect_code", code), ("decision", "look")]).await
    };
    for left in (1..5).rev() {
        assert!(look("00000000").await.text.contains(&format!("{left} more tries")));
    }
    assert_eq!((look("00000000").await.status, look(&connect).await.status), (400, 400), "after five wrong codes the request has ended");
    assert_eq!(allow(&w, &first, &connect, &[]).await.status, 400);
    code_for(&w, &client, &connect, &[]).await;
    let second = page(&w, &client, &[]).await;
    assert_eq!(allow(&w, &second, &connect, &[]).await.status, 400, "a connect code is used once");
    let late = connect_code(&desk, &project, &[READ]).await;
    w.pass_ms(10 * 60_000);
    let third = page(&w, &client, &[]).await;
    assert_eq!(allow(&w, &third, &late, &[]).await.status, 400);
}

#[tokio::test]
async fn nothing_is_granted_to_a_form_from_elsewhere() {
    let w = World::sqlite().await;
    let (desk, project, client) = set_up(&w).await;
    let connect = connect_code(&desk, &project, &[READ]).await;
    let mine = page(&w, &client, &[]).await;
    let other = page(&w, &client, &[]).await;
    for cookie in ["", other.cookie.as_str(), "graph_queue_consent_0=1"] {
        let reply = post(&w, "/oauth/authorize", cookie, &[("request", &mine.request), ("connect_code", &connect), ("decision", "allow")]).await;
        assert_eq!((reply.status, reply.header("location")), (400, ""));
    }
    let mut request = Request::post("/oauth/authorize").header("cookie", &mine.cookie).header("origin", "https://evil.example");
    request = request.header(header::CONTENT_TYPE, "application/x-www-form-urlencoded");
    let body = form(&[("request", &mine.request), ("connect_code", &connect), ("decision", "allow")]);
    assert_eq!(w.send(request.body(Body::from(body)).unwrap()).await.status, 403);
    let denied = post(&w, "/oauth/authorize", &mine.cookie, &[("request", &mine.request), ("decision", "deny")]).await;
    assert_eq!(query(denied.header("location"), "error").as_deref(), Some("access_denied"));
    assert_eq!(query(denied.header("location"), "iss").as_deref(), Some(URL));
}

#[tokio::test]
async fn a_broken_request_goes_back_only_to_an_address_that_is_the_clients() {
    let w = World::sqlite().await;
    let (_, _, client) = set_up(&w).await;
    for more in [
        [("client_id", "osfc_unknown")],
        [("redirect_uri", "https://evil.example/cb")],
        [("redirect_uri", "http://localhost:4711/other")],
        [("redirect_uri", "")],
    ] {
        let reply = ask(&w, &client, &more).await;
        assert_eq!((reply.status, reply.header("location")), (400, ""), "{more:?}");
    }
    for (more, expected) in [
        (("response_type", "token"), "unsupported_response_type"),
        (("code_challenge", ""), "invalid_request"),
        (("code_challenge_method", "plain"), "invalid_request"),
        (("resource", "https://other.example"), "invalid_target"),
        (("scope", "admin"), "invalid_scope"),
    ] {
        let reply = ask(&w, &client, &[more]).await;
        let location = reply.header("location");
        assert_eq!((reply.status, query(location, "error").as_deref()), (303, Some(expected)));
        assert_eq!((query(location, "state").as_deref(), query(location, "iss").as_deref()), (Some("st&te"), Some(URL)));
    }
    page(&w, &client, &[("resource", ""), ("scope", "osfoundry:read offline_access")]).await;
}

/// In the contract suite: a_new_consent_is_a_new_agent_unless_the_owner_says_otherwise.
pub async fn continuing(w: &World) {
    let (desk, project, client) = set_up(w).await;
    let one = redeem(w, &client, &code_for(w, &client, &connect_code(&desk, &project, &[READ, RUN]).await, &[]).await, &[]).await.ok();
    let id = agent(w, &one).run("key-00001").await;
    let two = redeem(w, &client, &code_for(w, &client, &connect_code(&desk, &project, &[READ, RUN]).await, &[]).await, &[]).await.ok();
    let told = agent(w, &two).call("get_graph_run", &json!({ "command_id": id }).to_string()).await;
    assert_eq!(told.refused(), crate::world::NOTFOUND);
    let listed = desk.get("agents").await.ok();
    let first = listed["agents"].as_array().unwrap().iter().find(|a| a["kind"] == "oauth").unwrap()["agent_id"].as_str().unwrap().to_owned();
    let code = code_for(w, &client, &connect_code(&desk, &project, &[READ]).await, &[("continue_as", &first)]).await;
    let three = redeem(w, &client, &code, &[]).await.ok();
    assert_eq!(agent(w, &three).get(&id).await["command_id"], json!(id));
    assert_eq!(agent(w, &three).try_run(1, "key-00002", "{}").await.reply.status, 403, "under the new consent");
    assert_eq!(agent(w, &one).call("list_projects", "{}").await.reply.status, 401, "its old tokens died");
    let stranger = w.pair("Eve", "Elsewhere").await;
    let far = stranger.project("P9").await;
    let shown = page(w, &client, &[]).await;
    let reply = allow(w, &shown, &connect_code(&stranger, &far, &[READ]).await, &[("continue_as", &first)]).await;
    assert_eq!(reply.status, 400, "another owner's agent is not to be had");
    assert_eq!(gs(1).len(), 35);
}

#[tokio::test]
async fn the_asked_auth_method_is_honoured() {
    let w = World::sqlite().await;
    let (desk, project, _) = set_up(&w).await;
    assert!(register(&w, "none").await.get("client_secret").is_none());
    for method in ["client_secret_post", "client_secret_basic"] {
        let made = register(&w, method).await;
        assert_eq!(made["token_endpoint_auth_method"], method);
        let (id, secret) = (made["client_id"].as_str().unwrap(), made["client_secret"].as_str().unwrap());
        let code = code_for(&w, id, &connect_code(&desk, &project, &[READ]).await, &[]).await;
        assert_eq!(error(&redeem(&w, id, &code, &[]).await), (401, "invalid_client".into()));
        assert_eq!(error(&redeem(&w, id, &code, &[("client_secret", "wrong")]).await), (401, "invalid_client".into()));
        if method == "client_secret_post" {
            redeem(&w, id, &code, &[("client_secret", secret)]).await.ok();
        } else {
            let basic = base64::engine::general_purpose::STANDARD.encode(format!("{id}:{secret}"));
            let body = form(&[("grant_type", "authorization_code"), ("code", &code), ("code_verifier", VERIFIER), ("redirect_uri", CALLBACK)]);
            let request = Request::post("/oauth/token").header("authorization", format!("Basic {basic}"));
            w.send(request.body(Body::from(body)).unwrap()).await.ok();
        }
    }
    for bad in [
        json!({"redirect_uris": []}),
        json!({"redirect_uris": ["http://evil.example/cb"]}),
        json!({"redirect_uris": ["https://a.example/cb"], "token_endpoint_auth_method": "private_key_jwt"}),
        json!([]),
        json!({"redirect_uris": ["javascript:alert(1)"]}),
    ] {
        let reply = w.send(Request::post("/oauth/register").body(Body::from(bad.to_string())).unwrap()).await;
        assert_eq!(reply.status, 400, "{bad}");
    }
}

#[tokio::test]
async fn a_revoked_token_is_dead_and_the_answer_is_always_the_same() {
    let w = World::sqlite().await;
    let (desk, project, client) = set_up(&w).await;
    let tokens = redeem(&w, &client, &code_for(&w, &client, &connect_code(&desk, &project, &[READ]).await, &[]).await, &[]).await.ok();
    let revoke = async |token: &str| post(&w, "/oauth/revoke", "", &[("token", token), ("client_id", &client)]).await.status;
    assert_eq!(revoke("nonsense").await, 200);
    assert_eq!(revoke(tokens["refresh_token"].as_str().unwrap()).await, 200);
    assert_eq!(agent(&w, &tokens).call("list_projects", "{}").await.reply.status, 401);
    assert_eq!(error(&refresh(&w, &client, tokens["refresh_token"].as_str().unwrap(), &[]).await), (400, "invalid_grant".into()));
}

#[tokio::test]
async fn hostile_names_are_shown_as_text() {
    let w = World::sqlite().await;
    let body = json!({"client_name": "<script>alert(1)</script>\"'&\u{0}", "redirect_uris": [CALLBACK], "token_endpoint_auth_method": "none"});
    let made = w.send(Request::post("/oauth/register").body(Body::from(body.to_string())).unwrap()).await.json();
    let shown = page(&w, made["client_id"].as_str().unwrap(), &[]).await;
    assert!(!shown.html.contains("<script") && shown.html.contains("&lt;script&gt;"));
}

/// Documents that stand nowhere but here.
struct Shelf;

const CIMD: &str = "https://claude.test/oauth/client";

impl server::oauth::documents::Documents for Shelf {
    fn fetch(&self, url: Url) -> server::store::BoxFuture<'static, Result<String, server::oauth::documents::DocumentError>> {
        let text = match url.as_str() {
            CIMD => json!({"client_id": CIMD, "client_name": "Claude", "redirect_uris": ["http://localhost/callback"]}).to_string(),
            _ => json!({"client_id": CIMD, "redirect_uris": ["http://localhost/callback"]}).to_string(),
        };
        Box::pin(async move { Ok(text) })
    }
}

#[tokio::test]
async fn a_client_known_by_its_document_is_verified_and_continues_as_itself() {
    let w = World::with(|config| config.documents = Some(std::sync::Arc::new(Shelf))).await;
    let (desk, project, _) = w.set_up().await;
    let first = page(&w, CIMD, &[]).await;
    assert!(first.html.contains("Its identity was verified"));
    let code = code_for(&w, CIMD, &connect_code(&desk, &project, &[READ, RUN]).await, &[]).await;
    let tokens = redeem(&w, CIMD, &code, &[]).await.ok();
    agent(&w, &tokens).run("key-00001").await;
    let second = page(&w, CIMD, &[]).await;
    let connect = connect_code(&desk, &project, &[READ]).await;
    let shown = post(&w, "/oauth/authorize", &second.cookie, &[("request", &second.request), ("connect_code", &connect), ("decision", "look")]).await;
    assert!(shown.text.contains("selected>and continue as Claude"), "{}", shown.text);
    for bad in ["https://claude.test/other", "https://127.0.0.1/client", "https://claude.test", "http://claude.test/oauth/client"] {
        assert_eq!(ask(&w, bad, &[]).await.status, 400, "{bad}");
    }
    let unpinned = World::sqlite().await;
    unpinned.set_up().await;
    assert_eq!(ask(&unpinned, CIMD, &[]).await.status, 400, "no fetching, no pinned copy: not known");
    let pinned = World::with(|config| {
        config.pinned_clients.push(json!({"client_id": CIMD, "client_name": "Claude", "redirect_uris": ["http://localhost/callback"]}).to_string())
    })
    .await;
    pinned.set_up().await;
    page(&pinned, CIMD, &[]).await;
}

#[tokio::test]
async fn a_client_registered_by_hand_is_kept_and_must_know_its_secret() {
    let w = World::sqlite().await;
    let (desk, project, _) = w.set_up().await;
    let (client, secret) = w.app.add_client("Hosted".into(), vec!["http://localhost/callback".into()], "client_secret_post").await.unwrap();
    let of_itself = register(&w, "none").await["client_id"].as_str().unwrap().to_owned();
    w.pass_ms(2 * 24 * 3_600_000);
    w.app.queue.sweep().await.unwrap();
    assert_eq!(ask(&w, &of_itself, &[]).await.status, 400, "nobody let it in for a day");
    let code = code_for(&w, &client.client_id, &connect_code(&desk, &project, &[READ]).await, &[]).await;
    assert_eq!(error(&redeem(&w, &client.client_id, &code, &[("client_secret", "osfs_wrong")]).await), (401, "invalid_client".into()));
    let tokens = redeem(&w, &client.client_id, &code, &[("client_secret", &secret.unwrap())]).await.ok();
    assert!(w.app.queue.remove_client(&client.client_id).await.unwrap());
    let refused = refresh(&w, &client.client_id, tokens["refresh_token"].as_str().unwrap(), &[]).await;
    assert_eq!(error(&refused), (401, "invalid_client".into()), "a removed client is told to register again");
}
