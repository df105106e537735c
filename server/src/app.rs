//! One running queue: opened once, served by any number of routers, closed once.
use std::{future::Future, ops::Deref, sync::Arc, time::Duration};

use axum::{Router, extract::State, http::StatusCode, response::IntoResponse, routing::get};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::{
    bell::Bells,
    config::Config,
    contact::Contacts,
    http_error::{ApiError, Code},
    mcp,
    ports::{Clock, Random},
    queue::{Queue, owner::PairError, owner::PairingCode},
    relay_api,
    store::{Store, StoreError},
};

const CONTACTS_EVERY: Duration = Duration::from_secs(5);
const SWEEP_EVERY: Duration = Duration::from_secs(30);

#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("the database cannot be opened: {0}")]
    Store(#[from] StoreError),
}

pub struct Inner {
    pub queue: Queue,
    pub config: Config,
    pub held: relay_api::Held,
    /// Background work ends with the last handle.
    background: CancellationToken,
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.background.cancel();
    }
}

/// A handle on the running queue; clones share it.
#[derive(Clone)]
pub struct App(Arc<Inner>);

impl Deref for App {
    type Target = Inner;
    fn deref(&self) -> &Inner {
        &self.0
    }
}

impl App {
    /// Opens the store, brings its schema up to date and starts the background work on the current runtime.
    pub async fn open(config: Config, clock: Arc<dyn Clock>, random: Arc<dyn Random>) -> Result<Self, OpenError> {
        let bells = Arc::new(Bells::default());
        let store = Store::open(&config.place, bells.clone()).await?;
        let queue = Queue { store, bells, contacts: Contacts::default(), clock, random, terms: config.terms, draining: CancellationToken::new() };
        let app = Self(Arc::new(Inner { queue, config, held: relay_api::Held::default(), background: CancellationToken::new() }));
        app.start_background();
        Ok(app)
    }

    /// A one-time code that pairs a desktop with this owner; makes the owner if the name is new.
    pub async fn pair_code(&self, owner: &str) -> Result<PairingCode, PairError> {
        self.queue.pairing_code(owner).await
    }

    /// Requests held open at this instance.
    pub fn bells_waiting(&self) -> usize {
        self.queue.bells.waiting()
    }

    pub fn router(&self) -> Router {
        Router::new()
            .merge(relay_api::router())
            .merge(mcp::router(self))
            .route("/healthz", get(async || axum::Json(serde_json::json!({"status": "ok"}))))
            .route("/readyz", get(ready))
            .fallback(async || ApiError::new(Code::NotFound, "there is nothing at this address"))
            .method_not_allowed_fallback(async || ApiError::new(Code::MethodNotAllowed, "this address does not take this method"))
            .with_state(self.clone())
    }

    /// Serves until `shutdown`; then answers what is held, finishes what has begun and returns.
    pub async fn serve(&self, listener: TcpListener, shutdown: impl Future<Output = ()> + Send + 'static) -> std::io::Result<()> {
        let draining = self.queue.draining.clone();
        let stop = async move {
            shutdown.await;
            draining.cancel();
        };
        axum::serve(listener, self.router()).with_graceful_shutdown(stop).await
    }

    /// Writes what is not yet written and ends the background work.
    pub async fn close(&self) {
        self.queue.draining.cancel();
        if let Err(e) = self.queue.store_contacts(true).await {
            tracing::warn!(error = %e, "the last contacts could not be stored");
        }
        self.background.cancel();
        self.queue.store.close().await;
    }

    fn start_background(&self) {
        let (weak, ended) = (Arc::downgrade(&self.0), self.background.clone());
        tokio::spawn(async move {
            let mut contacts = tokio::time::interval(CONTACTS_EVERY);
            let mut sweep = tokio::time::interval(SWEEP_EVERY);
            loop {
                let sweeping = tokio::select! { biased;
                    () = ended.cancelled() => return,
                    _ = contacts.tick() => false,
                    _ = sweep.tick() => true,
                };
                let Some(inner) = weak.upgrade() else { return };
                let done = if sweeping { inner.queue.sweep().await.map(drop) } else { inner.queue.store_contacts(false).await };
                match done {
                    Ok(()) | Err(StoreError::Closing) => {}
                    Err(e) => tracing::error!(error = %e, sweeping, "background work failed; it is tried again"),
                }
            }
        });
    }
}

async fn ready(State(app): State<App>) -> impl IntoResponse {
    if app.queue.draining.is_cancelled() {
        return (StatusCode::SERVICE_UNAVAILABLE, axum::Json(serde_json::json!({"status": "draining"})));
    }
    match app.queue.has_owners().await {
        Ok(_) => (StatusCode::OK, axum::Json(serde_json::json!({"status": "ready"}))),
        Err(e) => {
            tracing::error!(error = %e, "not ready");
            (StatusCode::SERVICE_UNAVAILABLE, axum::Json(serde_json::json!({"status": "database unavailable"})))
        }
    }
}
