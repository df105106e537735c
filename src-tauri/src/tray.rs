//! The tray icon: state, open, pause or resume, quit.
//!
//! A help, not a need: many desktops have no place for it. Then the app goes on without; starting it again opens its window.
use device::view::{RelayView, StatusView};
use domain::wire::said::{Sentence, said};
use serde_json::json;
use tauri::image::Image;
use tauri::menu::{Menu, MenuItem, PredefinedMenuItem};
use tauri::tray::{TrayIcon, TrayIconBuilder};
use tauri::{AppHandle, Manager as _, Wry};

use crate::shell::{self, Shell};
use crate::windows;
use crate::words::{self, Language};

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
    /// The items whose words are always the same.
    named: [(MenuItem<Wry>, Sentence); 4],
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
    pub fn show(&self, status: &StatusView, language: Language) {
        let line = language.say(&words::tray_line(status));
        let paused = matches!(status.relay, RelayView::Paused { .. });
        let mut named = self.named.iter();
        let shown = named
            .try_for_each(|(item, sentence)| item.set_text(language.say(sentence)))
            .and_then(|()| self.state.set_text(&line))
            .and_then(|()| self.pause.set_enabled(!paused))
            .and_then(|()| self.resume.set_enabled(paused))
            .and_then(|()| self.icon.set_tooltip(Some(format!("{} · {line}", words::NAME))));
        if let Err(error) = shown {
            tracing::warn!(%error, "the tray could not be brought up to date");
        }
    }
}

fn build_icon(app: &AppHandle) -> tauri::Result<Tray> {
    let language = app.state::<Shell>().language();
    let item = |id: &str, sentence: &Sentence, enabled: bool| MenuItem::with_id(app, id, language.say(sentence), enabled, None::<&str>);
    let state = item("state", &said("tray_starting", "Starting", []), false)?;
    let sentences = [
        said("tray_open", "Open Graph Desk", []),
        said("tray_pause", "Pause taking commands", []),
        said("tray_resume", "Take commands again", []),
        said("tray_quit", "Quit", []),
    ];
    let open = item(OPEN, &sentences[0], true)?;
    let pause = item(PAUSE, &sentences[1], true)?;
    let resume = item(RESUME, &sentences[2], false)?;
    let quit = item(QUIT, &sentences[3], true)?;
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
    let [opens, pauses, resumes, quits] = sentences;
    let named = [(open, opens), (pause.clone(), pauses), (resume.clone(), resumes), (quit, quits)];
    Ok(Tray { icon, state, pause, resume, named })
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
