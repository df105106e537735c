//! What a Graph may do today, what it could do when it was ticked, and the difference in words. Pure.
//!
//! The snapshot is stored with the tick. A Graph without `meta.tools` may ask for every tool, so its snapshot names them all: a tool that
//! appears later is a power gained.
use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::view::{FolderAccess, GainedPower};

/// How a folder that may be written is told from one that may be read, in a stored snapshot.
pub const WRITE: &str = " (write)";

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Snapshot {
    pub tools: BTreeSet<String>,
    pub models: BTreeSet<String>,
    /// Folders it could read or write, `path` or `path (write)`.
    pub folders: BTreeSet<String>,
    pub token_ceiling: u64,
    pub max_concurrency: u64,
}

impl Snapshot {
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).unwrap_or_else(|_| "{}".into())
    }

    /// What `now` may do beyond this; empty when nothing.
    pub fn gained(&self, now: &Self) -> Vec<GainedPower> {
        let mut all = Vec::new();
        all.extend(now.tools.difference(&self.tools).map(|name| GainedPower::Tool { name: name.clone() }));
        all.extend(now.models.difference(&self.models).map(|name| GainedPower::Model { name: name.clone() }));
        all.extend(now.folders.difference(&self.folders).map(|folder| match folder.strip_suffix(WRITE) {
            Some(path) => GainedPower::Folder { path: path.to_owned(), access: FolderAccess::Write },
            None => GainedPower::Folder { path: folder.clone(), access: FolderAccess::Read },
        }));
        if now.token_ceiling > self.token_ceiling {
            all.push(GainedPower::TokenCeiling { before: self.token_ceiling, after: now.token_ceiling });
        }
        if now.max_concurrency > self.max_concurrency {
            all.push(GainedPower::AgentsAtOnce { before: self.max_concurrency, after: now.max_concurrency });
        }
        all
    }
}

/// A snapshot of another version that cannot be read says nothing about what was seen: everything counts as gained.
pub fn gained(stored: &str, now: &Snapshot) -> Vec<GainedPower> {
    let before: Snapshot = serde_json::from_str(stored).unwrap_or_default();
    before.gained(now)
}

/// 92,410
pub fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_gained_is_told() {
        let before =
            Snapshot { tools: ["read_file".into(), "write_file".into()].into(), token_ceiling: 200_000, max_concurrency: 4, ..Snapshot::default() };
        let mut now = before.clone();
        assert_eq!(gained(&before.to_json(), &now), []);
        now.tools = ["read_file".into(), "run_command".into()].into();
        now.folders.insert("/home/ada (write)".into());
        now.token_ceiling = 1_000_000;
        now.max_concurrency = 2;
        assert_eq!(
            gained(&before.to_json(), &now),
            [
                GainedPower::Tool { name: "run_command".into() },
                GainedPower::Folder { path: "/home/ada".into(), access: FolderAccess::Write },
                GainedPower::TokenCeiling { before: 200_000, after: 1_000_000 }
            ]
        );
    }
}
