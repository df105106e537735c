//! Raw JSON inside an answer that the protocol library builds from parsed values.
//!
//! Where a raw text belongs, the handler writes a string nobody can guess; the gate puts the text into its place: as it is where the
//! string stands as a value, escaped where it stands inside the text block.
use std::sync::{Arc, Mutex, PoisonError};

use domain::RawJson;
use serde_json::Value;

use crate::{
    ports::{Random, bytes},
    secret::hex,
};

#[derive(Clone, Default)]
pub struct Slots(Arc<Mutex<Vec<(String, RawJson)>>>);

impl Slots {
    pub fn put(&self, raw: &RawJson, random: &dyn Random) -> Value {
        let name = format!("raw-{}", hex(&bytes::<16>(random)));
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push((name.clone(), raw.clone()));
        Value::String(name)
    }

    /// The body with every raw text in its place, or `None` where there is nothing to place.
    pub fn fill(&self, body: &str) -> Option<String> {
        let slots = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        if slots.is_empty() {
            return None;
        }
        let mut body = body.to_owned();
        for (name, raw) in slots {
            let escaped = Value::from(raw.as_str()).to_string();
            body = body.replace(&format!("\\\"{name}\\\""), &escaped[1..escaped.len() - 1]);
            body = body.replace(&format!("\"{name}\""), raw.as_str());
        }
        Some(body)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn raw_text_lands_as_a_value_and_escaped_in_the_text_block() {
        let raw = RawJson::parse(r#"{"z":1e+21,"a":[-0,"\"x\\"]}"#).unwrap();
        let slots = Slots::default();
        let structured = json!({"result": slots.put(&raw, &|out: &mut [u8]| out.fill(7))});
        let body = json!({"structuredContent": structured, "content": [{"type": "text", "text": structured.to_string()}]}).to_string();
        let filled = slots.fill(&body).unwrap();
        assert!(filled.contains(r#""structuredContent":{"result":{"z":1e+21,"a":[-0,"\"x\\"]}}"#), "{filled}");
        let read: Value = serde_json::from_str(&filled).unwrap();
        assert_eq!(read["content"][0]["text"], format!(r#"{{"result":{raw}}}"#));
        assert_eq!(slots.fill(&body), None, "placed once");
    }
}
