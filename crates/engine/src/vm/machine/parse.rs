//! `JSON.parse` as it was before the script, for what the host hands in.
use std::borrow::Cow;

use boa_engine::{Context, JsResult, JsString, JsValue};

use super::host::host;

pub(super) fn parse_json(text: &str, cx: &mut Context) -> JsResult<JsValue> {
    host(cx)?.parse().call(&JsValue::undefined(), &[JsString::from(whole_characters(text).as_ref()).into()], cx)
}

/// Half a surrogate pair (`\ud800`) becomes U+FFFD: the interpreter's own parser refuses it.
fn whole_characters(text: &str) -> Cow<'_, str> {
    if !text.contains("\\u") {
        return Cow::Borrowed(text);
    }
    let unit =
        |at: usize| text.get(at..at + 6).filter(|escape| escape.starts_with("\\u")).and_then(|escape| u16::from_str_radix(&escape[2..], 16).ok());
    let (mut out, mut at, mut copied) = (String::new(), 0, 0);
    while let Some(found) = text[at..].find('\\') {
        at += found;
        match (unit(at), unit(at + 6)) {
            (Some(0xD800..0xDC00), Some(0xDC00..0xE000)) => at += 12,
            (Some(0xD800..0xE000), _) => {
                out.push_str(&text[copied..at]);
                out.push_str("\\ufffd");
                at += 6;
                copied = at;
            }
            (Some(_), _) => at += 6,
            // Another escape: two characters of ASCII.
            (None, _) => at += 2,
        }
    }
    if copied == 0 {
        return Cow::Borrowed(text);
    }
    out.push_str(&text[copied..]);
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_halves_of_pairs_are_replaced() {
        for (given, kept) in [
            (r#""plain""#, r#""plain""#),
            (r#""\u00e9\n\ud83d\ude00""#, r#""\u00e9\n\ud83d\ude00""#),
            (r#""\ud800""#, r#""\ufffd""#),
            (r#""\udc00 \ud800\u0041""#, r#""\ufffd \ufffd\u0041""#),
            (r#""\\ud800""#, r#""\\ud800""#),
            (r#""\\\ud800é""#, r#""\\\ufffdé""#),
            (r#""\uD83D\uD83D\uDE00""#, r#""\ufffd\uD83D\uDE00""#),
        ] {
            assert_eq!(whole_characters(given), kept, "{given}");
        }
    }
}
