//! A small WebDriver client: the protocol is JSON over HTTP, and these tests need a dozen of its verbs.
use std::{
    net::TcpListener,
    path::Path,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use reqwest::blocking::Client;
use serde_json::{Value, json};

const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";
const LOOK_AGAIN_EVERY: Duration = Duration::from_millis(50);
/// How long a window may take for anything, on a slow machine under load.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// One started program with a window, driven from outside. Ends with the value.
pub struct Browser {
    http: Client,
    driver: Child,
    session: String,
}

impl Browser {
    /// Starts `program` through tauri-driver; both get the environment of `driver`.
    pub fn start(mut driver: Command, program: &Path, args: &[&str]) -> Self {
        let (port, native) = (free_port(), free_port());
        let child = driver
            .args(["--port", &port.to_string(), "--native-port", &native.to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .unwrap_or_else(|e| panic!("{driver:?}: {e}"));
        let mut browser =
            Self { http: Client::builder().timeout(PATIENCE * 2).build().unwrap(), driver: child, session: format!("http://127.0.0.1:{port}") };
        wait_for("tauri-driver", || browser.http.get(format!("{}/status", browser.session)).send().ok());
        let wanted = json!({"capabilities": {"alwaysMatch": {"browserName": "wry", "tauri:options": {"application": program, "args": args}}}});
        let made = browser.try_post("/session", wanted).unwrap_or_else(|e| panic!("no session: {e}"));
        browser.session = format!("{}/session/{}", browser.session, made["sessionId"].as_str().unwrap());
        browser
    }

    fn answer(sent: reqwest::Result<reqwest::blocking::Response>) -> Result<Value, String> {
        let answer = sent.map_err(|e| e.to_string())?;
        let ok = answer.status().is_success();
        let body: Value = answer.json().map_err(|e| e.to_string())?;
        if ok { Ok(body["value"].clone()) } else { Err(body["value"].to_string()) }
    }

    fn try_post(&self, path: &str, body: Value) -> Result<Value, String> {
        Self::answer(self.http.post(format!("{}{path}", self.session)).json(&body).send())
    }

    fn try_get(&self, path: &str) -> Result<Value, String> {
        Self::answer(self.http.get(format!("{}{path}", self.session)).send())
    }

    /// Handles of the windows, oldest first as far as the driver knows.
    pub fn windows(&self) -> Vec<String> {
        let handles = self.try_get("/window/handles").unwrap_or_default();
        handles.as_array().into_iter().flatten().filter_map(|h| h.as_str().map(str::to_owned)).collect()
    }

    pub fn switch_to(&self, window: &str) {
        self.try_post("/window", json!({"handle": window})).unwrap();
    }

    /// Closes the current window like its close button does.
    pub fn close_window(&self) {
        let _ = Self::answer(self.http.delete(format!("{}/window", self.session)).send());
    }

    /// Runs a function body in the page; its answer.
    pub fn script(&self, body: &str, args: Value) -> Result<Value, String> {
        self.try_post("/execute/sync", json!({"script": body, "args": args}))
    }

    /// Knocks at a door of the shell as a page would, past our own pages: what it answers, or how it refuses.
    pub fn knock(&self, door: &str, name: &str, args: Value) -> Result<Value, Value> {
        let body = "const [door, name, args, tell] = arguments; \
            window.__TAURI_INTERNALS__.invoke(door, { name, args }).then((ok) => tell({ ok }), (err) => tell({ err }));";
        let answer = self.try_post("/execute/async", json!({"script": body, "args": [door, name, args]})).unwrap();
        if answer.get("err").is_some() { Err(answer["err"].clone()) } else { Ok(answer["ok"].clone()) }
    }

    /// A picture of the current window's page, where it can be had.
    pub fn picture(&self, file: &Path) {
        let Some(bytes) = self.try_get("/screenshot").ok().and_then(|b64| BASE64_STANDARD.decode(b64.as_str()?).ok()) else { return };
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, bytes).unwrap();
    }

    fn find(&self, css: &str) -> Option<String> {
        let found = self.try_post("/element", json!({"using": "css selector", "value": css})).ok()?;
        found[ELEMENT].as_str().map(str::to_owned)
    }

    /// Waits until something is there, and gives its visible text.
    pub fn text(&self, css: &str) -> String {
        wait_for(css, || self.text_now(css))
    }

    pub fn text_now(&self, css: &str) -> Option<String> {
        // The driver's own reading leaves out what an ellipsis might hide; the page's does not.
        let text = self.script("return document.querySelector(arguments[0])?.innerText", json!([css])).ok()?;
        text.as_str().map(str::to_owned)
    }

    pub fn wait_text(&self, css: &str, wanted: &str) {
        let mut last = None;
        let seen = patiently(|| {
            last = self.text_now(css);
            last.as_ref().filter(|text| text.to_lowercase().contains(&wanted.to_lowercase())).map(|_| ())
        });
        assert!(seen.is_some(), "{css} never said {wanted:?}, but {last:?}");
    }

    /// Clicks as soon as it is there and can be clicked.
    pub fn click(&self, css: &str) {
        let mut last = String::from("not there");
        let clicked = patiently(|| {
            let id = self.find(css)?;
            if self.try_get(&format!("/element/{id}/enabled")) == Ok(json!(false)) {
                last = "disabled".into();
                return None;
            }
            // A click that closes its own window may be answered by an error: the caller sees whether it did its work.
            self.try_post(&format!("/element/{id}/click"), json!({})).map_err(|e| last = e).ok()
        });
        assert!(clicked.is_some(), "{css} cannot be clicked: {last}\n{}", self.page_text());
    }

    /// One click now, if it can be had.
    pub fn click_once(&self, css: &str) {
        if let Some(id) = self.find(css) {
            let _ = self.try_post(&format!("/element/{id}/click"), json!({}));
        }
    }

    /// Replaces the text of a field.
    pub fn fill(&self, css: &str, text: &str) {
        let id = wait_for(css, || self.find(css));
        self.try_post(&format!("/element/{id}/clear"), json!({})).unwrap();
        self.try_post(&format!("/element/{id}/value"), json!({"text": text})).unwrap();
    }

    pub fn page_text(&self) -> String {
        self.script("return document.body.innerText", json!([])).ok().and_then(|t| t.as_str().map(str::to_owned)).unwrap_or_default()
    }

    /// Asks the program's exit like a test runner does: the session ends, and with it the program.
    pub fn end(&mut self) {
        let _ = self.http.delete(&self.session).send();
        // Asked, not killed: it takes its own child, the native driver, with it.
        let _ = Command::new("kill").arg(self.driver.id().to_string()).status();
        let _ = self.driver.wait();
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        self.end();
    }
}

/// Looks again and again until there is something.
pub fn wait_for<T>(what: &str, look: impl FnMut() -> Option<T>) -> T {
    patiently(look).unwrap_or_else(|| panic!("not within {PATIENCE:?}: {what}"))
}

fn patiently<T>(mut look: impl FnMut() -> Option<T>) -> Option<T> {
    let until = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look() {
            return Some(found);
        }
        if Instant::now() >= until {
            return None;
        }
        std::thread::sleep(LOOK_AGAIN_EVERY);
    }
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}
