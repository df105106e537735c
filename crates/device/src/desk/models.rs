//! Models: providers, aliases, discovery, test calls. Keys go to the secret store and never come back.
use agent::model::Models;

use super::{Desk, errors::not_yet};
use crate::view::{AliasRow, ErrorView, ModelsView, PriceRow, ProviderDraft, ProviderRow, ProviderTest};

pub const ALIASES: [&str; 4] = ["default", "fast", "strong", "local"];

pub fn key_name(provider: &str) -> String {
    format!("provider:{provider}")
}

impl Desk {
    pub async fn models_get(&self) -> Result<ModelsView, ErrorView> {
        let aliases = self.store.model_aliases()?;
        let prices = self.store.prices()?;
        Ok(ModelsView {
            providers: self
                .store
                .providers()?
                .into_iter()
                .map(|p| ProviderRow {
                    local: false,
                    provider_id: p.id,
                    kind: p.kind,
                    name: p.name,
                    address: p.address,
                    has_key: p.has_key,
                    models: p.models,
                    concurrency: p.concurrency,
                })
                .collect(),
            aliases: ALIASES.iter().map(|a| AliasRow { alias: (*a).into(), model: aliases.get(*a).cloned() }).collect(),
            found: Vec::new(),
            prices: prices.into_iter().map(|(model, p)| PriceRow { model, input_per_mtok: p.input, output_per_mtok: p.output }).collect(),
        })
    }

    pub async fn models_discover(&self) -> Result<ModelsView, ErrorView> {
        Err(not_yet("Finding local models"))
    }
    pub async fn provider_save(&self, _provider: ProviderDraft) -> Result<ModelsView, ErrorView> {
        Err(not_yet("Adding a provider"))
    }
    pub async fn provider_delete(&self, _provider_id: String) -> Result<ModelsView, ErrorView> {
        Err(not_yet("Removing a provider"))
    }
    pub async fn provider_test(&self, _provider_id: String) -> Result<ProviderTest, ErrorView> {
        Err(not_yet("Testing a provider"))
    }
    pub async fn model_alias_set(&self, _alias: String, _model: String) -> Result<ModelsView, ErrorView> {
        Err(not_yet("Naming a model"))
    }

    /// Hands the executor the models as the owner set them up.
    pub(super) async fn load_models(&self) -> Result<(), ErrorView> {
        self.executor.set_models(Models::default());
        Ok(())
    }
}
