//! The store by itself: one process per profile, limits, versions, undo, history.
use device::store::{ExecutionQuery, GraphEdit, GraphError, NewExecution, Origin, SharingError, Store, StoreError};
use domain::{ExecutionId, FailReason, Outcome, Slug, Timestamp, completion::Used, wire::relay::SessionStatus};

use crate::world::{World, args, project_id};

fn t(ms: i64) -> Timestamp {
    Timestamp::from_ms(ms)
}

#[test]
fn two_processes_never_use_one_profile() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path(), t(0)).unwrap();
    assert!(matches!(Store::open(folder.path(), t(0)), Err(StoreError::InUse(_))));
    drop(store);
    Store::open(folder.path(), t(0)).unwrap();
}

#[test]
fn a_profile_of_a_newer_version_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    drop(Store::open(folder.path(), t(0)).unwrap());
    let raw = rusqlite::Connection::open(folder.path().join("desk.db")).unwrap();
    raw.pragma_update(None, "user_version", 999).unwrap();
    drop(raw);
    assert!(matches!(Store::open(folder.path(), t(0)), Err(StoreError::Newer { found: 999, .. })));
}

#[tokio::test(start_paused = true)]
async fn the_hundred_and_first_tick_is_refused_with_the_reason() {
    let world = World::new(0);
    for n in 0..100 {
        world.share(&format!("graph-{n}"));
    }
    let one_more = world.graph("one-more");
    let refused = world.store.tick(world.project, one_more, "{}", t(0)).unwrap_err();
    assert_eq!(refused.to_string(), "100 of 100 are ticked for Home. Untick one first.");
    world.store.tick(world.project, world.store.graph_by_slug(&Slug::parse("graph-7").unwrap()).unwrap().unwrap().id, "{}", t(0)).unwrap();
}

#[tokio::test(start_paused = true)]
async fn only_a_ready_graph_can_be_ticked() {
    let world = World::new(0);
    let graph = world.graph("draft");
    world.store.change_graph(graph, GraphEdit { status: Some(SessionStatus::Draft), ..GraphEdit::default() }, t(1)).unwrap();
    let refused = world.store.tick(world.project, graph, "{}", t(1)).unwrap_err();
    assert!(matches!(&refused, SharingError::NotReady { .. }) && refused.to_string().contains("draft"), "{refused}");
    assert!(matches!(world.store.tick(project_id(9), graph, "{}", t(1)), Err(SharingError::ProjectUnknown(_))));
}

#[tokio::test(start_paused = true)]
async fn every_change_an_agent_could_see_counts_the_revision_up_and_nothing_else_does() {
    let world = World::new(0);
    let graph = world.share("digest");
    let revision = || world.store.project(world.project).unwrap().unwrap().revision;
    let mut changes = world.store.sharing_changes();
    let mut last = revision();
    let mut counted = |what: &str, expected: bool| {
        assert_eq!(revision() > last, expected, "{what}");
        assert_eq!(changes.has_changed().unwrap(), expected, "{what} wakes the relay");
        changes.mark_unchanged();
        last = revision();
    };
    let edit = |edit: GraphEdit| world.store.change_graph(graph, edit, t(2)).unwrap();
    edit(GraphEdit { name: Some("New".into()), ..GraphEdit::default() });
    counted("rename", true);
    edit(GraphEdit { name: Some("New".into()), ..GraphEdit::default() });
    counted("the same name", false);
    edit(GraphEdit { description: Some("what it does".into()), ..GraphEdit::default() });
    counted("description", true);
    edit(GraphEdit { slug: Some(Slug::parse("other").unwrap()), ..GraphEdit::default() });
    counted("slug", true);
    edit(GraphEdit { status: Some(SessionStatus::Archived), ..GraphEdit::default() });
    counted("status", true);
    assert_eq!(world.store.save_version(graph, "return 2", &Default::default(), t(3)).unwrap(), 2);
    counted("a version", true);
    assert_eq!(world.store.save_version(graph, "return 2", &Default::default(), t(4)).unwrap(), 2);
    counted("the same source", false);
    world.store.delete_graph(graph, t(5)).unwrap();
    counted("deletion", true);
    world.store.undelete_graph(graph, t(6)).unwrap();
    counted("undo does not share again", false);
    edit(GraphEdit { status: Some(SessionStatus::Ready), ..GraphEdit::default() });
    counted("an unshared Graph", false);
    world.store.tick(world.project, graph, "{}", t(7)).unwrap();
    counted("tick", true);
    world.store.untick(world.project, graph).unwrap();
    counted("untick", true);
    world.store.enable_project(world.project, false).unwrap();
    counted("disable", true);
    world.store.enable_project(world.project, false).unwrap();
    counted("disabled already", false);
}

#[tokio::test(start_paused = true)]
async fn a_deleted_graphs_slug_is_free_and_undo_finds_another() {
    let world = World::new(0);
    let graph = world.share("digest");
    world.store.delete_graph(graph, t(1)).unwrap();
    assert!(world.store.graph(graph).unwrap().is_none() && world.store.ticks().unwrap().is_empty());
    let second = world.graph("digest");
    assert_eq!(world.store.undelete_graph(graph, t(2)).unwrap().slug.as_str(), "digest-2");
    let taken = world.store.change_graph(graph, GraphEdit { slug: Some(Slug::parse("digest").unwrap()), ..GraphEdit::default() }, t(3));
    assert!(matches!(taken, Err(GraphError::SlugTaken(_))));
    assert_eq!(world.store.graph_version(second, 1).unwrap().unwrap().source, "return args");
}

#[tokio::test(start_paused = true)]
async fn the_first_ending_of_an_execution_stands_and_the_history_finds_it() {
    let world = World::new(0);
    let graph = world.graph("digest");
    let id = |n: u8| ExecutionId::from_random([n; 16]);
    for n in 0..5 {
        let new = NewExecution {
            id: id(n),
            graph,
            graph_name: "Digest".into(),
            version: 1,
            args: args(),
            dry: false,
            resumed_from: None,
            origin: Origin::Owner,
        };
        world.store.begin_execution(&new, t(n.into())).unwrap();
    }
    let failed = Outcome::Failed { why: FailReason::ScriptError, error: "100%_sure".into(), used: Used { total_tokens: 7, cost: None } };
    assert!(world.store.end_execution(&id(1), &failed, &Default::default(), t(9)).unwrap());
    let done = Outcome::Completed { result: args(), used: Used::default() };
    assert!(!world.store.end_execution(&id(1), &done, &Default::default(), t(10)).unwrap());
    assert_eq!(world.store.execution(&id(1)).unwrap().unwrap().reason.as_deref(), Some("script_error"));
    let page = world.store.executions(&ExecutionQuery { limit: 2, ..Default::default() }).unwrap();
    assert_eq!((page.rows.len(), page.more, page.total), (2, true, 5));
    assert_eq!(page.rows[0].id, id(4));
    let next = world.store.executions(&ExecutionQuery { limit: 9, before: Some(page.rows[1].number), ..Default::default() }).unwrap();
    assert_eq!((next.rows.len(), next.more), (3, false));
    let found = world.store.executions(&ExecutionQuery { text: Some("0%_s".into()), limit: 9, ..Default::default() }).unwrap();
    assert_eq!(found.total, 1);
    assert_eq!(world.store.tokens_since(t(0)).unwrap(), 7);
    assert_eq!(world.store.end_interrupted(t(11)).unwrap().len(), 4);
    assert_eq!(world.store.execution(&id(0)).unwrap().unwrap().reason.as_deref(), Some("device_restarted"));
    assert!(world.store.outbox().unwrap().is_empty(), "the owner's own executions are nobody else's business");
}

fn log_event(seq: u64) -> domain::wire::event::FleetEvent {
    let text = "x".repeat(2_000);
    domain::wire::event::FleetEvent { seq, at: t(0), what: domain::wire::event::FleetWhat::Log { text } }
}

fn execution(n: u8) -> NewExecution {
    NewExecution {
        id: ExecutionId::from_random([n; 16]),
        graph: domain::GraphSessionId::from_random([n; 16]),
        graph_name: "Logs".into(),
        version: 1,
        args: args(),
        dry: false,
        resumed_from: None,
        origin: Origin::Owner,
    }
}

/// The story of an execution stays as long as its row in the history, and no longer.
#[test]
fn what_is_older_than_the_owner_keeps_goes_with_its_events_transcripts_and_answers() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path(), t(0)).unwrap();
    let answer = args();
    let text = "the relay asks the queue and the queue answers the relay; ".repeat(400);
    for (n, ended) in [(1u8, 10), (2, 20)] {
        let id = execution(n).id;
        store.begin_execution(&execution(n), t(0)).unwrap();
        store.append_events(&id, &[log_event(1)], Default::default()).unwrap();
        store.save_transcript(&id, 1, &[device::store::Piece { after: 1, at: t(1), text: text.clone() }]).unwrap();
        store.keep_answer(&id, "key", &answer).unwrap();
        let done = Outcome::Completed { result: args(), used: Used::default() };
        store.end_execution(&id, &done, &Default::default(), t(ended)).unwrap();
    }
    assert_eq!(store.prune_executions(t(15)).unwrap(), 1);
    store.prune_stories(t(15)).unwrap();
    let left = |n: u8| {
        let id = execution(n).id;
        let (events, texts) = (store.events(&id, 0).unwrap(), store.transcripts(&id).unwrap());
        (store.execution(&id).unwrap().is_some(), events.len(), texts.len(), store.journal(&id).unwrap().len())
    };
    assert_eq!((left(1), left(2)), ((false, 0, 0, 0), (true, 1, 1, 1)));
    assert_eq!(store.transcripts(&execution(2).id).unwrap()[0].1[0].text, text, "kept to the letter");
    drop(store);
    let on = rusqlite::Connection::open(folder.path().join("desk.db")).unwrap();
    let packed: i64 = on.query_row("SELECT sum(length(pieces)) FROM transcripts", [], |row| row.get(0)).unwrap();
    assert!(usize::try_from(packed).unwrap() * 10 < text.len(), "{packed} bytes for {}", text.len());
}

#[test]
fn three_graphs_log_while_the_history_is_read_and_nothing_is_ever_locked() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path(), t(0)).unwrap();
    std::thread::scope(|scope| {
        for n in 1..=3u8 {
            let store = store.clone();
            scope.spawn(move || {
                let id = execution(n).id;
                store.begin_execution(&execution(n), t(0)).unwrap();
                for batch in 0..400 {
                    let events: Vec<_> = (0..5).map(|i| log_event(batch * 5 + i + 1)).collect();
                    store.append_events(&id, &events, Default::default()).unwrap();
                }
                let done = Outcome::Completed { result: args(), used: Used::default() };
                store.end_execution(&id, &done, &Default::default(), t(1)).unwrap();
            });
        }
        for _ in 0..2 {
            let store = store.clone();
            scope.spawn(move || {
                while store
                    .executions(&ExecutionQuery { limit: 50, ..Default::default() })
                    .unwrap()
                    .rows
                    .iter()
                    .filter(|r| r.ended_at.is_some())
                    .count()
                    < 3
                {
                    store.events(&execution(1).id, 0).unwrap();
                }
            });
        }
    });
    assert_eq!(store.events(&execution(2).id, 1_990).unwrap().len(), 10);
    let log = std::fs::metadata(folder.path().join("desk.db-wal")).unwrap().len();
    assert!(log < 64 * 1024 * 1024, "{log} bytes of log");
}

#[test]
fn opening_a_profile_ends_what_a_dead_process_left_running() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path(), t(0)).unwrap();
    store.begin_execution(&execution(1), t(0)).unwrap();
    let totals = device::store::RunningTotals { tokens: 42, cost: Some(0.5), agents_done: 1, agents_failed: 0 };
    store.append_events(&execution(1).id, &[log_event(1)], totals).unwrap();
    drop(store);
    let store = Store::open(folder.path(), t(9)).unwrap();
    let record = store.execution(&execution(1).id).unwrap().unwrap();
    assert_eq!((record.reason.as_deref(), record.ended_at), (Some("device_restarted"), Some(t(9))));
    assert_eq!(record.totals, totals, "what it used is not forgotten");
    assert_eq!(store.events(&record.id, 0).unwrap().len(), 1);
}
