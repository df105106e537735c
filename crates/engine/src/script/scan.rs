//! A look at JavaScript text that knows strings, templates, comments and regular expressions, and nothing more. Never recurses.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Token {
    Open,
    Close,
}

/// Calls `see` for every bracket of code with its offset, until it says stop.
fn scan(source: &str, from: usize, mut see: impl FnMut(usize, Token) -> bool) {
    let bytes = source.as_bytes();
    let at = |i: usize| bytes.get(i).copied().unwrap_or(0);
    // For each open `${`: how many braces are open inside it.
    let mut templates: Vec<usize> = Vec::new();
    let (mut i, mut previous) = (from, b'(');
    while i < bytes.len() {
        let c = at(i);
        match c {
            b'/' if at(i + 1) == b'/' => {
                while i < bytes.len() && at(i) != b'\n' {
                    i += 1;
                }
                continue;
            }
            b'/' if at(i + 1) == b'*' => {
                i += 2;
                while i < bytes.len() && !(at(i) == b'*' && at(i + 1) == b'/') {
                    i += 1;
                }
                i += 2;
                continue;
            }
            b'"' | b'\'' => {
                i = after_string(bytes, i, c);
                previous = c;
                continue;
            }
            b'`' => {
                let (end, is_hole) = after_template(bytes, i + 1);
                i = end;
                previous = b'`';
                if is_hole {
                    templates.push(0);
                    previous = b'(';
                    if !see(i - 1, Token::Open) {
                        return;
                    }
                }
                continue;
            }
            b'/' if begins_regex(source, previous, i) => {
                i = after_regex(bytes, i);
                previous = b'/';
                continue;
            }
            b'}' if templates.last() == Some(&0) => {
                templates.pop();
                if !see(i, Token::Close) {
                    return;
                }
                let (end, is_hole) = after_template(bytes, i + 1);
                i = end;
                previous = b'`';
                if is_hole {
                    templates.push(0);
                    previous = b'(';
                    if !see(i - 1, Token::Open) {
                        return;
                    }
                }
                continue;
            }
            b'(' | b'[' | b'{' => {
                if let (b'{', Some(open)) = (c, templates.last_mut()) {
                    *open += 1;
                }
                if !see(i, Token::Open) {
                    return;
                }
            }
            b')' | b']' | b'}' => {
                if let (b'}', Some(open)) = (c, templates.last_mut()) {
                    *open = open.saturating_sub(1);
                }
                if !see(i, Token::Close) {
                    return;
                }
            }
            c if c.is_ascii_whitespace() => {
                i += 1;
                continue;
            }
            _ => {}
        }
        previous = c;
        i += 1;
    }
}

fn after_string(bytes: &[u8], start: usize, quote: u8) -> usize {
    let mut i = start + 1;
    while i < bytes.len() && bytes[i] != quote && bytes[i] != b'\n' {
        i += if bytes[i] == b'\\' { 2 } else { 1 };
    }
    i + 1
}

/// From inside a template to after its end, or to after its next `${`.
fn after_template(bytes: &[u8], start: usize) -> (usize, bool) {
    let mut i = start;
    while i < bytes.len() {
        match bytes[i] {
            b'\\' => i += 2,
            b'`' => return (i + 1, false),
            b'$' if bytes.get(i + 1) == Some(&b'{') => return (i + 2, true),
            _ => i += 1,
        }
    }
    (bytes.len(), false)
}

fn after_regex(bytes: &[u8], start: usize) -> usize {
    let (mut i, mut in_class) = (start + 1, false);
    while i < bytes.len() && bytes[i] != b'\n' {
        match bytes[i] {
            b'\\' => i += 1,
            b'[' => in_class = true,
            b']' => in_class = false,
            b'/' if !in_class => return i + 1,
            _ => {}
        }
        i += 1;
    }
    i
}

/// A slash after a value divides; after an operator, an opening bracket or a word like `return` it begins a regular expression.
fn begins_regex(source: &str, previous: u8, at: usize) -> bool {
    if previous.is_ascii_alphanumeric() || previous == b'_' || previous == b'$' {
        let before = source[..at].trim_end();
        return ["return", "typeof", "case", "in", "of", "await", "yield", "void", "delete", "throw", "else", "do"].iter().any(|word| {
            before.ends_with(word)
                && !before[..before.len() - word.len()].ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == '$' || c == '.')
        });
    }
    !matches!(previous, b')' | b']' | b'}' | b'"' | b'\'' | b'`') && previous < 0x80
}

/// Where brackets first nest deeper than `limit`.
pub(super) fn too_deep(source: &str, limit: usize) -> Option<usize> {
    let (mut depth, mut found) = (0usize, None);
    scan(source, 0, |at, token| {
        match token {
            Token::Open => depth += 1,
            Token::Close => depth = depth.saturating_sub(1),
        }
        if depth > limit {
            found = Some(at);
        }
        found.is_none()
    });
    found
}

/// The first code of a source, after byte-order mark, `#!` line, comments and a `"use strict"` directive.
fn first_code(source: &str) -> usize {
    let mut start = 0;
    if source.starts_with('\u{feff}') {
        start = 3;
    }
    if source[start..].starts_with("#!") {
        start += source[start..].find('\n').unwrap_or(source.len() - start);
    }
    for directive in ["\"use strict\"", "'use strict'"] {
        let code = skip_blank(source, start);
        if source[code..].starts_with(directive) {
            start = code + directive.len();
            let after = skip_blank(source, start);
            start = if source[after..].starts_with(';') { after + 1 } else { start };
        }
    }
    skip_blank(source, start)
}

/// Over white space and comments.
pub(super) fn skip_blank(source: &str, from: usize) -> usize {
    let mut at = from;
    loop {
        let rest = &source[at..];
        let trimmed = rest.trim_start();
        at += rest.len() - trimmed.len();
        if trimmed.starts_with("//") {
            at += trimmed.find('\n').unwrap_or(trimmed.len());
        } else if trimmed.starts_with("/*") {
            at += trimmed.find("*/").map_or(trimmed.len(), |end| end + 2);
        } else {
            return at;
        }
    }
}

/// The words `export const meta =` at the top: offset of `export` (if there) and of what follows the equals sign.
fn meta_head(source: &str) -> Option<(Option<usize>, usize)> {
    let start = first_code(source);
    let mut at = start;
    let word = |expected: &str, at: &mut usize| -> bool {
        let here = skip_blank(source, *at);
        let Some(rest) = source[here..].strip_prefix(expected) else { return false };
        if expected != "=" && rest.starts_with(|c: char| c.is_alphanumeric() || c == '_' || c == '$') {
            return false;
        }
        *at = here + expected.len();
        true
    };
    let export = word("export", &mut at).then_some(start);
    (word("const", &mut at) && word("meta", &mut at) && word("=", &mut at)).then_some((export, at))
}

/// Where the literal of `meta` begins.
pub(super) fn meta_literal(source: &str) -> Option<usize> {
    meta_head(source).map(|(_, at)| skip_blank(source, at))
}

/// The source with what an async function cannot hold blanked out: byte-order mark, `#!` line and the word `export`.
/// Every line and column stays where it was.
pub(crate) fn without_export(source: &str) -> String {
    let mut out = source.strip_prefix('\u{feff}').unwrap_or(source).to_owned();
    if out.starts_with("#!") {
        out.replace_range(0..2, "//");
    }
    if let Some((Some(export), _)) = meta_head(&out) {
        out.replace_range(export..export + "export".len(), "      ");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn depth_counts_code_only() {
        let deep = |n: usize| format!("{}1{}", "[".repeat(n), "]".repeat(n));
        assert_eq!(too_deep(&deep(200), 200), None);
        assert_eq!(too_deep(&deep(201), 200), Some(200));
        for harmless in [
            format!("const a = '{}';", "(".repeat(500)),
            format!("const a = \"{}\";", "[".repeat(500)),
            format!("// {}\n1", "{".repeat(500)),
            format!("/* {} */ 1", "{".repeat(500)),
            format!("const a = `{}`;", "(".repeat(500)),
            format!("const a = /[{}]/;", "(".repeat(500)),
            format!("return /\\({}/.test(x);", "\\(".repeat(500)),
            "const a = `x${ {a: {b: `y${1}`}} }z`;".repeat(300),
        ] {
            assert_eq!(too_deep(&harmless, 200), None, "{}", &harmless[..30]);
        }
        let template = format!("{}1{}", "`${".repeat(300), "}`".repeat(300));
        assert!(too_deep(&template, 200).is_some());
        assert!(too_deep(&format!("a / b; {}", deep(300)), 200).is_some(), "a division hides nothing");
    }

    #[test]
    fn the_export_of_meta_is_blanked_and_everything_stays_in_place() {
        for (given, kept) in [
            ("export const meta = {};\nreturn 1", "       const meta = {};\nreturn 1"),
            ("\u{feff}export const meta = {}", "       const meta = {}"),
            ("#!/usr/bin/env node\nexport const meta = {}", "///usr/bin/env node\n       const meta = {}"),
            ("// a Graph\n'use strict';\nexport  const meta={}", "// a Graph\n'use strict';\n        const meta={}"),
            ("export default 1", "export default 1"),
            ("exporter(1)", "exporter(1)"),
        ] {
            assert_eq!(without_export(given), kept);
        }
    }
}
