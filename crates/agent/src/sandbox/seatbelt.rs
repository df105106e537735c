//! The profile for macOS `sandbox-exec`: everything is denied but what is named.
use std::path::Path;

use super::Cage;

const SYSTEM: &[&str] = &["/usr", "/bin", "/sbin", "/System", "/Library/Apple", "/Library/Frameworks", "/opt/homebrew", "/private/etc", "/dev"];

pub(super) fn profile(cage: &Cage) -> String {
    let mut text = String::from(
        "(version 1)\n(deny default)\n(allow process-exec process-fork)\n(allow signal (target same-sandbox))\n(allow sysctl-read)\n\
         (allow file-read-metadata)\n(allow file-write* (literal \"/dev/null\"))\n(deny network*)\n",
    );
    let reads = SYSTEM.iter().map(Path::new).chain(cage.read.iter().map(|p| p.as_path())).chain(cage.write.iter().map(|p| p.as_path()));
    for path in reads {
        text.push_str(&format!("(allow file-read* (subpath {}))\n", quoted(path)));
    }
    for path in &cage.write {
        text.push_str(&format!("(allow file-write* (subpath {}))\n", quoted(path)));
    }
    text
}

fn quoted(path: &Path) -> String {
    format!("\"{}\"", path.to_string_lossy().replace('\\', "\\\\").replace('"', "\\\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_cannot_end_its_quotes() {
        let cage = Cage { write: vec!["/a\") (allow default) (\"".into()], ..Cage::default() };
        let text = profile(&cage);
        assert!(text.contains(r#"(subpath "/a\") (allow default) (\""))"#), "{text}");
        assert!(text.contains("(deny default)") && text.contains("(deny network*)"));
    }
}
