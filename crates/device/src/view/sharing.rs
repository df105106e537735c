//! Sharing: the tick matrix and what needs attention.
use domain::wire::said::Sentence;
use serde::Serialize;
use ts_rs::TS;

use super::{GainedPower, GraphStatus};

#[derive(Debug, Clone, Serialize, TS)]
pub struct SharingView {
    pub connected: bool,
    pub projects: Vec<SharedProject>,
    pub rows: Vec<SharingRow>,
    /// At most this many sessions may be ticked for one project.
    pub limit: u64,
    pub attention: Vec<AttentionRow>,
    pub browser: BrowserView,
}

/// Graphs for reading in the browser: where the queue stands against the owner's switches.
#[derive(Debug, Clone, Serialize, TS)]
pub struct BrowserView {
    /// There, and up to date.
    pub readable: u64,
    pub uploading: u64,
    /// Not to be there any more, and the queue has not answered yet.
    pub removing: u64,
    /// The last trouble with one of them, in words.
    pub problem: Option<Sentence>,
}

#[derive(Debug, Clone, Serialize, TS)]
pub struct SharedProject {
    pub project_id: String,
    pub name: String,
    pub enabled: bool,
    pub readable: bool,
    pub ticked: u64,
    pub last_sync: Option<i64>,
    pub syncing: bool,
    pub sync_error: Option<Sentence>,
    /// Of the last commands, newest first.
    pub pickup_waits: Vec<PickupWait>,
    /// What Claude sees for it now.
    pub visible: Vec<VisibleSession>,
}

/// How long a command lay in the queue before this device took it.
#[derive(Debug, Clone, Serialize, TS)]
pub struct PickupWait {
    pub graph: String,
    pub ms: u64,
}

#[derive(Debug, Clone, Serialize, TS)]
pub struct VisibleSession {
    pub name: String,
    pub slug: String,
    pub description: String,
    pub version: u64,
}

#[derive(Debug, Clone, Serialize, TS)]
pub struct SharingRow {
    pub graph_session_id: String,
    pub name: String,
    pub slug: String,
    pub status: GraphStatus,
    /// Project ids it is ticked for.
    pub ticked: Vec<String>,
    pub gained: Vec<GainedPower>,
}

#[derive(Debug, Clone, Serialize, TS)]
pub struct AttentionRow {
    pub command_id: String,
    pub execution_id: Option<String>,
    /// Absent for a command that never ran here.
    pub project_id: Option<String>,
    /// Absent for a command that never ran here.
    pub graph: Option<String>,
    pub server_says: Sentence,
    pub tries: u64,
    pub next_try: Option<i64>,
}
