//! Graphs: the list, the editor, versions, powers.
use domain::wire::said::Sentence;
use serde::{Deserialize, Serialize};
use ts_rs::TS;

use super::{ExecutionState, FolderAccess, FolderView, Ruling};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "snake_case")]
pub enum GraphStatus {
    Draft,
    Ready,
    Archived,
}

#[derive(Debug, Clone, Serialize, TS)]
pub struct TemplateRow {
    pub id: String,
    pub name: String,
    pub description: String,
    pub source: String,
}

#[derive(Debug, Clone, Serialize, TS)]
pub struct GraphRow {
    pub id: String,
    pub name: String,
    pub slug: String,
    pub description: String,
    pub version: u64,
    pub status: GraphStatus,
    /// Names of the projects it is ticked for.
    pub shared_with: Vec<String>,
    pub updated_at: i64,
    pub last_execution: Option<LastExecution>,
    /// Powers gained since it was ticked; empty when none.
    pub gained: Vec<GainedPower>,
}

#[derive(Debug, Clone, Serialize, TS)]
pub struct LastExecution {
    pub execution_id: String,
    pub state: ExecutionState,
    pub at: i64,
}

/// What a shared Graph may do now and could not when it was ticked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, TS)]
#[serde(tag = "what", rename_all = "snake_case")]
pub enum GainedPower {
    Tool { name: String },
    Model { name: String },
    Folder { path: String, access: FolderAccess },
    TokenCeiling { before: u64, after: u64 },
    AgentsAtOnce { before: u64, after: u64 },
}

#[derive(Debug, Clone, Serialize, TS)]
pub struct GraphDetail {
    pub row: GraphRow,
    pub source: String,
    pub inspection: Inspection,
    pub versions: Vec<VersionRow>,
    pub powers: Powers,
}

#[derive(Debug, Clone, Serialize, TS)]
pub struct VersionRow {
    pub version: u64,
    pub name: Option<String>,
    pub saved_at: i64,
    pub lines: u64,
}

/// What can be told of a source without running it.
#[derive(Debug, Clone, Serialize, TS)]
pub struct Inspection {
    pub name: Option<String>,
    pub description: Option<String>,
    pub phases: Vec<String>,
    /// JSON Schema of the arguments, compact text.
    pub args_schema: Option<String>,
    pub tools: Vec<String>,
    pub models: Vec<String>,
    pub faults: Vec<SourceFault>,
}

#[derive(Debug, Clone, Serialize, TS)]
pub struct SourceFault {
    pub line: u32,
    pub column: u32,
    pub message: String,
    /// `error` keeps the Graph from being ready; `warning` does not.
    pub severity: Severity,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, TS)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    Error,
    Warning,
}

/// What this Graph may do: tools with today's ruling, folders, models, ceilings.
#[derive(Debug, Clone, Serialize, TS)]
pub struct Powers {
    pub tools: Vec<ToolPower>,
    pub folders: Vec<FolderView>,
    pub models: Vec<String>,
    pub token_ceiling: u64,
    pub max_concurrency: u64,
    /// Worst case, where the Graph bounds it. Tokens are always bounded, by the ceiling.
    pub agents_max: Option<u64>,
}

#[derive(Debug, Clone, Serialize, TS)]
pub struct ToolPower {
    pub tool: String,
    pub ruling: Ruling,
    pub because: Sentence,
}

#[derive(Debug, Clone, Deserialize, TS)]
pub struct GraphChange {
    pub name: Option<String>,
    pub slug: Option<String>,
    pub description: Option<String>,
    pub status: Option<GraphStatus>,
}

#[derive(Debug, Clone, Serialize, Deserialize, TS)]
pub struct ExportedFile {
    pub file_name: String,
    pub text: String,
}
