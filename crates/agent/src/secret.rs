//! A key or token. It can be sent, never shown: `Debug` says only that there is one.
use std::fmt;

#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
    /// For the request that carries it, and nothing else.
    pub fn reveal(&self) -> &str {
        &self.0
    }
    /// The text without this secret: providers like to quote a wrong key back in their error messages.
    pub fn scrub(&self, text: &str) -> String {
        if self.0.is_empty() { text.to_owned() } else { text.replace(&self.0, "[key]") }
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_never_in_debug_output() {
        let secret = Secret::new("sk-marked-4711");
        assert!(!format!("{:?} {:?}", secret, Some(&secret)).contains("4711"));
        assert_eq!(secret.scrub("bad key sk-marked-4711!"), "bad key [key]!");
    }
}
