//! The queue: what may happen to owners, devices, projects, connected agents and commands.
//!
//! One file per verb. Every change runs in one transaction that repeats its guards (a grant is checked inside the transaction that
//! uses it, a command changes state only through [`arrows`]); every answer is given after the commit. Nothing here knows HTTP or MCP.
pub(crate) mod admin;
pub(crate) mod agent;
pub(crate) mod arrows;
pub(crate) mod cancel;
pub(crate) mod commands;
pub(crate) mod complete;
pub(crate) mod control;
pub(crate) mod doorbell;
pub(crate) mod expire;
pub(crate) mod get;
pub(crate) mod grant;
pub(crate) mod list;
pub(crate) mod owner;
mod owner_reads;
pub(crate) mod owner_view;
pub(crate) mod project;
pub(crate) mod schema_check;
pub(crate) mod start;
pub(crate) mod submit;
pub(crate) mod sync;
pub(crate) mod view;

use std::{sync::Arc, time::Duration};

use domain::{AgentId, DeviceId, OwnerId, Timestamp};
use tokio::sync::futures::Notified;
use tokio_util::sync::CancellationToken;

use crate::{
    bell::{Bell, Bells, Waiter},
    contact::Contacts,
    ports::{Clock, Random},
    store::{Store, StoreError, Tx, params},
};

/// A paired device, as its token says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Device {
    pub id: DeviceId,
    pub owner: OwnerId,
    pub paused: bool,
}

/// A connected agent, as its token says. The grant is checked again inside every transaction that uses it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Granted {
    pub agent: AgentId,
    pub owner: OwnerId,
    pub scopes: Vec<String>,
    pub token_hash: String,
}

impl Granted {
    pub fn allows(&self, scope: &str) -> bool {
        self.scopes.iter().any(|s| s == scope)
    }
}

/// Times an operator may set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Terms {
    pub queued_ttl_ms: i64,
    pub running_ttl_ms: i64,
    pub retention_ms: i64,
    pub queued_per_project: usize,
}

impl Default for Terms {
    fn default() -> Self {
        use domain::limits::{QUEUED_PER_PROJECT_MAX, QUEUED_TTL_MS, RETENTION_MS, RUNNING_TTL_MS};
        Self { queued_ttl_ms: QUEUED_TTL_MS, running_ttl_ms: RUNNING_TTL_MS, retention_ms: RETENTION_MS, queued_per_project: QUEUED_PER_PROJECT_MAX }
    }
}

pub struct Queue {
    pub(crate) store: Store,
    pub(crate) bells: Arc<Bells>,
    pub(crate) contacts: Contacts,
    pub(crate) known: agent::Known,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) random: Arc<dyn Random>,
    pub(crate) terms: Terms,
    /// Set when this instance goes away: held requests are answered at once.
    pub(crate) draining: CancellationToken,
}

/// How a wait ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Woken {
    Rung,
    TimeUp,
}

impl Queue {
    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// A place at `bell` for at most `hold`.
    pub(crate) fn hold(&self, bell: Bell, hold: Duration) -> Hold {
        let deadline = tokio::time::Instant::now() + hold;
        Hold { waiter: self.bells.register(bell), deadline, draining: self.draining.clone() }
    }
}

/// A held request: [`Hold::listen`] first, then look at the store, then [`Hold::woken`]. No lock or transaction is held meanwhile.
pub(crate) struct Hold {
    waiter: Waiter,
    pub(crate) deadline: tokio::time::Instant,
    draining: CancellationToken,
}

impl Hold {
    pub(crate) fn listen(&self) -> Notified<'_> {
        self.waiter.rung()
    }

    pub(crate) async fn woken(&self, rung: Notified<'_>) -> Woken {
        self.woken_before(self.deadline, rung).await
    }

    /// The same with an earlier end.
    pub(crate) async fn woken_before(&self, deadline: tokio::time::Instant, rung: Notified<'_>) -> Woken {
        tokio::select! { biased;
            () = self.draining.cancelled() => Woken::TimeUp,
            () = rung => Woken::Rung,
            () = tokio::time::sleep_until(deadline) => Woken::TimeUp,
        }
    }
}

/// The owner's row is the lock of everything that must be alone: it is taken first, by raising the owner's sequence.
pub(crate) async fn lock_owner(tx: &mut Tx, owner: OwnerId) -> Result<i64, StoreError> {
    let row = tx.row("UPDATE owners SET seq = seq + 1 WHERE owner_id = $1 RETURNING seq", params![owner]).await?;
    row.ok_or_else(|| StoreError::Corrupt(format!("owner {owner} has no row")))?.int(0)
}

/// The row there is as long as the grant stands: of token, agent and moment.
pub(crate) const GRANT: &str = "SELECT 1 FROM tokens t JOIN agents a ON a.agent_id = t.agent_id
  WHERE t.token_hash = $1 AND t.kind <> 'refresh' AND a.agent_id = $2 AND a.revoked_at IS NULL AND (t.expires_at IS NULL OR t.expires_at > $3)";

/// Whether the grant still stands, at this moment of this transaction.
pub(crate) async fn grant_stands(tx: &mut Tx, by: &Granted, now: Timestamp) -> Result<bool, StoreError> {
    Ok(tx.row(GRANT, params![&by.token_hash, by.agent, now]).await?.is_some())
}

/// The statements that every poll, sync and submission runs: none of them may grow with history. A test reads their query plans.
pub fn hot_statements() -> Vec<(&'static str, String)> {
    vec![
        ("sync: waiting", sync::WAITING.into()),
        ("sync: running", sync::RUNNING.into()),
        ("doorbell", doorbell::HIGHEST.into()),
        ("doorbell: counter", doorbell::COUNTER.into()),
        ("submit: earlier", submit::EARLIER.into()),
        ("submit: target", submit::target_statement()),
        ("get", get::STATEMENT.clone()),
    ]
}
