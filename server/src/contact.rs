//! When a device or a connected agent was last heard of.
//!
//! Kept in memory and written in batches, each at most every `CONTACT_STORED_EVERY_MS`, without waiting for the disk: losing the last
//! seconds of it costs nothing, `online` is computed from it and never stored.
use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
};

use domain::{AgentId, DeviceId, Timestamp, limits::DEVICE_ONLINE_MS};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Who {
    Device(DeviceId),
    Agent(AgentId),
}

/// Long after it makes a difference.
const FORGOTTEN_AFTER_MS: i64 = 2 * DEVICE_ONLINE_MS;

#[derive(Debug, Clone, Copy)]
struct Seen {
    last: Timestamp,
    stored: bool,
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
        let seen = map.entry(who).or_insert(Seen { last: now, stored: false });
        if now > seen.last {
            *seen = Seen { last: now, stored: false };
        }
    }

    /// The later of what is stored and what this instance has heard.
    pub fn last(&self, who: Who, stored: Option<Timestamp>) -> Option<Timestamp> {
        stored.max(self.map().get(&who).map(|s| s.last))
    }

    /// What is not yet written; marks it as written. Silent ones are forgotten, so that the map does not grow for ever.
    pub fn due(&self, now: Timestamp) -> Vec<(Who, Timestamp)> {
        let mut map = self.map();
        map.retain(|_, seen| now.since_ms(seen.last) < FORGOTTEN_AFTER_MS || !seen.stored);
        let late = map.iter_mut().filter(|(_, seen)| !seen.stored);
        late.map(|(who, seen)| {
            seen.stored = true;
            (*who, seen.last)
        })
        .collect()
    }

    pub fn devices_since(&self, since: Timestamp) -> usize {
        self.map().iter().filter(|(who, seen)| matches!(who, Who::Device(_)) && seen.last > since).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_contact_is_written_once_and_the_silent_are_forgotten() {
        let contacts = Contacts::default();
        let who = Who::Device(DeviceId::from_random([1; 16]));
        let at = |s: i64| Timestamp::from_ms(s * 1000);
        contacts.heard(who, at(0));
        assert_eq!(contacts.due(at(0)), vec![(who, at(0))]);
        assert_eq!(contacts.due(at(1)), vec![], "nothing new");
        contacts.heard(who, at(14));
        assert_eq!(contacts.last(who, Some(at(0))), Some(at(14)), "memory knows better than the store");
        contacts.heard(who, at(13));
        assert_eq!(contacts.last(who, None), Some(at(14)), "a clock that went back makes nobody younger");
        assert_eq!(contacts.due(at(15)), vec![(who, at(14))]);
        assert_eq!(contacts.due(at(14).plus_ms(FORGOTTEN_AFTER_MS)), vec![]);
        assert_eq!(contacts.last(who, None), None, "the store knows");
    }
}
