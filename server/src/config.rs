//! What an operator may set. Defaults are safe: loopback, SQLite, durable.
use std::path::PathBuf;

use crate::{
    queue::Terms,
    store::{Durability, Place},
};

#[derive(Debug, Clone)]
pub struct Config {
    pub place: Place,
    /// The origin clients reach, `https://queue.example.org` without a path. Addresses in answers come from here, never from a Host header.
    pub public_url: String,
    pub terms: Terms,
    /// `tools/list` works without a token.
    pub anonymous_list: bool,
}

impl Config {
    /// A queue in one SQLite file, reached at `public_url`.
    pub fn sqlite(path: impl Into<PathBuf>, public_url: impl Into<String>) -> Self {
        Self::at(Place::Sqlite { path: path.into(), durability: Durability::Full }, public_url)
    }

    pub fn at(place: Place, public_url: impl Into<String>) -> Self {
        let public_url = public_url.into().trim_end_matches('/').to_owned();
        Self { place, public_url, terms: Terms::default(), anonymous_list: true }
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
