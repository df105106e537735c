//! The real socket: what it follows, what it trusts, when it gives up.
use std::{
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    sync::mpsc,
    time::Duration,
};

use bytes::Bytes;
use device::{
    net::Network,
    ports::{HttpSend, TransportError},
    relay::{AskError, Link, QueueClient, Token},
};

use crate::world::device_id;

/// Answers one connection after another with these bytes; tells each request's head. `None` accepts and stays silent.
fn server(answer: Option<String>) -> (String, mpsc::Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let (heads, seen) = mpsc::channel();
    std::thread::spawn(move || {
        let mut silent: Vec<TcpStream> = Vec::new();
        for mut stream in listener.incoming().flatten() {
            let mut head = [0; 4096];
            let read = stream.read(&mut head).unwrap_or(0);
            if heads.send(String::from_utf8_lossy(&head[..read]).into_owned()).is_err() {
                return;
            }
            match &answer {
                Some(answer) => drop(stream.write_all(answer.as_bytes())),
                None => silent.push(stream),
            }
        }
    });
    (address, seen)
}

fn http(status: &str, headers: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\n{headers}content-length: {}\r\nconnection: close\r\n\r\n{body}", body.len())
}

fn client(address: &str) -> QueueClient {
    let link = Link { address: address.into(), device: device_id(), token: Token::new("marked-secret") };
    QueueClient::new(std::sync::Arc::new(Network::new().unwrap()), &link)
}

#[tokio::test]
async fn a_redirect_is_not_followed_and_the_other_host_sees_nothing() {
    let (other, visits) = server(Some(http("200 OK", "", r#"{"projects":[]}"#)));
    let (address, seen) = server(Some(http("302 Found", &format!("location: {other}/\r\n"), "")));
    assert_eq!(client(&address).projects().await.unwrap_err(), AskError::NotOurs { status: 302 });
    assert!(seen.recv().unwrap().contains("authorization: Bearer marked-secret"));
    assert!(visits.try_recv().is_err());
}

#[tokio::test]
async fn a_page_is_no_answer_and_an_envelope_is_a_refusal() {
    let (address, _seen) = server(Some(http("200 OK", "content-type: text/html\r\n", "<html>Sign in</html>")));
    assert_eq!(client(&address).projects().await.unwrap_err(), AskError::NotOurs { status: 200 });
    let envelope = r#"{"error":{"code":"gone","message":"No such project","retryable":false}}"#;
    let (address, _seen) = server(Some(http("404 Not Found", "", envelope)));
    let refused = client(&address).projects().await.unwrap_err();
    assert!(refused.is_final() && refused.to_string() == "No such project", "{refused:?}");
    let (address, _seen) = server(Some(http("429 Too Many Requests", "retry-after: 7\r\n", envelope)));
    assert!(matches!(client(&address).projects().await, Err(AskError::TooMany { retry_after_ms: Some(7_000), .. })));
    let (address, _seen) = server(Some(http("503 Service Unavailable", "retry-after: 3600\r\n", "<html>maintenance</html>")));
    assert!(matches!(client(&address).projects().await, Err(AskError::TooMany { retry_after_ms: Some(120_000), .. })));
    let dated = "date: Sun, 06 Nov 1994 08:49:37 GMT\r\nretry-after: Sun, 06 Nov 1994 08:50:07 GMT\r\n";
    let (address, _seen) = server(Some(http("429 Too Many Requests", dated, envelope)));
    assert!(matches!(client(&address).projects().await, Err(AskError::TooMany { retry_after_ms: Some(30_000), .. })), "by the server's own clock");
    let (address, _seen) = server(Some(http("503 Service Unavailable", "", "<html>maintenance</html>")));
    assert_eq!(client(&address).projects().await.unwrap_err(), AskError::NotOurs { status: 503 });
    let (address, _seen) = server(Some(http("500 Internal Server Error", "", envelope)));
    assert!(!client(&address).projects().await.unwrap_err().is_final(), "a server fault may pass");
}

#[tokio::test]
async fn a_silent_server_is_given_up_in_time_and_in_words() {
    let (address, _seen) = server(None);
    let request = http::Request::get(format!("{address}/x")).body(Bytes::new()).unwrap();
    let error = Network::new().unwrap().send(request, Duration::from_millis(200)).await.unwrap_err();
    assert!(matches!(error, TransportError::TimedOut(_)), "{error}");
}

#[tokio::test]
async fn an_endless_answer_is_cut_off() {
    let (address, _seen) = server(Some(http("200 OK", "", &"x".repeat(9 * 1024 * 1024))));
    let error = client(&address).projects().await.unwrap_err();
    assert!(matches!(error, AskError::Unreachable(TransportError::TooLarge(_))), "{error:?}");
}

#[tokio::test]
async fn what_cannot_be_reached_is_told_with_the_host_and_without_the_token() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let plain = client(&format!("http://{free}")).projects().await.unwrap_err().to_string();
    assert!(plain.contains("127.0.0.1 cannot be reached"), "{plain}");
    let (address, _seen) = server(Some(http("200 OK", "", "{}")));
    let tls = client(&address.replace("http:", "https:")).projects().await.unwrap_err().to_string();
    assert!(tls.contains("127.0.0.1"), "{tls}");
    assert!(!plain.contains("marked-secret") && !tls.contains("marked-secret"));
}
