//! The device's one database: `desk.db` in the profile folder.
//!
//! Sync functions, one transaction each; ids and the time come in. What was promised (claims, ticks, the outbox) survives power loss:
//! [`Store::write`] waits for the disk. What may be told again ([`Store::write_soon`]: events, deliveries) does not wait, and is
//! never out of order with what does. Invariant: one process per profile, held by a lock.
mod bindings;
mod executions;
mod graphs;
mod mcp;
mod models;
mod outbox;
mod pairing;
mod projects;
mod readable;
mod rules;
mod settings;
mod transcripts;

use std::{
    fs::File,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use domain::Timestamp;
use rusqlite::{Connection, config::DbConfig};
use tokio::sync::{broadcast, watch};

use crate::view::Topic;

pub use bindings::{Binding, Channel, ChannelError};
pub use executions::{
    Beginning, CommandFacts, Delivery, EndFacts, ExecutionPage, ExecutionQuery, ExecutionRecord, NewExecution, Origin, RunningTotals, Seen,
};
pub use graphs::{Graph, GraphEdit, GraphError, GraphVersion, NewGraph, VersionFacts, VersionRow};
pub use mcp::McpServer;
pub use models::{Price, Provider};
pub use outbox::{OutboxRow, Verdict};
pub use pairing::Pairing;
pub use projects::{Project, SharingError, Tick};
pub(crate) use readable::Step as ReadableStep;
pub use readable::{ReadableState, ReadableText};
pub use rules::{LOG_ROWS_MAX, RuleRecord, RulingRecord};
pub use settings::{OutOfBounds, Settings};
pub use transcripts::Piece;

#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("another Graph Desk is using the profile {}", .0.display())]
    InUse(PathBuf),
    #[error("the profile was written by a newer version (schema {found}, this program knows {known})")]
    Newer { found: usize, known: usize },
    #[error("the profile folder {} cannot be used", .0.display())]
    Folder(PathBuf, #[source] std::io::Error),
    #[error("the database failed")]
    Database(#[from] rusqlite::Error),
    /// A row holds what this program never writes.
    #[error("the database holds a {what} that cannot be read")]
    Unreadable { what: &'static str },
}

/// Forward-only; one file per step, never edited once released.
const SCHEMA: &[&str] = &[
    include_str!("schema/0001_relay.sql"),
    include_str!("schema/0002_desk.sql"),
    include_str!("schema/0003_mcp.sql"),
    include_str!("schema/0004_readable.sql"),
];

const FILE: &str = "desk.db";

/// Cheap to clone; all clones are one store.
#[derive(Clone)]
pub struct Store {
    inner: Arc<Inner>,
}

struct Inner {
    write: Mutex<Writer>,
    /// History reads do not wait for a write. `None` in memory, where the one connection does both.
    read: Option<Mutex<Connection>>,
    /// Counts sharing changes; the relay wakes on it.
    sharing: watch::Sender<u64>,
    topics: broadcast::Sender<Topic>,
    folder: Option<PathBuf>,
    _lock: Option<File>,
}

struct Writer {
    connection: Connection,
    /// Its commits wait for the disk. Changed only where the next transaction wants it otherwise: each change is a statement of its own.
    waits: bool,
}

impl Writer {
    fn transact<T, E: FromStore>(&mut self, waits: bool, f: impl FnOnce(&Connection) -> Result<T, E>) -> Result<T, E> {
        if self.waits != waits {
            self.connection.pragma_update(None, "synchronous", if waits { "FULL" } else { "NORMAL" }).map_err(StoreError::from)?;
            self.waits = waits;
        }
        transact(&self.connection, f)
    }
}

/// What [`Store::read`] and [`Store::write`] hand to their closures' errors.
pub trait FromStore: From<StoreError> {}
impl<E: From<StoreError>> FromStore for E {}

impl Store {
    /// Opens or makes the profile, alone. Executions that a dead process left running are ended here, truthfully.
    pub fn open(folder: &Path, now: Timestamp) -> Result<Self, StoreError> {
        let io = |e| StoreError::Folder(folder.to_owned(), e);
        std::fs::create_dir_all(folder).map_err(io)?;
        let lock = File::create(folder.join("desk.lock")).map_err(io)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(std::fs::TryLockError::WouldBlock) => return Err(StoreError::InUse(folder.to_owned())),
            Err(std::fs::TryLockError::Error(e)) => return Err(io(e)),
        }
        let path = folder.join(FILE);
        let write = Connection::open(&path)?;
        write.pragma_update(None, "journal_mode", "WAL")?;
        prepare(&write)?;
        let read = Connection::open(&path)?;
        configure(&read)?;
        read.pragma_update(None, "query_only", true)?;
        let store = Self::of(write, Some(read), Some(folder.to_owned()), Some(lock));
        store.end_interrupted(now)?;
        Ok(store)
    }

    /// For tests and the simulation. A clone outlives a simulated crash; [`Store::end_interrupted`] then plays the restart.
    pub fn in_memory() -> Result<Self, StoreError> {
        let write = Connection::open_in_memory()?;
        prepare(&write)?;
        Ok(Self::of(write, None, None, None))
    }

    fn of(write: Connection, read: Option<Connection>, folder: Option<PathBuf>, lock: Option<File>) -> Self {
        let (sharing, topics) = (watch::Sender::new(0), broadcast::Sender::new(256));
        Self {
            inner: Arc::new(Inner {
                write: Mutex::new(Writer { connection: write, waits: true }),
                read: read.map(Mutex::new),
                sharing,
                topics,
                folder,
                _lock: lock,
            }),
        }
    }

    /// The profile folder; `None` in memory.
    pub fn folder(&self) -> Option<&Path> {
        self.inner.folder.as_deref()
    }

    /// Counts sharing changes of this process; a change wakes the relay.
    pub fn sharing_changes(&self) -> watch::Receiver<u64> {
        self.inner.sharing.subscribe()
    }

    /// What the window may want to ask again for. Losing one is harmless: ask again when lagging.
    pub fn topics(&self) -> broadcast::Receiver<Topic> {
        self.inner.topics.subscribe()
    }

    pub fn tell(&self, topic: Topic) {
        let _ = self.inner.topics.send(topic); // no listener, nobody to tell
    }

    /// Sharing changed and is committed: the relay and the window hear of it.
    pub(crate) fn tell_sharing(&self) {
        self.inner.sharing.send_modify(|n| *n += 1);
        self.tell(Topic::Sharing);
    }

    /// Only the connection and statements: no writes inside, and no other call of the store.
    pub(crate) fn read<T, E: FromStore>(&self, f: impl FnOnce(&Connection) -> Result<T, E>) -> Result<T, E> {
        match &self.inner.read {
            Some(read) => f(&lock(read)),
            None => f(&lock(&self.inner.write).connection),
        }
    }

    /// One transaction; its commit waits for the disk. No other call of the store inside.
    pub(crate) fn write<T, E: FromStore>(&self, f: impl FnOnce(&Connection) -> Result<T, E>) -> Result<T, E> {
        lock(&self.inner.write).transact(true, f)
    }

    /// One transaction that a power loss may undo (with all after it): for what will be told or found out again.
    pub(crate) fn write_soon<T, E: FromStore>(&self, f: impl FnOnce(&Connection) -> Result<T, E>) -> Result<T, E> {
        lock(&self.inner.write).transact(false, f)
    }
}

fn lock<T>(connection: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic inside a transaction rolled it back; the connection is sound.
    connection.lock().unwrap_or_else(PoisonError::into_inner)
}

/// As rusqlite's transactions, with statements that are read once.
fn transact<T, E: FromStore>(connection: &Connection, f: impl FnOnce(&Connection) -> Result<T, E>) -> Result<T, E> {
    // The write lock is taken at the start: a transaction that began as a reader could fail to become a writer.
    run(connection, "BEGIN IMMEDIATE").map_err(StoreError::from)?;
    let _undone = Undone(connection);
    let value = f(connection)?;
    run(connection, "COMMIT").map_err(StoreError::from)?;
    Ok(value)
}

fn run(connection: &Connection, sql: &str) -> rusqlite::Result<()> {
    connection.prepare_cached(sql)?.raw_execute().map(drop)
}

/// What was not committed when this is dropped, by an error or a panic, is undone.
struct Undone<'c>(&'c Connection);
impl Drop for Undone<'_> {
    fn drop(&mut self) {
        if !self.0.is_autocommit()
            && let Err(error) = run(self.0, "ROLLBACK")
        {
            tracing::error!("a transaction could not be undone: {error}");
        }
    }
}

fn configure(connection: &Connection) -> Result<(), StoreError> {
    connection.busy_timeout(std::time::Duration::from_secs(10))?;
    connection.pragma_update(None, "foreign_keys", true)?;
    connection.set_prepared_statement_cache_capacity(128);
    // Without this SQLite plans a statement anew whenever another value is bound to it.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    Ok(())
}

fn prepare(connection: &Connection) -> Result<(), StoreError> {
    configure(connection)?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    // Keeps the log file from staying at its largest size for ever.
    connection.pragma_update(None, "journal_size_limit", 16 * 1024 * 1024)?;
    let found: usize = connection.pragma_query_value(None, "user_version", |row| row.get::<_, i64>(0)).map(|n| usize::try_from(n).unwrap_or(0))?;
    if found > SCHEMA.len() {
        return Err(StoreError::Newer { found, known: SCHEMA.len() });
    }
    for (step, sql) in SCHEMA.iter().enumerate().skip(found) {
        transact(connection, |tx| {
            tx.execute_batch(sql)?;
            tx.pragma_update(None, "user_version", step as i64 + 1)?;
            Ok::<_, StoreError>(())
        })?;
    }
    Ok(())
}

/// Text of a column back into the type whose parser is the only door.
pub(crate) fn parsed<T>(text: &str, what: &'static str, parse: impl FnOnce(&str) -> Option<T>) -> Result<T, StoreError> {
    parse(text).ok_or(StoreError::Unreadable { what })
}

/// Counts are never negative in our columns; a broken one reads as 0.
pub(crate) fn count(n: i64) -> u64 {
    u64::try_from(n).unwrap_or(0)
}

/// SQLite's integers are signed; nothing we count comes near their end.
pub(crate) fn int(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}
