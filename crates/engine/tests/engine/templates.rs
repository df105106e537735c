//! The template Graphs do what they say, with tools that answer like the real ones.
use std::collections::BTreeMap;

use super::support::{Run, shown};
use domain::RawJson;
use serde_json::{Value, json};

fn with_files(run: Run, files: &BTreeMap<String, String>) -> Run {
    let files = files.clone();
    *run.host.tool.lock().unwrap() = Some(Box::new(move |tool, input| match tool {
        "list_files" => {
            let entries: Vec<Value> = files.iter().map(|(p, t)| json!({ "path": p, "kind": "file", "bytes": t.len() })).collect();
            Ok(json!({ "path": input["path"], "entries": entries, "truncated": false }))
        }
        "read_file" => match files.get(input["path"].as_str().unwrap()).map(String::as_str) {
            Some("\0") | None => Err("not UTF-8 text".into()),
            Some(text) => Ok(json!({ "path": input["path"], "text": text, "bytes": text.len(), "truncated": false })),
        },
        "write_file" => Ok(json!({ "path": input["path"], "bytes": input["content"].as_str().unwrap().len(), "created": true })),
        other => Err(format!("no tool {other}")),
    }));
    run
}

const FOLDER_DIGEST: &str = include_str!("../../templates/folder-digest.graph.js");

#[tokio::test(start_paused = true)]
async fn folder_digest_counts_what_is_there() {
    let files = BTreeMap::from([
        ("/docs/a.md".to_owned(), "# Relay\n\nThe relay asks the queue.\n".to_owned()),
        ("/docs/deep/b.md".to_owned(), "The queue answers the relay; it's the queue's answer. Größe zählt.".to_owned()),
        ("/docs/broken.md".to_owned(), "\0".to_owned()),
    ]);
    let run = with_files(Run::in_process().args(r#"{"folder":"/docs","output":"/out/"}"#), &files);
    assert_eq!(
        shown(&run.run(FOLDER_DIGEST).await),
        r#"= {"summary":"2 Markdown files with 17 words in /docs; the digest is in /out/digest.md","files":2,"lines":4,"words":17,"longest":{"path":"deep/b.md","words":11},"top_words":["relay 3","queue 2","answer 1","answers 1","asks 1","größe 1","it's 1","queue's 1","zählt 1"],"unreadable":1,"written":"/out/digest.md"}"#
    );
    let written = run.host.tools.lock().unwrap().iter().find(|c| c.tool == "write_file").unwrap().input.to_value();
    let page = written["content"].as_str().unwrap();
    assert!(
        page.contains("The longest is deep/b.md with 11 words.") && page.contains("| relay | 3 |") && page.contains("- /docs/broken.md"),
        "{page}"
    );
}

#[tokio::test(start_paused = true)]
async fn folder_digest_of_an_empty_folder_says_so() {
    let run = with_files(Run::in_process().args(r#"{"folder":"/docs","output":"/out"}"#), &BTreeMap::new());
    assert!(shown(&run.run(FOLDER_DIGEST).await).contains(r#""files":0,"lines":0,"words":0,"longest":null"#));
}

#[tokio::test]
async fn folder_digest_takes_its_time_with_a_large_folder_but_ends() {
    let page = "Each pass asks the queue for work, and the queue answers with what it has.\n".repeat(100);
    let files: BTreeMap<String, String> = (0..50).map(|i| (format!("/docs/{i:02}.md"), page.clone())).collect();
    let run = with_files(Run::in_child().args(r#"{"folder":"/docs","output":"/out"}"#), &files);
    let began = std::time::Instant::now();
    let outcome = shown(&run.run(FOLDER_DIGEST).await);
    println!("50 files of {} KB: {:?}", page.len() / 1024, began.elapsed());
    assert!(outcome.contains(r#""files":50,"lines":5000,"words":75000"#), "{outcome}");
}

#[test]
fn every_template_reads_as_a_graph() {
    for (slug, source) in engine::TEMPLATES {
        let meta = engine::Meta::read(source).unwrap_or_else(|fault| panic!("{slug}: {fault}"));
        assert!(!meta.name.is_empty() && !meta.description.is_empty() && meta.args.is_some(), "{slug}");
        assert!(domain::Slug::parse(slug).is_ok());
        let _ = RawJson::empty_object();
    }
}
