//! JSON that belongs to the owner or the agent travels as the compact text it came as.
//!
//! `1e+21`, `-0`, big integers, key order and U+0000 survive because nobody in between parses them into numbers and maps.
//! Invariant: a [`RawJson`] is valid, compact and at most [`JSON_DEPTH_MAX`] deep.
use std::{fmt, sync::Arc};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::IgnoredAny};
use serde_json::value::RawValue;

use crate::limits::JSON_DEPTH_MAX;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JsonError {
    #[error("not valid JSON: {0}")]
    Invalid(String),
    #[error("nested deeper than {JSON_DEPTH_MAX} levels")]
    TooDeep,
}

/// One JSON value as compact text.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct RawJson(Arc<str>);

impl RawJson {
    /// Takes any valid JSON text; white space between tokens is dropped, everything else is kept to the letter.
    pub fn parse(text: &str) -> Result<Self, JsonError> {
        if depth(text) > JSON_DEPTH_MAX {
            return Err(JsonError::TooDeep);
        }
        serde_json::from_str::<IgnoredAny>(text).map_err(|e| JsonError::Invalid(e.to_string()))?;
        Ok(Self(compact(text).into()))
    }

    /// The JSON of a value of our own (no owner's numbers in it).
    pub fn of(value: &serde_json::Value) -> Self {
        Self(value.to_string().into())
    }

    pub fn empty_object() -> Self {
        Self("{}".into())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub fn is_object(&self) -> bool {
        self.0.starts_with('{')
    }

    /// For checks against a schema and for showing; numbers beyond 64 bits lose their digits here, never in the text itself.
    pub fn to_value(&self) -> serde_json::Value {
        serde_json::from_str(&self.0).unwrap_or(serde_json::Value::Null)
    }

    /// Equal for two texts that mean the same: keys sorted by code point, one spelling of each string and number.
    pub fn canonical(&self) -> String {
        let mut out = String::with_capacity(self.0.len());
        Canonical { text: &self.0, at: 0 }.value(&mut out);
        out
    }
}

impl fmt::Display for RawJson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
impl fmt::Debug for RawJson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(crate::text::cut_chars(&self.0, 200))
    }
}
impl Serialize for RawJson {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let raw: &RawValue = serde_json::from_str(&self.0).map_err(serde::ser::Error::custom)?;
        raw.serialize(to)
    }
}
impl<'de> Deserialize<'de> for RawJson {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(from)?;
        Self::parse(raw.get()).map_err(serde::de::Error::custom)
    }
}

/// How deep arrays and objects nest: 0 for a scalar. Works on any text, valid or not, without recursion.
pub fn depth(text: &str) -> usize {
    let (mut now, mut most, mut in_string, mut escaped) = (0usize, 0, false, false);
    for b in text.bytes() {
        match (in_string, b) {
            (true, _) if escaped => escaped = false,
            (true, b'\\') => escaped = true,
            (_, b'"') => in_string = !in_string,
            (false, b'[' | b'{') => {
                now += 1;
                most = most.max(now);
            }
            (false, b']' | b'}') => now = now.saturating_sub(1),
            _ => {}
        }
    }
    most
}

fn compact(text: &str) -> String {
    let (mut out, mut in_string, mut escaped) = (String::with_capacity(text.len()), false, false);
    for c in text.chars() {
        match c {
            _ if escaped => escaped = false,
            '\\' if in_string => escaped = true,
            '"' => in_string = !in_string,
            ' ' | '\n' | '\r' | '\t' if !in_string => continue,
            _ => {}
        }
        out.push(c);
    }
    out
}

/// A number as JavaScript writes it (`JSON.stringify`): `0`, `1e+21`, `0.5`; `null` for what is not finite.
pub fn js_number(n: f64) -> String {
    if !n.is_finite() {
        return "null".into();
    }
    if n == 0.0 {
        return "0".into();
    }
    // Rust's `{:e}` gives the same shortest digits as JavaScript; only their placing differs.
    let sci = format!("{:e}", n.abs());
    let (mantissa, exponent) = sci.split_once('e').unwrap_or((&sci, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let digits: String = mantissa.chars().filter(|c| *c != '.').collect();
    let (point, count) = (exponent + 1, digits.len() as i32);
    let body = if count <= point && point <= 21 {
        format!("{digits}{}", "0".repeat((point - count) as usize))
    } else if 0 < point && point <= 21 {
        format!("{}.{}", &digits[..point as usize], &digits[point as usize..])
    } else if -6 < point && point <= 0 {
        format!("0.{}{digits}", "0".repeat(-point as usize))
    } else {
        let tail = if count > 1 { format!(".{}", &digits[1..]) } else { String::new() };
        format!("{}{tail}e{}{}", &digits[..1], if exponent < 0 { '-' } else { '+' }, exponent.abs())
    };
    if n < 0.0 { format!("-{body}") } else { body }
}

/// Walks text that is known to be valid and compact.
struct Canonical<'a> {
    text: &'a str,
    at: usize,
}

impl Canonical<'_> {
    fn peek(&self) -> u8 {
        self.text.as_bytes().get(self.at).copied().unwrap_or(0)
    }

    fn value(&mut self, out: &mut String) {
        match self.peek() {
            b'{' => self.object(out),
            b'[' => {
                self.at += 1;
                out.push('[');
                while self.peek() != b']' && self.peek() != 0 {
                    if self.peek() == b',' {
                        self.at += 1;
                        out.push(',');
                    }
                    self.value(out);
                }
                self.at += 1;
                out.push(']');
            }
            b'"' => out.push_str(&self.string()),
            _ => {
                let rest = &self.text[self.at..];
                let end = rest.find([',', ']', '}']).unwrap_or(rest.len());
                self.at += end;
                out.push_str(&canonical_scalar(&rest[..end]));
            }
        }
    }

    fn object(&mut self, out: &mut String) {
        let mut members: Vec<(String, String)> = Vec::new();
        self.at += 1;
        while self.peek() != b'}' && self.peek() != 0 {
            if self.peek() == b',' {
                self.at += 1;
            }
            let key = self.string();
            self.at += 1; // the colon
            let mut value = String::new();
            self.value(&mut value);
            members.retain(|(k, _)| *k != key); // the last of equal keys counts, as in JavaScript
            members.push((key, value));
        }
        self.at += 1;
        members.sort_unstable();
        out.push('{');
        for (i, (key, value)) in members.iter().enumerate() {
            if i > 0 {
                out.push(',');
            }
            out.push_str(key);
            out.push(':');
            out.push_str(value);
        }
        out.push('}');
    }

    fn string(&mut self) -> String {
        let start = self.at;
        self.at += 1;
        while self.peek() != b'"' && self.peek() != 0 {
            self.at += if self.peek() == b'\\' { 2 } else { 1 };
        }
        self.at += 1;
        let raw = &self.text[start..self.at.min(self.text.len())];
        // A lone surrogate is not a Rust string; its escaped spelling is then its own canonical form.
        serde_json::from_str::<String>(raw).ok().and_then(|s| serde_json::to_string(&s).ok()).unwrap_or_else(|| raw.to_owned())
    }
}

fn canonical_scalar(text: &str) -> String {
    let is_number = text.starts_with(|c: char| c == '-' || c.is_ascii_digit());
    let is_plain_integer = text.bytes().all(|b| b == b'-' || b.is_ascii_digit());
    match text.parse::<f64>() {
        // Integers beyond 2^53 keep their digits: as doubles two different ones could look alike.
        Ok(n) if is_number && (!is_plain_integer || n.abs() < 9_007_199_254_740_992.0) && n.is_finite() => js_number(n),
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn text_is_kept_to_the_letter_but_for_white_space() {
        for (given, kept) in [
            ("{ \"z\" : 1e+21,\n\"a\":-0 }", r#"{"z":1e+21,"a":-0}"#),
            ("9223372036854775809", "9223372036854775809"),
            (r#"{"a b":"\u0000 x","é":"é"}"#, r#"{"a b":"\u0000 x","é":"é"}"#),
            (r#" " \" [ " "#, r#"" \" [ ""#),
        ] {
            let raw = RawJson::parse(given).unwrap();
            assert_eq!(raw.as_str(), kept);
            assert_eq!(serde_json::to_string(&raw).unwrap(), kept);
            assert_eq!(serde_json::from_str::<RawJson>(given).unwrap(), raw);
        }
    }

    #[test]
    fn depth_is_bounded_for_arrays_and_objects() {
        for (n, ok) in [(1, true), (100, true), (101, false), (100_000, false)] {
            assert_eq!(RawJson::parse(&format!("{}{}", "[".repeat(n), "]".repeat(n))).is_ok(), ok, "{n} arrays");
            assert_eq!(RawJson::parse(&format!("{}1{}", "{\"a\":".repeat(n), "}".repeat(n))).is_ok(), ok, "{n} objects");
        }
        assert!(matches!(RawJson::parse("{"), Err(JsonError::Invalid(_))));
        assert!(matches!(RawJson::parse("NaN"), Err(JsonError::Invalid(_))));
    }

    #[test]
    fn canonical_text_is_equal_exactly_for_equal_meaning() {
        let canon = |t: &str| RawJson::parse(t).unwrap().canonical();
        assert_eq!(canon(r#"{"a":1,"b":[2,{"d":1.0,"c":null}]}"#), canon(r#"{"b":[2.0,{"c":null,"d":1}],"a":1}"#));
        assert_eq!(canon(r#""A""#), canon(r#""\u0041""#));
        assert_eq!(canon(r#"{"a":1,"a":2}"#), canon(r#"{"a":2}"#));
        assert_ne!(canon("9223372036854775807"), canon("9223372036854775808"));
        assert_ne!(canon(r#"{"é":1}"#), canon("{\"e\u{301}\":1}"));
        assert_ne!(canon(r#"["a","b"]"#), canon(r#"["b","a"]"#));
        assert_eq!(canon("[[],{},\"\",[1]]"), r#"[[],{},"",[1]]"#);
    }

    #[test]
    fn numbers_are_written_as_javascript_writes_them() {
        for (n, text) in [
            (0.0, "0"),
            (-0.0, "0"),
            (1.0, "1"),
            (1e21, "1e+21"),
            (1e20, "100000000000000000000"),
            (123456.789, "123456.789"),
            (0.000001, "0.000001"),
            (1e-7, "1e-7"),
            (-1.5e300, "-1.5e+300"),
            (5e-324, "5e-324"),
            (f64::NAN, "null"),
            (f64::INFINITY, "null"),
            (0.1 + 0.2, "0.30000000000000004"),
            (123e-20, "1.23e-18"),
        ] {
            assert_eq!(js_number(n), text);
        }
    }

    proptest! {
        #[test]
        fn a_javascript_number_reads_back_as_itself(n in any::<f64>().prop_filter("finite", |n| n.is_finite())) {
            prop_assert_eq!(js_number(n).parse::<f64>().unwrap(), if n == 0.0 { 0.0 } else { n });
        }

        #[test]
        fn any_text_is_refused_or_kept(text in "\\PC{0,60}") {
            if let Ok(raw) = RawJson::parse(&text) {
                let again = RawJson::parse(raw.as_str()).unwrap();
                prop_assert_eq!(&again, &raw);
                let canonical = raw.canonical();
                prop_assert_eq!(RawJson::parse(&canonical).unwrap().canonical(), canonical);
            }
        }
    }
}
