//! Reading in the browser, between the real relay and the real server: what is uploaded, when, and that it goes again.
#![allow(clippy::unwrap_used, clippy::expect_used)]
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use device::{
    ports::HttpSend,
    store::{ExecutionQuery, GraphEdit, VersionFacts},
};
use domain::{GraphSessionId, ProjectId};
use graph_sim::{
    clock,
    findings::Pickup,
    net::{Fate, Line},
    rng::Rng,
    world::{Desktop, World},
};
use serde_json::{Value, json};

const PROGRAM: &str = "return 'only for the owner'";

/// A request of the desktop about a Graph's text, like `PUT`, and its body.
type Sent = (String, Value);

/// What the owner's browser sees, and what the desktop sent for it.
struct Browser {
    world: World,
    desk: Desktop,
    home: ProjectId,
    work: ProjectId,
    line: Line,
    cookie: String,
    sent: Arc<Mutex<Vec<Sent>>>,
    /// What becomes of the desktop's next requests about texts.
    fates: Arc<Mutex<Vec<Fate>>>,
}

impl Browser {
    /// One desktop that is on, with the projects Home and Work, both enabled, neither readable.
    async fn open() -> Self {
        let world = World::open(Rng::new(11)).await.unwrap();
        let mut desk = world.desktop("Ada", "desk", Pickup::Doorbell).await.unwrap();
        let mut ids = Vec::new();
        for name in ["Home", "Work"] {
            ids.push(desk.client.create_project(name).await.unwrap().project_id);
        }
        desk.enable(ids[0]).await.unwrap();
        desk.enable(ids[1]).await.unwrap();
        let (sent, fates) = (Arc::<Mutex<Vec<Sent>>>::default(), Arc::<Mutex<Vec<Fate>>>::default());
        let (log, next) = (Arc::clone(&sent), Arc::clone(&fates));
        desk.line.set_judge(move |request| {
            // Which texts are there is asked under the path without an id.
            if !request.uri().path().starts_with("/external-assistants/graphs/") {
                return None;
            }
            log.lock().unwrap().push((request.method().to_string(), serde_json::from_slice(request.body()).unwrap_or(Value::Null)));
            let mut next = next.lock().unwrap();
            if next.is_empty() { None } else { Some(next.remove(0)) }
        });
        let line = world.line("browser");
        let code: Value = desk.client.sign_in_code().await.unwrap();
        let signed = ask(&line, "POST", "sign-in", "", json!({ "code": code["sign_in_code"] }).to_string()).await;
        let cookie = signed.headers()["set-cookie"].to_str().unwrap().split(';').next().unwrap().to_owned();
        desk.switch_on().unwrap();
        Self { world, desk, home: ids[0], work: ids[1], line, cookie, sent, fates }
    }

    /// A ready Graph ticked for these projects.
    fn graph(&self, slug: &str, n: u8, projects: &[ProjectId]) -> GraphSessionId {
        let id = self.desk.make_graph(slug, GraphSessionId::from_random([n; 16])).unwrap();
        self.desk.store.save_version(id, PROGRAM, &VersionFacts::default(), self.desk.now()).unwrap();
        for project in projects {
            self.desk.store.tick(*project, id, "{}", self.desk.now()).unwrap();
        }
        id
    }

    /// The sources readable in the browser, by the Graphs' names.
    async fn readable(&self) -> Vec<(String, String)> {
        let listed = ask(&self.line, "GET", "graphs", &self.cookie, String::new()).await;
        let listed: Value = serde_json::from_slice(listed.body()).unwrap();
        let mut seen = Vec::new();
        for graph in listed["items"].as_array().unwrap() {
            let path = format!("graphs/{}", graph["graph_session_id"].as_str().unwrap());
            let text: Value = serde_json::from_slice(ask(&self.line, "GET", &path, &self.cookie, String::new()).await.body()).unwrap();
            seen.push((graph["name"].as_str().unwrap().to_owned(), text["source"].as_str().unwrap().to_owned()));
        }
        seen
    }

    async fn names(&self) -> Vec<String> {
        self.readable().await.into_iter().map(|(name, _)| name).collect()
    }

    /// The texts the server's database holds, whatever it shows.
    fn stored(&self) -> i64 {
        let database = rusqlite::Connection::open(self.world.database()).unwrap();
        database.query_row("SELECT count(*) FROM readable_graphs", [], |row| row.get(0)).unwrap()
    }

    fn methods(&self) -> Vec<String> {
        self.sent.lock().unwrap().iter().map(|(method, _)| method.clone()).collect()
    }

    async fn seconds(&self, n: u64) {
        clock::sleep_ms(n * 1000).await;
    }
}

async fn ask(line: &Line, method: &str, path: &str, cookie: &str, body: String) -> http::Response<Bytes> {
    let request = http::Request::builder().method(method).uri(format!("http://queue.sim/owner/api/{path}"));
    let request = request.header("cookie", cookie).header("content-type", "application/json").body(Bytes::from(body)).unwrap();
    line.send(request, std::time::Duration::from_secs(10)).await.unwrap()
}

#[test]
fn nothing_is_uploaded_without_the_owners_switch() {
    clock::run(async {
        let b = Browser::open().await;
        let graph = b.graph("shared", 1, &[b.home, b.work]);
        b.desk.store.save_version(graph, "return 2", &VersionFacts::default(), b.desk.now()).unwrap();
        b.seconds(120).await;
        assert_eq!((b.methods(), b.stored()), (Vec::new(), 0), "shared and saved anew, yet no request about its text");
        b.graph("unticked", 2, &[]);
        b.graph("elsewhere", 3, &[b.work]);
        b.desk.store.make_project_readable(b.home, true).unwrap();
        b.seconds(3).await;
        assert_eq!(b.readable().await, [("Graph shared".into(), "return 2".into())], "of this project's ticked ones, and of them alone");
        let (_, body) = b.sent.lock().unwrap()[0].clone();
        assert_eq!(body, json!({"name": "Graph shared", "text": "return 2"}), "and nothing else of it");
        assert_eq!(b.methods(), ["PUT"]);
    })
    .unwrap();
}

#[test]
fn a_readable_graph_is_sent_again_when_it_changes_and_only_then() {
    clock::run(async {
        let b = Browser::open().await;
        let graph = b.graph("one", 1, &[b.home]);
        b.desk.store.make_project_readable(b.home, true).unwrap();
        b.seconds(120).await;
        assert_eq!(b.methods(), ["PUT"], "passes repeat nothing");
        b.desk.store.save_version(graph, "return 'newer'", &VersionFacts::default(), b.desk.now()).unwrap();
        b.seconds(3).await;
        b.desk.store.change_graph(graph, GraphEdit { name: Some("Renamed".into()), ..GraphEdit::default() }, b.desk.now()).unwrap();
        b.seconds(3).await;
        assert_eq!(b.readable().await, [("Renamed".into(), "return 'newer'".into())]);
        b.desk.store.change_graph(graph, GraphEdit { description: Some("Else".into()), ..GraphEdit::default() }, b.desk.now()).unwrap();
        b.seconds(120).await;
        assert_eq!(b.methods(), ["PUT", "PUT", "PUT"]);
        let state = b.desk.store.readable_state().unwrap();
        assert_eq!((state.readable, state.uploading, state.removing), (1, 0, 0));
    })
    .unwrap();
}

#[test]
fn whatever_takes_consent_back_removes_the_text() {
    type Undo = fn(&Browser, GraphSessionId);
    let undos: [(&str, Undo); 5] = [
        ("switched off", |b, _| b.desk.store.make_project_readable(b.home, false).unwrap()),
        ("unticked", |b, graph| b.desk.store.untick(b.home, graph).unwrap()),
        ("disabled", |b, _| b.desk.store.enable_project(b.home, false).unwrap()),
        ("deleted", |b, graph| b.desk.store.delete_graph(graph, b.desk.now()).unwrap()),
        ("project gone", |b, _| {
            let listed = [domain::wire::relay::Project { project_id: b.work, name: "Work".into() }];
            b.desk.store.put_projects(&listed, b.desk.now()).unwrap();
        }),
    ];
    for (what, undo) in undos {
        clock::run(async {
            let b = Browser::open().await;
            let graph = b.graph("one", 1, &[b.home]);
            b.graph("two", 2, &[b.work]);
            b.desk.store.make_project_readable(b.home, true).unwrap();
            b.desk.store.make_project_readable(b.work, true).unwrap();
            b.seconds(3).await;
            assert_eq!(b.names().await, ["Graph one", "Graph two"], "{what}");
            undo(&b, graph);
            b.seconds(3).await;
            assert_eq!((b.names().await, b.stored()), (vec!["Graph two".to_owned()], 1), "{what}");
            b.seconds(60).await;
            assert_eq!(b.methods(), ["PUT", "PUT", "DELETE"], "{what}: answered once, it is asked no more");
        })
        .unwrap();
    }
}

#[test]
fn a_text_ticked_for_two_readable_projects_stays_until_the_last_takes_it_back() {
    clock::run(async {
        let b = Browser::open().await;
        let graph = b.graph("one", 1, &[b.home, b.work]);
        b.desk.store.make_project_readable(b.home, true).unwrap();
        b.desk.store.make_project_readable(b.work, true).unwrap();
        b.seconds(3).await;
        b.desk.store.make_project_readable(b.home, false).unwrap();
        b.seconds(30).await;
        assert_eq!((b.names().await.len(), b.methods().len()), (1, 1));
        b.desk.store.untick(b.work, graph).unwrap();
        b.seconds(3).await;
        assert_eq!(b.stored(), 0);
    })
    .unwrap();
}

#[test]
fn a_removal_is_repeated_until_it_is_answered_through_losses_and_restarts() {
    clock::run(async {
        let mut b = Browser::open().await;
        b.graph("one", 1, &[b.home]);
        // The server takes the text, and the desktop never hears of it: it must not forget what may be there.
        b.fates.lock().unwrap().extend([Fate::LoseAnswer, Fate::LoseRequest, Fate::LoseRequest, Fate::LoseAnswer]);
        b.desk.store.make_project_readable(b.home, true).unwrap();
        b.seconds(2).await;
        assert_eq!((b.stored(), b.desk.store.readable_state().unwrap().uploading), (1, 1));
        b.desk.store.make_project_readable(b.home, false).unwrap();
        b.seconds(2).await;
        b.desk.crash().await;
        b.desk.switch_on().unwrap();
        b.seconds(5).await;
        let state = b.desk.store.readable_state().unwrap();
        assert!(state.removing == 1 && state.last_error.is_some(), "the owner is told that it may still be there: {state:?}");
        b.seconds(120).await;
        assert_eq!((b.stored(), b.desk.store.readable_state().unwrap()), (0, Default::default()));
        assert_eq!(b.methods(), ["PUT", "DELETE", "DELETE", "DELETE", "DELETE"]);
    })
    .unwrap();
}

#[test]
fn what_a_restored_queue_holds_too_much_goes_and_what_it_lacks_is_sent_again() {
    clock::run(async {
        let mut b = Browser::open().await;
        let kept = b.graph("kept", 1, &[b.home]);
        b.desk.store.make_project_readable(b.home, true).unwrap();
        b.seconds(3).await;
        assert_eq!(b.stored(), 1);
        // As after a restore: a text that was withdrawn is back, one that was uploaded since is gone.
        let gone = b.graph("gone", 2, &[b.work]);
        b.desk.client.put_graph(gone, &json!({"name": "Graph gone", "text": "withdrawn"})).await.unwrap();
        b.desk.client.delete_graph(kept).await.unwrap();
        b.seconds(30).await;
        assert_eq!(b.names().await, ["Graph gone"], "nobody knows yet");
        b.desk.quit().await;
        b.desk.switch_on().unwrap();
        b.seconds(5).await;
        assert_eq!(b.readable().await, [("Graph kept".into(), PROGRAM.into())], "a start compares");
        b.desk.client.delete_graph(kept).await.unwrap();
        b.seconds(3_700).await;
        assert_eq!(b.names().await, ["Graph kept"], "and so does every hour");
    })
    .unwrap();
}

#[test]
fn a_text_is_withdrawn_while_a_command_runs() {
    clock::run(async {
        let b = Browser::open().await;
        let graph = b.graph("one", 1, &[b.home]);
        b.desk.store.make_project_readable(b.home, true).unwrap();
        b.seconds(3).await;
        let (agent, _) = b.world.agent(&b.desk, "Claude", &[b.home]).await.unwrap();
        agent.run(&graph.to_string(), json!({ "run_ms": 600_000 }), "key-00001").await.unwrap();
        b.seconds(10).await;
        assert!(b.desk.status().unwrap().busy.is_some(), "a long command is running");
        b.desk.store.make_project_readable(b.home, false).unwrap();
        b.seconds(2).await;
        assert_eq!((b.stored(), b.desk.status().unwrap().busy.is_some()), (0, true));
    })
    .unwrap();
}

#[test]
fn a_text_the_server_refuses_is_tried_ever_more_rarely_and_holds_up_nothing() {
    clock::run(async {
        let b = Browser::open().await;
        let held = b.graph("held", 1, &[]);
        b.graph("fine", 2, &[b.home]);
        let other = b.world.desktop("Eve", "elsewhere", Pickup::Doorbell).await.unwrap();
        other.client.put_graph(held, &json!({"name": "x", "text": "y"})).await.unwrap();
        b.desk.store.tick(b.home, held, "{}", b.desk.now()).unwrap();
        b.desk.store.make_project_readable(b.home, true).unwrap();
        b.seconds(600).await;
        let mut sent: Vec<_> = b.sent.lock().unwrap().iter().map(|(_, body)| body["name"].to_string()).collect();
        sent.sort();
        let (fine, refused) = (sent.iter().filter(|name| name.contains("fine")).count(), sent.iter().filter(|name| name.contains("held")).count());
        assert!(fine == 1 && (3..=5).contains(&refused), "after 40, 80, 160 and 320 s: {sent:?}");
        let state = b.desk.store.readable_state().unwrap();
        assert!(state.uploading == 1 && state.last_error.as_deref().is_some_and(|e| e.contains("not this device's")), "{state:?}");
        // Taken back, the refused one is asked for at once, and what another holds is left alone.
        b.desk.store.make_project_readable(b.home, false).unwrap();
        b.seconds(3).await;
        assert_eq!((b.desk.store.readable_state().unwrap(), b.stored()), (Default::default(), 1));
    })
    .unwrap();
}

#[test]
fn texts_that_do_not_get_through_hold_up_no_command() {
    for fate in [Fate::Hang, Fate::Forge(Bytes::from_static(b"<html>Uploads are not allowed here</html>"))] {
        clock::run(async {
            let b = Browser::open().await;
            let graph = b.graph("one", 1, &[b.home]);
            b.fates.lock().unwrap().extend(std::iter::repeat_n(fate.clone(), 100));
            b.desk.store.make_project_readable(b.home, true).unwrap();
            b.seconds(3).await;
            let (agent, _) = b.world.agent(&b.desk, "Claude", &[b.home]).await.unwrap();
            for n in 0..5 {
                agent.run(&graph.to_string(), json!({ "run_ms": 1_000 }), &format!("key-0000{n}")).await.unwrap();
                b.seconds(7).await;
                let ended = b.desk.store.executions(&ExecutionQuery { limit: 100, ..Default::default() }).unwrap();
                assert_eq!(ended.rows.iter().filter(|run| run.ended_at.is_some()).count(), n + 1, "{fate:?}");
            }
            b.fates.lock().unwrap().clear();
            b.seconds(700).await;
            assert_eq!(b.stored(), 1, "{fate:?}: and once they get through, it is there");
        })
        .unwrap();
    }
}

#[test]
fn a_text_that_is_told_to_wait_quiets_the_whole_relay_until_then() {
    clock::run(async {
        let b = Browser::open().await;
        let graph = b.graph("one", 1, &[b.home]);
        b.seconds(30).await;
        b.fates.lock().unwrap().push(Fate::Busy(60));
        b.desk.store.make_project_readable(b.home, true).unwrap();
        b.seconds(3).await;
        let (agent, _) = b.world.agent(&b.desk, "Claude", &[b.home]).await.unwrap();
        agent.run(&graph.to_string(), json!({ "run_ms": 1_000 }), "key-00001").await.unwrap();
        let runs = || b.desk.store.executions(&ExecutionQuery { limit: 100, ..Default::default() }).unwrap().rows;
        b.seconds(50).await;
        assert_eq!((runs().len(), b.stored(), b.methods().len()), (0, 0, 1), "neither a claim nor another text, although the doorbell rang");
        let trouble = b.desk.status().unwrap().trouble;
        assert!(trouble.as_ref().is_some_and(|t| t.words.text.contains("asks to wait") && !t.offline), "{trouble:?}");
        b.seconds(20).await;
        assert_eq!((runs().iter().filter(|run| run.ended_at.is_some()).count(), b.stored()), (1, 1));
        assert_eq!(b.desk.status().unwrap().trouble, None);
    })
    .unwrap();
}
