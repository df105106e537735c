//! Models: providers, aliases, discovery, test. Keys go to the secret store and never come back.
use std::sync::Arc;

use agent::{
    Secret,
    model::{LOCAL_SERVERS, ModelError, Models, Price, Provider, ProviderKind, default_prices, discover, list_models},
};
use domain::limits::MAX_CONCURRENCY_MAX;
use tokio::time::Instant;

use super::{
    Desk,
    errors::{bad_argument, capital, error},
    lock,
};
use crate::{
    store,
    view::{AliasRow, ErrorView, FoundServer, ModelsView, PriceRow, ProviderDraft, ProviderRow, ProviderTest, Topic},
};

const NAME_CHARS_MAX: usize = 40;

/// Name of a provider's key in the secret store.
pub fn key_name(provider: &str) -> String {
    format!("provider:{provider}")
}

impl Desk {
    pub async fn models_get(&self) -> Result<ModelsView, ErrorView> {
        let aliases = self.store.model_aliases()?;
        let providers = self.store.providers()?.into_iter().map(|p| ProviderRow {
            local: is_local(&p.address),
            provider_id: p.id,
            kind: p.kind,
            name: p.name,
            address: p.address,
            has_key: p.has_key,
            models: p.models,
            concurrency: p.concurrency,
        });
        let found = lock(&self.found).clone();
        let mut prices = default_prices().into_iter().map(|(model, p)| (model, (p.input, p.output))).collect::<std::collections::BTreeMap<_, _>>();
        prices.extend(self.store.prices()?.into_iter().map(|(model, p)| (model, (p.input, p.output))));
        Ok(ModelsView {
            providers: providers.collect(),
            aliases: Models::ALIASES.iter().map(|a| AliasRow { alias: (*a).into(), model: aliases.get(*a).cloned() }).collect(),
            found,
            prices: prices.into_iter().map(|(model, (input, output))| PriceRow { model, input_per_mtok: input, output_per_mtok: output }).collect(),
        })
    }

    /// Asks the usual ports of this computer, within two seconds.
    pub async fn models_discover(&self) -> Result<ModelsView, ErrorView> {
        let found = discover(LOCAL_SERVERS).await.into_iter();
        let found = found.map(|f| FoundServer { name: f.name, address: f.address, kind: kind_word(f.kind).into(), models: f.models }).collect();
        *lock(&self.found) = found;
        self.changed(Topic::Models);
        self.models_get().await
    }

    pub async fn provider_save(&self, draft: ProviderDraft) -> Result<ModelsView, ErrorView> {
        let known = self.store.providers()?;
        let before = match &draft.provider_id {
            None => None,
            Some(id) => Some(known.iter().find(|p| p.id == *id).cloned().ok_or_else(provider_gone)?),
        };
        let mut provider = checked(&draft)?;
        if known.iter().any(|p| p.name == provider.name && Some(&p.id) != draft.provider_id.as_ref()) {
            return Err(bad_argument(Some("name"), format!("Another provider is named {}. Choose another name.", provider.name)));
        }
        provider.id = match &before {
            Some(p) => p.id.clone(),
            None => domain::DeviceId::from_random(self.config.random.bytes16()).to_string(),
        };
        let kept_key = before.as_ref().is_some_and(|p| p.has_key);
        // A key goes only where the owner typed it for: another address needs it typed anew.
        let moved = before.as_ref().is_some_and(|p| p.address != provider.address);
        if draft.key.is_none() && kept_key && moved {
            return Err(bad_argument(Some("key"), "The address changed. Type the key again: it is sent only where you gave it for."));
        }
        provider.has_key = match &draft.key {
            None => kept_key,
            Some(key) => !key.is_empty(),
        };
        if let Some(key) = draft.key {
            self.keep_key(&provider.id, key).await?;
        }
        if provider.models.is_empty() {
            let key = self.key_of(&provider).await?;
            provider.models = list_models(&as_agents(&provider, key)).await.unwrap_or_default();
        }
        self.store.save_provider(&provider, self.config.clock.now())?;
        // One model alone need not be chosen.
        if let [only] = provider.models.as_slice()
            && !self.store.model_aliases()?.contains_key("default")
        {
            self.store.set_model_alias("default", &format!("{}/{only}", provider.name))?;
        }
        self.load_models().await?;
        self.models_get().await
    }

    pub async fn provider_delete(&self, provider_id: String) -> Result<ModelsView, ErrorView> {
        if !self.store.delete_provider(&provider_id)? {
            return Err(provider_gone());
        }
        self.keep_key(&provider_id, String::new()).await?;
        self.load_models().await?;
        self.models_get().await
    }

    /// Asks the provider for its models: proves address and key, costs nothing.
    pub async fn provider_test(&self, provider_id: String) -> Result<ProviderTest, ErrorView> {
        let provider = self.store.providers()?.into_iter().find(|p| p.id == provider_id).ok_or_else(provider_gone)?;
        let key = self.key_of(&provider).await?;
        let started = Instant::now();
        let answer = list_models(&as_agents(&provider, key)).await;
        let ms = started.elapsed().as_millis() as u64;
        Ok(match answer {
            Ok(models) => {
                let missing: Vec<&str> = provider.models.iter().filter(|m| !models.contains(m)).map(String::as_str).collect();
                let note = if missing.is_empty() { String::new() } else { format!(" It does not list {}.", missing.join(", ")) };
                ProviderTest { ok: true, text: format!("{} answers and offers {} models.{note}", provider.name, models.len()), ms }
            }
            Err(e) => ProviderTest { ok: false, text: failure(&e), ms },
        })
    }

    pub async fn model_alias_set(&self, alias: String, model: String) -> Result<ModelsView, ErrorView> {
        if !Models::ALIASES.contains(&alias.as_str()) {
            return Err(bad_argument(Some("alias"), format!("The names are {}.", Models::ALIASES.join(", "))));
        }
        let known = self.store.providers()?;
        let is_known = model.split_once('/').is_some_and(|(name, rest)| !rest.is_empty() && known.iter().any(|p| p.name == name));
        if !model.is_empty() && !is_known {
            return Err(bad_argument(
                Some("model"),
                format!("{model} belongs to no provider here. Write provider/model, or add its provider first."),
            ));
        }
        self.store.set_model_alias(&alias, &model)?;
        self.load_models().await?;
        self.models_get().await
    }

    /// Hands the executor the models as the owner set them up.
    pub(super) async fn load_models(&self) -> Result<(), ErrorView> {
        let mut models = Models::new();
        for provider in self.store.providers()? {
            let key = match self.key_of(&provider).await {
                Ok(key) => key,
                Err(e) => {
                    // The others must not suffer: a call to this one will say that its key is wrong.
                    tracing::warn!("the key of {} could not be read: {}", provider.name, e.message);
                    None
                }
            };
            models.add_provider(as_agents(&provider, key));
        }
        for (alias, model) in self.store.model_aliases()? {
            models.alias(&alias, &model);
        }
        for (model, price) in self.store.prices()? {
            models.price(&model, Price { input: price.input, output: price.output, cache_read: None, cache_written: None });
        }
        self.executor.set_models(models);
        Ok(())
    }

    async fn key_of(&self, provider: &store::Provider) -> Result<Option<Secret>, ErrorView> {
        if !provider.has_key {
            return Ok(None);
        }
        let (secrets, name) = (Arc::clone(&self.config.secrets), key_name(&provider.id));
        let key = tokio::task::spawn_blocking(move || secrets.get(&name)).await.map_err(broke)??;
        Ok(key.map(Secret::new))
    }

    /// An empty key is taken away.
    async fn keep_key(&self, provider: &str, key: String) -> Result<(), ErrorView> {
        let (secrets, name) = (Arc::clone(&self.config.secrets), key_name(provider));
        let kept = tokio::task::spawn_blocking(move || if key.is_empty() { secrets.delete(&name) } else { secrets.set(&name, &key) });
        Ok(kept.await.map_err(broke)??)
    }
}

fn broke(e: tokio::task::JoinError) -> ErrorView {
    error("internal", format!("The secret store could not be asked: {e}."))
}

fn provider_gone() -> ErrorView {
    error("provider_gone", "This provider is no longer in the list.")
}

/// The draft as it may be stored, still without id and key.
fn checked(draft: &ProviderDraft) -> Result<store::Provider, ErrorView> {
    let kind = kind_of(&draft.kind).ok_or_else(|| bad_argument(Some("kind"), "The kind is anthropic, openai_compatible or ollama."))?;
    let name = draft.name.trim().to_owned();
    let is_name = !name.is_empty() && name.chars().count() <= NAME_CHARS_MAX && name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c));
    if !is_name {
        return Err(bad_argument(
            Some("name"),
            format!("A provider's name is 1 to {NAME_CHARS_MAX} letters, digits, dots and dashes: it begins its models' names, as in name/model."),
        ));
    }
    let address = draft.address.trim().trim_end_matches('/').to_owned();
    let address = if address.is_empty() { kind.default_address().to_owned() } else { address };
    let is_web = url::Url::parse(&address)
        .is_ok_and(|u| matches!(u.scheme(), "http" | "https") && u.host().is_some() && u.username().is_empty() && u.password().is_none());
    if !is_web {
        return Err(bad_argument(Some("address"), "This is not an address of a provider. It looks like https://api.example.com/v1."));
    }
    if draft.key.as_ref().is_some_and(|k| !k.is_empty()) && address.starts_with("http://") && !is_local(&address) {
        return Err(bad_argument(
            Some("address"),
            "Over http anyone on the way could read the key. Use https; plain http works on this computer only.",
        ));
    }
    let concurrency = if draft.concurrency == 0 { if is_local(&address) { 1 } else { 4 } } else { draft.concurrency };
    if concurrency > MAX_CONCURRENCY_MAX as u64 {
        return Err(bad_argument(Some("concurrency"), format!("At most {MAX_CONCURRENCY_MAX} calls at once.")));
    }
    let models = draft.models.iter().map(|m| m.trim().to_owned()).filter(|m| !m.is_empty()).collect();
    Ok(store::Provider { id: String::new(), kind: kind_word(kind).into(), name, address, has_key: false, models, concurrency })
}

fn as_agents(provider: &store::Provider, key: Option<Secret>) -> Provider {
    let kind = kind_of(&provider.kind).unwrap_or(ProviderKind::OpenAi);
    Provider { address: Some(provider.address.clone()), key, concurrency: provider.concurrency as usize, ..Provider::new(&provider.name, kind) }
}

fn failure(e: &ModelError) -> String {
    let next = match e {
        ModelError::Status { status: 401 | 403, .. } => " Check the key.",
        ModelError::Unreachable(_) => " Check the address, and that the program runs if it is on this computer.",
        _ => "",
    };
    format!("{}.{next}", capital(e.to_string().trim_end_matches('.')))
}

fn is_local(address: &str) -> bool {
    let Ok(url) = url::Url::parse(address) else { return false };
    match url.host() {
        Some(url::Host::Domain(name)) => name == "localhost",
        Some(url::Host::Ipv4(ip)) => ip.is_loopback(),
        Some(url::Host::Ipv6(ip)) => ip.is_loopback(),
        None => false,
    }
}

fn kind_of(word: &str) -> Option<ProviderKind> {
    match word {
        "anthropic" => Some(ProviderKind::Anthropic),
        "openai_compatible" => Some(ProviderKind::OpenAi),
        "ollama" => Some(ProviderKind::Ollama),
        _ => None,
    }
}

const fn kind_word(kind: ProviderKind) -> &'static str {
    match kind {
        ProviderKind::Anthropic => "anthropic",
        ProviderKind::OpenAi => "openai_compatible",
        ProviderKind::Ollama => "ollama",
    }
}
