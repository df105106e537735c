//! The file tools at work: what they give back, what they refuse to do, what they show before they act.
use agent::tools::{Access, Toolbox};
use serde_json::{Value, json};

use crate::support::{act, toolbox};

struct Place {
    dir: tempfile::TempDir,
    toolbox: Toolbox,
}
impl Place {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let toolbox = toolbox(dir.path(), Access::Write);
        Self { dir, toolbox }
    }
    fn path(&self, name: &str) -> String {
        self.dir.path().canonicalize().unwrap().join(name).to_string_lossy().into_owned()
    }
    fn has(&self, name: &str, content: impl AsRef<[u8]>) {
        let path = self.path(name);
        std::fs::create_dir_all(std::path::Path::new(&path).parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }
    async fn act(&self, tool: &str, input: Value) -> Result<Value, String> {
        act(&self.toolbox, tool, input).await
    }
}

#[tokio::test]
async fn a_folder_is_listed_in_order_with_kinds_and_sizes() {
    let place = Place::new();
    place.has("b.md", "12345");
    place.has("sub/deep/c.md", "1");
    place.has("a.txt", "");
    let names = |value: Value| -> Vec<String> {
        let root = place.path("");
        value["entries"]
            .as_array()
            .unwrap()
            .iter()
            .map(|e| format!("{} {} {}", e["path"].as_str().unwrap().strip_prefix(&root).unwrap(), e["kind"].as_str().unwrap(), e["bytes"]))
            .collect()
    };
    assert_eq!(names(place.act("list_files", json!({ "path": place.path("") })).await.unwrap()), ["a.txt file 0", "b.md file 5", "sub folder 0"]);
    assert_eq!(names(place.act("list_files", json!({ "path": "." })).await.unwrap()).len(), 3, "a relative path means the only grant");
    let deep = place.act("list_files", json!({ "path": place.path(""), "depth": 3 })).await.unwrap();
    assert_eq!(names(deep), ["a.txt file 0", "b.md file 5", "sub folder 0", "sub/deep folder 0", "sub/deep/c.md file 1"]);
    let globbed = place.act("list_files", json!({ "path": place.path(""), "glob": "**/*.md" })).await.unwrap();
    assert_eq!(names(globbed), ["b.md file 5", "sub/deep/c.md file 1"]);
    let grants = place.act("list_files", json!({})).await.unwrap();
    assert_eq!(grants["entries"][0]["access"], "write");
}

#[tokio::test]
async fn a_long_list_says_that_it_was_cut() {
    let place = Place::new();
    for i in 0..1_001 {
        place.has(&format!("f{i:04}"), "");
    }
    let list = place.act("list_files", json!({ "path": place.path("") })).await.unwrap();
    assert_eq!((list["entries"].as_array().unwrap().len(), &list["truncated"]), (1_000, &json!(true)));
}

#[tokio::test]
async fn reading_gives_text_size_and_whether_it_was_cut() {
    let place = Place::new();
    place.has("t", "aé中😀");
    place.has("big", vec![b'x'; 1_048_577]);
    place.has("binary", [0u8, 159, 146, 150]);
    let read = |input| place.act("read_file", input);
    assert_eq!(
        read(json!({ "path": place.path("t") })).await.unwrap(),
        json!({ "path": place.path("t"), "text": "aé中😀", "bytes": 10, "truncated": false })
    );
    for (max, text) in [(1, "a"), (2, "a"), (3, "aé"), (9, "aé中"), (10, "aé中😀")] {
        let got = read(json!({ "path": place.path("t"), "max_bytes": max })).await.unwrap();
        assert_eq!((got["text"].as_str().unwrap(), got["truncated"].as_bool().unwrap()), (text, max < 10), "never inside a character");
    }
    assert_eq!(read(json!({ "path": place.path("t"), "offset": 6 })).await.unwrap()["text"], "😀");
    let big = read(json!({ "path": place.path("big") })).await.unwrap();
    assert_eq!((big["text"].as_str().unwrap().len(), &big["bytes"], &big["truncated"]), (1_048_576, &json!(1_048_577), &json!(true)));
    assert!(read(json!({ "path": place.path("binary") })).await.unwrap_err().contains("not UTF-8"));
    assert!(read(json!({ "path": place.path("none") })).await.unwrap_err().contains("none"));
    assert!(read(json!({ "path": place.path("") })).await.unwrap_err().contains("not a regular file"));
}

#[tokio::test]
async fn a_search_names_file_line_and_text() {
    let place = Place::new();
    place.has("a.md", "one\ntwo (2)\n");
    place.has("b.txt", "two (2)\n");
    place.has("keys/.env", "two (2)\n");
    let search = |input| place.act("search_files", input);
    let found = search(json!({ "path": place.path(""), "text": "(2)" })).await.unwrap();
    assert_eq!(
        found["matches"],
        json!([{ "path": place.path("a.md"), "line": 2, "text": "two (2)" }, { "path": place.path("b.txt"), "line": 1, "text": "two (2)" }]),
        "and leaves out what holds keys"
    );
    let found = search(json!({ "path": place.path(""), "regex": "^o.e$", "glob": "*.md" })).await.unwrap();
    assert_eq!(found["matches"].as_array().unwrap().len(), 1);
    for bad in [
        json!({ "path": "." }),
        json!({ "path": ".", "text": "a", "regex": "b" }),
        json!({ "path": ".", "regex": "(" }),
        json!({ "path": ".", "regex": "a{9999}{9999}" }),
    ] {
        assert!(search(bad).await.is_err());
    }
}

#[tokio::test]
async fn writing_creates_replaces_and_makes_folders() {
    let place = Place::new();
    let write = |name: &str, content: &str| place.act("write_file", json!({ "path": place.path(name), "content": content }));
    assert_eq!(write("a.md", "é").await.unwrap(), json!({ "bytes": 2, "created": true, "path": place.path("a.md") }));
    assert_eq!(write("a.md", "two").await.unwrap()["created"], false);
    write("new/deeper/b.md", "x").await.unwrap();
    assert_eq!(std::fs::read_to_string(place.path("new/deeper/b.md")).unwrap(), "x");
    assert!(write("big", &"x".repeat(1_048_577)).await.unwrap_err().contains("1048576"));
    let left: Vec<_> = std::fs::read_dir(place.dir.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(left.len(), 2, "no temporary file stays: {left:?}");
}

#[cfg(unix)]
#[tokio::test]
async fn a_replaced_file_keeps_its_permissions() {
    use std::os::unix::fs::PermissionsExt;
    let place = Place::new();
    place.has("run.sh", "old");
    std::fs::set_permissions(place.path("run.sh"), std::fs::Permissions::from_mode(0o750)).unwrap();
    place.act("write_file", json!({ "path": place.path("run.sh"), "content": "new" })).await.unwrap();
    assert_eq!(std::fs::metadata(place.path("run.sh")).unwrap().permissions().mode() & 0o777, 0o750);
}

#[tokio::test]
async fn an_edit_wants_one_place_or_all_of_them() {
    let place = Place::new();
    place.has("t", "a b a");
    let edit = |old: &str, all: bool| place.act("edit_file", json!({ "path": place.path("t"), "old": old, "new": "X", "all": all }));
    assert!(edit("z", false).await.unwrap_err().contains("does not occur"));
    assert!(edit("a", false).await.unwrap_err().contains("2 times"));
    assert!(edit("", true).await.is_err());
    assert_eq!(edit("b", false).await.unwrap()["replaced"], 1);
    assert_eq!(edit("a", true).await.unwrap()["replaced"], 2);
    assert_eq!(std::fs::read_to_string(place.path("t")).unwrap(), "X X X");
}

#[tokio::test]
async fn what_was_not_asked_for_in_the_input_is_refused() {
    let place = Place::new();
    for (tool, input, names) in [
        ("read_file", json!({ "path": "a", "bogus": 1 }), "bogus"),
        ("read_file", json!({}), "path"),
        ("read_file", json!({ "path": 7 }), "integer"),
        ("write_file", json!([]), "invalid"),
        ("write_file", json!({ "path": "a\u{0}b", "content": "" }), "NUL"),
        ("write_file", json!({ "path": "", "content": "" }), "empty"),
        ("fly", json!({}), "fly"),
    ] {
        let error = place.act(tool, input.clone()).await.unwrap_err();
        assert!(error.contains(names), "{tool} {input}: {error}");
    }
}

#[tokio::test]
async fn the_owner_sees_the_real_path_and_the_whole_change() {
    let place = Place::new();
    place.has("t", "one\ntwo\n");
    let input = crate::support::json(json!({ "path": place.path("t"), "old": "two", "new": "2" }));
    let effect = place.toolbox.prepare("edit_file", &input).await.unwrap().effect;
    assert_eq!(effect.real_path.unwrap().to_string_lossy(), place.path("t"));
    let diff = effect.diff.unwrap();
    assert!(diff.contains("-two\n") && diff.contains("+2\n") && diff.contains(" one\n"), "{diff}");
    assert_eq!(effect.sentence, format!("Change {} (8 to 6 bytes)", place.path("t")));
}

#[tokio::test]
async fn what_changed_after_the_question_is_not_overwritten() {
    let place = Place::new();
    let prepare = async |input: Value| place.toolbox.prepare("write_file", &crate::support::json(input)).await.unwrap();
    let stop = tokio_util::sync::CancellationToken::new;
    place.has("t", "one");
    let asked = prepare(json!({ "path": place.path("t"), "content": "three" })).await;
    place.has("t", "two");
    assert!(!asked.run(stop()).await.ok);
    assert_eq!(std::fs::read_to_string(place.path("t")).unwrap(), "two");
    let asked = prepare(json!({ "path": place.path("new"), "content": "three" })).await;
    place.has("new", "somebody else's");
    assert!(!asked.run(stop()).await.ok, "nor what was made in between");
    assert_eq!(std::fs::read_to_string(place.path("new")).unwrap(), "somebody else's");
    let asked = prepare(json!({ "path": place.path("t"), "content": "three" })).await;
    assert!(asked.run(stop()).await.ok, "unchanged: done as shown");
}
