//! What the shipped binaries hand to a desktop: profile folder, secret store, clock, randomness, network, the script runner.
//!
//! Only `graph-deskd` and the shell call this; everything else is handed its parts.
use std::{
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
};

use agent::{
    approvals::Attendance,
    sandbox,
    tools::{Commands, Fetch, SystemResolver},
};
use engine::ChildVm;

use crate::{
    desk::DeskConfig,
    net::{Network, OsRandom, SystemClock},
    ports::TransportError,
    secrets::{Draw, SecretError, SecretStore},
};

/// Names another profile folder.
pub const PROFILE_VARIABLE: &str = "GRAPH_DESK_PROFILE";
/// Opens the encrypted secrets file, for machines without a keyring.
pub const PASSPHRASE_VARIABLE: &str = "GRAPH_DESK_PASSPHRASE";
/// Names the `graph-vm` program.
pub const VM_VARIABLE: &str = "GRAPH_VM";

/// Says what is logged, as in `debug` or `device=trace,warn`.
pub const LOG_VARIABLE: &str = "GRAPH_DESK_LOG";
/// Libraries that log headers and bodies when they are loud: keys and the owner's files would be in them. No wish makes them speak.
const NEVER_LOUD: [(&str, &str); 8] = [
    ("genai", "off"),
    ("h2", "warn"),
    ("hyper", "warn"),
    ("hyper_util", "warn"),
    ("reqwest", "warn"),
    ("rmcp", "warn"),
    ("rustls", "warn"),
    ("zbus", "warn"),
];

/// What is logged: the environment's wish or this default, but for what must not be.
pub fn log_filter(default: &str) -> String {
    let wish = std::env::var(LOG_VARIABLE).ok().filter(|wish| !wish.trim().is_empty());
    quiet(wish.as_deref().unwrap_or(default))
}

fn quiet(wish: &str) -> String {
    let is_ours = |directive: &&str| !NEVER_LOUD.iter().any(|(name, _)| directive.trim_start().starts_with(name));
    let never = NEVER_LOUD.iter().map(|(name, level)| format!("{name}={level}"));
    wish.split(',').filter(is_ours).map(str::to_owned).chain(never).collect::<Vec<_>>().join(",")
}

#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    #[error("no folder for the profile was found: set {PROFILE_VARIABLE}, or give --profile")]
    NoProfile,
    #[error("the profile folder {} cannot be made: {why}", .path.display())]
    Folder { path: PathBuf, why: std::io::Error },
    #[error(transparent)]
    Secrets(#[from] SecretError),
    #[error(transparent)]
    Network(#[from] TransportError),
    #[error("this program's own path is not known: {0}")]
    NoExe(std::io::Error),
}

/// `given`, else the environment's, else the platform's data folder.
pub fn profile_folder(given: Option<PathBuf>) -> Result<PathBuf, ConfigError> {
    let folder = given
        .or_else(|| std::env::var_os(PROFILE_VARIABLE).filter(|v| !v.is_empty()).map(PathBuf::from))
        .or_else(|| directories::ProjectDirs::from("", "", "graph-desk").map(|dirs| dirs.data_dir().to_owned()))
        .ok_or(ConfigError::NoProfile)?;
    // One spelling for one folder: keyring entries and long socket paths are named after it.
    Ok(std::path::absolute(&folder).unwrap_or(folder))
}

/// The first thing a binary's `main` does: started as the sandbox's helper it becomes that command and never is a desktop.
pub fn sandbox_helper() -> Option<ExitCode> {
    let mut args = std::env::args_os().skip(1);
    (args.next()?.to_str() == Some(sandbox::HELPER_FLAG)).then(|| sandbox::helper_main(args))
}

/// The real parts, for this profile. Makes the folder, readable by its owner alone.
pub fn desk_config(profile: &Path, attendance: Attendance) -> Result<DeskConfig, ConfigError> {
    make_private(profile).map_err(|why| ConfigError::Folder { path: profile.to_owned(), why })?;
    let passphrase = std::env::var(PASSPHRASE_VARIABLE).ok().filter(|p| !p.is_empty());
    let graph_vm = match std::env::var_os(VM_VARIABLE).filter(|v| !v.is_empty()) {
        Some(program) => ChildVm::new(program.into()),
        None => ChildVm::beside(&std::env::current_exe().map_err(ConfigError::NoExe)?),
    };
    Ok(DeskConfig {
        profile: profile.to_owned(),
        logs_folder: profile.join("logs"),
        secrets: SecretStore::open(profile, passphrase.as_deref(), draw())?,
        clock: Arc::new(SystemClock),
        random: Arc::new(OsRandom),
        http: Arc::new(Network::new()?),
        graph_vm,
        attendance,
        device_name: computer_name(),
        excluded: Vec::new(),
        commands: Some(Commands { helper: std::env::current_exe().map_err(ConfigError::NoExe)? }),
        fetch: Some(Fetch::new(Arc::new(SystemResolver))),
        builtin: None,
    })
}

/// The system's randomness, for salts and nonces. Without it a nonce would repeat, so nothing goes on.
#[allow(clippy::expect_used)]
fn draw() -> Draw {
    Arc::new(|out: &mut [u8]| getrandom::fill(out).expect("the system gives no randomness"))
}

/// Makes the folder; a new one is readable by its owner alone.
pub fn make_private(folder: &Path) -> std::io::Result<()> {
    let is_new = !folder.exists();
    std::fs::create_dir_all(folder)?;
    #[cfg(unix)]
    if is_new {
        std::fs::set_permissions(folder, std::os::unix::fs::PermissionsExt::from_mode(0o700))?;
    }
    #[cfg(not(unix))]
    let _ = is_new;
    Ok(())
}

/// What the owner calls this computer.
fn computer_name() -> String {
    let from_file = |path: &str| std::fs::read_to_string(path).ok();
    let name = std::env::var("COMPUTERNAME").ok().or_else(|| from_file("/proc/sys/kernel/hostname")).or_else(|| from_file("/etc/hostname"));
    let name = name.map(|n| n.trim().to_owned()).filter(|n| !n.is_empty()).unwrap_or_else(|| "Desktop".into());
    domain::text::cut_chars(&name, domain::limits::NAME_CHARS_MAX).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_wish_makes_a_library_log_what_it_carries() {
        let filter = quiet("trace,genai=trace,hyper::client=trace,device=debug");
        assert!(filter.starts_with("trace,device=debug,genai=off,"), "{filter}");
        assert!(!filter.contains("=trace"), "{filter}");
    }
}
