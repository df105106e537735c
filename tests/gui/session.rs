//! A desktop session of the test's own: what Graph Desk tells a tray, a notification server and logind can be read here.
use std::{
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    sync::Mutex,
};

use serde_json::Value;

pub struct FakeSession {
    program: Child,
    lines: Mutex<(ChildStdin, BufReader<ChildStdout>)>,
    pub bus: String,
}

impl FakeSession {
    pub fn start() -> Self {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/gui/fake_session.py");
        // The system's own Python: it has the D-Bus bindings.
        let mut program = Command::new("/usr/bin/python3").arg(script).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut answers = BufReader::new(program.stdout.take().unwrap());
        let mut line = String::new();
        answers.read_line(&mut line).unwrap();
        let ready: Value = serde_json::from_str(&line).unwrap_or_else(|e| panic!("the session said {line:?}: {e}"));
        let lines = Mutex::new((program.stdin.take().unwrap(), answers));
        Self { program, lines, bus: ready["bus"].as_str().unwrap().to_owned() }
    }

    pub fn ask(&self, question: &str) -> Value {
        let mut lines = self.lines.lock().unwrap();
        writeln!(lines.0, "{question}").unwrap();
        let mut line = String::new();
        lines.1.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|e| panic!("{question:?} was answered {line:?}: {e}"))
    }

    /// Both buses are this one: the session's, and the system's, on which logind sits.
    pub fn env(&self) -> [(&str, &str); 2] {
        [("DBUS_SESSION_BUS_ADDRESS", &self.bus), ("DBUS_SYSTEM_BUS_ADDRESS", &self.bus)]
    }

    pub fn tray_has(&self, label: &str, enabled: bool) -> Option<()> {
        let menu = self.ask("tray");
        menu.as_array()?.iter().any(|entry| entry["label"] == label && entry["enabled"] == enabled).then_some(())
    }
}

impl Drop for FakeSession {
    fn drop(&mut self) {
        // It ends its bus with itself.
        if let Ok(mut lines) = self.lines.lock() {
            let _ = writeln!(lines.0, "quit");
        }
        let _ = self.program.wait();
    }
}
