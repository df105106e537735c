//! Sentences for the owner: a code and facts for the window's own words, and the English of them for logs, the command line and exports.
//!
//! Words of the owner, a Graph, an agent, a server or the operating system are data: a fact, or a [`Sentence`] without a code. A test of the
//! window compares every call of [`said`] with its catalogue.
use std::{collections::BTreeMap, fmt};

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
pub struct Sentence {
    /// Stable word, the key of the window's catalogue (`said.rule_everywhere`); empty where the words are data.
    pub code: String,
    pub facts: BTreeMap<String, Fact>,
    /// In English.
    pub text: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
#[serde(untagged)]
pub enum Fact {
    Data(String),
    Said(Sentence),
}

/// A sentence with a code. `english` has a `{hole}` for each fact; what stands in a fact is never read for holes.
pub fn said<const N: usize>(code: &str, english: &str, facts: [(&'static str, Fact); N]) -> Sentence {
    let facts: BTreeMap<String, Fact> = facts.into_iter().map(|(name, fact)| (name.to_owned(), fact)).collect();
    let text = filled(english, |name| facts.get(name).map(|fact| fact.text().to_owned())).unwrap_or_else(|| english.to_owned());
    Sentence { code: code.to_owned(), facts, text }
}

impl Sentence {
    /// In the words of a catalogue with keys like `said.rule_everywhere`; in English where it has none or a fact is missing.
    pub fn in_words_of(&self, catalogue: &BTreeMap<String, String>) -> String {
        let fact = |name: &str| {
            self.facts.get(name).map(|fact| match fact {
                Fact::Data(text) => text.clone(),
                Fact::Said(sentence) => sentence.in_words_of(catalogue),
            })
        };
        catalogue.get(&format!("said.{}", self.code)).and_then(|words| filled(words, fact)).unwrap_or_else(|| self.text.clone())
    }

    /// For a column of text: whole, as JSON, where it has a code; else its words alone, unless somebody made them look like such JSON.
    pub fn to_column(&self) -> String {
        let json = if self.code.is_empty() && !self.text.starts_with('{') { None } else { serde_json::to_string(self).ok() };
        json.unwrap_or_else(|| self.text.clone())
    }

    /// Back from [`Sentence::to_column`]. Older desktops left words without a code.
    pub fn from_column(column: String) -> Self {
        serde_json::from_str(&column).unwrap_or_else(|_| column.into())
    }

    /// With every word in it changed, those of its facts too.
    pub fn map(&self, change: &dyn Fn(&str) -> String) -> Self {
        let facts = self.facts.iter().map(|(name, fact)| {
            let fact = match fact {
                Fact::Data(text) => Fact::Data(change(text)),
                Fact::Said(sentence) => Fact::Said(sentence.map(change)),
            };
            (name.clone(), fact)
        });
        Self { code: self.code.clone(), facts: facts.collect(), text: change(&self.text) }
    }
}

/// `None` where a hole has no fact.
fn filled(words: &str, fact: impl Fn(&str) -> Option<String>) -> Option<String> {
    let mut text = String::with_capacity(words.len());
    let mut rest = words;
    while let Some((before, after)) = rest.split_once('{') {
        let (name, after) = after.split_once('}')?;
        text.push_str(before);
        text.push_str(&fact(name)?);
        rest = after;
    }
    text.push_str(rest);
    Some(text)
}

impl fmt::Display for Sentence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Data: somebody else's words, or those of an older desktop.
impl From<String> for Sentence {
    fn from(text: String) -> Self {
        Self { text, ..Self::default() }
    }
}
impl From<&str> for Sentence {
    fn from(text: &str) -> Self {
        text.to_owned().into()
    }
}

impl Fact {
    fn text(&self) -> &str {
        match self {
            Self::Data(text) => text,
            Self::Said(sentence) => &sentence.text,
        }
    }
}
impl From<String> for Fact {
    fn from(text: String) -> Self {
        Self::Data(text)
    }
}
impl From<&str> for Fact {
    fn from(text: &str) -> Self {
        Self::Data(text.to_owned())
    }
}
impl From<Sentence> for Fact {
    fn from(sentence: Sentence) -> Self {
        Self::Said(sentence)
    }
}
impl From<i64> for Fact {
    fn from(number: i64) -> Self {
        Self::Data(number.to_string())
    }
}
impl From<u64> for Fact {
    fn from(number: u64) -> Self {
        Self::Data(number.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobodys_words_become_a_sentence_of_ours_in_a_column() {
        for sentence in [said("late", "Late.", []), "a server's words".into(), Sentence::from(said("late", "Late.", []).to_column())] {
            assert_eq!(Sentence::from_column(sentence.to_column()), sentence);
        }
        assert_eq!(Sentence::from("plain").to_column(), "plain");
    }

    #[test]
    fn a_sentence_is_said_in_english_and_in_the_words_of_a_catalogue() {
        let place = said("everywhere", "everywhere", []);
        let rule = said("rule", "{tool}, {place}", [("tool", "{place}".into()), ("place", place.into())]);
        assert_eq!(rule.text, "{place}, everywhere");
        let german: BTreeMap<String, String> =
            [("said.everywhere", "überall"), ("said.rule", "{place}: {tool}")].map(|(key, words)| (key.to_owned(), words.to_owned())).into();
        assert_eq!(rule.in_words_of(&german), "überall: {place}");
        assert_eq!(said("rule", "rule 1", []).in_words_of(&german), "rule 1");
        assert_eq!(Sentence::from("ours").in_words_of(&german), "ours");
        assert_eq!(rule.map(&|text: &str| text.to_uppercase()).text, "{PLACE}, EVERYWHERE");
    }

    #[test]
    fn it_travels_with_its_facts() {
        let rule = said("rule", "{n} {place}", [("n", 2_u64.into()), ("place", said("here", "here", []).into())]);
        let json = serde_json::to_string(&rule).unwrap();
        assert_eq!(json, r#"{"code":"rule","facts":{"n":"2","place":{"code":"here","facts":{},"text":"here"}},"text":"2 here"}"#);
        assert_eq!(serde_json::from_str::<Sentence>(&json).unwrap(), rule);
        assert_eq!(Sentence::from_column(rule.to_column()), rule);
        assert_eq!(Sentence::from("rule 1").to_column(), "rule 1");
        assert_eq!(Sentence::from_column("rule 1".into()), Sentence::from("rule 1"));
    }
}
