//! The line between a desktop and Graph Queue: passes HTTP/1.1 through, and can lose an answer or be cut altogether.
use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    sync::{Arc, Mutex},
};

#[derive(Default)]
struct Faults {
    /// Answers to lose: path endings, each used once.
    lose_answer: Vec<&'static str>,
    /// Requests whose answer was lost, by path.
    lost: Vec<String>,
    down: bool,
}

pub struct Line {
    port: u16,
    faults: Arc<Mutex<Faults>>,
}

impl Line {
    /// A line to `upstream` (host:port) on a free loopback port.
    pub fn to(upstream: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let faults = Arc::new(Mutex::new(Faults::default()));
        let (shared, upstream) = (faults.clone(), upstream.to_owned());
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (shared, upstream) = (shared.clone(), upstream.clone());
                std::thread::spawn(move || carry(stream, &upstream, &shared));
            }
        });
        Self { port, faults }
    }

    pub fn address(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// The next answer to a request whose path ends so is lost, after the server has handled it.
    pub fn lose_answer(&self, path_end: &'static str) {
        self.faults.lock().unwrap().lose_answer.push(path_end);
    }

    pub fn lost(&self) -> usize {
        self.faults.lock().unwrap().lost.len()
    }

    pub fn set_down(&self, down: bool) {
        self.faults.lock().unwrap().down = down;
    }
}

/// One connection, one request: the answer closes it, so the other side opens a new one.
fn carry(client: TcpStream, upstream: &str, faults: &Mutex<Faults>) -> Option<()> {
    if faults.lock().unwrap().down {
        return None;
    }
    let mut client = BufReader::new(client);
    let (path, answer) = exchange(&mut client, upstream)?;
    let mut state = faults.lock().unwrap();
    if state.down {
        return None;
    }
    if let Some(at) = state.lose_answer.iter().position(|end| path.ends_with(end)) {
        state.lose_answer.remove(at);
        state.lost.push(path);
        return None;
    }
    drop(state);
    client.get_mut().write_all(&answer).ok()
}

/// Reads one request, asks `upstream` the same and reads the whole answer: the request's path, the answer's bytes.
pub fn exchange(reader: &mut impl BufRead, upstream: &str) -> Option<(String, Vec<u8>)> {
    let mut head = String::new();
    let mut length = 0usize;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        let lower = line.to_ascii_lowercase();
        if let Some(n) = lower.strip_prefix("content-length:") {
            length = n.trim().parse().ok()?;
        }
        if lower.starts_with("connection:") {
            continue;
        }
        if line == "\r\n" {
            break;
        }
        head.push_str(&line);
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let path = head.split_whitespace().nth(1)?.to_owned();

    let mut server = TcpStream::connect(upstream).ok()?;
    server.write_all(format!("{head}connection: close\r\n\r\n").as_bytes()).ok()?;
    server.write_all(&body).ok()?;
    let mut answer = Vec::new();
    server.read_to_end(&mut answer).ok()?;
    Some((path, answer))
}
