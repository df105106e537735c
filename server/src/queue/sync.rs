//! One sync: the device says what is ticked for a project and is told what is queued for it.
//!
//! A sync that brings nothing new writes nothing. Delivery is not a claim: what is offered stays queued.
use domain::{
    CommandId, Timestamp,
    limits::{SESSIONS_PER_SYNC_MAX, SYNC_ANSWER_BYTES_MAX},
    text::PROJECT_NOT_FOUND,
    wire::relay::{OfferedCommand, Pickup, RelayState, RunningCommand, SessionStatus, SharedSession, SyncAnswer, SyncRequest},
};

use super::{
    Device, Queue,
    arrows::{self, Withdrawn},
    lock_owner, schema_check,
};
use crate::{
    secret,
    store::{Collides, StoreError, Tx, params, quoted},
};

#[derive(Debug, thiserror::Error)]
pub enum SyncError {
    #[error("{PROJECT_NOT_FOUND}")]
    ProjectNotFound,
    #[error("{0} sessions were sent; at most {SESSIONS_PER_SYNC_MAX} are allowed for one project, and the last list stands")]
    TooMany(usize),
    #[error("session {at}: {why}")]
    BadSession { at: usize, why: String },
    #[error("Graph session {session} is held by {holder}")]
    HeldByAnother { session: String, holder: String },
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Collides for SyncError {
    fn store_error(&self) -> Option<&StoreError> {
        if let Self::Store(e) = self { Some(e) } else { None }
    }
}

/// Room kept for the members around the commands in an answer.
const ENVELOPE_BYTES: usize = 64 * 1024;
/// What one offered command takes beside its arguments, at most.
const COMMAND_BYTES: usize = 1_280;

pub(super) const WAITING: &str = "SELECT seq, arguments_bytes FROM commands
  WHERE device_id = $1 AND project_id = $2 AND status = 'queued' AND expires_at > $3 ORDER BY seq LIMIT 1000";
pub(super) const RUNNING: &str =
    "SELECT command_id, execution_id FROM commands WHERE device_id = $1 AND project_id = $2 AND status = 'running' ORDER BY seq";

struct Sync {
    device: Device,
    request: SyncRequest,
    list_hash: String,
    now: Timestamp,
}

/// What stands before anything is written.
struct Standing {
    revision: u64,
    list_hash: String,
    disabled: bool,
    relay: RelayState,
}

impl Queue {
    pub async fn sync(&self, device: &Device, request: SyncRequest) -> Result<SyncAnswer, SyncError> {
        check(&request)?;
        let list_hash = secret::hash(&serde_json::to_string(&request.sessions).map_err(|e| StoreError::Corrupt(e.to_string()))?);
        let sync = Sync { device: device.clone(), request, list_hash, now: self.now() };
        if let Some(answer) = self.store.read(&sync, |tx, it| Box::pin(nothing_new(tx, it))).await? {
            return Ok(answer);
        }
        let news = Sync { device: sync.device.clone(), request: sync.request.clone(), list_hash: sync.list_hash.clone(), now: sync.now };
        self.store.write(news, |tx, it| Box::pin(take(tx, it))).await?;
        self.store.read(&sync, |tx, it| Box::pin(after_news(tx, it))).await
    }
}

fn check(request: &SyncRequest) -> Result<(), SyncError> {
    let sessions = &request.sessions;
    if sessions.len() > SESSIONS_PER_SYNC_MAX {
        return Err(SyncError::TooMany(sessions.len()));
    }
    let bad = |at: usize, why: String| SyncError::BadSession { at, why };
    for (at, session) in sessions.iter().enumerate() {
        session.check().map_err(|why| bad(at, why))?;
        if i64::try_from(session.version).is_err() {
            return Err(bad(at, "version is too large".into()));
        }
        if let Some(schema) = &session.arguments_schema {
            schema_check::compile(schema.as_str()).map_err(|why| bad(at, format!("arguments_schema cannot be used: {why}")))?;
        }
        let earlier = &sessions[..at];
        if earlier.iter().any(|s| s.graph_session_id == session.graph_session_id) {
            return Err(bad(at, format!("graph_session_id {} is listed twice", session.graph_session_id)));
        }
        if earlier.iter().any(|s| s.slug == session.slug) {
            return Err(bad(at, format!("slug {} is listed twice; a slug is unique on its device", session.slug)));
        }
    }
    Ok(())
}

fn is_news(sync: &Sync, standing: &Standing) -> bool {
    let request = &sync.request;
    let relay_changed = request.relay.is_some_and(|relay| relay != standing.relay);
    let newer = request.revision >= standing.revision;
    let differs = request.revision != standing.revision || sync.list_hash != standing.list_hash || request.disabled != standing.disabled;
    relay_changed || (newer && differs)
}

async fn project_stands(tx: &mut Tx, it: &Sync) -> Result<(), SyncError> {
    let sql = "SELECT 1 FROM projects WHERE project_id = $1 AND owner_id = $2 AND deleted_at IS NULL";
    tx.row(sql, params![it.request.project_id, it.device.owner]).await?.map(drop).ok_or(SyncError::ProjectNotFound)
}

async fn standing(tx: &mut Tx, it: &Sync) -> Result<Standing, SyncError> {
    let sql = "SELECT d.pickup, d.paused, s.revision, s.list_hash, s.disabled
                 FROM devices d JOIN projects p ON p.project_id = $2 AND p.owner_id = d.owner_id AND p.deleted_at IS NULL
                 LEFT JOIN shares s ON s.device_id = d.device_id AND s.project_id = p.project_id WHERE d.device_id = $1";
    let row = tx.row(sql, params![it.device.id, it.request.project_id]).await?.ok_or(SyncError::ProjectNotFound)?;
    let pickup = if row.text(0)? == "doorbell" { Pickup::Doorbell } else { Pickup::Poll };
    Ok(Standing {
        relay: RelayState { pickup, paused: row.flag(1)? },
        revision: row.opt_int(2)?.unwrap_or(0) as u64,
        list_hash: row.opt_text(3)?.unwrap_or_default().to_owned(),
        disabled: row.opt_int(4)? == Some(1),
    })
}

/// Takes the list, unless a newer one stands. The owner's lock comes first: whoever queues sees either list whole.
async fn take(tx: &mut Tx, it: &Sync) -> Result<(), SyncError> {
    lock_owner(tx, it.device.owner).await?;
    project_stands(tx, it).await?;
    let (device, request) = (it.device.id, &it.request);
    if let Some(relay) = request.relay {
        let pickup = match relay.pickup {
            Pickup::Doorbell => "doorbell",
            Pickup::Poll => "poll",
        };
        tx.execute("UPDATE devices SET pickup = $2, paused = $3 WHERE device_id = $1", params![device, pickup, relay.paused]).await?;
    }
    let sql = "INSERT INTO shares (device_id, project_id, revision, list_hash, disabled) VALUES ($1, $2, $3, $4, $5)
               ON CONFLICT (device_id, project_id) DO UPDATE SET revision = excluded.revision, list_hash = excluded.list_hash, disabled = excluded.disabled
                WHERE shares.revision <= excluded.revision";
    let revision = i64::try_from(request.revision).unwrap_or(i64::MAX);
    let taken = tx.execute(sql, params![device, request.project_id, revision, &it.list_hash, request.disabled]).await?;
    if taken == 0 {
        return Ok(()); // crossed on the wire: the newer list stands
    }
    tx.execute("DELETE FROM shared_sessions WHERE project_id = $1 AND device_id = $2", params![request.project_id, device]).await?;
    for session in &request.sessions {
        share(tx, it, session).await?;
    }
    if request.disabled {
        arrows::withdraw(tx, Withdrawn::Disabled(device, request.project_id), it.now).await?;
    }
    Ok(())
}

async fn share(tx: &mut Tx, it: &Sync, session: &SharedSession) -> Result<(), SyncError> {
    let id = session.graph_session_id;
    // The first device to sync a session holds it.
    let sql = "INSERT INTO session_holders (graph_session_id, device_id) VALUES ($1, $2) ON CONFLICT (graph_session_id) DO NOTHING";
    tx.execute(sql, params![id, it.device.id]).await?;
    let sql = "SELECT h.device_id, d.owner_id, d.name_json FROM session_holders h JOIN devices d ON d.device_id = h.device_id WHERE h.graph_session_id = $1";
    if let Some(row) = tx.row(sql, params![id]).await?
        && row.id::<domain::DeviceId>(0)? != it.device.id
    {
        // Another owner's device is not named.
        let own = row.id::<domain::OwnerId>(1)? == it.device.owner;
        let holder = if own { format!("your device \"{}\"", row.quoted(2)?) } else { "another device".into() };
        return Err(SyncError::HeldByAnother { session: id.to_string(), holder });
    }
    let sql = "INSERT INTO shared_sessions (project_id, graph_session_id, device_id, name_json, description_json, slug, version, status, arguments_schema, asks_json)
               VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)";
    let params = params![
        it.request.project_id,
        id,
        it.device.id,
        quoted(&session.name),
        quoted(&session.description),
        &session.slug,
        session.version as i64,
        status_word(session.status),
        session.arguments_schema.as_ref(),
        session.asks.as_ref().map(|asks| serde_json::Value::from(asks.clone()).to_string())
    ];
    tx.execute(sql, params).await?;
    Ok(())
}

/// The answer, unless the sync brings news that is to be taken first.
async fn nothing_new(tx: &mut Tx, it: &Sync) -> Result<Option<SyncAnswer>, SyncError> {
    let standing = standing(tx, it).await?;
    if is_news(it, &standing) { Ok(None) } else { offer(tx, it, standing).await.map(Some) }
}

async fn after_news(tx: &mut Tx, it: &Sync) -> Result<SyncAnswer, SyncError> {
    let standing = standing(tx, it).await?;
    offer(tx, it, standing).await
}

/// The queued commands of this device in this project, oldest first, as many as fit into an answer (at least one).
async fn offer(tx: &mut Tx, it: &Sync, standing: Standing) -> Result<SyncAnswer, SyncError> {
    let (device, project) = (it.device.id, it.request.project_id);
    let mut answer =
        SyncAnswer { commands: Vec::new(), more: false, running: running(tx, it).await?, revision: standing.revision, server_time: it.now };
    if it.request.metadata_only || standing.disabled {
        return Ok(answer);
    }
    let waiting = tx.query(WAITING, params![device, project, it.now]).await?;
    let (mut last, mut bytes) = (None, ENVELOPE_BYTES);
    for row in &waiting {
        bytes += row.int(1)? as usize + COMMAND_BYTES;
        if last.is_some() && bytes > SYNC_ANSWER_BYTES_MAX {
            answer.more = true;
            break;
        }
        last = Some(row.int(0)?);
    }
    let Some(last) = last else { return Ok(answer) };
    let sql = "SELECT c.command_id, c.graph_session_id, c.slug, c.seq, c.arguments, c.queued_at, c.expires_at, a.name_json
                 FROM commands c LEFT JOIN agents a ON a.agent_id = c.agent_id
                WHERE c.device_id = $1 AND c.project_id = $2 AND c.status = 'queued' AND c.expires_at > $3 AND c.seq <= $4 ORDER BY c.seq";
    for row in tx.query(sql, params![device, project, it.now, last]).await? {
        answer.commands.push(OfferedCommand {
            command_id: row.text(0)?.to_owned(),
            graph_session_id: row.id(1)?,
            slug: row.text(2)?.to_owned(),
            seq: row.int(3)? as u64,
            arguments: row.raw(4)?,
            queued_at: row.time(5)?,
            expires_at: row.time(6)?,
            agent: if row.opt_text(7)?.is_some() { Some(row.quoted(7)?) } else { None },
        });
    }
    Ok(answer)
}

async fn running(tx: &mut Tx, it: &Sync) -> Result<Vec<RunningCommand>, StoreError> {
    let rows = tx.query(RUNNING, params![it.device.id, it.request.project_id]).await?;
    rows.iter().map(|row| Ok(RunningCommand { command_id: row.id::<CommandId>(0)?, execution_id: row.id(1)? })).collect()
}

pub fn status_of(word: &str) -> Result<SessionStatus, StoreError> {
    match word {
        "draft" => Ok(SessionStatus::Draft),
        "ready" => Ok(SessionStatus::Ready),
        "archived" => Ok(SessionStatus::Archived),
        _ => Err(StoreError::Corrupt("session status".into())),
    }
}

pub const fn status_word(status: SessionStatus) -> &'static str {
    match status {
        SessionStatus::Draft => "draft",
        SessionStatus::Ready => "ready",
        SessionStatus::Archived => "archived",
    }
}
