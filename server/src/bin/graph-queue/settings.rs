//! What the operator sets: by flag, else by environment, else by the TOML file, else a safe default.
use std::path::PathBuf;

use anyhow::{Context as _, bail};
use clap::Args;
use serde::{Deserialize, Serialize};
use server::{Config, config, oauth::documents::HttpsDocuments, queue::Terms, tls::Tls};

const HOUR_MS: i64 = 3_600_000;

/// Every setting. In the TOML file the same names with underscores.
#[derive(Debug, Clone, Default, Args, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// A TOML file with these settings.
    #[arg(long, env = "GRAPH_QUEUE_CONFIG", global = true)]
    #[serde(skip)]
    pub config: Option<PathBuf>,
    /// Address to listen at [127.0.0.1:8787]; port 0 takes a free one.
    #[arg(long, env = "GRAPH_QUEUE_LISTEN", global = true)]
    pub listen: Option<String>,
    /// The origin under which clients reach this queue, https://… without a path.
    #[arg(long, env = "GRAPH_QUEUE_PUBLIC_URL", global = true)]
    pub public_url: Option<String>,
    /// An SQLite file [graph-queue.db], or postgres://…
    #[arg(long, env = "GRAPH_QUEUE_DATABASE", global = true)]
    pub database: Option<String>,
    /// Serve others without https. Tokens can be read on the way: only inside a network you trust.
    #[arg(long, env = "GRAPH_QUEUE_INSECURE", global = true, num_args = 0..=1, default_missing_value = "true")]
    pub insecure: Option<bool>,
    /// Serve in TLS with this certificate (PEM, its chain included); read again on SIGHUP.
    #[arg(long, env = "GRAPH_QUEUE_TLS_CERT", global = true, requires = "tls_key")]
    pub tls_cert: Option<PathBuf>,
    /// The certificate's private key (PEM).
    #[arg(long, env = "GRAPH_QUEUE_TLS_KEY", global = true, requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,
    /// A further host name under which requests may come (repeatable).
    #[arg(long = "allowed-host", env = "GRAPH_QUEUE_ALLOWED_HOSTS", value_delimiter = ',', global = true)]
    pub allowed_hosts: Vec<String>,
    /// A further origin whose pages may send requests (repeatable).
    #[arg(long = "allowed-origin", env = "GRAPH_QUEUE_ALLOWED_ORIGINS", value_delimiter = ',', global = true)]
    pub allowed_origins: Vec<String>,
    /// A proxy in front says in X-Forwarded-For who asks.
    #[arg(long, env = "GRAPH_QUEUE_TRUST_FORWARDED", global = true, num_args = 0..=1, default_missing_value = "true")]
    pub trust_forwarded: Option<bool>,
    /// Requests one token may make per second [60].
    #[arg(long, env = "GRAPH_QUEUE_REQUESTS_PER_SECOND", global = true)]
    pub requests_per_second: Option<u32>,
    /// Connections at a time [20000].
    #[arg(long, env = "GRAPH_QUEUE_CONNECTIONS", global = true)]
    pub connections: Option<usize>,
    /// Queued commands one project takes [100].
    #[arg(long, env = "GRAPH_QUEUE_QUEUED_PER_PROJECT", global = true)]
    pub queued_per_project: Option<usize>,
    /// Hours after which a queued command expires [168].
    #[arg(long, env = "GRAPH_QUEUE_QUEUED_TTL_HOURS", global = true)]
    pub queued_ttl_hours: Option<i64>,
    /// Days of silence after which a running command is given up [30].
    #[arg(long, env = "GRAPH_QUEUE_RUNNING_TTL_DAYS", global = true)]
    pub running_ttl_days: Option<i64>,
    /// Days for which ended commands are kept [30].
    #[arg(long, env = "GRAPH_QUEUE_RETENTION_DAYS", global = true)]
    pub retention_days: Option<i64>,
    /// Whether tools/list works without a token [true].
    #[arg(long, env = "GRAPH_QUEUE_ANONYMOUS_LIST", global = true)]
    pub anonymous_list: Option<bool>,
    /// Whether clients' metadata documents are fetched [true].
    #[arg(long, env = "GRAPH_QUEUE_FETCH_CLIENTS", global = true)]
    pub fetch_clients: Option<bool>,
    /// A client's metadata document to believe without fetching (repeatable).
    #[arg(long = "pinned-client", env = "GRAPH_QUEUE_PINNED_CLIENTS", value_delimiter = ',', global = true)]
    pub pinned_clients: Vec<PathBuf>,
    /// Logs as `text` or `json` [text].
    #[arg(long, env = "GRAPH_QUEUE_LOG", global = true)]
    pub log: Option<String>,
}

impl Settings {
    /// Fills what neither flag nor environment gave from the file.
    pub fn with_file(mut self) -> anyhow::Result<Self> {
        let Some(path) = self.config.clone() else { return Ok(self) };
        let text = std::fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
        let file: Self = toml::from_str(&text).with_context(|| format!("reading {}", path.display()))?;
        macro_rules! fill {
            ($($name:ident),+) => { $(if self.$name.is_none() { self.$name = file.$name; })+ };
        }
        fill!(listen, public_url, database, insecure, trust_forwarded, requests_per_second, connections, queued_per_project);
        fill!(tls_cert, tls_key, queued_ttl_hours, running_ttl_days, retention_days, anonymous_list, fetch_clients, log);
        macro_rules! fill_lists {
            ($($name:ident),+) => { $(if self.$name.is_empty() { self.$name = file.$name; })+ };
        }
        fill_lists!(allowed_hosts, allowed_origins, pinned_clients);
        Ok(self)
    }

    pub fn listen(&self) -> &str {
        self.listen.as_deref().unwrap_or("127.0.0.1:8787")
    }

    pub fn database(&self) -> &str {
        self.database.as_deref().unwrap_or("graph-queue.db")
    }

    /// The database without the password that may be in its address, before the host or behind a question mark.
    pub fn database_name(&self) -> &str {
        let name = self.database();
        if !name.starts_with("postgres") || !name.contains("://") {
            return name;
        }
        let host = name.rsplit_once('@').map_or(name, |(_, rest)| rest);
        host.split_once('?').map_or(host, |(rest, _)| rest)
    }

    /// Certificate and key, if TLS is ended here.
    pub fn tls(&self) -> anyhow::Result<Option<Tls>> {
        match (&self.tls_cert, &self.tls_key) {
            (Some(certificate), Some(key)) => Ok(Some(Tls::load(certificate.clone(), key.clone())?)),
            (None, None) => Ok(None),
            (Some(_), None) | (None, Some(_)) => bail!("tls_cert and tls_key belong together"),
        }
    }

    pub fn scheme(&self) -> &'static str {
        if self.tls_cert.is_some() { "https" } else { "http" }
    }

    /// Where this queue is reached when nothing was said of it.
    pub fn own_url(&self) -> String {
        self.public_url.clone().unwrap_or_else(|| format!("{}://{}", self.scheme(), self.listen()))
    }

    /// The public address; refuses to expose tokens without being told so.
    pub fn public_url(&self, bound: std::net::SocketAddr) -> anyhow::Result<String> {
        let insecure = self.insecure == Some(true);
        match &self.public_url {
            Some(url) if url.starts_with("https://") || (url.starts_with("http://") && (insecure || bound.ip().is_loopback())) => Ok(url.clone()),
            Some(url) => bail!("--public-url {url} must be https://… (or say --insecure, inside a network you trust)"),
            None if bound.ip().is_loopback() || insecure => Ok(format!("{}://{bound}", self.scheme())),
            None => bail!(
                "a queue that others can reach at {bound} needs --public-url https://… (a TLS proxy in front, or --tls-cert), or --insecure inside a network you trust"
            ),
        }
    }

    pub fn config(&self, public_url: String) -> anyhow::Result<Config> {
        let mut config = Config::at(config::place(self.database()), public_url);
        let terms = Terms::default();
        config.terms = Terms {
            queued_ttl_ms: self.queued_ttl_hours.map_or(terms.queued_ttl_ms, |h| h.max(1) * HOUR_MS),
            running_ttl_ms: self.running_ttl_days.map_or(terms.running_ttl_ms, |d| d.max(1) * 24 * HOUR_MS),
            retention_ms: self.retention_days.map_or(terms.retention_ms, |d| d.max(1) * 24 * HOUR_MS),
            queued_per_project: self.queued_per_project.unwrap_or(terms.queued_per_project),
        };
        config.anonymous_list = self.anonymous_list.unwrap_or(true);
        config.allowed_hosts.clone_from(&self.allowed_hosts);
        config.allowed_origins.clone_from(&self.allowed_origins);
        config.trust_forwarded = self.trust_forwarded.unwrap_or(false);
        config.requests_per_second = self.requests_per_second.unwrap_or(config.requests_per_second);
        config.connections_max = self.connections.unwrap_or(config.connections_max);
        for path in &self.pinned_clients {
            config.pinned_clients.push(std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?);
        }
        if self.fetch_clients.unwrap_or(true) {
            config.documents = Some(std::sync::Arc::new(HttpsDocuments::new().context("preparing to fetch client documents")?));
        }
        Ok(config)
    }

    /// What is in force, as the file would say it, without a password.
    pub fn effective(&self) -> anyhow::Result<String> {
        let mut shown = self.clone();
        shown.listen = Some(self.listen().to_owned());
        shown.database = Some(self.database_name().to_owned());
        Ok(toml::to_string(&shown)?)
    }
}
