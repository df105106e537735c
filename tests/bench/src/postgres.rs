//! A PostgreSQL of our own, as it comes: with its fsyncs. The `postgres` user runs it where we are root (initdb refuses root).
use std::{
    io::{BufRead, BufReader, Write},
    path::PathBuf,
    process::{Child, ChildStdin, Command, Stdio},
};

use crate::programs;

pub struct Cluster {
    dir: tempfile::TempDir,
    bin: PathBuf,
    port: u16,
}

fn bin() -> PathBuf {
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten().map(|e| e.path().join("bin"));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut all: Vec<PathBuf> = std::env::split_paths(&path).chain(versions).filter(|d| d.join("initdb").exists()).collect();
    all.pop().expect("PostgreSQL is installed (initdb, pg_ctl)")
}

impl Cluster {
    pub fn start() -> Self {
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let cluster = Self { dir: tempfile::tempdir_in("/var/tmp").unwrap(), bin: bin(), port };
        if is_root() {
            assert!(Command::new("chown").arg("postgres").arg(cluster.dir.path()).status().unwrap().success());
        }
        let data = cluster.data();
        cluster.tool("initdb", &["-D", &data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C"]);
        let options = format!("-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories='' -c max_connections=100");
        let log = cluster.dir.path().join("log").display().to_string();
        cluster.tool("pg_ctl", &["-D", &data, "-w", "-l", &log, "-o", &options, "start"]);
        cluster
    }

    pub fn url(&self) -> String {
        format!("postgres://postgres@127.0.0.1:{}/postgres", self.port)
    }

    /// A reader that keeps one snapshot: what changes meanwhile cannot be vacuumed.
    pub fn hold_snapshot(&self) -> Held {
        let sql = "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM commands; SELECT 'held'";
        let mut child = Command::new(self.bin.join("psql"))
            .args(["-qAt", &self.url()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("psql is installed beside PostgreSQL");
        let mut input = child.stdin.take().unwrap();
        writeln!(input, "{sql};").unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert!(lines.any(|line| line.unwrap() == "held"), "the snapshot is taken");
        Held { child, _input: input }
    }

    fn data(&self) -> String {
        self.dir.path().join("data").display().to_string()
    }

    fn tool(&self, name: &str, arguments: &[&str]) {
        let program = self.bin.join(name);
        let mut command = if is_root() {
            let mut command = Command::new("runuser");
            command.args(["-u", "postgres", "--"]).arg(program);
            command
        } else {
            Command::new(program)
        };
        // The server it starts inherits its outputs, so they go to a file: a pipe would never end.
        let log = std::fs::File::create(programs::scratch().join("postgres.log")).unwrap();
        let done = command.args(arguments).current_dir("/").stdout(log.try_clone().unwrap()).stderr(log).status().unwrap();
        assert!(done.success(), "{name}: see {}", programs::scratch().join("postgres.log").display());
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let data = self.data();
        self.tool("pg_ctl", &["-D", &data, "-m", "immediate", "-w", "stop"]);
    }
}

/// Its transaction ends with it.
pub struct Held {
    child: Child,
    _input: ChildStdin,
}

impl Drop for Held {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn is_root() -> bool {
    String::from_utf8(Command::new("id").arg("-u").output().unwrap().stdout).unwrap().trim() == "0"
}
