//! Graph Desk's shell: windows, tray, notifications and the real ports around `device`.
//!
//! What is *not* here: any truth about Graphs, runs, sharing or approvals. Windows may be closed, reloaded or die; the relay and the
//! executions do not notice. Invariant: one process per profile, and every start ends in a window, in the running one's window, or in
//! one sentence.
mod awake;
mod builtin;
mod commands;
mod faces;
mod open;
mod popups;
mod safe_mode;
mod shell;
mod start;
mod tray;
mod web_code;
mod windows;
mod words;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use agent::sandbox::{HELPER_FLAG, helper_main};
use clap::Parser as _;
use device::real;
use tauri::{AppHandle, Manager as _, RunEvent, WindowEvent};

use open::NoStart;
use shell::Shell;
use start::Options;

/// The whole program. Returns when the owner has quit.
pub fn main() -> ExitCode {
    let begun = Instant::now();
    let mut args = std::env::args_os().skip(1);
    // A tool's command starts in this very program: it locks itself in and becomes the command.
    if args.next().is_some_and(|first| first == HELPER_FLAG) {
        return helper_main(args);
    }
    let options = Options::parse();
    if !start::display_is_named() {
        eprintln!("{}", words::NO_DISPLAY);
        return ExitCode::FAILURE;
    }
    safe_mode::spare_the_missing_card();
    match run(options, begun) {
        Ok(code) => code,
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: Options, begun: Instant) -> Result<ExitCode, NoStart> {
    let profile = real::profile_folder(options.profile.clone())?;
    if options.safe_mode || safe_mode::is_chosen(&profile) {
        safe_mode::enter();
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(NoStart::Threads)?;
    tauri::async_runtime::set(runtime.handle().clone());
    real::make_private(&profile).map_err(|why| NoStart::Profile(profile.clone(), why))?;
    start::log_to(&profile.join("logs"));
    // The profile opens beside the toolkit: either takes a tenth of a second.
    let opening = std::thread::spawn({
        let (profile, runtime) = (profile.clone(), runtime.handle().clone());
        move || runtime.block_on(open::open(&profile))
    });
    if !start::display_answers() {
        return Err(NoStart::NoDisplay);
    }
    let faces = faces::script();
    let opened = opening.join().map_err(|_| NoStart::Threads(std::io::Error::other("the profile's thread broke off")))?;
    let Some(mut shell) = opened? else { return Ok(ExitCode::SUCCESS) };
    shell.begun = begun;
    shell.faces = faces;
    let code = build(shell, options).map_err(NoStart::Window)?.run_return(on_event);
    // Whatever still blocks (a keyring dialogue nobody answers) must not hold the exit.
    runtime.shutdown_timeout(Duration::from_millis(500));
    if code == shell::START_AGAIN {
        // It waits until this one has let go of the profile.
        let program = std::env::current_exe().map_err(NoStart::Again)?;
        std::process::Command::new(program).args(std::env::args_os().skip(1)).spawn().map_err(NoStart::Again)?;
        return Ok(ExitCode::SUCCESS);
    }
    Ok(ExitCode::from(u8::try_from(code).unwrap_or(1)))
}

fn build(shell: Shell, options: Options) -> tauri::Result<tauri::App> {
    tauri::Builder::default()
        .plugin(tauri_plugin_notification::init())
        .plugin(tauri_plugin_opener::init())
        .plugin(tauri_plugin_dialog::init())
        .plugin(tauri_plugin_autostart::Builder::new().app_name("graph-desk").arg("--hidden").build())
        .manage(shell)
        .invoke_handler(tauri::generate_handler![commands::desk_call, commands::popup_call])
        .setup(move |app| {
            let app = app.handle().clone();
            if !options.hidden {
                windows::open_main(&app);
            }
            // After the window, which an owner waits for.
            let tray = tray::build(&app);
            tauri::async_runtime::spawn(shell::carry_news(app.clone(), tray));
            tauri::async_runtime::spawn(shell::start(app.clone()));
            tauri::async_runtime::spawn(shell::open_when_wanted(app.clone()));
            tauri::async_runtime::spawn(quit_when_told(app));
            Ok(())
        })
        .build(tauri::generate_context!())
}

fn on_event(app: &AppHandle, event: RunEvent) {
    match event {
        // Closing the last window ends the web view, not the app: the relay stays.
        RunEvent::ExitRequested { code: None, api, .. } => {
            api.prevent_exit();
        }
        RunEvent::WindowEvent { label, event: WindowEvent::Destroyed, .. } => {
            if app.webview_windows().is_empty() {
                web_code::let_go_soon();
            }
            if label == windows::MAIN {
                shell::main_closed(app);
            }
        }
        _ => {}
    }
}

/// Log-off, Ctrl-C and `kill` quit like the owner does.
async fn quit_when_told(app: AppHandle) {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        match (signal(SignalKind::terminate()), signal(SignalKind::interrupt()), signal(SignalKind::hangup())) {
            (Ok(mut term), Ok(mut int), Ok(mut hup)) => tokio::select! { _ = term.recv() => {}, _ = int.recv() => {}, _ = hup.recv() => {} },
            _ => return tracing::warn!("signals cannot be heard here"),
        }
    }
    #[cfg(not(unix))]
    if tokio::signal::ctrl_c().await.is_err() {
        return;
    }
    shell::quit(&app, "the system asked");
}
