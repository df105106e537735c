//! The tray icon: state, open, pause or resume, quit.
//!
//! A help, not a need: many desktops have no place for it. Then the app goes on without; starting it again opens its window.
use device::view::{RelayView, StatusView};
use serde_json::json;
use tauri::image::Image;
use tauri::menu::{Menu, MenuItem, PredefinedMenuItem};
use tauri::tray::{TrayIcon, TrayIconBuilder};
use tauri::{AppHandle, Manager as _, Wry};

use crate::shell::{self, Shell};
use crate::{windows, words};

pub const ID: &str = "desk";
const OPEN: &str = "open";
const PAUSE: &str = "pause";
const RESUME: &str = "resume";
const QUIT: &str = "quit";

/// Clones share one icon.
#[derive(Clone)]
pub struct Tray {
    icon: TrayIcon,
    state: MenuItem<Wry>,
    pause: MenuItem<Wry>,
    resume: MenuItem<Wry>,
}

/// `None`, with a line in the log, where there is no tray.
pub fn build(app: &AppHandle) -> Option<Tray> {
    if !library_is_there() {
        tracing::info!("no tray: libayatana-appindicator3 is not installed");
        return None;
    }
    build_icon(app).inspect_err(|error| tracing::info!(%error, "no tray")).ok()
}

impl Tray {
    pub fn show(&self, status: &StatusView) {
        let line = words::tray_line(status);
        let paused = matches!(status.relay, RelayView::Paused { .. });
        let shown = self
            .state
            .set_text(&line)
            .and_then(|()| self.pause.set_enabled(!paused))
            .and_then(|()| self.resume.set_enabled(paused))
            .and_then(|()| self.icon.set_tooltip(Some(format!("{} · {line}", words::NAME))));
        if let Err(error) = shown {
            tracing::warn!(%error, "the tray could not be brought up to date");
        }
    }
}

fn build_icon(app: &AppHandle) -> tauri::Result<Tray> {
    let state = MenuItem::with_id(app, "state", "Starting", false, None::<&str>)?;
    let pause = MenuItem::with_id(app, PAUSE, "Pause taking commands", true, None::<&str>)?;
    let resume = MenuItem::with_id(app, RESUME, "Take commands again", false, None::<&str>)?;
    let open = MenuItem::with_id(app, OPEN, "Open Graph Desk", true, None::<&str>)?;
    let quit = MenuItem::with_id(app, QUIT, "Quit", true, None::<&str>)?;
    let line = PredefinedMenuItem::separator(app)?;
    let menu = Menu::with_items(app, &[&state, &line, &open, &pause, &resume, &PredefinedMenuItem::separator(app)?, &quit])?;
    let icon = TrayIconBuilder::with_id(ID)
        .icon(Image::from_bytes(include_bytes!("../icons/tray.png"))?)
        .menu(&menu)
        .tooltip(words::NAME)
        .on_menu_event(|app, event| match event.id().as_ref() {
            OPEN => windows::open_main(app),
            PAUSE => set_paused(app, true),
            RESUME => set_paused(app, false),
            QUIT => shell::quit(app, "the owner quit from the tray"),
            _ => {}
        })
        .build(app)?;
    Ok(Tray { icon, state, pause, resume })
}

fn set_paused(app: &AppHandle, paused: bool) {
    let desk = app.state::<Shell>().desk.clone();
    tauri::async_runtime::spawn(async move {
        if let Err(error) = desk.call("settings_update", json!({ "change": { "paused": paused } })).await {
            tracing::error!(code = error.code, "taking commands could not be paused or resumed: {}", error.message);
        }
    });
}

/// The tray's library is loaded when the first icon is made, and a missing one is a panic there: so the same names are tried before.
#[cfg(target_os = "linux")]
fn library_is_there() -> bool {
    ["libayatana-appindicator3.so.1", "libappindicator3.so.1"].into_iter().any(|name| {
        // SAFETY: loading runs the library's initialisers. It is the very library the tray loads a moment later, from the same search path.
        #[allow(unsafe_code)]
        let loaded = unsafe { libloading::Library::new(name) };
        loaded.is_ok()
    })
}

#[cfg(not(target_os = "linux"))]
fn library_is_there() -> bool {
    true
}
