//! The models the owner has set up: providers, aliases, prices.
use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

use domain::limits::MODEL_LANES_MAX;
use serde::{Deserialize, Serialize};

use super::{Lane, Model, ModelUsage, Provider, ToolCalls, provider::Connection};

/// Dollars per million tokens. Data, editable by the owner; a model without a line costs "unknown", never 0.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Price {
    pub input: f64,
    pub output: f64,
    /// Of input read from the provider's cache; the input price where it is not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_read: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_written: Option<f64>,
}
impl Price {
    pub fn cost(&self, usage: ModelUsage) -> f64 {
        let fresh = usage.input.saturating_sub(usage.cache_read).saturating_sub(usage.cache_written);
        let dollars = fresh as f64 * self.input
            + usage.cache_read as f64 * self.cache_read.unwrap_or(self.input)
            + usage.cache_written as f64 * self.cache_written.unwrap_or(self.input)
            + usage.output as f64 * self.output;
        dollars / 1_000_000.0
    }

    /// The most a call can cost: all of its input at the dearest of its prices, and all the output it may give.
    pub fn worst(&self, input: u64, max_output: u64) -> f64 {
        let dearest = self.input.max(self.cache_written.unwrap_or(0.0)).max(self.cache_read.unwrap_or(0.0));
        (input as f64 * dearest + max_output as f64 * self.output) / 1_000_000.0
    }
}

/// What the app knows on its first day; the owner's table stands above it.
pub fn default_prices() -> BTreeMap<String, Price> {
    let anthropic = |input: f64, output: f64| Price { input, output, cache_read: Some(input * 0.1), cache_written: Some(input * 1.25) };
    BTreeMap::from([
        ("claude-fable-5-2".to_owned(), anthropic(8.0, 40.0)),
        ("claude-opus-5-5".to_owned(), anthropic(4.0, 20.0)),
        ("claude-sonnet-5-5".to_owned(), anthropic(2.0, 10.0)),
        ("claude-haiku-5-5".to_owned(), anthropic(0.1, 0.5)),
    ])
}

/// One model of one provider, ready to be called.
#[derive(Clone)]
pub struct ModelEntry {
    /// `provider/model`.
    pub name: String,
    pub model: Arc<dyn Model>,
    pub tool_calls: ToolCalls,
    pub price: Option<Price>,
    /// Its own places, and the pauses of its provider.
    pub lane: Arc<Lane>,
}

/// Why a name leads to no model; the sentence says what to do next.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoSuchModel {
    #[error(
        "No model is set up. Open Models in Graph Desk and add a provider's key, or start a local model (Ollama, LM Studio, llama.cpp) and let Graph Desk find it."
    )]
    None,
    #[error("No model is chosen for \"{0}\". Open Models in Graph Desk and choose one.")]
    Alias(String),
    #[error("There is no model \"{0}\". Known: {1}. Open Models in Graph Desk to add its provider.")]
    Unknown(String, String),
}

struct Known {
    at: Arc<Connection>,
    /// Of the names beyond the limit.
    lane: Arc<Lane>,
    lanes: Mutex<BTreeMap<String, Arc<Lane>>>,
}

impl Known {
    fn new(provider: Provider) -> Self {
        let lane = Lane::new(provider.concurrency);
        Self { at: Connection::new(provider), lane, lanes: Mutex::default() }
    }

    fn lane(&self, model: &str) -> Arc<Lane> {
        let mut lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(lane) = lanes.get(model) {
            return Arc::clone(lane);
        }
        if lanes.len() >= MODEL_LANES_MAX {
            return Arc::clone(&self.lane);
        }
        let lane = self.lane.of_another_model();
        lanes.insert(model.to_owned(), Arc::clone(&lane));
        lane
    }
}

/// Cheap to clone. The aliases are `default`, `fast`, `strong`, `local`.
#[derive(Clone, Default)]
pub struct Models {
    providers: BTreeMap<String, Arc<Known>>,
    entries: BTreeMap<String, ModelEntry>,
    aliases: BTreeMap<String, String>,
    prices: BTreeMap<String, Price>,
}

impl Models {
    pub const ALIASES: [&'static str; 4] = ["default", "fast", "strong", "local"];

    pub fn new() -> Self {
        Self { prices: default_prices(), ..Self::default() }
    }

    /// All models of a provider become callable as `provider/model`.
    pub fn add_provider(&mut self, provider: Provider) {
        self.providers.insert(provider.id.clone(), Arc::new(Known::new(provider)));
    }

    /// One ready model: for tests and simulation.
    pub fn add(&mut self, entry: ModelEntry) {
        self.entries.insert(entry.name.clone(), entry);
    }

    pub fn alias(&mut self, alias: &str, name: &str) {
        self.aliases.insert(alias.to_owned(), name.to_owned());
    }

    /// Keys are `provider/model` or just the model's name.
    pub fn price(&mut self, name: &str, price: Price) {
        self.prices.insert(name.to_owned(), price);
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty() && self.providers.is_empty()
    }

    /// The model a Graph means. Costs nothing and touches no network.
    pub fn resolve(&self, wanted: Option<&str>) -> Result<ModelEntry, NoSuchModel> {
        if self.is_empty() {
            return Err(NoSuchModel::None);
        }
        let wanted = wanted.unwrap_or("default");
        let name = match self.aliases.get(wanted) {
            Some(name) => name,
            None if Self::ALIASES.contains(&wanted) => return self.only().ok_or_else(|| NoSuchModel::Alias(wanted.to_owned())),
            None => wanted,
        };
        self.named(name).ok_or_else(|| NoSuchModel::Unknown(wanted.to_owned(), self.known().join(", ")))
    }

    fn named(&self, name: &str) -> Option<ModelEntry> {
        if let Some(entry) = self.entries.get(name) {
            return Some(entry.clone());
        }
        let (provider, model) = name.split_once('/')?;
        let known = self.providers.get(provider)?;
        let price = self.prices.get(name).or_else(|| self.prices.get(model)).copied();
        let tool_calls = known.at.provider.tool_calls;
        Some(ModelEntry { name: name.to_owned(), model: known.at.model(model), tool_calls, price, lane: known.lane(model) })
    }

    /// Where one single model was added, it need not be chosen.
    fn only(&self) -> Option<ModelEntry> {
        let one = self.entries.len() == 1 && self.providers.is_empty();
        one.then(|| self.entries.values().next().cloned()).flatten()
    }

    fn known(&self) -> Vec<String> {
        let providers = self.providers.keys().map(|id| format!("{id}/…"));
        self.aliases.keys().cloned().chain(self.entries.keys().cloned()).chain(providers).collect()
    }
}
impl fmt::Debug for Models {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Models").field("providers", &self.providers.keys()).field("aliases", &self.aliases).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::{Instant, timeout};

    use super::*;
    use crate::model::ProviderKind;

    #[tokio::test(start_paused = true)]
    async fn each_model_has_its_own_places_and_all_keep_their_providers_pauses() {
        let mut models = Models::new();
        models.add_provider(Provider::new("here", ProviderKind::Ollama));
        let lane = |model: &str| models.resolve(Some(&format!("here/{model}"))).unwrap().lane;
        let held = lane("small").enter().await;
        let soon = Duration::from_millis(10);
        assert!(timeout(soon, lane("small").enter()).await.is_err(), "a local model takes one call at a time");
        assert!(timeout(soon, lane("large").enter()).await.is_ok(), "and holds up no other");
        drop(held);
        lane("small").pause_for(Duration::from_secs(5));
        let before = Instant::now();
        drop(lane("large").enter().await);
        assert_eq!(before.elapsed().as_secs(), 5);
        let lanes: Vec<Arc<Lane>> = (0..2 * MODEL_LANES_MAX).map(|n| lane(&format!("invented-{n}"))).collect();
        assert!(Arc::ptr_eq(&lanes[2 * MODEL_LANES_MAX - 1], &lanes[2 * MODEL_LANES_MAX - 2]), "invented names make no lanes without end");
        assert!(Arc::ptr_eq(&lane("small"), &lane("small")) && !Arc::ptr_eq(&lane("small"), &lane("large")));
    }
}
