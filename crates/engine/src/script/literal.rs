//! Reads one pure literal of JavaScript (objects, arrays, strings, numbers, `true`, `false`, `null`) as a JSON value.
//!
//! Anything that would have to be run to be known is refused with its place.
use domain::{
    RawJson,
    limits::{DESCRIPTION_CHARS_MAX, JSON_DEPTH_MAX, NAME_CHARS_MAX, SCHEMA_BYTES_MAX},
    text::cut_chars,
};
use serde_json::{Map, Number, Value};

use super::{Meta, MetaLimits, MetaPhase, ScriptFault, scan::skip_blank};

pub(super) fn read(source: &str, at: usize) -> Result<Value, ScriptFault> {
    let mut reader = Reader { source, at };
    let value = reader.value(0)?;
    let end = skip_blank(source, reader.at);
    // After the literal a statement must begin: `meta = {…}.x` or `{…} + f()` is not a literal.
    if source[end..].starts_with(['.', '(', '[', '+', '?', '|', '&', ',', '`', '*', '-']) {
        return Err(reader.not_literal(end));
    }
    Ok(value)
}

struct Reader<'a> {
    source: &'a str,
    at: usize,
}

impl Reader<'_> {
    fn peek(&mut self) -> Option<char> {
        self.at = skip_blank(self.source, self.at);
        self.source[self.at..].chars().next()
    }
    fn fault(&self, message: impl Into<String>) -> ScriptFault {
        ScriptFault::at(self.source, self.at, message)
    }
    fn not_literal(&self, at: usize) -> ScriptFault {
        ScriptFault::at(self.source, at, "meta must be a plain literal: it is read without running the Graph")
    }

    fn value(&mut self, depth: usize) -> Result<Value, ScriptFault> {
        if depth > JSON_DEPTH_MAX {
            return Err(self.fault("meta nests too deep"));
        }
        match self.peek() {
            Some('{') => self.object(depth),
            Some('[') => self.array(depth),
            Some('"' | '\'' | '`') => self.text().map(Value::String),
            Some(c) if c.is_ascii_digit() || c == '-' || c == '.' => self.number(),
            Some(_) => {
                let start = self.at;
                match self.name().as_str() {
                    "true" => Ok(Value::Bool(true)),
                    "false" => Ok(Value::Bool(false)),
                    "null" => Ok(Value::Null),
                    _ => Err(self.not_literal(start)),
                }
            }
            None => Err(self.fault("meta ends too early")),
        }
    }

    fn object(&mut self, depth: usize) -> Result<Value, ScriptFault> {
        self.at += 1;
        let mut members = Map::new();
        loop {
            match self.peek() {
                Some('}') => {
                    self.at += 1;
                    return Ok(Value::Object(members));
                }
                None => return Err(self.fault("meta ends too early")),
                Some(_) => {}
            }
            let start = self.at;
            let key = match self.peek() {
                Some('"' | '\'') => self.text()?,
                Some(c) if c.is_ascii_digit() => self.number()?.to_string(),
                Some(_) | None => self.name(),
            };
            if key.is_empty() {
                return Err(self.not_literal(start));
            }
            if self.peek() != Some(':') {
                return Err(self.not_literal(start));
            }
            self.at += 1;
            let value = self.value(depth + 1)?;
            members.insert(key, value);
            self.separator('}')?;
        }
    }

    fn array(&mut self, depth: usize) -> Result<Value, ScriptFault> {
        self.at += 1;
        let mut items = Vec::new();
        loop {
            match self.peek() {
                Some(']') => {
                    self.at += 1;
                    return Ok(Value::Array(items));
                }
                None => return Err(self.fault("meta ends too early")),
                Some(_) => {}
            }
            items.push(self.value(depth + 1)?);
            self.separator(']')?;
        }
    }

    fn separator(&mut self, close: char) -> Result<(), ScriptFault> {
        match self.peek() {
            Some(',') => {
                self.at += 1;
                Ok(())
            }
            Some(c) if c == close => Ok(()),
            Some(_) => Err(self.not_literal(self.at)),
            None => Err(self.fault("meta ends too early")),
        }
    }

    fn name(&mut self) -> String {
        let rest = &self.source[self.at..];
        let end = rest.find(|c: char| !(c.is_alphanumeric() || c == '_' || c == '$')).unwrap_or(rest.len());
        self.at += end;
        rest[..end].to_owned()
    }

    fn number(&mut self) -> Result<Value, ScriptFault> {
        let rest = &self.source[self.at..];
        let end = rest
            .char_indices()
            .find(|(i, c)| {
                !(c.is_ascii_alphanumeric() || matches!(c, '.' | '_') || (matches!(c, '-' | '+') && (*i == 0 || rest[..*i].ends_with(['e', 'E']))))
            })
            .map_or(rest.len(), |(i, _)| i);
        let text = rest[..end].replace('_', "");
        let parsed = match text.parse::<i64>() {
            Ok(n) => Some(Number::from(n)),
            Err(_) => text.parse::<f64>().ok().and_then(number),
        };
        let number = parsed.ok_or_else(|| self.not_literal(self.at))?;
        self.at += end;
        Ok(Value::Number(number))
    }

    fn text(&mut self) -> Result<String, ScriptFault> {
        let quote = self.source[self.at..].chars().next().unwrap_or('"');
        let start = self.at;
        self.at += 1;
        let mut units: Vec<u16> = Vec::new();
        loop {
            let Some(c) = self.source[self.at..].chars().next() else {
                return Err(ScriptFault::at(self.source, start, "this text does not end"));
            };
            self.at += c.len_utf8();
            match c {
                c if c == quote => break,
                '\n' if quote != '`' => return Err(ScriptFault::at(self.source, start, "this text does not end")),
                '$' if quote == '`' && self.source[self.at..].starts_with('{') => return Err(self.not_literal(self.at - 1)),
                '\\' => self.escape(&mut units)?,
                c => units.extend(c.encode_utf16(&mut [0; 2]).iter()),
            }
        }
        Ok(String::from_utf16_lossy(&units))
    }

    fn escape(&mut self, units: &mut Vec<u16>) -> Result<(), ScriptFault> {
        let Some(c) = self.source[self.at..].chars().next() else { return Err(self.fault("meta ends too early")) };
        self.at += c.len_utf8();
        let unit = match c {
            'n' => 0x0A,
            't' => 0x09,
            'r' => 0x0D,
            'b' => 0x08,
            'f' => 0x0C,
            'v' => 0x0B,
            '0' => 0,
            '\n' => return Ok(()),
            'x' => self.hex(2)?,
            'u' => {
                if self.source[self.at..].starts_with('{') {
                    let rest = &self.source[self.at + 1..];
                    let end = rest.find('}').ok_or_else(|| self.fault("this escape does not end"))?;
                    let c = u32::from_str_radix(&rest[..end], 16).ok().and_then(char::from_u32);
                    let c = c.ok_or_else(|| self.fault("this escape is not a character"))?;
                    self.at += end + 2;
                    units.extend(c.encode_utf16(&mut [0; 2]).iter());
                    return Ok(());
                }
                self.hex(4)?
            }
            c => {
                units.extend(c.encode_utf16(&mut [0; 2]).iter());
                return Ok(());
            }
        };
        units.push(unit);
        Ok(())
    }

    fn hex(&mut self, digits: usize) -> Result<u16, ScriptFault> {
        let text = self.source.get(self.at..self.at + digits).unwrap_or("");
        let unit = u16::from_str_radix(text, 16).map_err(|_| self.fault("this escape is not a character"))?;
        self.at += digits;
        Ok(unit)
    }
}

/// Whole numbers without a point, as JavaScript writes them.
fn number(n: f64) -> Option<Number> {
    #[allow(clippy::cast_possible_truncation)] // checked just before
    if n.fract() == 0.0 && n.abs() < 9e15 { Some(Number::from(n as i64)) } else { Number::from_f64(n) }
}

/// The members we know; others are allowed and mean nothing.
pub(super) fn meta(value: &Value) -> Result<Meta, String> {
    let Value::Object(members) = value else { return Err("meta must be an object".to_owned()) };
    let text = |key: &str, most: usize| match members.get(key) {
        None | Some(Value::Null) => Ok(String::new()),
        Some(Value::String(text)) => Ok(cut_chars(text, most).to_owned()),
        Some(_) => Err(format!("meta.{key} must be a text")),
    };
    let texts = |key: &str| match members.get(key) {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(Value::Array(items)) => {
            items.iter().map(|i| i.as_str().map(str::to_owned).ok_or(format!("meta.{key} must be a list of texts"))).collect()
        }
        Some(_) => Err(format!("meta.{key} must be a list of texts")),
    };
    Ok(Meta {
        name: text("name", NAME_CHARS_MAX)?,
        description: text("description", DESCRIPTION_CHARS_MAX)?,
        phases: phases(members.get("phases"))?,
        args: schema(members.get("args"))?,
        tools: texts("tools")?,
        models: texts("models")?,
        limits: limits(members.get("limits"))?,
    })
}

fn phases(value: Option<&Value>) -> Result<Vec<MetaPhase>, String> {
    let wrong = || "meta.phases must be a list of titles, or of {title, detail}".to_owned();
    let items = match value {
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(Value::Array(items)) => items,
        Some(_) => return Err(wrong()),
    };
    items
        .iter()
        .map(|item| match item {
            Value::String(title) => Ok(MetaPhase { title: title.clone(), detail: None }),
            Value::Object(phase) => {
                let title = phase.get("title").and_then(Value::as_str).ok_or_else(wrong)?;
                Ok(MetaPhase { title: title.to_owned(), detail: phase.get("detail").and_then(Value::as_str).map(str::to_owned) })
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => Err(wrong()),
        })
        .collect()
}

fn schema(value: Option<&Value>) -> Result<Option<RawJson>, String> {
    match value {
        None | Some(Value::Null) => Ok(None),
        Some(schema @ (Value::Object(_) | Value::Bool(_))) => {
            let raw = RawJson::of(schema);
            if raw.as_str().len() > SCHEMA_BYTES_MAX {
                return Err(format!("meta.args may be {SCHEMA_BYTES_MAX} bytes"));
            }
            jsonschema::validator_for(schema).map_err(|e| format!("meta.args is not a JSON Schema: {e}"))?;
            Ok(Some(raw))
        }
        Some(_) => Err("meta.args must be a JSON Schema".to_owned()),
    }
}

fn limits(value: Option<&Value>) -> Result<MetaLimits, String> {
    let members = match value {
        None | Some(Value::Null) => return Ok(MetaLimits::default()),
        Some(Value::Object(members)) => members,
        Some(_) => return Err("meta.limits must be an object".to_owned()),
    };
    let count = |key: &str| match members.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(n) => n.as_u64().filter(|n| *n > 0).map(Some).ok_or(format!("meta.limits.{key} must be a whole number above 0")),
    };
    let size = |n: Option<u64>| n.map(|n| usize::try_from(n).unwrap_or(usize::MAX));
    Ok(MetaLimits { max_concurrency: size(count("max_concurrency")?), token_ceiling: count("token_ceiling")?, agents: size(count("agents")?) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_literal_is_read_without_running_it() {
        let source = r#"// A Graph
export const meta = {
  name: 'Review', // its name
  "description": "it's \u00e9\u{1F600} \
split",
  phases: ["Read", { title: `Judge`, detail: 'three' }],
  args: { type: 'object', properties: { folder: { type: 'string' }, depth: { minimum: -1.5e2, maximum: 1_000 } }, required: ['folder',], },
  tools: ['read_file'], models: [], limits: { max_concurrency: 8, token_ceiling: 50000, agents: 20 }, other: null,
};
return 1"#;
        let meta = Meta::read(source).unwrap();
        assert_eq!((meta.name.as_str(), meta.description.as_str()), ("Review", "it's é😀 split"));
        assert_eq!(meta.phases[1], MetaPhase { title: "Judge".into(), detail: Some("three".into()) });
        assert_eq!(meta.limits, MetaLimits { max_concurrency: Some(8), token_ceiling: Some(50_000), agents: Some(20) });
        assert_eq!(
            meta.args.unwrap().as_str(),
            r#"{"type":"object","properties":{"folder":{"type":"string"},"depth":{"minimum":-150,"maximum":1000}},"required":["folder"]}"#
        );
    }

    #[test]
    fn what_would_have_to_be_run_is_refused_with_its_place() {
        for (source, line, column) in [
            ("export const meta = { name: f() }", 1, 29),
            ("export const meta = { name: 'a' + 'b' }", 1, 33),
            ("export const meta = {\n  name: `a${1}` }", 2, 11),
            ("export const meta = { ...x }", 1, 23),
            ("export const meta = { [x]: 1 }", 1, 23),
            ("export const meta = { name }", 1, 23),
            ("export const meta = {}.x", 1, 23),
            ("export const meta = JSON.parse('{}')", 1, 21),
            ("export const meta = { name: 'a", 1, 29),
        ] {
            let fault = Meta::read(source).unwrap_err();
            assert_eq!((fault.line, fault.column), (line, column), "{source}: {fault}");
        }
        assert_eq!(Meta::read("return 1").unwrap(), Meta::default());
        assert!(Meta::read("export const meta = { args: { type: 'strin' } }").is_err());
        assert!(Meta::read(&format!("export const meta = {}", "[".repeat(300))).is_err());
    }
}
