//! Settings and the Doctor.
use domain::wire::said::Sentence;
use serde::{Deserialize, Serialize};
use ts_rs::TS;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "snake_case")]
pub enum FolderAccess {
    Read,
    Write,
}

#[derive(Debug, Clone, Serialize, TS)]
pub struct FolderView {
    pub path: String,
    pub access: FolderAccess,
    /// Why it cannot be used now, if so.
    pub problem: Option<Sentence>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "snake_case")]
pub enum Theme {
    System,
    Light,
    Dark,
}

#[derive(Debug, Clone, Serialize, TS)]
pub struct SettingsView {
    pub folders: Vec<FolderView>,
    pub token_ceiling: u64,
    /// Hundredths of a dollar that priced models may cost in a run; 0 for no such ceiling.
    pub cost_ceiling_cents: u64,
    pub max_concurrency: u64,
    pub max_tokens_per_call: u64,
    pub approval_timeout_s: u64,
    /// Instant (doorbell) or every 20 s.
    pub pickup_instant: bool,
    pub paused: bool,
    pub start_at_login: bool,
    pub keep_in_tray: bool,
    pub tell_asks: bool,
    pub theme: Theme,
    pub language: String,
    pub retention_days: u32,
    pub data_folder: String,
    pub logs_folder: String,
}

#[derive(Debug, Clone, Default, Deserialize, TS)]
#[serde(default)]
pub struct SettingsChange {
    pub token_ceiling: Option<u64>,
    pub cost_ceiling_cents: Option<u64>,
    pub max_concurrency: Option<u64>,
    pub max_tokens_per_call: Option<u64>,
    pub approval_timeout_s: Option<u64>,
    pub pickup_instant: Option<bool>,
    pub paused: Option<bool>,
    pub start_at_login: Option<bool>,
    pub keep_in_tray: Option<bool>,
    pub tell_asks: Option<bool>,
    pub theme: Option<Theme>,
    pub language: Option<String>,
    pub retention_days: Option<u32>,
}
