//! Safe mode: the window drawn without the graphics card, for drivers with which the web view stays blank.
//!
//! WebKitGTK reads it from the environment before its first window. The choice stays in the profile; the file can be deleted. What is
//! *not* here: the relay, which works in either mode.
//! Invariant: the environment is changed only while the program has one thread.
use std::path::{Path, PathBuf};

use domain::wire::said::said;
use tauri::{AppHandle, Manager as _};
use tauri_plugin_dialog::{DialogExt as _, MessageDialogButtons, MessageDialogKind};

use crate::shell::{self, Shell};

const CHOSEN: &str = "safe-mode";
#[cfg(target_os = "linux")]
const SWITCHES: [&str; 2] = ["WEBKIT_DISABLE_DMABUF_RENDERER", "WEBKIT_DISABLE_COMPOSITING_MODE"];

fn choice(profile: &Path) -> PathBuf {
    profile.join(CHOSEN)
}

pub fn is_chosen(profile: &Path) -> bool {
    choice(profile).exists()
}

/// Sets the switches. To be called before the program's first thread begins.
#[cfg(target_os = "linux")]
pub fn enter() {
    set(&SWITCHES);
}

/// Where there is no graphics card, the web view would imitate one for itself, with 80 MiB more and a later first frame. Whoever has set the
/// switch has decided already. To be called before the program's first thread begins.
#[cfg(target_os = "linux")]
pub fn spare_the_missing_card() {
    let card =
        || std::fs::read_dir("/dev/dri").into_iter().flatten().flatten().any(|entry| entry.file_name().as_encoded_bytes().starts_with(b"render"));
    if std::env::var_os(SWITCHES[0]).is_none() && !card() {
        set(&SWITCHES[..1]);
    }
}

#[cfg(target_os = "linux")]
fn set(switches: &[&str]) {
    for name in switches {
        // SAFETY: both callers run at the head of `main`, where no other thread exists that could read the environment meanwhile.
        #[allow(unsafe_code)]
        unsafe {
            std::env::set_var(name, "1");
        }
    }
}

#[cfg(not(target_os = "linux"))]
pub fn enter() {}

#[cfg(not(target_os = "linux"))]
pub fn spare_the_missing_card() {}

#[cfg(target_os = "linux")]
fn is_on() -> bool {
    SWITCHES.iter().all(|name| std::env::var_os(name).is_some_and(|value| value == "1"))
}

#[cfg(not(target_os = "linux"))]
fn is_on() -> bool {
    true
}

/// Asks the owner, in a window that needs no web view. Only an owner who sees the main window knows that it is blank.
pub fn offer(app: &AppHandle) {
    if is_on() {
        return tracing::error!("the main window stays blank; graph-deskd works without one");
    }
    let handle = app.clone();
    let language = app.state::<Shell>().language();
    let blank = said(
        "safe_mode_offered",
        "The window has drawn nothing for 10 seconds. Some graphics drivers leave it blank. In safe mode it is drawn without the \
         graphics card.\n\nGraph Desk starts again for it; a Graph that runs now is stopped. Commands in the queue wait.",
        [],
    );
    let (start, wait) = (said("safe_mode_start", "Start in safe mode", []), said("safe_mode_wait", "Wait", []));
    app.dialog()
        .message(language.say(&blank))
        .title(language.say(&said("safe_mode_title", "Is the window blank?", [])))
        .kind(MessageDialogKind::Warning)
        .buttons(MessageDialogButtons::OkCancelCustom(language.say(&start), language.say(&wait)))
        .show(move |agreed| {
            if agreed {
                if let Err(error) = std::fs::write(choice(&handle.state::<Shell>().desk.config().profile), "") {
                    tracing::error!(%error, "the choice of safe mode could not be kept");
                }
                shell::restart(&handle, "the owner chose safe mode");
            }
        });
}
