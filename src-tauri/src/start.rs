//! What is decided before there is a window: options, a display, where logs go.
//!
//! Invariant: whatever is missing here is said in one sentence with exit code 1; nothing panics.
use std::path::{Path, PathBuf};

use clap::Parser;
use tracing_subscriber::{EnvFilter, Layer as _, layer::SubscriberExt as _, util::SubscriberInitExt as _};

/// Graph Desk: writes and runs Graphs, shares the ones you tick, and asks before a tool acts.
#[derive(Debug, Clone, Parser)]
#[command(name = "graph-desk", version)]
pub struct Options {
    /// Folder of this desktop's data (else the system's usual place).
    #[arg(long, value_name = "DIR", env = "GRAPH_DESK_PROFILE")]
    pub profile: Option<PathBuf>,
    /// Start without opening the window: only the tray and the relay.
    #[arg(long)]
    pub hidden: bool,
    /// Draw the window without the graphics card, for machines where it stays blank.
    #[arg(long)]
    pub safe_mode: bool,
}

/// False where there is no display to try.
#[cfg(target_os = "linux")]
pub fn display_is_named() -> bool {
    ["DISPLAY", "WAYLAND_DISPLAY"].into_iter().any(|name| std::env::var_os(name).is_some_and(|value| !value.is_empty()))
}

/// True when a window can be opened here. Asks GTK itself: a display that nobody answers is none.
#[cfg(target_os = "linux")]
pub fn display_answers() -> bool {
    gtk::init().is_ok()
}

#[cfg(not(target_os = "linux"))]
pub fn display_is_named() -> bool {
    true
}

#[cfg(not(target_os = "linux"))]
pub fn display_answers() -> bool {
    true
}

/// Log lines go to `graph-desk.log` in `folder` and, from warnings up, to stderr. A file over 10 MB is set aside at a start, one is kept.
pub fn log_to(folder: &Path) {
    const SET_ASIDE_BYTES: u64 = 10 * 1024 * 1024;
    let filter = |default| EnvFilter::new(device::real::log_filter(default));
    let stderr = tracing_subscriber::fmt::layer().with_writer(std::io::stderr).with_filter(filter("warn"));
    let path = folder.join("graph-desk.log");
    let _ = std::fs::create_dir_all(folder);
    if std::fs::metadata(&path).is_ok_and(|meta| meta.len() > SET_ASIDE_BYTES) {
        let _ = std::fs::rename(&path, folder.join("graph-desk.old.log"));
    }
    let file = std::fs::OpenOptions::new().create(true).append(true).open(&path);
    let file = file.ok().map(|file| tracing_subscriber::fmt::layer().with_ansi(false).with_writer(file).with_filter(filter("info")));
    // A second call (in tests) finds a subscriber in place: that one stays.
    let _ = tracing_subscriber::registry().with(stderr).with(file).try_init();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_options_are_those_of_graph_deskd() {
        let options = Options::parse_from(["graph-desk", "--profile", "/p", "--hidden"]);
        assert_eq!(options.profile.as_deref(), Some(Path::new("/p")));
        assert!(options.hidden && !options.safe_mode);
    }
}
