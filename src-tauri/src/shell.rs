//! The desk as the windows see it: what is open, what is asked, and the one task that carries the desk's news to them.
//!
//! It holds no truth: every picture is asked of the desk again. What is *not* here: how a window is built (`windows`).
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use device::desk::Desk;
use device::view::{ApprovalQuestion, DeskEvent, SettingsView, Theme, Topic};
use tauri::{AppHandle, Emitter as _, Manager as _};
use tauri_plugin_notification::NotificationExt as _;
use tokio::sync::{Notify, broadcast::error::RecvError};

use crate::awake::Awake;
use crate::builtin::Builtin;
use crate::popups::Popups;
use crate::tray::{self, Tray};
use crate::words::{self, Language, Notice};
use crate::{popups, windows};

/// The window's one event; its payload is a [`DeskEvent`].
const EVENT: &str = "desk";
/// A quit lets the desk store what runs and stop it. What takes longer is left to the next start, which tells the truth about it.
const QUIT_WITHIN: Duration = Duration::from_secs(8);

/// Exit code of the event loop, never of the program: it starts itself again.
pub const START_AGAIN: i32 = 64;

pub struct Shell {
    pub desk: Arc<Desk>,
    builtin: Builtin,
    settings: Mutex<Option<SettingsView>>,
    popups: Mutex<Popups>,
    approvals_changed: Arc<Notify>,
    /// The main window's page has drawn a frame.
    pub main_drawn: AtomicBool,
    /// When the program did.
    pub begun: Instant,
    /// What each page runs first (`faces`).
    pub faces: String,
    told_that_it_stays: AtomicBool,
    quitting: AtomicBool,
}

impl Shell {
    pub fn new(desk: Arc<Desk>, builtin: Builtin) -> Self {
        Self {
            desk,
            builtin,
            settings: Mutex::default(),
            popups: Mutex::default(),
            approvals_changed: Arc::default(),
            main_drawn: AtomicBool::new(false),
            begun: Instant::now(),
            faces: String::new(),
            told_that_it_stays: AtomicBool::new(false),
            quitting: AtomicBool::new(false),
        }
    }

    /// Since the program began, for the log.
    pub fn up(&self) -> Duration {
        self.begun.elapsed()
    }

    pub fn web_data_folder(&self) -> PathBuf {
        self.desk.config().profile.join("webview")
    }

    pub fn size_file(&self) -> PathBuf {
        self.desk.config().profile.join("window.json")
    }

    pub fn theme(&self) -> Theme {
        held(&self.settings).as_ref().map_or(Theme::System, |settings| settings.theme)
    }

    pub fn language(&self) -> Language {
        Language::of(held(&self.settings).as_ref().map_or("system", |settings| settings.language.as_str()))
    }

    /// What a popup is told in its address: it may not ask for the settings.
    pub fn look(&self) -> String {
        let settings = held(&self.settings);
        let theme = match settings.as_ref().map_or(Theme::System, |settings| settings.theme) {
            Theme::System => "system",
            Theme::Light => "light",
            Theme::Dark => "dark",
        };
        // A language is a short word of the settings' own list; whatever else it may be, it stays one value.
        let language = settings.as_ref().map_or("en", |settings| settings.language.as_str());
        let language: String = language.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '-').collect();
        format!("theme={theme}&language={language}")
    }

    pub fn keeps_in_tray(&self) -> bool {
        held(&self.settings).as_ref().is_none_or(|settings| settings.keep_in_tray)
    }

    /// A popup's window is gone, by us or by its owner.
    pub fn popup_closed(&self, approval: u64) {
        if held(&self.popups).closed(approval) {
            self.approvals_changed.notify_one();
        }
    }

    pub async fn reload_settings(&self) {
        match self.desk.settings_get().await {
            Ok(settings) => *held(&self.settings) = Some(settings),
            Err(error) => tracing::error!(code = error.code, "the settings could not be read: {}", error.message),
        }
    }
}

/// Carries the desk's news until it ends: to the main window as they are, to tray and popups as something to look at again.
pub async fn carry_news(app: AppHandle, tray: Option<Tray>) {
    let mut news = app.state::<Shell>().desk.events();
    let approvals = app.state::<Shell>().approvals_changed.clone();
    tauri::async_runtime::spawn(show_popups(app.clone(), approvals.clone()));
    let mut awake = Awake::default();
    show_status(&app, tray.as_ref(), &mut awake).await;
    loop {
        let events = match news.recv().await {
            Ok(event) => vec![event],
            // Too far behind to know what was missed: everything may have changed.
            Err(RecvError::Lagged(_)) => EVERYTHING.iter().map(|topic| DeskEvent::Changed { topic: *topic }).collect(),
            Err(RecvError::Closed) => return,
        };
        for event in events {
            if let Err(error) = app.emit_to(windows::MAIN, EVENT, &event) {
                tracing::warn!(%error, "an event did not reach the main window");
            }
            match event {
                DeskEvent::Changed { topic: Topic::Approvals } => approvals.notify_one(),
                DeskEvent::Changed { topic: Topic::Status } => show_status(&app, tray.as_ref(), &mut awake).await,
                DeskEvent::Changed { topic: Topic::Settings } => {
                    app.state::<Shell>().reload_settings().await;
                    show_status(&app, tray.as_ref(), &mut awake).await;
                }
                DeskEvent::Changed { topic: Topic::Graphs | Topic::Executions | Topic::Sharing | Topic::Connections | Topic::Models }
                | DeskEvent::Fleet { .. } => {}
            }
        }
    }
}

const EVERYTHING: [Topic; 8] =
    [Topic::Status, Topic::Graphs, Topic::Executions, Topic::Sharing, Topic::Approvals, Topic::Connections, Topic::Models, Topic::Settings];

async fn show_status(app: &AppHandle, tray: Option<&Tray>, awake: &mut Awake) {
    let Ok(status) = app.state::<Shell>().desk.status_get().await else { return };
    awake.follow(!status.running.is_empty());
    if let Some(tray) = tray {
        tray.show(&status, app.state::<Shell>().language());
    }
}

/// Keeps the right popup open: one at a time, closed as soon as its question is answered elsewhere or its time is up.
async fn show_popups(app: AppHandle, changed: Arc<Notify>) {
    loop {
        let shell = app.state::<Shell>();
        let waiting = shell.desk.questions();
        let numbers: Vec<u64> = waiting.iter().map(|question| question.approval).collect();
        let step = held(&shell.popups).step(&numbers);
        if let Some(approval) = step.close {
            windows::close_popup(&app, approval);
        }
        if let Some(question) = step.open.and_then(|open| waiting.iter().find(|question| question.approval == open)) {
            show_popup(&app, question);
        }
        changed.notified().await;
    }
}

fn show_popup(app: &AppHandle, question: &ApprovalQuestion) {
    if let Err(error) = windows::open_popup(app, question.approval) {
        tracing::error!(%error, label = popups::label(question.approval), "the popup could not be opened; the question waits in the main window");
    }
    notify(app, words::asks(question));
}

/// The notification server may be slow or missing; `show` says Ok even then. It only accompanies what can be seen elsewhere.
fn notify(app: &AppHandle, notice: Notice) {
    let app = app.clone();
    let language = app.state::<Shell>().language();
    let (title, body) = (language.say(&notice.title), language.say(&notice.body));
    tauri::async_runtime::spawn_blocking(move || {
        if let Err(error) = app.notification().builder().title(title).body(body).show() {
            tracing::info!(%error, "no notification could be shown");
        }
    });
}

/// The main window is gone: the app stays, and says so once, or quits as the owner has it in Settings.
pub fn main_closed(app: &AppHandle) {
    let shell = app.state::<Shell>();
    if !shell.keeps_in_tray() {
        quit(app, "the window was closed");
    } else if !shell.quitting.load(Ordering::SeqCst) && !shell.told_that_it_stays.swap(true, Ordering::SeqCst) {
        notify(app, words::keeps_running(app.tray_by_id(tray::ID).is_some()));
    }
}

/// Begins to work: the built-in queue first where it is the paired one, so that the relay's first pass finds it.
pub async fn start(app: AppHandle) {
    let shell = app.state::<Shell>();
    if shell.desk.connections_get().await.is_ok_and(|connections| connections.paired.is_some_and(|paired| paired.builtin))
        && let Err(error) = shell.builtin.run().await
    {
        tracing::error!("{error}");
    }
    if let Err(error) = shell.desk.listen_control() {
        tracing::error!(%error, "the control socket cannot be opened; a second start will not find this one");
    }
    if let Err(error) = shell.desk.start().await {
        tracing::error!(code = error.code, "the desk could not start whole: {}", error.message);
    }
    // Scripts wait for this line; nobody has to listen.
    let _ = writeln!(std::io::stdout(), "ready");
}

/// A second start brings this one's window to the front.
pub async fn open_when_wanted(app: AppHandle) {
    let desk = app.state::<Shell>().desk.clone();
    loop {
        desk.window_wanted().await;
        windows::open_main(&app);
    }
}

/// Ends the app: the desk stores and stops what runs, then the process ends, with or without it.
pub fn quit(app: &AppHandle, reason: &'static str) {
    end(app, reason, 0);
}

/// Ends the app and starts it again.
pub fn restart(app: &AppHandle, reason: &'static str) {
    end(app, reason, START_AGAIN);
}

fn end(app: &AppHandle, reason: &'static str, code: i32) {
    let shell = app.state::<Shell>();
    if shell.quitting.swap(true, Ordering::SeqCst) {
        return;
    }
    for window in app.webview_windows().into_values() {
        if window.label() == windows::MAIN {
            windows::remember_size(&window);
        }
        let _ = window.hide();
    }
    let app = app.clone();
    tauri::async_runtime::spawn(async move {
        let shell = app.state::<Shell>();
        let stop = async {
            shell.desk.shutdown(reason).await;
            shell.builtin.stop().await;
        };
        if tokio::time::timeout(QUIT_WITHIN, stop).await.is_err() {
            tracing::warn!("not everything stopped within {QUIT_WITHIN:?}; what ran is ended truthfully at the next start");
        }
        app.exit(code);
    });
}

/// A panic while a lock was held leaves data that is still whole: each holder changes one value.
fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
