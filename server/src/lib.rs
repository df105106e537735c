//! Graph Queue: the queue between connected agents and desktops, as a library.
//!
//! The binary `graph-queue` serves it; Graph Desk may embed it; the simulation drives its real router. It never runs a Graph and never
//! connects to a desktop. Nothing here reads a clock, draws randomness or opens a socket: those are handed in.
//!
//! | module | what it holds |
//! |---|---|
//! | [`queue`] | the deep part: one file per verb, every change in one transaction |
//! | [`store`] | statements and values for SQLite and PostgreSQL |
//! | [`mcp`] | `/mcp`: gate, five tools, texts |
//! | [`oauth`] | the authorization server: consent by connect code |
//! | [`relay_api`] | `/external-assistants/…`: what devices ask |
//! | [`bell`] | who waits for what |
pub mod app;
pub mod bell;
mod body;
pub mod config;
mod contact;
mod front;
mod html;
mod http_error;
mod limiter;
pub mod mcp;
mod metrics;
pub mod oauth;
mod owner_page;
mod ports;
pub mod queue;
mod raw;
pub mod relay_api;
mod secret;
pub mod serve;
pub mod store;
pub mod tls;
pub mod workers;

pub use app::{App, OpenError};
pub use config::Config;
pub use ports::{Clock, Random};
