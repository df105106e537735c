//! The real window: graph-desk driven through WebDriver on a screen, a real Graph Queue, a real connected agent.
//!
//! Needs a display (`DISPLAY`) and tauri-driver (`TAURI_DRIVER`, else `target/tools/bin`). Pictures of the pages go to `target/screens`.
#![allow(clippy::unwrap_used, clippy::expect_used)]
#[path = "gui/desktop.rs"]
mod desktop;
#[allow(dead_code)]
#[path = "support/line.rs"]
mod line;
#[path = "gui/session.rs"]
mod session;
#[path = "gui/session_stories.rs"]
mod session_stories;
#[path = "gui/webdriver.rs"]
mod webdriver;
#[allow(dead_code)]
#[path = "support/world.rs"]
mod world;

use std::time::{Duration, Instant};

use desktop::{Desktop, Screen, id};
use serde_json::json;
use webdriver::wait_for;
use world::World;

/// Asks to write one file, and gives what was written.
const NOTE: &str = "export const meta = { name: 'Note', description: 'Writes a note', tools: ['write_file'], \
    args: { type: 'object', properties: { path: { type: 'string' }, text: { type: 'string' } }, required: ['path', 'text'] } };\n\
    const answer = await tool('write_file', { path: args.path, content: args.text });\n\
    return { wrote: args.path };\n";

#[test]
fn the_owner_pairs_shares_answers_and_sees_the_run_in_the_window() {
    let screen = Screen::take();
    let mut desk = Desktop::start(&screen);
    desk.window.click(&id("rail-connections"));
    desk.window.fill(&id("pair-address"), &desk.world.line.address());
    desk.window.fill(&id("pair-code"), &desk.world.pairing_code());
    desk.window.click(&id("pair"));
    desk.window.text(&id("paired"));
    desk.window.click(&id("new-project"));
    desk.window.fill(&id("project-name"), "Home");
    desk.window.click(&id("project-save"));
    desk.window.wait_text("main", "Home");
    desk.picture("connections");

    desk.import("note", NOTE);
    desk.window.click(&id("rail-graphs"));
    desk.window.text(&id("graph-note"));
    desk.picture("graphs");
    desk.window.click(&id("rail-sharing"));
    desk.window.click(&id("enable-Home"));
    desk.window.click(&id("tick-note-Home"));
    desk.window.wait_text(&id("ticked-Home"), "1");
    desk.picture("sharing");

    let (agent, command) = desk.queue_note("approved.txt", "window-key-1");
    let popup = desk.popup();
    desk.window.switch_to(&popup);
    desk.window.wait_text("body", "approved.txt");
    desk.window.wait_text("body", "Note");
    desk.picture("approval");
    desk.answer_popup(&popup, "popup-once");
    let run = agent.wait_terminal(&command);
    assert_eq!((&run["status"], &run["reason"]), (&json!("completed"), &json!("done")), "{run}");
    assert_eq!(std::fs::read_to_string(desk.world.files().join("approved.txt")).unwrap(), "from Claude");

    desk.to_main();
    desk.window.click(&id("rail-runs"));
    desk.window.click(&id("run-row"));
    desk.window.wait_text(&id("run-state"), "Done");
    desk.picture("runs");
    desk.restart();
    desk.window.click(&id("rail-runs"));
    desk.window.click(&id("run-row"));
    desk.window.wait_text(&id("run-state"), "Done");
    desk.window.click(&id("rail-sharing"));
    desk.window.wait_text(&id("ticked-Home"), "1");
}

#[test]
fn a_deny_reaches_the_run_and_typed_keys_approve_nothing() {
    let screen = Screen::take();
    let desk = Desktop::start(&screen);
    desk.pair_by_hand();
    desk.share("note", NOTE);
    let (agent, command) = desk.queue_note("denied.txt", "window-key-2");
    let popup = desk.popup();
    for _ in 0..20 {
        desktop::type_keys(&["Return", "space", "y", "a"]);
    }
    assert_eq!(desk.popup(), popup, "the popup took none of the keys");
    assert!(!desk.world.files().join("denied.txt").exists());
    desk.window.switch_to(&popup);
    desk.answer_popup(&popup, "popup-deny");
    let run = agent.wait_terminal(&command);
    assert_eq!(run["status"], "failed", "{run}");
    assert!(run["error"].as_str().unwrap_or_default().to_lowercase().contains("den"), "{run}");
    assert!(!desk.world.files().join("denied.txt").exists());
}

const TWENTY: &str = "export const meta = { name: 'Twenty', description: 'Writes twenty notes', tools: ['write_file'] };\n\
    const numbers = Array.from({ length: 20 }, (_, n) => n);\n\
    const done = await parallel(numbers.map((n) => () => tool('write_file', { path: `${args.folder}/${n}.txt`, content: 'x' })));\n\
    return done.filter((answer) => answer !== null).length;\n";

#[test]
fn twenty_popups_under_a_hundred_keys_a_second_approve_nothing_and_tab_and_enter_do() {
    let screen = Screen::take();
    let desk = Desktop::start(&screen);
    desk.pair_by_hand();
    desk.share("twenty", TWENTY);
    desk.share("note", NOTE);
    let agent = desk.world.agent("Claude");
    let command = agent.run(&agent.session("twenty"), json!({"folder": desk.world.files()}), "window-key-20");
    desktop::hide_window("Graph Desk");
    let typing = desktop::Restless::types(&["Return", "space", "y", "a"]);
    let mut answered = Vec::new();
    while answered.len() < 20 {
        let popup = desk.popup_other_than(&answered);
        desk.window.switch_to(&popup);
        desk.answer_popup(&popup, "popup-deny");
        answered.push(popup);
    }
    drop(typing);
    let run = agent.wait_terminal(&command);
    assert_eq!(run["result"], 0, "{run}");
    assert_eq!(std::fs::read_dir(desk.world.files()).unwrap().count(), 0);
    // By hand it works: the keys do reach the popup.
    let (agent, command) = desk.queue_note("tab.txt", "window-key-21");
    let popup = desk.popup_other_than(&answered);
    desk.window.switch_to(&popup);
    wait_for("Allow once to have the focus", || {
        desktop::type_keys(&["Tab"]);
        let focused = desk.window.script("return document.activeElement?.dataset.testid ?? ''", json!([])).unwrap();
        (focused == "popup-once").then_some(())
    });
    wait_for("the first half second to be over", || {
        let locked = desk.window.script("return document.activeElement.getAttribute('aria-disabled')", json!([])).unwrap();
        (locked == "false").then_some(())
    });
    desktop::type_keys(&["Return"]);
    assert_eq!(agent.wait_terminal(&command)["status"], "completed");
}

/// Click-jacking: whoever clicks where the button will be, before it is there, has approved nothing while the popup was new.
#[test]
fn clicks_that_were_already_on_their_way_approve_nothing_in_the_first_half_second() {
    let screen = Screen::take();
    let desk = Desktop::start_with(&screen, &[("GRAPH_DESK_LOG", "info,agent=debug")]);
    desk.pair_by_hand();
    desk.share("note", NOTE);
    let (agent, first) = desk.queue_note("a.txt", "window-key-7");
    let popup = desk.popup();
    desk.window.switch_to(&popup);
    desk.window.text(&id("popup-once"));
    let middle = "const box = document.querySelector(arguments[0]).getBoundingClientRect();
        return [Math.round(box.x + box.width / 2), Math.round(box.y + box.height / 2)];";
    let middle = desk.window.script(middle, json!([id("popup-once")])).unwrap();
    desktop::point_at("Graph Desk asks", middle[0].as_i64().unwrap(), middle[1].as_i64().unwrap());
    desk.answer_popup(&popup, "popup-deny");
    agent.wait_terminal(&first);
    // From here on the button is clicked fifty times a second, wherever it is.
    desktop::hide_window("Graph Desk");
    let clicking = desktop::Restless::clicks();
    let (agent, second) = desk.queue_note("b.txt", "window-key-8");
    let run = agent.wait_terminal(&second);
    drop(clicking);
    assert_eq!(run["status"], "completed", "the clicks did reach the button in the end: {run}");
    let log = std::fs::read_to_string(desk.world.dir.path().join("profile/logs/graph-desk.log")).unwrap();
    let shown_ms: Vec<u64> =
        log.split("shown_ms=").skip(1).map(|rest| rest.split(|c: char| !c.is_ascii_digit()).next().unwrap().parse().unwrap()).collect();
    assert!(shown_ms.len() == 2 && shown_ms.iter().all(|ms| *ms >= 500), "{shown_ms:?}");
}

#[test]
fn a_window_reaches_only_its_own_door() {
    let screen = Screen::take();
    let desk = Desktop::start(&screen);
    let refused = desk.window.knock("popup_call", "popup_answer", json!({"answer": {"answer": "once"}})).unwrap_err();
    assert!(refused.to_string().contains("not allowed"), "{refused}");
    assert!(desk.window.knock("desk_call", "popup_question", json!({})).unwrap_err()["code"] == "unknown_command");
    assert!(desk.window.knock("desk_call", "status_get", json!({})).unwrap()["version"].is_string());
    for foreign in ["plugin:opener|open_url", "plugin:dialog|open", "plugin:window|create", "plugin:event|emit"] {
        let refused = desk.window.knock(foreign, "", json!({})).unwrap_err();
        assert!(refused.to_string().contains("not allowed"), "{foreign}: {refused}");
    }

    desk.pair_by_hand();
    desk.share("note", NOTE);
    let (agent, command) = desk.queue_note("x.txt", "window-key-3");
    let popup = desk.popup();
    desk.window.switch_to(&popup);
    let refused = desk.window.knock("desk_call", "approvals_get", json!({})).unwrap_err();
    assert!(refused.to_string().contains("not allowed"), "{refused}");
    let question = desk.window.knock("popup_call", "popup_question", json!({})).unwrap();
    // A question named in the arguments is not listened to: it is refused or it is the window's own.
    let _ = desk.window.knock("popup_call", "popup_question", json!({"approval": 999})).map(|own| assert_eq!(own["approval"], question["approval"]));
    desk.window.close_window();
    desk.to_main();
    let waiting = desk.window.knock("desk_call", "approvals_get", json!({})).unwrap();
    assert_eq!(waiting["waiting"][0]["approval"], question["approval"], "a closed popup is no answer: {waiting}");
    agent.cancel(&command);
    assert_eq!(agent.wait_terminal(&command)["status"], "cancelled");
}

/// Seven calls at once; its name is what a page must never obey.
const SEVEN: &str = "export const meta = { name: '<img src=x onerror=document.title=1>', description: '</script><script>document.title=1</script>', \
    tools: ['write_file'] };\n\
    const done = await parallel([0, 1, 2, 3, 4, 5, 6].map((n) => () => tool('write_file', { path: `${args.folder}/${n}.txt`, content: '<b>' + n })));\n\
    return done.map((answer) => answer !== null);\n";

#[test]
fn seven_questions_come_one_by_one_each_answer_reaches_its_call_and_names_stay_text() {
    let screen = Screen::take();
    let desk = Desktop::start(&screen);
    desk.pair_by_hand();
    desk.share("seven", SEVEN);
    let agent = desk.world.agent("Claude");
    let command = agent.run(&agent.session("seven"), json!({"folder": desk.world.files()}), "window-key-6");
    let is_text_only = "return document.querySelector('img') === null && !document.title.includes('1')";
    let mut answered = Vec::new();
    while answered.len() < 7 {
        let popup = desk.popup_other_than(&answered);
        desk.window.switch_to(&popup);
        desk.window.wait_text("body", "<img src=x");
        assert_eq!(desk.window.script(is_text_only, json!([])).unwrap(), true);
        let question = desk.window.knock("popup_call", "popup_question", json!({})).unwrap();
        let arguments: serde_json::Value = serde_json::from_str(question["arguments"].as_str().unwrap()).unwrap();
        let path = arguments["path"].as_str().unwrap();
        let is_even = ["0.txt", "2.txt", "4.txt", "6.txt"].iter().any(|name| path.ends_with(name));
        if answered.is_empty() {
            desk.picture("approval-of-seven");
        }
        desk.answer_popup(&popup, if is_even { "popup-once" } else { "popup-deny" });
        answered.push(popup);
    }
    let run = agent.wait_terminal(&command);
    assert_eq!(run["result"], json!([true, false, true, false, true, false, true]), "{run}");
    desk.to_main();
    desk.window.click(&id("rail-runs"));
    desk.window.wait_text("main", "<img src=x");
    assert_eq!(desk.window.script(is_text_only, json!([])).unwrap(), true);
}

#[test]
fn settings_that_reach_beyond_the_window_are_carried_out() {
    let screen = Screen::take();
    let mut desk = Desktop::start(&screen);
    let entry = desk.world.dir.path().join(".config/autostart/graph-desk.desktop");
    let set = |desk: &Desktop, change: serde_json::Value| desk.window.knock("desk_call", "settings_update", json!({"change": change})).unwrap();
    set(&desk, json!({"start_at_login": true, "theme": "dark"}));
    assert!(std::fs::read_to_string(&entry).unwrap().contains("graph-desk --hidden"));
    set(&desk, json!({"start_at_login": false}));
    assert!(!entry.exists());
    desk.restart();
    let scheme = desk.window.script("return getComputedStyle(document.body).backgroundColor", json!([])).unwrap();
    desk.picture("dark");
    assert!(["rgb(16, 16, 19)", "rgb(23, 23, 27)"].contains(&scheme.as_str().unwrap()), "{scheme}");
}

#[test]
fn safe_mode_draws_without_the_graphics_card() {
    let screen = Screen::take();
    let app = desktop::App::start_with(&screen, &["--safe-mode"]);
    wait_for("the switch", || app.web_environment().contains("WEBKIT_DISABLE_COMPOSITING_MODE=1").then_some(()));
    app.wait_window("Graph Desk");
}

#[test]
fn the_built_in_queue_is_one_click_and_serves_agents_at_the_same_address_after_a_restart() {
    let screen = Screen::take();
    let mut desk = Desktop::start(&screen);
    desk.window.click(&id("rail-connections"));
    desk.window.click(&id("pair-builtin"));
    desk.window.text(&id("paired"));
    desk.picture("connections-built-in");
    let address = |desk: &Desktop| {
        let paired = desk.window.knock("desk_call", "connections_get", json!({})).unwrap()["paired"].clone();
        assert_eq!(paired["builtin"], true, "{paired}");
        paired["address"].as_str().unwrap().to_owned()
    };
    let before = address(&desk);
    assert!(before.starts_with("http://127.0.0.1:"), "{before}");
    desk.share("echo", "export const meta = { name: 'Echo', description: 'Gives its arguments back' };\nreturn args;\n");
    desk.world.token = desk.world.agent_token("Claude");
    desk.restart();
    assert_eq!(address(&desk), before);
    desk.world.address = before;
    let agent = desk.world.agent("Claude");
    let command = agent.run(&agent.session("echo"), json!({"a": 1}), "window-key-5");
    assert_eq!(agent.wait_terminal(&command)["result"], json!({"a": 1}));
}

/// Invariant 7.
#[test]
fn a_run_goes_on_while_the_window_is_closed_and_a_second_start_opens_it_again() {
    let screen = Screen::take();
    let mut app = desktop::App::start(&screen);
    app.wait_window("Graph Desk");
    desktop::close_window("Graph Desk");
    wait_for("the window to be gone", || app.window("Graph Desk").is_none().then_some(()));
    assert!(app.is_running(), "the relay stays");
    assert!(app.second_start().success());
    app.wait_window("Graph Desk");
    let asked = Instant::now();
    app.terminate();
    assert!(app.wait().success());
    assert!(asked.elapsed() < Duration::from_secs(10));
}

#[test]
fn ten_starts_at_once_are_one_desktop_and_a_killed_one_starts_again_at_once() {
    let screen = Screen::take();
    let mut app = desktop::App::start_many(&screen, 10);
    app.wait_window("Graph Desk");
    app.kill();
    app.start_again();
    app.wait_window("Graph Desk");
}

#[test]
fn quitting_during_a_run_is_quick_and_the_run_ends_as_what_it_was() {
    let _screen = Screen::take();
    let mut world = World::new();
    world.share("slow", "export const meta = { name: 'Slow', description: 'Waits' };\nawait sleep(600);\nreturn 1;\n");
    world.token = world.agent_token("Claude");
    let mut app = desktop::App::start_in(world);
    let agent = app.world.agent("Claude");
    let command = agent.run(&agent.session("slow"), json!({}), "window-key-4");
    agent.wait_running(&command);
    let asked = Instant::now();
    app.terminate();
    assert!(app.wait().success());
    assert!(asked.elapsed() < Duration::from_secs(10));
    app.start_again();
    let run = agent.wait_terminal(&command);
    assert_eq!((&run["status"], &run["reason"]), (&json!("failed"), &json!("owner_quit")), "{run}");
}

#[test]
fn the_window_draws_with_and_without_the_usual_override_of_the_web_view() {
    let screen = Screen::take();
    for value in ["0", "1"] {
        let switches = [("WEBKIT_DISABLE_COMPOSITING_MODE", value), ("WEBKIT_DISABLE_DMABUF_RENDERER", value), ("LIBGL_ALWAYS_SOFTWARE", "1")];
        let desk = Desktop::start_with(&screen, &switches);
        desk.window.text(&id("rail-graphs"));
    }
}

#[test]
fn the_device_token_lies_in_the_systems_keyring_where_there_is_one() {
    let _screen = Screen::take();
    let world = World::unpaired();
    let session = desktop::Session::start(&world);
    wait_for("the desktop to listen", || world.dir.path().join("profile/control.sock").exists().then_some(()));
    world.deskd(&["pair", &world.address, &world.pairing_code()]);
    wait_for("the keyring to hold the token", || {
        let report = world.deskd_output(&["doctor", "--json"]).stdout;
        String::from_utf8(report).unwrap().contains("in the system's keyring").then_some(())
    });
    drop(session);
    assert!(!world.dir.path().join("profile/secrets.sealed").exists());
}

#[test]
fn without_a_display_it_says_one_sentence_and_names_the_way_out() {
    let out = desktop::start_without_display();
    let said = String::from_utf8(out.stderr).unwrap();
    assert_eq!(out.status.code(), Some(1));
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(said.contains("`graph-deskd`"), "{said}");
}
