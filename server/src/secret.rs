//! Tokens and one-time codes: made from handed-in randomness, shown once, kept only as SHA-256.
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use sha2::{Digest, Sha256};

use crate::ports::{Random, bytes};

/// A bearer token's kind, readable in its first letters so that a leaked one can be recognised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenKind {
    Device,
    /// Access token or personal agent token.
    Access,
    Refresh,
}

impl TokenKind {
    const fn prefix(self) -> &'static str {
        match self {
            Self::Device => "osfd_",
            Self::Access => "osfa_",
            Self::Refresh => "osfr_",
        }
    }
}

/// 32 random bytes behind the prefix of their kind.
pub fn new_token(kind: TokenKind, random: &dyn Random) -> String {
    format!("{}{}", kind.prefix(), URL_SAFE_NO_PAD.encode(bytes::<32>(random)))
}

/// A token of this kind from bytes that were derived, not drawn (the successor of a refresh token).
pub fn token_from(kind: TokenKind, derived: &[u8]) -> String {
    format!("{}{}", kind.prefix(), URL_SAFE_NO_PAD.encode(derived))
}

/// Letters and digits without look-alikes (no I, L, O, U): 32 of them, so one takes exactly five random bits.
const CODE_LETTERS: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";
pub const CODE_CHARS: usize = 8;

/// A one-time code of eight letters that a person can read aloud.
pub fn new_code(random: &dyn Random) -> String {
    bytes::<CODE_CHARS>(random).iter().map(|b| char::from(CODE_LETTERS[usize::from(b & 31)])).collect()
}

/// What a person typed, as the code that was shown: case, blanks and dashes do not matter, look-alikes are read as what they resemble.
pub fn normal_code(typed: &str) -> String {
    typed
        .chars()
        .filter(|c| !c.is_whitespace() && *c != '-')
        .map(|c| match c.to_ascii_uppercase() {
            'I' | 'L' => '1',
            'O' => '0',
            'U' => 'V',
            other => other,
        })
        .take(64)
        .collect()
}

/// The only form in which a token or code is stored: lower-case hexadecimal SHA-256.
pub fn hash(secret: &str) -> String {
    hex(&Sha256::digest(secret.as_bytes()))
}

pub fn hex(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len() * 2);
    for b in bytes {
        out.push(char::from(b"0123456789abcdef"[usize::from(b >> 4)]));
        out.push(char::from(b"0123456789abcdef"[usize::from(b & 15)]));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_has_no_look_alikes_and_is_read_as_people_type_it() {
        let random = |out: &mut [u8]| out.iter_mut().enumerate().for_each(|(i, b)| *b = (i * 37) as u8);
        let code = new_code(&random);
        assert_eq!(code.len(), CODE_CHARS);
        let typed = format!(" {}-{} ", &code[..4].to_lowercase(), &code[4..]);
        assert_eq!(normal_code(&typed), code);
        assert_eq!(normal_code("oIl0"), "0110");
    }

    #[test]
    fn a_token_names_its_kind_and_carries_32_bytes() {
        let random = |out: &mut [u8]| out.fill(255);
        let token = new_token(TokenKind::Access, &random);
        assert!(token.starts_with("osfa_") && token.len() == 5 + 43, "{token}");
        assert_eq!(hash("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    }
}
