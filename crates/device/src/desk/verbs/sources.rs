//! What agents are made of, for the command line: models and MCP servers, by their names.
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{answer, read};
use crate::{
    desk::{Desk, errors::error},
    view::{ErrorView, McpDraft, McpValueDraft, McpWay, ProviderDraft},
};

/// Adds a provider, or changes the one of that name.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ModelAdd {
    pub name: String,
    pub kind: String,
    /// Empty for the kind's own.
    pub address: String,
    pub key: Option<String>,
    pub models: Vec<String>,
    pub emulated_tools: bool,
    pub context: Option<u64>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Named {
    pub name: String,
}

/// Adds an MCP server, or changes the one of that name.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct McpAdd {
    pub name: String,
    pub way: McpWay,
    pub target: String,
    pub args: Vec<String>,
    /// Names and values of variables or headers.
    pub values: Vec<(String, String)>,
    pub timeout_s: u64,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct McpDo {
    pub name: String,
    pub act: McpAct,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum McpAct {
    Remove,
    Enable,
    Disable,
    Restart,
}

impl Desk {
    /// One of the verbs of this file; `None` for another name.
    pub(super) async fn source_verb(self: &Arc<Self>, name: &str, args: &Value) -> Option<Result<Value, ErrorView>> {
        let args = args.clone();
        Some(match name {
            "cli_model_add" => self.cli_model_add(args).await,
            "cli_model_test" => self.cli_model_test(args).await,
            "cli_model_remove" => self.cli_model_remove(args).await,
            "cli_mcp_add" => self.cli_mcp_add(args).await,
            "cli_mcp_do" => self.cli_mcp_do(args).await,
            _ => return None,
        })
    }

    async fn cli_model_add(self: &Arc<Self>, args: Value) -> Result<Value, ErrorView> {
        let ModelAdd { name, kind, address, key, models, emulated_tools, context } = read(args)?;
        let provider_id = self.store.providers()?.into_iter().find(|p| p.name == name).map(|p| p.id);
        let draft = ProviderDraft { provider_id, kind, name, address, key, models, concurrency: 0, emulated_tools, context };
        answer(&self.provider_save(draft).await?)
    }

    async fn cli_model_test(&self, args: Value) -> Result<Value, ErrorView> {
        let id = self.provider_named(&read::<Named>(args)?.name)?;
        answer(&self.provider_test(id).await?)
    }

    async fn cli_model_remove(&self, args: Value) -> Result<Value, ErrorView> {
        let id = self.provider_named(&read::<Named>(args)?.name)?;
        answer(&self.provider_delete(id).await?)
    }

    async fn cli_mcp_add(&self, args: Value) -> Result<Value, ErrorView> {
        let McpAdd { name, way, target, args, values, timeout_s } = read(args)?;
        let server_id = self.store.mcp_servers()?.into_iter().find(|s| s.name == name).map(|s| s.id);
        let values = values.into_iter().map(|(name, value)| McpValueDraft { name, value: Some(value) }).collect();
        answer(&self.mcp_save(McpDraft { server_id, name, way, target, args, values, timeout_s, enabled: true }).await?)
    }

    async fn cli_mcp_do(&self, args: Value) -> Result<Value, ErrorView> {
        let McpDo { name, act } = read(args)?;
        let found = self.store.mcp_servers()?.into_iter().find(|s| s.name == name);
        let id = found.ok_or_else(|| error("mcp_unknown", format!("There is no MCP server named {name}. graph-deskd mcp list shows them.")))?.id;
        let view = match act {
            McpAct::Remove => self.mcp_delete(id).await?,
            McpAct::Enable => self.mcp_enable(id, true).await?,
            McpAct::Disable => self.mcp_enable(id, false).await?,
            McpAct::Restart => self.mcp_restart(id).await?,
        };
        answer(&view)
    }

    fn provider_named(&self, name: &str) -> Result<String, ErrorView> {
        let found = self.store.providers()?.into_iter().find(|p| p.name == name).map(|p| p.id);
        found.ok_or_else(|| error("provider_unknown", format!("There is no provider named {name}. graph-deskd model list shows them.")))
    }
}
