//! Tools that write: `write_file`, `edit_file`.
//!
//! The new content is fixed when the call is prepared, with the hash of what it replaces: what runs is what was shown, or nothing, if the
//! file changed in between. A file is written beside its place and renamed into it, so readers see the old or the new one, whole.
use std::{
    io::{self, Read, Write},
    path::Path,
    sync::atomic::{AtomicU64, Ordering},
};

use cap_std::fs::{Dir, MetadataExt, OpenOptions};
use domain::limits::{FILE_READ_BYTES_MAX, FILE_WRITE_BYTES_MAX};
use serde::Deserialize;
use serde_json::json;
use similar::TextDiff;

use super::{
    Effect, PrepareError, Prepared, ToolDefinition, ToolOutput,
    folders::{Folders, Parent, failed, reading},
    input, shown_path,
};
use crate::{
    gate::sha256_hex,
    policy::{Target, ToolClass},
};

pub(super) fn definitions() -> Vec<ToolDefinition> {
    let define = |name: &str, description: &str, properties, required| ToolDefinition {
        name: name.into(),
        description: description.into(),
        input_schema: json!({ "type": "object", "properties": properties, "required": required, "additionalProperties": false }),
        class: ToolClass::Write,
        fingerprint: None,
    };
    let path = json!({ "type": "string", "description": "Absolute path of the file." });
    vec![
        define(
            "write_file",
            "Write a text file in a folder granted for writing; makes missing folders, replaces what is there.",
            json!({ "path": path, "content": { "type": "string", "description": "The whole new text." } }),
            json!(["path", "content"]),
        ),
        define(
            "edit_file",
            "Replace a text in a file of a folder granted for writing. `old` must occur exactly once, unless `all` is true.",
            json!({
                "path": path,
                "old": { "type": "string", "minLength": 1, "description": "Text to replace, as it stands in the file." },
                "new": { "type": "string", "description": "Text to put in its place." },
                "all": { "type": "boolean", "description": "Replaces every occurrence." }
            }),
            json!(["path", "old", "new"]),
        ),
    ]
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WriteInput {
    path: String,
    content: String,
}

pub(super) fn write(folders: &Folders, given: &domain::RawJson) -> Result<Prepared, PrepareError> {
    let WriteInput { path, content } = input(given)?;
    let parent = folders.parent_for_writing(&path)?;
    let before = Before::look(&parent, &path)?;
    let bytes = content.len();
    plan(parent, before, content, move |created| json!({ "bytes": bytes, "created": created }))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct EditInput {
    path: String,
    old: String,
    new: String,
    #[serde(default)]
    all: bool,
}

pub(super) fn edit(folders: &Folders, given: &domain::RawJson) -> Result<Prepared, PrepareError> {
    let EditInput { path, old, new, all } = input(given)?;
    let parent = folders.parent_for_writing(&path)?;
    let before = Before::look(&parent, &path)?;
    let shown = shown_path(&parent.real());
    let Some(text) = before.text() else { return Err(PrepareError::Failed(format!("{shown} is not there, or not UTF-8 text of at most 1 MiB"))) };
    let count = if old.is_empty() { 0 } else { text.matches(&old).count() };
    let content = match (count, all) {
        (0, _) => return Err(PrepareError::Failed(format!("the text to replace does not occur in {shown}"))),
        (1, _) | (_, true) => text.replace(&old, &new),
        (n, false) => return Err(PrepareError::Failed(format!("the text to replace occurs {n} times in {shown}; give more of it, or all: true"))),
    };
    let bytes = content.len();
    plan(parent, before, content, move |_| json!({ "bytes": bytes, "replaced": count }))
}

/// What stands at the place now.
enum Before {
    Nothing,
    /// The text is `None` where it is too large or not UTF-8.
    File {
        hash: String,
        text: Option<String>,
        bytes: u64,
    },
}
impl Before {
    fn look(parent: &Parent, path: &str) -> Result<Self, PrepareError> {
        if !parent.missing.is_empty() {
            return Ok(Self::Nothing);
        }
        Self::read(&parent.dir, Path::new(&parent.name)).map_err(|e| match e {
            Unwritable::Io(e) => failed(path, &e),
            Unwritable::Kind(why) => PrepareError::Forbidden(format!("{} {why}", shown_path(&parent.real()))),
        })
    }

    fn read(dir: &Dir, name: &Path) -> Result<Self, Unwritable> {
        let metadata = match dir.symlink_metadata(name) {
            Ok(metadata) => metadata,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Self::Nothing),
            Err(e) => return Err(Unwritable::Io(e)),
        };
        if metadata.is_symlink() {
            return Err(Unwritable::Kind("is a symbolic link; links are not written through"));
        }
        if !metadata.is_file() {
            return Err(Unwritable::Kind("is not a regular file"));
        }
        if metadata.nlink() > 1 {
            return Err(Unwritable::Kind("has more than one name (hard link); it may belong elsewhere"));
        }
        let mut content = Vec::new();
        let file = dir.open_with(name, &reading()).map_err(Unwritable::Io)?;
        // Enough to see whether it is small enough to compare; a larger one is hashed by its first megabyte, size and time of change.
        let read = file.take(FILE_READ_BYTES_MAX as u64 + 1).read_to_end(&mut content).map_err(Unwritable::Io)?;
        let whole = read <= FILE_READ_BYTES_MAX;
        let stamp = if whole { String::new() } else { format!("{} {:?}", metadata.len(), metadata.modified().ok()) };
        let hash = format!("{}{stamp}", sha256_hex(&content));
        Ok(Self::File { hash, text: whole.then(|| String::from_utf8(content).ok()).flatten(), bytes: metadata.len() })
    }

    fn hash(&self) -> Option<&str> {
        match self {
            Self::Nothing => None,
            Self::File { hash, .. } => Some(hash),
        }
    }
    fn text(&self) -> Option<&str> {
        match self {
            Self::Nothing => None,
            Self::File { text, .. } => text.as_deref(),
        }
    }
}

enum Unwritable {
    Io(io::Error),
    Kind(&'static str),
}

fn plan(
    parent: Parent,
    before: Before,
    content: String,
    result: impl FnOnce(bool) -> serde_json::Value + Send + 'static,
) -> Result<Prepared, PrepareError> {
    if content.len() > FILE_WRITE_BYTES_MAX {
        return Err(PrepareError::Input(format!("a file of {} bytes is more than the {FILE_WRITE_BYTES_MAX} that may be written", content.len())));
    }
    let real = parent.real();
    let effect = describe(&real, &before, &content);
    let target = Target::Path(real.clone());
    let work = move |_| match put(&parent, before.hash(), content.as_bytes()) {
        Ok(()) => {
            let mut value = result(before.hash().is_none());
            value["path"] = real.to_string_lossy().into();
            ToolOutput::done(&value)
        }
        Err(e) => ToolOutput::failed(format!("{}: {e}", shown_path(&real))),
    };
    Ok(Prepared::new(ToolClass::Write, target, effect, super::blocking(work)))
}

fn describe(real: &Path, before: &Before, content: &str) -> Effect {
    let (shown, size) = (shown_path(real), content.len());
    let sentence = match before {
        Before::Nothing => format!("Create {shown} ({size} bytes)"),
        Before::File { text: Some(_), bytes, .. } => format!("Change {shown} ({bytes} to {size} bytes)"),
        Before::File { text: None, bytes, .. } => format!("Replace {shown} ({bytes} bytes that are no text or too long to compare) by {size} bytes"),
    };
    let old = before.text().unwrap_or("");
    let diff = TextDiff::from_lines(old, content).unified_diff().context_radius(3).header("before", "after").to_string();
    Effect { sentence, real_path: Some(real.to_owned()), diff: Some(diff), ..Effect::default() }
}

/// Writes exactly `content`, if what stands there is still what was shown.
fn put(parent: &Parent, expected: Option<&str>, content: &[u8]) -> io::Result<()> {
    let changed = || io::Error::other("the file was changed after the question was put; nothing was written");
    let dir = make_missing(parent)?;
    let name = Path::new(&parent.name);
    let now = Before::read(&dir, name).map_err(|e| match e {
        Unwritable::Io(e) => e,
        Unwritable::Kind(_) => changed(),
    })?;
    if now.hash() != expected {
        return Err(changed());
    }
    let permissions = dir.symlink_metadata(name).ok().map(|m| m.permissions());
    let temporary = temporary_name();
    let written = (|| {
        let mut file = dir.open_with(&temporary, OpenOptions::new().write(true).create_new(true))?;
        file.write_all(content)?;
        if let Some(permissions) = permissions {
            file.set_permissions(permissions)?;
        }
        file.sync_all()?;
        dir.rename(&temporary, &dir, name)
    })();
    if written.is_err() {
        let _ = dir.remove_file(&temporary); // the first error is the one to tell
    }
    written
}

/// Makes the missing folders one by one, each opened through the one above: a link put in between is not followed.
fn make_missing(parent: &Parent) -> io::Result<Dir> {
    let mut dir = parent.dir.try_clone()?;
    for part in &parent.missing {
        match dir.create_dir(part) {
            Err(e) if e.kind() != io::ErrorKind::AlreadyExists => return Err(e),
            Ok(()) | Err(_) => {}
        }
        if dir.symlink_metadata(part)?.is_symlink() {
            return Err(io::Error::other("a link was put in the way"));
        }
        dir = dir.open_dir(part)?;
    }
    Ok(dir)
}

fn temporary_name() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    format!(".graph-desk-{}-{}.tmp", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}
