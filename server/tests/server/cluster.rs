//! A PostgreSQL of our own for the tests: a temporary folder, a free port, the `postgres` user where we are root (initdb refuses root).
use std::{
    path::{Path, PathBuf},
    process::Command,
};

use server::store::Place;

pub struct Cluster {
    dir: tempfile::TempDir,
    bin: PathBuf,
    port: u16,
    databases: std::cell::Cell<u32>,
}

fn bin() -> PathBuf {
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten().map(|e| e.path().join("bin"));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut all: Vec<PathBuf> = std::env::split_paths(&path).chain(versions).filter(|d| d.join("initdb").exists()).collect();
    all.pop().expect("PostgreSQL is installed (initdb, pg_ctl)")
}

fn am_root() -> bool {
    String::from_utf8(Command::new("id").arg("-u").output().unwrap().stdout).unwrap().trim() == "0"
}

impl Cluster {
    pub fn start() -> Self {
        Self::with(&[])
    }

    /// One that takes encrypted connections.
    pub fn with_certificate(certificate: &Path, key: &Path) -> Self {
        Self::with(&[("certificate.pem", certificate), ("certificate.key", key)])
    }

    fn with(files: &[(&str, &Path)]) -> Self {
        let (dir, bin) = (tempfile::tempdir().unwrap(), bin());
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let cluster = Self { dir, bin, port, databases: std::cell::Cell::new(0) };
        if am_root() {
            let owned = Command::new("chown").arg("postgres").arg(cluster.dir.path()).status().unwrap();
            assert!(owned.success());
        }
        let data = cluster.data();
        cluster.tool("initdb", &["-D", &data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"]);
        let mut options = format!("-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories='' -c fsync=off -c max_connections=200");
        for (name, file) in files {
            let copy = cluster.dir.path().join(name);
            // The server wants its key to be its own and nobody else's.
            std::fs::copy(file, &copy).unwrap();
            assert!(Command::new("chmod").arg("600").arg(&copy).status().unwrap().success());
            assert!(!am_root() || Command::new("chown").arg("postgres").arg(&copy).status().unwrap().success());
            let setting = if name.ends_with(".key") { "ssl_key_file" } else { "ssl=on -c ssl_cert_file" };
            options.push_str(&format!(" -c {setting}={}", copy.display()));
        }
        let log = cluster.dir.path().join("log").display().to_string();
        cluster.tool("pg_ctl", &["-D", &data, "-w", "-l", &log, "-o", &options, "start"]);
        cluster
    }

    fn data(&self) -> String {
        self.dir.path().join("data").display().to_string()
    }

    fn tool(&self, name: &str, arguments: &[&str]) {
        let program = self.bin.join(name);
        let mut command = if am_root() {
            let mut command = Command::new("runuser");
            command.args(["-u", "postgres", "--"]).arg(program);
            command
        } else {
            Command::new(program)
        };
        // The server it starts inherits its outputs, so they go to a file: a pipe would never end.
        let log = std::fs::File::create(self.dir.path().join(format!("{name}.log"))).unwrap();
        let done = command.args(arguments).current_dir(Path::new("/")).stdout(log.try_clone().unwrap()).stderr(log).status().unwrap();
        assert!(done.success(), "{name}: {}", std::fs::read_to_string(self.dir.path().join(format!("{name}.log"))).unwrap());
    }

    fn url(&self, database: &str) -> String {
        format!("postgres://postgres@127.0.0.1:{}/{database}", self.port)
    }

    /// A new, empty database.
    pub async fn place(&self) -> Place {
        let n = self.databases.get() + 1;
        self.databases.set(n);
        execute(&self.url("postgres"), &format!("CREATE DATABASE q{n}")).await;
        Place::Postgres { url: self.url(&format!("q{n}")) }
    }

    /// Statements run in that database before a queue opens it.
    pub async fn run(&self, place: &Place, statements: &str) {
        let Place::Postgres { url } = place else { panic!("PostgreSQL only") };
        execute(url, statements).await;
    }
}

impl Cluster {
    /// Of every other connection to this database: whether it is encrypted.
    pub async fn encrypted_connections(&self, url: &str) -> Vec<bool> {
        let database = url.rsplit_once('/').unwrap().1;
        let (client, connection) = tokio_postgres::connect(&self.url("postgres"), tokio_postgres::NoTls).await.unwrap();
        let task = tokio::spawn(connection);
        let sql = "SELECT s.ssl FROM pg_stat_ssl s JOIN pg_stat_activity a USING (pid) WHERE a.datname = $1 AND a.backend_type = 'client backend'";
        let seen = client.query(sql, &[&database]).await.unwrap().iter().map(|row| row.get(0)).collect();
        drop(client);
        task.await.unwrap().unwrap();
        seen
    }

    pub async fn until_nobody_is_connected(&self, url: &str) {
        while !self.encrypted_connections(url).await.is_empty() {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    }
}

async fn execute(url: &str, statements: &str) {
    let (client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls).await.unwrap();
    let task = tokio::spawn(connection);
    client.batch_execute(statements).await.unwrap();
    drop(client);
    task.await.unwrap().unwrap();
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let data = self.data();
        self.tool("pg_ctl", &["-D", &data, "-m", "immediate", "-w", "stop"]);
    }
}
