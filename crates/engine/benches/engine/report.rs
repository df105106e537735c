//! Figures as lines for people and as JSON for the next comparison.
use std::{path::Path, process::Command, time::Duration};

use serde_json::{Map, Value};

pub struct Report(Map<String, Value>);

impl Report {
    pub fn new() -> Self {
        Self(Map::new())
    }
    /// Prints a figure and keeps it.
    pub fn line(&mut self, key: &str, what: &str, value: Value, unit: &str) {
        let shown = value.as_f64().map_or_else(|| value.to_string(), |n| if n.fract() == 0.0 { format!("{n}") } else { format!("{n:.2}") });
        println!("{what:<40} {shown:>10} {unit}");
        self.keep(key, value);
    }
    pub fn keep(&mut self, key: &str, value: Value) {
        self.0.insert(key.to_owned(), value);
    }
    /// Into `bench/engine.json` of the folder the program was built into.
    pub fn write(self, program: &str) {
        let Some(dir) = Path::new(program).parent().and_then(Path::parent).map(|target| target.join("bench")) else { return };
        let path = dir.join("engine.json");
        let text = serde_json::to_string_pretty(&Value::Object(self.0)).unwrap_or_default();
        match std::fs::create_dir_all(&dir).and_then(|()| std::fs::write(&path, text)) {
            Ok(()) => println!("\nwritten to {}", path.display()),
            Err(e) => println!("\n{} could not be written: {e}", path.display()),
        }
    }
}

pub fn ms(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e6).round() / 1e3
}

pub fn median(times: &mut [Duration]) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

/// The same program in Node, where there is one: without a host, so only what the language itself does, and without its start.
pub fn in_node(source: &str) -> Option<Duration> {
    let program =
        format!("const t = process.hrtime.bigint(); (async () => {{ {source} }})().then(() => console.log(Number(process.hrtime.bigint() - t)))");
    let output = Command::new("node").args(["-e", &program]).output().ok()?;
    let nanos: f64 = String::from_utf8(output.stdout).ok()?.trim().parse().ok()?;
    Some(Duration::from_secs_f64(nanos / 1e9))
}
