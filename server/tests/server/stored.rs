//! Invariant 11: databases of earlier releases and of earlier days: migrations from every stored schema, and a queue restored from a backup.
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use server::store::{Durability, Place, SCHEMA_VERSION};

use crate::{
    cluster::Cluster,
    world::{Agent, Desk, NOTFOUND, World, done, session},
};

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures/schemas")
}

/// A copy of a database file, in a folder of its own.
fn copied(file: &Path) -> (tempfile::TempDir, Place) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("q.db");
    std::fs::copy(file, &path).unwrap();
    (dir, Place::Sqlite { path, durability: Durability::None })
}

fn layout(path: &Path) -> Vec<(String, Option<String>)> {
    let conn = rusqlite::Connection::open(path).unwrap();
    let mut statement = conn.prepare("SELECT name, sql FROM sqlite_master ORDER BY name").unwrap();
    statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap().map(Result::unwrap).collect()
}

/// What the stored queues hold: Ada, her desktop, the Graph session `echo` in the project Home, one completed command.
async fn is_the_stored_queue(w: &World) {
    w.pass_ms(6 * 3_600_000); // it was stored in the afternoon of this world's day
    let owners = w.app.queue.all_owners().await.unwrap();
    let ada = owners.iter().find(|o| o.name == "Ada").unwrap();
    assert_eq!((ada.devices, ada.agents), (1, 1));
    let device = w.app.queue.all_devices().await.unwrap().remove(0);
    // Only hashes are stored, so the desktop pairs again and keeps its identity.
    let code = w.app.pair_code("Ada").await.unwrap().code;
    let body = json!({"pairing_code": code, "device_name": "Again", "device_id": device.device.id});
    let paired = w.device("POST", "pair", "", body.to_string()).await.ok();
    assert_eq!(paired["device_id"], json!(device.device.id));
    let desk = Desk { world: w, id: String::new(), token: paired["device_token"].as_str().unwrap().into() };
    let commands = desk.get("commands").await;
    assert!(commands.text.contains(r#""result":{"got":{"z":1,"big":9007199254740992}}"#), "{}", commands.text);
    assert_eq!(commands.json()["commands"][0]["status"], "completed");
    let project = desk.get("projects").await.ok()["projects"][0]["project_id"].as_str().unwrap().to_owned();
    let agent = desk.agent(&[&project], &[crate::world::READ, crate::world::RUN]).await;
    let listed = agent.call("list_graph_sessions", &json!({ "project_id": project }).to_string()).await.ok().clone();
    assert_eq!(listed["sessions"][0]["slug"], "echo");
    let run = json!({"graph_session_id": listed["sessions"][0]["graph_session_id"], "idempotency_key": "key-00001"});
    assert_eq!(agent.call("run_graph_session", &run.to_string()).await.ok()["status"], "queued", "and it goes on from there");
}

#[tokio::test]
async fn every_stored_schema_opens_and_becomes_todays() {
    let new = World::sqlite().await;
    let Place::Sqlite { path: today, .. } = &new.place else { panic!() };
    let mut versions = Vec::new();
    for entry in std::fs::read_dir(fixtures()).unwrap() {
        let file = entry.unwrap().path();
        let name = file.file_name().unwrap().to_string_lossy().into_owned();
        let Some(version) = name.strip_prefix("queue-schema-").and_then(|n| n.strip_suffix(".db")) else { continue };
        versions.push(version.parse::<i64>().unwrap());
        let (dir, place) = copied(&file);
        let w = World::at(place, Some(dir)).await;
        let Place::Sqlite { path, .. } = &w.place else { panic!() };
        assert_eq!(layout(path), layout(today), "{name}");
        assert_eq!(w.app.queue.integrity().await.unwrap(), "ok");
        is_the_stored_queue(&w).await;
    }
    versions.sort_unstable();
    assert_eq!(versions.last(), Some(&SCHEMA_VERSION), "a landing that changes the schema stores a database of it: tests/fixtures/schemas/README.md");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_schema_stored_from_postgres_opens_there() {
    let cluster = Cluster::start();
    let mut seen = 0;
    for entry in std::fs::read_dir(fixtures()).unwrap() {
        let file = entry.unwrap().path();
        if file.extension().is_none_or(|e| e != "sql") {
            continue;
        }
        seen += 1;
        let place = cluster.place().await;
        cluster.run(&place, &std::fs::read_to_string(&file).unwrap()).await;
        let w = World::at(place, None).await;
        is_the_stored_queue(&w).await;
        w.app.close().await;
    }
    assert!(seen >= 1);
}

#[tokio::test]
async fn a_database_of_a_newer_program_is_left_alone() {
    let w = World::sqlite().await;
    let Place::Sqlite { path, .. } = &w.place else { panic!() };
    let newer = path.with_file_name("newer.db");
    w.app.queue.backup(&newer).unwrap();
    rusqlite::Connection::open(&newer).unwrap().pragma_update(None, "user_version", SCHEMA_VERSION + 1).unwrap();
    let before = std::fs::read(&newer).unwrap();
    let config = server::Config::at(Place::Sqlite { path: newer.clone(), durability: Durability::None }, crate::world::URL);
    let refused = server::App::open(config, std::sync::Arc::new(|| domain::Timestamp::from_ms(0)), std::sync::Arc::new(|_: &mut [u8]| {})).await;
    assert!(refused.is_err_and(|e| e.to_string().contains("this program knows up to")));
    let aside = path.with_file_name("aside.db");
    assert!(server::store::restore(&newer, &path.with_file_name("other.db"), &aside).is_err(), "nor is it put into the place of one");
    let rows = rusqlite::Connection::open(&newer).unwrap().query_row("SELECT count(*) FROM owners", [], |row| row.get::<_, i64>(0)).unwrap();
    assert_eq!((rows, before.is_empty(), aside.exists()), (0, false, false));
}

async fn doorbell(desk: &Desk<'_>, project: &str, after: u64) -> Value {
    desk.doorbell(project, after, 25_000).await.ok()
}

/// Case C65 and the doorbell: what devices and agents see of a queue that forgot a day.
#[tokio::test]
async fn a_restored_queue_tells_what_it_knows_and_takes_what_devices_know() {
    let mut w = World::sqlite().await;
    let (ids, tokens, project, after);
    {
        let (desk, p, agent) = w.set_up().await;
        let waiting = agent.run("key-00001").await;
        let running = agent.run("key-00002").await;
        desk.start(&running, "e2").await.ok();
        let Place::Sqlite { path, .. } = &w.place else { panic!() };
        let yesterday = path.with_file_name("yesterday.db");
        w.app.queue.backup(&yesterday).unwrap();
        assert!(w.app.queue.backup(&yesterday).is_err(), "no copy is written over");
        // A day that will be forgotten: both end, a third is made and ends, another agent comes and goes.
        desk.start(&waiting, "e1").await.ok();
        desk.complete(&waiting, done("e1", r#""first""#)).await.ok();
        desk.complete(&running, done("e2", r#""second""#)).await.ok();
        let lost = agent.run("key-00003").await;
        after = doorbell(&desk, &p, 0).await["seq"].as_u64().unwrap();
        desk.start(&lost, "e3").await.ok();
        assert_eq!(desk.delete(&format!("agents/{}", agent.id)).await.status, 200);
        ids = [waiting, running, lost];
        tokens = (desk.token.clone(), agent.token.clone());
        project = p;
    }
    w.restart_on("yesterday.db").await;
    let desk = Desk { world: &w, id: String::new(), token: tokens.0 };
    let agent = Agent { world: &w, id: String::new(), token: tokens.1 };
    // Agents read what the queue knows, not what was: the revocation is forgotten, too (docs/operating.md says so).
    assert_eq!((agent.state(&ids[0]).await, agent.state(&ids[1]).await), ("queued -".into(), "running -".into()));
    assert_eq!(agent.call("get_graph_run", &json!({"command_id": ids[2]}).to_string()).await.refused(), NOTFOUND);

    // The device asks with a number the restored queue has not reached: it is told so at once, and is rung for what is new.
    let quiet = doorbell(&desk, &project, after).await;
    let counted = quiet["seq"].as_u64().unwrap();
    assert!(quiet["rang"] == false && counted < after, "{quiet}");
    assert_eq!(doorbell(&desk, &project, u64::MAX).await["seq"], json!(counted));
    let again = agent.run("key-00003").await;
    assert_ne!(again, ids[2], "the queue has no memory of the first command of this key");
    assert_eq!(doorbell(&desk, &project, counted).await["rang"], true);

    // What the device finished is reported again and taken, from queued as from running; of the forgotten one it is told once and for all.
    let sync = desk.share(&project, 1, &[session(1)]).await;
    assert_eq!(sync["running"], json!([{"command_id": ids[1], "execution_id": "e2"}]));
    assert_eq!(desk.complete(&ids[0], done("e1", r#""first""#)).await.ok(), json!({"recorded": true, "status": "completed"}));
    assert_eq!(desk.complete(&ids[1], done("e2", r#""second""#)).await.ok(), json!({"recorded": true, "status": "completed"}));
    let unknown = desk.complete(&ids[2], done("e3", "3")).await;
    assert_eq!((unknown.status, unknown.code(), unknown.json()["error"]["retryable"].as_bool()), (404, "command_not_found".into(), Some(false)));
    assert_eq!((agent.get(&ids[0]).await["result"].clone(), agent.get(&ids[1]).await["result"].clone()), (json!("first"), json!("second")));
    assert_eq!(desk.offered(&project).await, [again]);
}
