//! What one execution is allowed, decided by the owner and narrowed by the Graph.
use domain::{
    Slug, Timestamp,
    limits::{
        AGENT_TIMEOUT_MS_DEFAULT, AGENTS_PER_EXECUTION_MAX, DEADLINE_MS_DEFAULT, MAX_CONCURRENCY_DEFAULT, MAX_CONCURRENCY_MAX,
        MAX_TOKENS_PER_CALL_DEFAULT, TOKEN_CEILING_DEFAULT, VM_BUSY_MS_MAX,
    },
};

use crate::script::MetaLimits;

#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// The outermost Graph's slug; shown, and the start of every call's `graphs`.
    pub slug: Slug,
    pub max_concurrency: usize,
    pub token_ceiling: u64,
    /// Money ceiling in the currency of the prices; counts priced models only.
    pub cost_ceiling: Option<f64>,
    /// Output of one model call, at most; a Graph can ask for less.
    pub max_tokens_per_call: u64,
    pub agents: usize,
    pub deadline_ms: u64,
    /// Longest one agent may take, approval waits not counted. A script's `timeout_s` can only shorten it.
    pub agent_timeout_ms: u64,
    /// Longest the script may work without coming back to its host.
    pub busy_ms: u64,
    /// Name of the model an agent without `model` gets, for the story.
    pub default_model: String,
    /// A dry run: `sleep` moves the script's clock instead of waiting.
    pub is_dry: bool,
    /// Recorded seed of `Math.random`.
    pub seed: u64,
    /// Recorded start: the script's clock begins here.
    pub started_at: Timestamp,
}

impl Settings {
    /// The product's defaults. Seed and start come from the caller.
    pub fn new(slug: Slug, seed: u64, started_at: Timestamp) -> Self {
        Self {
            slug,
            max_concurrency: MAX_CONCURRENCY_DEFAULT,
            token_ceiling: TOKEN_CEILING_DEFAULT,
            cost_ceiling: None,
            max_tokens_per_call: MAX_TOKENS_PER_CALL_DEFAULT,
            agents: AGENTS_PER_EXECUTION_MAX,
            deadline_ms: DEADLINE_MS_DEFAULT,
            agent_timeout_ms: AGENT_TIMEOUT_MS_DEFAULT,
            busy_ms: VM_BUSY_MS_MAX,
            default_model: "default".to_owned(),
            is_dry: false,
            seed,
            started_at,
        }
    }

    /// A Graph may ask for less than its owner allows, never for more.
    pub fn narrowed(mut self, limits: &MetaLimits) -> Self {
        self.max_concurrency = limits.max_concurrency.unwrap_or(self.max_concurrency).min(self.max_concurrency).clamp(1, MAX_CONCURRENCY_MAX);
        self.token_ceiling = limits.token_ceiling.unwrap_or(self.token_ceiling).min(self.token_ceiling);
        self.agents = limits.agents.unwrap_or(self.agents).min(self.agents).min(AGENTS_PER_EXECUTION_MAX);
        self
    }
}
