//! The release programs, started and watched.
use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Instant,
};

use serde_json::Value;

pub fn release_dir() -> PathBuf {
    std::env::current_exe().unwrap().parent().unwrap().to_path_buf()
}

/// A folder on the disk the product would use, not in memory.
pub fn scratch() -> PathBuf {
    let dir = release_dir().parent().unwrap().join("bench-scratch");
    std::fs::create_dir_all(&dir).unwrap();
    dir
}

pub struct Program {
    child: Child,
    pub first_line: String,
    pub started_ms: f64,
}

impl Program {
    pub fn start(command: &mut Command) -> Self {
        let at = Instant::now();
        let log = std::fs::File::options().create(true).append(true).open(scratch().join("programs.log")).unwrap();
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let first_line = lines.next().unwrap().unwrap();
        std::thread::spawn(move || lines.for_each(drop));
        Self { child, first_line, started_ms: at.elapsed().as_secs_f64() * 1000.0 }
    }

    /// Resident memory in MiB.
    pub fn rss_mib(&self) -> f64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let kb: f64 =
            status.lines().find_map(|l| l.strip_prefix("VmRSS:")).and_then(|l| l.trim().strip_suffix(" kB")).unwrap().trim().parse().unwrap();
        kb / 1024.0
    }

    /// CPU time that each of its living threads has used so far, in milliseconds.
    fn threads_cpu_ms(&self) -> impl Iterator<Item = (String, f64)> + use<> {
        let threads = std::fs::read_dir(format!("/proc/{}/task", self.child.id())).unwrap();
        // `schedstat` counts nanoseconds; `stat` only hundredths of a second.
        threads.flatten().filter_map(|thread| {
            let text = std::fs::read_to_string(thread.path().join("schedstat")).ok()?;
            Some((thread.file_name().to_string_lossy().into_owned(), text.split_whitespace().next()?.parse::<f64>().ok()? / 1e6))
        })
    }
}

/// CPU time of one program while nothing is asked of it. Looks in between: a thread that ends takes its figure with it.
pub struct CpuMeter<'p> {
    program: &'p Program,
    threads: BTreeMap<String, (f64, f64)>,
}

impl<'p> CpuMeter<'p> {
    pub fn start(program: &'p Program) -> Self {
        Self { program, threads: program.threads_cpu_ms().map(|(thread, ms)| (thread, (ms, ms))).collect() }
    }

    /// A thread that is new began at nothing.
    pub fn look(&mut self) {
        for (thread, ms) in self.program.threads_cpu_ms() {
            self.threads.entry(thread).or_insert((0.0, 0.0)).1 = ms;
        }
    }

    /// Milliseconds since the start.
    pub fn ms(&mut self) -> f64 {
        self.look();
        self.threads.values().map(|(first, last)| last - first).sum()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// `database` is a file or a postgres:// address.
pub fn queue(listen: &str, database: &str) -> Program {
    let mut command = Command::new(release_dir().join("graph-queue"));
    command.args(["serve", "--listen", listen, "--database", database]);
    // The bench is one impatient agent; how a hurry is refused is a test's business.
    Program::start(command.args(["--queued-per-project", "1000000", "--requests-per-second", "1000000"]))
}

pub fn pairing_code(database: &str) -> String {
    let mut command = Command::new(release_dir().join("graph-queue"));
    let out = command.args(["pair", "--owner", "Bench", "--json", "--database", database]).output().unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    serde_json::from_slice::<Value>(&out.stdout).unwrap()["pairing_code"].as_str().unwrap().to_owned()
}

/// This very program, in one of its other lives.
pub fn myself(word: &str) -> Program {
    Program::start(Command::new(std::env::current_exe().unwrap()).arg(word))
}

pub fn deskd(dir: &Path) -> Command {
    let mut command = Command::new(release_dir().join("graph-deskd"));
    command.env("GRAPH_DESK_PROFILE", dir.join("profile")).env("GRAPH_DESK_PASSPHRASE", "bench");
    command
}

pub fn deskd_run(dir: &Path, args: &[&str]) -> String {
    let out = deskd(dir).args(args).output().unwrap();
    assert!(out.status.success(), "graph-deskd {args:?}: {}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8(out.stdout).unwrap()
}
