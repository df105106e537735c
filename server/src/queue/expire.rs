//! What time alone does: queued commands expire, silent devices are given up, old records go, contacts are written.
use domain::{Timestamp, limits::UNUSED_CLIENT_TTL_MS};

use super::{Queue, Terms, arrows};
use crate::{
    contact::Who,
    store::{StoreError, Tx, params},
};

/// Rows one sweep deletes, at most: a long overdue clean-up must not hold the writer.
const PRUNED_AT_ONCE: i64 = 1_000;

struct Sweep {
    terms: Terms,
    now: Timestamp,
}

/// What one sweep did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Swept {
    pub expired: u64,
    pub gone: u64,
    pub pruned: u64,
}

impl Queue {
    pub async fn sweep(&self) -> Result<Swept, StoreError> {
        self.store.write(Sweep { terms: self.terms, now: self.now() }, |tx, it| Box::pin(sweep(tx, it))).await
    }

    /// Gives up running commands whose device has been silent since `silent_since`.
    pub async fn give_up_silent(&self, silent_since: Timestamp) -> Result<u64, StoreError> {
        let it = (silent_since, self.now());
        self.store.write(it, |tx, (since, now)| Box::pin(arrows::device_gone(tx, *since, *now))).await
    }

    /// Queued, running, and the age of the oldest queued command in seconds.
    pub async fn depth(&self) -> Result<(i64, i64, i64), StoreError> {
        let (queued, running, oldest) = self.store.read(&(), |tx, ()| Box::pin(depth(tx))).await?;
        Ok((queued, running, oldest.map_or(0, |at| self.now().since_ms(at) / 1000)))
    }

    pub fn relays_seen(&self) -> usize {
        self.contacts.devices_since(self.now().plus_ms(-domain::limits::DEVICE_ONLINE_MS))
    }

    /// Writes the contacts that are not yet written, without waiting for the disk.
    pub async fn store_contacts(&self) -> Result<(), StoreError> {
        let due = self.contacts.due(self.now());
        if due.is_empty() {
            return Ok(());
        }
        self.store.note(due, |tx, it| Box::pin(contacts(tx, it))).await
    }
}

async fn sweep(tx: &mut Tx, it: &Sweep) -> Result<Swept, StoreError> {
    let expired = arrows::expire_queued(tx, it.now).await?;
    let gone = arrows::device_gone(tx, it.now.plus_ms(-it.terms.running_ttl_ms), it.now).await?;
    let sql = "DELETE FROM commands WHERE command_id IN (SELECT command_id FROM commands WHERE ended_at IS NOT NULL AND ended_at <= $1 ORDER BY ended_at LIMIT $2)";
    let pruned = tx.execute(sql, params![it.now.plus_ms(-it.terms.retention_ms), PRUNED_AT_ONCE]).await?;
    tx.execute("DELETE FROM pairing_codes WHERE expires_at <= $1", params![it.now]).await?;
    for table in ["connect_codes", "authorize_requests", "sign_in_codes", "browser_sessions"] {
        tx.execute(&format!("DELETE FROM {table} WHERE expires_at <= $1"), params![it.now]).await?;
    }
    // A spent code is remembered for a day, so that a second use is noticed.
    tx.execute("DELETE FROM authorization_codes WHERE expires_at <= $1", params![it.now.plus_ms(-UNUSED_CLIENT_TTL_MS)]).await?;
    tx.execute("DELETE FROM clients WHERE used_at IS NULL AND created_at <= $1", params![it.now.plus_ms(-UNUSED_CLIENT_TTL_MS)]).await?;
    tx.execute("DELETE FROM tokens WHERE expires_at IS NOT NULL AND expires_at <= $1", params![it.now]).await?;
    Ok(Swept { expired, gone, pruned })
}

async fn depth(tx: &mut Tx) -> Result<(i64, i64, Option<Timestamp>), StoreError> {
    let queued = tx.row("SELECT count(*), min(queued_at) FROM commands WHERE status = 'queued'", &[]).await?;
    let running = tx.row("SELECT count(*) FROM commands WHERE status = 'running'", &[]).await?;
    let none = || StoreError::Corrupt("a count without a row".into());
    let (queued, running) = (queued.ok_or_else(none)?, running.ok_or_else(none)?);
    Ok((queued.int(0)?, running.int(0)?, queued.opt_time(1)?))
}

async fn contacts(tx: &mut Tx, due: &Vec<(Who, Timestamp)>) -> Result<(), StoreError> {
    for (who, at) in due {
        match who {
            Who::Device(id) => {
                let sql = "UPDATE devices SET last_contact_at = $2 WHERE device_id = $1 AND (last_contact_at IS NULL OR last_contact_at < $2)";
                tx.execute(sql, params![*id, *at]).await?;
            }
            Who::Agent(id) => {
                let sql = "UPDATE agents SET last_used_at = $2 WHERE agent_id = $1 AND (last_used_at IS NULL OR last_used_at < $2)";
                tx.execute(sql, params![*id, *at]).await?;
            }
        }
    }
    Ok(())
}
