//! A Graph's source and what can be read of it without running it, and without any parser that recurses.
mod literal;
mod scan;

use domain::{
    RawJson, Slug,
    limits::{KIB, SOURCE_BYTES_MAX, SOURCE_DEPTH_MAX},
};

pub(crate) use scan::without_export;

/// Why a source is not a Graph, with the place. Lines and columns count from 1; 0 where the place is not known.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}{}", place(.line, .column))]
pub struct ScriptFault {
    pub message: String,
    pub line: u32,
    pub column: u32,
}

fn place(line: &u32, column: &u32) -> String {
    if *line > 0 { format!(" (line {line}, column {column})") } else { String::new() }
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
    /// The tools this Graph and its agents may use at most. Empty: it does not say, so any the rules allow.
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

impl ScriptFault {
    pub(crate) fn at(source: &str, offset: usize, message: impl Into<String>) -> Self {
        let before = &source[..source.floor_char_boundary(offset)];
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or("").chars().count() + 1;
        Self { message: message.into(), line: u32::try_from(line).unwrap_or(u32::MAX), column: u32::try_from(column).unwrap_or(u32::MAX) }
    }
}

/// What must hold before any parser sees a source: its size and how deep its brackets go.
pub(crate) fn check(source: &str) -> Result<(), ScriptFault> {
    if source.len() > SOURCE_BYTES_MAX {
        let message = format!("a Graph's source may be {} KiB, this is {} KiB", SOURCE_BYTES_MAX / KIB, source.len() / KIB);
        return Err(ScriptFault::at(source, 0, message));
    }
    scan::too_deep(source, SOURCE_DEPTH_MAX)
        .map_or(Ok(()), |at| Err(ScriptFault::at(source, at, format!("brackets nest deeper than {SOURCE_DEPTH_MAX} levels"))))
}

impl Meta {
    /// Reads the literal at the top of a source. A source without one gets an empty `Meta`. Runs nothing, cannot recurse deeply.
    pub fn read(source: &str) -> Result<Self, ScriptFault> {
        check(source)?;
        let Some(at) = scan::meta_literal(source) else { return Ok(Self::default()) };
        let value = literal::read(source, at)?;
        literal::meta(&value).map_err(|message| ScriptFault::at(source, at, message))
    }
}

impl Script {
    pub fn new(slug: Slug, source: impl Into<String>) -> Self {
        Self { slug, source: source.into() }
    }
}

/// The Graphs the app comes with: slug and source.
pub const TEMPLATES: &[(&str, &str)] = &[
    ("folder-digest", include_str!("../../templates/folder-digest.graph.js")),
    ("review-change-set", include_str!("../../templates/review-change-set.graph.js")),
    ("extract-table", include_str!("../../templates/extract-table.graph.js")),
    ("nightly-report", include_str!("../../templates/nightly-report.graph.js")),
    ("ask-before-acting", include_str!("../../templates/ask-before-acting.graph.js")),
];
