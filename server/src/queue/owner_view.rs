//! What the owner's browser page reads, and how it is signed in.
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use domain::{
    GraphSessionId, OwnerId, Timestamp,
    limits::{CONNECT_CODE_TTL_MS, SOURCE_BYTES_MAX},
    wire::relay::OwnedCommand,
};

use super::{Device, Queue, commands::CommandFilter, owner::check_name, owner_reads::STILL_SHARED};
use crate::{
    ports::bytes,
    secret,
    store::{Collides, StoreError, Tx, params, quoted},
};

/// How long a browser stays signed in.
pub const SESSION_TTL_MS: i64 = 12 * 3_600_000;
const COMMANDS_SHOWN: usize = 50;

#[derive(Debug, thiserror::Error)]
pub enum ReadableError {
    #[error("this Graph session is not this device's")]
    NotYours,
    #[error("{0}")]
    Malformed(String),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Collides for ReadableError {
    fn store_error(&self) -> Option<&StoreError> {
        if let Self::Store(e) = self { Some(e) } else { None }
    }
}

/// Everything the page shows.
#[derive(Debug, Clone)]
pub struct Overview {
    pub owner: String,
    pub projects: Vec<String>,
    pub commands: Vec<OwnedCommand>,
    pub graphs: Vec<(GraphSessionId, String)>,
}

/// A Graph's text for reading in the browser.
#[derive(Debug, Clone, serde::Deserialize)]
pub struct GraphText {
    pub name: String,
    pub text: String,
}

impl Queue {
    pub async fn sign_in_code(&self, owner: OwnerId) -> Result<(String, Timestamp), StoreError> {
        let code = secret::new_code(&*self.random);
        let expires_at = self.now().plus_ms(CONNECT_CODE_TTL_MS);
        let it = (secret::hash(&code), owner, expires_at);
        self.store.write(it, |tx, (hash, owner, at)| Box::pin(new_code(tx, hash, *owner, *at))).await?;
        Ok((code, expires_at))
    }

    /// The cookie of a new browser session, for a code that is right and unused.
    pub async fn sign_in(&self, code: &str) -> Result<Option<String>, StoreError> {
        let cookie = URL_SAFE_NO_PAD.encode(bytes::<32>(&*self.random));
        let it = (secret::hash(&secret::normal_code(code)), secret::hash(&cookie), self.now());
        let known = self.store.write(it, |tx, (code, cookie, now)| Box::pin(sign_in(tx, code, cookie, *now))).await?;
        Ok(known.then_some(cookie))
    }

    pub async fn sign_out(&self, cookie: &str) -> Result<(), StoreError> {
        self.store.write(secret::hash(cookie), |tx, hash| Box::pin(sign_out(tx, hash))).await
    }

    pub(crate) async fn signed_in(&self, cookie: &str) -> Result<Option<OwnerId>, StoreError> {
        self.store.read(&(secret::hash(cookie), self.now()), |tx, (hash, now)| Box::pin(owner_of(tx, hash, *now))).await
    }

    pub async fn overview(&self, cookie: &str) -> Result<Option<Overview>, StoreError> {
        let Some(owner) = self.signed_in(cookie).await? else { return Ok(None) };
        let (name, projects, graphs) = self.store.read(&owner, |tx, owner| Box::pin(read(tx, *owner))).await?;
        // No device asks, so arguments and results of none are shown.
        let nobody = Device { id: domain::DeviceId::from_random([0; 16]), owner, paused: false };
        let filter = CommandFilter { limit: COMMANDS_SHOWN, ..CommandFilter::default() };
        let commands = self.owners_commands(&nobody, filter).await?.commands;
        Ok(Some(Overview { owner: name, projects, commands, graphs }))
    }

    pub async fn readable_graph(&self, cookie: &str, id: GraphSessionId) -> Result<Option<(String, String)>, StoreError> {
        let Some(owner) = self.signed_in(cookie).await? else { return Ok(None) };
        self.store.read(&(owner, id), |tx, (owner, id)| Box::pin(graph(tx, *owner, *id))).await
    }

    /// Only where the owner chose so, on the device that holds the session.
    pub async fn put_graph(&self, device: &Device, id: GraphSessionId, graph: GraphText) -> Result<(), ReadableError> {
        check_name("name", &graph.name).map_err(ReadableError::Malformed)?;
        if graph.text.len() > SOURCE_BYTES_MAX {
            return Err(ReadableError::Malformed(format!("text has {} bytes; at most {SOURCE_BYTES_MAX} are allowed", graph.text.len())));
        }
        let it = (device.clone(), id, graph, self.now());
        self.store.write(it, |tx, (device, id, graph, now)| Box::pin(put(tx, device, *id, graph, *now))).await
    }

    /// The texts this device has here; each is of a session it holds, so they are not many.
    pub async fn graphs_of(&self, device: &Device) -> Result<Vec<GraphSessionId>, StoreError> {
        self.store.read(device, |tx, device| Box::pin(texts_of(tx, device))).await
    }

    pub async fn delete_graph(&self, device: &Device, id: GraphSessionId) -> Result<(), StoreError> {
        self.store.write((device.clone(), id), |tx, (device, id)| Box::pin(delete(tx, device, *id))).await
    }
}

async fn new_code(tx: &mut Tx, hash: &String, owner: OwnerId, expires_at: Timestamp) -> Result<(), StoreError> {
    tx.execute("INSERT INTO sign_in_codes (code_hash, owner_id, expires_at) VALUES ($1, $2, $3)", params![hash, owner, expires_at]).await.map(drop)
}

async fn sign_in(tx: &mut Tx, code: &String, cookie: &String, now: Timestamp) -> Result<bool, StoreError> {
    let sql = "DELETE FROM sign_in_codes WHERE code_hash = $1 AND expires_at > $2 RETURNING owner_id";
    let Some(row) = tx.row(sql, params![code, now]).await? else { return Ok(false) };
    let sql = "INSERT INTO browser_sessions (cookie_hash, owner_id, expires_at) VALUES ($1, $2, $3)";
    tx.execute(sql, params![cookie, row.id::<OwnerId>(0)?, now.plus_ms(SESSION_TTL_MS)]).await?;
    Ok(true)
}

async fn sign_out(tx: &mut Tx, hash: &String) -> Result<(), StoreError> {
    tx.execute("DELETE FROM browser_sessions WHERE cookie_hash = $1", params![hash]).await.map(drop)
}

async fn owner_of(tx: &mut Tx, hash: &String, now: Timestamp) -> Result<Option<OwnerId>, StoreError> {
    let row = tx.row("SELECT owner_id FROM browser_sessions WHERE cookie_hash = $1 AND expires_at > $2", params![hash, now]).await?;
    row.map(|row| row.id(0)).transpose()
}

type Read = (String, Vec<String>, Vec<(GraphSessionId, String)>);

async fn read(tx: &mut Tx, owner: OwnerId) -> Result<Read, StoreError> {
    let row = tx.row("SELECT name_json FROM owners WHERE owner_id = $1", params![owner]).await?;
    let name = row.map_or(Ok(String::new()), |row| row.quoted(0))?;
    let sql = "SELECT name_json FROM projects WHERE owner_id = $1 AND deleted_at IS NULL ORDER BY created_at, project_id";
    let projects = tx.query(sql, params![owner]).await?.iter().map(|row| row.quoted(0)).collect::<Result<_, _>>()?;
    let sql = &format!(
        "SELECT r.graph_session_id, r.name_json FROM readable_graphs r WHERE r.owner_id = $1 AND {STILL_SHARED} ORDER BY r.graph_session_id LIMIT 500"
    );
    let graphs = tx.query(sql, params![owner]).await?.iter().map(|row| Ok((row.id(0)?, row.quoted(1)?))).collect::<Result<_, StoreError>>()?;
    Ok((name, projects, graphs))
}

async fn graph(tx: &mut Tx, owner: OwnerId, id: GraphSessionId) -> Result<Option<(String, String)>, StoreError> {
    let sql = format!("SELECT r.name_json, r.text_json FROM readable_graphs r WHERE r.graph_session_id = $1 AND r.owner_id = $2 AND {STILL_SHARED}");
    let row = tx.row(&sql, params![id, owner]).await?;
    row.map(|row| Ok((row.quoted(0)?, row.quoted(1)?))).transpose()
}

async fn put(tx: &mut Tx, device: &Device, id: GraphSessionId, graph: &GraphText, now: Timestamp) -> Result<(), ReadableError> {
    let sql = "INSERT INTO session_holders (graph_session_id, device_id) VALUES ($1, $2) ON CONFLICT (graph_session_id) DO NOTHING";
    tx.execute(sql, params![id, device.id]).await?;
    if tx.row("SELECT 1 FROM session_holders WHERE graph_session_id = $1 AND device_id = $2", params![id, device.id]).await?.is_none() {
        return Err(ReadableError::NotYours);
    }
    let sql = "INSERT INTO readable_graphs (graph_session_id, owner_id, device_id, name_json, text_json, updated_at) VALUES ($1, $2, $3, $4, $5, $6)
               ON CONFLICT (graph_session_id) DO UPDATE SET owner_id = excluded.owner_id, device_id = excluded.device_id, name_json = excluded.name_json,
                 text_json = excluded.text_json, updated_at = excluded.updated_at";
    tx.execute(sql, params![id, device.owner, device.id, quoted(&graph.name), quoted(&graph.text), now]).await?;
    Ok(())
}

async fn texts_of(tx: &mut Tx, device: &Device) -> Result<Vec<GraphSessionId>, StoreError> {
    let sql = "SELECT graph_session_id FROM readable_graphs WHERE device_id = $1 ORDER BY graph_session_id";
    tx.query(sql, params![device.id]).await?.iter().map(|row| row.id(0)).collect()
}

async fn delete(tx: &mut Tx, device: &Device, id: GraphSessionId) -> Result<(), StoreError> {
    tx.execute("DELETE FROM readable_graphs WHERE graph_session_id = $1 AND device_id = $2", params![id, device.id]).await.map(drop)
}
