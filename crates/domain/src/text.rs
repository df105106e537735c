//! Sentences that are interface: other programs and tests compare them to the letter.

/// Another agent's run, one that never existed, a malformed id, a removed or pruned one: all read the same.
pub const RUN_NOT_FOUND: &str = "Graph run not found or access removed";
pub const PROJECT_NOT_FOUND: &str = "Project not found or access removed";
pub const SESSION_NOT_FOUND: &str = "Graph session not found or not shared with this agent";
pub const NOT_SHARED: &str = "Graph session is no longer shared with this project";
pub const RESTARTED: &str = "The desktop restarted while this run was in progress";
pub const STOPPED: &str = "The execution was stopped. What it had done stays done.";
pub const QUIT: &str = "The app was quit while this ran.";
pub const OVERRAN: &str = "A model used more tokens than it was allowed; the execution was ended.";
pub const NOTHING_RAN: &str = "Cancelled before it began: nothing ran.";
pub const DELETED: &str = "The Graph is gone: it was deleted before it could start.";
/// Description of `run_graph_session`.
pub const RUN_GRAPH_SESSION: &str = "Queue a Graph run on the owner's online desktop in a connected project. Retrieve progress and result with get_graph_run. The desktop can go offline, and local tool approvals still apply.";

pub const SCOPE_READ: &str = "osfoundry:read";
pub const SCOPE_RUN: &str = "osfoundry:run";

/// Every request of a device names this header with [`RELAY_VERSION`].
pub const RELAY_VERSION_HEADER: &str = "graph-relay-version";
pub const RELAY_VERSION: &str = "1";

/// Length in UTF-16 code units: what JavaScript's `length` says.
pub fn utf16_len(text: &str) -> usize {
    text.chars().map(char::len_utf16).sum()
}

/// The longest prefix of at most `max` UTF-16 code units. Never splits a surrogate pair, since it never splits a `char`.
pub fn cut_utf16(text: &str, max: usize) -> &str {
    let mut units = 0;
    for (at, c) in text.char_indices() {
        units += c.len_utf16();
        if units > max {
            return &text[..at];
        }
    }
    text
}

/// The first `max` code points.
pub fn cut_chars(text: &str, max: usize) -> &str {
    text.char_indices().nth(max).map_or(text, |(at, _)| &text[..at])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_never_splits_a_surrogate_pair() {
        let faces = "😀".repeat(3000);
        assert_eq!(utf16_len(cut_utf16(&faces, 2000)), 2000);
        let mixed = format!("{}😀", "x".repeat(1999));
        assert_eq!(cut_utf16(&mixed, 2000), "x".repeat(1999));
        assert_eq!(cut_utf16("中".repeat(5000).as_str(), 2000).chars().count(), 2000);
    }
}
