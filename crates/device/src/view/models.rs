//! Models: providers, aliases, prices.
use domain::wire::said::Sentence;
use serde::{Deserialize, Serialize};
use ts_rs::TS;

#[derive(Debug, Clone, Serialize, TS)]
pub struct ModelsView {
    pub providers: Vec<ProviderRow>,
    /// default, fast, strong, local → model.
    pub aliases: Vec<AliasRow>,
    pub found: Vec<FoundServer>,
    pub prices: Vec<PriceRow>,
}

#[derive(Debug, Clone, Serialize, TS)]
pub struct ProviderRow {
    pub provider_id: String,
    /// `anthropic`, `openai_compatible` or `ollama`.
    pub kind: String,
    pub name: String,
    pub address: String,
    pub has_key: bool,
    pub models: Vec<String>,
    pub concurrency: u64,
    pub local: bool,
    /// Its models have no tool calls of their own: they are led by a JSON Schema.
    pub emulated_tools: bool,
    /// Ollama: tokens of context to ask for; absent for the default.
    pub context: Option<u64>,
}

#[derive(Debug, Clone, Serialize, TS)]
pub struct AliasRow {
    pub alias: String,
    pub model: Option<String>,
}

#[derive(Debug, Clone, Serialize, TS)]
pub struct FoundServer {
    pub name: String,
    pub address: String,
    pub kind: String,
    pub models: Vec<String>,
}

#[derive(Debug, Clone, Serialize, TS)]
pub struct PriceRow {
    pub model: String,
    pub input_per_mtok: f64,
    pub output_per_mtok: f64,
    /// The owner's own line; otherwise it is what Graph Desk knows.
    pub is_own: bool,
}

/// Dollars per million tokens.
#[derive(Debug, Clone, Copy, Deserialize, TS)]
pub struct PriceDraft {
    pub input_per_mtok: f64,
    pub output_per_mtok: f64,
}

#[derive(Debug, Clone, Deserialize, TS)]
pub struct ProviderDraft {
    pub provider_id: Option<String>,
    pub kind: String,
    pub name: String,
    pub address: String,
    /// Goes to the secret store and is never shown again; absent keeps the stored one.
    pub key: Option<String>,
    pub models: Vec<String>,
    pub concurrency: u64,
    #[serde(default)]
    pub emulated_tools: bool,
    #[serde(default)]
    pub context: Option<u64>,
}

#[derive(Debug, Clone, Serialize, TS)]
pub struct ProviderTest {
    pub ok: bool,
    pub text: Sentence,
    pub ms: u64,
}
