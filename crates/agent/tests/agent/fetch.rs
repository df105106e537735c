//! `http_fetch`: private addresses in every spelling, rebinding, redirects, sizes. The tests' own server is reached only by the rerouting seam.
use std::{
    collections::BTreeMap,
    io::{Error, ErrorKind},
    net::{IpAddr, SocketAddr},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use agent::tools::{Fetch, Resolve, Toolbox, ToolboxConfig, is_public};
use futures::future::BoxFuture;
use serde_json::json;

use crate::{
    scripted::{Answer, Server},
    support::act,
};

/// Each host's answers, one after the other; the last stays.
#[derive(Default)]
struct Names {
    answers: Mutex<BTreeMap<String, Vec<Vec<IpAddr>>>>,
    asked: AtomicUsize,
}
impl Resolve for Names {
    fn resolve<'a>(&'a self, host: &'a str) -> BoxFuture<'a, std::io::Result<Vec<IpAddr>>> {
        Box::pin(async move {
            self.asked.fetch_add(1, Ordering::Relaxed);
            let mut all = self.answers.lock().unwrap();
            let answers = all.get_mut(host).ok_or_else(|| Error::from(ErrorKind::NotFound))?;
            Ok(if answers.len() > 1 { answers.remove(0) } else { answers[0].clone() })
        })
    }
}
const PUBLIC: &str = "93.184.215.14";

fn names(rows: &[(&str, &[&[&str]])]) -> Arc<Names> {
    let parse = |ips: &&[&str]| ips.iter().map(|ip| ip.parse().unwrap()).collect();
    let answers = rows.iter().map(|(host, answers)| ((*host).to_owned(), answers.iter().map(parse).collect())).collect();
    Arc::new(Names { answers: Mutex::new(answers), asked: AtomicUsize::new(0) })
}
fn toolbox(names: Arc<Names>, server: Option<&Server>) -> Toolbox {
    let mut fetch = Fetch::new(names);
    if let Some(server) = server {
        let to: SocketAddr = server.address.trim_start_matches("http://").trim_end_matches("/v1").parse().unwrap();
        fetch = fetch.rerouted(Arc::new(move |_| to));
    }
    Toolbox::open(ToolboxConfig { fetch: Some(fetch), ..ToolboxConfig::default() }).0
}

#[test]
fn only_the_open_internet_is_public() {
    for (ip, expected) in [
        ("93.184.215.14", true),
        ("8.8.8.8", true),
        ("100.63.255.255", true),
        ("172.32.0.1", true),
        ("2606:4700::1111", true),
        ("2a00:1450::1", true),
        ("::ffff:8.8.8.8", true),
        ("64:ff9b::808:808", true),
        ("127.0.0.1", false),
        ("127.255.255.254", false),
        ("0.0.0.0", false),
        ("0.1.2.3", false),
        ("10.1.2.3", false),
        ("172.16.0.1", false),
        ("172.31.255.255", false),
        ("192.168.1.1", false),
        ("169.254.169.254", false),
        ("100.64.0.1", false),
        ("100.127.255.255", false),
        ("100.100.100.200", false),
        ("168.63.129.16", false),
        ("192.0.0.192", false),
        ("198.18.0.1", false),
        ("203.0.113.1", false),
        ("224.0.0.1", false),
        ("255.255.255.255", false),
        ("::", false),
        ("::1", false),
        ("::ffff:127.0.0.1", false),
        ("::ffff:169.254.169.254", false),
        ("::127.0.0.1", false),
        ("64:ff9b::7f00:1", false),
        ("64:ff9b:1::1", false),
        ("2002:7f00:1::", false),
        ("2001:0:4136:e378::", false),
        ("fe80::1", false),
        ("fc00::1", false),
        ("fd00:ec2::254", false),
        ("ff02::1", false),
        ("2001:db8::1", false),
    ] {
        assert_eq!(is_public(ip.parse().unwrap()), expected, "{ip}");
    }
}

#[tokio::test]
async fn no_spelling_of_a_private_address_is_asked() {
    let found = names(&[
        ("localhost", &[&["127.0.0.1"]]),
        ("inside.example", &[&["10.0.0.7"]]),
        ("both.example", &[&[PUBLIC, "192.168.0.1"]]),
        ("six.example", &[&["::ffff:10.0.0.7"]]),
        ("nothing.example", &[&[]]),
    ]);
    let toolbox = toolbox(found, None);
    for url in [
        "http://127.0.0.1/",
        "http://127.1/",
        "http://2130706433/",
        "http://0x7f.0.0.1/",
        "http://0177.0.0.1/",
        "http://[::1]/",
        "http://[::ffff:127.0.0.1]/",
        "http://169.254.169.254/latest/meta-data/",
        "http://0/",
        "http://localhost/",
        "http://LOCALHOST./",
        "http://inside.example/",
        "http://both.example/",
        "http://six.example/",
        "http://nothing.example/",
        "http://unknown.example/",
        "ftp://93.184.215.14/",
        "file:///etc/passwd",
        "gopher://93.184.215.14/",
        "http://name:password@example.com/",
        "not an address",
    ] {
        assert!(act(&toolbox, "http_fetch", json!({ "url": url })).await.is_err(), "{url}");
    }
}

#[tokio::test]
async fn a_name_is_not_looked_up_before_the_ruling() {
    let found = names(&[("a.example", &[&[PUBLIC]])]);
    let toolbox = toolbox(found.clone(), None);
    let prepared = toolbox.prepare("http_fetch", &crate::support::json(json!({ "url": "http://a.example/x" }))).await.unwrap();
    assert_eq!(found.asked.load(Ordering::Relaxed), 0);
    assert_eq!(prepared.effect.request.as_deref(), Some("GET http://a.example/x"));
    assert_eq!(prepared.target, agent::policy::Target::Http { host: "a.example".into(), method: "GET".into() });
}

fn redirect(status: u16, to: &'static str) -> Answer {
    Answer::Status(status, Box::leak(Box::new([("location", to)])), String::new())
}

#[tokio::test]
async fn a_page_is_given_with_its_status_and_type() {
    let server = Server::start([Answer::Status(404, &[("set-cookie", "a=b")], r#"{"no":1}"#.into()), Answer::Status(200, &[], "ok".into())]).await;
    let toolbox = toolbox(names(&[("a.example", &[&[PUBLIC]])]), Some(&server));
    let input = json!({ "url": "http://a.example/x?y=1", "method": "POST", "headers": { "X-A": "b" }, "body": "hello" });
    let got = act(&toolbox, "http_fetch", input).await.unwrap();
    assert_eq!(
        (&got["status"], &got["content_type"], &got["text"], &got["truncated"]),
        (&json!(404), &json!("application/json"), &json!(r#"{"no":1}"#), &json!(false))
    );
    act(&toolbox, "http_fetch", json!({ "url": "http://a.example/" })).await.unwrap();
    assert_eq!((server.seen(0).path.as_str(), server.seen(0).headers["x-a"].to_str().unwrap()), ("/x", "b"));
    assert!(server.seen(1).headers.get("cookie").is_none(), "no cookie comes back");
    for header in ["Host", "cookie", "Content-Length", "Proxy-Authorization"] {
        assert!(act(&toolbox, "http_fetch", json!({ "url": "http://a.example/", "headers": { header: "x" } })).await.is_err(), "{header}");
    }
}

#[tokio::test]
async fn every_redirect_is_checked_anew() {
    let rows: Vec<(Vec<Answer>, Result<&str, &str>, usize)> = vec![
        (vec![redirect(302, "/next"), Answer::Status(200, &[], "\"there\"".into())], Ok("200"), 2),
        (vec![redirect(302, "http://127.0.0.1:1/")], Err("not a public address"), 1),
        (vec![redirect(301, "http://[::1]/")], Err("not a public address"), 1),
        (vec![redirect(307, "file:///etc/passwd")], Err("not http"), 1),
        (vec![redirect(302, "http://other.example/")], Ok("302"), 1),
        ((0..9).map(|_| redirect(302, "/again")).collect(), Err("more than 5 redirects"), 6),
    ];
    for (answers, expected, asked) in rows {
        let server = Server::start(answers).await;
        let toolbox = toolbox(names(&[("a.example", &[&[PUBLIC]]), ("other.example", &[&[PUBLIC]])]), Some(&server));
        let got = act(&toolbox, "http_fetch", json!({ "url": "http://a.example/" })).await;
        match (expected, &got) {
            (Ok(status), Ok(value)) => assert_eq!(value["status"].to_string(), status),
            (Err(why), Err(error)) => assert!(error.contains(why), "{error}"),
            _ => panic!("{expected:?}: {got:?}"),
        }
        assert_eq!(server.count(), asked, "{expected:?}");
        if expected == Ok("302") {
            assert_eq!(got.unwrap()["location"], "http://other.example/", "another host is another question for the owner");
        }
    }
}

#[tokio::test]
async fn a_name_that_turns_inward_between_two_requests_is_caught() {
    let server = Server::start([redirect(302, "/next"), Answer::Status(200, &[], "inside".into())]).await;
    let toolbox = toolbox(names(&[("turn.example", &[&[PUBLIC], &["127.0.0.1"]])]), Some(&server));
    let error = act(&toolbox, "http_fetch", json!({ "url": "http://turn.example/" })).await.unwrap_err();
    assert!(error.contains("not a public address"), "{error}");
    assert_eq!(server.count(), 1);
}

#[tokio::test]
async fn two_megabytes_are_the_most() {
    let server = Server::start([Answer::Status(200, &[], "x".repeat(3 * 1024 * 1024))]).await;
    let toolbox = toolbox(names(&[("a.example", &[&[PUBLIC]])]), Some(&server));
    let got = act(&toolbox, "http_fetch", json!({ "url": "http://a.example/" })).await.unwrap();
    assert_eq!((&got["bytes"], &got["truncated"], got["text"].as_str().unwrap().len()), (&json!(2 * 1024 * 1024), &json!(true), 2 * 1024 * 1024));
}
