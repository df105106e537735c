//! Keeps the computer awake while, and only while, an execution runs.
//!
//! The system's own program holds the lock as our child and ends with us, whatever happens to us: on Linux its stdin is our pipe, on
//! macOS it watches our process id. Where there is none (or no right to it) the computer may sleep; the run ends truthfully all the same.
use std::process::{Child, Command, Stdio};

#[derive(Default)]
pub struct Awake {
    holder: Option<Child>,
}

impl Awake {
    /// Told as often as anything changes; acts only on the first and the last execution.
    pub fn follow(&mut self, runs: bool) {
        self.follow_with(runs, holder());
    }

    fn follow_with(&mut self, runs: bool, command: Option<Command>) {
        if !runs {
            self.let_go();
        } else if self.holder.is_none()
            && let Some(mut command) = command
        {
            command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
            self.holder = command.spawn().inspect_err(|error| tracing::info!(%error, "the computer may sleep while an execution runs")).ok();
        }
    }

    fn let_go(&mut self) {
        if let Some(mut holder) = self.holder.take() {
            let _ = holder.kill(); // already ended where it had no right to hold
            let _ = holder.wait();
        }
    }
}

impl Drop for Awake {
    fn drop(&mut self) {
        self.let_go();
    }
}

#[cfg(target_os = "linux")]
fn holder() -> Option<Command> {
    let mut command = Command::new("systemd-inhibit");
    command.args(["--what=idle:sleep", "--mode=block", "--who=Graph Desk", "--why=A Graph is running", "cat"]);
    Some(command)
}

#[cfg(target_os = "macos")]
fn holder() -> Option<Command> {
    let mut command = Command::new("caffeinate");
    command.args(["-i", "-w", &std::process::id().to_string()]);
    Some(command)
}

#[cfg(not(any(target_os = "linux", target_os = "macos")))]
fn holder() -> Option<Command> {
    None
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn one_holder_lives_exactly_as_long_as_executions_run() {
        let mut awake = Awake::default();
        awake.follow_with(true, Some(Command::new("cat")));
        let first = awake.holder.as_ref().unwrap().id();
        awake.follow_with(true, Some(Command::new("cat")));
        assert_eq!(awake.holder.as_ref().unwrap().id(), first);
        awake.follow_with(false, Some(Command::new("cat")));
        assert!(awake.holder.is_none());
        awake.follow_with(true, Some(Command::new("a-program-that-is-not-there")));
        assert!(awake.holder.is_none(), "no holder, no harm");
    }
}
