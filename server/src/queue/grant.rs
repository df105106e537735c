//! Consent and its tokens: connect codes, authorize requests, authorization codes, rotating refresh tokens.
//!
//! Every secret is kept as a hash. What must be given twice (a code after a double submit, the successor of a refresh token after a
//! lost answer) is derived from the server's key, never stored. Reuse of a spent secret ends the grant.
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use domain::{
    AgentId, OwnerId, Timestamp,
    limits::{
        ACCESS_TOKEN_TTL_MS, AUTHORIZATION_CODE_TTL_MS, CONNECT_CODE_TRIES_MAX, CONNECT_CODE_TTL_MS, CONSENT_TTL_MS, REFRESH_GRACE_MS,
        REFRESH_TOKEN_TTL_MS,
    },
    wire::relay::{GrantRequest, Project},
};
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::{
    Queue,
    agent::{self, AgentError, NewAgent, check_grant},
};
use crate::{
    ports::bytes,
    secret::{self, TokenKind},
    store::{Collides, StoreError, Tx, params, quoted},
};

/// An authorize request may be answered this long.
const REQUEST_TTL_MS: i64 = CONNECT_CODE_TTL_MS;

#[derive(Debug, thiserror::Error)]
pub enum ConsentError {
    #[error("this request has ended; start again from your client")]
    Ended,
    #[error("the connect code is wrong, was used or has expired")]
    BadCode { tries_left: i64 },
    #[error("there is no such connected agent to continue as")]
    NoSuchAgent,
    #[error("the connect code grants none of the scopes that were asked for")]
    NoScope,
    #[error(transparent)]
    Agent(#[from] AgentError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Collides for ConsentError {
    fn store_error(&self) -> Option<&StoreError> {
        match self {
            Self::Store(e) => Some(e),
            Self::Agent(e) => e.store_error(),
            Self::Ended | Self::BadCode { .. } | Self::NoSuchAgent | Self::NoScope => None,
        }
    }
}

/// Why no token is given, as RFC 6749 names it.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    #[error("the code or token is unknown, expired, used or belongs to another client")]
    InvalidGrant,
    #[error("a refresh may only narrow the scopes")]
    InvalidScope,
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Collides for TokenError {
    fn store_error(&self) -> Option<&StoreError> {
        if let Self::Store(e) = self { Some(e) } else { None }
    }
}

/// What a client asked the owner for, checked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AuthorizeRequest {
    pub client_id: String,
    pub client_name: String,
    /// The client id was verified: its document was fetched or pinned, not registered by whoever came.
    pub verified: bool,
    pub redirect_uri: String,
    pub state: Option<String>,
    pub code_challenge: String,
    pub scopes: Vec<String>,
    /// Hash of the cookie that binds the form to the browser it was shown in.
    pub cookie_hash: String,
}

/// What the owner is shown before Allow.
#[derive(Debug, Clone)]
pub struct Offer {
    pub owner: String,
    pub projects: Vec<Project>,
    pub scopes: Vec<String>,
    /// Agents the owner may continue as: (id, name, same verified client).
    pub earlier: Vec<(AgentId, String, bool)>,
}

/// What an owner decided on Allow.
#[derive(Debug, Clone)]
pub struct Allow {
    pub request: String,
    pub connect_code: String,
    pub continue_as: Option<AgentId>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tokens {
    pub access: String,
    pub refresh: String,
    pub scopes: Vec<String>,
}

/// A registered client.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Client {
    pub client_id: String,
    pub client_name: String,
    pub redirect_uris: Vec<String>,
    pub secret_hash: Option<String>,
}

struct ByHash {
    hash: String,
    code_hash: String,
    now: Timestamp,
}

struct Decide {
    request_hash: String,
    connect_hash: String,
    continue_as: Option<AgentId>,
    new_agent: AgentId,
    code: String,
    now: Timestamp,
}

struct Redeem {
    code_hash: String,
    client_id: String,
    redirect_uri: Option<String>,
    challenge: String,
    access_hash: String,
    refresh_hash: String,
    now: Timestamp,
}

struct Refresh {
    old_hash: String,
    client_id: String,
    scopes: Option<Vec<String>>,
    access_hash: String,
    successor_hash: String,
    now: Timestamp,
}

fn hmac(key: &str, purpose: &str, secret: &str) -> Vec<u8> {
    // HMAC takes keys of any length, so this never fails.
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(key.as_bytes()) else { return Vec::new() };
    mac.update(purpose.as_bytes());
    mac.update(&[0]);
    mac.update(secret.as_bytes());
    mac.finalize().into_bytes().to_vec()
}

/// The S256 challenge of a verifier.
pub fn challenge_of(verifier: &str) -> String {
    URL_SAFE_NO_PAD.encode(Sha256::digest(verifier.as_bytes()))
}

impl Queue {
    /// Drawn at the first start and kept in the database: every instance derives the same.
    async fn key(&self) -> Result<String, StoreError> {
        let fresh = secret::hex(&bytes::<32>(&*self.random));
        if let Some(key) = self.store.read(&(), |tx, ()| Box::pin(read_key(tx))).await? {
            return Ok(key);
        }
        self.store.write(fresh, |tx, fresh| Box::pin(make_key(tx, fresh))).await
    }

    pub async fn connect_code(&self, owner: OwnerId, grant: GrantRequest) -> Result<(String, Timestamp), AgentError> {
        check_grant(&grant)?;
        let code = secret::new_code(&*self.random);
        let expires_at = self.now().plus_ms(CONNECT_CODE_TTL_MS);
        let it = (owner, grant, secret::hash(&code), expires_at);
        self.store.write(it, |tx, (owner, grant, hash, at)| Box::pin(new_connect_code(tx, *owner, grant, hash, *at))).await?;
        Ok((code, expires_at))
    }

    /// One that is not `kept` goes after a day unless an owner lets it in.
    pub async fn register_client(&self, client: Client, kept: bool) -> Result<(), StoreError> {
        self.store.write((client, kept, self.now()), |tx, (client, kept, now)| Box::pin(register(tx, client, *kept, *now))).await
    }

    pub async fn client(&self, client_id: &str) -> Result<Option<Client>, StoreError> {
        self.store.read(&secret::hash(client_id), |tx, hash| Box::pin(client(tx, hash))).await
    }

    /// Keeps the request; the answer is its secret name, which goes into the form.
    pub async fn begin_authorize(&self, request: &AuthorizeRequest) -> Result<String, StoreError> {
        let name = URL_SAFE_NO_PAD.encode(bytes::<24>(&*self.random));
        let json = serde_json::to_string(request).map_err(|e| StoreError::Corrupt(e.to_string()))?;
        let it = (secret::hash(&name), json, self.now().plus_ms(REQUEST_TTL_MS));
        self.store.write(it, |tx, (hash, json, at)| Box::pin(begin(tx, hash, json, *at))).await?;
        Ok(name)
    }

    pub async fn authorize_request(&self, name: &str) -> Result<AuthorizeRequest, ConsentError> {
        let by = ByHash { hash: secret::hash(name), code_hash: String::new(), now: self.now() };
        Ok(self.store.read(&by, |tx, it| Box::pin(pending(tx, it))).await?.0)
    }

    /// What the connect code would grant. A wrong one counts.
    pub async fn offer(&self, name: &str, connect_code: &str) -> Result<Offer, ConsentError> {
        let code_hash = secret::hash(&secret::normal_code(connect_code));
        let by = ByHash { hash: secret::hash(name), code_hash, now: self.now() };
        let offered = self.store.write(by, |tx, it| Box::pin(offer(tx, it))).await?;
        offered.map_err(|tries_left| if tries_left > 0 { ConsentError::BadCode { tries_left } } else { ConsentError::Ended })
    }

    /// Grants. A second submit of the same form gives the same code again.
    pub async fn allow(&self, allow: &Allow) -> Result<String, ConsentError> {
        let code = URL_SAFE_NO_PAD.encode(hmac(&self.key().await?, "code", &allow.request));
        let decide = Decide {
            request_hash: secret::hash(&allow.request),
            connect_hash: secret::hash(&secret::normal_code(&allow.connect_code)),
            continue_as: allow.continue_as,
            new_agent: AgentId::from_random(bytes(&*self.random)),
            code: code.clone(),
            now: self.now(),
        };
        self.store.write(decide, |tx, it| Box::pin(decided(tx, it))).await?;
        Ok(code)
    }

    pub async fn redeem(&self, code: &str, client_id: &str, redirect_uri: Option<&str>, verifier: &str) -> Result<Tokens, TokenError> {
        let access = secret::new_token(TokenKind::Access, &*self.random);
        let refresh = secret::new_token(TokenKind::Refresh, &*self.random);
        let redeem = Redeem {
            code_hash: secret::hash(code),
            client_id: client_id.to_owned(),
            redirect_uri: redirect_uri.map(str::to_owned),
            challenge: challenge_of(verifier),
            access_hash: secret::hash(&access),
            refresh_hash: secret::hash(&refresh),
            now: self.now(),
        };
        let scopes = self.store.write(redeem, |tx, it| Box::pin(redeemed(tx, it))).await?.ok_or(TokenError::InvalidGrant)?;
        Ok(Tokens { access, refresh, scopes })
    }

    pub async fn refresh(&self, old: &str, client_id: &str, scopes: Option<Vec<String>>) -> Result<Tokens, TokenError> {
        let access = secret::new_token(TokenKind::Access, &*self.random);
        let successor = secret::token_from(TokenKind::Refresh, &hmac(&self.key().await?, "refresh", old));
        let refresh = Refresh {
            old_hash: secret::hash(old),
            client_id: client_id.to_owned(),
            scopes,
            access_hash: secret::hash(&access),
            successor_hash: secret::hash(&successor),
            now: self.now(),
        };
        let scopes = self.store.write(refresh, |tx, it| Box::pin(refreshed(tx, it))).await?.ok_or(TokenError::InvalidGrant)?;
        Ok(Tokens { access, refresh: successor, scopes })
    }

    /// RFC 7009: a refresh token takes its grant's tokens with it, an access token only itself. The grant stays listed.
    pub async fn revoke_token(&self, token: &str, client_id: &str) -> Result<(), StoreError> {
        let it = (secret::hash(token), quoted(client_id));
        self.store.write(it, |tx, (hash, client)| Box::pin(revoke_token(tx, hash, client))).await
    }
}

async fn read_key(tx: &mut Tx) -> Result<Option<String>, StoreError> {
    let row = tx.row("SELECT value FROM settings WHERE name = 'server_key'", &[]).await?;
    row.map(|row| row.text(0).map(str::to_owned)).transpose()
}

async fn make_key(tx: &mut Tx, fresh: &String) -> Result<String, StoreError> {
    tx.execute("INSERT INTO settings (name, value) VALUES ('server_key', $1) ON CONFLICT (name) DO NOTHING", params![fresh]).await?;
    read_key(tx).await?.ok_or_else(|| StoreError::Corrupt("the server has no key".into()))
}

async fn new_connect_code(tx: &mut Tx, owner: OwnerId, grant: &GrantRequest, hash: &String, expires_at: Timestamp) -> Result<(), AgentError> {
    for project in &grant.project_ids {
        let sql = "SELECT 1 FROM projects WHERE project_id = $1 AND owner_id = $2 AND deleted_at IS NULL";
        if tx.row(sql, params![*project, owner]).await?.is_none() {
            return Err(AgentError::ProjectNotFound);
        }
    }
    let json = serde_json::to_string(grant).map_err(|e| StoreError::Corrupt(e.to_string()))?;
    let sql = "INSERT INTO connect_codes (code_hash, owner_id, grant_json, expires_at) VALUES ($1, $2, $3, $4)";
    tx.execute(sql, params![hash, owner, json, expires_at]).await?;
    Ok(())
}

async fn register(tx: &mut Tx, client: &Client, kept: bool, now: Timestamp) -> Result<(), StoreError> {
    let json = serde_json::to_string(client).map_err(|e| StoreError::Corrupt(e.to_string()))?;
    let sql = "INSERT INTO clients (client_hash, client_json, created_at, used_at) VALUES ($1, $2, $3, $4)";
    tx.execute(sql, params![secret::hash(&client.client_id), json, now, kept.then_some(now)]).await.map(drop)
}

async fn client(tx: &mut Tx, hash: &String) -> Result<Option<Client>, StoreError> {
    let row = tx.row("SELECT client_json FROM clients WHERE client_hash = $1", params![hash]).await?;
    row.map(|row| serde_json::from_str(row.text(0)?).map_err(|e| StoreError::Corrupt(e.to_string()))).transpose()
}

async fn begin(tx: &mut Tx, hash: &String, json: &String, expires_at: Timestamp) -> Result<(), StoreError> {
    let sql = "INSERT INTO authorize_requests (request_hash, request_json, tries, expires_at) VALUES ($1, $2, 0, $3)";
    tx.execute(sql, params![hash, json, expires_at]).await.map(drop)
}

/// The request and the wrong tries so far.
async fn pending(tx: &mut Tx, it: &ByHash) -> Result<(AuthorizeRequest, i64), ConsentError> {
    let sql = "SELECT request_json, tries FROM authorize_requests WHERE request_hash = $1 AND expires_at > $2";
    let row = tx.row(sql, params![&it.hash, it.now]).await?.ok_or(ConsentError::Ended)?;
    let tries = row.int(1)?;
    if tries >= CONNECT_CODE_TRIES_MAX {
        return Err(ConsentError::Ended);
    }
    Ok((serde_json::from_str(row.text(0)?).map_err(|e| StoreError::Corrupt(e.to_string()))?, tries))
}

async fn code_grant(tx: &mut Tx, code_hash: &str, now: Timestamp) -> Result<Option<(OwnerId, GrantRequest)>, StoreError> {
    let sql = "SELECT owner_id, grant_json FROM connect_codes WHERE code_hash = $1 AND used_at IS NULL AND expires_at > $2";
    let Some(row) = tx.row(sql, params![code_hash, now]).await? else { return Ok(None) };
    Ok(Some((row.id(0)?, serde_json::from_str(row.text(1)?).map_err(|e| StoreError::Corrupt(e.to_string()))?)))
}

fn scopes_of(request: &AuthorizeRequest, grant: &GrantRequest) -> Vec<String> {
    grant.scopes.iter().filter(|s| request.scopes.contains(s)).cloned().collect()
}

/// `Err(tries left)` is kept by the commit: a wrong code must count.
async fn offer(tx: &mut Tx, it: &ByHash) -> Result<Result<Offer, i64>, ConsentError> {
    let (request, tries) = pending(tx, it).await?;
    let Some((owner, grant)) = code_grant(tx, &it.code_hash, it.now).await? else {
        tx.execute("UPDATE authorize_requests SET tries = tries + 1 WHERE request_hash = $1", params![&it.hash]).await?;
        return Ok(Err(CONNECT_CODE_TRIES_MAX - tries - 1));
    };
    let scopes = scopes_of(&request, &grant);
    if scopes.is_empty() {
        return Err(ConsentError::NoScope);
    }
    let row = tx.row("SELECT name_json FROM owners WHERE owner_id = $1", params![owner]).await?;
    let owner_name = row.ok_or_else(|| StoreError::Corrupt("a connect code without an owner".into()))?.quoted(0)?;
    let sql = "SELECT project_id, name_json FROM projects WHERE owner_id = $1 AND deleted_at IS NULL ORDER BY created_at, project_id";
    let mut projects = Vec::new();
    for row in tx.query(sql, params![owner]).await? {
        let project = Project { project_id: row.id(0)?, name: row.quoted(1)? };
        if grant.project_ids.contains(&project.project_id) {
            projects.push(project);
        }
    }
    let sql = "SELECT agent_id, name_json, client_id_json FROM agents WHERE owner_id = $1 AND kind = 'oauth' AND revoked_at IS NULL ORDER BY created_at DESC, agent_id LIMIT 20";
    let this_client = quoted(&request.client_id);
    let mut earlier = Vec::new();
    for row in tx.query(sql, params![owner]).await? {
        earlier.push((row.id(0)?, row.quoted(1)?, request.verified && row.opt_text(2)? == Some(&this_client)));
    }
    Ok(Ok(Offer { owner: owner_name, projects, scopes, earlier }))
}

async fn decided(tx: &mut Tx, it: &Decide) -> Result<(), ConsentError> {
    let by = ByHash { hash: it.request_hash.clone(), code_hash: it.connect_hash.clone(), now: it.now };
    let (request, _) = pending(tx, &by).await?;
    // Submitted before: the code that was given stands, whatever else the second form says.
    let code_hash = secret::hash(&it.code);
    if tx.row("SELECT 1 FROM authorization_codes WHERE code_hash = $1", params![&code_hash]).await?.is_some() {
        return Ok(());
    }
    let Some((owner, mut grant)) = code_grant(tx, &it.connect_hash, it.now).await? else { return Err(ConsentError::BadCode { tries_left: 0 }) };
    let spent =
        tx.execute("UPDATE connect_codes SET used_at = $2 WHERE code_hash = $1 AND used_at IS NULL", params![&it.connect_hash, it.now]).await?;
    if spent == 0 {
        return Err(ConsentError::BadCode { tries_left: 0 });
    }
    grant.scopes = scopes_of(&request, &grant);
    grant.name = if request.client_name.trim().is_empty() { grant.name } else { request.client_name.clone() };
    let scopes = grant.scopes.join(" ");
    let agent = match it.continue_as {
        Some(agent) => continue_as(tx, owner, agent, &grant).await?,
        None => {
            let new = NewAgent { agent: it.new_agent, owner, grant, kind: "oauth", client_id: Some(request.client_id.clone()), now: it.now };
            agent::make(tx, &new).await?;
            it.new_agent
        }
    };
    let sql = "INSERT INTO authorization_codes (code_hash, agent_id, request_json, scopes, expires_at) VALUES ($1, $2, $3, $4, $5)";
    let json = serde_json::to_string(&request).map_err(|e| StoreError::Corrupt(e.to_string()))?;
    tx.execute(sql, params![code_hash, agent, json, scopes, it.now.plus_ms(AUTHORIZATION_CODE_TTL_MS)]).await?;
    tx.execute("UPDATE clients SET used_at = $2 WHERE client_hash = $1", params![secret::hash(&request.client_id), it.now]).await?;
    Ok(())
}

/// The same agent goes on under the new consent: its runs and keys stay its own, its old tokens die.
async fn continue_as(tx: &mut Tx, owner: OwnerId, agent: AgentId, grant: &GrantRequest) -> Result<AgentId, ConsentError> {
    super::lock_owner(tx, owner).await?;
    let mut scopes = grant.scopes.clone();
    scopes.sort_unstable();
    let sql = "UPDATE agents SET scopes = $3 WHERE agent_id = $1 AND owner_id = $2 AND kind = 'oauth' AND revoked_at IS NULL";
    if tx.execute(sql, params![agent, owner, scopes.join(" ")]).await? == 0 {
        return Err(ConsentError::NoSuchAgent);
    }
    tx.execute("DELETE FROM tokens WHERE agent_id = $1", params![agent]).await?;
    tx.execute("DELETE FROM agent_projects WHERE agent_id = $1", params![agent]).await?;
    for project in &grant.project_ids {
        let sql = "INSERT INTO agent_projects (agent_id, project_id) VALUES ($1, $2) ON CONFLICT (agent_id, project_id) DO NOTHING";
        tx.execute(sql, params![agent, *project]).await?;
    }
    Ok(agent)
}

/// `None` refuses and is kept by the commit: a code used twice ends its grant.
async fn redeemed(tx: &mut Tx, it: &Redeem) -> Result<Option<Vec<String>>, TokenError> {
    let sql = "SELECT agent_id, request_json, scopes, expires_at, used_at FROM authorization_codes WHERE code_hash = $1";
    let Some(row) = tx.row(sql, params![&it.code_hash]).await? else { return Ok(None) };
    let agent: AgentId = row.id(0)?;
    let request: AuthorizeRequest = serde_json::from_str(row.text(1)?).map_err(|e| StoreError::Corrupt(e.to_string()))?;
    let is_theirs = request.client_id == it.client_id && request.code_challenge == it.challenge;
    let same_place = it.redirect_uri.as_deref().is_none_or(|uri| uri == request.redirect_uri);
    if row.opt_int(4)?.is_some() {
        agent::end_grant(tx, agent, it.now).await?;
        tracing::warn!(%agent, "an authorization code came twice; its grant was revoked");
        return Ok(None);
    }
    if !is_theirs || !same_place || row.time(3)? <= it.now {
        return Ok(None);
    }
    let spent =
        tx.execute("UPDATE authorization_codes SET used_at = $2 WHERE code_hash = $1 AND used_at IS NULL", params![&it.code_hash, it.now]).await?;
    if spent == 0 {
        return Ok(None);
    }
    let scopes = row.text(2)?.to_owned();
    let until = it.now.plus_ms(CONSENT_TTL_MS);
    insert_token(tx, &it.access_hash, agent, "access", &it.client_id, &scopes, it.now.plus_ms(ACCESS_TOKEN_TTL_MS), until, it.now).await?;
    insert_token(tx, &it.refresh_hash, agent, "refresh", &it.client_id, &scopes, it.now.plus_ms(REFRESH_TOKEN_TTL_MS), until, it.now).await?;
    Ok(Some(words(&scopes)))
}

fn words(scopes: &str) -> Vec<String> {
    scopes.split_ascii_whitespace().map(str::to_owned).collect()
}

#[expect(clippy::too_many_arguments, reason = "one row, one statement")]
async fn insert_token(
    tx: &mut Tx,
    hash: &str,
    agent: AgentId,
    kind: &str,
    client_id: &str,
    scopes: &str,
    expires_at: Timestamp,
    until: Timestamp,
    now: Timestamp,
) -> Result<(), StoreError> {
    let sql = "INSERT INTO tokens (token_hash, agent_id, kind, client_id_json, scopes, expires_at, consent_until, created_at)
               VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT (token_hash) DO NOTHING";
    tx.execute(sql, params![hash, agent, kind, quoted(client_id), scopes, expires_at.min(until), until, now]).await.map(drop)
}

/// `None` refuses and is kept by the commit: a refresh token used after its grace ends its grant.
async fn refreshed(tx: &mut Tx, it: &Refresh) -> Result<Option<Vec<String>>, TokenError> {
    let sql = "SELECT t.agent_id, t.scopes, t.expires_at, t.consent_until, t.rotated_at, t.client_id_json FROM tokens t JOIN agents a ON a.agent_id = t.agent_id
                WHERE t.token_hash = $1 AND t.kind = 'refresh' AND a.revoked_at IS NULL";
    let Some(row) = tx.row(sql, params![&it.old_hash]).await? else { return Ok(None) };
    let agent: AgentId = row.id(0)?;
    if row.opt_text(5)? != Some(&quoted(&it.client_id)) || row.time(2)? <= it.now {
        return Ok(None);
    }
    if row.opt_time(4)?.is_some_and(|at| it.now.since_ms(at) > REFRESH_GRACE_MS) {
        agent::end_grant(tx, agent, it.now).await?;
        tracing::warn!(%agent, "a spent refresh token came again; its grant was revoked");
        return Ok(None);
    }
    let (all, until) = (row.text(1)?.to_owned(), row.time(3)?);
    let scopes = match &it.scopes {
        None => all.clone(),
        Some(narrower) if narrower.iter().all(|s| words(&all).contains(s)) => narrower.join(" "),
        Some(_) => return Err(TokenError::InvalidScope),
    };
    tx.execute("UPDATE tokens SET rotated_at = coalesce(rotated_at, $2) WHERE token_hash = $1", params![&it.old_hash, it.now]).await?;
    insert_token(tx, &it.access_hash, agent, "access", &it.client_id, &scopes, it.now.plus_ms(ACCESS_TOKEN_TTL_MS), until, it.now).await?;
    insert_token(tx, &it.successor_hash, agent, "refresh", &it.client_id, &all, it.now.plus_ms(REFRESH_TOKEN_TTL_MS), until, it.now).await?;
    Ok(Some(words(&scopes)))
}

async fn revoke_token(tx: &mut Tx, hash: &String, client: &String) -> Result<(), StoreError> {
    let sql = "SELECT agent_id, kind FROM tokens WHERE token_hash = $1 AND client_id_json = $2";
    let Some(row) = tx.row(sql, params![hash, client]).await? else { return Ok(()) };
    if row.text(1)? == "refresh" {
        tx.execute("DELETE FROM tokens WHERE agent_id = $1", params![row.id::<AgentId>(0)?]).await?;
    } else {
        tx.execute("DELETE FROM tokens WHERE token_hash = $1", params![hash]).await?;
    }
    Ok(())
}
