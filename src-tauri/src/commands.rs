//! The two doors of the windows: `desk_call` for the main window, `popup_call` for an approval popup.
//!
//! Both carry a name of the closed lists in `device::view` and an object of arguments. Which window may use which door stands in the
//! capability files; the window's label is checked here once more, and it alone says which question a popup may see and answer.
//! What is *not* here: what a command does (`device::desk`), except the few that need a window.
use device::view::{COMMANDS, ErrorView, ExportedFile, POPUP_COMMANDS};
use domain::wire::said::said;
use serde_json::{Value, json};
use tauri::{AppHandle, Manager as _, State, WebviewWindow};
use tauri_plugin_autostart::ManagerExt as _;
use tauri_plugin_dialog::DialogExt as _;

use crate::shell::{self, Shell};
use crate::windows::MAIN;
use crate::{popups, windows};

type Answer = Result<Value, ErrorView>;

#[tauri::command]
pub async fn desk_call(app: AppHandle, window: WebviewWindow, shell: State<'_, Shell>, name: String, args: Option<Value>) -> Answer {
    if window.label() != MAIN || !is_listed(COMMANDS, &name) {
        return Err(unknown(&name));
    }
    let args = args.unwrap_or_else(|| json!({}));
    match name.as_str() {
        "window_drawn" => {
            windows::main_has_drawn(&window, args["painted_ms_ago"].as_u64());
            Ok(Value::Null)
        }
        "log_ui" => log_ui(MAIN, &args),
        "folder_pick" => Ok(json!(pick_folder(&app, &window).await)),
        "file_save" => save_file(&app, &window, &args).await,
        "logs_open" => open_folder(&shell.desk.settings_get().await?.logs_folder),
        "app_quit" => {
            shell::quit(&app, "the owner quit from the window");
            Ok(Value::Null)
        }
        "settings_update" => {
            let start_at_login = args.pointer("/change/start_at_login").and_then(Value::as_bool);
            let settings = shell.desk.call(&name, args).await?;
            if let Some(wanted) = start_at_login {
                set_start_at_login(&app, wanted)?;
            }
            Ok(settings)
        }
        _ => shell.desk.call(&name, args).await,
    }
}

#[tauri::command]
pub async fn popup_call(window: WebviewWindow, shell: State<'_, Shell>, name: String, args: Option<Value>) -> Answer {
    let Some(approval) = popups::question_of(window.label()) else { return Err(unknown(&name)) };
    if !is_listed(POPUP_COMMANDS, &name) {
        return Err(unknown(&name));
    }
    let args = args.unwrap_or_else(|| json!({}));
    match name.as_str() {
        "popup_log_ui" => log_ui(window.label(), &args),
        _ => shell.desk.popup_call(approval, &name, args).await,
    }
}

fn set_start_at_login(app: &AppHandle, wanted: bool) -> Result<(), ErrorView> {
    let entry = app.autolaunch();
    let done = if wanted { entry.enable() } else { entry.disable() };
    done.map_err(|e| {
        refused("start_at_login", &format!("The system did not take the setting: {e}. Add Graph Desk to the programs started at login by hand."))
    })
}

async fn pick_folder(app: &AppHandle, window: &WebviewWindow) -> Option<String> {
    let title = app.state::<Shell>().language().say(&said("choose_folder", "Choose a folder", []));
    let (tell, told) = tokio::sync::oneshot::channel();
    app.dialog().file().set_parent(window).set_title(title).pick_folder(move |picked| {
        let _ = tell.send(picked);
    });
    let picked = told.await.ok().flatten()?.into_path().ok()?;
    Some(picked.to_string_lossy().into_owned())
}

/// Writes a file where the owner says; the path, or null where the owner said nowhere. A page itself can download nothing.
async fn save_file(app: &AppHandle, window: &WebviewWindow, args: &Value) -> Answer {
    let file = args.get("file").cloned().unwrap_or_default();
    let file: ExportedFile = serde_json::from_value(file).map_err(|e| refused("bad_argument", &format!("The file cannot be read: {e}.")))?;
    let title = app.state::<Shell>().language().say(&said("save_as", "Save as", []));
    let (tell, told) = tokio::sync::oneshot::channel();
    app.dialog().file().set_parent(window).set_title(title).set_file_name(file.file_name).save_file(move |picked| {
        let _ = tell.send(picked);
    });
    let Some(path) = told.await.ok().flatten().and_then(|picked| picked.into_path().ok()) else { return Ok(Value::Null) };
    match tokio::fs::write(&path, file.text).await {
        Ok(()) => Ok(json!(path.to_string_lossy())),
        Err(e) => Err(refused("file_not_saved", &format!("{} could not be written: {e}. Choose another folder.", path.display()))),
    }
}

/// In the system's own file manager, which nothing here waits for.
fn open_folder(folder: &str) -> Answer {
    match tauri_plugin_opener::open_path(folder, None::<&str>) {
        Ok(()) => Ok(Value::Null),
        Err(e) => Err(refused("folder_not_opened", &format!("The system did not open {folder}: {e}. Open it in your file manager."))),
    }
}

/// What a page has to say goes to the log; a page cannot fill it with one line.
fn log_ui(page: &str, args: &Value) -> Answer {
    const LINE_CHARS_MAX: usize = 2_000;
    let text = |key| args.get(key).and_then(Value::as_str).unwrap_or_default();
    let message = domain::text::cut_chars(text("message"), LINE_CHARS_MAX);
    match text("level") {
        "error" => tracing::error!(target: "ui", page, "{message}"),
        "warn" => tracing::warn!(target: "ui", page, "{message}"),
        _ => tracing::info!(target: "ui", page, "{message}"),
    }
    Ok(Value::Null)
}

fn is_listed(list: &[(&str, &str, &str)], name: &str) -> bool {
    list.iter().any(|(listed, ..)| *listed == name)
}

fn unknown(name: &str) -> ErrorView {
    refused("unknown_command", &format!("This window has no command `{}`.", domain::text::cut_chars(name, 60)))
}

pub fn refused(code: &str, message: &str) -> ErrorView {
    ErrorView { code: code.to_owned(), message: message.to_owned(), facts: Default::default(), field: None, line: None, column: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_window_kind_has_its_own_door_and_no_other_permission() {
        let permissions = |file: &str| -> Vec<String> {
            let path = format!("{}/src-tauri/capabilities/{file}", env!("CARGO_MANIFEST_DIR"));
            let capability: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
            capability["permissions"].as_array().unwrap().iter().map(|p| p.as_str().unwrap().to_owned()).collect()
        };
        assert_eq!(permissions("main.json"), ["allow-desk-call", "core:event:allow-listen", "core:event:allow-unlisten"]);
        assert_eq!(permissions("approval.json"), ["allow-popup-call"]);
    }

    #[test]
    fn no_popup_command_is_a_command_of_the_main_window() {
        for (name, ..) in POPUP_COMMANDS {
            assert!(!is_listed(COMMANDS, name), "{name}");
        }
    }
}
