//! Tools that read: `list_files`, `read_file`, `search_files`.
use std::{
    io::{Read, Seek, SeekFrom},
    path::{Path, PathBuf},
    sync::Arc,
};

use cap_std::fs::Dir;
use domain::limits::{FILE_READ_BYTES_MAX, FILES_LISTED_MAX};
use globset::{Glob, GlobMatcher};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::{
    Effect, PrepareError, Prepared, ToolDefinition, ToolOutput,
    folders::{Folders, Opened, reading},
    input, shown_path,
};
use crate::policy::{Target, ToolClass};

const DEPTH_MAX: usize = 32;
const MATCHES_MAX: usize = 200;
const MATCH_LINE_CHARS: usize = 300;

pub(super) fn definitions() -> Vec<ToolDefinition> {
    let define = |name: &str, description: &str, properties: Value, required: Value| ToolDefinition {
        name: name.into(),
        description: description.into(),
        input_schema: json!({ "type": "object", "properties": properties, "required": required, "additionalProperties": false }),
        class: ToolClass::Read,
        fingerprint: None,
    };
    vec![
        define(
            "list_files",
            "List a granted folder: entries with their path, kind (file, folder, other) and size in bytes. Without `path`: the granted folders.",
            json!({
                "path": { "type": "string", "description": "Absolute path of a folder." },
                "depth": { "type": "integer", "minimum": 1, "maximum": DEPTH_MAX, "description": "How many levels down: by default 1, the folder itself; with `glob` all." },
                "glob": { "type": "string", "description": "Keeps only files whose path below the folder matches, like **/*.md." }
            }),
            json!([]),
        ),
        define(
            "read_file",
            "Read a UTF-8 text file in a granted folder: its text, its size in bytes, and whether the text was cut.",
            json!({
                "path": { "type": "string", "description": "Absolute path of the file." },
                "offset": { "type": "integer", "minimum": 0, "description": "First byte to read; 0 by default." },
                "max_bytes": { "type": "integer", "minimum": 1, "maximum": FILE_READ_BYTES_MAX, "description": "At most this many bytes." }
            }),
            json!(["path"]),
        ),
        define(
            "search_files",
            "Search text files in a granted folder for a text, or for a regular expression: matches with their path, line number and line.",
            json!({
                "path": { "type": "string", "description": "Absolute path of a folder." },
                "text": { "type": "string", "description": "Text to find, as it is." },
                "regex": { "type": "string", "description": "Regular expression to find, instead of `text`." },
                "glob": { "type": "string", "description": "Searches only files whose path below the folder matches, like **/*.md." }
            }),
            json!(["path"]),
        ),
    ]
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ListInput {
    path: Option<String>,
    depth: Option<usize>,
    glob: Option<String>,
}

pub(super) fn list(folders: &Arc<Folders>, given: &domain::RawJson) -> Result<Prepared, PrepareError> {
    let ListInput { path, depth, glob } = input(given)?;
    let Some(path) = path else { return Ok(list_grants(folders)) };
    let depth = depth.unwrap_or(if glob.is_some() { DEPTH_MAX } else { 1 });
    if !(1..=DEPTH_MAX).contains(&depth) {
        return Err(PrepareError::Input(format!("depth must be 1 to {DEPTH_MAX}")));
    }
    let glob = glob.as_deref().map(matcher).transpose()?;
    let opened = folders.open_folder(&path)?;
    let (real, folders) = (opened.real.clone(), folders.clone());
    Ok(reading_call(format!("List {}", shown_path(&real)), real, move |stop| {
        let mut walk = Walk { folders: &folders, root: &opened.real, glob: glob.as_ref(), stop: &stop, entries: Vec::new(), truncated: false };
        walk.folder(&opened.handle, &opened.real, depth);
        let entry = |e: &Entry| json!({ "path": e.real.to_string_lossy(), "kind": e.kind, "bytes": e.bytes });
        let entries: Vec<_> = walk.entries.iter().filter(|e| glob.is_none() || e.kind == "file").map(entry).collect();
        ToolOutput::done(&json!({ "path": opened.real.to_string_lossy(), "entries": entries, "truncated": walk.truncated }))
    }))
}

fn list_grants(folders: &Arc<Folders>) -> Prepared {
    let entries: Vec<_> = folders.folders.iter().map(|f| json!({ "path": f.root.to_string_lossy(), "kind": "folder", "access": f.access })).collect();
    let effect = Effect { sentence: "List the granted folders".into(), ..Effect::default() };
    let output = ToolOutput::done(&json!({ "entries": entries, "truncated": false }));
    Prepared::new(ToolClass::Read, Target::Nothing, effect, Box::new(|_| Box::pin(std::future::ready(output))))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ReadInput {
    path: String,
    offset: Option<u64>,
    max_bytes: Option<usize>,
}

pub(super) fn read(folders: &Folders, given: &domain::RawJson) -> Result<Prepared, PrepareError> {
    let ReadInput { path, offset, max_bytes } = input(given)?;
    let limit = max_bytes.unwrap_or(FILE_READ_BYTES_MAX);
    if !(1..=FILE_READ_BYTES_MAX).contains(&limit) {
        return Err(PrepareError::Input(format!("max_bytes must be 1 to {FILE_READ_BYTES_MAX}")));
    }
    let Opened { mut handle, real } = folders.open_file(&path)?;
    let shown = real.clone();
    Ok(reading_call(format!("Read {}", shown_path(&real)), real, move |_| {
        let from = offset.unwrap_or(0);
        let mut bytes = Vec::new();
        let read = handle.seek(SeekFrom::Start(from)).and_then(|_| (&mut handle).take(limit as u64).read_to_end(&mut bytes));
        let size = match read.and_then(|_| handle.metadata()) {
            Ok(metadata) => metadata.len(),
            Err(e) => return ToolOutput::failed(format!("{}: {e}", shown_path(&shown))),
        };
        let cut = from + (bytes.len() as u64) < size;
        match text_of(&bytes, cut) {
            Some(text) => ToolOutput::done(&json!({ "path": shown.to_string_lossy(), "text": text, "bytes": size, "truncated": cut })),
            None => ToolOutput::failed(format!("{} is not UTF-8 text ({size} bytes)", shown_path(&shown))),
        }
    }))
}

/// A cut may fall inside a character; only then is an incomplete last one dropped.
fn text_of(bytes: &[u8], cut: bool) -> Option<&str> {
    match std::str::from_utf8(bytes) {
        Ok(text) => Some(text),
        Err(e) if cut && e.error_len().is_none() => std::str::from_utf8(&bytes[..e.valid_up_to()]).ok(),
        Err(_) => None,
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SearchInput {
    path: String,
    text: Option<String>,
    regex: Option<String>,
    glob: Option<String>,
}

pub(super) fn search(folders: &Arc<Folders>, given: &domain::RawJson) -> Result<Prepared, PrepareError> {
    const PROGRAM_BYTES_MAX: usize = 1 << 20;
    let SearchInput { path, text, regex, glob } = input(given)?;
    let pattern = match (text, regex) {
        (Some(text), None) => regex::escape(&text),
        (None, Some(regex)) => regex,
        (Some(_), Some(_)) | (None, None) => return Err(PrepareError::Input("give either text or regex".into())),
    };
    let pattern = regex::RegexBuilder::new(&pattern).size_limit(PROGRAM_BYTES_MAX).build().map_err(|e| PrepareError::Input(e.to_string()))?;
    let glob = glob.as_deref().map(matcher).transpose()?;
    let opened = folders.open_folder(&path)?;
    let (real, folders) = (opened.real.clone(), folders.clone());
    let sentence = format!("Search {} for {pattern}", shown_path(&real));
    Ok(reading_call(sentence, real, move |stop| {
        let mut walk = Walk { folders: &folders, root: &opened.real, glob: glob.as_ref(), stop: &stop, entries: Vec::new(), truncated: false };
        walk.folder(&opened.handle, &opened.real, DEPTH_MAX);
        let (mut matches, mut truncated) = (Vec::new(), walk.truncated);
        for entry in walk.entries.iter().filter(|e| e.kind == "file" && !crate::policy::holds_secrets(&e.real)) {
            if stop.is_cancelled() || matches.len() >= MATCHES_MAX {
                truncated = true;
                break;
            }
            truncated |= search_file(&opened, entry, &pattern, &mut matches);
        }
        ToolOutput::done(&json!({ "path": opened.real.to_string_lossy(), "matches": matches, "truncated": truncated }))
    }))
}

/// Adds the matching lines of one file; true if some were left out.
fn search_file(root: &Opened<Dir>, entry: &Entry, pattern: &regex::Regex, matches: &mut Vec<Value>) -> bool {
    let Ok(below) = entry.real.strip_prefix(&root.real) else { return false };
    let mut bytes = Vec::new();
    let opened = root.handle.open_with(below, &reading());
    let regular = opened.and_then(|f| if f.metadata()?.is_file() { Ok(f) } else { Err(std::io::ErrorKind::Unsupported.into()) });
    if regular.and_then(|f| f.take(FILE_READ_BYTES_MAX as u64).read_to_end(&mut bytes)).is_err() {
        return false; // gone or unreadable meanwhile
    }
    let Some(text) = text_of(&bytes, true) else { return false };
    for (number, line) in text.lines().enumerate().filter(|(_, line)| pattern.is_match(line)) {
        if matches.len() >= MATCHES_MAX {
            return true;
        }
        let line = domain::text::cut_chars(line, MATCH_LINE_CHARS);
        matches.push(json!({ "path": entry.real.to_string_lossy(), "line": number + 1, "text": line }));
    }
    entry.bytes > FILE_READ_BYTES_MAX as u64
}

struct Entry {
    real: PathBuf,
    kind: &'static str,
    bytes: u64,
}

/// A walk by handles, in order of names. Links are listed as `other`, never followed.
struct Walk<'a> {
    folders: &'a Folders,
    root: &'a Path,
    glob: Option<&'a GlobMatcher>,
    stop: &'a CancellationToken,
    entries: Vec<Entry>,
    truncated: bool,
}

impl Walk<'_> {
    fn folder(&mut self, dir: &Dir, real: &Path, depth: usize) {
        let Ok(read) = dir.entries() else { return };
        let mut found: Vec<_> = read.filter_map(Result::ok).collect();
        found.sort_by_key(cap_std::fs::DirEntry::file_name);
        for entry in found {
            if self.entries.len() >= FILES_LISTED_MAX || self.stop.is_cancelled() {
                self.truncated = true;
                return;
            }
            let path = real.join(entry.file_name());
            let Ok(metadata) = entry.metadata() else { continue };
            if self.folders.is_own(&path) {
                continue;
            }
            let wanted = self.glob.is_none_or(|g| path.strip_prefix(self.root).is_ok_and(|below| g.is_match(below)));
            if metadata.is_dir() {
                if self.glob.is_none() {
                    self.entries.push(Entry { real: path.clone(), kind: "folder", bytes: 0 });
                }
                if depth > 1
                    && let Ok(inner) = entry.open_dir()
                {
                    self.folder(&inner, &path, depth - 1);
                }
            } else if wanted {
                let kind = if metadata.is_file() { "file" } else { "other" };
                self.entries.push(Entry { real: path, kind, bytes: metadata.len() });
            }
        }
    }
}

fn matcher(glob: &str) -> Result<GlobMatcher, PrepareError> {
    Glob::new(glob).map(|g| g.compile_matcher()).map_err(|e| PrepareError::Input(e.to_string()))
}

fn reading_call(sentence: String, real: PathBuf, work: impl FnOnce(CancellationToken) -> ToolOutput + Send + 'static) -> Prepared {
    let effect = Effect { sentence, real_path: Some(real.clone()), ..Effect::default() };
    Prepared::new(ToolClass::Read, Target::Path(real), effect, super::blocking(work))
}
