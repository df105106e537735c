//! An empty window of the same web view, for `scripts/bench-window` to measure Graph Desk's window against. Not shipped.
//!
//! Prints `drawn MS` when its first frame is on the screen, counted from the start of the program.
use std::time::Instant;

use tauri::http::Response;
use tauri::{WebviewUrl, WebviewWindowBuilder};

const PAGE: &str = "<!doctype html><html><body></body></html>";
const TELL: &str = "addEventListener('load', () => requestAnimationFrame(() => requestAnimationFrame(() => { document.title = 'drawn'; })))";

fn main() -> tauri::Result<()> {
    let begun = Instant::now();
    tauri::Builder::default()
        .register_uri_scheme_protocol("empty", |_, _| {
            let answer = Response::builder().header("content-type", "text/html").body(PAGE.as_bytes().to_vec());
            answer.unwrap_or_default()
        })
        .setup(move |app| {
            let page = WebviewUrl::CustomProtocol("empty://localhost/".parse()?);
            WebviewWindowBuilder::new(app, "empty", page)
                .inner_size(1280.0, 800.0)
                .initialization_script(TELL)
                .on_document_title_changed(move |_, title| {
                    if title == "drawn" {
                        println!("drawn {}", begun.elapsed().as_millis());
                    }
                })
                .build()?;
            Ok(())
        })
        .run(tauri::generate_context!())
}
