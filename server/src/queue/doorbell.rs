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

struct Look {
    device: Device,
    projects: Vec<ProjectId>,
    after: i64,
    now: Timestamp,
}

impl Queue {
    /// The highest sequence number above `after` among what this device could start, as soon as there is one.
    pub async fn doorbell(&self, device: &Device, projects: Vec<ProjectId>, after: u64, hold: Duration) -> Result<Option<u64>, StoreError> {
        let after = i64::try_from(after).unwrap_or(i64::MAX);
        let hold = self.hold(Bell::Device(device.id), hold);
        loop {
            let rung = hold.listen();
            let look = Look { device: device.clone(), projects: projects.clone(), after, now: self.now() };
            let highest = self.store.read(&look, |tx, it| Box::pin(highest(tx, it))).await?;
            if highest.is_some() || hold.woken(rung).await == Woken::TimeUp {
                return Ok(highest);
            }
        }
    }
}

/// Its own sessions, projects it asked for, not while it is paused. A disabled project has nothing queued.
async fn highest(tx: &mut Tx, it: &Look) -> Result<Option<u64>, StoreError> {
    let mut highest = None;
    for row in tx.query(HIGHEST, params![it.device.id, it.after, it.now]).await? {
        if it.projects.contains(&row.id(0)?) {
            highest = highest.max(Some(row.int(1)? as u64));
        }
    }
    Ok(highest)
}
