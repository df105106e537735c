//! Providers, aliases and prices of models. Keys are not here: they lie in the secret store.
use std::collections::BTreeMap;

use domain::Timestamp;
use rusqlite::{OptionalExtension, params};

use super::{Store, StoreError, count, int};
use crate::view::Topic;

#[derive(Debug, Clone, PartialEq)]
pub struct Provider {
    pub id: String,
    /// `anthropic`, `openai_compatible` or `ollama`.
    pub kind: String,
    /// Begins the names of its models: `name/model`.
    pub name: String,
    pub address: String,
    pub has_key: bool,
    pub models: Vec<String>,
    pub concurrency: u64,
    /// Its models are led by a JSON Schema instead of tool calls of their own.
    pub emulated_tools: bool,
    /// Ollama: tokens of context to ask for.
    pub context: Option<u64>,
}

/// Dollars per million tokens.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Price {
    pub input: f64,
    pub output: f64,
}

impl Store {
    pub fn providers(&self) -> Result<Vec<Provider>, StoreError> {
        self.read(|c| {
            let mut found = c.prepare_cached(
                "SELECT id, kind, name, address, has_key, models, concurrency, tool_calls = 'emulated', context FROM providers ORDER BY added_at, id",
            )?;
            let rows = found.query_map([], |r| {
                Ok(Provider {
                    id: r.get(0)?,
                    kind: r.get(1)?,
                    name: r.get(2)?,
                    address: r.get(3)?,
                    has_key: r.get(4)?,
                    models: serde_json::from_str(&r.get::<_, String>(5)?).unwrap_or_default(),
                    concurrency: count(r.get(6)?).max(1),
                    emulated_tools: r.get(7)?,
                    context: r.get::<_, Option<i64>>(8)?.map(count),
                })
            })?;
            Ok(rows.collect::<Result<_, _>>()?)
        })
    }

    pub fn save_provider(&self, provider: &Provider, now: Timestamp) -> Result<(), StoreError> {
        let models = serde_json::to_string(&provider.models).unwrap_or_else(|_| "[]".into());
        self.write(|tx| {
            tx.execute(
                "INSERT INTO providers (id, kind, name, address, has_key, models, concurrency, tool_calls, context, added_at)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)
                 ON CONFLICT (id) DO UPDATE SET kind = excluded.kind, name = excluded.name, address = excluded.address,
                     has_key = excluded.has_key, models = excluded.models, concurrency = excluded.concurrency,
                     tool_calls = excluded.tool_calls, context = excluded.context",
                params![
                    provider.id,
                    provider.kind,
                    provider.name,
                    provider.address,
                    provider.has_key,
                    models,
                    int(provider.concurrency),
                    if provider.emulated_tools { "emulated" } else { "native" },
                    provider.context.map(int),
                    now.ms()
                ],
            )?;
            Ok::<_, StoreError>(())
        })?;
        self.tell(Topic::Models);
        Ok(())
    }

    pub fn delete_provider(&self, id: &str) -> Result<bool, StoreError> {
        let gone = self.write(|tx| {
            let name: Option<String> = tx.query_row("SELECT name FROM providers WHERE id = ?1", [id], |r| r.get(0)).optional()?;
            if let Some(name) = name {
                // An alias of a model that is gone would send the owner's prompts nowhere, or later to another provider of that name.
                tx.execute("DELETE FROM model_aliases WHERE substr(model, 1, length(?1) + 1) = ?1 || '/'", [name])?;
            }
            Ok::<_, StoreError>(tx.execute("DELETE FROM providers WHERE id = ?1", [id])? > 0)
        })?;
        self.tell(Topic::Models);
        Ok(gone)
    }

    pub fn model_aliases(&self) -> Result<BTreeMap<String, String>, StoreError> {
        self.read(|c| {
            let mut found = c.prepare_cached("SELECT alias, model FROM model_aliases")?;
            Ok(found.query_map([], |r| Ok((r.get(0)?, r.get(1)?)))?.collect::<Result<_, _>>()?)
        })
    }

    /// An empty model removes the alias.
    pub fn set_model_alias(&self, alias: &str, model: &str) -> Result<(), StoreError> {
        self.write(|tx| {
            if model.is_empty() {
                tx.execute("DELETE FROM model_aliases WHERE alias = ?1", [alias])?;
            } else {
                tx.execute(
                    "INSERT INTO model_aliases (alias, model) VALUES (?1, ?2) ON CONFLICT (alias) DO UPDATE SET model = excluded.model",
                    [alias, model],
                )?;
            }
            Ok::<_, StoreError>(())
        })?;
        self.tell(Topic::Models);
        Ok(())
    }

    /// `None` takes the owner's line away.
    pub fn set_price(&self, model: &str, price: Option<Price>) -> Result<(), StoreError> {
        self.write(|tx| {
            match price {
                None => tx.execute("DELETE FROM prices WHERE model = ?1", [model])?,
                Some(price) => tx.execute(
                    "INSERT INTO prices (model, input, output) VALUES (?1, ?2, ?3)
                     ON CONFLICT (model) DO UPDATE SET input = excluded.input, output = excluded.output",
                    params![model, price.input, price.output],
                )?,
            };
            Ok::<_, StoreError>(())
        })?;
        self.tell(Topic::Models);
        Ok(())
    }

    pub fn prices(&self) -> Result<BTreeMap<String, Price>, StoreError> {
        self.read(|c| {
            let mut found = c.prepare_cached("SELECT model, input, output FROM prices")?;
            let rows = found.query_map([], |r| Ok((r.get(0)?, Price { input: r.get(1)?, output: r.get(2)? })))?;
            Ok(rows.collect::<Result<_, _>>()?)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deleting_a_provider_takes_its_aliases_along_and_no_others() {
        let store = Store::in_memory().unwrap();
        for (id, name) in [("1", "a"), ("2", "ab")] {
            let provider = Provider {
                id: id.into(),
                kind: "ollama".into(),
                name: name.into(),
                address: "http://127.0.0.1:11434".into(),
                has_key: false,
                models: vec!["m".into()],
                concurrency: 1,
                emulated_tools: id == "2",
                context: None,
            };
            store.save_provider(&provider, Timestamp::from_ms(1)).unwrap();
        }
        store.set_model_alias("default", "a/m").unwrap();
        store.set_model_alias("fast", "ab/m").unwrap();
        assert!(store.delete_provider("1").unwrap());
        assert_eq!(store.model_aliases().unwrap().into_iter().collect::<Vec<_>>(), [("fast".into(), "ab/m".into())]);
        let left = store.providers().unwrap();
        assert!(left.len() == 1 && left[0].emulated_tools);
    }
}
