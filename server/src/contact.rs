//! When a device or a connected agent was last heard of.
//!
//! Kept in memory and written in batches without waiting for the disk: losing the last seconds of it costs nothing, `online` is
//! computed from it and never stored.
use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
};

use domain::{AgentId, DeviceId, Timestamp, limits::CONTACT_STORED_EVERY_MS};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Who {
    Device(DeviceId),
    Agent(AgentId),
}

#[derive(Debug, Clone, Copy)]
struct Seen {
    last: Timestamp,
    stored: Option<Timestamp>,
}

#[derive(Default)]
pub struct Contacts {
    seen: Mutex<BTreeMap<Who, Seen>>,
}

impl Contacts {
    fn map(&self) -> std::sync::MutexGuard<'_, BTreeMap<Who, Seen>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn heard(&self, who: Who, now: Timestamp) {
        let mut map = self.map();
        let seen = map.entry(who).or_insert(Seen { last: now, stored: None });
        seen.last = seen.last.max(now);
    }

    /// The later of what is stored and what this instance has heard.
    pub fn last(&self, who: Who, stored: Option<Timestamp>) -> Option<Timestamp> {
        stored.max(self.map().get(&who).map(|s| s.last))
    }

    /// What is worth writing now; marks it as written. Silent ones are forgotten, so that the map does not grow for ever.
    pub fn due(&self, now: Timestamp) -> Vec<(Who, Timestamp)> {
        let mut map = self.map();
        let mut due = Vec::new();
        for (who, seen) in map.iter_mut() {
            let is_due = seen.stored.is_none_or(|stored| now.since_ms(stored) >= CONTACT_STORED_EVERY_MS);
            if is_due && seen.stored != Some(seen.last) {
                seen.stored = Some(seen.last);
                due.push((*who, seen.last));
            }
        }
        map.retain(|_, seen| now.since_ms(seen.last) < 10 * CONTACT_STORED_EVERY_MS || seen.stored != Some(seen.last));
        due
    }

    pub fn devices_since(&self, since: Timestamp) -> usize {
        self.map().iter().filter(|(who, seen)| matches!(who, Who::Device(_)) && seen.last > since).count()
    }

    /// Everything not yet written, for a clean end.
    pub fn all_due(&self) -> Vec<(Who, Timestamp)> {
        let mut map = self.map();
        let late = map.iter_mut().filter(|(_, seen)| seen.stored != Some(seen.last));
        late.map(|(who, seen)| {
            seen.stored = Some(seen.last);
            (*who, seen.last)
        })
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_contact_is_written_at_most_every_fifteen_seconds() {
        let contacts = Contacts::default();
        let who = Who::Device(DeviceId::from_random([1; 16]));
        let at = |s: i64| Timestamp::from_ms(s * 1000);
        contacts.heard(who, at(0));
        assert_eq!(contacts.due(at(0)), vec![(who, at(0))]);
        contacts.heard(who, at(14));
        assert_eq!(contacts.due(at(14)), vec![]);
        assert_eq!(contacts.last(who, Some(at(0))), Some(at(14)), "memory knows better than the store");
        contacts.heard(who, at(15));
        assert_eq!(contacts.due(at(15)), vec![(who, at(15))]);
    }
}
