//! SQLite with one writer that commits in groups.
//!
//! The writer is a task that owns the only writing connection. It takes every operation that is waiting, runs each inside its own
//! savepoint, commits once, and only then answers them all: under load many operations share one wait for the disk.
//! Nothing here can meet "database is locked" from within this process; another process (`graph-queue pair`) is waited for.
use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use futures::FutureExt as _;
use rusqlite::{
    Connection, ErrorCode, OpenFlags,
    backup::{Backup, StepResult},
    config::DbConfig,
    types::ValueRef,
};
use tokio::{
    runtime::{Handle, RuntimeFlavor},
    sync::{mpsc, oneshot},
};

use super::{BoxFuture, Collides, Conn, Durability, Op, Row, StoreError, Tx, Value, schema};
use crate::bell::{Bell, Bells};

/// Operations that share one commit, at most.
const GROUP_MAX: usize = 256;
/// Operations that wait for the writer, at most; beyond that callers wait for a place.
const WAITING_MAX: usize = 4_096;
const READERS_MAX: usize = 16;
/// More than the queue has statements.
const STATEMENTS_KEPT: usize = 256;
/// How long a commit of another process is waited for.
const BUSY: Duration = Duration::from_secs(10);

pub struct Sqlite {
    jobs: Mutex<Option<mpsc::Sender<Box<dyn Job>>>>,
    readers: Mutex<Vec<Connection>>,
    path: PathBuf,
    ended: Mutex<Option<oneshot::Receiver<()>>>,
}

/// One waiting operation.
trait Job: Send {
    /// Runs it; whether its changes are kept.
    fn run<'t>(&'t mut self, tx: &'t mut Tx) -> BoxFuture<'t, bool>;
    /// Told once, after the commit (or why there was none).
    fn answer(self: Box<Self>, committed: Result<(), StoreError>);
}

struct Waiting<I, T, E> {
    input: I,
    op: Op<I, T, E>,
    result: Option<Result<T, E>>,
    reply: oneshot::Sender<Result<T, E>>,
}

impl<I, T, E> Job for Waiting<I, T, E>
where
    I: Send + Sync,
    T: Send,
    E: From<StoreError> + Send,
{
    fn run<'t>(&'t mut self, tx: &'t mut Tx) -> BoxFuture<'t, bool> {
        Box::pin(async move {
            let result = (self.op)(tx, &self.input).await;
            let keep = result.is_ok();
            self.result = Some(result);
            keep
        })
    }
    fn answer(self: Box<Self>, committed: Result<(), StoreError>) {
        let result = match (committed, self.result) {
            (Ok(()), Some(result)) => result,
            (Ok(()), None) => Err(StoreError::Closing.into()),
            // A refusal stands without a commit: it changed nothing.
            (Err(_), Some(Err(refusal))) => Err(refusal),
            (Err(e), _) => Err(e.into()),
        };
        let _ = self.reply.send(result); // whoever asked may have gone; what it asked for is done
    }
}

impl Sqlite {
    pub async fn open(path: &Path, durability: Durability, bells: Arc<Bells>) -> Result<Self, StoreError> {
        owners_only(path)?;
        let mut conn = Connection::open(path)?;
        let synchronous = match durability {
            Durability::Full => "FULL",
            Durability::None => "OFF",
        };
        conn.busy_timeout(BUSY)?;
        conn.execute_batch(&format!(
            "PRAGMA journal_mode = WAL; PRAGMA synchronous = {synchronous}; PRAGMA journal_size_limit = 33554432;
             PRAGMA wal_autocheckpoint = 1000; PRAGMA temp_store = MEMORY; PRAGMA cache_size = -8000;"
        ))?;
        keep_statements(&conn)?;
        schema::migrate_sqlite(&mut conn)?;
        let (jobs, inbox) = mpsc::channel(WAITING_MAX);
        let (end, ended) = oneshot::channel();
        tokio::spawn(async move {
            writer(conn, inbox, bells).await;
            let _ = end.send(());
        });
        Ok(Self { jobs: Mutex::new(Some(jobs)), readers: Mutex::default(), path: path.to_owned(), ended: Mutex::new(Some(ended)) })
    }

    pub async fn write<I, T, E>(&self, input: I, op: Op<I, T, E>) -> Result<T, E>
    where
        I: Send + Sync + 'static,
        T: Send + 'static,
        E: From<StoreError> + Collides + Send + 'static,
    {
        let (reply, answer) = oneshot::channel();
        let job = Box::new(Waiting { input, op, result: None, reply });
        let jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let Some(jobs) = jobs else { return Err(StoreError::Closing.into()) };
        if jobs.send(job).await.is_err() {
            return Err(StoreError::Closing.into());
        }
        drop(jobs);
        answer.await.unwrap_or_else(|_| Err(StoreError::Closing.into()))
    }

    pub fn read<I, T, E>(&self, input: &I, op: Op<I, T, E>) -> Result<T, E>
    where
        I: Sync,
        E: From<StoreError>,
    {
        let pooled = self.readers.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let conn = match pooled {
            Some(conn) => conn,
            None => self.open_reader()?,
        };
        let mut tx = Tx { conn: Conn::Sqlite(conn), rings: Vec::new() };
        statement(&tx, "BEGIN")?;
        let result = op(&mut tx, input).now_or_never();
        if statement(&tx, "COMMIT").is_ok()
            && let Conn::Sqlite(conn) = tx.conn
        {
            let mut readers = self.readers.lock().unwrap_or_else(PoisonError::into_inner);
            if readers.len() < READERS_MAX {
                readers.push(conn);
            }
        }
        result.unwrap_or_else(|| Err(StoreError::Corrupt("an operation waited inside a read".into()).into()))
    }

    fn open_reader(&self) -> Result<Connection, StoreError> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_URI;
        let conn = Connection::open_with_flags(&self.path, flags)?;
        conn.busy_timeout(BUSY)?;
        conn.execute_batch("PRAGMA cache_size = -2000; PRAGMA temp_store = MEMORY;")?;
        keep_statements(&conn)?;
        Ok(conn)
    }

    /// One moment of the queue, whole and checked, as a new file.
    pub fn backup(&self, to: &Path) -> Result<(), StoreError> {
        if to.exists() {
            return Err(StoreError::Unavailable(format!("{} exists already", to.display())));
        }
        owners_only(to)?;
        let from = self.open_reader()?;
        let done = Connection::open(to).map_err(StoreError::from).and_then(|mut copy| {
            copy_whole(&from, &mut copy)?;
            copy.pragma_update(None, "journal_mode", "DELETE")?;
            healthy(&copy)
        });
        if done.is_err() {
            let _ = std::fs::remove_file(to); // half a copy must not look like one
        }
        done.map(drop)
    }

    pub async fn close(&self) {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner).take();
        let ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(ended) = ended {
            let _ = ended.await;
        }
    }
}

/// Statements are read and planned once for each connection. Without the stability guarantee SQLite plans them anew whenever a bound value
/// changes (it looks for one that fits a partial index), which took more time than running them.
fn keep_statements(conn: &Connection) -> Result<(), StoreError> {
    conn.set_prepared_statement_cache_capacity(STATEMENTS_KEPT);
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    Ok(())
}

/// Makes the file, if there is none, so that nobody else on this computer can read it. What SQLite puts beside it follows its mode.
fn owners_only(path: &Path) -> Result<(), StoreError> {
    let mut options = std::fs::OpenOptions::new();
    options.create(true).append(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path).map(drop).map_err(|e| StoreError::Unavailable(format!("{}: {e}", path.display())))
}

/// All pages in one step: one moment, and no start from the beginning whenever somebody writes meanwhile.
fn copy_whole(from: &Connection, to: &mut Connection) -> Result<(), StoreError> {
    match Backup::new(from, to)?.step(-1)? {
        StepResult::Done => Ok(()),
        other => Err(StoreError::Unavailable(format!("the copy came to no end: {other:?}"))),
    }
}

/// The schema of a queue that passes SQLite's own check.
fn healthy(conn: &Connection) -> Result<i64, StoreError> {
    let found: String = conn.query_row("PRAGMA integrity_check", [], |row| row.get(0))?;
    if found != "ok" {
        return Err(StoreError::Corrupt(found));
    }
    conn.query_row("SELECT count(*) FROM owners", [], |_| Ok(())).map_err(|_| StoreError::Corrupt("it is no queue".into()))?;
    Ok(conn.query_row("PRAGMA user_version", [], |row| row.get(0))?)
}

/// Puts a backup into the place of a queue that nobody uses. What stood there is kept as `aside`. Page by page through SQLite, because
/// a file put into place by hand would be taken together with the log of the one before.
pub fn restore(from: &Path, to: &Path, aside: &Path) -> Result<(), StoreError> {
    let backup = Connection::open_with_flags(from, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    let found = healthy(&backup)?;
    if found > schema::SCHEMA_VERSION {
        return Err(StoreError::TooNew { found, known: schema::SCHEMA_VERSION });
    }
    let is_new = !to.exists();
    owners_only(to)?;
    let mut target = Connection::open(to)?;
    // Exclusive from the first look on: refused while any other process has it open.
    target.execute_batch("PRAGMA locking_mode = EXCLUSIVE; PRAGMA synchronous = FULL; BEGIN EXCLUSIVE; COMMIT").map_err(|e| {
        match e.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
                StoreError::Unavailable(format!("{} is in use: stop the queue first", to.display()))
            }
            Some(_) | None => e.into(),
        }
    })?;
    if !is_new {
        owners_only(aside)?;
        copy_whole(&target, &mut Connection::open(aside)?)?;
    }
    copy_whole(&backup, &mut target)?;
    healthy(&target).map(drop)
}

async fn writer(conn: Connection, mut inbox: mpsc::Receiver<Box<dyn Job>>, bells: Arc<Bells>) {
    // On a multi-thread runtime the other tasks of this worker are moved away while it waits for the disk.
    let may_block = Handle::current().runtime_flavor() == RuntimeFlavor::MultiThread;
    let mut tx = Tx { conn: Conn::Sqlite(conn), rings: Vec::new() };
    let mut group: Vec<Box<dyn Job>> = Vec::with_capacity(GROUP_MAX);
    while inbox.recv_many(&mut group, GROUP_MAX).await > 0 {
        let committed = if may_block { tokio::task::block_in_place(|| run_group(&mut tx, &mut group)) } else { run_group(&mut tx, &mut group) };
        let rings = std::mem::take(&mut tx.rings);
        match committed {
            Ok(()) => {
                for job in group.drain(..) {
                    job.answer(Ok(()));
                }
                rings.into_iter().for_each(|bell| bells.ring(bell));
            }
            Err(e) => {
                tracing::error!(error = %e, operations = group.len(), "a commit failed; its operations were undone");
                let why = e.to_string();
                for job in group.drain(..) {
                    job.answer(Err(StoreError::Unavailable(why.clone())));
                }
            }
        }
    }
}

fn statement(tx: &Tx, sql: &str) -> Result<(), StoreError> {
    match &tx.conn {
        Conn::Sqlite(conn) => Ok(conn.prepare_cached(sql)?.raw_execute().map(drop)?),
        Conn::Postgres(_) => Err(StoreError::Corrupt("the SQLite writer has no SQLite connection".into())),
    }
}

/// All of them in one transaction, each undone alone if it refuses. The lock is taken at the start, never upgraded.
fn run_group(tx: &mut Tx, group: &mut [Box<dyn Job>]) -> Result<(), StoreError> {
    statement(tx, "BEGIN IMMEDIATE")?;
    let mut rings: Vec<Bell> = Vec::new();
    let mut run_all = || -> Result<(), StoreError> {
        for job in group.iter_mut() {
            statement(tx, "SAVEPOINT one")?;
            let kept = job.run(tx).now_or_never().unwrap_or(false);
            if kept {
                rings.append(&mut tx.rings);
            } else {
                tx.rings.clear();
                statement(tx, "ROLLBACK TO one")?;
            }
            statement(tx, "RELEASE one")?;
        }
        statement(tx, "COMMIT")
    };
    let outcome = run_all();
    if outcome.is_err() {
        let _ = statement(tx, "ROLLBACK"); // after a failed COMMIT there may be nothing left to roll back
        rings.clear();
    }
    tx.rings = rings;
    outcome
}

/// SQLite numbers `?1`, where `$1` would be a name in order of appearance.
fn numbered(sql: &str) -> String {
    sql.replace('$', "?")
}

fn bind(statement: &mut rusqlite::CachedStatement<'_>, params: &[Value]) -> Result<(), StoreError> {
    for (i, value) in params.iter().enumerate() {
        match value {
            Value::Null => statement.raw_bind_parameter(i + 1, rusqlite::types::Null)?,
            Value::Int(n) => statement.raw_bind_parameter(i + 1, n)?,
            Value::Text(text) => statement.raw_bind_parameter(i + 1, text)?,
        }
    }
    Ok(())
}

pub fn execute(conn: &mut Connection, sql: &str, params: &[Value]) -> Result<u64, StoreError> {
    let mut statement = conn.prepare_cached(&numbered(sql))?;
    bind(&mut statement, params)?;
    Ok(statement.raw_execute()? as u64)
}

pub fn query(conn: &mut Connection, sql: &str, params: &[Value]) -> Result<Vec<Row>, StoreError> {
    let mut statement = conn.prepare_cached(&numbered(sql))?;
    bind(&mut statement, params)?;
    let columns = statement.column_count();
    let mut rows = statement.raw_query();
    let mut out = Vec::new();
    while let Some(row) = rows.next()? {
        let mut values = Vec::with_capacity(columns);
        for column in 0..columns {
            values.push(match row.get_ref(column)? {
                ValueRef::Null => Value::Null,
                ValueRef::Integer(n) => Value::Int(n),
                ValueRef::Text(text) => Value::Text(String::from_utf8_lossy(text).into_owned()),
                ValueRef::Real(_) | ValueRef::Blob(_) => return Err(StoreError::Corrupt(format!("column {column} has a foreign type"))),
            });
        }
        out.push(Row(values));
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use rusqlite::StatementStatus;

    use super::*;

    #[test]
    fn a_statement_is_planned_once_whatever_is_bound_to_it() {
        let mut conn = Connection::open_in_memory().unwrap();
        keep_statements(&conn).unwrap();
        schema::migrate_sqlite(&mut conn).unwrap();
        for (name, sql) in crate::queue::hot_statements() {
            let count = conn.prepare_cached(&numbered(&sql)).unwrap().parameter_count();
            for n in 0..3 {
                query(&mut conn, &sql, &vec![Value::Int(n); count]).unwrap();
            }
            assert_eq!(conn.prepare_cached(&numbered(&sql)).unwrap().get_status(StatementStatus::RePrepare), 0, "{name}");
        }
    }
}
