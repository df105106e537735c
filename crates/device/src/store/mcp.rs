//! MCP servers the owner added, with their tools as they were last listed. Values of their variables and headers are in the secret store.
use agent::tools::McpTool;
use domain::Timestamp;
use rusqlite::{Row, params};

use super::{Store, StoreError, count, int, parsed};
use crate::view::{McpWay, Topic};

#[derive(Debug, Clone, PartialEq)]
pub struct McpServer {
    pub id: String,
    /// The middle of its tools' names.
    pub name: String,
    pub way: McpWay,
    /// The program of a stdio server, the address of an HTTP server.
    pub target: String,
    pub args: Vec<String>,
    pub secret_names: Vec<String>,
    pub timeout_s: u64,
    pub enabled: bool,
    pub tools: Vec<McpTool>,
}

const COLUMNS: &str = "id, name, way, target, args, secret_names, timeout_s, enabled, tools";

impl Store {
    /// In the order in which they were added.
    pub fn mcp_servers(&self) -> Result<Vec<McpServer>, StoreError> {
        self.read(|c| {
            let mut found = c.prepare_cached(&format!("SELECT {COLUMNS} FROM mcp_servers ORDER BY added_at, id"))?;
            let rows = found.query_map([], |r| Ok(server(r)))?;
            rows.map(|row| row?).collect()
        })
    }

    /// Adds or changes a server. Its tools are set by [`Store::save_mcp_tools`] alone.
    pub fn save_mcp_server(&self, server: &McpServer, now: Timestamp) -> Result<(), StoreError> {
        let way = match server.way {
            McpWay::Stdio => "stdio",
            McpWay::Http => "http",
        };
        self.write(|tx| {
            tx.execute(
                "INSERT INTO mcp_servers (id, name, way, target, args, secret_names, timeout_s, enabled, added_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
                 ON CONFLICT (id) DO UPDATE SET name = excluded.name, way = excluded.way, target = excluded.target, args = excluded.args,
                     secret_names = excluded.secret_names, timeout_s = excluded.timeout_s, enabled = excluded.enabled",
                params![
                    server.id,
                    server.name,
                    way,
                    server.target,
                    list(&server.args),
                    list(&server.secret_names),
                    int(server.timeout_s),
                    server.enabled,
                    now.ms()
                ],
            )?;
            Ok::<_, StoreError>(())
        })?;
        self.tell(Topic::Settings);
        Ok(())
    }

    /// A server that is gone keeps nothing.
    pub fn save_mcp_tools(&self, id: &str, tools: &[McpTool]) -> Result<(), StoreError> {
        let tools = serde_json::to_string(tools).map_err(|_| StoreError::Unreadable { what: "tool list" })?;
        self.write_soon(|tx| {
            tx.execute("UPDATE mcp_servers SET tools = ?2 WHERE id = ?1", params![id, tools])?;
            Ok::<_, StoreError>(())
        })
    }

    pub fn delete_mcp_server(&self, id: &str) -> Result<bool, StoreError> {
        let gone = self.write(|tx| Ok::<_, StoreError>(tx.execute("DELETE FROM mcp_servers WHERE id = ?1", [id])? > 0))?;
        self.tell(Topic::Settings);
        Ok(gone)
    }
}

fn list(words: &[String]) -> String {
    serde_json::to_string(words).unwrap_or_else(|_| "[]".into())
}

fn server(r: &Row<'_>) -> Result<McpServer, StoreError> {
    let words = |at: usize| Ok::<Vec<String>, StoreError>(serde_json::from_str(&r.get::<_, String>(at)?).unwrap_or_default());
    Ok(McpServer {
        id: r.get(0)?,
        name: r.get(1)?,
        way: parsed(&r.get::<_, String>(2)?, "MCP server", |text| match text {
            "stdio" => Some(McpWay::Stdio),
            "http" => Some(McpWay::Http),
            _ => None,
        })?,
        target: r.get(3)?,
        args: words(4)?,
        secret_names: words(5)?,
        timeout_s: count(r.get(6)?),
        enabled: r.get(7)?,
        // Written by another version: they are listed anew at the next start.
        tools: serde_json::from_str(&r.get::<_, String>(8)?).unwrap_or_default(),
    })
}
