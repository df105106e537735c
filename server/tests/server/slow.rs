//! Clients that are slow, many or too large (cases C29, C48, C49, C51).
use std::time::Duration;

use serde_json::json;
use server::store::Place;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    time::Instant,
};

use crate::world::{World, session};

/// What a slow client sends at first, and then byte by byte every five seconds.
const SLOW: [(&str, &str); 3] = [
    ("", ""),
    ("", "POST /mcp HTTP/1.1\r\nhost: localhost\r\nx-slow: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"),
    ("POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1000\r\n\r\n", "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\"}"),
];

/// How long the server bore it.
async fn slow_client(address: std::net::SocketAddr, first: &str, then: &str) -> Duration {
    let begin = Instant::now();
    let mut socket = TcpStream::connect(address).await.unwrap();
    socket.write_all(first.as_bytes()).await.unwrap();
    let mut rest = then.bytes();
    let mut answer = [0; 1024];
    loop {
        assert!(begin.elapsed() < Duration::from_secs(120), "a slow client is borne for ever");
        tokio::select! { biased;
            read = socket.read(&mut answer) => if matches!(read, Ok(0) | Err(_)) { return begin.elapsed() },
            () = tokio::time::sleep(Duration::from_secs(5)) => if let Some(byte) = rest.next() && socket.write_all(&[byte]).await.is_err() {
                return begin.elapsed();
            },
        }
    }
}

/// In real time: sockets do not know of a simulated clock, which would run ahead of what is on its way.
#[tokio::test]
async fn two_hundred_slow_clients_are_closed_and_nobody_waits_for_them() {
    let w = World::sqlite().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (end, ended) = tokio::sync::oneshot::channel::<()>();
    let app = w.app.clone();
    let serving = tokio::spawn(async move { app.serve(listener, async { drop(ended.await) }).await });
    let slow = futures::future::join_all((0..201).map(|n| {
        let (first, then) = SLOW[n % SLOW.len()];
        tokio::spawn(slow_client(address, first, then))
    }));
    let normal = async {
        let mut socket = TcpStream::connect(address).await.unwrap();
        socket.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").await.unwrap();
        let mut answer = String::new();
        socket.read_to_string(&mut answer).await.unwrap();
        answer
    };
    let (slow, answer) = tokio::join!(slow, normal);
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    for (n, bore) in slow.into_iter().enumerate() {
        let bore = bore.unwrap();
        // Thirty seconds are the server's patience; the rest is for a machine that is busy.
        assert!(bore <= Duration::from_secs(60), "client {n} was borne for {bore:?}");
    }
    drop(end);
    serving.await.unwrap().unwrap();
}

/// The log grows past its limit while a reader holds an old state, and is cut back when the reader has gone.
#[tokio::test]
async fn the_log_file_is_cut_back_after_a_long_reader() {
    let w = World::sqlite().await;
    let (_, _, agent) = w.set_up().await;
    let Place::Sqlite { path, .. } = &w.place else { panic!() };
    let log = || std::fs::metadata(path.with_file_name("q.db-wal")).unwrap().len();
    let large = format!(r#"{{"a":"{}"}}"#, "x".repeat(900 * 1024));
    let reader = rusqlite::Connection::open(path).unwrap();
    assert_eq!(reader.pragma_query_value::<String, _>(None, "journal_mode", |row| row.get(0)).unwrap(), "wal");
    reader.execute_batch("BEGIN; SELECT count(*) FROM commands").unwrap();
    for n in 0..50 {
        agent.try_run(1, &format!("key-{n:05}"), &large).await.ok();
    }
    assert!(log() > 33_554_432, "{}: the reader kept it from being used again", log());
    reader.execute_batch("COMMIT").unwrap();
    for n in 50..54 {
        agent.try_run(1, &format!("key-{n:05}"), &large).await.ok();
    }
    assert!(log() <= 33_554_432, "{}", log());
}

#[tokio::test]
async fn a_stale_session_header_is_borne_across_a_restart() {
    let mut w = World::sqlite().await;
    let (token, project) = {
        let (desk, project, agent) = w.set_up().await;
        desk.share(&project, 1, &[session(1)]).await;
        (agent.token.clone(), project)
    };
    w.restart().await;
    let send = async |body: serde_json::Value| {
        let request =
            axum::http::Request::post("/mcp").header("content-type", "application/json").header("accept", "application/json, text/event-stream");
        let request = request.header("mcp-session-id", "of-the-process-before").header("mcp-protocol-version", "2025-11-25");
        w.send(request.header("authorization", format!("Bearer {token}")).body(axum::body::Body::from(body.to_string())).unwrap()).await
    };
    let called = send(json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "list_projects", "arguments": {}}})).await.ok();
    assert_eq!(called["result"]["structuredContent"]["projects"][0]["project_id"], json!(project), "the token is as good as before");
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
    assert_eq!(
        send(json!({"jsonrpc": "2.0", "id": 2, "method": "initialize", "params": params})).await.ok()["result"]["protocolVersion"],
        "2025-11-25"
    );
}
