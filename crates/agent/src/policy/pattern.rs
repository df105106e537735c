//! Typed patterns of a rule. They compare what a tool resolved, never a joined string.
use std::{collections::BTreeMap, path::Path};

use domain::{
    RawJson,
    wire::said::{Fact, Sentence, said},
};
use serde::{Deserialize, Serialize};

use super::{Ruling, Target, ToolCall};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Pattern {
    /// Files and folders in and under this real, absolute path.
    Folder(String),
    Http {
        /// The whole host name, lower case.
        host: String,
        /// Upper case; empty means every method.
        methods: Vec<String>,
    },
    /// The command line starts with these words. An allowing rule never matches programs that run other programs.
    ArgvPrefix(Vec<String>),
    /// The command line is exactly these words.
    Argv(Vec<String>),
    /// At each JSON pointer of the input stands a value equal to this one; `""` is the whole input.
    Equals(BTreeMap<String, RawJson>),
}

impl Pattern {
    pub(super) fn exactly(call: &ToolCall) -> Self {
        match &call.target {
            Target::Path(path) => Self::Folder(path.parent().unwrap_or(path).to_string_lossy().into_owned()),
            Target::Command { argv } => Self::Argv(argv.clone()),
            Target::Http { host, method } => Self::Http { host: host.clone(), methods: vec![method.clone()] },
            Target::Nothing => Self::Equals(BTreeMap::from([(String::new(), call.input.clone())])),
        }
    }

    /// Which calls of the tool it means.
    pub(super) fn sentence(&self, tool: Fact) -> Sentence {
        let tool = ("tool", tool);
        match self {
            Self::Folder(folder) => said("calls_in_folder", "{tool} in {folder}", [tool, ("folder", folder.as_str().into())]),
            Self::Http { host, methods } if methods.is_empty() => said("calls_to_host", "{tool} to {host}", [tool, ("host", host.as_str().into())]),
            Self::Http { host, methods } => {
                let facts = [tool, ("host", host.as_str().into()), ("methods", methods.join(", ").into())];
                said("calls_to_host_by", "{tool} to {host} ({methods})", facts)
            }
            Self::ArgvPrefix(words) => said("calls_starting", "{tool} starting with {words}", [tool, ("words", command_line(words).into())]),
            Self::Argv(words) => said("calls_exactly", "{tool} for exactly {words}", [tool, ("words", command_line(words).into())]),
            Self::Equals(wanted) => {
                let whole = wanted.get("").filter(|_| wanted.len() == 1);
                match whole {
                    Some(input) => said("calls_with_input", "{tool} with the input = {input}", [tool, ("input", input.as_str().into())]),
                    None => {
                        let values: Vec<String> = wanted.iter().map(|(pointer, value)| format!("{pointer} = {}", value.as_str())).collect();
                        said("calls_with_values", "{tool} with {values}", [tool, ("values", values.join(", ").into())])
                    }
                }
            }
        }
    }

    /// A pattern that does not fit the kind of call is silent when it would allow and matches when it would restrict less than the owner
    /// meant: a deny of a folder says nothing about commands, and a deny of a command nothing about files.
    pub(super) fn matches(&self, call: &ToolCall, effect: Ruling) -> bool {
        match (self, &call.target) {
            (Self::Folder(folder), Target::Path(path)) => path.starts_with(folder),
            (Self::Http { host, methods }, Target::Http { host: to, method }) => {
                host.eq_ignore_ascii_case(to) && (methods.is_empty() || methods.iter().any(|m| m.eq_ignore_ascii_case(method)))
            }
            (Self::ArgvPrefix(prefix), Target::Command { argv }) => starts_with(argv, prefix, effect),
            (Self::Argv(words), Target::Command { argv }) => words.len() == argv.len() && same_words(argv, words, effect),
            (Self::Equals(wanted), _) => wanted.iter().all(|(pointer, value)| equal_at(&call.input, pointer, value)),
            (Self::Folder(_) | Self::Http { .. } | Self::ArgvPrefix(_) | Self::Argv(_), _) => false,
        }
    }
}

fn starts_with(argv: &[String], prefix: &[String], effect: Ruling) -> bool {
    if prefix.is_empty() || argv.len() < prefix.len() {
        return false;
    }
    let runs_others = effect == Ruling::Allow && runs_other_programs(&argv[0]);
    !runs_others && same_words(&argv[..prefix.len()], prefix, effect)
}

/// `deny rm` must also catch `/bin/rm`; `allow ls` must not let a `./ls` of a granted folder through.
fn same_words(argv: &[String], words: &[String], effect: Ruling) -> bool {
    let (Some((program, rest)), Some((named, others))) = (argv.split_first(), words.split_first()) else { return false };
    let same_program = program == named || (effect != Ruling::Allow && base(program) == base(named));
    same_program && rest == others
}

fn base(program: &str) -> &str {
    program.rsplit(['/', '\\']).next().unwrap_or(program)
}

/// Interpreters, package tools and wrappers: a prefix of theirs says nothing about what will run.
fn runs_other_programs(program: &str) -> bool {
    const EXACT: &[&str] = &[
        "sh",
        "bash",
        "dash",
        "zsh",
        "fish",
        "ksh",
        "csh",
        "tcsh",
        "busybox",
        "env",
        "xargs",
        "find",
        "fd",
        "sudo",
        "su",
        "doas",
        "ssh",
        "scp",
        "rsync",
        "nohup",
        "nice",
        "ionice",
        "timeout",
        "time",
        "watch",
        "setsid",
        "stdbuf",
        "script",
        "strace",
        "gdb",
        "ld.so",
        "chroot",
        "unshare",
        "nsenter",
        "parallel",
        "make",
        "cmake",
        "ninja",
        "just",
        "git",
        "npm",
        "npx",
        "pnpm",
        "yarn",
        "bun",
        "deno",
        "node",
        "ruby",
        "perl",
        "php",
        "lua",
        "awk",
        "gawk",
        "mawk",
        "sed",
        "tar",
        "zip",
        "vi",
        "vim",
        "nvim",
        "emacs",
        "ed",
        "less",
        "more",
        "man",
        "cargo",
        "rustc",
        "go",
        "java",
        "gradle",
        "mvn",
        "docker",
        "podman",
        "kubectl",
        "systemd-run",
        "at",
        "batch",
        "crontab",
        "tee",
        "dd",
        "uv",
        "uvx",
        "pip",
        "pipx",
        "conda",
        "cmd",
        "powershell",
        "pwsh",
        "osascript",
        "wscript",
        "cscript",
        "mshta",
        "rundll32",
        "flock",
        "expect",
        "socat",
        "nc",
        "ncat",
        "curl",
        "wget",
    ];
    let name = base(program).to_ascii_lowercase();
    let name = name.strip_suffix(".exe").unwrap_or(&name);
    // python3.12, ld-linux-x86-64.so.2, ruby2.7 …
    EXACT.contains(&name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.')) || name.starts_with("python") || name.starts_with("ld-")
}

fn equal_at(input: &RawJson, pointer: &str, wanted: &RawJson) -> bool {
    if pointer.is_empty() {
        return input.canonical() == wanted.canonical();
    }
    let value = input.to_value();
    value.pointer(pointer).is_some_and(|at| RawJson::of(at).canonical() == wanted.canonical())
}

/// Files that by their name or place hold keys: read only when the owner says so.
pub(crate) fn holds_secrets(path: &Path) -> bool {
    const FOLDERS: &[&str] = &[".ssh", ".gnupg", ".aws", ".kube", ".docker", ".password-store", ".azure", ".config/gcloud"];
    const NAMES: &[&str] =
        &[".netrc", ".npmrc", ".pypirc", ".pgpass", ".git-credentials", "credentials", "id_rsa", "id_ed25519", "id_ecdsa", "id_dsa"];
    let text = path.to_string_lossy().replace('\\', "/").to_lowercase();
    let name = text.rsplit('/').next().unwrap_or("");
    let in_folder = FOLDERS.iter().any(|f| text.contains(&format!("/{f}/")) || text.ends_with(&format!("/{f}")));
    let ending = [".pem", ".key", ".p12", ".pfx", ".kdbx", ".keystore"].iter().any(|e| name.ends_with(e));
    in_folder || ending || NAMES.contains(&name) || name == ".env" || name.starts_with(".env.")
}

/// The words as a shell would have to be given them, so that a reader sees where each begins and ends.
pub fn command_line(argv: &[String]) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,+@%".contains(c);
    let word = |w: &String| if !w.is_empty() && w.chars().all(plain) { w.clone() } else { format!("'{}'", w.replace('\'', r"'\''")) };
    argv.iter().map(word).collect::<Vec<_>>().join(" ")
}
