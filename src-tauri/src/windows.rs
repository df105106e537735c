//! The windows: one main window, and one popup per question.
//!
//! A window is a view. It may be closed, reloaded or die at any moment; nothing is lost with it. What is *not* here: which popup is due
//! (`popups`), what a window may call (`commands` and the capability files).
//! Invariant: no window shows a page that is not ours.
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;

use device::view::Theme as ThemeSetting;
use domain::wire::said::said;
use tauri::webview::NewWindowResponse;
use tauri::window::Color;
use tauri::{AppHandle, Manager, Theme, Url, UserAttentionType, WebviewUrl, WebviewWindow, WebviewWindowBuilder, WindowEvent, Wry};
use tauri_plugin_opener::OpenerExt as _;

use crate::shell::Shell;
use crate::words::NAME;
use crate::{popups, safe_mode};

pub const MAIN: &str = "main";
/// A page that has drawn nothing by then never will: some graphics drivers leave the web view blank.
const BLANK_AFTER: Duration = Duration::from_secs(10);
const POPUP_WIDTH: f64 = 480.0;
const POPUP_HEIGHT: f64 = 560.0;

/// Opens the main window, or brings the open one to the front.
pub fn open_main(app: &AppHandle) {
    if let Some(window) = app.get_webview_window(MAIN) {
        bring_to_front(&window);
        return;
    }
    let shell = app.state::<Shell>();
    let size = Size::read(&shell.size_file());
    let built = ours(WebviewWindowBuilder::new(app, MAIN, WebviewUrl::App("index.html".into())), app, shell.theme())
        .title(NAME)
        .inner_size(size.width, size.height)
        .min_inner_size(Size::MIN.width, Size::MIN.height)
        .maximized(size.maximized)
        .build();
    let window = match built {
        Ok(window) => window,
        Err(error) => return tracing::error!(%error, "the main window could not be opened"),
    };
    paint_ground(&window);
    let closing = window.clone();
    window.on_window_event(move |event| {
        if matches!(event, WindowEvent::CloseRequested { .. }) {
            remember_size(&closing);
        }
    });
    tauri::async_runtime::spawn(watch_first_frame(window));
}

/// A frame of the window is on the screen; the first thing of its page was `painted_ms_ago`.
pub fn main_has_drawn(window: &WebviewWindow, painted_ms_ago: Option<u64>) {
    let shell = window.state::<Shell>();
    shell.main_drawn.store(true, Ordering::SeqCst);
    let whole = shell.up();
    let first = whole.saturating_sub(Duration::from_millis(painted_ms_ago.unwrap_or(0)));
    tracing::info!(ms = first.as_millis(), window_ms = whole.as_millis(), "the main window drew its first frame");
}

async fn watch_first_frame(window: WebviewWindow) {
    let app = window.app_handle().clone();
    let has_drawn = || app.state::<Shell>().main_drawn.load(Ordering::SeqCst);
    app.state::<Shell>().main_drawn.store(false, Ordering::SeqCst);
    tokio::time::sleep(BLANK_AFTER).await;
    // A window the owner has put away need not draw.
    let is_seen = app.get_webview_window(MAIN).is_some_and(|window| window.is_visible().unwrap_or(false) && !window.is_minimized().unwrap_or(true));
    if !has_drawn() && is_seen {
        safe_mode::offer(&app);
    }
}

/// Before the window goes: the next one opens as large.
pub fn remember_size(window: &WebviewWindow) {
    let scale = window.scale_factor().unwrap_or(1.0);
    let Ok(inner) = window.inner_size() else { return };
    let inner = inner.to_logical::<f64>(scale);
    let file = window.state::<Shell>().size_file();
    let maximized = window.is_maximized().unwrap_or(false);
    // The size under a maximized window is not known: the last one stands.
    let size = if maximized { Size { maximized, ..Size::read(&file) } } else { Size { width: inner.width, height: inner.height, maximized } };
    if let Ok(text) = serde_json::to_string(&size)
        && let Err(error) = std::fs::write(&file, text)
    {
        tracing::warn!(%error, "the window's size could not be kept");
    }
}

/// Size of the main window, as it is kept in the profile. Its place is the window manager's business.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
struct Size {
    width: f64,
    height: f64,
    maximized: bool,
}

impl Size {
    const MIN: Self = Self { width: 900.0, height: 600.0, maximized: false };
    const USUAL: Self = Self { width: 1280.0, height: 800.0, maximized: false };

    fn read(file: &Path) -> Self {
        let kept: Option<Self> = std::fs::read_to_string(file).ok().and_then(|text| serde_json::from_str(&text).ok());
        kept.filter(|size| size.width >= Self::MIN.width && size.height >= Self::MIN.height && size.width < 20_000.0 && size.height < 20_000.0)
            .unwrap_or(Self::USUAL)
    }
}

/// Called from an async context only: building a window inside a synchronous handler deadlocks on Windows.
pub fn open_popup(app: &AppHandle, approval: u64) -> tauri::Result<()> {
    let label = popups::label(approval);
    let (theme, look) = (app.state::<Shell>().theme(), app.state::<Shell>().look());
    let page = WebviewUrl::App(format!("approval.html?{look}").into());
    let window = ours(WebviewWindowBuilder::new(app, &label, page), app, theme)
        .title(app.state::<Shell>().language().say(&said("popup_title", "Graph Desk asks", [])))
        .inner_size(POPUP_WIDTH, POPUP_HEIGHT)
        .min_inner_size(POPUP_WIDTH, 420.0)
        .always_on_top(true)
        .visible_on_all_workspaces(true)
        .center()
        .focused(true)
        .build()?;
    paint_ground(&window);
    let on_close = app.clone();
    window.on_window_event(move |event| {
        if matches!(event, WindowEvent::Destroyed) {
            on_close.state::<Shell>().popup_closed(approval);
        }
    });
    // Compositors may ignore both; the notification and the main window tell of the question too.
    let _ = window.set_focus();
    let _ = window.request_user_attention(Some(UserAttentionType::Critical));
    Ok(())
}

pub fn close_popup(app: &AppHandle, approval: u64) {
    if let Some(window) = app.get_webview_window(&popups::label(approval)) {
        let _ = window.destroy();
    }
}

pub fn bring_to_front(window: &WebviewWindow) {
    let _ = window.unminimize();
    let _ = window.show();
    let _ = window.set_focus();
}

/// What holds for each of our windows: its storage lies in the profile, it stays on our pages, it opens and downloads nothing, and its type
/// faces are found.
fn ours<'a>(builder: WebviewWindowBuilder<'a, Wry, AppHandle>, app: &AppHandle, theme: ThemeSetting) -> WebviewWindowBuilder<'a, Wry, AppHandle> {
    let opener = app.clone();
    let pinned = match theme {
        ThemeSetting::System => None,
        ThemeSetting::Light => Some(Theme::Light),
        ThemeSetting::Dark => Some(Theme::Dark),
    };
    builder
        .data_directory(app.state::<Shell>().web_data_folder())
        .theme(pinned)
        .initialization_script(&app.state::<Shell>().faces)
        .disable_drag_drop_handler()
        .on_navigation(is_our_page)
        .on_new_window(move |url, _| {
            if url.scheme() == "https" || url.scheme() == "http" {
                let _ = opener.opener().open_url(url.as_str(), None::<&str>);
            }
            NewWindowResponse::Deny
        })
        .on_download(|_, _| false)
}

fn is_our_page(url: &Url) -> bool {
    let dev = cfg!(not(feature = "custom-protocol")) && url.host_str() == Some("localhost");
    dev || url.scheme() == "tauri" || url.host_str() == Some("tauri.localhost") || url.as_str() == "about:blank"
}

/// The colour behind the page until its first frame: `--surface-base` of the design.
fn paint_ground(window: &WebviewWindow) {
    let ground = match window.theme() {
        Ok(Theme::Dark) => Color(0x17, 0x17, 0x1b, 0xff),
        _ => Color(0xff, 0xff, 0xff, 0xff),
    };
    let _ = window.set_background_color(Some(ground));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kept_size_that_makes_no_sense_is_the_usual_one() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("window.json");
        assert_eq!(Size::read(&file), Size::USUAL);
        for (text, size) in [
            (r#"{"width":1000.0,"height":700.5,"maximized":true}"#, Size { width: 1000.0, height: 700.5, maximized: true }),
            (r#"{"width":10,"height":700,"maximized":false}"#, Size::USUAL),
            (r#"{"width":1e9,"height":700,"maximized":false}"#, Size::USUAL),
            ("half a fi", Size::USUAL),
        ] {
            std::fs::write(&file, text).unwrap();
            assert_eq!(Size::read(&file), size, "{text}");
        }
    }

    #[test]
    fn a_window_stays_on_our_pages() {
        for (url, stays) in [
            ("tauri://localhost/index.html", true),
            ("http://tauri.localhost/approval.html", true),
            ("https://example.org/", false),
            ("http://tauri.localhost.example.org/", false),
            ("javascript:alert(1)", false),
            ("data:text/html,x", false),
            ("file:///etc/passwd", false),
        ] {
            assert_eq!(is_our_page(&Url::parse(url).unwrap()), stays, "{url}");
        }
    }
}
