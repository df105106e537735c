//! Connections: the paired Graph Queue, its projects, the connected agents.
//!
//! Everything here is the server's to say; what it said last is kept, so that the place opens at once and works offline. Asking again
//! happens behind the answer, and only while the owner looks or waits for a new agent: an idle device asks for nothing but work.
use std::{sync::Arc, time::Duration};

use domain::{
    AgentId, Timestamp,
    limits::{CONNECT_CODE_TTL_MS, NAME_CHARS_MAX},
    text::{SCOPE_READ, SCOPE_RUN},
    wire::{
        relay::{ConnectedAgent, GrantRequest, PairRequest},
        said::Sentence,
    },
};

use super::{
    Desk,
    errors::{bad_argument, capital, error},
    lock,
    sharing::project_of,
};
use crate::{
    relay::{AskError, Link, QueueClient, Token, Wishes},
    store,
    view::{AgentRow, ConnectionsView, ErrorView, GrantDraft, MadeConnectCode, MintedToken, Pairing, ProjectRow, SecretStoreView, Topic},
};

/// Name of the device token in the secret store.
pub const DEVICE_TOKEN: &str = "device_token";
/// Agents are asked for at most this often while the owner looks.
const AGENTS_FRESH_MS: i64 = 3_000;
/// While a connect code waits to be used.
const AGENTS_AWAITED_EVERY: Duration = Duration::from_secs(4);

/// What the server said of the connected agents, and when.
#[derive(Default)]
pub(super) struct Agents {
    list: Vec<ConnectedAgent>,
    asked_at: Option<Timestamp>,
    problem: Option<Sentence>,
}

impl Desk {
    pub async fn connections_get(self: &Arc<Self>) -> Result<ConnectionsView, ErrorView> {
        self.refresh_agents();
        let paired = self.store.pairing()?.map(|p| Pairing {
            mcp_url: format!("{}/mcp", p.address),
            address: p.address,
            owner: p.owner,
            device_id: p.device_id.to_string(),
            device_name: p.device_name,
            builtin: p.builtin,
        });
        let projects = self.store.projects()?;
        let names = |ids: &[domain::ProjectId]| -> Vec<String> {
            ids.iter().map(|id| projects.iter().find(|p| p.id == *id).map_or_else(|| id.to_string(), |p| p.name.clone())).collect()
        };
        let known = lock(&self.agents);
        let agents = known.list.iter().filter(|_| paired.is_some()).map(|a| AgentRow {
            agent_id: a.agent_id.to_string(),
            name: a.name.clone(),
            kind: a.kind.clone(),
            projects: names(&a.project_ids),
            scopes: a.scopes.clone(),
            created_at: a.created_at.ms(),
            last_used_at: a.last_used_at.map(Timestamp::ms),
            revoked: a.revoked_at.is_some(),
        });
        let trouble = self.relay.status().trouble.map(|t| t.words);
        Ok(ConnectionsView {
            builtin_offered: self.config.builtin.is_some(),
            agents: agents.collect(),
            projects: projects.iter().map(|p| ProjectRow { project_id: p.id.to_string(), name: p.name.clone(), enabled: p.enabled }).collect(),
            secrets: SecretStoreView { kind: self.config.secrets.kind().as_str().into(), text: self.config.secrets.text() },
            problem: if paired.is_some() { trouble.or_else(|| known.problem.clone()) } else { None },
            paired,
        })
    }

    pub async fn pair(self: &Arc<Self>, address: String, pairing_code: String) -> Result<ConnectionsView, ErrorView> {
        self.pair_with(&address, &pairing_code, false).await?;
        self.connections_get().await
    }

    pub async fn pair_builtin(self: &Arc<Self>) -> Result<ConnectionsView, ErrorView> {
        let queue = self.config.builtin.clone().ok_or_else(|| error("no_builtin", "The built-in Graph Queue is part of the window's app only."))?;
        let (address, code) =
            queue.start().await.map_err(|words| error("builtin_failed", format!("The built-in Graph Queue could not start: {words}.")))?;
        self.pair_with(&address, &code, true).await?;
        self.connections_get().await
    }

    async fn pair_with(self: &Arc<Self>, address: &str, code: &str, builtin: bool) -> Result<(), ErrorView> {
        let address = address_of(address)?;
        let code = code.trim();
        if code.is_empty() {
            return Err(bad_argument(Some("pairing_code"), "Type the pairing code that graph-queue pair printed."));
        }
        // Paired again with the same queue this device keeps its identity: what waits in the outbox stays deliverable.
        let before = self.store.pairing()?.filter(|p| p.address == address).map(|p| p.device_id);
        let client = QueueClient::without_token(Arc::clone(&self.config.http), &address);
        let request = |device_id| PairRequest { pairing_code: code.to_owned(), device_name: self.config.device_name.clone(), device_id };
        let answer = client.pair(&request(before)).await.map_err(ask_error)?;
        self.keep_token(Some(answer.device_token.clone())).await?;
        self.store.set_pairing(&store::Pairing {
            address: address.clone(),
            device_id: answer.device_id,
            device_name: self.config.device_name.clone(),
            owner: answer.owner,
            builtin,
            paired_at: self.config.clock.now(),
        })?;
        *lock(&self.agents) = Agents::default();
        self.relay.connect(Some(Link { address, device: answer.device_id, token: Token::new(answer.device_token) }));
        self.refresh_projects().await
    }

    pub async fn unpair(self: &Arc<Self>) -> Result<ConnectionsView, ErrorView> {
        let told = match self.relay.client() {
            Some(client) => client.unpair().await,
            None => Ok(()),
        };
        // Forgotten here in any case: an owner who unpairs a queue that is gone must not be held.
        if let Err(e) = told {
            tracing::warn!("the queue was not told that this device is unpaired: {e}");
        }
        self.relay.connect(None);
        self.store.clear_pairing()?;
        self.keep_token(None).await?;
        *lock(&self.agents) = Agents::default();
        self.connections_get().await
    }

    pub async fn project_create(self: &Arc<Self>, name: String) -> Result<ConnectionsView, ErrorView> {
        self.create_project(&name).await?;
        self.connections_get().await
    }

    pub(super) async fn create_project(self: &Arc<Self>, name: &str) -> Result<domain::ProjectId, ErrorView> {
        let made = self.queue()?.create_project(&name_of(name)?).await.map_err(ask_error)?;
        self.refresh_projects().await?;
        Ok(made.project_id)
    }

    pub async fn project_rename(self: &Arc<Self>, project_id: String, name: String) -> Result<ConnectionsView, ErrorView> {
        self.queue()?.rename_project(project_of(&project_id)?, &name_of(&name)?).await.map_err(ask_error)?;
        self.refresh_projects().await?;
        self.connections_get().await
    }

    pub async fn project_delete(self: &Arc<Self>, project_id: String) -> Result<ConnectionsView, ErrorView> {
        self.queue()?.delete_project(project_of(&project_id)?).await.map_err(ask_error)?;
        self.refresh_projects().await?;
        self.connections_get().await
    }

    pub async fn agent_token_mint(self: &Arc<Self>, grant: GrantDraft) -> Result<MintedToken, ErrorView> {
        let minted = self.queue()?.mint_agent_token(&grant_of(&grant)?).await.map_err(ask_error)?;
        self.forget_agents_age();
        let claude_code_line =
            format!("claude mcp add --transport http graph-queue {} --header \"Authorization: Bearer {}\"", minted.mcp_url, minted.token);
        Ok(MintedToken { token: minted.token, mcp_url: minted.mcp_url, claude_code_line })
    }

    pub async fn connect_code_make(self: &Arc<Self>, grant: GrantDraft) -> Result<MadeConnectCode, ErrorView> {
        let made = self.queue()?.connect_code(&grant_of(&grant)?).await.map_err(ask_error)?;
        self.await_new_agent();
        Ok(connect_code(made.connect_code, made.expires_at, made.mcp_url))
    }

    pub async fn sign_in_code_make(&self) -> Result<MadeConnectCode, ErrorView> {
        let client = self.queue()?;
        let made: serde_json::Value = client.sign_in_code().await.map_err(ask_error)?;
        let text = |names: &[&str]| names.iter().find_map(|n| made.get(*n)?.as_str()).map(str::to_owned);
        let code = text(&["sign_in_code", "code"])
            .ok_or_else(|| error("queue_unreadable", "Graph Queue gave no sign-in code. It may be older than this Graph Desk."))?;
        let expires_at = text(&["expires_at"]).and_then(|t| Timestamp::parse(&t)).unwrap_or_else(|| self.config.clock.now());
        let address = self.store.pairing()?.map(|p| p.address).unwrap_or_default();
        let url = text(&["url", "sign_in_url"]).unwrap_or(address);
        Ok(MadeConnectCode { code, expires_at: expires_at.ms(), mcp_url: url, claude_code_line: String::new() })
    }

    pub async fn agent_revoke(self: &Arc<Self>, agent_id: String) -> Result<ConnectionsView, ErrorView> {
        let agent = AgentId::parse(&agent_id).map_err(|e| bad_argument(Some("agent_id"), format!("{e}.")))?;
        self.queue()?.revoke_agent(agent).await.map_err(ask_error)?;
        self.load_agents().await;
        self.connections_get().await
    }

    // ── Shared by the places ────────────────────────────────────────────────────────────────────────────────────────

    /// Hands the relay the pairing and its token, as they are stored. A missing token is told in words.
    pub(super) async fn connect_relay(&self) -> Result<(), ErrorView> {
        let Some(pairing) = self.store.pairing()? else {
            self.relay.connect(None);
            return Ok(());
        };
        let secrets = Arc::clone(&self.config.secrets);
        let token = tokio::task::spawn_blocking(move || secrets.get(DEVICE_TOKEN)).await;
        match token.map_err(|e| error("internal", format!("The device token could not be read: {e}.")))?? {
            Some(token) => self.relay.connect(Some(Link { address: pairing.address, device: pairing.device_id, token: Token::new(token) })),
            None => {
                lock(&self.agents).problem = Some(no_token(&self.config.secrets.text()).into());
                tracing::warn!("paired with {}, but its device token is not in the secret store; pair again", pairing.address);
                self.relay.connect(None);
            }
        }
        Ok(())
    }

    /// The secrets moved to another store: whoever holds one of them reads it anew.
    pub(super) async fn secrets_changed(&self) -> Result<(), ErrorView> {
        self.load_models().await?;
        self.load_mcp().await?;
        self.connect_relay().await
    }

    pub(super) fn apply_relay_settings(&self, settings: &store::Settings) {
        let paused_since = settings.paused.then(|| Timestamp::from_ms(settings.paused_at));
        self.relay.wish(Wishes { paused_since, pickup_instant: settings.pickup_instant });
    }

    fn queue(&self) -> Result<QueueClient, ErrorView> {
        if let Some(client) = self.relay.client() {
            return Ok(client);
        }
        match self.store.pairing()? {
            None => Err(error("not_paired", "No Graph Queue is paired. Pair one in Connections first.")),
            Some(_) => Err(no_token(&self.config.secrets.text())),
        }
    }

    async fn keep_token(&self, token: Option<String>) -> Result<(), ErrorView> {
        let secrets = Arc::clone(&self.config.secrets);
        let done = tokio::task::spawn_blocking(move || match token {
            Some(token) => secrets.set(DEVICE_TOKEN, &token),
            None => secrets.delete(DEVICE_TOKEN),
        });
        Ok(done.await.map_err(|e| error("internal", format!("The device token could not be stored: {e}.")))??)
    }

    pub(super) async fn refresh_projects(&self) -> Result<(), ErrorView> {
        let listed = self.queue()?.projects().await.map_err(ask_error)?;
        Ok(self.store.put_projects(&listed.projects, self.config.clock.now())?)
    }

    /// Asks for agents and projects behind the answer, unless it was done a moment ago.
    fn refresh_agents(self: &Arc<Self>) {
        let now = self.config.clock.now();
        {
            let mut known = lock(&self.agents);
            if self.relay.client().is_none() || known.asked_at.is_some_and(|at| now.since_ms(at).abs() < AGENTS_FRESH_MS) {
                return;
            }
            known.asked_at = Some(now);
        }
        let desk = Arc::clone(self);
        tokio::spawn(async move {
            desk.load_agents().await;
            if let Err(e) = desk.refresh_projects().await {
                tracing::debug!("projects were not listed: {}", e.message);
            }
        });
    }

    /// The list of agents as the server has it now; true if it changed.
    async fn load_agents(&self) -> bool {
        let Some(client) = self.relay.client() else { return false };
        let answer = client.agents().await;
        let mut known = lock(&self.agents);
        known.asked_at = Some(self.config.clock.now());
        let before = (known.list.iter().map(|a| (a.agent_id, a.revoked_at, a.last_used_at)).collect::<Vec<_>>(), known.problem.take());
        match answer {
            Ok(listed) => known.list = listed.agents,
            Err(e) => known.problem = Some(ask_error(e).into()),
        }
        let after = (known.list.iter().map(|a| (a.agent_id, a.revoked_at, a.last_used_at)).collect::<Vec<_>>(), known.problem.clone());
        drop(known);
        if before != after {
            self.changed(Topic::Connections);
        }
        before.0 != after.0
    }

    fn forget_agents_age(&self) {
        lock(&self.agents).asked_at = None;
        self.changed(Topic::Connections);
    }

    /// A connect code was made: looks for the agent it brings until it comes or the code has expired.
    fn await_new_agent(self: &Arc<Self>) {
        let desk = Arc::clone(self);
        tokio::spawn(async move {
            let known = lock(&desk.agents).list.len();
            for _ in 0..(CONNECT_CODE_TTL_MS as u64 / AGENTS_AWAITED_EVERY.as_millis() as u64) {
                tokio::select! {
                    () = tokio::time::sleep(AGENTS_AWAITED_EVERY) => {}
                    () = desk.closing.cancelled() => return,
                }
                desk.load_agents().await;
                if lock(&desk.agents).list.len() > known {
                    return;
                }
            }
        });
    }
}

/// The queue's address as it is stored: a scheme, no trailing slash, no path of `/mcp`.
fn address_of(text: &str) -> Result<String, ErrorView> {
    let text = text.trim().trim_end_matches('/').trim_end_matches("/mcp");
    let with_scheme = if text.contains("://") { text.to_owned() } else { format!("https://{text}") };
    let wrong =
        || bad_argument(Some("address"), "This is not an address of a Graph Queue. It looks like https://queue.example or http://127.0.0.1:8787.");
    if text.ends_with(':') {
        return Err(wrong()); // a scheme alone
    }
    let url = url::Url::parse(&with_scheme).map_err(|_| wrong())?;
    let host = url.host().ok_or_else(wrong)?;
    let local = match &host {
        url::Host::Domain(name) => *name == "localhost",
        url::Host::Ipv4(ip) => ip.is_loopback(),
        url::Host::Ipv6(ip) => ip.is_loopback(),
    };
    match url.scheme() {
        "https" => {}
        "http" if local => {}
        "http" => {
            return Err(bad_argument(
                Some("address"),
                "Over http anyone on the way could read the device token. Use https; plain http works on this computer only.",
            ));
        }
        _ => return Err(wrong()),
    }
    if !url.username().is_empty() || url.password().is_some() || url.query().is_some() || url.fragment().is_some() {
        return Err(wrong());
    }
    Ok(url.as_str().trim_end_matches('/').to_owned())
}

fn name_of(name: &str) -> Result<String, ErrorView> {
    let name = name.trim();
    match name.chars().count() {
        0 => Err(bad_argument(Some("name"), "A project needs a name.")),
        n if n > NAME_CHARS_MAX => Err(bad_argument(Some("name"), format!("The name has {n} characters; {NAME_CHARS_MAX} are allowed."))),
        _ => Ok(name.to_owned()),
    }
}

fn grant_of(draft: &GrantDraft) -> Result<GrantRequest, ErrorView> {
    let project_ids = draft.project_ids.iter().map(|id| project_of(id)).collect::<Result<Vec<_>, _>>()?;
    if project_ids.is_empty() {
        return Err(bad_argument(Some("project_ids"), "Choose at least one project the agent may see."));
    }
    let mut scopes = vec![SCOPE_READ.to_owned()];
    if draft.may_run {
        scopes.push(SCOPE_RUN.to_owned());
    }
    Ok(GrantRequest { name: name_of(&draft.name)?, project_ids, scopes })
}

fn connect_code(code: String, expires_at: Timestamp, mcp_url: String) -> MadeConnectCode {
    MadeConnectCode { claude_code_line: format!("claude mcp add --transport http graph-queue {mcp_url}"), code, expires_at: expires_at.ms(), mcp_url }
}

fn no_token(secrets: &Sentence) -> ErrorView {
    let missing = "The device token is missing, so Graph Queue cannot be asked. Pair again; finished work is kept and will be delivered.";
    error("no_device_token", format!("{missing} {secrets}"))
}

/// What the queue or the network said.
pub(super) fn ask_error(e: AskError) -> ErrorView {
    let words = capital(e.to_string().trim_end_matches('.'));
    match &e {
        AskError::Unreachable(_) => {
            error("queue_unreachable", format!("{words}. Nothing was changed. Check the address and that Graph Queue runs, then try again."))
                .with("why", &words)
        }
        AskError::NotOurs { status } => error("not_a_queue", format!("{words}.")).with("status", status),
        AskError::Refused { code, .. } => error(code, format!("{words}.")),
        AskError::Unauthorized { .. } => error("unauthorized", format!("{words}.")),
        AskError::TooMany { message, .. } => error("too_many", format!("{words}. Try again in a minute.")).with("why", message),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_kept_without_its_tail_and_plain_http_stays_at_home() {
        for (typed, kept) in [
            ("https://queue.example/", "https://queue.example"),
            ("queue.example", "https://queue.example"),
            (" http://127.0.0.1:8787/mcp ", "http://127.0.0.1:8787"),
            ("http://localhost:1", "http://localhost:1"),
            ("https://host/queue/", "https://host/queue"),
        ] {
            assert_eq!(address_of(typed).unwrap(), kept);
        }
        for wrong in ["", "http://queue.example", "ftp://x", "https://user:secret@queue.example", "https://"] {
            assert!(address_of(wrong).is_err(), "{wrong}");
        }
    }
}
