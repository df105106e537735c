//! JSON read without being interpreted: members as the exact text they came as.
//!
//! Values of other people (arguments, results) hold numbers that a float cannot: `1e+21`, `-0`, 2^63+1. Whoever passes them on keeps
//! the text.
use std::{borrow::Cow, fmt};

use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, Visitor},
};
use serde_json::value::RawValue;

/// The members of one JSON object, in their order, values untouched. Of equal names the last counts, as in JavaScript.
#[derive(Debug, Default)]
pub struct RawMembers<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'a> RawMembers<'a> {
    pub fn parse(text: &'a str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(text)
    }

    pub fn get(&self, name: &str) -> Option<&'a str> {
        self.0.iter().rev().find(|(n, _)| n == name).map(|(_, value)| value.get())
    }

    /// A member that is a string.
    pub fn string(&self, name: &str) -> Option<String> {
        serde_json::from_str(self.get(name)?).ok()
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(name, _)| name.as_ref())
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, &'a str)> {
        self.0.iter().map(|(name, value)| (name.as_ref(), value.get()))
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for RawMembers<'a> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Members;
        impl<'de> Visitor<'de> for Members {
            type Value = RawMembers<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a JSON object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some(Name(name)) = map.next_key()? {
                    members.push((name, map.next_value::<&'de RawValue>()?));
                }
                Ok(RawMembers(members))
            }
        }
        from.deserialize_map(Members)
    }
}

/// A member's name: borrowed where it has no escapes.
struct Name<'a>(Cow<'a, str>);
impl<'de> Deserialize<'de> for Name<'de> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Text;
        impl<'de> Visitor<'de> for Text {
            type Value = Name<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a name")
            }
            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(Name(Cow::Borrowed(text)))
            }
            fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Name(Cow::Owned(text.to_owned())))
            }
        }
        from.deserialize_str(Text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_keep_their_text_and_the_last_of_equal_names_counts() {
        let members = RawMembers::parse(r#"{"z":1e+21,"a":-0,"big":9223372036854775809,"\u0061":"x","n":null}"#).unwrap();
        assert_eq!(members.get("z"), Some("1e+21"));
        assert_eq!(members.get("a"), Some(r#""x""#));
        assert_eq!(members.get("big"), Some("9223372036854775809"));
        assert_eq!(members.get("n"), Some("null"), "null is a value, not an absence");
        assert_eq!(members.names().collect::<Vec<_>>(), ["z", "a", "big", "a", "n"]);
        assert!(RawMembers::parse("[1]").is_err());
    }

    #[test]
    fn depth_does_not_hurt_the_reader() {
        let deep = format!(r#"{{"a":{}{}}}"#, "[".repeat(100_000), "]".repeat(100_000));
        assert_eq!(RawMembers::parse(&deep).unwrap().get("a").map(str::len), Some(200_000));
    }
}
