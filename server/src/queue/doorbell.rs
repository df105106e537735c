//! The doorbell: a request held open until there is a command this device could start. It carries no work and no state.
use std::time::Duration;

use domain::{ProjectId, Timestamp};

use super::{Device, Queue, Woken};
use crate::{
    bell::Bell,
    store::{StoreError, Tx, params},
};

pub(super) const HIGHEST: &str = "SELECT c.project_id, max(c.seq) FROM commands c JOIN devices d ON d.device_id = c.device_id
  WHERE c.device_id = $1 AND c.status = 'queued' AND c.seq > $2 AND c.expires_at > $3 AND d.paused = 0 GROUP BY c.project_id";

/// Numbers the owner's commands; only ever raised, unless the database was restored from an older backup.
pub(super) const COUNTER: &str = "SELECT seq FROM owners WHERE owner_id = $1";

/// How a doorbell was answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Heard {
    pub rang: bool,
    /// The next request's `after`: what rang, else what was asked. Lower than that only where this queue has never counted so far.
    pub seq: u64,
}

struct Look {
    device: Device,
    projects: Vec<ProjectId>,
    after: i64,
    now: Timestamp,
}

impl Queue {
    /// Answers as soon as there is something above `after` that this device could start, and at once if `after` is a number this queue
    /// has not reached: the device counts by a state that was lost, and would not be rung for what is new.
    pub async fn doorbell(&self, device: &Device, projects: Vec<ProjectId>, after: u64, hold: Duration) -> Result<Heard, StoreError> {
        let after = i64::try_from(after).unwrap_or(i64::MAX);
        let hold = self.hold(Bell::Device(device.id), hold);
        loop {
            let rung = hold.listen();
            let look = Look { device: device.clone(), projects: projects.clone(), after, now: self.now() };
            let (highest, counter) = self.store.read(&look, |tx, it| Box::pin(seen(tx, it))).await?;
            if let Some(highest) = highest {
                return Ok(Heard { rang: true, seq: highest.unsigned_abs() });
            }
            if counter < after || hold.woken(rung).await == Woken::TimeUp {
                return Ok(Heard { rang: false, seq: after.min(counter).unsigned_abs() });
            }
        }
    }
}

/// The highest number among its own sessions, in projects it asked for, not while it is paused (a disabled project has nothing queued);
/// and how far this queue has counted.
async fn seen(tx: &mut Tx, it: &Look) -> Result<(Option<i64>, i64), StoreError> {
    let mut highest = None;
    for row in tx.query(HIGHEST, params![it.device.id, it.after, it.now]).await? {
        if it.projects.contains(&row.id(0)?) {
            highest = highest.max(Some(row.int(1)?));
        }
    }
    let counter = tx.row(COUNTER, params![it.device.owner]).await?.map_or(Ok(0), |row| row.int(0))?;
    Ok((highest, counter))
}
