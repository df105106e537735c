//! What the owner's page in the browser reads from Graph Queue. It reads, and nothing else.
//!
//! JSON that belongs to the owner (results, schemas) is compact text in a string, as in the window: a browser that parsed it would not
//! keep `1e+21`, `-0` or large integers.
use serde::Serialize;

use super::relay::{Progress, SessionStatus};
use crate::{
    ids::{CommandId, ExecutionId, GraphSessionId, ProjectId},
    time::Timestamp,
};

/// One page of a list. `next_cursor` asks for the next one.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
pub struct Page<T> {
    pub items: Vec<T>,
    pub next_cursor: Option<String>,
}

/// Who is signed in, and all of the owner's projects (their number is limited).
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
pub struct OwnerHome {
    pub owner: String,
    pub projects: Vec<OwnerProject>,
}

#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
pub struct OwnerProject {
    #[cfg_attr(feature = "ts", ts(type = "string"))]
    pub project_id: ProjectId,
    pub name: String,
    /// Sessions that are shared with it now.
    #[cfg_attr(feature = "ts", ts(type = "number"))]
    pub sessions: u64,
}

/// A paired desktop, as the last contact leaves it.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
pub struct OwnerDesktop {
    pub name: String,
    pub online: bool,
    #[cfg_attr(feature = "ts", ts(type = "string | null"))]
    pub last_contact_at: Option<Timestamp>,
}

/// One Graph session shared with one project: what connected agents see there.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
pub struct OwnerSession {
    #[cfg_attr(feature = "ts", ts(type = "string"))]
    pub project_id: ProjectId,
    #[cfg_attr(feature = "ts", ts(type = "string"))]
    pub graph_session_id: GraphSessionId,
    pub name: String,
    pub description: String,
    pub slug: String,
    #[cfg_attr(feature = "ts", ts(type = "number"))]
    pub version: u64,
    #[cfg_attr(feature = "ts", ts(type = "'draft' | 'ready' | 'archived'"))]
    pub status: SessionStatus,
    pub desktop: OwnerDesktop,
    /// Its code is here: the owner made it readable.
    pub readable: bool,
}

/// A Graph the owner made readable.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
pub struct OwnerGraph {
    #[cfg_attr(feature = "ts", ts(type = "string"))]
    pub graph_session_id: GraphSessionId,
    pub name: String,
    pub description: String,
    pub slug: String,
    #[cfg_attr(feature = "ts", ts(type = "number"))]
    pub version: u64,
    /// Names of the projects it is shared with.
    pub projects: Vec<String>,
    pub desktop: OwnerDesktop,
    #[cfg_attr(feature = "ts", ts(type = "string"))]
    pub updated_at: Timestamp,
}

#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
pub struct OwnerGraphText {
    pub graph: OwnerGraph,
    pub source: String,
}

#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
pub struct OwnerCommand {
    #[cfg_attr(feature = "ts", ts(type = "string"))]
    pub command_id: CommandId,
    #[cfg_attr(feature = "ts", ts(type = "string"))]
    pub project_id: ProjectId,
    pub project: String,
    #[cfg_attr(feature = "ts", ts(type = "string"))]
    pub graph_session_id: GraphSessionId,
    /// Its name while it is shared there, else its slug.
    pub graph: String,
    pub slug: String,
    /// The connected agent that asked.
    pub agent: String,
    pub desktop: OwnerDesktop,
    #[cfg_attr(feature = "ts", ts(type = "'queued' | 'running' | 'completed' | 'failed' | 'cancelled' | 'expired'"))]
    pub status: String,
    pub reason: Option<String>,
    pub cancel_requested: bool,
    #[cfg_attr(feature = "ts", ts(type = "string | null"))]
    pub execution_id: Option<ExecutionId>,
    #[cfg_attr(feature = "ts", ts(type = "string"))]
    pub queued_at: Timestamp,
    #[cfg_attr(feature = "ts", ts(type = "string | null"))]
    pub started_at: Option<Timestamp>,
    #[cfg_attr(feature = "ts", ts(type = "string | null"))]
    pub ended_at: Option<Timestamp>,
    #[cfg_attr(feature = "ts", ts(type = "string"))]
    pub expires_at: Timestamp,
}

/// One command with how it stands or how it ended. Arguments are not told here.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
pub struct OwnerCommandDetail {
    pub command: OwnerCommand,
    #[cfg_attr(
        feature = "ts",
        ts(
            type = "{ phase?: string, agents_done: number, agents_total?: number, tokens: number, waiting_approval: { tool: string, agent: string, seconds_left: number }[], text: string } | null"
        )
    )]
    pub progress: Option<Progress>,
    /// Compact JSON text, to the letter.
    pub result: Option<String>,
    /// It was too long to travel: the whole of it is in the desktop's history.
    pub result_truncated: bool,
    pub error: Option<String>,
    #[cfg_attr(feature = "ts", ts(type = "number | null"))]
    pub total_tokens: Option<u64>,
    pub reported_cost: Option<f64>,
}

#[cfg(all(test, feature = "ts"))]
mod tests {
    use ts_rs::TS;

    use super::*;

    /// `UPDATE=1 cargo nextest run --workspace --lib the_generated_types_of_the_reader` rewrites the file.
    #[test]
    fn the_generated_types_of_the_reader_are_up_to_date() {
        let mut out = String::from("// Written from domain::wire::owner by a test. Do not edit.\n");
        macro_rules! declare { ($($t:ty),+) => { $( out.push_str(&format!("export {}\n", <$t as TS>::decl(&ts_rs::Config::from_env()))); )+ } }
        declare!(
            Page<ts_rs::Dummy>,
            OwnerHome,
            OwnerProject,
            OwnerDesktop,
            OwnerSession,
            OwnerGraph,
            OwnerGraphText,
            OwnerCommand,
            OwnerCommandDetail
        );
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../ui/src/generated/owner.ts");
        if std::env::var_os("UPDATE").is_some() {
            std::fs::write(&path, &out).unwrap();
        }
        assert_eq!(std::fs::read_to_string(&path).unwrap_or_default(), out, "run with UPDATE=1");
    }
}
