//! Model servers on this computer, found by asking the usual loopback ports, and a provider's list of models.
use std::time::Duration;

use futures::future::join_all;
use serde_json::Value;

use super::{ModelError, Provider, ProviderKind};

/// Name, kind and address of what is usually there.
pub const LOCAL_SERVERS: &[(&str, ProviderKind, &str)] = &[
    ("ollama", ProviderKind::Ollama, "http://127.0.0.1:11434"),
    ("lmstudio", ProviderKind::OpenAi, "http://127.0.0.1:1234/v1"),
    ("llamacpp", ProviderKind::OpenAi, "http://127.0.0.1:8080/v1"),
    ("vllm", ProviderKind::OpenAi, "http://127.0.0.1:8000/v1"),
];

/// A server that answered, with the models it has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    pub name: String,
    pub kind: ProviderKind,
    pub address: String,
    pub models: Vec<String>,
}

/// Asks all of them at once; who does not answer within two seconds is not there.
pub async fn discover(servers: &[(&str, ProviderKind, &str)]) -> Vec<Found> {
    let asked = servers.iter().map(|(name, kind, address)| async move {
        let provider = Provider { address: Some((*address).to_owned()), ..Provider::new(name, *kind) };
        let models = list_models(&provider).await.ok()?;
        Some(Found { name: (*name).to_owned(), kind: *kind, address: (*address).to_owned(), models })
    });
    join_all(asked).await.into_iter().flatten().collect()
}

/// The models a provider offers. Also the test whether address and key are right.
pub async fn list_models(provider: &Provider) -> Result<Vec<String>, ModelError> {
    const ANSWER_MS: u64 = 2_000;
    const ANSWER_MS_REMOTE: u64 = 15_000;
    let (path, list, name) = match provider.kind {
        ProviderKind::Ollama => ("/api/tags", "models", "name"),
        ProviderKind::Anthropic | ProviderKind::OpenAi => ("/models", "data", "id"),
    };
    let mut request = provider.http()?.get(format!("{}{path}", provider.address()));
    if let Some(key) = &provider.key {
        request = match provider.kind {
            ProviderKind::Anthropic => request.header("x-api-key", key.reveal()).header("anthropic-version", "2023-06-01"),
            ProviderKind::OpenAi | ProviderKind::Ollama => request.bearer_auth(key.reveal()),
        };
    }
    let wait = if provider.key.is_some() { ANSWER_MS_REMOTE } else { ANSWER_MS };
    let unreachable = |e: reqwest::Error| ModelError::Unreachable(provider.scrub(&e.to_string()));
    let answer = request.timeout(Duration::from_millis(wait)).send().await.map_err(unreachable)?;
    let status = answer.status().as_u16();
    let body = answer.text().await.map_err(unreachable)?;
    if status != 200 {
        return Err(ModelError::Status { status, message: provider.scrub(&body), retry_after: None });
    }
    let value: Value = serde_json::from_str(&body).map_err(|e| ModelError::Broken(format!("the list of models cannot be read: {e}")))?;
    let models = value.get(list).and_then(Value::as_array).ok_or_else(|| ModelError::Broken("the answer holds no list of models".into()))?;
    Ok(models.iter().filter_map(|m| m.get(name)?.as_str().map(str::to_owned)).collect())
}
