//! Owners, pairing codes and devices.
use domain::{
    DeviceId, OwnerId, Timestamp,
    limits::{NAME_CHARS_MAX, PAIRING_CODE_TTL_MS},
    wire::relay::{PairAnswer, PairRequest},
};

use super::{
    Device, Queue,
    arrows::{self, Withdrawn},
    lock_owner,
};
use crate::{
    contact::Who,
    ports::bytes,
    secret::{self, TokenKind},
    store::{Collides, StoreError, Tx, params, quoted},
};

#[derive(Debug, thiserror::Error)]
pub enum PairError {
    #[error("the pairing code is wrong, was used or has expired; ask for a new one with: graph-queue pair --owner NAME")]
    BadCode,
    #[error("{0}")]
    BadName(String),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Collides for PairError {
    fn store_error(&self) -> Option<&StoreError> {
        if let Self::Store(e) = self { Some(e) } else { None }
    }
}

/// A name as people give it: 1 to 120 characters, not blank.
pub fn check_name(field: &str, name: &str) -> Result<(), String> {
    let chars = name.chars().count();
    if name.trim().is_empty() {
        return Err(format!("{field} is empty"));
    }
    if chars > NAME_CHARS_MAX {
        return Err(format!("{field} has {chars} characters; at most {NAME_CHARS_MAX} are allowed"));
    }
    Ok(())
}

/// Shown once to whoever operates the queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PairingCode {
    pub code: String,
    pub expires_at: Timestamp,
}

struct NewCode {
    owner: OwnerId,
    name: String,
    code_hash: String,
    expires_at: Timestamp,
    now: Timestamp,
}

struct Pair {
    request: PairRequest,
    device: DeviceId,
    token_hash: String,
    now: Timestamp,
}

struct ByToken {
    token_hash: String,
}

impl Queue {
    /// Makes the owner if the name is new.
    pub async fn pairing_code(&self, owner: &str) -> Result<PairingCode, PairError> {
        check_name("owner", owner).map_err(PairError::BadName)?;
        let code = secret::new_code(&*self.random);
        let now = self.now();
        let expires_at = now.plus_ms(PAIRING_CODE_TTL_MS);
        let new =
            NewCode { owner: OwnerId::from_random(bytes(&*self.random)), name: owner.to_owned(), code_hash: secret::hash(&code), expires_at, now };
        self.store.write(new, |tx, it| Box::pin(new_code(tx, it))).await?;
        Ok(PairingCode { code, expires_at })
    }

    pub async fn has_owners(&self) -> Result<bool, StoreError> {
        self.store.read(&(), |tx, ()| Box::pin(async { Ok(tx.row("SELECT 1 FROM owners LIMIT 1", &[]).await?.is_some()) })).await
    }

    pub async fn pair(&self, request: PairRequest) -> Result<PairAnswer, PairError> {
        check_name("device_name", &request.device_name).map_err(PairError::BadName)?;
        let token = secret::new_token(TokenKind::Device, &*self.random);
        let device = DeviceId::from_random(bytes(&*self.random));
        let now = self.now();
        let pair = Pair { request, device, token_hash: secret::hash(&token), now };
        let (device_id, owner) = self.store.write(pair, |tx, it| Box::pin(take_code(tx, it))).await?;
        self.contacts.heard(Who::Device(device_id), now);
        Ok(PairAnswer { device_id, device_token: token, owner })
    }

    /// Who holds this device token, if anybody does.
    pub async fn device_of(&self, token: &str) -> Result<Option<Device>, StoreError> {
        let by = ByToken { token_hash: secret::hash(token) };
        let device = self.store.read(&by, |tx, it| Box::pin(device_by_token(tx, it))).await?;
        if let Some(device) = &device {
            self.contacts.heard(Who::Device(device.id), self.now());
        }
        Ok(device)
    }

    /// Ends the pairing. What has not begun will not; what runs keeps its state until the device returns or its time is up.
    pub async fn unpair(&self, device: &Device) -> Result<(), StoreError> {
        let it = (device.clone(), self.now());
        self.store.write(it, |tx, (device, now)| Box::pin(unpair(tx, device, *now))).await
    }
}

async fn new_code(tx: &mut Tx, it: &NewCode) -> Result<(), PairError> {
    let sql = "INSERT INTO owners (owner_id, name_json, seq, created_at) VALUES ($1, $2, 0, $3) ON CONFLICT (name_json) DO NOTHING";
    tx.execute(sql, params![it.owner, quoted(&it.name), it.now]).await?;
    let sql = "INSERT INTO pairing_codes (code_hash, owner_id, expires_at) SELECT CAST($1 AS TEXT), owner_id, CAST($2 AS BIGINT) FROM owners WHERE name_json = $3";
    tx.execute(sql, params![&it.code_hash, it.expires_at, quoted(&it.name)]).await?;
    Ok(())
}

async fn take_code(tx: &mut Tx, it: &Pair) -> Result<(DeviceId, String), PairError> {
    // The WHERE makes it single use: of two that race one matches.
    let sql = "UPDATE pairing_codes SET used_at = $2 WHERE code_hash = $1 AND used_at IS NULL AND expires_at > $2 RETURNING owner_id";
    let code_hash = secret::hash(&secret::normal_code(&it.request.pairing_code));
    let row = tx.row(sql, params![code_hash, it.now]).await?.ok_or(PairError::BadCode)?;
    let owner: OwnerId = row.id(0)?;
    let name = quoted(&it.request.device_name);
    let row = tx.row("SELECT name_json FROM owners WHERE owner_id = $1", params![owner]).await?;
    let owner_name = row.ok_or_else(|| StoreError::Corrupt("a pairing code without an owner".into()))?.quoted(0)?;
    if let Some(id) = it.request.device_id {
        // The device keeps its identity: its outbox stays deliverable, its old token dies.
        let sql = "UPDATE devices SET token_hash = $3, name_json = $4, unpaired_at = NULL WHERE device_id = $1 AND owner_id = $2";
        if tx.execute(sql, params![id, owner, &it.token_hash, &name]).await? > 0 {
            return Ok((id, owner_name));
        }
    }
    let sql = "INSERT INTO devices (device_id, owner_id, name_json, token_hash, created_at, pickup, paused) VALUES ($1, $2, $3, $4, $5, 'poll', 0)";
    tx.execute(sql, params![it.device, owner, &name, &it.token_hash, it.now]).await?;
    Ok((it.device, owner_name))
}

async fn device_by_token(tx: &mut Tx, it: &ByToken) -> Result<Option<Device>, StoreError> {
    let sql = "SELECT device_id, owner_id, paused FROM devices WHERE token_hash = $1 AND unpaired_at IS NULL";
    let Some(row) = tx.row(sql, params![&it.token_hash]).await? else { return Ok(None) };
    Ok(Some(Device { id: row.id(0)?, owner: row.id(1)?, paused: row.flag(2)? }))
}

async fn unpair(tx: &mut Tx, device: &Device, now: Timestamp) -> Result<(), StoreError> {
    lock_owner(tx, device.owner).await?;
    tx.execute("UPDATE devices SET unpaired_at = $2, token_hash = NULL WHERE device_id = $1", params![device.id, now]).await?;
    for table in ["shared_sessions", "shares", "session_holders", "readable_graphs"] {
        tx.execute(&format!("DELETE FROM {table} WHERE device_id = $1"), params![device.id]).await?;
    }
    arrows::withdraw(tx, Withdrawn::Unpaired(device.id), now).await?;
    Ok(())
}
