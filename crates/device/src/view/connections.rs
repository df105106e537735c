//! Connections: pairing, projects, connected agents.
use domain::wire::said::Sentence;
use serde::{Deserialize, Serialize};
use ts_rs::TS;

#[derive(Debug, Clone, Serialize, TS)]
pub struct ConnectionsView {
    pub paired: Option<Pairing>,
    /// The built-in queue can be used on this computer.
    pub builtin_offered: bool,
    pub projects: Vec<ProjectRow>,
    pub agents: Vec<AgentRow>,
    pub secrets: SecretStoreView,
    /// The last words of the server or the network, when something is wrong.
    pub problem: Option<Sentence>,
}

#[derive(Debug, Clone, Serialize, TS)]
pub struct Pairing {
    pub address: String,
    pub owner: String,
    pub device_id: String,
    pub device_name: String,
    pub builtin: bool,
    pub mcp_url: String,
}

#[derive(Debug, Clone, Serialize, TS)]
pub struct ProjectRow {
    pub project_id: String,
    pub name: String,
    pub enabled: bool,
}

#[derive(Debug, Clone, Serialize, TS)]
pub struct AgentRow {
    pub agent_id: String,
    pub name: String,
    pub kind: String,
    pub projects: Vec<String>,
    pub scopes: Vec<String>,
    pub created_at: i64,
    pub last_used_at: Option<i64>,
    pub revoked: bool,
}

#[derive(Debug, Clone, Serialize, TS)]
pub struct SecretStoreView {
    /// `os`, `encrypted_file`, `memory`, or `unknown` while it is being probed.
    pub kind: String,
    pub text: Sentence,
}

#[derive(Debug, Clone, Deserialize, TS)]
#[serde(tag = "store", rename_all = "snake_case")]
pub enum SecretStoreChoice {
    Os,
    EncryptedFile { passphrase: String },
    Memory,
}

#[derive(Debug, Clone, Deserialize, TS)]
pub struct GrantDraft {
    pub name: String,
    pub project_ids: Vec<String>,
    /// `read`, or `read` and `run`.
    pub may_run: bool,
}

/// Shown once.
#[derive(Debug, Clone, Serialize, TS)]
pub struct MintedToken {
    pub token: String,
    pub mcp_url: String,
    pub claude_code_line: String,
}

#[derive(Debug, Clone, Serialize, TS)]
pub struct MadeConnectCode {
    pub code: String,
    pub expires_at: i64,
    pub mcp_url: String,
    pub claude_code_line: String,
}
