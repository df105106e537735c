//! What finished agents answered, by the content of their call, so that a resumed execution pays only for the rest.
//!
//! The key is made of what the agent was asked (prompt, options, the model that is meant now, the Graphs on the way) and, for one with
//! tools, of the owner's rules; not of its position. Equal calls are told apart by counting them. Effects of tools are never replayed. Invariant: an answer is replayed at most as often as it was recorded.
use std::{
    collections::{HashMap, VecDeque},
    sync::{Mutex, MutexGuard, PoisonError},
};

use agent::{model::Models, policy::RuleBook};
use domain::RawJson;
use engine::AgentCall;
use sha2::{Digest, Sha256};

/// Hash of an agent call's content, in hexadecimal.
pub fn key_of(call: &AgentCall, models: &Models, rules: &RuleBook) -> String {
    let mut hash = Sha256::new();
    let mut part = |text: &str| {
        hash.update((text.len() as u64).to_be_bytes());
        hash.update(text.as_bytes());
    };
    part(&call.prompt);
    let meant = models.resolve(call.model.as_deref()).map(|entry| entry.name);
    part(&meant.unwrap_or_else(|_| call.model.clone().unwrap_or_default()));
    part(call.system.as_deref().unwrap_or_default());
    part(&call.tools.as_ref().map(|t| t.join("\n")).unwrap_or_default());
    part(&call.schema.as_ref().map(RawJson::canonical).unwrap_or_default());
    part(&call.max_tokens.to_string());
    for slug in &call.graphs {
        part(slug.as_str());
    }
    if call.tools.as_ref().is_some_and(|tools| !tools.is_empty()) {
        rules.rules.iter().for_each(|rule| part(&rule.text));
        part(&format!("{:?}", rules.settings));
    }
    hash.finalize().iter().map(|b| format!("{b:02x}")).collect()
}

type Answers = HashMap<String, VecDeque<RawJson>>;
type Keep = Box<dyn Fn(&str, &RawJson) + Send + Sync>;

/// The recorded answers of the execution that is resumed, and where new ones go.
pub struct Journal {
    recorded: Mutex<Answers>,
    keep: Keep,
}

impl Journal {
    pub fn new(recorded: Vec<(String, RawJson)>, keep: Keep) -> Self {
        let mut answers = Answers::new();
        for (key, value) in recorded {
            answers.entry(key).or_default().push_back(value);
        }
        Self { recorded: Mutex::new(answers), keep }
    }

    /// Takes one recorded answer of this call; it is kept anew, so that a resumed execution can itself be resumed.
    pub fn recorded(&self, key: &str) -> Option<RawJson> {
        let value = self.lock().get_mut(key)?.pop_front()?;
        self.keep(key, &value);
        Some(value)
    }

    /// One recorded answer of this call, left where it is.
    pub fn peek(&self, key: &str) -> Option<RawJson> {
        self.lock().get(key)?.front().cloned()
    }

    pub fn keep(&self, key: &str, value: &RawJson) {
        (self.keep)(key, value);
    }

    fn lock(&self) -> MutexGuard<'_, Answers> {
        self.recorded.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn an_answer_is_replayed_as_often_as_it_was_recorded_and_kept_again() {
        let kept = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&kept);
        let one = RawJson::parse("1").unwrap();
        let journal = Journal::new(
            vec![("a".into(), one.clone()), ("a".into(), RawJson::parse("2").unwrap())],
            Box::new(move |key, value| seen.lock().unwrap().push((key.to_owned(), value.to_string()))),
        );
        assert_eq!(journal.recorded("a"), Some(one));
        assert_eq!(journal.recorded("a").map(|v| v.to_string()).as_deref(), Some("2"));
        assert_eq!(journal.recorded("a"), None);
        assert_eq!(journal.recorded("b"), None);
        assert_eq!(*kept.lock().unwrap(), [("a".into(), "1".into()), ("a".into(), "2".into())]);
    }

    #[test]
    fn the_key_is_the_content_and_not_the_place() {
        let call = AgentCall {
            agent: 1,
            prompt: "Review".into(),
            label: "a".into(),
            phase: None,
            model: None,
            system: None,
            tools: None,
            schema: None,
            max_tokens: 100,
            timeout_ms: 1,
            wave: None,
            line: Some(3),
            graphs: vec![domain::Slug::parse("g").unwrap()],
        };
        let (models, book) = (Models::new(), RuleBook::default());
        let key = |call: &AgentCall| key_of(call, &models, &book);
        let elsewhere = AgentCall { agent: 7, label: "b".into(), phase: Some("Late".into()), wave: Some(2), line: Some(90), ..call.clone() };
        assert_eq!(key(&call), key(&elsewhere));
        for other in [
            AgentCall { prompt: "Review it".into(), ..call.clone() },
            AgentCall { model: Some("fast".into()), ..call.clone() },
            AgentCall { system: Some("Be strict".into()), ..call.clone() },
            AgentCall { max_tokens: 99, ..call.clone() },
            AgentCall { schema: Some(RawJson::parse("{}").unwrap()), ..call.clone() },
            AgentCall { tools: Some(vec!["read_file".into()]), ..call.clone() },
            AgentCall { graphs: Vec::new(), ..call.clone() },
        ] {
            assert_ne!(key(&call), key(&other), "{other:?}");
        }
        let mut stricter = RuleBook::default();
        stricter.rules.push(agent::policy::StoredRule { id: 1, text: r#"{"tool":"*","scope":"everywhere","effect":"deny"}"#.into() });
        let with_tools = AgentCall { tools: Some(vec!["read_file".into()]), ..call.clone() };
        assert_ne!(key_of(&with_tools, &models, &stricter), key(&with_tools), "what it may do has changed");
        assert_eq!(key_of(&call, &models, &stricter), key(&call), "without tools the rules say nothing");
    }
}
