//! Tells Tauri which commands exist (only those a capability names may be called) and where the capabilities stand.
use std::path::Path;

/// A command that is not listed here would be open to every window.
const COMMANDS: &[&str] = &["desk_call", "popup_call"];
const CAPABILITIES: &str = "./src-tauri/capabilities/**/*.json";

fn main() {
    for page in ["ui/dist/index.html", "ui/dist/approval.html"] {
        println!("cargo:rerun-if-changed={page}");
        if !Path::new(page).exists() {
            eprintln!("{page} is missing: the window's pages are built into the program, so run `npm ci && npm run build` in ui/ first.");
            std::process::exit(1);
        }
    }
    // The pages are embedded: a new build of them must reach the program.
    println!("cargo:rerun-if-changed=ui/dist");
    println!("cargo:rerun-if-changed=src-tauri/capabilities");
    let attributes =
        tauri_build::Attributes::new().app_manifest(tauri_build::AppManifest::new().commands(COMMANDS)).capabilities_path_pattern(CAPABILITIES);
    if let Err(error) = tauri_build::try_build(attributes) {
        eprintln!("{error:#}");
        std::process::exit(1);
    }
}
