//! What authors read is made from the table the functions are registered from.
use std::path::{Path, PathBuf};

use super::support::{Run, golden, shown};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

#[test]
fn the_declarations_and_the_completion_are_those_of_the_table() {
    golden(&Path::new(env!("CARGO_MANIFEST_DIR")).join("graph.d.ts"), &engine::api::declarations());
    golden(&root().join("ui/src/generated/graph-api.json"), &engine::api::completion_json());
}

#[test]
fn the_guides_reference_is_that_of_the_table() {
    let path = root().join("docs/graphs.md");
    let text = std::fs::read_to_string(&path).unwrap();
    let (begin, end) = ("<!-- reference: made from crates/engine/src/api.rs -->\n", "<!-- end of reference -->\n");
    let (head, rest) = text.split_once(begin).expect("the guide has its mark");
    let (_, tail) = rest.split_once(end).expect("the guide has its end mark");
    golden(&path, &format!("{head}{begin}\n{}\n{end}{tail}", engine::api::reference()));
}

#[tokio::test(start_paused = true)]
async fn the_guides_numbers_are_those_of_the_code() {
    use domain::limits as l;
    let text = std::fs::read_to_string(root().join("docs/graphs.md")).unwrap();
    for claim in [
        format!("{} KiB", l::SOURCE_BYTES_MAX / 1024),
        format!("{} levels of brackets", l::SOURCE_DEPTH_MAX),
        format!("{} MiB of memory", l::VM_HEAP_BYTES_MAX / l::MIB),
        format!("{} seconds at a time", l::VM_BUSY_MS_MAX / 1000),
        format!("{} agents", l::AGENTS_PER_EXECUTION_MAX),
        format!("{} MiB of result", l::RESULT_BYTES_MAX / l::MIB),
        format!("{} levels of nesting", l::JSON_DEPTH_MAX),
        format!("{} host calls", l::HOST_CALLS_MAX),
    ] {
        let plain = text.replace(',', "");
        assert!(plain.contains(&claim), "docs/graphs.md does not say: {claim}");
    }
}

/// Every name of the table is in scope, nothing else is, and none can be overwritten.
#[tokio::test(start_paused = true)]
async fn the_scope_is_what_the_table_says() {
    let names: Vec<String> = engine::api::API.iter().map(|item| format!("typeof {}", item.name)).collect();
    let outcome = shown(&Run::in_process().run(&format!("return [{}]", names.join(","))).await);
    assert!(!outcome.contains("undefined"), "{outcome}");
    let source = "return Object.getOwnPropertyNames(globalThis).filter(k => { const d = Object.getOwnPropertyDescriptor(globalThis, k); return !d.writable && !d.configurable && !['undefined', 'NaN', 'Infinity'].includes(k) }).sort()";
    let mut expected: Vec<&str> = engine::api::API.iter().map(|item| item.name).collect();
    expected.sort_unstable();
    assert_eq!(shown(&Run::in_process().run(source).await), format!("= {}", serde_json::to_string(&expected).unwrap()));
    for absent in ["fetch", "process", "require", "setTimeout", "console", "WebAssembly"] {
        assert_eq!(shown(&Run::in_process().run(&format!("return typeof {absent}")).await), r#"= "undefined""#, "{absent}");
    }
}
