//! Named moments at which a test lets the process die: around every durable step of a pass.
//!
//! Always compiled in, silent unless the binary armed one of them ([`arm`]) from its environment. Dying is an abort: no destructor
//! runs, nothing is flushed, as hard as `kill -9`. `panic:` before a name lets the relay fail there instead, once, as a defect of ours would.
//! `docs/relay.md` lists the names and a test compares the lists.
use std::sync::{
    OnceLock,
    atomic::{AtomicBool, Ordering},
};

/// Every point, in the order a command meets them.
pub const POINTS: &[&str] = &[
    "after_sync_answered",
    "after_not_shared_stored",
    "before_execution_stored",
    "after_execution_stored",
    "after_start_granted",
    "after_running_stored",
    "before_outbox_write",
    "after_outbox_write",
    "after_completion_posted",
    "after_outbox_delete",
];

static ARMED: OnceLock<String> = OnceLock::new();
static HAS_FAILED: AtomicBool = AtomicBool::new(false);
const PANIC: &str = "panic:";

/// The environment variable a binary reads and hands to [`arm`].
pub const VARIABLE: &str = "GRAPH_DESK_CRASH_AT";

/// Only the first call counts. An unknown name is refused, so that no test waits for a death that cannot come.
pub fn arm(point: &str) -> Result<(), String> {
    if !POINTS.contains(&point.strip_prefix(PANIC).unwrap_or(point)) {
        return Err(format!("{VARIABLE} names no crash point: {point}"));
    }
    let _ = ARMED.set(point.to_owned());
    Ok(())
}

/// Dies here if this point is armed.
pub fn point(name: &'static str) {
    debug_assert!(POINTS.contains(&name), "{name} is not listed");
    let Some(armed) = ARMED.get() else { return };
    if armed == name {
        std::process::abort();
    }
    if armed.strip_prefix(PANIC) == Some(name) && !HAS_FAILED.swap(true, Ordering::SeqCst) {
        panic!("armed at {name}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_document_lists_the_crash_points_in_their_order() {
        let document = include_str!("../../../docs/relay.md");
        let (_, table) = document.split_once("## Crash points").unwrap();
        let listed: Vec<&str> = table.lines().filter_map(|l| l.strip_prefix("| `")?.split_once('`').map(|(name, _)| name)).collect();
        assert_eq!(listed, POINTS);
    }

    #[test]
    fn an_unknown_point_is_refused() {
        assert!(arm("after_lunch").is_err());
    }
}
