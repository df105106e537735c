//! Connected agents: grants, their tokens, and the end of both.
use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use domain::{
    AgentId, OwnerId, Timestamp,
    text::{PROJECT_NOT_FOUND, SCOPE_READ, SCOPE_RUN},
    wire::relay::{ConnectedAgent, GrantRequest},
};

use super::{
    Granted, Queue,
    arrows::{self, Withdrawn},
    lock_owner,
    owner::check_name,
};
use crate::{
    contact::Who,
    ports::bytes,
    secret::{self, TokenKind},
    store::{Collides, StoreError, Tx, params, quoted},
};

/// Connected agents one owner may have at a time.
const AGENTS_MAX: i64 = 500;
/// A grant may be taken from memory this long, where it is checked again before anything comes of it.
const GRANT_KNOWN_MS: i64 = 1_000;
const GRANTS_KNOWN_MAX: usize = 10_000;

#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    #[error("there is no such connected agent")]
    NotFound,
    #[error("{PROJECT_NOT_FOUND}")]
    ProjectNotFound,
    #[error("{0}")]
    Malformed(String),
    #[error("an owner may have at most {AGENTS_MAX} connected agents; revoke one first")]
    TooMany,
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Collides for AgentError {
    fn store_error(&self) -> Option<&StoreError> {
        if let Self::Store(e) = self { Some(e) } else { None }
    }
}

/// A grant about to be made.
#[derive(Debug, Clone)]
pub struct NewAgent {
    pub agent: AgentId,
    pub owner: OwnerId,
    pub grant: GrantRequest,
    /// `token` or `oauth`.
    pub kind: &'static str,
    pub client_id: Option<String>,
    pub now: Timestamp,
}

struct NewToken {
    new: NewAgent,
    token_hash: String,
}

struct Revoke {
    owner: OwnerId,
    agent: AgentId,
    now: Timestamp,
}

struct ByToken {
    token_hash: String,
    now: Timestamp,
}

impl Queue {
    /// A personal token for clients that cannot do OAuth: shown once, kept as a hash, valid until revoked.
    pub async fn mint_agent_token(&self, owner: OwnerId, grant: GrantRequest) -> Result<(AgentId, String), AgentError> {
        check_grant(&grant)?;
        let token = secret::new_token(TokenKind::Access, &*self.random);
        let agent = AgentId::from_random(bytes(&*self.random));
        let new = NewAgent { agent, owner, grant, kind: "token", client_id: None, now: self.now() };
        self.store.write(NewToken { new, token_hash: secret::hash(&token) }, |tx, it| Box::pin(mint(tx, it))).await?;
        Ok((agent, token))
    }

    /// Who holds this access token, if it is valid now.
    pub async fn granted(&self, token: &str) -> Result<Option<Granted>, StoreError> {
        let by = ByToken { token_hash: secret::hash(token), now: self.now() };
        let granted = self.store.read(&by, |tx, it| Box::pin(by_token(tx, it))).await?;
        if let Some(granted) = &granted {
            self.contacts.heard(Who::Agent(granted.agent), by.now);
        }
        Ok(granted)
    }

    /// The same as it stood at most [`GRANT_KNOWN_MS`] ago: for calls whose own transaction checks the grant again.
    pub async fn granted_lately(&self, token: &str) -> Result<Option<Granted>, StoreError> {
        let (hash, now) = (secret::hash(token), self.now());
        if let Some(granted) = self.known.get(&hash, now) {
            self.contacts.heard(Who::Agent(granted.agent), now);
            return Ok(Some(granted));
        }
        let granted = self.granted(token).await?;
        if let Some(granted) = &granted {
            self.known.put(granted, now);
        }
        Ok(granted)
    }

    pub async fn agents(&self, owner: OwnerId) -> Result<Vec<ConnectedAgent>, AgentError> {
        let mut agents = self.store.read(&owner, |tx, owner| Box::pin(list(tx, *owner))).await?;
        for agent in &mut agents {
            agent.last_used_at = self.contacts.last(Who::Agent(agent.agent_id), agent.last_used_at);
        }
        Ok(agents)
    }

    /// In one transaction: tokens die, queued commands end, running ones are asked to stop, held requests are woken.
    pub async fn revoke(&self, owner: OwnerId, agent: AgentId) -> Result<(), AgentError> {
        self.store.write(Revoke { owner, agent, now: self.now() }, |tx, it| Box::pin(revoke(tx, it))).await
    }
}

/// Who holds which access token, as this instance read it a moment ago.
#[derive(Default)]
pub struct Known(Mutex<BTreeMap<String, (Granted, Timestamp)>>);

impl Known {
    fn map(&self) -> MutexGuard<'_, BTreeMap<String, (Granted, Timestamp)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn get(&self, token_hash: &str, now: Timestamp) -> Option<Granted> {
        let map = self.map();
        let (granted, read_at) = map.get(token_hash)?;
        (0..GRANT_KNOWN_MS).contains(&now.since_ms(*read_at)).then(|| granted.clone())
    }

    /// A full one begins anew: whoever is dropped is read again.
    fn put(&self, granted: &Granted, now: Timestamp) {
        let mut map = self.map();
        if map.len() >= GRANTS_KNOWN_MAX {
            map.clear();
        }
        map.insert(granted.token_hash.clone(), (granted.clone(), now));
    }
}

/// A grant as it is asked for: a name, at least one project, at least one known scope.
pub fn check_grant(grant: &GrantRequest) -> Result<(), AgentError> {
    check_name("name", &grant.name).map_err(AgentError::Malformed)?;
    if grant.project_ids.is_empty() {
        return Err(AgentError::Malformed("project_ids names no project".into()));
    }
    if grant.scopes.is_empty() || grant.scopes.iter().any(|s| s != SCOPE_READ && s != SCOPE_RUN) {
        return Err(AgentError::Malformed(format!("scopes must name {SCOPE_READ}, {SCOPE_RUN} or both")));
    }
    Ok(())
}

async fn mint(tx: &mut Tx, it: &NewToken) -> Result<(), AgentError> {
    make(tx, &it.new).await?;
    let sql = "INSERT INTO tokens (token_hash, agent_id, kind, created_at) VALUES ($1, $2, 'static', $3)";
    tx.execute(sql, params![&it.token_hash, it.new.agent, it.new.now]).await?;
    Ok(())
}

/// The agent and its projects. Every project must be the owner's and stand.
pub(crate) async fn make(tx: &mut Tx, new: &NewAgent) -> Result<(), AgentError> {
    lock_owner(tx, new.owner).await?;
    let row = tx.row("SELECT count(*) FROM agents WHERE owner_id = $1 AND revoked_at IS NULL", params![new.owner]).await?;
    if row.map_or(Ok(0), |row| row.int(0))? >= AGENTS_MAX {
        return Err(AgentError::TooMany);
    }
    let mut scopes: Vec<&str> = new.grant.scopes.iter().map(String::as_str).collect();
    scopes.sort_unstable();
    scopes.dedup();
    let sql = "INSERT INTO agents (agent_id, owner_id, name_json, kind, scopes, client_id_json, created_at) VALUES ($1, $2, $3, $4, $5, $6, $7)";
    let client = new.client_id.as_deref().map(quoted);
    tx.execute(sql, params![new.agent, new.owner, quoted(&new.grant.name), new.kind, scopes.join(" "), client, new.now]).await?;
    for project in &new.grant.project_ids {
        let sql = "INSERT INTO agent_projects (agent_id, project_id)
                   SELECT CAST($1 AS TEXT), project_id FROM projects WHERE project_id = $2 AND owner_id = $3 AND deleted_at IS NULL
                   ON CONFLICT (agent_id, project_id) DO NOTHING";
        let added = tx.execute(sql, params![new.agent, *project, new.owner]).await?;
        let twice = new.grant.project_ids.iter().filter(|p| *p == project).count() > 1;
        if added == 0 && !twice {
            return Err(AgentError::ProjectNotFound);
        }
    }
    Ok(())
}

async fn by_token(tx: &mut Tx, it: &ByToken) -> Result<Option<Granted>, StoreError> {
    let sql = "SELECT a.agent_id, a.owner_id, coalesce(t.scopes, a.scopes) FROM tokens t JOIN agents a ON a.agent_id = t.agent_id
                WHERE t.token_hash = $1 AND t.kind <> 'refresh' AND a.revoked_at IS NULL AND (t.expires_at IS NULL OR t.expires_at > $2)";
    let Some(row) = tx.row(sql, params![&it.token_hash, it.now]).await? else { return Ok(None) };
    let scopes = row.text(2)?.split_ascii_whitespace().map(str::to_owned).collect();
    Ok(Some(Granted { agent: row.id(0)?, owner: row.id(1)?, scopes, token_hash: it.token_hash.clone() }))
}

async fn list(tx: &mut Tx, owner: OwnerId) -> Result<Vec<ConnectedAgent>, AgentError> {
    let sql = "SELECT agent_id, name_json, kind, scopes, created_at, last_used_at, revoked_at FROM agents WHERE owner_id = $1 ORDER BY created_at, agent_id";
    let rows = tx.query(sql, params![owner]).await?;
    let sql =
        "SELECT g.agent_id, g.project_id FROM agent_projects g JOIN agents a ON a.agent_id = g.agent_id WHERE a.owner_id = $1 ORDER BY g.project_id";
    let granted = tx.query(sql, params![owner]).await?;
    let mut agents = Vec::with_capacity(rows.len());
    for row in &rows {
        let agent_id: AgentId = row.id(0)?;
        let mut project_ids = Vec::new();
        for pair in &granted {
            if pair.id::<AgentId>(0)? == agent_id {
                project_ids.push(pair.id(1)?);
            }
        }
        agents.push(ConnectedAgent {
            agent_id,
            name: row.quoted(1)?,
            kind: row.text(2)?.to_owned(),
            project_ids,
            scopes: row.text(3)?.split_ascii_whitespace().map(str::to_owned).collect(),
            created_at: row.time(4)?,
            last_used_at: row.opt_time(5)?,
            revoked_at: row.opt_time(6)?,
        });
    }
    Ok(agents)
}

async fn revoke(tx: &mut Tx, it: &Revoke) -> Result<(), AgentError> {
    lock_owner(tx, it.owner).await?;
    let sql = "UPDATE agents SET revoked_at = coalesce(revoked_at, $3) WHERE agent_id = $1 AND owner_id = $2";
    if tx.execute(sql, params![it.agent, it.owner, it.now]).await? == 0 {
        return Err(AgentError::NotFound);
    }
    end_grant(tx, it.agent, it.now).await?;
    Ok(())
}

/// What follows from a revoked grant, whoever revoked it.
pub(crate) async fn end_grant(tx: &mut Tx, agent: AgentId, now: Timestamp) -> Result<(), StoreError> {
    tx.execute("UPDATE agents SET revoked_at = coalesce(revoked_at, $2) WHERE agent_id = $1", params![agent, now]).await?;
    tx.execute("DELETE FROM tokens WHERE agent_id = $1", params![agent]).await?;
    // Who waits for a command is woken by its bell; those that run on with a cancel asked before are not rung by the withdrawal.
    arrows::withdraw(tx, Withdrawn::AgentRevoked(agent), now).await?;
    let sql = format!("SELECT command_id FROM commands WHERE {} AND status = 'running'", arrows::OF_AGENT);
    for row in &tx.query(&sql, params![agent]).await? {
        tx.ring(crate::bell::Bell::Command(row.id(0)?));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_known_of_grants_has_an_end_and_a_limit() {
        let known = Known::default();
        let by = |n: usize| Granted {
            agent: AgentId::from_random([1; 16]),
            owner: OwnerId::from_random([2; 16]),
            scopes: Vec::new(),
            token_hash: n.to_string(),
        };
        let at = Timestamp::from_ms;
        known.put(&by(0), at(5_000));
        assert_eq!(known.get("0", at(5_000 + GRANT_KNOWN_MS - 1)), Some(by(0)));
        assert_eq!(known.get("0", at(5_000 + GRANT_KNOWN_MS)), None, "its time is over");
        assert_eq!(known.get("0", at(4_999)), None, "a clock that went back makes nothing last longer");
        for n in 0..=GRANTS_KNOWN_MAX {
            known.put(&by(n), at(6_000));
        }
        assert!(known.map().len() <= GRANTS_KNOWN_MAX);
        assert_eq!(known.get(&GRANTS_KNOWN_MAX.to_string(), at(6_000)), Some(by(GRANTS_KNOWN_MAX)));
    }
}
