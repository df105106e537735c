//! What a desktop reads from a server, and JSON as both of them carry it: never a panic, and what was read is read again alike.
#![no_main]

use domain::{
    RawJson, json,
    wire::relay::{CommandList, ControlAnswer, DoorbellAnswer, ErrorBody, StartAnswer, SyncAnswer, read_completion},
};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let _ = json::depth(text);
    let _ = read_completion(text);
    let _ = serde_json::from_str::<SyncAnswer>(text);
    let _ = serde_json::from_str::<DoorbellAnswer>(text);
    let _ = serde_json::from_str::<StartAnswer>(text);
    let _ = serde_json::from_str::<ControlAnswer>(text);
    let _ = serde_json::from_str::<ErrorBody>(text);
    let _ = serde_json::from_str::<CommandList>(text);
    let Ok(raw) = RawJson::parse(text) else { return };
    let canonical = raw.canonical();
    let again = RawJson::parse(&canonical).unwrap_or_else(|e| panic!("the canonical form cannot be read: {e}: {canonical}"));
    assert_eq!(again.canonical(), canonical, "the canonical form of the canonical form is another one");
});
