//! PostgreSQL for many instances behind a load balancer: any instance serves any request.
//!
//! An operation runs in a task of its own, so that a caller who leaves never cuts a transaction in two. READ COMMITTED is enough:
//! whatever must be alone takes its owner's row first. Bells ring across instances by NOTIFY inside the transaction; without a
//! listening connection every waiter looks again once a second.
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use bytes::BytesMut;
use deadpool_postgres::{Manager, ManagerConfig, Object, Pool, RecyclingMethod, Runtime};
use futures::StreamExt as _;
use tokio_postgres::{
    AsyncMessage,
    types::{FromSql, IsNull, ToSql, Type, to_sql_checked},
};
use tokio_util::sync::CancellationToken;

use super::{Collides, Conn, Op, Row, StoreError, Tx, Value, schema};
use crate::{
    bell::{Bell, Bells},
    tls::{self, Database, PostgresUrlError},
};

const CHANNEL: &str = "graph_queue_bells";
const CONNECTIONS_MAX: usize = 16;
const ATTEMPTS_MAX: u32 = 10;

pub struct Postgres {
    pool: Pool,
    ended: CancellationToken,
}

impl Postgres {
    pub async fn open(url: &str, bells: Arc<Bells>) -> Result<Self, StoreError> {
        let (config, tls) = tls::postgres(url).map_err(|e| match e {
            PostgresUrlError::Address(e) => StoreError::Postgres(e),
            PostgresUrlError::Tls(e) => StoreError::Unavailable(e.to_string()),
        })?;
        let manager = Manager::from_config(config.clone(), tls.clone(), ManagerConfig { recycling_method: RecyclingMethod::Fast });
        let pool = Pool::builder(manager)
            .max_size(CONNECTIONS_MAX)
            .wait_timeout(Some(Duration::from_secs(10)))
            .create_timeout(Some(Duration::from_secs(5)))
            .runtime(Runtime::Tokio1)
            .build()
            .map_err(|e| StoreError::Unavailable(e.to_string()))?;
        let db = Self { pool, ended: CancellationToken::new() };
        schema::migrate_postgres(&mut db.client().await?).await?;
        let heard = Arc::new(AtomicBool::new(false));
        tokio::spawn(listen(config, tls, bells.clone(), heard.clone(), db.ended.clone()));
        tokio::spawn(look_without_a_listener(bells, heard, db.ended.clone()));
        Ok(db)
    }

    async fn client(&self) -> Result<Object, StoreError> {
        client(&self.pool).await
    }

    /// `promises`: the answer says that the disk has it.
    pub async fn write<I, T, E>(&self, input: I, op: Op<I, T, E>, promises: bool, bells: Arc<Bells>) -> Result<T, E>
    where
        I: Send + Sync + 'static,
        T: Send + 'static,
        E: From<StoreError> + Collides + Send + 'static,
    {
        let pool = self.pool.clone();
        let task = tokio::spawn(async move {
            let mut attempt = 1;
            loop {
                match once(&pool, &input, op, promises, &bells).await {
                    Err(e) if e.is_collision() && attempt < ATTEMPTS_MAX => attempt += 1,
                    result => return result,
                }
            }
        });
        task.await.unwrap_or_else(|e| Err(StoreError::Unavailable(e.to_string()).into()))
    }

    pub async fn read<I, T, E>(&self, input: &I, op: Op<I, T, E>) -> Result<T, E>
    where
        I: Sync,
        E: From<StoreError>,
    {
        let mut tx = Tx { conn: Conn::Postgres(self.client().await?), rings: Vec::new() };
        op(&mut tx, input).await
    }

    pub fn close(&self) {
        self.ended.cancel();
    }
}

async fn client(pool: &Pool) -> Result<Object, StoreError> {
    pool.get().await.map_err(|e| StoreError::Unavailable(e.to_string()))
}

/// An open transaction whose connection is thrown away, never reused, unless it came to a clean end.
struct Open(Option<Tx>);

impl Drop for Open {
    fn drop(&mut self) {
        if let Some(Tx { conn: Conn::Postgres(client), .. }) = self.0.take() {
            drop(Object::take(client));
        }
    }
}

async fn once<I, T, E>(pool: &Pool, input: &I, op: Op<I, T, E>, promises: bool, bells: &Bells) -> Result<T, E>
where
    E: From<StoreError>,
{
    let client = client(pool).await?;
    client.batch_execute(if promises { "BEGIN" } else { "BEGIN; SET LOCAL synchronous_commit = off" }).await.map_err(StoreError::from)?;
    let mut open = Open(Some(Tx { conn: Conn::Postgres(client), rings: Vec::new() }));
    let Some(tx) = &mut open.0 else { return Err(StoreError::Closing.into()) };
    let result = op(tx, input).await;
    let rings = std::mem::take(&mut tx.rings);
    if result.is_ok() {
        for bell in &rings {
            tx.execute("SELECT pg_notify($1, $2)", &[Value::from(CHANNEL), Value::from(bell.to_text())]).await?;
        }
    }
    let Conn::Postgres(client) = &tx.conn else { return Err(StoreError::Closing.into()) };
    client.batch_execute(if result.is_ok() { "COMMIT" } else { "ROLLBACK" }).await.map_err(StoreError::from)?;
    drop(open.0.take()); // a clean end: the connection goes back to the pool
    if result.is_ok() {
        rings.into_iter().for_each(|bell| bells.ring(bell));
    }
    result
}

/// Hears what other instances ring. After a lost connection nobody knows what rang meanwhile: everybody looks again.
async fn listen(config: tokio_postgres::Config, tls: Database, bells: Arc<Bells>, heard: Arc<AtomicBool>, ended: CancellationToken) {
    loop {
        let listening = hear(&config, &tls, &bells, &heard);
        tokio::select! { biased;
            () = ended.cancelled() => return,
            outcome = listening => if let Err(e) = outcome { tracing::warn!(error = %e, "the listening connection was lost") },
        }
        heard.store(false, Ordering::Relaxed);
        tokio::select! { biased;
            () = ended.cancelled() => return,
            () = tokio::time::sleep(Duration::from_secs(1)) => {}
        }
    }
}

async fn hear(config: &tokio_postgres::Config, tls: &Database, bells: &Bells, heard: &AtomicBool) -> Result<(), tokio_postgres::Error> {
    let (client, mut connection) = config.connect(tls.clone()).await?;
    let mut messages = Box::pin(futures::stream::poll_fn(move |cx| connection.poll_message(cx)));
    let listen = client.batch_execute("LISTEN graph_queue_bells");
    let mut listen = Box::pin(listen);
    let mut listening = false;
    loop {
        tokio::select! { biased;
            done = &mut listen, if !listening => {
                done?;
                listening = true;
                heard.store(true, Ordering::Relaxed);
                bells.ring_all();
            }
            message = messages.next() => match message {
                None => return Ok(()),
                Some(Err(e)) => return Err(e),
                Some(Ok(AsyncMessage::Notification(note))) => if let Some(bell) = Bell::from_text(note.payload()) { bells.ring(bell) },
                Some(Ok(_)) => {}
            },
        }
    }
}

/// Where LISTEN is missing (a pooler in between, a compatible database without it): a look every second.
async fn look_without_a_listener(bells: Arc<Bells>, heard: Arc<AtomicBool>, ended: CancellationToken) {
    let mut every = tokio::time::interval(Duration::from_secs(1));
    loop {
        tokio::select! { biased;
            () = ended.cancelled() => return,
            _ = every.tick() => if !heard.load(Ordering::Relaxed) { bells.ring_all() },
        }
    }
}

impl ToSql for Value {
    fn to_sql(&self, ty: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        match self {
            Self::Null => Ok(IsNull::Yes),
            Self::Int(n) if *ty == Type::INT4 => i32::try_from(*n)?.to_sql(ty, out),
            Self::Int(n) => n.to_sql(ty, out),
            Self::Text(text) => text.to_sql(ty, out),
        }
    }
    fn accepts(ty: &Type) -> bool {
        matches!(*ty, Type::INT8 | Type::INT4 | Type::TEXT | Type::VARCHAR)
    }
    to_sql_checked!();
}

impl<'a> FromSql<'a> for Value {
    fn from_sql(ty: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn std::error::Error + Sync + Send>> {
        match *ty {
            Type::INT8 => i64::from_sql(ty, raw).map(Self::Int),
            Type::INT4 => i32::from_sql(ty, raw).map(|n| Self::Int(n.into())),
            _ => String::from_sql(ty, raw).map(Self::Text),
        }
    }
    fn from_sql_null(_: &Type) -> Result<Self, Box<dyn std::error::Error + Sync + Send>> {
        Ok(Self::Null)
    }
    fn accepts(ty: &Type) -> bool {
        matches!(*ty, Type::INT8 | Type::INT4 | Type::TEXT | Type::VARCHAR | Type::VOID | Type::NAME)
    }
}

fn references(params: &[Value]) -> Vec<&(dyn ToSql + Sync)> {
    params.iter().map(|p| p as &(dyn ToSql + Sync)).collect()
}

pub async fn execute(client: &Object, sql: &str, params: &[Value]) -> Result<u64, StoreError> {
    let statement = client.prepare_cached(sql).await?;
    Ok(client.execute(&statement, &references(params)).await?)
}

pub async fn query(client: &Object, sql: &str, params: &[Value]) -> Result<Vec<Row>, StoreError> {
    let statement = client.prepare_cached(sql).await?;
    let rows = client.query(&statement, &references(params)).await?;
    rows.iter().map(|row| (0..row.len()).map(|i| Ok(row.try_get::<_, Value>(i)?)).collect::<Result<_, StoreError>>().map(Row)).collect()
}
