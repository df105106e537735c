//! What went wrong in a script, in words, with the place: message, frames, the source line with a caret, usual mistakes named.
use boa_engine::{
    Context, JsError, JsString, JsValue,
    error::{EngineError, RuntimeLimitError},
};
use domain::{
    limits::{VM_LOOP_ITERATIONS_MAX, VM_RECURSION_MAX},
    text::cut_chars,
};

use super::{HEAD, SOURCE_NAME, jobs::Lost};
use crate::vm::wire::{Fault, FaultKind};

const MESSAGE_CHARS_MAX: usize = 4_000;
const FRAMES_SHOWN: usize = 8;
const SOURCE_LINE_CHARS_MAX: usize = 200;

/// A frame of the script's own source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Frame {
    function: String,
    line: u32,
    /// 0: somewhere before the first place the interpreter knows in the Graph itself.
    column: u32,
}

/// Takes the wrapper's head off the first line's columns. `None` for a place inside that head: the interpreter names it where it knows
/// none of the owner's.
pub(super) fn own_place(line: u32, column: u32) -> Option<(u32, u32)> {
    if line != 1 {
        return Some((line, column));
    }
    let head = u32::try_from(HEAD.len()).unwrap_or(0);
    (column > head).then(|| (line, column - head))
}

/// The script ended with an uncaught `throw` (or a failed call it did not catch).
pub(super) fn thrown(value: &JsValue, source: &str, cx: &mut Context) -> Fault {
    let message = words(value, cx);
    let code = member(value, "code", cx).and_then(|v| v.as_string().map(|s| s.to_std_string_lossy()));
    let stack = member(value, "stack", cx).and_then(|v| v.as_string().map(|s| s.to_std_string_lossy())).unwrap_or_default();
    // The frames of failed calls were made in `natives`, already in the owner's places.
    let frames = if code.is_some() { frames(&stack) } else { own_frames(&stack) };
    shown(FaultKind::Thrown, &message, source, frames, code)
}

/// The script was interrupted while it worked: `stack` is where it stood, in the owner's places.
pub(super) fn interrupted(message: &str, source: &str, stack: &str) -> Fault {
    shown(FaultKind::Stalled, message, source, frames(stack), None)
}

pub(super) fn from_error(e: JsError, source: &str, cx: &mut Context) -> Fault {
    // The text's lines after the first are the frames; there is no other way to them.
    let text = e.to_string();
    let frames = own_frames(text.split_once('\n').map_or("", |(_, frames)| frames));
    if let Some(engine) = e.as_engine() {
        let (kind, message) = match engine {
            EngineError::RuntimeLimit(RuntimeLimitError::LoopIteration) => (FaultKind::Stalled, loop_words()),
            EngineError::RuntimeLimit(RuntimeLimitError::Recursion | RuntimeLimitError::StackSize) => (FaultKind::TooDeep, recursion_words()),
            EngineError::NoInstructionsRemain => (FaultKind::Stalled, "The script ran out of instructions.".to_owned()),
            EngineError::Panic(panic) => (FaultKind::Broken, format!("the interpreter failed: {}", panic.message())),
        };
        return shown(kind, &message, source, frames, None);
    }
    match e.into_opaque(cx) {
        Ok(value) => {
            let mut fault = thrown(&value, source, cx);
            if fault.line.is_none() && !frames.is_empty() {
                fault = shown(FaultKind::Thrown, &words(&value, cx), source, frames, fault.code);
            }
            fault
        }
        Err(_) => shown(FaultKind::Broken, &text, source, frames, None),
    }
}

/// Nothing is running that could ever go on.
pub(super) fn stalled(lost: Option<Lost>, source: &str, last_line: Option<u32>) -> Fault {
    let (kind, message) = match lost {
        Some(Lost::Loop) => (FaultKind::Stalled, loop_words()),
        Some(Lost::Recursion) => (FaultKind::TooDeep, recursion_words()),
        None => (FaultKind::Stalled, "The script waits for a promise that nothing will ever settle.".to_owned()),
    };
    let after = last_line.map(|line| format!(" It happened after the call in line {line}.")).unwrap_or_default();
    let text = match last_line {
        Some(line) => with_place(&format!("{message}{after}"), source, line, 0, &[]),
        None => message,
    };
    Fault { kind, text, line: last_line, code: None }
}

fn loop_words() -> String {
    format!("A loop ran more than {VM_LOOP_ITERATIONS_MAX} times; it probably never ends.")
}
fn recursion_words() -> String {
    format!("A function called itself (or others) more than {VM_RECURSION_MAX} levels deep; it probably never returns.")
}

/// Whatever was thrown, as readable text.
pub(super) fn words(value: &JsValue, cx: &mut Context) -> String {
    let text = |v: Option<JsValue>| v.and_then(|v| v.as_string().map(|s| s.to_std_string_lossy()));
    if value.as_object().is_some() {
        let (name, message) = (text(member(value, "name", cx)).unwrap_or_default(), text(member(value, "message", cx)).unwrap_or_default());
        let all = match (name.is_empty(), message.is_empty()) {
            (false, false) => format!("{name}: {message}"),
            (true, false) => message,
            (false, true) => name,
            (true, true) => format!("the script threw {}", value.display()),
        };
        return cut_chars(&all, MESSAGE_CHARS_MAX).to_owned();
    }
    let thrown = match value.as_string() {
        Some(text) => text.to_std_string_lossy(),
        None => format!("the script threw {}", value.display()),
    };
    cut_chars(&thrown, MESSAGE_CHARS_MAX).to_owned()
}

fn member(value: &JsValue, key: &str, cx: &mut Context) -> Option<JsValue> {
    value.as_object()?.get(JsString::from(key), cx).ok().filter(|v| !v.is_undefined())
}

/// Reads `    at name (graph.js:12:5)` lines. Only frames of the script's own source count.
fn frames(stack: &str) -> Vec<Frame> {
    let parsed = stack.lines().filter_map(|line| {
        let (function, place) = line.trim().strip_prefix("at ")?.rsplit_once(" (")?;
        let mut parts = place.strip_suffix(')')?.strip_prefix(SOURCE_NAME)?.strip_prefix(':')?.split(':');
        let (line, column) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
        Some(Frame { function: function.to_owned(), line, column })
    });
    parsed.collect()
}

/// The same of a stack the interpreter wrote: its places are those of the wrapped source.
fn own_frames(stack: &str) -> Vec<Frame> {
    let own = |Frame { function, line, column }| {
        let (line, column) = own_place(line, column).unwrap_or((1, 0));
        Frame { function, line, column }
    };
    frames(stack).into_iter().map(own).collect()
}

fn shown(kind: FaultKind, message: &str, source: &str, mut frames: Vec<Frame>, code: Option<String>) -> Fault {
    // What lies behind the source is the wrapper's call of it.
    let last = u32::try_from(source.lines().count()).unwrap_or(u32::MAX);
    frames.retain(|frame| frame.line <= last);
    let named = frames.first().and_then(|first| {
        let probably = match kind {
            FaultKind::Stalled if !is_call(source, first) => loop_after(message, source, first),
            _ if first.column == 0 => null_after(message.strip_suffix(NO_OBJECT)?, source, 1, 1),
            _ => None,
        };
        probably.or_else(|| (first.column > 0).then(|| named(message, source, first.line, first.column)))
    });
    let Some(named) = named else { return Fault { kind, text: message.to_owned(), line: None, code } };
    (frames[0].line, frames[0].column) = (named.line, named.column);
    frames.retain(|frame| frame.column > 0);
    let text = with_place(&named.message, source, named.line, named.column, &frames);
    Fault { kind, text, line: Some(named.line), code }
}

/// Message, place, frames and the source line with a caret under the column (0: no caret).
pub(super) fn with_place(message: &str, source: &str, line: u32, column: u32, frames: &[Frame]) -> String {
    let mut out = message.to_owned();
    if frames.is_empty() {
        out.push_str(&if column > 0 { format!("\n    at line {line}, column {column}") } else { format!("\n    at line {line}") });
    }
    for frame in frames.iter().take(FRAMES_SHOWN) {
        let name = if frame.function.is_empty() || frame.function == "main" { "the Graph" } else { frame.function.as_str() };
        out.push_str(&format!("\n    at line {}, column {} in {name}", frame.line, frame.column));
    }
    if frames.len() > FRAMES_SHOWN {
        out.push_str(&format!("\n    … {} more", frames.len() - FRAMES_SHOWN));
    }
    let text = source.lines().nth((line as usize).saturating_sub(1)).unwrap_or("");
    if !text.trim().is_empty() && text.chars().count() <= SOURCE_LINE_CHARS_MAX {
        out.push_str(&format!("\n\n{line:>5} | {}", text.trim_end()));
        if column > 0 {
            let pad: String = text.chars().take((column as usize).saturating_sub(1)).map(|c| if c == '\t' { '\t' } else { ' ' }).collect();
            out.push_str(&format!("\n      | {pad}^"));
        }
    }
    out
}

struct Named {
    message: String,
    line: u32,
    column: u32,
}

/// The interpreter does not say what could not be called or read; the source at that place does.
///
/// It knows the place of every call, but not of every look at a member: then the failed one is most likely in the next call of a method.
fn named(message: &str, source: &str, line: u32, column: u32) -> Named {
    let here = |message: String| Named { message, line, column };
    let Some(text) = source.lines().nth((line as usize).saturating_sub(1)) else { return here(message.to_owned()) };
    let at = (column as usize).saturating_sub(1);
    if let Some(head) = message.strip_suffix("not a callable function") {
        return here(callee_at(text, at).map_or_else(|| message.to_owned(), |callee| format!("{head}{callee} is not a function")));
    }
    let Some(head) = message.strip_suffix(NO_OBJECT) else { return here(message.to_owned()) };
    if let Some((object, member)) = member_at(text, at) {
        return here(format!("{head}cannot read .{member} of {object}, which is null or undefined"));
    }
    null_after(head, source, line, column).unwrap_or_else(|| here(format!("{head}something is null or undefined, at this place or soon after")))
}

const NO_OBJECT: &str = "cannot convert 'null' or 'undefined' to object";

fn null_after(head: &str, source: &str, line: u32, column: u32) -> Option<Named> {
    let (object, member, line, column) = next_method(source, line, column)?;
    Some(Named { message: format!("{head}probably .{member} of {object}, which is null or undefined"), line, column })
}

/// The interpreter knows the places of calls. Where there was none yet it names the beginning of the function, or of the wrapper.
fn is_call(source: &str, frame: &Frame) -> bool {
    let text = source.lines().nth((frame.line as usize).saturating_sub(1)).unwrap_or("");
    frame.column > 0 && callee_at(text, frame.column as usize - 1).is_some()
}

/// A loop has no place of its own: most likely it is the first one after the place that is known.
fn loop_after(message: &str, source: &str, frame: &Frame) -> Option<Named> {
    let (line, column) = first_loop(source, frame.line, frame.column)?;
    Some(Named { message: format!("{message} Probably this loop:"), line, column })
}

fn first_loop(source: &str, line: u32, column: u32) -> Option<(u32, u32)> {
    let first = (line as usize).saturating_sub(1);
    for (i, text) in source.lines().enumerate().skip(first) {
        let code = text.split("//").next().unwrap_or("");
        let from = if i == first { code.char_indices().nth((column as usize).saturating_sub(1)).map_or(code.len(), |(at, _)| at) } else { 0 };
        let begins = |word: &str| {
            let at = from + code[from..].find(word)?;
            let is_word = !code[..at].ends_with(is_path) && code[at + word.len()..].trim_start().starts_with(['(', '{', 'a']);
            is_word.then_some(at)
        };
        if let Some(at) = ["for", "while", "do"].into_iter().filter_map(begins).min() {
            return Some((u32::try_from(i + 1).ok()?, u32::try_from(code[..at].chars().count() + 1).ok()?));
        }
    }
    None
}

/// The first call of a method at a place or in the lines after it: object, method, line, column.
fn next_method(source: &str, line: u32, column: u32) -> Option<(String, String, u32, u32)> {
    const LINES_SEARCHED: usize = 20;
    let first = (line as usize).saturating_sub(1);
    for (i, text) in source.lines().enumerate().skip(first).take(LINES_SEARCHED) {
        let chars: Vec<char> = text.chars().collect();
        let from = if i == first { (column as usize).saturating_sub(1) } else { 0 };
        for bracket in (from..chars.len()).filter(|b| chars[*b] == '(') {
            let start = (0..bracket).rev().find(|b| !is_path(chars[*b])).map_or(0, |b| b + 1);
            let path: String = chars[start..bracket].iter().collect();
            let known = path.rsplit_once('.').filter(|(object, member)| !object.is_empty() && !member.is_empty());
            // At the very place stands the call that was made last.
            let (Some((object, member)), true) = (known, i != first || start >= from) else { continue };
            let (line, column) = (u32::try_from(i + 1).ok()?, u32::try_from(start + 1).ok()?);
            return Some((object.to_owned(), member.to_owned(), line, column));
        }
    }
    None
}

fn is_path(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '$' | '.' | '?')
}

/// The path that ends at the call's bracket, or begins at the place.
fn callee_at(text: &str, at: usize) -> Option<String> {
    let chars: Vec<char> = text.chars().collect();
    let bracket = (at..chars.len()).find(|i| !is_path(chars[*i]))?;
    if chars[bracket] != '(' {
        return None;
    }
    let start = (0..bracket).rev().find(|i| !is_path(chars[*i])).map_or(0, |i| i + 1);
    let callee: String = chars[start..bracket].iter().collect();
    (!callee.is_empty()).then_some(callee)
}

fn member_at(text: &str, at: usize) -> Option<(String, String)> {
    let chars: Vec<char> = text.chars().collect();
    let end = (at..=chars.len()).find(|i| *i == chars.len() || !is_path(chars[*i]))?;
    let start = (0..at.min(chars.len())).rev().find(|i| !is_path(chars[*i])).map_or(0, |i| i + 1);
    let path: String = chars.get(start..end)?.iter().collect();
    let (object, member) = path.rsplit_once('.')?;
    (!object.is_empty() && !member.is_empty()).then(|| (object.to_owned(), member.to_owned()))
}
