//! Attempts to get out of the sandbox, as a table: each row is a command that tries, and what must not have happened.
#![cfg(target_os = "linux")]
use std::{
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use agent::{
    sandbox::Cage,
    tools::{Access, Commands, Toolbox, ToolboxConfig},
};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::support::{act, grant};

const HELPER: &str = env!("CARGO_BIN_EXE_sandbox-helper");

struct Yard {
    root: tempfile::TempDir,
    toolbox: Toolbox,
}
impl Yard {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        for folder in ["work", "library", "outside"] {
            std::fs::create_dir(root.path().join(folder)).unwrap();
        }
        let real = root.path().canonicalize().unwrap();
        std::fs::write(real.join("outside/secret"), "the secret").unwrap();
        std::fs::write(real.join("library/book"), "a book").unwrap();
        std::fs::write(real.join("work/own"), "own").unwrap();
        let folders = vec![grant(real.join("work"), Access::Write), grant(real.join("library"), Access::Read)];
        let (toolbox, refused) =
            Toolbox::open(ToolboxConfig { folders, commands: Some(Commands { helper: HELPER.into() }), ..ToolboxConfig::default() });
        assert_eq!(refused, vec![]);
        Self { root, toolbox }
    }
    fn at(&self, name: &str) -> PathBuf {
        self.root.path().canonicalize().unwrap().join(name)
    }
    async fn run(&self, argv: &[&str]) -> Result<Value, String> {
        act(&self.toolbox, "run_command", json!({ "argv": argv })).await
    }
    async fn sh(&self, script: &str) -> Result<Value, String> {
        self.run(&["sh", "-c", script]).await
    }
}

#[tokio::test]
async fn a_command_works_in_its_folder_with_a_clean_environment() {
    let yard = Yard::new();
    let done = yard.sh("cat own ../library/book; echo made > new; echo oops >&2; exit 3").await.unwrap();
    assert_eq!((&done["exit"], &done["stdout"], &done["stderr"]), (&json!(3), &json!("owna book"), &json!("oops\n")), "{done}");
    assert_eq!(std::fs::read_to_string(yard.at("work/new")).unwrap(), "made\n");
    let env = yard.run(&["env"]).await.unwrap()["stdout"].as_str().unwrap().to_owned();
    let names: Vec<_> = env.lines().filter_map(|l| l.split_once('=')).map(|(n, _)| n).collect();
    for name in &names {
        assert!(["PATH", "HOME", "TMPDIR", "LANG", "TERM", "PWD", "OLDPWD", "SHLVL", "_"].contains(name), "{name}");
    }
    let scratch = yard.sh("echo x > $HOME/a && mktemp >/dev/null && echo $HOME").await.unwrap();
    let home = scratch["stdout"].as_str().unwrap().trim().to_owned();
    assert_eq!(scratch["exit"], 0, "{scratch}");
    assert!(!Path::new(&home).exists(), "its temporary folder is gone");
    let words = yard.run(&["printf", "%s|", "a b", "$HOME", "*", "; rm -rf x"]).await.unwrap();
    assert_eq!(words["stdout"], "a b|$HOME|*|; rm -rf x|", "no shell touches the words");
    let missing = yard.run(&["no-such-program"]).await.unwrap();
    assert_eq!(missing["exit"], 127, "{missing}");
}

/// Each script prints `OUT` if it got out. None may, and the outside must be as it was.
#[tokio::test]
async fn no_attempt_gets_out() {
    let yard = Yard::new();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let unix = yard.at("work/socket");
    let _unix = std::os::unix::net::UnixListener::bind(&unix).unwrap();
    let victim = std::process::Command::new("sleep").arg("600").spawn().unwrap();
    let (o, me, victim_id) = (yard.at("outside").display().to_string(), std::process::id(), victim.id());
    let python = |code: &str| format!("python3 -c '{code}'");
    let attempts: Vec<(&str, String)> = vec![
        ("read outside", format!("cat {o}/secret && echo OUT")),
        ("list outside", format!("ls {o} && echo OUT")),
        ("read through dots", "cat ../outside/secret && echo OUT".into()),
        ("read through a link", format!("ln -s {o}/secret l; cat l && echo OUT")),
        ("read through /proc", format!("cat /proc/self/root{o}/secret && echo OUT")),
        ("read the shadow file", "cat /etc/shadow && echo OUT".into()),
        ("list the home folder", "ls /root /home && echo OUT".into()),
        ("list temporary files", "ls /tmp && echo OUT".into()),
        ("read another's environment", format!("cat /proc/{me}/environ && echo OUT")),
        ("read another's memory map", format!("cat /proc/{victim_id}/maps && echo OUT")),
        ("see another's command line", format!("cat /proc/{me}/cmdline && echo OUT")),
        ("write outside", format!("echo x > {o}/new && echo OUT")),
        ("append outside", format!("echo x >> {o}/secret && echo OUT")),
        ("truncate outside", format!("truncate -s 0 {o}/secret && echo OUT")),
        ("truncate by path", python(&format!("import os; os.truncate(\"{o}/secret\", 0); print(\"OUT\")"))),
        ("delete outside", format!("rm -f {o}/secret && test ! -e {o}/secret && echo OUT")),
        ("rename out", format!("mv own {o}/own && echo OUT")),
        ("rename in", format!("mv {o}/secret in && echo OUT")),
        ("hard link in", format!("ln {o}/secret hard && echo OUT")),
        ("hard link from the library", format!("ln {}/book hard && echo x > hard && echo OUT", yard.at("library").display())),
        ("write to the library", format!("echo x > {}/book && echo OUT", yard.at("library").display())),
        ("make a device", "mknod disk b 8 0 && echo OUT".into()),
        ("make a character device", "mknod kmem c 1 2 && echo OUT".into()),
        ("connect to loopback", python(&format!("import socket; socket.create_connection((\"127.0.0.1\", {port}), 2); print(\"OUT\")"))),
        (
            "send a datagram",
            python("import socket; s=socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.sendto(b\"x\", (\"8.8.8.8\", 53)); print(\"OUT\")"),
        ),
        ("raw socket", python("import socket; socket.socket(socket.AF_INET, socket.SOCK_RAW, 1); print(\"OUT\")")),
        ("netlink", python("import socket; socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0); print(\"OUT\")")),
        (
            "unix socket in the folder",
            python(&format!("import socket; s=socket.socket(socket.AF_UNIX); s.connect(\"{}\"); print(\"OUT\")", unix.display())),
        ),
        ("abstract socket", python("import socket; socket.socket(socket.AF_UNIX).bind(\"\\0x\"); print(\"OUT\")")),
        ("bash's own network", format!("bash -c 'exec 3<>/dev/tcp/127.0.0.1/{port} && echo OUT'")),
        ("new user namespace", "unshare -Ur true && echo OUT".into()),
        ("new mount namespace", "unshare -m true && echo OUT".into()),
        ("enter a namespace", format!("nsenter -t {me} -m true && echo OUT")),
        ("chroot", "chroot / true && echo OUT".into()),
        ("mount", "mount -t tmpfs x . && echo OUT".into()),
        ("bind mount", format!("mount --bind {o} . && echo OUT")),
        ("signal another", format!("kill -9 {victim_id} && echo OUT")),
        ("signal all", "kill -9 -1; echo survived".into()),
        ("trace another", python(&format!("import ctypes; r=ctypes.CDLL(None).ptrace(16, {victim_id}, 0, 0); print(\"OUT\" if r==0 else r)"))),
        ("read another's memory", python(&format!("open(\"/proc/{victim_id}/mem\",\"rb\"); print(\"OUT\")"))),
        ("new session", python("import os; os.setsid(); print(\"OUT\")")),
        ("new process group", python("import os\nif os.fork()==0:\n os.setpgid(0,0)\n print(\"OUT\")")),
        ("io_uring", python("import ctypes; r=ctypes.CDLL(None).syscall(425, 8, 0); print(\"OUT\" if r>=0 else r)")),
        ("32-bit call number", python("import ctypes; r=ctypes.CDLL(None).syscall(0x40000000+41, 2, 1, 0); print(\"OUT\" if r>=0 else r)")),
        ("bpf", python("import ctypes; r=ctypes.CDLL(None).syscall(321, 0, 0, 0); print(\"OUT\" if r>=0 else r)")),
        ("open by handle", python("import ctypes; r=ctypes.CDLL(None).syscall(304, 3, 0, 0); print(\"OUT\" if r>=0 else r)")),
        ("become another user", "su nobody -s /bin/sh -c true && echo OUT".into()),
        ("change a system file", "echo x >> /etc/passwd && echo OUT".into()),
        ("write a system program", "echo x > /usr/bin/x && echo OUT".into()),
        ("write kernel settings", "echo x > /proc/sys/kernel/hostname && echo OUT".into()),
        ("change the clock", "date -s 2000-01-01 && echo OUT".into()),
        ("change the host name", "hostname x && echo OUT".into()),
        ("dump a core outside", "ulimit -c unlimited && echo OUT".into()),
    ];
    let mut held = 0;
    for (name, script) in &attempts {
        match yard.sh(script).await {
            Ok(done) => {
                let said = format!("{}{}", done["stdout"].as_str().unwrap(), done["stderr"].as_str().unwrap());
                let outcome = said.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("(silent)");
                println!("{name:<32} exit {:<4} {outcome}", done["exit"].to_string());
                assert!(!said.contains("OUT"), "{name} got out: {done}");
                assert!(
                    !said.contains("python3: not found") && !said.contains("No such file or directory: 'python3'"),
                    "{name} was not tried: {done}"
                );
            }
            Err(error) => panic!("{name}: {error}"),
        }
        assert_eq!(std::fs::read_to_string(yard.at("outside/secret")).unwrap(), "the secret", "{name}");
        assert_eq!(std::fs::read_dir(yard.at("outside")).unwrap().count(), 1, "{name}");
        assert_eq!(std::fs::read_to_string(yard.at("library/book")).unwrap(), "a book", "{name}");
        held += 1;
    }
    println!("sandbox: {held} attempts held");
    let mut victim = victim;
    assert!(victim.try_wait().unwrap().is_none(), "the other program still runs");
    victim.kill().unwrap();
    victim.wait().unwrap();
    listener.set_nonblocking(true).unwrap();
    assert!(listener.accept().is_err(), "nobody connected");
}

fn is_running(mark: &str) -> bool {
    let own = std::process::id();
    std::fs::read_dir("/proc").unwrap().filter_map(Result::ok).any(|e| {
        let name = e.file_name().to_string_lossy().into_owned();
        let line = std::fs::read(e.path().join("cmdline")).unwrap_or_default();
        name.parse::<u32>().is_ok_and(|id| id != own) && String::from_utf8_lossy(&line).replace('\0', " ").contains(mark)
    })
}

#[tokio::test]
async fn what_a_command_leaves_behind_is_killed_with_it() {
    let yard = Yard::new();
    let started = Instant::now();
    let done = yard.sh("(sleep 7771 & sleep 7772 &) ; (nohup sleep 7773 >/dev/null 2>&1 &); echo started").await.unwrap();
    assert_eq!(done["stdout"], "started\n");
    assert!(started.elapsed() < Duration::from_secs(30), "open pipes of the leftovers are not waited for");
    for mark in ["sleep 7771", "sleep 7772", "sleep 7773"] {
        assert!(!is_running(mark), "{mark}");
    }
}

#[tokio::test]
async fn a_stop_kills_the_whole_tree() {
    let yard = Yard::new();
    let input = crate::support::json(json!({ "argv": ["sh", "-c", "echo x > running; sleep 7781 & sleep 7782"] }));
    let prepared = yard.toolbox.prepare("run_command", &input).await.unwrap();
    let stop = CancellationToken::new();
    let run = tokio::spawn(prepared.run(stop.clone()));
    while !yard.at("work/running").exists() || !is_running("sleep 7782") {
        tokio::task::yield_now().await;
    }
    stop.cancel();
    assert!(!run.await.unwrap().ok);
    assert!(!is_running("sleep 7781") && !is_running("sleep 7782"));
}

#[tokio::test]
async fn a_dropped_call_kills_the_whole_tree_too() {
    let yard = Yard::new();
    let input = crate::support::json(json!({ "argv": ["sh", "-c", "sleep 7791 & sleep 7792"] }));
    let prepared = yard.toolbox.prepare("run_command", &input).await.unwrap();
    let run = tokio::spawn(prepared.run(CancellationToken::new()));
    while !is_running("sleep 7791") || !is_running("sleep 7792") {
        tokio::task::yield_now().await;
    }
    run.abort();
    assert!(run.await.is_err());
    while is_running("sleep 7791") || is_running("sleep 7792") {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn sixty_seconds_are_the_end() {
    let yard = Yard::new();
    let input = crate::support::json(json!({ "argv": ["sh", "-c", "echo begun; sleep 7801"] }));
    let prepared = yard.toolbox.prepare("run_command", &input).await.unwrap();
    let run = tokio::spawn(prepared.run(CancellationToken::new()));
    while !is_running("sleep 7801") {
        tokio::task::yield_now().await;
    }
    tokio::time::pause();
    let before = tokio::time::Instant::now();
    tokio::time::advance(Duration::from_secs(59)).await;
    assert!(!run.is_finished());
    tokio::time::advance(Duration::from_secs(1)).await;
    tokio::time::resume();
    let output = run.await.unwrap();
    assert!(!output.ok && output.json.as_str().contains("killed after 60 seconds"), "{output:?}");
    assert!(before.elapsed() >= Duration::from_secs(60) && !is_running("sleep 7801"));
}

#[tokio::test]
async fn long_output_keeps_its_beginning_and_end() {
    let yard = Yard::new();
    let done = yard.sh("echo first; head -c 300000 /dev/zero | tr '\\0' x; echo; echo last; head -c 100000 /dev/zero >&2").await.unwrap();
    let out = done["stdout"].as_str().unwrap();
    assert!(out.starts_with("first\n") && out.ends_with("\nlast\n") && out.contains("bytes left out"), "{}", &out[..40]);
    assert!(out.len() + done["stderr"].as_str().unwrap().len() < 66_000 && done["truncated"] == true);
}

#[tokio::test]
async fn without_a_sandbox_nothing_is_run() {
    let yard = Yard::new();
    let folders = vec![grant(yard.at("work"), Access::Write)];
    for helper in ["/bin/false", "/no/such/helper", "/bin/cat"] {
        let config = ToolboxConfig { folders: folders.clone(), commands: Some(Commands { helper: helper.into() }), ..ToolboxConfig::default() };
        let (toolbox, _) = Toolbox::open(config);
        let result = act(&toolbox, "run_command", json!({ "argv": ["touch", "ran"] })).await;
        assert!(!yard.at("work/ran").exists(), "{helper}: {result:?}");
    }
    // A helper that cannot build its cage says so and ends.
    let cage = Cage { folder: "/no/such/folder".into(), argv: vec!["touch".into(), yard.at("work/ran").into()], ..Cage::default() };
    let output = std::process::Command::new(HELPER).args(cage.to_args()).output().unwrap();
    assert_eq!(output.status.code(), Some(199));
    assert!(String::from_utf8_lossy(&output.stderr).contains("the sandbox could not be built"));
    assert!(!yard.at("work/ran").exists());
}

/// C69 for commands.
#[tokio::test]
async fn commands_never_see_a_grant_that_contains_the_apps_own_data() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path().canonicalize().unwrap();
    std::fs::create_dir_all(home.join(".local/graph-desk")).unwrap();
    std::fs::create_dir(home.join("work")).unwrap();
    std::fs::write(home.join(".local/graph-desk/desk.db"), "the rules").unwrap();
    let (toolbox, refused) = Toolbox::open(ToolboxConfig {
        folders: vec![grant(&home, Access::Read), grant(home.join("work"), Access::Write)],
        excluded: vec![home.join(".local/graph-desk")],
        commands: Some(Commands { helper: HELPER.into() }),
        ..ToolboxConfig::default()
    });
    assert_eq!(refused, vec![]);
    let error = act(&toolbox, "run_command", json!({ "argv": ["ls"], "cwd": home })).await.unwrap_err();
    assert!(error.contains("contains Graph Desk's own data"), "{error}");
    let done = act(&toolbox, "run_command", json!({ "argv": ["cat", home.join(".local/graph-desk/desk.db")] })).await.unwrap();
    assert!(done["exit"] != 0 && done["stdout"] == "", "{done}");
}

#[tokio::test]
async fn the_owner_sees_the_whole_command_line_and_that_it_is_caged() {
    let yard = Yard::new();
    let input = crate::support::json(json!({ "argv": ["sh", "-c", "echo 'a' > b", "\u{202e}x"] }));
    let prepared = yard.toolbox.prepare("run_command", &input).await.unwrap();
    assert_eq!(prepared.effect.command_line.as_deref(), Some("sh -c 'echo '\\''a'\\'' > b' '\u{202e}x'"));
    assert_eq!((prepared.effect.sandboxed, prepared.effect.folder), (Some(true), Some(yard.at("work"))));
    assert!(prepared.effect.sentence.contains("⟨U+202E⟩"));
    for bad in [
        json!({ "argv": [] }),
        json!({ "argv": [""] }),
        json!({ "argv": ["a\u{0}b"] }),
        json!({ "argv": "ls" }),
        json!({ "argv": ["ls"], "cwd": "/etc" }),
    ] {
        assert!(yard.toolbox.prepare("run_command", &crate::support::json(bad)).await.is_err());
    }
}
