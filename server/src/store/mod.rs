//! One SQL for two databases: SQLite, built in, and PostgreSQL.
//!
//! The queue's operations are written once against [`Tx`]; this module only carries statements and values across. A statement uses
//! `$1` parameters, columns of type TEXT and BIGINT, and nothing else. Text that may hold U+0000 is stored inside JSON text, which
//! both databases take. Invariant: an operation's answer leaves [`Store::write`] only after its commit.
mod postgres;
mod schema;
mod sqlite;

use std::{future::Future, path::PathBuf, pin::Pin, sync::Arc};

use crate::bell::{Bell, Bells};

pub use schema::SCHEMA_VERSION;
pub use sqlite::restore;

pub type BoxFuture<'t, T> = Pin<Box<dyn Future<Output = T> + Send + 't>>;

/// An operation inside one transaction: a plain function, so that it can be run again after a serialization failure.
pub type Op<I, T, E> = for<'t> fn(&'t mut Tx, &'t I) -> BoxFuture<'t, Result<T, E>>;

#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("the database refused a statement: {0}")]
    Sqlite(#[from] rusqlite::Error),
    #[error("the database refused a statement: {0}")]
    Postgres(#[from] tokio_postgres::Error),
    #[error("the database is not available: {0}")]
    Unavailable(String),
    #[error("the store is closing")]
    Closing,
    #[error("a stored value is not what it should be: {0}")]
    Corrupt(String),
    #[error("the database has schema {found}; this program knows up to {known}")]
    TooNew { found: i64, known: i64 },
}

impl StoreError {
    /// The same operation may succeed when run again at once: the database gave way to another transaction.
    fn is_collision(&self) -> bool {
        match self {
            Self::Postgres(e) => e.code().is_some_and(|code| matches!(code.code(), "40001" | "40P01" | "23505")),
            Self::Sqlite(_) | Self::Unavailable(_) | Self::Closing | Self::Corrupt(_) | Self::TooNew { .. } => false,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    Null,
    Int(i64),
    Text(String),
}

macro_rules! text_value {
    ($($id:ty),+) => { $(impl From<$id> for Value { fn from(id: $id) -> Self { Self::Text(id.to_string()) } }
                        impl From<&$id> for Value { fn from(id: &$id) -> Self { Self::Text(id.to_string()) } })+ };
}
text_value!(
    domain::CommandId,
    domain::ProjectId,
    domain::DeviceId,
    domain::OwnerId,
    domain::AgentId,
    domain::GraphSessionId,
    domain::ExecutionId,
    domain::Slug,
    domain::RawJson
);
impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}
impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}
impl From<&String> for Value {
    fn from(text: &String) -> Self {
        Self::Text(text.clone())
    }
}
impl From<i64> for Value {
    fn from(n: i64) -> Self {
        Self::Int(n)
    }
}
impl From<bool> for Value {
    fn from(yes: bool) -> Self {
        Self::Int(i64::from(yes))
    }
}
impl From<domain::Timestamp> for Value {
    fn from(at: domain::Timestamp) -> Self {
        Self::Int(at.ms())
    }
}
impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

/// The parameters of a statement, in order.
macro_rules! params {
    ($($value:expr),* $(,)?) => { &[$($crate::store::Value::from($value)),*] };
}
pub(crate) use params;

/// One row of an answer, by column position.
#[derive(Debug, Clone)]
pub struct Row(Vec<Value>);

impl Row {
    fn at(&self, column: usize) -> Result<&Value, StoreError> {
        self.0.get(column).ok_or_else(|| StoreError::Corrupt(format!("no column {column}")))
    }
    pub fn text(&self, column: usize) -> Result<&str, StoreError> {
        self.opt_text(column)?.ok_or_else(|| StoreError::Corrupt(format!("column {column} is null")))
    }
    pub fn opt_text(&self, column: usize) -> Result<Option<&str>, StoreError> {
        match self.at(column)? {
            Value::Text(text) => Ok(Some(text)),
            Value::Null => Ok(None),
            Value::Int(_) => Err(StoreError::Corrupt(format!("column {column} is a number"))),
        }
    }
    pub fn int(&self, column: usize) -> Result<i64, StoreError> {
        self.opt_int(column)?.ok_or_else(|| StoreError::Corrupt(format!("column {column} is null")))
    }
    pub fn opt_int(&self, column: usize) -> Result<Option<i64>, StoreError> {
        match self.at(column)? {
            Value::Int(n) => Ok(Some(*n)),
            Value::Null => Ok(None),
            Value::Text(_) => Err(StoreError::Corrupt(format!("column {column} is text"))),
        }
    }
    pub fn flag(&self, column: usize) -> Result<bool, StoreError> {
        Ok(self.int(column)? != 0)
    }
    pub fn time(&self, column: usize) -> Result<domain::Timestamp, StoreError> {
        Ok(domain::Timestamp::from_ms(self.int(column)?))
    }
    pub fn opt_time(&self, column: usize) -> Result<Option<domain::Timestamp>, StoreError> {
        Ok(self.opt_int(column)?.map(domain::Timestamp::from_ms))
    }
    /// A stored id. It was an id when it was written.
    pub fn id<T: std::str::FromStr<Err = domain::ids::IdError>>(&self, column: usize) -> Result<T, StoreError> {
        self.text(column)?.parse().map_err(|e: domain::ids::IdError| StoreError::Corrupt(e.to_string()))
    }
    pub fn opt_id<T: std::str::FromStr<Err = domain::ids::IdError>>(&self, column: usize) -> Result<Option<T>, StoreError> {
        if self.opt_text(column)?.is_none() { Ok(None) } else { self.id(column).map(Some) }
    }
    /// A stored raw JSON text.
    pub fn raw(&self, column: usize) -> Result<domain::RawJson, StoreError> {
        domain::RawJson::parse(self.text(column)?).map_err(|e| StoreError::Corrupt(e.to_string()))
    }
    /// Free text, stored as a JSON string.
    pub fn quoted(&self, column: usize) -> Result<String, StoreError> {
        serde_json::from_str(self.text(column)?).map_err(|e| StoreError::Corrupt(e.to_string()))
    }
}

/// Free text as it is stored: a JSON string, because PostgreSQL takes no U+0000 in TEXT.
pub fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

enum Conn {
    Sqlite(rusqlite::Connection),
    Postgres(deadpool_postgres::Object),
}

/// One open transaction. What it rings is heard only after the commit.
pub struct Tx {
    conn: Conn,
    rings: Vec<Bell>,
}

impl Tx {
    /// Runs a changing statement; the number of rows it changed.
    pub async fn execute(&mut self, sql: &str, params: &[Value]) -> Result<u64, StoreError> {
        match &mut self.conn {
            Conn::Sqlite(conn) => sqlite::execute(conn, sql, params),
            Conn::Postgres(client) => postgres::execute(client, sql, params).await,
        }
    }

    pub async fn query(&mut self, sql: &str, params: &[Value]) -> Result<Vec<Row>, StoreError> {
        match &mut self.conn {
            Conn::Sqlite(conn) => sqlite::query(conn, sql, params),
            Conn::Postgres(client) => postgres::query(client, sql, params).await,
        }
    }

    /// The first row, where there is one.
    pub async fn row(&mut self, sql: &str, params: &[Value]) -> Result<Option<Row>, StoreError> {
        Ok(self.query(sql, params).await?.into_iter().next())
    }

    pub fn ring(&mut self, bell: Bell) {
        if !self.rings.contains(&bell) {
            self.rings.push(bell);
        }
    }
}

/// Where the queue is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    Sqlite { path: PathBuf, durability: Durability },
    Postgres { url: String },
}

/// What a commit waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// The disk. What was answered survives a power loss.
    #[default]
    Full,
    /// Nothing: for simulations, which never lose power.
    None,
}

pub struct Store {
    driver: Driver,
    bells: Arc<Bells>,
}

enum Driver {
    Sqlite(sqlite::Sqlite),
    Postgres(postgres::Postgres),
}

impl Store {
    /// Opens and brings the schema up to date. Writes need a tokio runtime: groups of them are led by its tasks.
    pub async fn open(place: &Place, bells: Arc<Bells>) -> Result<Self, StoreError> {
        let driver = match place {
            Place::Sqlite { path, durability } => Driver::Sqlite(sqlite::Sqlite::open(path, *durability, bells.clone())?),
            Place::Postgres { url } => Driver::Postgres(postgres::Postgres::open(url, bells.clone()).await?),
        };
        Ok(Self { driver, bells })
    }

    /// Runs `op` in one transaction; answers after its commit. An error undoes everything `op` did.
    pub async fn write<I, T, E>(&self, input: I, op: Op<I, T, E>) -> Result<T, E>
    where
        I: Send + Sync + 'static,
        T: Send + 'static,
        E: From<StoreError> + Collides + Send + 'static,
    {
        self.commit(input, op, true).await
    }

    /// The same for what nobody was promised: its commit waits for no disk, and a power loss may take it.
    pub async fn note<I, T, E>(&self, input: I, op: Op<I, T, E>) -> Result<T, E>
    where
        I: Send + Sync + 'static,
        T: Send + 'static,
        E: From<StoreError> + Collides + Send + 'static,
    {
        self.commit(input, op, false).await
    }

    async fn commit<I, T, E>(&self, input: I, op: Op<I, T, E>, promises: bool) -> Result<T, E>
    where
        I: Send + Sync + 'static,
        T: Send + 'static,
        E: From<StoreError> + Collides + Send + 'static,
    {
        match &self.driver {
            Driver::Sqlite(db) => db.write(input, op, promises).await,
            Driver::Postgres(db) => db.write(input, op, promises, self.bells.clone()).await,
        }
    }

    /// Runs `op` on a connection that only reads. On SQLite it sees one moment; on PostgreSQL each statement sees its own.
    pub async fn read<I, T, E>(&self, input: &I, op: Op<I, T, E>) -> Result<T, E>
    where
        I: Sync,
        E: From<StoreError>,
    {
        match &self.driver {
            Driver::Sqlite(db) => db.read(input, op),
            Driver::Postgres(db) => db.read(input, op).await,
        }
    }

    /// Copies the whole database into a new file while it is in use. SQLite only: PostgreSQL brings its own tools.
    pub fn backup(&self, to: &std::path::Path) -> Result<(), StoreError> {
        match &self.driver {
            Driver::Sqlite(db) => db.backup(to),
            Driver::Postgres(_) => Err(StoreError::Unavailable("use pg_dump to back up PostgreSQL".into())),
        }
    }

    pub fn is_postgres(&self) -> bool {
        matches!(self.driver, Driver::Postgres(_))
    }

    /// Ends the writer after what it has accepted.
    pub async fn close(&self) {
        match &self.driver {
            Driver::Sqlite(db) => db.close().await,
            Driver::Postgres(db) => db.close(),
        }
    }
}

/// Tells a collision with another transaction from an answer, so that the store may run the operation again.
pub trait Collides {
    fn store_error(&self) -> Option<&StoreError>;

    fn is_collision(&self) -> bool {
        self.store_error().is_some_and(StoreError::is_collision)
    }
}

impl Collides for StoreError {
    fn store_error(&self) -> Option<&StoreError> {
        Some(self)
    }
}
