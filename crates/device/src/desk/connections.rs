//! Connections: the paired Graph Queue, its projects, the connected agents.
use super::{Desk, errors::not_yet};
use crate::view::{AgentRow, ConnectionsView, ErrorView, GrantDraft, MadeConnectCode, MintedToken, Pairing, ProjectRow, SecretStoreView};

/// Name of the device token in the secret store.
pub const DEVICE_TOKEN: &str = "device_token";

impl Desk {
    pub async fn connections_get(&self) -> Result<ConnectionsView, ErrorView> {
        let paired = self.store.pairing()?.map(|p| Pairing {
            mcp_url: format!("{}/mcp", p.address),
            address: p.address,
            owner: p.owner,
            device_id: p.device_id.to_string(),
            device_name: p.device_name,
            builtin: p.builtin,
        });
        let projects = self.store.projects()?.into_iter();
        let agents: Vec<AgentRow> = Vec::new();
        Ok(ConnectionsView {
            paired,
            builtin_offered: self.config.builtin.is_some(),
            projects: projects.map(|p| ProjectRow { project_id: p.id.to_string(), name: p.name, enabled: p.enabled }).collect(),
            agents,
            secrets: SecretStoreView { kind: self.config.secrets.kind().as_str().into(), text: self.config.secrets.text() },
            problem: None,
        })
    }

    pub async fn pair(&self, _address: String, _pairing_code: String) -> Result<ConnectionsView, ErrorView> {
        Err(not_yet("Pairing"))
    }
    pub async fn pair_builtin(&self) -> Result<ConnectionsView, ErrorView> {
        Err(not_yet("The built-in queue"))
    }
    pub async fn unpair(&self) -> Result<ConnectionsView, ErrorView> {
        Err(not_yet("Unpairing"))
    }
    pub async fn project_create(&self, _name: String) -> Result<ConnectionsView, ErrorView> {
        Err(not_yet("Creating a project"))
    }
    pub async fn project_rename(&self, _project_id: String, _name: String) -> Result<ConnectionsView, ErrorView> {
        Err(not_yet("Renaming a project"))
    }
    pub async fn project_delete(&self, _project_id: String) -> Result<ConnectionsView, ErrorView> {
        Err(not_yet("Deleting a project"))
    }
    pub async fn agent_token_mint(&self, _grant: GrantDraft) -> Result<MintedToken, ErrorView> {
        Err(not_yet("Minting an agent token"))
    }
    pub async fn connect_code_make(&self, _grant: GrantDraft) -> Result<MadeConnectCode, ErrorView> {
        Err(not_yet("A connect code"))
    }
    pub async fn sign_in_code_make(&self) -> Result<MadeConnectCode, ErrorView> {
        Err(not_yet("A sign-in code"))
    }
    pub async fn agent_revoke(&self, _agent_id: String) -> Result<ConnectionsView, ErrorView> {
        Err(not_yet("Revoking an agent"))
    }

    /// The secrets moved to another store: whoever holds one of them reads it anew.
    pub(super) async fn secrets_changed(&self) -> Result<(), ErrorView> {
        self.load_models().await
    }
    pub(super) fn apply_relay_settings(&self, _settings: &crate::store::Settings) {}
}
