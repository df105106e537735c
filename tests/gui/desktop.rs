//! A desktop with a window for one story: own profile, own XDG folders, a queue to talk to; and the screen it stands on.
use std::{
    fs::File,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Output, Stdio},
};

use serde_json::json;

use crate::{
    webdriver::{Browser, wait_for},
    world::{Agent, World, bin_dir},
};

/// Selector of a part of our pages.
pub fn id(testid: &str) -> String {
    format!("[data-testid='{testid}']")
}

/// The screen, for one story at a time: windows, focus and keys are shared by all who stand on it.
pub struct Screen {
    _turn: File,
    manager: Option<Child>,
}

impl Screen {
    pub fn take() -> Self {
        assert!(std::env::var_os("DISPLAY").is_some(), "the window tests need a screen: run them under xvfb-run");
        let turn = File::create(target_dir().join("gui.lock")).unwrap();
        turn.lock().unwrap();
        // Focus and always-on-top are the window manager's business.
        let manager = Command::new("openbox").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().ok();
        Self { _turn: turn, manager }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        if let Some(manager) = &mut self.manager {
            let _ = manager.kill();
            let _ = manager.wait();
        }
    }
}

/// Graph Desk with its window, driven by WebDriver.
pub struct Desktop {
    pub world: World,
    pub window: Browser,
    main: String,
}

impl Desktop {
    pub fn start(screen: &Screen) -> Self {
        Self::start_with(screen, &[])
    }

    pub fn start_with(_screen: &Screen, env: &[(&str, &str)]) -> Self {
        let world = World::unpaired();
        let window = open(&world, env);
        let main = wait_for("the main window", || window.windows().into_iter().next());
        window.switch_to(&main);
        let desk = Self { world, window, main };
        desk.window.text("nav");
        desk
    }

    pub fn restart(&mut self) {
        self.window.end();
        self.window = open(&self.world, &[]);
        self.main = wait_for("the main window", || self.window.windows().into_iter().next());
        self.window.switch_to(&self.main);
        self.window.text("nav");
    }

    pub fn to_main(&self) {
        wait_for("one window", || (self.window.windows().len() == 1).then_some(()));
        self.window.switch_to(&self.main);
    }

    pub fn picture(&self, name: &str) {
        self.window.picture(&target_dir().join("screens").join(format!("window-{name}.png")));
    }

    /// Imports a ready Graph through the running desktop's control socket.
    pub fn import(&self, slug: &str, source: &str) {
        let file = self.world.dir.path().join(format!("{slug}.graph.js"));
        std::fs::write(&file, source).unwrap();
        self.world.deskd(&["import", file.to_str().unwrap(), "--ready", "--slug", slug]);
        let files = self.world.files();
        self.world.deskd(&["folder", "add", files.to_str().unwrap(), "--write"]);
    }

    pub fn pair_by_hand(&self) {
        self.world.deskd(&["pair", &self.world.line.address(), &self.world.pairing_code()]);
    }

    pub fn share(&self, slug: &str, source: &str) {
        self.import(slug, source);
        self.world.deskd(&["share", slug, "--project", "Home"]);
    }

    /// As Claude: queues the Graph "note" to write `file`.
    pub fn queue_note(&self, file: &str, key: &str) -> (Agent, String) {
        let agent = self.world.agent("Claude");
        let path = self.world.files().join(file);
        let command = agent.run(&agent.session("note"), json!({"path": path, "text": "from Claude"}), key);
        (agent, command)
    }

    /// The handle of the one popup, once it is there.
    pub fn popup(&self) -> String {
        self.popup_other_than(&[])
    }

    pub fn popup_other_than(&self, gone: &[String]) -> String {
        wait_for("an approval popup", || self.window.windows().into_iter().find(|handle| *handle != self.main && !gone.contains(handle)))
    }

    /// A popup takes no answer in its first half second: the button is clicked until the popup is gone.
    pub fn answer_popup(&self, popup: &str, button: &str) {
        wait_for("the popup to take the answer and go", || {
            let there = self.window.windows().iter().any(|handle| handle == popup);
            if there {
                self.window.click_once(&id(button));
            }
            (!there).then_some(())
        });
    }
}

impl Drop for Desktop {
    /// What a failed story saw last.
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.window.picture(&target_dir().join("screens/failed.png"));
            eprintln!("{}", self.world.log("graph-desk.log"));
        }
    }
}

fn open(world: &World, env: &[(&str, &str)]) -> Browser {
    let mut driver = Command::new(std::env::var_os("TAURI_DRIVER").map_or_else(|| target_dir().join("tools/bin/tauri-driver"), PathBuf::from));
    driver.args(["--native-driver", "/usr/bin/WebKitWebDriver"]).envs(own_folders(world.dir.path())).envs(env.iter().copied());
    let log = File::options().create(true).append(true).open(world.dir.path().join("graph-desk.log")).unwrap();
    driver.stderr(log);
    Browser::start(driver, &bin_dir().join("graph-desk"), &[])
}

/// Nothing of a story touches the home folder.
fn own_folders(dir: &Path) -> Vec<(&'static str, PathBuf)> {
    let folders = ["XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME"].map(|name| (name, dir.join(name.to_lowercase())));
    let mut all = folders.to_vec();
    all.push(("HOME", dir.to_path_buf()));
    all.push(("GRAPH_DESK_PROFILE", dir.join("profile")));
    all.push(("GRAPH_DESK_PASSPHRASE", "a passphrase of the test".into()));
    all
}

fn target_dir() -> PathBuf {
    bin_dir().parent().unwrap().to_path_buf()
}

/// Graph Desk as an owner starts it, without a driver.
pub struct App {
    pub world: World,
    child: Child,
}

impl App {
    pub fn start(_screen: &Screen) -> Self {
        Self::start_in(World::unpaired())
    }

    pub fn start_with(_screen: &Screen, args: &[&str]) -> Self {
        let world = World::unpaired();
        let child = program(world.dir.path()).args(args).spawn().unwrap();
        Self { world, child }
    }

    pub fn start_in_with(world: World, args: &[&str], env: &[(&str, &str)]) -> Self {
        let child = program(world.dir.path()).args(args).envs(env.iter().copied()).spawn().unwrap();
        Self { world, child }
    }

    /// What the web view's process was started with; nothing while there is none.
    pub fn web_environment(&self) -> String {
        let children = std::fs::read_to_string(format!("/proc/{0}/task/{0}/children", self.child.id())).unwrap_or_default();
        let named = |pid: &&str| std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name.starts_with("WebKitWebProc"));
        let bytes = children.split_whitespace().find(named).and_then(|pid| std::fs::read(format!("/proc/{pid}/environ")).ok());
        String::from_utf8_lossy(&bytes.unwrap_or_default()).replace('\0', "\n")
    }

    pub fn start_in(world: World) -> Self {
        let child = program(world.dir.path()).spawn().unwrap();
        Self { world, child }
    }

    /// Several at once; the one that stays is the app, the others must end well.
    pub fn start_many(_screen: &Screen, copies: usize) -> Self {
        let world = World::unpaired();
        let mut started: Vec<Child> = (0..copies).map(|_| program(world.dir.path()).spawn().unwrap()).collect();
        let at = wait_for("all but one to end", || {
            let run: Vec<bool> = started.iter_mut().map(|copy| copy.try_wait().unwrap().is_none()).collect();
            if run.iter().filter(|runs| **runs).count() == 1 { run.iter().position(|runs| *runs) } else { None }
        });
        let child = started.swap_remove(at);
        for copy in &mut started {
            assert!(copy.wait().unwrap().success(), "{}", world.log("graph-desk.log"));
        }
        Self { world, child }
    }

    pub fn start_again(&mut self) {
        self.child = program(self.world.dir.path()).spawn().unwrap();
    }

    /// Another start while this one runs.
    pub fn second_start(&self) -> ExitStatus {
        program(self.world.dir.path()).status().unwrap()
    }

    pub fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    pub fn window(&self, title: &str) -> Option<String> {
        x11(&["search", "--onlyvisible", "--name", &format!("^{title}$")]).lines().next().map(str::to_owned)
    }

    pub fn wait_window(&self, title: &str) -> String {
        wait_for(title, || self.window(title))
    }

    /// What a log-off sends.
    pub fn terminate(&self) {
        assert!(Command::new("kill").arg(self.child.id().to_string()).status().unwrap().success());
    }

    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    pub fn wait(&mut self) -> ExitStatus {
        wait_for("the program to end", || self.child.try_wait().unwrap())
    }
}

impl Drop for App {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn program(dir: &Path) -> Command {
    let mut command = Command::new(bin_dir().join("graph-desk"));
    let log = File::options().create(true).append(true).open(dir.join("graph-desk.log")).unwrap();
    command.envs(own_folders(dir)).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
    command
}

/// Graph Desk in a login session with an unlocked keyring, without a passphrase. The session ends with it.
pub struct Session {
    bus: Child,
    desk_pid: PathBuf,
}

impl Session {
    pub fn start(world: &World) -> Self {
        let script = "printf test | gnome-keyring-daemon --unlock --components=secrets --foreground >/dev/null 2>&1 & keyring=$!
            \"$0\" & echo $! >\"$1\"; wait $!; kill $keyring";
        let dir = world.dir.path();
        let desk_pid = dir.join("desk.pid");
        let log = File::options().create(true).append(true).open(dir.join("graph-desk.log")).unwrap();
        let mut command = Command::new("dbus-run-session");
        command.args(["--", "sh", "-c", script]).arg(bin_dir().join("graph-desk")).arg(&desk_pid);
        command.envs(own_folders(dir)).env_remove("GRAPH_DESK_PASSPHRASE").env("XDG_RUNTIME_DIR", dir);
        Self { bus: command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn().unwrap(), desk_pid }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let pid = std::fs::read_to_string(&self.desk_pid).unwrap_or_default();
        let _ = Command::new("kill").arg(pid.trim()).status();
        let _ = self.bus.wait();
    }
}

pub fn start_without_display() -> Output {
    let dir = tempfile::tempdir().unwrap();
    program(dir.path()).env_remove("DISPLAY").env_remove("WAYLAND_DISPLAY").stderr(Stdio::piped()).output().unwrap()
}

fn x11(args: &[&str]) -> String {
    let out = Command::new("xdotool").args(args).output().expect("xdotool");
    String::from_utf8_lossy(&out.stdout).into_owned()
}

/// Real keys, to whatever has the focus.
pub fn type_keys(keys: &[&str]) {
    let mut args = vec!["key", "--delay", "5"];
    args.extend(keys);
    x11(&args);
}

/// Puts the pointer on a point inside the window of this title.
pub fn point_at(title: &str, x: i64, y: i64) {
    let window = wait_for(title, || x11(&["search", "--onlyvisible", "--name", &format!("^{title}$")]).lines().next().map(str::to_owned));
    x11(&["mousemove", "--window", &window, &x.to_string(), &y.to_string()]);
}

pub fn hide_window(title: &str) {
    let found = x11(&["search", "--onlyvisible", "--name", &format!("^{title}$")]);
    for window in found.lines() {
        x11(&["windowminimize", window]);
    }
}

/// Somebody who clicks or types without looking, until this is dropped.
pub struct Restless {
    child: Child,
    /// What may be down when it is stopped in the middle.
    let_go: Vec<String>,
}

impl Restless {
    /// The pointer's button, fifty times a second.
    pub fn clicks() -> Self {
        Self::does(&["click", "--repeat", "100000", "--delay", "20", "1"], &["mouseup", "1"])
    }

    /// These keys, a hundred a second.
    pub fn types(keys: &[&str]) -> Self {
        let rounds = vec![keys; 5_000].concat();
        Self::does(&[&["key", "--delay", "10"], rounds.as_slice()].concat(), &[&["keyup"], keys].concat())
    }

    fn does(args: &[&str], let_go: &[&str]) -> Self {
        Self { child: Command::new("xdotool").args(args).spawn().unwrap(), let_go: let_go.iter().map(|arg| (*arg).to_owned()).collect() }
    }
}

impl Drop for Restless {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        // A key that stays down repeats itself and cannot be pressed again.
        x11(&self.let_go.iter().map(String::as_str).collect::<Vec<_>>());
    }
}

/// As an owner closes a window by keys; the window manager asks it to close.
pub fn close_window(title: &str) {
    x11(&["search", "--onlyvisible", "--name", &format!("^{title}$"), "windowactivate", "--sync"]);
    type_keys(&["alt+F4"]);
}
