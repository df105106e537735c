//! The template Graphs do what they say, with tools that answer like the real ones.
use std::collections::BTreeMap;

use super::support::{Run, shown};
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
    let page = "Each pass asks the queue for work, and the queue answers with what it has.\n".repeat(200);
    let files: BTreeMap<String, String> = (0..50).map(|i| (format!("/docs/{i:02}.md"), page.clone())).collect();
    let run = with_files(Run::in_child().args(r#"{"folder":"/docs","output":"/out"}"#), &files);
    let began = std::time::Instant::now();
    let outcome = shown(&run.run(FOLDER_DIGEST).await);
    println!("50 files of {} KB: {:?}", page.len() / 1024, began.elapsed());
    assert!(outcome.contains(r#""files":50,"lines":10000,"words":150000"#), "{outcome}");
}

#[tokio::test(start_paused = true)]
async fn every_template_reads_as_a_graph() {
    for (slug, source) in engine::TEMPLATES {
        let meta = engine::inspect(source, &engine::InProcessVm).await.unwrap_or_else(|fault| panic!("{slug}: {fault}"));
        assert!(!meta.name.is_empty() && !meta.description.is_empty() && meta.args.is_some(), "{slug}");
        assert!(domain::Slug::parse(slug).is_ok());
    }
}

fn template(slug: &str) -> &'static str {
    engine::TEMPLATES.iter().find(|(s, _)| *s == slug).unwrap().1
}

fn answers(run: Run, answer: impl Fn(&engine::AgentCall) -> Value + Send + Sync + 'static) -> Run {
    *run.host.answer.lock().unwrap() = Some(Box::new(move |call| Ok(answer(call))));
    run
}

#[tokio::test(start_paused = true)]
async fn a_finding_counts_when_two_judges_agree() {
    let diff = "diff --git a/x.rs b/x.rs\n--- a/x.rs\n+++ b/x.rs\n@@ -1 +1 @@\n-a\n+b\ndiff --git a/y.rs b/y.rs\n--- a/y.rs\n+++ b/y.rs\n@@ -1 +1 @@\n-c\n+d\n";
    let run = answers(Run::in_process().args(&json!({ "diff": diff }).to_string()), |call| match call.label.as_str() {
        "find x.rs" => json!({ "findings": [{ "severity": "low", "claim": "doubtful" }, { "severity": "high", "claim": "true" }] }),
        "find y.rs" => json!({ "findings": [] }),
        _ => json!({ "agrees": call.prompt.contains("Claim: true") || call.label.starts_with("sceptic"), "reason": "r" }),
    });
    assert_eq!(
        shown(&run.run(template("review-change-set")).await),
        r#"= {"summary":"1 confirmed findings in 2 files","files":2,"confirmed":[{"path":"x.rs","severity":"high","claim":"true","agreeing":3}],"not_reviewed":[]}"#
    );
}

#[tokio::test(start_paused = true)]
async fn texts_become_rows_of_one_table() {
    let files = BTreeMap::from([("/t/a.txt".to_owned(), "Ann is 30".to_owned()), ("/t/b.txt".to_owned(), "Bob, \"Bobby\"".to_owned())]);
    let args = json!({ "folder": "/t", "columns": [{ "name": "name" }, { "name": "age", "type": "number" }], "output": "/t/out.csv" });
    let run = answers(with_files(Run::in_process().args(&args.to_string()), &files), |call| {
        if call.prompt.contains("Ann") {
            json!({ "rows": [{ "name": "Ann", "age": 30 }] })
        } else {
            json!({ "rows": [{ "name": "Bob, \"Bobby\"", "age": null }] })
        }
    });
    let outcome = shown(&run.run(template("extract-table")).await);
    assert!(outcome.contains(r#""rows":2,"files":2,"failed":[]"#), "{outcome}");
    let written = run.host.tools.lock().unwrap().last().unwrap().input.to_value();
    assert_eq!(written["content"], "file,name,age\n/t/a.txt,Ann,30\n/t/b.txt,\"Bob, \"\"Bobby\"\"\",\n");
}

#[tokio::test(start_paused = true)]
async fn a_report_without_remarks_is_better_than_none() {
    let files = BTreeMap::from([("/a/x.md".to_owned(), "one two three".to_owned())]);
    let args = r#"{"folders":["/a","/b"],"output":"/out"}"#;
    let report = |run: Run| with_files(run.args(args).graph("folder-digest", FOLDER_DIGEST), &files);
    let run = answers(report(Run::in_process()), |_| json!("All is well."));
    let outcome = shown(&run.run(template("nightly-report")).await);
    assert!(outcome.contains(r#""folders":2,"words":6,"has_remarks":true"#), "{outcome}");
    let run = report(Run::in_process());
    *run.host.answer.lock().unwrap() = Some(Box::new(|_| Err(engine::CallCode::NoModel)));
    let outcome = shown(&run.run(template("nightly-report")).await);
    assert!(outcome.contains(r#""has_remarks":false"#), "{outcome}");
}

#[tokio::test(start_paused = true)]
async fn nothing_is_changed_without_a_yes() {
    let files = BTreeMap::from([("/f.txt".to_owned(), "a red house".to_owned())]);
    let plan = |_: &engine::AgentCall| json!({ "summary": "Paint it blue.", "old": "red", "new": "blue" });
    let run = answers(with_files(Run::in_process().args(r#"{"file":"/f.txt","wish":"blue"}"#), &files), plan);
    let outcome = shown(&run.run(template("ask-before-acting")).await);
    assert!(outcome.contains(r#""changed":false,"summary":"Nothing was changed."#), "{outcome}");
    assert!(run.host.tools.lock().unwrap().iter().all(|call| call.tool == "read_file"));
}
