//! Arguments against a session's JSON Schema, before anything is queued.
//!
//! A schema comes from a device, so it is bounded: no remote `$ref` (nothing is ever fetched) and patterns that match in linear time.
use domain::RawJson;
use jsonschema::{PatternOptions, Validator};

/// Compiles a schema, or says what is wrong with it.
pub fn compile(schema: &str) -> Result<Validator, String> {
    let value: serde_json::Value = serde_json::from_str(schema).map_err(|e| e.to_string())?;
    if !value.is_object() {
        return Err("it must be a JSON object".into());
    }
    if let Some(reference) = remote_reference(&value) {
        return Err(format!("it refers to {reference}; only references inside the schema (#…) are followed"));
    }
    jsonschema::options().with_pattern_options(PatternOptions::regex()).build(&value).map_err(|e| e.to_string())
}

/// The first reason why the arguments do not fit, with the path to it.
pub fn check(schema: &str, arguments: &RawJson) -> Result<(), String> {
    let validator = compile(schema).map_err(|e| format!("the session's schema cannot be used: {e}"))?;
    match validator.validate(&arguments.to_value()) {
        Ok(()) => Ok(()),
        Err(e) => {
            let path = e.instance_path().to_string();
            let at = if path.is_empty() { "arguments".to_owned() } else { format!("arguments{path}") };
            Err(format!("{at}: {}", domain::text::cut_chars(&e.to_string(), 300)))
        }
    }
}

fn remote_reference(schema: &serde_json::Value) -> Option<&str> {
    match schema {
        serde_json::Value::Object(members) => members.iter().find_map(|(name, value)| match (name.as_str(), value) {
            ("$ref" | "$dynamicRef" | "$recursiveRef", serde_json::Value::String(to)) if !to.starts_with('#') => Some(to.as_str()),
            _ => remote_reference(value),
        }),
        serde_json::Value::Array(items) => items.iter().find_map(remote_reference),
        serde_json::Value::Null | serde_json::Value::Bool(_) | serde_json::Value::Number(_) | serde_json::Value::String(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_that_do_not_fit_are_told_where() {
        let schema = r#"{"type":"object","properties":{"days":{"type":"integer","maximum":7}},"required":["days"]}"#;
        for (arguments, expected) in [
            (r#"{"days":3}"#, None),
            (r#"{"days":8}"#, Some("arguments/days: ")),
            (r#"{"days":"3"}"#, Some("arguments/days: ")),
            ("{}", Some("arguments: ")),
        ] {
            let got = check(schema, &RawJson::parse(arguments).unwrap());
            match expected {
                None => assert_eq!(got, Ok(())),
                Some(start) => assert!(got.clone().unwrap_err().starts_with(start), "{arguments}: {got:?}"),
            }
        }
    }

    #[test]
    fn a_schema_may_not_reach_outside_nor_backtrack() {
        assert!(compile(r#"{"$ref":"https://evil.example/schema.json"}"#).is_err());
        assert!(compile(r#"{"properties":{"a":{"$ref":"file:///etc/passwd"}}}"#).is_err());
        assert!(compile(r##"{"$defs":{"x":{"type":"string"}},"properties":{"a":{"$ref":"#/$defs/x"}}}"##).is_ok());
        assert!(compile(r#"{"properties":{"a":{"pattern":"(a)\\1"}}}"#).is_err(), "a back-reference needs a backtracking engine");
        assert!(compile("[]").is_err() && compile("{").is_err());
    }
}
