//! MCP servers of the owner: added, changed, switched on and off, started anew. Values of variables and headers go to the secret store and
//! never come back.
//!
//! What not: how a server is spoken to (`agent::tools`). Invariant: a value goes only where the owner typed it for; a server whose program or
//! address changes needs its values typed anew.
use std::{collections::BTreeMap, sync::Arc, time::Duration};

use agent::{
    Secret,
    policy::{Rule, RuleBook, Ruling},
    tools::{CALL_TIMEOUT_MS_DEFAULT, McpConfig, McpError, McpServer, McpState, McpTool, McpWay as AgentsWay},
};
use domain::{
    limits::{MCP_ARGS_MAX, MCP_SERVERS_MAX, MCP_TIMEOUT_S_MAX, MCP_VALUES_MAX},
    wire::said::{Sentence, said},
};

use super::{
    Desk,
    approvals::ruling_view,
    errors::{bad_argument, error},
    models::{is_local, is_web},
};
use crate::{
    store,
    view::{ErrorView, McpDraft, McpServerRow, McpStateView, McpToolRow, McpValueDraft, McpView, McpWay, Topic},
};

const TIMEOUT_S_DEFAULT: u64 = CALL_TIMEOUT_MS_DEFAULT / 1000;

/// Name of a server's values in the secret store: a JSON object of them.
pub fn secret_name(server: &str) -> String {
    format!("mcp:{server}")
}

impl Desk {
    pub async fn mcp_get(&self) -> Result<McpView, ErrorView> {
        let book = self.store.rule_book()?;
        let rows = self.store.mcp_servers()?.into_iter().map(|server| self.mcp_row(server, &book));
        Ok(McpView { servers: rows.collect(), limit: MCP_SERVERS_MAX as u64 })
    }

    /// Saves a server and, if it is switched on, starts it: the answer says how that went.
    pub async fn mcp_save(&self, server: McpDraft) -> Result<McpView, ErrorView> {
        let known = self.store.mcp_servers()?;
        let before = match &server.server_id {
            None => None,
            Some(id) => Some(known.iter().find(|s| s.id == *id).ok_or_else(server_gone)?),
        };
        if before.is_none() && known.len() >= MCP_SERVERS_MAX {
            return Err(error("mcp_full", format!("There are {MCP_SERVERS_MAX} MCP servers, and no more are kept. Remove one first.")));
        }
        let mut new = checked(&server)?;
        if known.iter().any(|s| s.name == new.name && Some(&s.id) != server.server_id.as_ref()) {
            return Err(bad_argument(Some("name"), format!("Another MCP server is named {}. Choose another name.", new.name)));
        }
        new.id = before.map_or_else(|| domain::DeviceId::from_random(self.config.random.bytes16()).to_string(), |s| s.id.clone());
        let values = self.values_of(&server.values, before, &new).await?;
        self.keep_values(&new.id, &values).await?;
        self.store.save_mcp_server(&new, self.config.clock.now())?;
        self.load_mcp_server(&new.id).await?;
        if new.enabled {
            self.start_mcp_server(&new.id).await;
        }
        self.tools_changed();
        self.mcp_get().await
    }

    pub async fn mcp_delete(&self, server_id: String) -> Result<McpView, ErrorView> {
        if !self.store.delete_mcp_server(&server_id)? {
            return Err(server_gone());
        }
        self.load_mcp_server(&server_id).await?;
        self.keep_values(&server_id, &BTreeMap::new()).await?;
        self.tools_changed();
        self.mcp_get().await
    }

    pub async fn mcp_enable(&self, server_id: String, enabled: bool) -> Result<McpView, ErrorView> {
        let server = store::McpServer { enabled, ..self.mcp_server(&server_id)? };
        self.store.save_mcp_server(&server, self.config.clock.now())?;
        self.load_mcp_server(&server_id).await?;
        if enabled {
            self.start_mcp_server(&server_id).await;
        }
        self.tools_changed();
        self.mcp_get().await
    }

    /// Ends the server, starts it and lists its tools again.
    pub async fn mcp_restart(&self, server_id: String) -> Result<McpView, ErrorView> {
        if !self.mcp_server(&server_id)?.enabled {
            return Err(error("mcp_off", "This MCP server is switched off. Switch it on, and it starts."));
        }
        if let Some(server) = self.executor.mcp_server(&server_id) {
            server.stop().await;
        }
        self.start_mcp_server(&server_id).await;
        self.mcp_get().await
    }

    /// Makes every server known with its tools, still without its values: for questions that need no secrets.
    pub(super) fn know_mcp(&self) -> Result<(), store::StoreError> {
        for server in self.store.mcp_servers()?.into_iter().filter(|s| s.enabled) {
            self.executor.set_mcp_server(&server.id.clone(), self.made(server, BTreeMap::new()));
        }
        Ok(())
    }

    /// Makes every server known with its values; none is started by that.
    pub(super) async fn load_mcp(&self) -> Result<(), ErrorView> {
        for stored in self.store.mcp_servers()?.into_iter().filter(|s| s.enabled) {
            let id = stored.id.clone();
            self.put_mcp_server(&id, Some(stored)).await;
        }
        Ok(())
    }

    /// Starts what is switched on, beside everything else: a server may need half a minute.
    pub(super) fn start_mcp_servers(&self) {
        for server in self.executor.mcp_servers() {
            tokio::spawn(async move {
                if let Err(e) = server.refresh().await {
                    tracing::warn!("{e}");
                }
            });
        }
    }

    /// Ends every server's process.
    pub async fn stop_mcp_servers(&self) {
        futures::future::join_all(self.executor.mcp_servers().iter().map(|server| server.retire())).await;
    }

    /// The server as the store has it takes the place of the one before; executions that know that one are told that it is gone.
    async fn load_mcp_server(&self, id: &str) -> Result<(), ErrorView> {
        let stored = self.store.mcp_servers()?.into_iter().find(|s| s.id == id && s.enabled);
        self.put_mcp_server(id, stored).await;
        Ok(())
    }

    async fn put_mcp_server(&self, id: &str, stored: Option<store::McpServer>) {
        let server = match stored {
            None => None,
            Some(stored) => {
                let values = self.stored_values(&stored).await.unwrap_or_else(|e| {
                    // The others must not suffer: this one will say what it lacks.
                    tracing::warn!("the values of the MCP server {} could not be read: {}", stored.name, e.message);
                    BTreeMap::new()
                });
                self.made(stored, values)
            }
        };
        if let Some(before) = self.executor.set_mcp_server(id, server) {
            before.retire().await;
        }
    }

    /// `None` for a name that no version of ours stores.
    fn made(&self, stored: store::McpServer, values: BTreeMap<String, String>) -> Option<Arc<McpServer>> {
        let (store, id, kept) = (self.store.clone(), stored.id.clone(), std::sync::Mutex::new(stored.tools.clone()));
        let changed = move |server: &McpServer| keep_tools(&store, &id, &kept, server);
        McpServer::new(config_of(&stored, values), stored.tools, changed).ok()
    }

    /// How it went is in the server's state.
    async fn start_mcp_server(&self, id: &str) {
        if let Some(server) = self.executor.mcp_server(id)
            && let Err(e) = server.refresh().await
        {
            tracing::info!("{e}");
        }
    }

    fn mcp_server(&self, id: &str) -> Result<store::McpServer, ErrorView> {
        self.store.mcp_servers()?.into_iter().find(|s| s.id == id).ok_or_else(server_gone)
    }

    fn tools_changed(&self) {
        for topic in [Topic::Settings, Topic::Approvals, Topic::Graphs] {
            self.changed(topic);
        }
    }

    fn mcp_row(&self, server: store::McpServer, book: &RuleBook) -> McpServerRow {
        let live = self.executor.mcp_server(&server.id);
        let state = match live.as_ref().map(|live| live.state()) {
            None => McpStateView::Off,
            Some(McpState::Idle) => McpStateView::Idle,
            Some(McpState::Starting) => McpStateView::Starting,
            Some(McpState::Ready) => McpStateView::Ready,
            Some(McpState::Failed(e)) => McpStateView::Failed { why: failed_said(&e) },
        };
        let tools = live.map_or_else(|| server.tools.clone(), |live| live.tools());
        McpServerRow {
            tools: tools.iter().map(|tool| tool_row(&server.name, tool, book)).collect(),
            server_id: server.id,
            name: server.name,
            way: server.way,
            target: server.target,
            args: server.args,
            value_names: server.secret_names,
            timeout_s: server.timeout_s,
            enabled: server.enabled,
            state,
        }
    }

    /// What was typed, and what is kept of before.
    async fn values_of(
        &self,
        drafts: &[McpValueDraft],
        before: Option<&store::McpServer>,
        new: &store::McpServer,
    ) -> Result<BTreeMap<String, String>, ErrorView> {
        let moved = before.is_some_and(|b| (b.way, &b.target, &b.args) != (new.way, &new.target, &new.args));
        let kept = match before {
            Some(before) if !moved && drafts.iter().any(|d| d.value.is_none()) => self.stored_values(before).await?,
            Some(_) | None => BTreeMap::new(),
        };
        let mut values = BTreeMap::new();
        for draft in drafts {
            let value = draft.value.clone().or_else(|| kept.get(&draft.name).cloned());
            let value = value.ok_or_else(|| {
                let why = if moved { "What it goes to changed: it is sent only where you gave it for." } else { "It is not known yet." };
                bad_argument(Some("values"), format!("Type the value of {}. {why}", draft.name))
            })?;
            values.insert(draft.name.clone(), value);
        }
        Ok(values)
    }

    async fn stored_values(&self, server: &store::McpServer) -> Result<BTreeMap<String, String>, ErrorView> {
        if server.secret_names.is_empty() {
            return Ok(BTreeMap::new());
        }
        let text = self.secret(secret_name(&server.id)).await?.unwrap_or_default();
        Ok(serde_json::from_str(&text).unwrap_or_default())
    }

    async fn keep_values(&self, id: &str, values: &BTreeMap<String, String>) -> Result<(), ErrorView> {
        let text = if values.is_empty() { String::new() } else { serde_json::to_string(values).unwrap_or_default() };
        self.keep_secret(secret_name(id), text).await
    }
}

/// Called after each change of a server: the store knows its tools before anything is ruled on them anew.
fn keep_tools(store: &store::Store, id: &str, kept: &std::sync::Mutex<Vec<McpTool>>, server: &McpServer) {
    let (tools, mut kept) = (server.tools(), super::lock(kept));
    if *kept != tools {
        if let Err(e) = store.save_mcp_tools(id, &tools) {
            tracing::error!("the tools of the MCP server {} could not be stored: {e}", server.id());
        }
        *kept = tools;
        store.tell(Topic::Approvals);
        store.tell(Topic::Graphs);
    }
    store.tell(Topic::Settings);
}

fn config_of(server: &store::McpServer, values: BTreeMap<String, String>) -> McpConfig {
    let values = values.into_iter().map(|(name, value)| (name, Secret::new(value))).collect();
    let way = match server.way {
        McpWay::Stdio => AgentsWay::Stdio { program: server.target.clone(), args: server.args.clone(), env: values },
        McpWay::Http => AgentsWay::Http { url: server.target.clone(), headers: values },
    };
    McpConfig { id: server.name.clone(), way, call_timeout: Some(Duration::from_secs(server.timeout_s)) }
}

/// A tool with what holds for it as a whole, and whether an allowance of before no longer does.
fn tool_row(server: &str, tool: &McpTool, book: &RuleBook) -> McpToolRow {
    let (name, fingerprint) = (tool.name_here(server), Some(tool.fingerprint()));
    let setting = book.settings.get(&name);
    let stale_setting = setting.is_some_and(|s| s.ruling == Ruling::Allow && s.fingerprint != fingerprint);
    let stale_rule = book
        .rules
        .iter()
        .filter_map(|stored| Rule::from_json(&stored.text).ok())
        .any(|rule| rule.tool == name && rule.effect == Ruling::Allow && rule.fingerprint.is_some() && rule.fingerprint != fingerprint);
    let ruling = setting.filter(|_| !stale_setting).map_or(agent::policy::ToolClass::Mcp.default_ruling(), |s| s.ruling);
    McpToolRow {
        title: tool.title.clone().unwrap_or_else(|| tool.name.clone()),
        description: tool.description.clone(),
        ruling: ruling_view(ruling),
        changed: stale_setting || stale_rule,
        tool: name,
    }
}

fn server_gone() -> ErrorView {
    error("mcp_gone", "This MCP server is no longer in the list.")
}

/// The draft as it may be stored, still without id.
fn checked(draft: &McpDraft) -> Result<store::McpServer, ErrorView> {
    let name = draft.name.trim().to_owned();
    if !McpConfig::is_id(&name) {
        return Err(bad_argument(
            Some("name"),
            "An MCP server's name is 1 to 32 lower-case letters, digits or dashes: it stands in its tools' names, as in mcp__name__tool.",
        ));
    }
    let target = draft.target.trim().to_owned();
    let holds_nul = target.contains('\0') || draft.args.iter().any(|a| a.contains('\0'));
    match draft.way {
        McpWay::Stdio if target.is_empty() || holds_nul => {
            return Err(bad_argument(Some("target"), "Name the program, like npx or /usr/local/bin/server; its arguments stand apart."));
        }
        McpWay::Http if !is_web(&target) => {
            return Err(bad_argument(Some("target"), "This is not an address. It looks like https://mcp.example.com/mcp."));
        }
        McpWay::Http if !draft.values.is_empty() && target.starts_with("http://") && !is_local(&target) => {
            return Err(bad_argument(
                Some("target"),
                "Over http anyone on the way could read the headers. Use https; plain http works on this computer only.",
            ));
        }
        McpWay::Stdio | McpWay::Http => {}
    }
    if draft.args.len() > MCP_ARGS_MAX || (draft.way == McpWay::Http && !draft.args.is_empty()) {
        return Err(bad_argument(Some("args"), format!("A program takes at most {MCP_ARGS_MAX} arguments; an address takes none.")));
    }
    if draft.timeout_s > MCP_TIMEOUT_S_MAX {
        return Err(bad_argument(Some("timeout_s"), format!("A call is waited for at most {MCP_TIMEOUT_S_MAX} seconds.")));
    }
    Ok(store::McpServer {
        id: String::new(),
        name,
        way: draft.way,
        target,
        args: draft.args.clone(),
        secret_names: value_names(draft)?,
        timeout_s: if draft.timeout_s == 0 { TIMEOUT_S_DEFAULT } else { draft.timeout_s },
        enabled: draft.enabled,
        tools: Vec::new(),
    })
}

fn value_names(draft: &McpDraft) -> Result<Vec<String>, ErrorView> {
    /// The protocol sets these itself.
    const OWN_HEADERS: [&str; 7] = ["accept", "content-type", "content-length", "host", "last-event-id", "mcp-protocol-version", "mcp-session-id"];
    let wrong = |message: String| bad_argument(Some("values"), message);
    if draft.values.len() > MCP_VALUES_MAX {
        return Err(wrong(format!("At most {MCP_VALUES_MAX} values are given to one server.")));
    }
    let mut names: Vec<String> = Vec::new();
    for McpValueDraft { name, value } in &draft.values {
        let plain = |extra: &str| !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || extra.as_bytes().contains(&b));
        let fits = match draft.way {
            McpWay::Stdio => plain("_") && !name.as_bytes()[0].is_ascii_digit(),
            McpWay::Http => plain("-_") && !OWN_HEADERS.contains(&name.to_ascii_lowercase().as_str()),
        };
        if !fits {
            let what = if draft.way == McpWay::Stdio { "the name of an environment variable, like API_KEY" } else { "a header you may set" };
            return Err(wrong(format!("{name:?} is not {what}.")));
        }
        if value.as_ref().is_some_and(|v| v.contains(['\0', '\r', '\n'])) {
            return Err(wrong(format!("The value of {name} holds a line break or another character that cannot be sent.")));
        }
        if names.iter().any(|n| n.eq_ignore_ascii_case(name)) {
            return Err(wrong(format!("{name} is named twice.")));
        }
        names.push(name.clone());
    }
    Ok(names)
}

fn failed_said(e: &McpError) -> Sentence {
    match e {
        McpError::Start { id, why } => {
            said("mcp_not_started", "The MCP server {id} could not be started: {why}.", [("id", id.as_str().into()), ("why", why.as_str().into())])
        }
        McpError::Timeout { id, seconds } => {
            let facts = [("id", id.as_str().into()), ("seconds", (*seconds).into())];
            said("mcp_no_answer", "The MCP server {id} did not answer within {seconds} s.", facts)
        }
        McpError::Id | McpError::Retired(_) => super::errors::capital(&format!("{e}.")).into(),
    }
}
