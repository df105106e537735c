//! What the reader in the browser asks: read with the owner's cookie alone, page by page, and gone as soon as it is withdrawn.
use serde_json::{Value, json};

use crate::{
    matrix_of_access::browser,
    world::{READ, RUN, Reply, World, done, gs, session},
};

/// Text that a careless way would change.
const PROGRAM: &str = "log('<b>\u{0}\u{2028}')\nreturn 1 // ä";
const RESULT: &str = r#"{"z":1e+21,"a":[-0,9223372036854775809],"t":"<img src=x onerror=alert(1)>"}"#;

async fn get(w: &World, cookie: &str, path: &str) -> Reply {
    w.send(axum::http::Request::get(format!("/owner/api/{path}")).header("cookie", cookie).body(axum::body::Body::empty()).unwrap()).await
}

/// All pages of a list, `limit` rows each.
async fn all(w: &World, cookie: &str, path: &str, limit: u64) -> Vec<Value> {
    let mut items = Vec::new();
    let mut cursor = String::new();
    loop {
        let page = get(w, cookie, &format!("{path}?limit={limit}{cursor}")).await.ok();
        let rows = page["items"].as_array().unwrap();
        assert!(rows.len() as u64 <= limit);
        items.extend(rows.iter().cloned());
        match page["next_cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return items,
        }
    }
}

/// In the contract suite: the_owners_page_is_read_with_a_code_from_the_desktop.
pub async fn reads(w: &World) {
    let desk = w.pair("Iris", "Iris's desk").await;
    let (docs, quiet) = (desk.project("<b>Docs").await, desk.project("Quiet").await);
    desk.share(&docs, 1, &[session(101), session(102)]).await;
    desk.share(&quiet, 1, &[session(103)]).await;
    let agent = desk.agent(&[&docs, &quiet], &[READ, RUN]).await;
    let put = async |n: u32| {
        w.device("PUT", &format!("graphs/{}", gs(n)), &desk.token, json!({"name": format!("Graph {n} <i>"), "text": PROGRAM}).to_string()).await
    };
    assert_eq!((put(101).await.status, put(102).await.status), (200, 200));
    let iris = browser(w, &desk).await;

    let home = get(w, &iris, "home").await;
    assert_eq!(home.header("cache-control"), "no-store");
    let home = home.ok();
    assert_eq!(home["owner"], "Iris");
    let projects: Vec<_> =
        home["projects"].as_array().unwrap().iter().map(|p| (p["name"].as_str().unwrap(), p["sessions"].as_u64().unwrap())).collect();
    assert_eq!(projects, [("<b>Docs", 2), ("Quiet", 1)]);

    for limit in [1, 2, 200] {
        let mut sessions = all(w, &iris, "sessions", limit).await;
        sessions.sort_by_key(|s| s["graph_session_id"].as_str().unwrap().to_owned());
        let seen: Vec<_> = sessions.iter().map(|s| (s["slug"].as_str().unwrap(), s["readable"].as_bool().unwrap())).collect();
        assert_eq!(seen, [("session-101", true), ("session-102", true), ("session-103", false)], "pages of {limit}");
        let graphs = all(w, &iris, "graphs", limit).await;
        assert_eq!(graphs.len(), 2, "pages of {limit}");
        assert_eq!((&graphs[0]["name"], &graphs[0]["projects"]), (&json!("Graph 101 <i>"), &json!(["<b>Docs"])));
    }
    assert_eq!(get(w, &iris, &format!("graphs/{}", gs(101))).await.ok()["source"], PROGRAM);
    assert_eq!(get(w, &iris, &format!("graphs/{}", gs(103))).await.status, 404, "never uploaded");

    let (first, second) = (agent.try_run(101, "key-00001", "{}").await, agent.try_run(102, "key-00002", r#"{"secret":"in the arguments"}"#).await);
    let id = |told: &crate::world::Told| told.ok()["command_id"].as_str().unwrap().to_owned();
    let (first, second) = (id(&first), id(&second));
    desk.start(&first, "e-1").await.ok();
    desk.complete(&first, done("e-1", RESULT)).await.ok();
    let rows = all(w, &iris, "commands", 1).await;
    let states: Vec<_> = rows.iter().map(|c| (c["command_id"].as_str().unwrap(), c["status"].as_str().unwrap())).collect();
    assert_eq!(states, [(second.as_str(), "queued"), (first.as_str(), "completed")], "newest first");
    assert_eq!(
        (&rows[1]["graph"], &rows[1]["project"], &rows[1]["desktop"]["name"]),
        (&json!("Session 101"), &json!("<b>Docs"), &json!("Iris's desk"))
    );
    let list = get(w, &iris, "commands").await.text;
    assert!(!list.contains("onerror") && !list.contains("in the arguments"), "{list}");
    let detail = get(w, &iris, &format!("commands/{first}")).await.ok();
    assert_eq!((detail["result"].as_str(), &detail["total_tokens"]), (Some(RESULT), &json!(7)), "to the letter");
    let waiting = get(w, &iris, &format!("commands/{second}")).await;
    assert!(waiting.ok()["result"].is_null() && !waiting.text.contains("in the arguments"));
    assert_eq!(get(w, &iris, "commands?status=queued").await.ok()["items"].as_array().unwrap().len(), 1);
    agent.cancel(&second).await;
    assert_eq!(get(w, &iris, &format!("commands/{second}")).await.ok()["command"]["reason"], "cancelled_while_queued");

    assert_eq!(desk.get("graphs").await.ok()["graph_session_ids"], json!([gs(101), gs(102)]));
    assert_eq!(w.pair("Iris", "Second").await.get("graphs").await.ok()["graph_session_ids"], json!([]), "each device its own");

    // Another owner sees nothing of it, by any id.
    let eve = browser(w, &w.pair("Eve", "Elsewhere").await).await;
    for path in [format!("graphs/{}", gs(101)), format!("commands/{first}")] {
        assert_eq!(get(w, &eve, &path).await.status, 404, "{path}");
    }
    for path in ["sessions", "graphs", "commands"] {
        assert_eq!(all(w, &eve, path, 200).await, Vec::<Value>::new(), "{path}");
    }
    for path in ["commands?limit=0", "commands?limit=201", "graphs?cursor=x", "sessions?cursor=x", "commands?cursor=x", "commands?status=x"] {
        assert_eq!(get(w, &iris, path).await.status, 400, "{path}");
    }

    // Withdrawn: hidden at once, although no removal has arrived.
    desk.share(&docs, 2, &[session(102)]).await;
    assert_eq!(get(w, &iris, &format!("graphs/{}", gs(101))).await.status, 404);
    assert_eq!(all(w, &iris, "graphs", 200).await.len(), 1);
    assert_eq!(desk.delete(&format!("projects/{docs}")).await.status, 200);
    assert_eq!(all(w, &iris, "graphs", 200).await.len(), 0);
    assert_eq!(get(w, &iris, &format!("commands/{first}")).await.ok()["command"]["graph"], "session-101", "what ran stays, by its slug");

    sign_in_is_json_alone(w, &desk).await;
    w.pass_ms(12 * 3_600_000);
    assert_eq!(get(w, &iris, "home").await.status, 401, "twelve hours, not more");
}

/// A form of another site cannot sign a browser in or out.
async fn sign_in_is_json_alone(w: &World, desk: &crate::world::Desk<'_>) {
    let code = desk.post("sign-in-codes", json!({})).await.ok()["sign_in_code"].clone();
    let post = async |kind: &str, body: String| {
        let request = axum::http::Request::post("/owner/api/sign-in").header("content-type", kind);
        w.send(request.body(axum::body::Body::from(body)).unwrap()).await
    };
    let body = json!({ "code": code }).to_string();
    assert_eq!(post("text/plain", body.clone()).await.status, 400);
    assert_eq!(post("application/json", json!({"code": "00000000"}).to_string()).await.code(), "sign_in_code_invalid");
    let signed = post("application/json; charset=utf-8", body.clone()).await;
    assert!(signed.status == 200 && signed.header("set-cookie").contains("HttpOnly; SameSite=Strict; Secure"), "{}", signed.text);
    assert_eq!(post("application/json", body).await.status, 400, "a code is used once");
    let foreign =
        axum::http::Request::post("/owner/api/sign-out").header("origin", "https://evil.example").header("content-type", "application/json");
    assert_eq!(w.send(foreign.body(axum::body::Body::from("{}")).unwrap()).await.status, 403);
}
