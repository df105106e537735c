//! What the operator sees and ends from the command line.
use domain::{AgentId, DeviceId, OwnerId, Timestamp};

use super::{Device, Queue, agent::AgentError, grant::Client};
use crate::{
    secret,
    store::{StoreError, Tx, params},
};

#[derive(Debug, Clone, PartialEq)]
pub struct OwnerRow {
    pub id: OwnerId,
    pub name: String,
    pub devices: i64,
    pub agents: i64,
}

#[derive(Debug, Clone, PartialEq)]
pub struct DeviceRow {
    pub device: Device,
    pub owner: String,
    pub name: String,
    pub last_contact_at: Option<Timestamp>,
    pub unpaired: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub struct AgentRow {
    pub id: AgentId,
    pub owner: OwnerId,
    pub owner_name: String,
    pub name: String,
    pub kind: String,
    pub last_used_at: Option<Timestamp>,
    pub revoked: bool,
}

impl Queue {
    pub async fn all_owners(&self) -> Result<Vec<OwnerRow>, StoreError> {
        self.store.read(&(), |tx, ()| Box::pin(owners(tx))).await
    }

    pub async fn all_devices(&self) -> Result<Vec<DeviceRow>, StoreError> {
        self.store.read(&(), |tx, ()| Box::pin(devices(tx))).await
    }

    pub async fn all_agents(&self) -> Result<Vec<AgentRow>, StoreError> {
        self.store.read(&(), |tx, ()| Box::pin(agents(tx))).await
    }

    /// Unpairs by id; whether there was such a device.
    pub async fn unpair_by_id(&self, id: DeviceId) -> Result<bool, StoreError> {
        let Some(row) = self.all_devices().await?.into_iter().find(|row| row.device.id == id) else { return Ok(false) };
        self.unpair(&row.device).await.map(|()| true)
    }

    pub async fn revoke_by_id(&self, id: AgentId) -> Result<bool, AgentError> {
        let Some(row) = self.all_agents().await?.into_iter().find(|row| row.id == id) else { return Ok(false) };
        self.revoke(row.owner, id).await.map(|()| true)
    }

    /// What the database says about its own health; SQLite only.
    pub async fn integrity(&self) -> Result<String, StoreError> {
        if self.store.is_postgres() {
            return Ok("ok".into());
        }
        self.store.read(&(), |tx, ()| Box::pin(integrity(tx))).await
    }

    /// Clients that were registered, by themselves or by the operator, oldest first.
    pub async fn all_clients(&self) -> Result<Vec<(Client, Timestamp)>, StoreError> {
        self.store.read(&(), |tx, ()| Box::pin(clients(tx))).await
    }

    /// Whether there was such a client. What its agents hold ends with their access tokens: they can no longer be refreshed.
    pub async fn remove_client(&self, client_id: &str) -> Result<bool, StoreError> {
        self.store.write(secret::hash(client_id), |tx, hash| Box::pin(remove_client(tx, hash))).await
    }

    /// When the newest command was queued.
    pub async fn newest(&self) -> Result<Option<Timestamp>, StoreError> {
        self.store.read(&(), |tx, ()| Box::pin(newest(tx))).await
    }

    pub fn backup(&self, to: &std::path::Path) -> Result<(), StoreError> {
        self.store.backup(to)
    }
}

async fn owners(tx: &mut Tx) -> Result<Vec<OwnerRow>, StoreError> {
    let sql = "SELECT o.owner_id, o.name_json, (SELECT count(*) FROM devices d WHERE d.owner_id = o.owner_id AND d.unpaired_at IS NULL),
                      (SELECT count(*) FROM agents a WHERE a.owner_id = o.owner_id AND a.revoked_at IS NULL) FROM owners o ORDER BY o.created_at, o.owner_id";
    let rows = tx.query(sql, &[]).await?;
    rows.iter().map(|row| Ok(OwnerRow { id: row.id(0)?, name: row.quoted(1)?, devices: row.int(2)?, agents: row.int(3)? })).collect()
}

async fn devices(tx: &mut Tx) -> Result<Vec<DeviceRow>, StoreError> {
    let sql = "SELECT d.device_id, d.owner_id, d.paused, o.name_json, d.name_json, d.last_contact_at, d.unpaired_at
                 FROM devices d JOIN owners o ON o.owner_id = d.owner_id ORDER BY d.created_at, d.device_id";
    let rows = tx.query(sql, &[]).await?;
    rows.iter()
        .map(|row| {
            Ok(DeviceRow {
                device: Device { id: row.id(0)?, owner: row.id(1)?, paused: row.flag(2)? },
                owner: row.quoted(3)?,
                name: row.quoted(4)?,
                last_contact_at: row.opt_time(5)?,
                unpaired: row.opt_int(6)?.is_some(),
            })
        })
        .collect()
}

async fn agents(tx: &mut Tx) -> Result<Vec<AgentRow>, StoreError> {
    let sql = "SELECT a.agent_id, a.owner_id, o.name_json, a.name_json, a.kind, a.last_used_at, a.revoked_at
                 FROM agents a JOIN owners o ON o.owner_id = a.owner_id ORDER BY a.created_at, a.agent_id";
    let rows = tx.query(sql, &[]).await?;
    rows.iter()
        .map(|row| {
            Ok(AgentRow {
                id: row.id(0)?,
                owner: row.id(1)?,
                owner_name: row.quoted(2)?,
                name: row.quoted(3)?,
                kind: row.text(4)?.to_owned(),
                last_used_at: row.opt_time(5)?,
                revoked: row.opt_int(6)?.is_some(),
            })
        })
        .collect()
}

async fn clients(tx: &mut Tx) -> Result<Vec<(Client, Timestamp)>, StoreError> {
    let rows = tx.query("SELECT client_json, created_at FROM clients ORDER BY created_at, client_hash", &[]).await?;
    rows.iter().map(|row| Ok((serde_json::from_str(row.text(0)?).map_err(|e| StoreError::Corrupt(e.to_string()))?, row.time(1)?))).collect()
}

async fn remove_client(tx: &mut Tx, hash: &String) -> Result<bool, StoreError> {
    Ok(tx.execute("DELETE FROM clients WHERE client_hash = $1", params![hash]).await? > 0)
}

async fn newest(tx: &mut Tx) -> Result<Option<Timestamp>, StoreError> {
    tx.row("SELECT max(queued_at) FROM commands", &[]).await?.map_or(Ok(None), |row| row.opt_time(0))
}

async fn integrity(tx: &mut Tx) -> Result<String, StoreError> {
    let row = tx.row("PRAGMA quick_check", params![]).await?;
    row.map_or(Ok("nothing was said".into()), |row| row.text(0).map(str::to_owned))
}
