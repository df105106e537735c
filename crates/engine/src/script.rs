//! A Graph's source and what can be read of it without running it.
use domain::{RawJson, Slug};

/// Why a source is not a Graph, with the place. Lines and columns count from 1.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message} (line {line}, column {column})")]
pub struct ScriptFault {
    pub message: String,
    pub line: u32,
    pub column: u32,
}

/// A Graph to run.
#[derive(Debug, Clone, PartialEq)]
pub struct Script {
    pub slug: Slug,
    pub source: String,
}

/// `export const meta = { … }`, a pure literal at the top of the source.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Meta {
    /// Empty where the source has no `meta`.
    pub name: String,
    pub description: String,
    pub phases: Vec<MetaPhase>,
    /// JSON Schema of the arguments.
    pub args: Option<RawJson>,
    pub tools: Vec<String>,
    pub models: Vec<String>,
    pub limits: MetaLimits,
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct MetaPhase {
    pub title: String,
    pub detail: Option<String>,
}

/// What the Graph wants less of than its owner allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MetaLimits {
    pub max_concurrency: Option<usize>,
    pub token_ceiling: Option<u64>,
    pub agents: Option<usize>,
}
