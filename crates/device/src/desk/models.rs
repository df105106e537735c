//! Models: providers, aliases, discovery, test. Keys go to the secret store and never come back.
use std::sync::Arc;

use agent::{
    Secret,
    model::{
        LOCAL_SERVERS, Message, ModelError, ModelRequest, Models, Price, Provider, ProviderKind, ToolCalls, default_prices, discover, list_models,
    },
};
use domain::{
    limits::{MAX_CONCURRENCY_MAX, PRICES_MAX},
    text::cut_chars,
    wire::said::{Sentence, said},
};
use tokio::time::Instant;

use super::{
    Desk,
    errors::{bad_argument, capital, error},
    lock,
};
use crate::{
    store,
    view::{AliasRow, ErrorView, FoundServer, ModelsView, PriceDraft, PriceRow, ProviderDraft, ProviderRow, ProviderTest, Topic},
};

const NAME_CHARS_MAX: usize = 40;
const MODEL_CHARS_MAX: usize = 200;
/// Dollars for a million tokens.
const PRICE_MAX: f64 = 100_000.0;
const CONTEXT_MIN: u64 = 512;
const CONTEXT_MAX: u64 = 10_000_000;

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
            emulated_tools: p.emulated_tools,
            context: p.context,
        });
        let found = lock(&self.found).clone();
        let row = |model: String, input_per_mtok, output_per_mtok, is_own| PriceRow { model, input_per_mtok, output_per_mtok, is_own };
        let known = default_prices().into_iter().map(|(model, p)| (model.clone(), row(model, p.input, p.output, false)));
        let mut prices: std::collections::BTreeMap<_, _> = known.collect();
        prices.extend(self.store.prices()?.into_iter().map(|(model, p)| (model.clone(), row(model, p.input, p.output, true))));
        Ok(ModelsView {
            providers: providers.collect(),
            aliases: Models::ALIASES.iter().map(|a| AliasRow { alias: (*a).into(), model: aliases.get(*a).cloned() }).collect(),
            found,
            prices: prices.into_values().collect(),
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

    /// Lets one of the provider's models say a word: proves address, key, model and stream, and costs a few tokens.
    pub async fn provider_test(&self, provider_id: String) -> Result<ProviderTest, ErrorView> {
        let stored = self.store.providers()?.into_iter().find(|p| p.id == provider_id).ok_or_else(provider_gone)?;
        let provider = as_agents(&stored, self.key_of(&stored).await?);
        let started = Instant::now();
        let tested = test_call(&stored, provider).await;
        let ms = started.elapsed().as_millis() as u64;
        let (ok, text) = match tested {
            Ok(text) => (true, text),
            Err(text) => (false, text),
        };
        Ok(ProviderTest { ok, text, ms })
    }

    /// The owner's own price of a model (`provider/model`, or its bare name); `None` goes back to what is known without him.
    pub async fn price_set(&self, model: String, price: Option<PriceDraft>) -> Result<ModelsView, ErrorView> {
        let model = model.trim().to_owned();
        if model.is_empty() || model.chars().count() > MODEL_CHARS_MAX {
            return Err(bad_argument(Some("model"), format!("Name the model in 1 to {MODEL_CHARS_MAX} characters, as in provider/model.")));
        }
        let price = price.map(|p| store::Price { input: p.input_per_mtok, output: p.output_per_mtok });
        let fits = |dollars: f64| (0.0..=PRICE_MAX).contains(&dollars);
        if price.is_some_and(|p| !fits(p.input) || !fits(p.output)) {
            return Err(bad_argument(Some("price"), format!("A price is 0 to {PRICE_MAX} dollars for a million tokens.")));
        }
        let own = self.store.prices()?;
        if price.is_some() && !own.contains_key(&model) && own.len() >= PRICES_MAX {
            return Err(error("prices_full", format!("There are {PRICES_MAX} prices of your own, and no more are kept. Remove one first.")));
        }
        self.store.set_price(&model, price)?;
        self.load_models().await?;
        self.models_get().await
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
        Ok(self.secret(key_name(&provider.id)).await?.map(Secret::new))
    }

    /// An empty key is taken away.
    async fn keep_key(&self, provider: &str, key: String) -> Result<(), ErrorView> {
        self.keep_secret(key_name(provider), key).await
    }

    pub(super) async fn secret(&self, name: String) -> Result<Option<String>, ErrorView> {
        let secrets = Arc::clone(&self.config.secrets);
        Ok(tokio::task::spawn_blocking(move || secrets.get(&name)).await.map_err(broke)??)
    }

    /// An empty secret is taken away.
    pub(super) async fn keep_secret(&self, name: String, value: String) -> Result<(), ErrorView> {
        let secrets = Arc::clone(&self.config.secrets);
        let kept = tokio::task::spawn_blocking(move || if value.is_empty() { secrets.delete(&name) } else { secrets.set(&name, &value) });
        Ok(kept.await.map_err(broke)??)
    }
}

/// What one short completion showed, or why there was none, in words.
async fn test_call(stored: &store::Provider, provider: Provider) -> Result<Sentence, Sentence> {
    const TEST_TOKENS: u64 = 32;
    const SAID_CHARS: usize = 60;
    let listed = list_models(&provider).await;
    // A provider need not list its models; without a name there is nobody to ask.
    let name = match (stored.models.first(), &listed) {
        (Some(name), _) => name.clone(),
        (None, Ok(names)) => {
            let none = said("test_no_model", "It answers, but offers no model. Load or name one, then test again.", []);
            names.first().cloned().ok_or(none)?
        }
        (None, Err(e)) => return Err(failure(e)),
    };
    let mut models = Models::new();
    let (full, id) = (format!("{}/{name}", provider.id), provider.id.clone());
    models.add_provider(provider);
    let entry = models.resolve(Some(&full)).map_err(|e| Sentence::from(e.to_string()))?;
    let request = ModelRequest { messages: vec![Message::User("Say hello in one word.".into())], max_tokens: TEST_TOKENS, ..ModelRequest::default() };
    match entry.model.call(&request, &|_| {}).await {
        Ok(reply) => {
            let words = cut_chars(reply.said.text.trim(), SAID_CHARS);
            let used = match reply.usage {
                Some(u) => said("tokens_used", "{input} + {output} tokens", [("input", u.input.into()), ("output", u.output.into())]),
                None => said("tokens_untold", "it does not say how many tokens that took", []),
            };
            let facts = [("model", full.into()), ("words", words.into()), ("used", used.into())];
            let answered = said("test_said", "{model} said “{words}” ({used}).", facts);
            if listed.is_ok_and(|names| !names.contains(&name)) {
                let facts = [("answered", answered.into()), ("provider", id.into())];
                return Ok(said("test_said_unlisted", "{answered} {provider} does not list this model.", facts));
            }
            Ok(answered)
        }
        // It spoke, and was cut where we wanted it to be.
        Err(ModelError::PastReserved(_)) => Ok(said("test_answers", "{model} answers.", [("model", full.into())])),
        Err(e) => Err(failure(&e)),
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
    let address = if address.is_empty() { kind.default_address().to_owned() } else { with_usual_path(kind, address) };
    if !is_web(&address) {
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
    if draft.context.is_some_and(|n| !(CONTEXT_MIN..=CONTEXT_MAX).contains(&n)) {
        return Err(bad_argument(Some("context"), format!("A context is {CONTEXT_MIN} to {CONTEXT_MAX} tokens.")));
    }
    let models = draft.models.iter().map(|m| m.trim().to_owned()).filter(|m| !m.is_empty()).collect();
    let (emulated_tools, context) = (draft.emulated_tools, draft.context);
    Ok(store::Provider {
        id: String::new(),
        kind: kind_word(kind).into(),
        name,
        address,
        has_key: false,
        models,
        concurrency,
        emulated_tools,
        context,
    })
}

fn as_agents(provider: &store::Provider, key: Option<Secret>) -> Provider {
    let kind = kind_of(&provider.kind).unwrap_or(ProviderKind::OpenAi);
    Provider {
        address: Some(provider.address.clone()),
        key,
        concurrency: provider.concurrency as usize,
        tool_calls: if provider.emulated_tools { ToolCalls::Emulated } else { ToolCalls::Native },
        context: provider.context,
        ..Provider::new(&provider.name, kind)
    }
}

fn failure(e: &ModelError) -> Sentence {
    match e {
        ModelError::Status { status, message, .. } => {
            let facts = [("status", u64::from(*status).into()), ("message", message.trim_end_matches('.').into())];
            match *status {
                401 | 403 => said("test_key_refused", "The provider answered {status}: {message}. Check the key.", facts),
                _ => said("test_refused", "The provider answered {status}: {message}.", facts),
            }
        }
        ModelError::Unreachable(why) => said(
            "test_unreachable",
            "The provider could not be reached: {why}. Check the address, and that the program runs if it is on this computer.",
            [("why", why.trim_end_matches('.').into())],
        ),
        ModelError::Broken(why) => said("test_broken", "The provider's stream broke off: {why}.", [("why", why.trim_end_matches('.').into())]),
        ModelError::Stalled(seconds) => said("test_stalled", "No byte came from the model for {seconds} s.", [("seconds", (*seconds).into())]),
        ModelError::Overflow(_) | ModelError::PastReserved(_) => format!("{}.", capital(e.to_string().trim_end_matches('.'))).into(),
    }
}

/// What is pasted is often the server alone: these protocols live under /v1, Ollama's own at the top.
fn with_usual_path(kind: ProviderKind, address: String) -> String {
    match kind {
        ProviderKind::Ollama => address.strip_suffix("/v1").map_or(address.clone(), str::to_owned),
        ProviderKind::Anthropic | ProviderKind::OpenAi => {
            let is_bare = url::Url::parse(&address).is_ok_and(|u| u.path() == "/" && u.query().is_none());
            if is_bare { format!("{address}/v1") } else { address }
        }
    }
}

/// An http address that carries no name or password of its own.
pub(super) fn is_web(address: &str) -> bool {
    url::Url::parse(address)
        .is_ok_and(|u| matches!(u.scheme(), "http" | "https") && u.host().is_some() && u.username().is_empty() && u.password().is_none())
}

pub(super) fn is_local(address: &str) -> bool {
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
