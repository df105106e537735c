//! Graph Queue alone: durable enqueues, tool calls against a bare no-op tool, and whether cost grows with history.
use std::{path::Path, sync::Arc, time::Instant};

use serde_json::{Value, json};

use crate::{
    bare,
    load::load,
    postgres::Cluster,
    programs::{self, Program},
    setting::{self, Setting, call},
    stats::{Spread, ms},
};

/// Callers at once, and calls of them all together.
const CALLERS: [usize; 4] = [1, 10, 32, 64];
const CALLS: usize = 3_200;
/// Calls of one round where two things are measured in turn.
const ROUND: usize = 640;
const ROUNDS: usize = 7;

pub fn start(dir: &Path) -> (Program, String) {
    let database = dir.join("queue.db");
    start_on(database.to_str().unwrap())
}

fn start_on(database: &str) -> (Program, String) {
    let queue = programs::queue("127.0.0.1:0", database);
    let base = queue.first_line.strip_prefix("listening on ").unwrap().to_owned();
    (queue, base)
}

pub async fn measure(fsync_ms: f64) -> Value {
    let dir = tempfile::tempdir_in(programs::scratch()).unwrap();
    let database = dir.path().join("queue.db");
    // The first start makes the database; the second is what a restart costs.
    let made_ms = start(dir.path()).0.started_ms;
    let (queue, base) = start(dir.path());
    let (cold_ms, idle_mib) = (queue.started_ms, queue.rss_mib());
    println!("\nGraph Queue on SQLite: start {} (first one {}), {idle_mib:.1} MiB idle", ms(cold_ms), ms(made_ms));
    let setting = Setting::make(&base, &programs::pairing_code(database.to_str().unwrap())).await;

    let bare = programs::myself(bare::WORD);
    let bare_url = format!("{}/mcp", bare.first_line.strip_prefix("listening on ").unwrap());
    let no_op = |callers: usize| {
        let (http, url) = (setting.http.clone(), bare_url.clone());
        load(callers, ROUND / callers, move |_| {
            let (http, url) = (http.clone(), url.clone());
            async move {
                call(&http, &url, "none", "no_op", json!({})).await;
            }
        })
    };

    let alone = devices(&base, database.to_str().unwrap(), 50).await;
    let mut rounds = 0;
    let ((own, _), (first, _)) = in_turn(
        || tool_load(&setting, 1, ROUND, "list_projects", json!({})),
        || {
            rounds += 1;
            run_load(alone.clone(), format!("alone-{rounds}"), 1, ROUND)
        },
    )
    .await;
    println!(
        "  run_graph_session alone: no-op tool ({}) + {} (allowed: 0.3 ms + 2 fsyncs = {})",
        ms(own.p50),
        ms(first.p50 - own.p50),
        ms(0.3 + 2.0 * fsync_ms)
    );
    let enqueue = enqueues(&base, database.to_str().unwrap()).await;

    let command = setting.enqueue("bench-one-to-read").await;
    let read = json!({"command_id": command});
    let ((bare_one, bare_rate), (get, get_rate)) = in_turn(|| no_op(1), || tool_load(&setting, 1, ROUND, "get_graph_run", read.clone())).await;
    let ((_, bare_rate_32), (_, get_rate_32)) = in_turn(|| no_op(32), || tool_load(&setting, 32, ROUND, "get_graph_run", read.clone())).await;
    println!("  no-op tool of the bare library: {} ({bare_rate:.0}/s; 32 callers {bare_rate_32:.0}/s)", ms(bare_one.p50));
    println!(
        "  get_graph_run {} ({get_rate:.0}/s; 32 callers {get_rate_32:.0}/s): {:.2} × bare p50 (≤ 1.6), {:.2} × bare throughput (≥ 0.5)",
        ms(get.p50),
        get.p50 / bare_one.p50,
        get_rate_32 / bare_rate_32
    );
    let s = setting.clone();
    load(32, 10_000 / 32, move |n| {
        let s = s.clone();
        async move {
            s.enqueue(&format!("bench-fill-{n:08}")).await;
        }
    })
    .await;
    let sync_few = syncs(&setting).await;
    let load_mib = queue.rss_mib();
    println!("  {load_mib:.1} MiB after the load");
    drop(queue);

    let filled = fill(&database, 1_000_000);
    let (queue, base) = start(dir.path());
    let grown = Arc::new(Setting { base, ..setting_again(&setting) });
    let (get_grown, _) = tool_load(&grown, 1, 3_000, "get_graph_run", read).await;
    let sync_grown = syncs(&grown).await;
    println!(
        "  with {filled} finished commands: start {}, get_graph_run {} (× {:.2}), sync with 10,000 queued {} (× {:.2})",
        ms(queue.started_ms),
        ms(get_grown.p50),
        get_grown.p50 / get.p50,
        ms(sync_grown.p50),
        sync_grown.p50 / sync_few.p50
    );
    json!({
        "cold_start_ms": cold_ms, "rss_mib_idle": idle_mib, "rss_mib_load": load_mib,
        "bare_no_op_ms": bare_one.to_json(), "bare_per_second_32": bare_rate_32.round(), "no_op_tool_ms": own.to_json(),
        "get_graph_run_ms": get.to_json(), "get_per_second": get_rate.round(), "get_per_second_32": get_rate_32.round(),
        "get_over_bare": get.p50 / bare_one.p50, "get_throughput_over_bare": get_rate_32 / bare_rate_32,
        "enqueue": enqueue, "sync_ms": sync_few.to_json(),
        "with_1m_finished": {"get_graph_run_ms": get_grown.to_json(), "sync_ms": sync_grown.to_json(), "start_ms": queue.started_ms},
    })
}

/// The same enqueues on PostgreSQL, with its fsyncs on.
pub async fn on_postgres() -> Value {
    let cluster = Cluster::start();
    let url = cluster.url();
    let (queue, base) = start_on(&url);
    println!("\nGraph Queue on PostgreSQL: start {}, {:.1} MiB idle", ms(queue.started_ms), queue.rss_mib());
    let setting = Setting::make(&base, &programs::pairing_code(&url)).await;
    let enqueue = enqueues(&base, &url).await;
    let command = setting.enqueue("bench-one-to-read").await;
    let (get, rate) = tool_load(&setting, 1, 2_000, "get_graph_run", json!({"command_id": command})).await;
    println!("  get_graph_run {} ({rate:.0}/s)", ms(get.p50));
    let held = while_held(&cluster, &setting).await;
    json!({"enqueue": enqueue, "get_graph_run_ms": get.to_json(), "snapshot_held": held, "rss_mib_load": queue.rss_mib()})
}

/// Runs and syncs before and after [`CALLS`] changes that a held snapshot keeps from being vacuumed (case C50).
async fn while_held(cluster: &Cluster, setting: &Arc<Setting>) -> Value {
    let run = run_load(vec![setting.clone()], "before".into(), 1, 200).await.0;
    let sync = syncs(setting).await;
    let others = devices(&setting.base, &cluster.url(), 900).await;
    let held = cluster.hold_snapshot();
    run_load(others, "meanwhile".into(), 10, CALLS).await;
    let sync_held = syncs(setting).await;
    let run_held = run_load(vec![setting.clone()], "held".into(), 1, 200).await.0;
    drop(held);
    let (of_sync, of_run) = (sync_held.p95 / sync.p95, run_held.p95 / run.p95);
    println!("  with a snapshot held over {CALLS} changes: p95 of a sync × {of_sync:.2}, of a run × {of_run:.2} (≤ 2)");
    json!({"sync_p95_ratio": of_sync, "run_p95_ratio": of_run, "sync_ms": sync_held.to_json(), "run_ms": run_held.to_json()})
}

pub fn setting_again(setting: &Setting) -> Setting {
    Setting {
        base: setting.base.clone(),
        http: setting::client(),
        device_token: setting.device_token.clone(),
        project: setting.project.clone(),
        session: setting.session.clone(),
        agent_token: setting.agent_token.clone(),
    }
}

/// Both by turns, so that a machine whose speed changes changes both: the round in the middle and the rate in the middle of each.
async fn in_turn<A, B>(mut one: impl FnMut() -> A, mut other: impl FnMut() -> B) -> ((Spread, f64), (Spread, f64))
where
    A: Future<Output = (Spread, f64)>,
    B: Future<Output = (Spread, f64)>,
{
    let (mut ones, mut others) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        ones.push(one().await);
        others.push(other().await);
    }
    (middle(ones), middle(others))
}

fn middle(mut rounds: Vec<(Spread, f64)>) -> (Spread, f64) {
    rounds.sort_by(|a, b| a.1.total_cmp(&b.1));
    let rate = rounds[rounds.len() / 2].1;
    rounds.sort_by(|a, b| a.0.p50.total_cmp(&b.0.p50));
    (rounds[rounds.len() / 2].0, rate)
}

async fn tool_load(setting: &Arc<Setting>, callers: usize, calls: usize, name: &'static str, arguments: Value) -> (Spread, f64) {
    let s = setting.clone();
    load(callers, calls / callers, move |_| {
        let (s, arguments) = (s.clone(), arguments.clone());
        async move {
            s.tool(name, arguments).await;
        }
    })
    .await
}

async fn enqueues(base: &str, database: &str) -> Vec<Value> {
    let mut all = Vec::new();
    for (level, callers) in CALLERS.into_iter().enumerate() {
        let devices = devices(base, database, 100 + level * 100).await;
        let (spread, rate) = run_load(devices, "bench".into(), callers, CALLS).await;
        println!("  run_graph_session, durable, {callers:2} callers: {rate:7.0}/s, p50 {}, p99 {}", ms(spread.p50), ms(spread.p99));
        all.push(json!({"callers": callers, "per_second": rate.round(), "ms": spread.to_json()}));
    }
    all
}

/// As many devices as keep each one's queue under the hundred that a project may hold, over [`CALLS`] runs.
async fn devices(base: &str, database: &str, first_session: usize) -> Vec<Arc<Setting>> {
    let mut devices = Vec::new();
    for n in 0..CALLS / 100 {
        devices.push(Setting::pair(base, &programs::pairing_code(database), (first_session + n) as u128).await);
    }
    devices
}

async fn run_load(devices: Vec<Arc<Setting>>, round: String, callers: usize, calls: usize) -> (Spread, f64) {
    let devices = Arc::new(devices);
    load(callers, calls / callers, move |n| {
        let (devices, key) = (devices.clone(), format!("{round}-{n:08}"));
        async move {
            devices[n % devices.len()].enqueue(&key).await;
        }
    })
    .await
}

async fn syncs(setting: &Arc<Setting>) -> Spread {
    let s = setting.clone();
    let (spread, _) = load(1, 100, move |_| {
        let s = s.clone();
        async move {
            s.sync().await;
        }
    })
    .await;
    spread
}

/// Copies of one queued command, ended: the history of years.
fn fill(database: &Path, rows: u32) -> usize {
    let at = Instant::now();
    let connection = rusqlite::Connection::open(database).unwrap();
    let columns: Vec<String> = connection
        .prepare("SELECT name FROM pragma_table_info('commands')")
        .unwrap()
        .query_map([], |row| row.get(0))
        .unwrap()
        .collect::<Result<_, _>>()
        .unwrap();
    let values: Vec<String> = columns
        .iter()
        .map(|column| match column.as_str() {
            "command_id" => "printf('%08x-0000-4000-8000-%012x', n, n)".to_owned(),
            "seq" => "n + 100000000".into(),
            "key_hash" => "printf('filled-%d', n)".into(),
            "status" => "'completed'".into(),
            "reason" => "'done'".into(),
            "execution_id" => "printf('filled-%d', n)".into(),
            "started_at" | "ended_at" => "queued_at + 1000".into(),
            "completion" => r#"'{"execution_id":"filled","status":"completed","result":null,"total_tokens":0,"reported_cost":0}'"#.into(),
            other => other.to_owned(),
        })
        .collect();
    let sql = format!(
        "WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < {rows}) \
         INSERT INTO commands ({}) SELECT {} FROM (SELECT * FROM commands WHERE status = 'queued' LIMIT 1), numbers",
        columns.join(", "),
        values.join(", ")
    );
    let made = connection.execute(&sql, []).unwrap();
    println!("  ({made} finished commands were put into the database in {:.0} s)", at.elapsed().as_secs_f64());
    made
}
