//! What an operator may set. Defaults are safe: loopback, SQLite, durable.
use std::{path::PathBuf, sync::Arc};

use crate::{
    oauth::documents::Documents,
    queue::Terms,
    store::{Durability, Place},
};

/// Room for 10,000 devices with a doorbell each, and as many short requests.
const CONNECTIONS_MAX_DEFAULT: usize = 20_000;

#[derive(Clone)]
pub struct Config {
    pub place: Place,
    /// The origin clients reach, `https://queue.example.org` without a path. Addresses in answers come from here, never from a Host header.
    pub public_url: String,
    pub terms: Terms,
    /// `tools/list` works without a token.
    pub anonymous_list: bool,
    /// Further names under which requests may come, `host` or `host:port` (a proxy's inner name).
    pub allowed_hosts: Vec<String>,
    /// Further origins of pages that may send requests, `https://…`.
    pub allowed_origins: Vec<String>,
    /// Requests one token may make per second, on the average.
    pub requests_per_second: u32,
    pub connections_max: usize,
    /// A proxy in front says in `X-Forwarded-For` who asks; only with such a proxy.
    pub trust_forwarded: bool,
    /// Fetches clients' metadata documents; without it only registered and pinned clients are known.
    pub documents: Option<Arc<dyn Documents>>,
    /// Metadata documents that are believed without fetching, as JSON texts.
    pub pinned_clients: Vec<String>,
}

impl Config {
    /// A queue in one SQLite file, reached at `public_url`.
    pub fn sqlite(path: impl Into<PathBuf>, public_url: impl Into<String>) -> Self {
        Self::at(Place::Sqlite { path: path.into(), durability: Durability::Full }, public_url)
    }

    pub fn at(place: Place, public_url: impl Into<String>) -> Self {
        let public_url = public_url.into().trim_end_matches('/').to_owned();
        Self {
            place,
            public_url,
            terms: Terms::default(),
            anonymous_list: true,
            allowed_hosts: Vec::new(),
            allowed_origins: Vec::new(),
            requests_per_second: domain::limits::REQUESTS_PER_SECOND_DEFAULT,
            connections_max: CONNECTIONS_MAX_DEFAULT,
            trust_forwarded: false,
            documents: None,
            pinned_clients: Vec::new(),
        }
    }

    pub fn mcp_url(&self) -> String {
        format!("{}/mcp", self.public_url)
    }
}

/// Reads `--database`: a PostgreSQL address, or the path of an SQLite file.
pub fn place(database: &str) -> Place {
    if database.starts_with("postgres://") || database.starts_with("postgresql://") {
        return Place::Postgres { url: database.to_owned() };
    }
    let path = database.strip_prefix("sqlite://").unwrap_or(database);
    Place::Sqlite { path: path.into(), durability: Durability::Full }
}
