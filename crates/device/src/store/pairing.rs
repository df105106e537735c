//! Which Graph Queue this device is paired with. The token is not here: it lives in the secret store.
use domain::{DeviceId, Timestamp};
use rusqlite::{Connection, OptionalExtension, params};

use super::{Store, StoreError, parsed};
use crate::view::Topic;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pairing {
    /// Without a trailing slash.
    pub address: String,
    pub device_id: DeviceId,
    pub device_name: String,
    /// The owner's name.
    pub owner: String,
    /// The queue that runs inside this app.
    pub builtin: bool,
    pub paired_at: Timestamp,
}

pub(super) fn find(on: &Connection) -> Result<Option<Pairing>, StoreError> {
    let mut statement = on.prepare_cached("SELECT address, device_id, device_name, owner, builtin, paired_at FROM pairing")?;
    let row = statement
        .query_row([], |row| {
            let device: String = row.get(1)?;
            Ok((row.get(0)?, device, row.get(2)?, row.get(3)?, row.get(4)?, row.get(5)?))
        })
        .optional()?;
    let Some((address, device, device_name, owner, builtin, paired_at)) = row else { return Ok(None) };
    let device_id = parsed(&device, "device_id", |t| DeviceId::parse(t).ok())?;
    Ok(Some(Pairing { address, device_id, device_name, owner, builtin, paired_at: Timestamp::from_ms(paired_at) }))
}

impl Store {
    pub fn pairing(&self) -> Result<Option<Pairing>, StoreError> {
        self.read(find)
    }

    /// Replaces the pairing. Another identity than before starts with no projects and no ticks: consent was given to the old one.
    pub fn set_pairing(&self, pairing: &Pairing) -> Result<(), StoreError> {
        self.write(|tx| {
            if find(tx)?.is_none_or(|old| old.device_id != pairing.device_id) {
                tx.execute("DELETE FROM projects", [])?;
                // The old identity's texts went with it; this one could not remove them.
                tx.execute("DELETE FROM readable_uploads", [])?;
            }
            tx.execute(
                "INSERT OR REPLACE INTO pairing (only, address, device_id, device_name, owner, builtin, paired_at) VALUES (1, ?1, ?2, ?3, ?4, ?5, ?6)",
                params![
                    pairing.address,
                    pairing.device_id.to_string(),
                    pairing.device_name,
                    pairing.owner,
                    pairing.builtin,
                    pairing.paired_at.ms()
                ],
            )?;
            Ok::<_, StoreError>(())
        })?;
        self.tell(Topic::Connections);
        self.tell_sharing();
        Ok(())
    }

    /// The owner unpaired: projects and ticks go, history and outbox stay.
    pub fn clear_pairing(&self) -> Result<(), StoreError> {
        self.write(|tx| {
            tx.execute("DELETE FROM projects", [])?;
            tx.execute("DELETE FROM readable_uploads", [])?;
            tx.execute("DELETE FROM pairing", [])?;
            Ok::<_, StoreError>(())
        })?;
        self.tell(Topic::Connections);
        self.tell_sharing();
        Ok(())
    }
}
