//! What the relay tells of itself: for the status bar and the sharing place.
use domain::{ExecutionId, Timestamp, wire::said::Sentence};

use super::client::AskError;
use crate::view::RelayView;

#[derive(Debug, Clone, PartialEq, Default)]
pub struct RelayStatus {
    pub connected: bool,
    pub paused_since: Option<Timestamp>,
    pub pickup_instant: bool,
    /// A command's execution runs.
    pub busy: Option<Busy>,
    /// A pass or a metadata-only sync is asking now.
    pub syncing: bool,
    pub last_contact: Option<Timestamp>,
    pub trouble: Option<Trouble>,
    /// It failed by a defect of ours and has not gone on for long enough since.
    pub failing: Option<Failing>,
    /// The doorbell is held open right now.
    pub doorbell_open: bool,
    /// The server's clock minus ours at the last sync. Expiry is judged by the server alone.
    pub clock_ahead_ms: i64,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Busy {
    pub execution: ExecutionId,
    pub graph: String,
    pub since: Timestamp,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Trouble {
    pub since: Timestamp,
    pub words: Sentence,
    /// The server answers, but refuses this device: only pairing again helps.
    pub repair: bool,
    /// Nobody answers, or not the queue.
    pub offline: bool,
}

/// Failures in a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Failing {
    pub since: Timestamp,
    pub times: u64,
}

/// One failure is mended by beginning again, and not worth the owner's time.
const FAILURES_UNTOLD: u64 = 1;

impl RelayStatus {
    pub fn view(&self) -> RelayView {
        if !self.connected {
            return RelayView::NotConnected;
        }
        if let Some(Failing { since, times }) = self.failing.filter(|failing| failing.times > FAILURES_UNTOLD) {
            return RelayView::Failing { since: since.ms(), times };
        }
        if let Some(busy) = &self.busy {
            return RelayView::Busy { graph: busy.graph.clone(), execution_id: busy.execution.to_string(), since: busy.since.ms() };
        }
        match (&self.trouble, self.paused_since) {
            (Some(t), _) if !t.offline => RelayView::ServerSays { message: t.words.clone(), repair: t.repair },
            (_, Some(since)) => RelayView::Paused { since: since.ms() },
            (Some(t), None) => RelayView::Offline { since: t.since.ms(), why: t.words.clone() },
            (None, None) => RelayView::Ready { last_contact: self.last_contact.map(Timestamp::ms), pickup_instant: self.pickup_instant },
        }
    }

    pub(super) fn note_failure(&mut self, now: Timestamp) {
        let before = self.failing.unwrap_or(Failing { since: now, times: 0 });
        self.failing = Some(Failing { times: before.times + 1, ..before });
    }

    pub(super) fn note_error(&mut self, error: &AskError, now: Timestamp) {
        let offline = match error {
            AskError::Unreachable(_) | AskError::NotOurs { .. } => true,
            AskError::Unauthorized { .. } | AskError::TooMany { .. } | AskError::Refused { .. } => false,
        };
        let repair = matches!(error, AskError::Unauthorized { .. });
        let since = self.trouble.as_ref().filter(|t| t.offline == offline).map_or(now, |t| t.since);
        self.trouble = Some(Trouble { since, words: error.sentence(), repair, offline });
        if !offline {
            self.last_contact = Some(now);
        }
    }
}
