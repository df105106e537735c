//! SQLite with one writer that commits in groups.
//!
//! There is one writing connection. Whoever finds it free takes every operation that is waiting, runs each inside its own savepoint,
//! commits once, and only then answers them all: under load many operations share one wait for the disk, and alone one operation changes
//! no thread. Invariant: while something waits, the connection is in somebody's hands.
//! Nothing here can meet "database is locked" from within this process; another process (`graph-queue pair`) is waited for.
use std::{
    collections::VecDeque,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
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
    sync::{Semaphore, oneshot},
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
    writer: Arc<Writer>,
    readers: Mutex<Vec<Connection>>,
    path: PathBuf,
}

/// One waiting operation.
trait Job: Send {
    /// Whether its answer promises that the disk has it.
    fn promises(&self) -> bool;
    /// Runs it; whether its changes are kept.
    fn run<'t>(&'t mut self, tx: &'t mut Tx) -> BoxFuture<'t, bool>;
    /// Told once, after the commit (or why there was none).
    fn answer(self: Box<Self>, committed: Result<(), StoreError>);
}

struct Waiting<I, T, E> {
    input: I,
    op: Op<I, T, E>,
    promises: bool,
    result: Option<Result<T, E>>,
    reply: oneshot::Sender<Result<T, E>>,
}

impl<I, T, E> Job for Waiting<I, T, E>
where
    I: Send + Sync,
    T: Send,
    E: From<StoreError> + Send,
{
    fn promises(&self) -> bool {
        self.promises
    }
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
    pub fn open(path: &Path, durability: Durability, bells: Arc<Bells>) -> Result<Self, StoreError> {
        owners_only(path)?;
        let mut conn = Connection::open(path)?;
        let synchronous = match durability {
            Durability::Full => "FULL",
            Durability::None => "OFF",
        };
        conn.busy_timeout(BUSY)?;
        conn.execute_batch(&format!(
            "PRAGMA journal_mode = WAL; PRAGMA synchronous = {synchronous}; PRAGMA journal_size_limit = 33554432;
             PRAGMA wal_autocheckpoint = 4000; PRAGMA temp_store = MEMORY; PRAGMA cache_size = -2000;"
        ))?;
        keep_statements(&conn)?;
        schema::migrate_sqlite(&mut conn)?;
        let writer = Writer::new(conn, bells, durability == Durability::Full);
        Ok(Self { writer: Arc::new(writer), readers: Mutex::default(), path: path.to_owned() })
    }

    /// `promises`: the answer says that the disk has it.
    pub async fn write<I, T, E>(&self, input: I, op: Op<I, T, E>, promises: bool) -> Result<T, E>
    where
        I: Send + Sync + 'static,
        T: Send + 'static,
        E: From<StoreError> + Collides + Send + 'static,
    {
        let place = self.writer.places.acquire().await.map_err(|_| StoreError::Closing)?;
        let (reply, answer) = oneshot::channel();
        self.writer.add(Box::new(Waiting { input, op, promises, result: None, reply }))?;
        let result = answer.await.unwrap_or_else(|_| Err(StoreError::Unavailable("the operation broke off; it was undone".into()).into()));
        drop(place);
        result
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
        conn.execute_batch("PRAGMA cache_size = -256; PRAGMA temp_store = MEMORY;")?;
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

    /// Ends after what was accepted.
    pub async fn close(&self) {
        let in_hand = self.writer.line().close();
        if let Some(ended) = in_hand {
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

/// The writing connection, and who waits for it.
struct Writer {
    places: Semaphore,
    line: Mutex<Line>,
    bells: Arc<Bells>,
    /// Whether anything is ever promised here.
    durable: bool,
    /// Whether commits of the connection wait for the disk as it is set now.
    waits: AtomicBool,
}

struct Line {
    waiting: VecDeque<Box<dyn Job>>,
    /// Absent while it is in somebody's hands, and after the end.
    tx: Option<Tx>,
    closed: bool,
    ended: Option<oneshot::Sender<()>>,
}

impl Line {
    /// Nothing more is accepted. Where the connection is in use, what to wait for.
    fn close(&mut self) -> Option<oneshot::Receiver<()>> {
        let first = !std::mem::replace(&mut self.closed, true);
        if self.tx.take().is_some() || !first {
            return None;
        }
        let (end, ended) = oneshot::channel();
        self.ended = Some(end);
        Some(ended)
    }

    /// The connection is given back; again with somebody who leads where there is more to do.
    fn give_back(&mut self, tx: Tx) -> Option<Tx> {
        if !self.waiting.is_empty() {
            return Some(tx);
        }
        if self.closed {
            drop(tx);
            drop(self.ended.take());
        } else {
            self.tx = Some(tx);
        }
        None
    }

    fn next_group(&mut self) -> Vec<Box<dyn Job>> {
        let size = self.waiting.len().min(GROUP_MAX);
        self.waiting.drain(..size).collect()
    }
}

impl Writer {
    fn new(conn: Connection, bells: Arc<Bells>, durable: bool) -> Self {
        let tx = Tx { conn: Conn::Sqlite(conn), rings: Vec::new() };
        let line = Line { waiting: VecDeque::new(), tx: Some(tx), closed: false, ended: None };
        Self { places: Semaphore::new(WAITING_MAX), line: Mutex::new(line), bells, durable, waits: AtomicBool::new(durable) }
    }

    fn line(&self) -> MutexGuard<'_, Line> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes its place in the line; leads a group where nobody has the connection.
    fn add(self: &Arc<Self>, job: Box<dyn Job>) -> Result<(), StoreError> {
        let free = {
            let mut line = self.line();
            if line.closed {
                return Err(StoreError::Closing);
            }
            line.waiting.push_back(job);
            line.tx.take()
        };
        match free {
            Some(tx) if may_block() => self.lead(tx),
            Some(tx) => self.lead_in_task(tx),
            None => {} // whoever has it looks for more before giving it back
        }
        Ok(())
    }

    /// Commits one group. On a multi-thread runtime the other tasks of this worker are moved away while it waits for the disk.
    fn lead(self: &Arc<Self>, tx: Tx) {
        let group = self.line().next_group();
        let waits = self.durable && group.iter().any(|job| job.promises());
        let mut hands = Hands { writer: self, tx: Some(tx) };
        if waits && may_block() { tokio::task::block_in_place(|| hands.commit(group, waits)) } else { hands.commit(group, waits) }
    }

    /// The next commit waits for the disk, or leaves it to a later one that does.
    fn set_waits(&self, tx: &Tx, waits: bool) -> Result<(), StoreError> {
        if self.waits.load(Ordering::Relaxed) != waits {
            let Conn::Sqlite(conn) = &tx.conn else { return Err(no_connection()) };
            // Never kept as a statement: this one works when it is prepared, not when it runs.
            conn.pragma_update(None, "synchronous", if waits { "FULL" } else { "NORMAL" })?;
            self.waits.store(waits, Ordering::Relaxed);
        }
        Ok(())
    }

    fn lead_in_task(self: &Arc<Self>, tx: Tx) {
        let writer = self.clone();
        tokio::spawn(async move { writer.lead(tx) });
    }
}

fn may_block() -> bool {
    Handle::current().runtime_flavor() == RuntimeFlavor::MultiThread
}

/// Who holds the connection: given back when dropped, even by a panic inside an operation. Whoever came meanwhile is led by a task, for
/// this caller has waited long enough.
struct Hands<'w> {
    writer: &'w Arc<Writer>,
    tx: Option<Tx>,
}

impl Hands<'_> {
    fn commit(&mut self, mut group: Vec<Box<dyn Job>>, waits: bool) {
        let Some(tx) = &mut self.tx else { return };
        match self.writer.set_waits(tx, waits).and_then(|()| run_group(tx, &mut group)) {
            Ok(rings) => {
                group.into_iter().for_each(|job| job.answer(Ok(())));
                rings.into_iter().for_each(|bell| self.writer.bells.ring(bell));
            }
            Err(e) => {
                tracing::error!(error = %e, operations = group.len(), "a commit failed; its operations were undone");
                let why = e.to_string();
                group.into_iter().for_each(|job| job.answer(Err(StoreError::Unavailable(why.clone()))));
            }
        }
    }
}

impl Drop for Hands<'_> {
    fn drop(&mut self) {
        let Some(mut tx) = self.tx.take() else { return };
        if std::thread::panicking() {
            let _ = statement(&tx, "ROLLBACK"); // there is none where the panic came before or after the transaction
            tx.rings.clear();
        }
        let more = self.writer.line().give_back(tx);
        if let Some(tx) = more {
            self.writer.lead_in_task(tx);
        }
    }
}

fn statement(tx: &Tx, sql: &str) -> Result<(), StoreError> {
    match &tx.conn {
        Conn::Sqlite(conn) => Ok(conn.prepare_cached(sql)?.raw_execute().map(drop)?),
        Conn::Postgres(_) => Err(no_connection()),
    }
}

fn no_connection() -> StoreError {
    StoreError::Corrupt("the SQLite writer has no SQLite connection".into())
}

/// All of them in one transaction, each undone alone if it refuses. The lock is taken at the start, never upgraded. What they ring.
fn run_group(tx: &mut Tx, group: &mut [Box<dyn Job>]) -> Result<Vec<Bell>, StoreError> {
    statement(tx, "BEGIN IMMEDIATE")?;
    let outcome = match group {
        [alone] => run_alone(tx, alone),
        group => run_all(tx, group),
    };
    if outcome.is_err() {
        let _ = statement(tx, "ROLLBACK"); // after a failed COMMIT there may be nothing left to roll back
    }
    outcome
}

fn run(tx: &mut Tx, job: &mut Box<dyn Job>) -> bool {
    tx.rings.clear();
    job.run(tx).now_or_never().unwrap_or(false)
}

fn run_alone(tx: &mut Tx, job: &mut Box<dyn Job>) -> Result<Vec<Bell>, StoreError> {
    let keep = run(tx, job);
    statement(tx, if keep { "COMMIT" } else { "ROLLBACK" })?;
    Ok(if keep { std::mem::take(&mut tx.rings) } else { Vec::new() })
}

fn run_all(tx: &mut Tx, group: &mut [Box<dyn Job>]) -> Result<Vec<Bell>, StoreError> {
    let mut rings: Vec<Bell> = Vec::new();
    for job in group {
        statement(tx, "SAVEPOINT one")?;
        if run(tx, job) {
            rings.append(&mut tx.rings);
        } else {
            statement(tx, "ROLLBACK TO one")?;
        }
        statement(tx, "RELEASE one")?;
    }
    statement(tx, "COMMIT")?;
    Ok(rings)
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

    fn level<'t>(tx: &'t mut Tx, (): &'t ()) -> BoxFuture<'t, Result<i64, StoreError>> {
        let Conn::Sqlite(conn) = &tx.conn else { unreachable!() };
        let level = conn.pragma_query_value(None, "synchronous", |row| row.get(0)).map_err(StoreError::from);
        Box::pin(async move { level })
    }

    /// 2 is FULL, 1 is NORMAL: the commit is left to a later one's wait.
    #[tokio::test]
    async fn only_what_was_promised_waits_for_the_disk() {
        let dir = tempfile::tempdir().unwrap();
        for (durability, promised, noted) in [(Durability::Full, 2, 1), (Durability::None, 0, 0)] {
            let db = Sqlite::open(&dir.path().join(format!("{durability:?}.db")), durability, Arc::default()).unwrap();
            for _ in 0..2 {
                assert_eq!(db.write((), level, true).await.unwrap(), promised, "{durability:?}");
                assert_eq!(db.write((), level, false).await.unwrap(), noted, "{durability:?}");
            }
            let (a, b) = tokio::join!(db.write((), level, false), db.write((), level, true));
            assert_eq!((a.unwrap(), b.unwrap()), (promised, promised), "in one group the stricter one counts");
        }
    }
}
