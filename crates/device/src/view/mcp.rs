//! The MCP servers the owner added.
use domain::wire::said::Sentence;
use serde::{Deserialize, Serialize};
use ts_rs::TS;

use super::Ruling;

#[derive(Debug, Clone, Serialize, TS)]
pub struct McpView {
    pub servers: Vec<McpServerRow>,
    /// At most this many are kept.
    pub limit: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "snake_case")]
pub enum McpWay {
    /// A program on this computer.
    Stdio,
    /// An address.
    Http,
}

#[derive(Debug, Clone, Serialize, TS)]
pub struct McpServerRow {
    pub server_id: String,
    /// The middle of its tools' names: `mcp__name__tool`.
    pub name: String,
    pub way: McpWay,
    /// The program, or the address.
    pub target: String,
    pub args: Vec<String>,
    /// Environment variables or headers it gets. Their values are never shown.
    pub value_names: Vec<String>,
    /// Longest a call may take.
    pub timeout_s: u64,
    pub enabled: bool,
    pub state: McpStateView,
    /// As they were last listed.
    pub tools: Vec<McpToolRow>,
}

#[derive(Debug, Clone, PartialEq, Serialize, TS)]
#[serde(tag = "at", rename_all = "snake_case")]
pub enum McpStateView {
    Off,
    /// Not running; the next call starts it.
    Idle,
    Starting,
    Ready,
    Failed {
        why: Sentence,
    },
}

#[derive(Debug, Clone, Serialize, TS)]
pub struct McpToolRow {
    pub tool: String,
    pub title: String,
    pub description: String,
    /// What holds for it as a whole; rules with patterns stand above it.
    pub ruling: Ruling,
    /// The server changed it since the owner allowed it: it asks again.
    pub changed: bool,
}

#[derive(Debug, Clone, Deserialize, TS)]
pub struct McpDraft {
    /// Absent for a new one.
    pub server_id: Option<String>,
    pub name: String,
    pub way: McpWay,
    pub target: String,
    pub args: Vec<String>,
    pub values: Vec<McpValueDraft>,
    /// 0 for the default of two minutes.
    pub timeout_s: u64,
    pub enabled: bool,
}

/// An environment variable or a header.
#[derive(Debug, Clone, Deserialize, TS)]
pub struct McpValueDraft {
    pub name: String,
    /// Goes to the secret store and is never shown again; absent keeps the stored one.
    pub value: Option<String>,
}

#[derive(Debug, Clone, Serialize, TS)]
pub struct DoctorReport {
    pub hops: Vec<DoctorHop>,
}

#[derive(Debug, Clone, Serialize, TS)]
pub struct DoctorHop {
    /// One of a fixed list, such as `Round trip`; the window has its own words for each.
    pub name: String,
    pub ok: bool,
    pub ms: Option<u64>,
    pub text: Sentence,
}
