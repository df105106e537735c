//! Structured answers: the schema is compiled before any spend; an answer is read leniently and judged strictly.
use domain::RawJson;
use jsonschema::Validator;
use serde_json::Value;

use super::{AgentErrorCode, Failure};

const ERRORS_TOLD: usize = 3;

/// The wanted value.
pub(super) struct Wanted {
    pub(super) schema: Value,
    validator: Validator,
}

impl Wanted {
    pub(super) fn new(schema: Value) -> Result<Self, Failure> {
        let validator =
            jsonschema::validator_for(&schema).map_err(|e| Failure::new(AgentErrorCode::Options, format!("the schema cannot be used: {e}")))?;
        Ok(Self { schema, validator })
    }

    /// The value in this text, or what is wrong with it in words a model can act on.
    pub(super) fn read(&self, text: &str) -> Result<RawJson, String> {
        let found = json_in(text).ok_or_else(|| "it holds no complete JSON value".to_owned())?;
        let value = found.to_value();
        let errors: Vec<_> = self.validator.iter_errors(&value).take(ERRORS_TOLD).map(|e| format!("at \"{}\": {e}", e.instance_path())).collect();
        if errors.is_empty() { Ok(found) } else { Err(errors.join("; ")) }
    }

    pub(super) fn instruction(&self) -> String {
        format!("When you are done, answer with one JSON value and nothing else. It must be valid against this JSON Schema:\n{}", self.schema)
    }
}

/// The whole text as JSON, or what stands in a code fence, or from the first bracket to the end of its value.
pub(super) fn json_in(text: &str) -> Option<RawJson> {
    let trimmed = text.trim();
    if let Ok(value) = RawJson::parse(trimmed) {
        return Some(value);
    }
    let fenced = trimmed.split("```").nth(1).map(|inner| inner.strip_prefix("json").unwrap_or(inner));
    if let Some(value) = fenced.and_then(|inner| RawJson::parse(inner.trim()).ok()) {
        return Some(value);
    }
    let rest = &trimmed[trimmed.find(['{', '['])?..];
    let mut values = serde_json::Deserializer::from_str(rest).into_iter::<serde::de::IgnoredAny>();
    values.next()?.ok()?;
    RawJson::parse(&rest[..values.byte_offset()]).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_found_in_prose_and_fences_but_not_in_a_cut_one() {
        for (text, found) in [
            (r#" {"a":1} "#, Some(r#"{"a":1}"#)),
            ("```json\n{\"a\": 1}\n```", Some(r#"{"a":1}"#)),
            ("Sure:\n```\n[1]\n```\nDone.", Some("[1]")),
            (r#"Here it is: {"a":{"b":"}"}} Hope it helps {"#, Some(r#"{"a":{"b":"}"}}"#)),
            (r#"{"a":1"#, None),
            ("no", None),
            ("1e+21", Some("1e+21")),
        ] {
            assert_eq!(json_in(text).as_ref().map(RawJson::as_str), found, "{text}");
        }
    }

    #[test]
    fn what_is_wrong_is_told_with_its_place() {
        let wanted = Wanted::new(serde_json::json!({ "type": "object", "properties": { "n": { "type": "integer" } }, "required": ["n"] })).unwrap();
        assert_eq!(wanted.read(r#"{"n":1}"#).unwrap().as_str(), r#"{"n":1}"#);
        assert!(wanted.read(r#"{"n":"x"}"#).unwrap_err().contains("/n"));
        assert!(wanted.read("{}").unwrap_err().contains("required"));
        assert!(Wanted::new(serde_json::json!({ "type": "nonsense" })).is_err());
    }
}
