//! The web view's helper process, which outlives the last window.
//!
//! WebKitGTK keeps its network process for a next window: some 36 MiB of an app that sits in the tray for weeks. None of our pages needs a
//! network, and the next window starts a new one by itself, as after a crash. What is *not* here: anything while a window is open.

/// Ends it. Called when the last window is gone.
#[cfg(target_os = "linux")]
pub fn end() {
    for pid in children_named("WebKitNetworkPr") {
        if let Err(error) = rustix::process::kill_process(pid, rustix::process::Signal::TERM) {
            tracing::debug!(%error, "the web view's helper process could not be ended");
        }
    }
}

#[cfg(not(target_os = "linux"))]
pub fn end() {}

/// Child processes of this one, by the name the kernel keeps (its first fifteen letters).
#[cfg(target_os = "linux")]
fn children_named(wanted: &str) -> Vec<rustix::process::Pid> {
    let own = std::process::id().to_string();
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let is_one = |pid: &str| {
        // pid (name) state parent …: the name may hold anything, so what follows is read behind its last bracket.
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let (head, tail) = stat.rsplit_once(')')?;
        let name = head.split_once('(')?.1;
        (name == wanted && tail.split_whitespace().nth(1) == Some(own.as_str())).then_some(())
    };
    let pids = entries.filter_map(|entry| entry.file_name().into_string().ok()).filter(|name| name.bytes().all(|b| b.is_ascii_digit()));
    pids.filter(|pid| is_one(pid).is_some()).filter_map(|pid| rustix::process::Pid::from_raw(pid.parse().ok()?)).collect()
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn only_our_own_children_are_found() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let found = children_named("sleep");
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(found.iter().map(|pid| pid.as_raw_nonzero().get() as u32).collect::<Vec<_>>(), [child.id()]);
        assert!(children_named("no such program").is_empty());
    }
}
