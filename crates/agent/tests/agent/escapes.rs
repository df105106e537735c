//! Attempts to leave the granted folders, and to reach the app's own data.
#![cfg(unix)]
use std::{
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use agent::tools::{Access, GrantRefused, Toolbox, ToolboxConfig};
use serde_json::json;

use crate::support::{act, grant, toolbox};

/// `inside` is granted for writing; `outside/secret` must stay as it is.
struct Prison {
    _root: tempfile::TempDir,
    inside: PathBuf,
    secret: PathBuf,
    toolbox: Toolbox,
}
impl Prison {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let real = root.path().canonicalize().unwrap();
        let (inside, outside) = (real.join("inside"), real.join("inside-not"));
        std::fs::create_dir(&inside).unwrap();
        std::fs::create_dir(&outside).unwrap();
        let secret = outside.join("secret");
        std::fs::write(&secret, "the secret").unwrap();
        let toolbox = toolbox(&inside, Access::Write);
        Self { _root: root, inside, secret, toolbox }
    }
    fn at(&self, name: &str) -> PathBuf {
        self.inside.join(name)
    }
    /// Every tool refuses this path, and nothing outside changed.
    async fn holds(&self, path: impl AsRef<Path>, why: &str) {
        let path = path.as_ref().to_string_lossy();
        for (tool, input) in [
            ("read_file", json!({ "path": path })),
            ("list_files", json!({ "path": path, "depth": 3 })),
            ("search_files", json!({ "path": path, "text": "secret" })),
            ("write_file", json!({ "path": path, "content": "broken out" })),
            ("edit_file", json!({ "path": path, "old": "the", "new": "no" })),
        ] {
            let result = act(&self.toolbox, tool, input).await;
            assert!(result.is_err(), "{why}: {tool} {path} gave {result:?}");
        }
        assert_eq!(std::fs::read_to_string(&self.secret).unwrap(), "the secret", "{why}");
        assert_eq!(std::fs::read_dir(self.secret.parent().unwrap()).unwrap().count(), 1, "{why}");
    }
}

#[tokio::test]
async fn no_path_leads_out() {
    let prison = Prison::new();
    let outside = prison.secret.parent().unwrap().to_owned();
    symlink(&prison.secret, prison.at("absolute")).unwrap();
    symlink("../inside-not/secret", prison.at("relative")).unwrap();
    symlink(&outside, prison.at("folder")).unwrap();
    symlink("folder/secret", prison.at("chain")).unwrap();
    symlink(outside.join("new"), prison.at("dangling")).unwrap();
    symlink(outside.join("newdir"), prison.at("danglingdir")).unwrap();
    symlink("loop", prison.at("loop")).unwrap();
    symlink("/proc/self/root", prison.at("procroot")).unwrap();
    let rows: Vec<(PathBuf, &str)> = vec![
        (prison.secret.clone(), "an absolute path"),
        ("../inside-not/secret".into(), "dots"),
        (prison.at("../inside-not/secret"), "dots in an absolute path"),
        (prison.at("sub/../../inside-not/secret"), "dots after a folder"),
        ("/etc/passwd".into(), "the system"),
        (prison.at("absolute"), "an absolute link"),
        (prison.at("relative"), "a relative link"),
        (prison.at("folder/secret"), "a linked folder"),
        (prison.at("folder/new"), "a new file in a linked folder"),
        (prison.at("folder/newdir/new"), "a new folder in a linked folder"),
        (prison.at("chain"), "a link to a link"),
        (prison.at("dangling"), "a dangling link"),
        (prison.at("danglingdir/new"), "a new file under a dangling link"),
        (prison.at("loop"), "a loop"),
        (prison.at("procroot/etc/passwd"), "a magic link"),
        (PathBuf::from(format!("{}-not/secret", prison.inside.display())), "a sibling that begins alike"),
        ("~/secret".into(), "a tilde is only a name"),
    ];
    for (path, why) in rows {
        if why == "a tilde is only a name" {
            assert!(act(&prison.toolbox, "read_file", json!({ "path": path })).await.is_err());
            continue;
        }
        prison.holds(path, why).await;
    }
}

#[tokio::test]
async fn a_link_that_stays_inside_may_be_read_but_not_written_through() {
    let prison = Prison::new();
    std::fs::write(prison.at("real"), "text").unwrap();
    symlink("real", prison.at("link")).unwrap();
    assert_eq!(act(&prison.toolbox, "read_file", json!({ "path": prison.at("link") })).await.unwrap()["text"], "text");
    let error = act(&prison.toolbox, "write_file", json!({ "path": prison.at("link"), "content": "x" })).await.unwrap_err();
    assert!(error.contains("symbolic link"), "{error}");
}

#[tokio::test]
async fn a_file_with_a_second_name_is_not_written() {
    let prison = Prison::new();
    std::fs::hard_link(&prison.secret, prison.at("hard")).unwrap();
    for (tool, input) in [
        ("write_file", json!({ "path": prison.at("hard"), "content": "x" })),
        ("edit_file", json!({ "path": prison.at("hard"), "old": "the", "new": "no" })),
    ] {
        assert!(act(&prison.toolbox, tool, input).await.unwrap_err().contains("hard link"));
    }
    assert_eq!(std::fs::read_to_string(&prison.secret).unwrap(), "the secret");
}

#[tokio::test]
async fn pipes_and_devices_are_neither_opened_nor_waited_for() {
    let prison = Prison::new();
    assert!(std::process::Command::new("mkfifo").arg(prison.at("pipe")).status().unwrap().success());
    for (tool, input) in [("read_file", json!({ "path": prison.at("pipe") })), ("write_file", json!({ "path": prison.at("pipe"), "content": "x" }))] {
        assert!(act(&prison.toolbox, tool, input).await.unwrap_err().contains("not a regular file"));
    }
    let found = act(&prison.toolbox, "search_files", json!({ "path": prison.inside, "text": "x" })).await.unwrap();
    assert_eq!(found["matches"], json!([]));
    let devices = toolbox(Path::new("/dev"), Access::Read);
    assert!(act(&devices, "read_file", json!({ "path": "/dev/zero" })).await.is_err());
}

#[tokio::test]
async fn a_race_between_folder_and_link_never_shows_the_outside() {
    let prison = Prison::new();
    std::fs::create_dir(prison.at("real")).unwrap();
    std::fs::write(prison.at("real/secret"), "harmless").unwrap();
    let (stop, inside, outside) = (Arc::new(AtomicBool::new(false)), prison.inside.clone(), prison.secret.parent().unwrap().to_owned());
    let swapper = std::thread::spawn({
        let stop = stop.clone();
        move || {
            while !stop.load(Ordering::Relaxed) {
                std::fs::rename(inside.join("real"), inside.join("spare")).unwrap();
                // The tool may make `real` anew in each gap; then this round has no link.
                if symlink(&outside, inside.join("real")).is_ok() {
                    std::fs::remove_file(inside.join("real")).unwrap();
                }
                while std::fs::rename(inside.join("spare"), inside.join("real")).is_err() {
                    let _ = std::fs::remove_dir_all(inside.join("real"));
                }
            }
        }
    });
    let mut read = 0;
    for round in 0..1_500 {
        if let Ok(value) = act(&prison.toolbox, "read_file", json!({ "path": prison.at("real/secret") })).await {
            assert_eq!(value["text"], "harmless");
            read += 1;
        }
        let _ = act(&prison.toolbox, "write_file", json!({ "path": prison.at(&format!("real/new{round}")), "content": "x" })).await;
    }
    stop.store(true, Ordering::Relaxed);
    swapper.join().unwrap();
    assert_eq!(std::fs::read_dir(prison.secret.parent().unwrap()).unwrap().count(), 1, "nothing was written outside");
    assert!(read > 0, "the race was run, not only lost");
}

#[tokio::test]
async fn the_narrowest_grant_decides_about_writing() {
    let prison = Prison::new();
    std::fs::create_dir_all(prison.at("kept/deep")).unwrap();
    symlink("kept", prison.at("alias")).unwrap();
    let folders = vec![grant(&prison.inside, Access::Write), grant(prison.at("kept"), Access::Read), grant(prison.at("kept/deep"), Access::Write)];
    let (toolbox, refused) = Toolbox::open(ToolboxConfig { folders, ..ToolboxConfig::default() });
    assert_eq!(refused, vec![]);
    for (name, ok) in [("a", true), ("kept/a", false), ("alias/a", false), ("kept/new/a", false), ("kept/deep/a", true), ("keptnot/a", true)] {
        let result = act(&toolbox, "write_file", json!({ "path": prison.at(name), "content": "x" })).await;
        assert_eq!(result.is_ok(), ok, "{name}: {result:?}");
    }
}

/// C69: a grant on the home folder, or on a parent of the app's data.
#[tokio::test]
async fn the_apps_own_data_is_out_of_reach_of_every_tool() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path().canonicalize().unwrap();
    let own = home.join(".local/share/graph-desk");
    std::fs::create_dir_all(&own).unwrap();
    std::fs::write(own.join("desk.db"), "the owner's rules").unwrap();
    std::fs::write(home.join("note"), "the public rules").unwrap();
    symlink(&own, home.join("shortcut")).unwrap();
    let not_yet = home.join("config/graph-desk");
    let open = |path: &Path, access| {
        let config = ToolboxConfig { folders: vec![grant(path, access)], excluded: vec![own.clone(), not_yet.clone()], ..ToolboxConfig::default() };
        Toolbox::open(config)
    };
    for path in [home.as_path(), &home.join(".local"), &home.join(".local/share")] {
        let (_, refused) = open(path, Access::Write);
        assert_eq!(refused, vec![GrantRefused::ContainsOwnData { path: path.into(), own: own.clone() }]);
        assert!(refused[0].to_string().contains("contains Graph Desk's own data"));
    }
    for access in [Access::Read, Access::Write] {
        assert_eq!(open(&own, access).1, vec![GrantRefused::IsOwnData { path: own.clone() }]);
        assert_eq!(open(&home.join("shortcut"), access).1, vec![GrantRefused::IsOwnData { path: home.join("shortcut") }]);
    }
    let (toolbox, refused) = open(&home, Access::Read);
    assert_eq!(refused, vec![], "reading around it may be granted");
    for path in [own.join("desk.db"), home.join("shortcut/desk.db"), own.clone()] {
        for (tool, input) in [
            ("read_file", json!({ "path": path })),
            ("list_files", json!({ "path": path })),
            ("search_files", json!({ "path": path, "text": "rules" })),
            ("write_file", json!({ "path": path, "content": "" })),
        ] {
            assert!(act(&toolbox, tool, input).await.is_err(), "{tool} {path:?}");
        }
    }
    let list = act(&toolbox, "list_files", json!({ "path": home, "depth": 9 })).await.unwrap().to_string();
    assert!(!list.contains("desk.db"), "{list}");
    let found = act(&toolbox, "search_files", json!({ "path": home, "text": "rules" })).await.unwrap();
    assert_eq!(found["matches"].as_array().unwrap().len(), 1);
    let below = home.join("config");
    std::fs::create_dir(&below).unwrap();
    assert!(matches!(&open(&below, Access::Write).1[..], [GrantRefused::ContainsOwnData { .. }]), "also before that folder exists");
}
