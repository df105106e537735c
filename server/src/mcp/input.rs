//! What an agent sends to a tool, checked by hand: every refusal names the member and its limit.
use domain::{CommandId, GraphSessionId, IdempotencyKey, ProjectId, RawJson, json::JsonError, limits};

use crate::raw::RawMembers;

/// A refusal an agent can read and act on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Refused(pub String);

fn refuse<T>(text: impl Into<String>) -> Result<T, Refused> {
    Err(Refused(text.into()))
}

/// The members of a tool's arguments, none of them unknown.
#[derive(Debug)]
pub struct Input<'a>(RawMembers<'a>);

impl<'a> Input<'a> {
    pub fn read(arguments: &'a str, known: &[&str]) -> Result<Self, Refused> {
        let Ok(members) = RawMembers::parse(arguments) else { return refuse("arguments must be a JSON object") };
        if let Some(unknown) = members.names().find(|name| !known.contains(name)) {
            let unknown = domain::text::cut_chars(unknown, 100);
            return match known {
                [] => refuse(format!("{unknown} is not a member of this tool's arguments; it takes none")),
                _ => refuse(format!("{unknown} is not a member of this tool's arguments; it takes {}", known.join(", "))),
            };
        }
        Ok(Self(members))
    }

    fn optional_text(&self, name: &str) -> Result<Option<String>, Refused> {
        match self.0.get(name) {
            None => Ok(None),
            Some(_) => self.0.string(name).map_or_else(|| refuse(format!("{name} must be a string")), |text| Ok(Some(text))),
        }
    }

    fn text(&self, name: &str) -> Result<String, Refused> {
        self.optional_text(name)?.map_or_else(|| refuse(format!("{name} is required")), Ok)
    }

    /// A whole number between `min` and `max`, as JSON Schema counts whole (`2.0` is one).
    fn integer(&self, name: &str, min: u64, max: u64) -> Result<Option<u64>, Refused> {
        let Some(text) = self.0.get(name) else { return Ok(None) };
        let bound = || refuse(format!("{name} must be an integer from {min} to {max}"));
        match text.parse::<f64>() {
            Ok(n) if n.fract() == 0.0 && n >= min as f64 && n <= max as f64 => Ok(Some(n as u64)),
            Ok(_) | Err(_) => bound(),
        }
    }

    pub fn limit(&self) -> Result<usize, Refused> {
        Ok(self.integer("limit", limits::PAGE_MIN, limits::PAGE_MAX)?.unwrap_or(limits::PAGE_DEFAULT) as usize)
    }

    pub fn wait_seconds(&self) -> Result<u64, Refused> {
        Ok(self.integer("wait_seconds", 0, limits::WAIT_SECONDS_MAX)?.unwrap_or(0))
    }

    pub fn cursor(&self) -> Result<Option<String>, Refused> {
        self.optional_text("cursor")
    }

    /// `None` for a text that is no id: it reads like one that does not exist.
    pub fn project(&self) -> Result<Option<ProjectId>, Refused> {
        Ok(ProjectId::parse(&self.text("project_id")?).ok())
    }

    pub fn command(&self) -> Result<Option<CommandId>, Refused> {
        Ok(CommandId::parse(&self.text("command_id")?).ok())
    }

    pub fn session(&self) -> Result<Option<GraphSessionId>, Refused> {
        Ok(GraphSessionId::parse(&self.text("graph_session_id")?).ok())
    }

    pub fn key(&self) -> Result<IdempotencyKey, Refused> {
        let text = self.text("idempotency_key")?;
        IdempotencyKey::parse(&text).or_else(|e| refuse(e.to_string()))
    }

    /// The arguments of the Graph, to the letter; an empty object where none were given.
    pub fn arguments(&self) -> Result<RawJson, Refused> {
        let Some(text) = self.0.get("arguments") else { return Ok(RawJson::empty_object()) };
        let (bytes, max) = (text.len(), limits::ARGUMENTS_BYTES_MAX);
        if bytes > max {
            return refuse(format!("arguments have {bytes} bytes of JSON text; at most {max} are allowed"));
        }
        match RawJson::parse(text) {
            Ok(raw) if raw.is_object() => Ok(raw),
            Ok(_) => refuse("arguments must be a JSON object"),
            Err(JsonError::TooDeep) => refuse(format!("arguments are nested deeper than {} levels", limits::JSON_DEPTH_MAX)),
            Err(JsonError::Invalid(why)) => refuse(format!("arguments are not valid JSON: {why}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_outside_one_to_fifty_is_refused_by_name() {
        for bad in ["0", "-1", "51", "1.5", "\"10\"", "true", "1e308", "9007199254740993", "null", "[]"] {
            let text = format!(r#"{{"limit":{bad}}}"#);
            let refused = Input::read(&text, &["limit"]).unwrap().limit().unwrap_err();
            assert_eq!(refused.0, "limit must be an integer from 1 to 50", "{bad}");
        }
        for (good, expected) in [(r#"{"limit":1}"#, 1), (r#"{"limit":50}"#, 50), ("{}", 20)] {
            assert_eq!(Input::read(good, &["limit"]).unwrap().limit(), Ok(expected));
        }
    }

    #[test]
    fn an_unknown_member_is_named() {
        let refused = Input::read(r#"{"bogus":1}"#, &["limit"]).unwrap_err();
        assert!(refused.0.starts_with("bogus is not a member"), "{refused}");
        assert!(Input::read(r#"{"bogus":1}"#, &[]).is_err() && Input::read("[]", &[]).is_err());
    }

    #[test]
    fn keys_are_required_texts_of_eight_to_128() {
        for bad in [
            "{}",
            r#"{"idempotency_key":null}"#,
            r#"{"idempotency_key":12345678}"#,
            r#"{"idempotency_key":"1234567"}"#,
            r#"{"idempotency_key":"        "}"#,
        ] {
            let refused = Input::read(bad, &["idempotency_key"]).unwrap().key().unwrap_err();
            assert!(refused.0.contains("idempotency_key"), "{bad}: {refused}");
        }
        assert!(Input::read(r#"{"idempotency_key":"12345678"}"#, &["idempotency_key"]).unwrap().key().is_ok());
    }

    #[test]
    fn arguments_are_an_object_of_bounded_size_and_depth() {
        let read = |text: &str| Input::read(&format!(r#"{{"arguments":{text}}}"#), &["arguments"]).unwrap().arguments().map(|raw| raw.to_string());
        assert_eq!(read(r#"{"z": 1e+21, "a": -0}"#), Ok(r#"{"z":1e+21,"a":-0}"#.to_owned()));
        assert!(read("[]").is_err() && read("null").is_err());
        let nested = |depth: usize| format!(r#"{{"a":{}{}}}"#, "[".repeat(depth - 1), "]".repeat(depth - 1));
        assert!(read(&nested(100)).is_ok());
        for depth in [101, 1_000, 100_000] {
            assert!(read(&nested(depth)).unwrap_err().0.contains("100 levels"));
        }
        assert!(read(&format!(r#"{{"a":"{}"}}"#, "x".repeat(1 << 20))).unwrap_err().0.contains("1048576"));
    }
}
