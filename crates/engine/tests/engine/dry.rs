//! Dry runs: what a Graph would do, without doing it.
use std::sync::Arc;

use domain::{ExecutionId, Outcome, RawJson, Slug, Timestamp};
use engine::{AgentCall, BoxFuture, CallCode, CallError, CalledGraph, DryPort, DryTool, InProcessVm, Script, Settings, ToolCall, dry_run, sample};
use serde_json::json;

struct Port;
impl DryPort for Port {
    fn tool<'a>(&'a self, call: &'a ToolCall) -> BoxFuture<'a, DryTool> {
        let answer = match call.tool.as_str() {
            "list_files" => {
                Ok(RawJson::of(&json!({ "path": "/t", "entries": [{ "path": "/t/a.txt", "kind": "file", "bytes": 3 }], "truncated": false })))
            }
            "read_file" => Ok(RawJson::of(&json!({ "path": "/t/a.txt", "text": "abc", "bytes": 3, "truncated": false }))),
            "write_file" => Ok(RawJson::of(&json!({}))),
            other => Err(CallError::new(CallCode::NoTool, format!("no tool {other}"))),
        };
        Box::pin(std::future::ready(DryTool { answer, asks: call.tool == "write_file" }))
    }
    fn recorded(&self, call: &AgentCall) -> Option<RawJson> {
        (call.prompt == "known").then(|| RawJson::of(&json!("from before")))
    }
    fn graph(&self, slug: &Slug) -> Result<CalledGraph, CallError> {
        Err(CallError::new(CallCode::NoGraph, format!("no Graph {slug}")))
    }
}

async fn dry(source: &str, args: serde_json::Value) -> engine::DryReport {
    let settings = Settings::new(Slug::parse("dry").unwrap(), 1, Timestamp::from_ms(0));
    let script = Script::new(Slug::parse("dry").unwrap(), source);
    dry_run(&script, &RawJson::of(&args), settings, Arc::new(Port), &InProcessVm, ExecutionId::parse("dry-1").unwrap()).await
}

#[tokio::test]
async fn a_dry_run_warns_of_a_result_that_is_much_to_read() {
    let report = dry("return 'x'.repeat(20001)", json!({})).await;
    assert_eq!(
        report.warnings,
        ["The result is 20003 characters long, much for an agent to read. End with a summary, key values and the execution id."]
    );
    assert!(dry("return 'x'.repeat(19000)", json!({})).await.warnings.is_empty());
}

#[tokio::test]
async fn a_dry_run_keeps_to_the_ceiling_and_says_where_a_real_one_would_end() {
    let report = dry("for (;;) await agent('new', { max_tokens: 1000000 })", json!({})).await;
    let Outcome::Failed { why, .. } = &report.outcome else { panic!("{:?}", report.outcome) };
    assert_eq!(
        (why.as_str(), report.agents, report.worst_tokens),
        ("ceiling_reached", 49, 48 * (3 + 64 + 4_096)),
        "48 calls fit below 200,000 tokens"
    );
}

/// On the real clock: an hour of `sleep` must not take one.
#[tokio::test]
async fn a_dry_run_shows_agents_tokens_tools_and_phases_without_waiting() {
    let source = "phase('One'); await sleep(3600); const late = Date.now();\n\
        const a = await agent('known'); const b = await agent('new', { max_tokens: 100, tools: ['read_file'] });\n\
        const c = await agent('shaped', { max_tokens: 100, schema: { type: 'object', properties: { n: { type: 'integer', minimum: 3 } }, required: ['n'] } });\n\
        phase('Two'); await tool('write_file', {}); const yes = await ask('sure?', { options: ['yes', 'no'] });\n\
        return { late, a, b, n: c.n, yes }";
    let report = dry(source, json!({})).await;
    let Outcome::Completed { result, .. } = &report.outcome else { panic!("{:?}", report.outcome) };
    assert!(result.to_value()["late"].as_u64().unwrap() >= 3_600_000, "the script's clock did move");
    assert_eq!((&result.to_value()["a"], &result.to_value()["n"], &result.to_value()["yes"]), (&json!("from before"), &json!(3), &json!("yes")));
    assert_eq!((report.agents, report.recorded, report.agents_with_tools, report.questions), (3, 1, 1, 1));
    assert_eq!(report.phases, ["One", "Two"]);
    assert_eq!(report.tools["write_file"], (1, 1));
    // 3 + 64 + 100 for the second agent; 6 + 64, the schema's 80 + 64, and 100 for the third.
    let schema = r#"{"type":"object","properties":{"n":{"type":"integer","minimum":3}},"required":["n"]}"#.len() as u64;
    assert_eq!(report.worst_tokens, 3 + 64 + 100 + 6 + 64 + schema + 64 + 100);
}

#[tokio::test]
async fn every_template_runs_dry() {
    for (slug, args) in [
        ("folder-digest", json!({ "folder": "/t", "output": "/o" })),
        ("review-change-set", json!({ "diff": "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n" })),
        ("extract-table", json!({ "folder": "/t", "columns": [{ "name": "n", "type": "number" }], "output": "/o/t.csv" })),
        ("nightly-report", json!({ "folders": ["/t"], "output": "/o" })),
        ("ask-before-acting", json!({ "file": "/t/a.txt", "wish": "w" })),
    ] {
        let source = engine::TEMPLATES.iter().find(|(s, _)| *s == slug).unwrap().1;
        let report = dry(source, args).await;
        // What depends on a real answer may end in words; nothing may end by a limit or a crash.
        let reason = match &report.outcome {
            Outcome::Completed { .. } => "done",
            Outcome::Failed { why, .. } => why.as_str(),
            Outcome::Cancelled { .. } => "cancelled",
        };
        assert!(["done", "script_error"].contains(&reason), "{slug}: {:?}", report.outcome);
    }
}

#[test]
fn a_sample_is_valid_against_its_schema() {
    for schema in [
        json!({ "type": "object", "properties": { "a": { "type": "string", "minLength": 4 }, "b": { "type": "array", "items": { "enum": ["x"] }, "minItems": 2 } }, "required": ["a", "b"] }),
        json!({ "type": ["string", "null"] }),
        json!({ "anyOf": [{ "type": "number", "exclusiveMinimum": 2 }, { "type": "null" }] }),
        json!({ "$defs": { "n": { "type": "integer", "minimum": 7 } }, "type": "object", "properties": { "n": { "$ref": "#/$defs/n" } }, "required": ["n"] }),
        json!({ "properties": { "ok": { "type": "boolean" } }, "required": ["ok"] }),
        json!({ "const": { "z": 1 } }),
        json!(true),
    ] {
        let made = sample(&schema);
        assert!(jsonschema::validator_for(&schema).unwrap().is_valid(&made), "{schema}: {made}");
    }
    let endless = json!({ "$ref": "#" });
    assert_eq!(sample(&endless), json!(null));
}
