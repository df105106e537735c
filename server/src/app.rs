//! One running queue: opened once, served by any number of routers, closed once.
use std::{collections::BTreeMap, future::Future, ops::Deref, sync::Arc, time::Duration};

use axum::{
    Router,
    extract::State,
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
    routing::get,
};
use domain::limits::CONTACT_STORED_EVERY_MS;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::{
    bell::Bells,
    config::Config,
    contact::Contacts,
    front::{self, Names},
    http_error::{ApiError, Code},
    limiter::{Guesses, Limiter},
    mcp,
    metrics::{Gauges, Metrics},
    oauth::{self, Fetched, read_pinned},
    owner_page,
    ports::{Clock, Random},
    queue::{
        Queue,
        grant::Client,
        owner::{PairError, PairingCode},
    },
    relay_api, serve,
    store::{Store, StoreError},
    tls::Tls,
    workers::Workers,
};

/// Requests one address may make per second where no token is needed.
const STRANGERS_PER_SECOND: u32 = 5;
const SWEEP_EVERY: Duration = Duration::from_secs(30);
/// What is stored is what other instances know of a device; a queue alone on its file needs it after a restart only.
const CONTACTS_PER_SWEEP_SHARED: u32 = 2;
const _: () = assert!(SWEEP_EVERY.as_millis() as i64 / CONTACTS_PER_SWEEP_SHARED as i64 >= CONTACT_STORED_EVERY_MS);

#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("the database cannot be opened: {0}")]
    Store(#[from] StoreError),
    #[error("a pinned client document cannot be used: {0}")]
    Pinned(String),
}

#[derive(Debug, thiserror::Error)]
pub enum AddClientError {
    #[error(transparent)]
    Metadata(#[from] oauth::MetadataError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Who may use a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    Anybody,
    /// A paired device, by its token.
    Device,
    /// A connected agent, by its token; some methods work without one.
    Agent,
    /// A signed-in browser of the owner, by its cookie.
    Browser,
}

/// One route, for the authorization matrix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Route {
    pub method: &'static str,
    pub path: &'static str,
    pub access: Access,
}

const OWN_ROUTES: &[Route] = &[
    Route { method: "post", path: "/mcp", access: Access::Agent },
    Route { method: "get", path: "/.well-known/oauth-protected-resource", access: Access::Anybody },
    Route { method: "get", path: "/.well-known/oauth-protected-resource/mcp", access: Access::Anybody },
    Route { method: "get", path: "/healthz", access: Access::Anybody },
    Route { method: "get", path: "/readyz", access: Access::Anybody },
    Route { method: "get", path: "/metrics", access: Access::Anybody },
];

/// Every route there is.
pub fn routes() -> impl Iterator<Item = &'static Route> {
    OWN_ROUTES.iter().chain(relay_api::ROUTES).chain(oauth::ROUTES).chain(owner_page::ROUTES)
}

pub struct Inner {
    pub queue: Queue,
    pub config: Config,
    pub held: relay_api::Held,
    pub(crate) names: Names,
    pub(crate) limiter: Limiter,
    pub(crate) guesses: Guesses,
    /// For addresses that come without a token.
    pub(crate) strangers: Limiter,
    pub(crate) fetched: Fetched,
    pub(crate) pinned: BTreeMap<String, Client>,
    pub(crate) metrics: Metrics,
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
        let pinned =
            config.pinned_clients.iter().map(|text| read_pinned(text)).collect::<Result<_, _>>().map_err(|e| OpenError::Pinned(e.to_string()))?;
        let bells = Arc::new(Bells::default());
        let store = Store::open(&config.place, bells.clone()).await?;
        let queue = Queue {
            store,
            bells,
            contacts: Contacts::default(),
            known: Default::default(),
            clock,
            random,
            terms: config.terms,
            draining: CancellationToken::new(),
        };
        let app = Self(Arc::new(Inner {
            names: Names::new(&config.public_url, &config.allowed_hosts, &config.allowed_origins),
            limiter: Limiter::new(config.requests_per_second),
            guesses: Guesses::default(),
            strangers: Limiter::new(STRANGERS_PER_SECOND),
            fetched: Fetched::default(),
            pinned,
            metrics: Metrics::default(),
            held: relay_api::Held::default(),
            background: CancellationToken::new(),
            queue,
            config,
        }));
        app.start_background();
        Ok(app)
    }

    /// A one-time code that pairs a desktop with this owner; makes the owner if the name is new.
    pub async fn pair_code(&self, owner: &str) -> Result<PairingCode, PairError> {
        self.queue.pairing_code(owner).await
    }

    /// Registers a client by the operator's hand, for those that are given their id (and secret) by a person. It is kept until removed.
    pub async fn add_client(&self, name: String, redirects: Vec<String>, auth_method: &str) -> Result<(Client, Option<String>), AddClientError> {
        let (client, secret) = oauth::make(&*self.queue.random, Some(name), redirects, auth_method)?;
        self.queue.register_client(client.clone(), true).await?;
        Ok((client, secret))
    }

    /// Requests held open at this instance.
    pub fn bells_waiting(&self) -> usize {
        self.queue.bells.waiting()
    }

    pub fn router(&self) -> Router {
        Router::new()
            .merge(relay_api::router())
            .merge(mcp::router(self))
            .merge(oauth::router())
            .merge(owner_page::router())
            .route("/healthz", get(async || axum::Json(serde_json::json!({"status": "ok"}))))
            .route("/readyz", get(ready))
            .route("/metrics", get(numbers))
            .fallback(async || ApiError::new(Code::NotFound, "there is nothing at this address"))
            .method_not_allowed_fallback(async || ApiError::new(Code::MethodNotAllowed, "this address does not take this method"))
            .layer(axum::middleware::from_fn_with_state(self.clone(), front::front))
            .with_state(self.clone())
    }

    /// Serves on the caller's runtime until `shutdown`; then answers what is held, finishes what has begun and returns.
    pub async fn serve(&self, listener: TcpListener, shutdown: impl Future<Output = ()> + Send + 'static) -> std::io::Result<()> {
        self.serve_on(&Workers::of_caller(), listener, None, shutdown).await
    }

    /// The same on threads of its own, inside TLS where there is a certificate.
    pub async fn serve_on(
        &self,
        workers: &Workers,
        listener: TcpListener,
        tls: Option<Arc<Tls>>,
        shutdown: impl Future<Output = ()> + Send + 'static,
    ) -> std::io::Result<()> {
        serve::serve(listener, tls, workers, self.router(), self.config.connections_max, self.queue.draining.clone(), shutdown).await
    }

    /// Writes what is not yet written and ends the background work.
    pub async fn close(&self) {
        self.queue.draining.cancel();
        if let Err(e) = self.queue.store_contacts().await {
            tracing::warn!(error = %e, "the last contacts could not be stored");
        }
        self.background.cancel();
        self.queue.store.close().await;
    }

    fn start_background(&self) {
        let (weak, ended) = (Arc::downgrade(&self.0), self.background.clone());
        let per_sweep = if self.queue.store.is_postgres() { CONTACTS_PER_SWEEP_SHARED } else { 1 };
        tokio::spawn(async move {
            let mut every = tokio::time::interval(SWEEP_EVERY / per_sweep);
            for turn in 0_u32.. {
                tokio::select! { biased;
                    () = ended.cancelled() => return,
                    _ = every.tick() => {}
                }
                let Some(inner) = weak.upgrade() else { return };
                let stored = inner.queue.store_contacts().await;
                let swept = if turn.is_multiple_of(per_sweep) { inner.queue.sweep().await.map(drop) } else { Ok(()) };
                match stored.and(swept) {
                    Ok(()) | Err(StoreError::Closing) => {}
                    Err(e) => tracing::error!(error = %e, "background work failed; it is tried again"),
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

/// Only for whoever asks this computer directly: through the public address there is nothing here.
async fn numbers(State(app): State<App>, headers: HeaderMap) -> Result<Response, ApiError> {
    if !app.names.is_direct(&headers) {
        return Err(ApiError::new(Code::NotFound, "there is nothing at this address"));
    }
    let (queued, running, oldest_queued_s) = app.queue.depth().await?;
    let now = Gauges { queued, running, oldest_queued_s, held: app.bells_waiting(), relays: app.queue.relays_seen() };
    Ok(([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], app.metrics.render(&now)).into_response())
}
