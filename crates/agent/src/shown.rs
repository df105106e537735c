//! Text of a stranger (a model, a tool, a caller) made honest for a person who must consent to it.
//!
//! Control characters and the marks that turn writing around or hide between letters are spelled out as `⟨U+202E⟩`: what the owner reads
//! is then what would be done. Nothing is left out or shortened here.

/// The text with every invisible or order-changing character spelled out. Newline and tab stay: they are visible as what they are.
pub fn visible(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if hides(c) {
            out.push_str(&format!("⟨U+{:04X}⟩", c as u32));
        } else {
            out.push(c);
        }
    }
    out
}

const fn hides(c: char) -> bool {
    matches!(c,
        '\u{0}'..='\u{8}' | '\u{B}'..='\u{1F}' | '\u{7F}'..='\u{9F}'        // C0 and C1 but for newline and tab
        | '\u{AD}' | '\u{34F}' | '\u{61C}' | '\u{115F}' | '\u{1160}' | '\u{17B4}' | '\u{17B5}' | '\u{180B}'..='\u{180F}'
        | '\u{200B}'..='\u{200F}' | '\u{2028}'..='\u{202E}' | '\u{2060}'..='\u{206F}' // zero width, line separators, bidi
        | '\u{3164}' | '\u{FE00}'..='\u{FE0F}' | '\u{FEFF}' | '\u{FFA0}' | '\u{FFF0}'..='\u{FFFB}'
        | '\u{1BCA0}'..='\u{1BCA3}' | '\u{1D173}'..='\u{1D17A}' | '\u{E0000}'..='\u{E0FFF}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_hides_or_turns_text_is_spelled_out() {
        assert_eq!(visible("rm\u{202E}txt.a\u{0}\r\n\tok é 中"), "rm⟨U+202E⟩txt.a⟨U+0000⟩⟨U+000D⟩\n\tok é 中");
        assert_eq!(visible("a\u{200B}b\u{E0041}"), "a⟨U+200B⟩b⟨U+E0041⟩");
    }
}
