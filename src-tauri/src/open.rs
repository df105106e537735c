//! Opens this profile's desktop with its real parts, or hands over to the one that runs already.
//!
//! Invariant: one desktop per profile. The profile's lock decides who it is; whoever comes second asks the first, through its control
//! socket, to show its window.
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use agent::approvals::Attendance;
use device::desk::{ControlError, Desk, OpenError, ask_running};
use device::real::{self, ConfigError};
use device::store::StoreError;
use serde_json::json;

use crate::builtin::Builtin;
use crate::shell::Shell;

/// The first one may be starting (not listening yet), quitting (not gone yet: up to 10 s) or a short `graph-deskd` command.
const ASK_AGAIN_EVERY: Duration = Duration::from_millis(50);
const ASK_TIMES: u32 = 240;

/// Why there is no desktop, as one sentence for the owner.
#[derive(Debug, thiserror::Error)]
pub enum NoStart {
    #[error("{}", crate::words::NO_DISPLAY)]
    NoDisplay,
    #[error("Graph Desk could not start its threads: {0}.")]
    Threads(std::io::Error),
    #[error("Graph Desk cannot write its folder {0}: {1}.")]
    Profile(PathBuf, std::io::Error),
    #[error("Graph Desk cannot start: {0}.")]
    Config(#[from] ConfigError),
    #[error("Graph Desk cannot open its data: {0}.")]
    Data(#[from] OpenError),
    #[error("Graph Desk could not open its window: {0}.")]
    Window(tauri::Error),
    #[error("Graph Desk could not start itself again: {0}. Start it by hand.")]
    Again(std::io::Error),
    /// The running one's own words.
    #[error("{0}")]
    Refused(String),
}

/// `None` when a running Graph Desk has been asked to show its window.
pub async fn open(profile: &Path) -> Result<Option<Shell>, NoStart> {
    for _ in 0..ASK_TIMES {
        match ask_running(profile, "window_open", json!({})).await {
            Ok(_) => return Ok(None),
            Err(ControlError::Refused(error)) => return Err(NoStart::Refused(error.message)),
            Err(ControlError::Nobody(_) | ControlError::Broken(_)) => {}
        }
        match open_first(profile) {
            Err(NoStart::Data(OpenError::Store(StoreError::InUse(_)))) => tokio::time::sleep(ASK_AGAIN_EVERY).await,
            opened => return with_settings(opened?).await,
        }
    }
    with_settings(open_first(profile)?).await
}

/// Its first window is drawn in the owner's theme and language.
async fn with_settings(shell: Shell) -> Result<Option<Shell>, NoStart> {
    shell.reload_settings().await;
    Ok(Some(shell))
}

/// One after the other: of ten first starts at once only one may begin the file of secrets.
fn open_first(profile: &Path) -> Result<Shell, NoStart> {
    let turn = std::fs::File::create(profile.join("start.lock")).and_then(|file| file.lock().map(|()| file));
    let _turn = turn.map_err(|why| NoStart::Profile(profile.to_owned(), why))?;
    let mut config = real::desk_config(profile, Attendance::Window)?;
    let builtin = Builtin::new(profile, config.clock.clone(), config.random.clone());
    config.builtin = Some(Arc::new(builtin.clone()));
    Ok(Shell::new(Desk::open(config)?, builtin))
}
