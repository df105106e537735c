//! Invariant 11: profiles of earlier releases: each one that was stored opens, becomes today's and can be read.
use std::path::Path;

use device::store::{ExecutionQuery, Store};
use domain::Timestamp;

fn schema_of(profile: &Path) -> i64 {
    let raw = rusqlite::Connection::open(profile.join("desk.db")).unwrap();
    raw.pragma_query_value(None, "user_version", |row| row.get(0)).unwrap()
}

#[test]
fn every_stored_profile_opens_and_becomes_todays() {
    let new = tempfile::tempdir().unwrap();
    drop(Store::open(new.path(), Timestamp::from_ms(0)).unwrap());
    let today = schema_of(new.path());
    let mut versions = Vec::new();
    for entry in std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/schemas")).unwrap() {
        let file = entry.unwrap().path();
        let name = file.file_name().unwrap().to_string_lossy().into_owned();
        let Some(version) = name.strip_prefix("desk-schema-").and_then(|n| n.strip_suffix(".db")) else { continue };
        versions.push(version.parse::<i64>().unwrap());
        let profile = tempfile::tempdir().unwrap();
        std::fs::copy(&file, profile.path().join("desk.db")).unwrap();
        let store = Store::open(profile.path(), Timestamp::from_ms(1_796_000_000_000)).unwrap();
        is_the_stored_profile(&store);
        drop(store);
        assert_eq!(schema_of(profile.path()), today, "{name}");
    }
    versions.sort_unstable();
    assert_eq!(versions.last(), Some(&today), "a landing that changes the schema stores a profile of it: tests/fixtures/schemas/README.md");
}

/// What the stored profiles hold: the Graph `echo` ticked for the project Home, and one command of the agent Claude that it ended.
fn is_the_stored_profile(store: &Store) {
    let graphs = store.graphs().unwrap();
    assert_eq!((graphs.len(), graphs[0].slug.as_str(), graphs[0].version), (1, "echo", 1));
    assert!(store.graph_version(graphs[0].id, 1).unwrap().unwrap().source.contains("args"));
    let projects = store.projects().unwrap();
    assert!(projects.len() == 1 && projects[0].name == "Home" && projects[0].enabled);
    assert_eq!(store.ticks().unwrap().iter().map(|t| (t.project, t.graph)).collect::<Vec<_>>(), [(projects[0].id, graphs[0].id)]);
    assert_eq!(store.pairing().unwrap().unwrap().owner, "Ada");
    assert!(store.outbox().unwrap().is_empty());
    let history = store.executions(&ExecutionQuery { limit: 10, ..ExecutionQuery::default() }).unwrap();
    assert_eq!((history.rows.len(), history.total), (1, 1));
    let ran = &history.rows[0];
    assert_eq!(ran.result.as_ref().unwrap().as_str(), r#"{"got":{"z":1,"big":9007199254740992}}"#);
    assert_eq!(store.events(&ran.id, 0).unwrap().len(), 2);
}
