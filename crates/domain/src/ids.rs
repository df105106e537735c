//! Ids as types. Parsing is the only door, so a value of one of these types is well formed.
//!
//! Nothing here draws an id: whoever makes one hands in the random bytes ([`uuid::Builder`]).
use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use uuid::Uuid;

use crate::limits::{EXECUTION_ID_CHARS_MAX, IDEMPOTENCY_KEY_CHARS_MAX, IDEMPOTENCY_KEY_CHARS_MIN, SLUG_CHARS_MAX};

/// Why a text is not the id it was taken for. Names the kind and the rule, never the text (it may be hostile).
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{kind} must be {rule}")]
pub struct IdError {
    pub kind: &'static str,
    pub rule: &'static str,
}

macro_rules! text_serde {
    ($name:ident) => {
        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                to.collect_str(self)
            }
        }
        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                let text = <std::borrow::Cow<'de, str>>::deserialize(from)?;
                Self::parse(&text).map_err(serde::de::Error::custom)
            }
        }
        impl std::str::FromStr for $name {
            type Err = IdError;
            fn from_str(text: &str) -> Result<Self, IdError> {
                Self::parse(text)
            }
        }
    };
}

macro_rules! uuid_id {
    ($(#[$doc:meta])* $name:ident, $kind:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(Uuid);

        impl $name {
            /// A version-4 id from 16 random bytes.
            pub fn from_random(bytes: [u8; 16]) -> Self {
                Self(uuid::Builder::from_random_bytes(bytes).into_uuid())
            }

            /// Reads the one spelling that is ever written: lower-case, hyphenated, not nil.
            pub fn parse(text: &str) -> Result<Self, IdError> {
                const RULE: IdError = IdError { kind: $kind, rule: "a lower-case hyphenated UUID other than nil" };
                let id = Uuid::try_parse(text).map_err(|_| RULE)?;
                let mut canonical = Uuid::encode_buffer();
                if id.is_nil() || id.hyphenated().encode_lower(&mut canonical) != text {
                    return Err(RULE);
                }
                Ok(Self(id))
            }
        }
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.hyphenated().fmt(f)
            }
        }
        text_serde!($name);
    };
}

uuid_id!(
    /// One queued request to run a Graph session.
    CommandId, "command_id"
);
uuid_id!(
    /// An owner's connected project.
    ProjectId, "project_id"
);
uuid_id!(
    /// One paired desktop.
    DeviceId, "device_id"
);
uuid_id!(
    /// The human everything belongs to.
    OwnerId, "owner_id"
);
uuid_id!(
    /// A connected agent: one grant, the key of what it may see.
    AgentId, "agent_id"
);

/// The durable identity of one saved Graph on one device: `gs_` and 32 hexadecimal digits, written in lower case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GraphSessionId([u8; 16]);

impl GraphSessionId {
    pub fn from_random(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// Accepts either case of the digits; writes lower case.
    pub fn parse(text: &str) -> Result<Self, IdError> {
        const RULE: IdError = IdError { kind: "graph_session_id", rule: "gs_ followed by 32 hexadecimal digits" };
        let digits = text.strip_prefix("gs_").ok_or(RULE)?;
        if digits.len() != 32 || !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err(RULE);
        }
        let number = u128::from_str_radix(digits, 16).map_err(|_| RULE)?;
        Ok(Self(number.to_be_bytes()))
    }
}
impl fmt::Display for GraphSessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "gs_{:032x}", u128::from_be_bytes(self.0))
    }
}
text_serde!(GraphSessionId);

macro_rules! text_id {
    ($(#[$doc:meta])* $name:ident, $kind:literal, $rule:literal, $ok:expr) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(String);

        impl $name {
            pub fn parse(text: &str) -> Result<Self, IdError> {
                let ok: fn(&str) -> bool = $ok;
                if ok(text) { Ok(Self(text.to_owned())) } else { Err(IdError { kind: $kind, rule: $rule }) }
            }
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
        text_serde!($name);
    };
}

text_id!(
    /// One local run of a Graph. The device draws it (ours are UUIDs) and stores it before its first use; the server only compares it.
    ExecutionId, "execution_id", "1 to 64 letters, digits, dashes or underscores",
    |t| !t.is_empty() && t.len() <= EXECUTION_ID_CHARS_MAX && t.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
);
impl ExecutionId {
    pub fn from_random(bytes: [u8; 16]) -> Self {
        Self(uuid::Builder::from_random_bytes(bytes).into_uuid().hyphenated().to_string())
    }
}

text_id!(
    /// A session's short name in addresses and `graph()` calls, unique per device.
    Slug, "slug", "1 to 64 lower-case letters, digits and dashes, starting with a letter or digit, like review-change-set",
    |t| (1..=SLUG_CHARS_MAX).contains(&t.len())
        && !t.starts_with('-')
        && t.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
);

text_id!(
    /// One per intended operation, chosen by the connected agent. Length in characters as JSON Schema counts them (code points).
    IdempotencyKey, "idempotency_key", "8 to 128 characters and not blank",
    |t| (IDEMPOTENCY_KEY_CHARS_MIN..=IDEMPOTENCY_KEY_CHARS_MAX).contains(&t.chars().count()) && !t.trim().is_empty()
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_id_has_exactly_one_spelling() {
        let good = "3f2b8c1e-9a4d-4c6b-8e2f-0a1b2c3d4e5f";
        assert_eq!(CommandId::parse(good).unwrap().to_string(), good);
        let upper = good.to_uppercase();
        for bad in [
            upper.as_str(),
            "00000000-0000-0000-0000-000000000000",
            "../x",
            "",
            "3f2b8c1e9a4d4c6b8e2f0a1b2c3d4e5f",
            "{3f2b8c1e-9a4d-4c6b-8e2f-0a1b2c3d4e5f}",
        ] {
            assert!(CommandId::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_graph_session_id_is_written_in_lower_case() {
        let id = GraphSessionId::parse("gs_00FF00ff00FF00ff00FF00ff00FF00ff").unwrap();
        assert_eq!(id.to_string(), "gs_00ff00ff00ff00ff00ff00ff00ff00ff");
        for bad in ["gs_", "gs_0", "GS_00ff00ff00ff00ff00ff00ff00ff00ff", "gs_+0ff00ff00ff00ff00ff00ff00ff00ff", "00ff00ff00ff00ff00ff00ff00ff00ff"] {
            assert!(GraphSessionId::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn keys_are_counted_in_code_points_and_may_not_be_blank() {
        for (key, ok) in [
            ("1234567".to_owned(), false),
            ("12345678".to_owned(), true),
            ("x".repeat(128), true),
            ("x".repeat(129), false),
            (" ".repeat(8), false),
            ("😀".repeat(8), true),
            ("😀".repeat(128), true),
            ("KEY-aaaa1".to_owned(), true),
        ] {
            assert_eq!(IdempotencyKey::parse(&key).is_ok(), ok, "{key}");
        }
        assert_ne!(IdempotencyKey::parse("KEY-aaaa1"), IdempotencyKey::parse("key-aaaa1"));
    }

    #[test]
    fn slugs_are_lower_case_letters_digits_and_dashes() {
        for (slug, ok) in [("a", true), ("review-2", true), ("-a", false), ("A", false), ("a_b", false), ("", false)] {
            assert_eq!(Slug::parse(slug).is_ok(), ok, "{slug}");
        }
        assert!(Slug::parse(&"a".repeat(64)).is_ok() && Slug::parse(&"a".repeat(65)).is_err());
    }
}
