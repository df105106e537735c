//! The relay: picks up commands, runs them with consent, reports how they ended. `docs/relay.md` tells a pass as a story.
mod executor;

pub use executor::{RunFeed, RunGraphs, RunNews, RunRequest};
