//! The owner's settings and the folders tools may see. A setting that is missing or unreadable has its default; values are bounded here.
use std::path::{Path, PathBuf};

use agent::tools::{Access, Grant};
use domain::{
    Timestamp,
    limits::{
        APPROVAL_TIMEOUT_MS_DEFAULT, HISTORY_RETENTION_DAYS_DEFAULT, MAX_CONCURRENCY_DEFAULT, MAX_CONCURRENCY_MAX, MAX_TOKENS_PER_CALL_DEFAULT,
        TOKEN_CEILING_DEFAULT,
    },
};
use rusqlite::{OptionalExtension, params};
use serde::{Deserialize, Serialize};

use super::{Store, StoreError, parsed};
use crate::view::{SettingsChange, Theme, Topic};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Settings {
    pub token_ceiling: u64,
    /// What the priced models of a run may cost, in hundredths of a dollar; 0 for no such ceiling.
    pub cost_ceiling_cents: u64,
    pub max_concurrency: u64,
    pub max_tokens_per_call: u64,
    pub approval_timeout_s: u64,
    pub pickup_instant: bool,
    pub paused: bool,
    /// When it was paused, in milliseconds since 1970.
    pub paused_at: i64,
    pub start_at_login: bool,
    pub keep_in_tray: bool,
    pub tell_asks: bool,
    pub theme: Theme,
    pub language: String,
    pub retention_days: u32,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            token_ceiling: TOKEN_CEILING_DEFAULT,
            cost_ceiling_cents: 0,
            max_concurrency: MAX_CONCURRENCY_DEFAULT as u64,
            max_tokens_per_call: MAX_TOKENS_PER_CALL_DEFAULT,
            approval_timeout_s: APPROVAL_TIMEOUT_MS_DEFAULT / 1000,
            pickup_instant: true,
            paused: false,
            paused_at: 0,
            start_at_login: false,
            keep_in_tray: true,
            tell_asks: false,
            theme: Theme::System,
            language: "system".into(),
            retention_days: HISTORY_RETENTION_DAYS_DEFAULT,
        }
    }
}

/// A value outside what is allowed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutOfBounds {
    pub field: &'static str,
    pub message: String,
}

impl Settings {
    /// In dollars, as prices are; `None` where there is no money ceiling.
    pub fn cost_ceiling(&self) -> Option<f64> {
        (self.cost_ceiling_cents > 0).then(|| self.cost_ceiling_cents as f64 / 100.0)
    }

    /// The settings after a change, or which value is out of bounds.
    pub fn changed(mut self, change: SettingsChange, now: Timestamp) -> Result<Self, OutOfBounds> {
        let bounded = |field, name: &str, value: u64, from: u64, to: u64| {
            let message = format!("{name} must be between {from} and {to}; {value} is not.");
            if (from..=to).contains(&value) { Ok(value) } else { Err(OutOfBounds { field, message }) }
        };
        if let Some(n) = change.token_ceiling {
            self.token_ceiling = bounded("token_ceiling", "The token ceiling", n, 1, 1_000_000_000)?;
        }
        if let Some(n) = change.cost_ceiling_cents {
            self.cost_ceiling_cents = bounded("cost_ceiling_cents", "The money ceiling, in cents,", n, 0, 100_000_000)?;
        }
        if let Some(n) = change.max_concurrency {
            self.max_concurrency = bounded("max_concurrency", "The number of agents at once", n, 1, MAX_CONCURRENCY_MAX as u64)?;
        }
        if let Some(n) = change.max_tokens_per_call {
            self.max_tokens_per_call = bounded("max_tokens_per_call", "Tokens per model call", n, 1, 1_000_000)?;
        }
        if let Some(n) = change.approval_timeout_s {
            self.approval_timeout_s = bounded("approval_timeout_s", "The time to answer, in seconds,", n, 10, 24 * 60 * 60)?;
        }
        if let Some(n) = change.retention_days {
            self.retention_days = bounded("retention_days", "Days to keep the history", n.into(), 1, 3650)? as u32;
        }
        if let Some(paused) = change.paused {
            if paused && !self.paused {
                self.paused_at = now.ms();
            }
            self.paused = paused;
        }
        self.pickup_instant = change.pickup_instant.unwrap_or(self.pickup_instant);
        self.start_at_login = change.start_at_login.unwrap_or(self.start_at_login);
        self.keep_in_tray = change.keep_in_tray.unwrap_or(self.keep_in_tray);
        self.tell_asks = change.tell_asks.unwrap_or(self.tell_asks);
        self.theme = change.theme.unwrap_or(self.theme);
        self.language = change.language.unwrap_or(self.language);
        Ok(self)
    }
}

const KEY: &str = "settings";

impl Store {
    pub fn settings(&self) -> Result<Settings, StoreError> {
        Ok(self.setting::<Settings>(KEY)?.unwrap_or_default())
    }

    pub fn save_settings(&self, settings: &Settings) -> Result<(), StoreError> {
        self.save_setting(KEY, settings)?;
        self.tell(Topic::Settings);
        Ok(())
    }

    /// One JSON value of the settings table. What cannot be read counts as missing: a newer version may have written it.
    pub fn setting<T: serde::de::DeserializeOwned>(&self, key: &str) -> Result<Option<T>, StoreError> {
        self.read(|c| {
            let text: Option<String> = c.prepare_cached("SELECT value FROM settings WHERE key = ?1")?.query_row([key], |r| r.get(0)).optional()?;
            Ok(text.and_then(|t| serde_json::from_str(&t).ok()))
        })
    }

    pub fn save_setting(&self, key: &str, value: &impl Serialize) -> Result<(), StoreError> {
        let text = serde_json::to_string(value).map_err(|_| StoreError::Unreadable { what: "setting" })?;
        self.write(|tx| {
            tx.execute(
                "INSERT INTO settings (key, value) VALUES (?1, ?2) ON CONFLICT (key) DO UPDATE SET value = excluded.value",
                params![key, text],
            )?;
            Ok(())
        })
    }

    /// Folders tools may see, by path.
    pub fn folders(&self) -> Result<Vec<Grant>, StoreError> {
        self.read(|c| {
            let mut found = c.prepare_cached("SELECT path, access FROM folders ORDER BY path")?;
            let rows = found.query_map([], |r| Ok((r.get::<_, String>(0)?, r.get::<_, String>(1)?)))?;
            rows.map(|row| {
                let (path, access) = row?;
                Ok(Grant { path: PathBuf::from(path), access: parsed(&access, "folder access", access_of)? })
            })
            .collect()
        })
    }

    pub fn save_folder(&self, grant: &Grant, now: Timestamp) -> Result<(), StoreError> {
        let access = match grant.access {
            Access::Read => "read",
            Access::Write => "write",
        };
        self.write(|tx| {
            tx.execute(
                "INSERT INTO folders (path, access, added_at) VALUES (?1, ?2, ?3) ON CONFLICT (path) DO UPDATE SET access = excluded.access",
                params![grant.path.to_string_lossy(), access, now.ms()],
            )?;
            Ok::<_, StoreError>(())
        })?;
        self.tell(Topic::Settings);
        Ok(())
    }

    pub fn remove_folder(&self, path: &Path) -> Result<bool, StoreError> {
        let gone = self.write(|tx| Ok::<_, StoreError>(tx.execute("DELETE FROM folders WHERE path = ?1", [path.to_string_lossy()])? > 0))?;
        self.tell(Topic::Settings);
        Ok(gone)
    }
}

fn access_of(text: &str) -> Option<Access> {
    match text {
        "read" => Some(Access::Read),
        "write" => Some(Access::Write),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_out_of_bounds_is_refused_by_name_and_changes_nothing() {
        let store = Store::in_memory().unwrap();
        let change = SettingsChange { max_concurrency: Some(65), ..SettingsChange::default() };
        let refused = store.settings().unwrap().changed(change, Timestamp::from_ms(0)).unwrap_err();
        assert_eq!(refused.field, "max_concurrency");
        assert!(refused.message.contains("between 1 and 64"), "{}", refused.message);
    }

    #[test]
    fn settings_and_folders_are_read_back_as_they_were_saved() {
        let store = Store::in_memory().unwrap();
        let change = SettingsChange { paused: Some(true), language: Some("de".into()), ..SettingsChange::default() };
        let settings = store.settings().unwrap().changed(change, Timestamp::from_ms(7)).unwrap();
        store.save_settings(&settings).unwrap();
        assert_eq!(store.settings().unwrap(), settings);
        assert_eq!((settings.paused, settings.paused_at), (true, 7));
        let grant = Grant { path: "/a".into(), access: Access::Write };
        store.save_folder(&grant, Timestamp::from_ms(1)).unwrap();
        assert_eq!(store.folders().unwrap(), [grant]);
        assert!(store.remove_folder(Path::new("/a")).unwrap());
        assert!(store.folders().unwrap().is_empty());
    }
}
