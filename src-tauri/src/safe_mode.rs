//! Safe mode: the window drawn without the graphics card, for drivers with which the web view stays blank.
//!
//! WebKitGTK reads it from the environment before its first window, so the program starts itself anew with that environment. The choice
//! stays in the profile; the file can be deleted. What is *not* here: the relay, which works in either mode.
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

/// Becomes this very program with the switches set; comes back where they are set already, or where there is nothing to switch.
#[cfg(target_os = "linux")]
pub fn enter() {
    if !is_on() {
        begin_anew_with(&SWITCHES);
    }
}

/// Where there is no graphics card, the web view would imitate one for itself, with 80 MiB more and a later first frame. Whoever has set the
/// switch has decided already.
#[cfg(target_os = "linux")]
pub fn spare_the_missing_card() {
    let card =
        || std::fs::read_dir("/dev/dri").into_iter().flatten().flatten().any(|entry| entry.file_name().as_encoded_bytes().starts_with(b"render"));
    if std::env::var_os(SWITCHES[0]).is_none() && !card() {
        begin_anew_with(&SWITCHES[..1]);
    }
}

#[cfg(target_os = "linux")]
fn begin_anew_with(switches: &[&str]) {
    use std::os::unix::process::CommandExt as _;
    let Ok(program) = std::env::current_exe() else { return };
    let error = std::process::Command::new(program).args(std::env::args_os().skip(1)).envs(switches.iter().map(|name| (name, "1"))).exec();
    tracing::warn!(%error, "the program could not begin anew with {switches:?}");
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
