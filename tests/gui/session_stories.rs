//! What Graph Desk does outside its windows: tray, notifications, keeping the computer awake; and that a closed window stops nothing.
use std::time::{Duration, Instant};

use serde_json::json;

use crate::{
    NOTE,
    desktop::{self, App, Screen},
    session::FakeSession,
    webdriver::wait_for,
    world::World,
};

const SLOW: &str = "export const meta = { name: 'Slow', description: 'Waits' };\nawait sleep(600);\nreturn 1;\n";

#[test]
fn the_tray_shows_the_state_pauses_resumes_opens_and_quits() {
    let _screen = Screen::take();
    let session = FakeSession::start();
    let mut app = App::start_in_with(World::new(), &["--hidden"], &session.env());
    wait_for("the tray's state", || session.tray_has("Ready", false));
    assert!(app.window("Graph Desk").is_none(), "started for the tray alone");
    session.tray_has("Take commands again", false).expect("nothing is paused");

    assert_eq!(session.ask("click Pause taking commands"), true);
    wait_for("the pause in the tray", || session.tray_has("Paused: commands wait in the queue", false));
    let status = app.world.deskd_json(&["status", "--json"]);
    assert_eq!(status["relay"]["at"], "paused", "the relay itself is paused: {status}");
    assert_eq!(session.ask("click Take commands again"), true);
    wait_for("the end of the pause", || session.tray_has("Ready", false));

    assert_eq!(session.ask("click Open Graph Desk"), true);
    app.wait_window("Graph Desk");
    assert_eq!(session.ask("click Quit"), true);
    assert!(app.wait().success());
}

#[test]
fn a_question_is_announced_and_its_markup_is_text() {
    let _screen = Screen::take();
    let session = FakeSession::start();
    let world = World::new();
    world.share("note", &NOTE.replace("name: 'Note'", "name: '<b>Note</b>'"));
    let mut app = App::start_in_with(world, &["--hidden"], &session.env());
    let agent = app.world.agent("Claude");
    let path = app.world.files().join("n.txt");
    let command = agent.run(&agent.session("note"), json!({"path": path, "text": "from Claude"}), "window-key-7");
    let notice = wait_for("the notification", || session.ask("notices").as_array()?.first().cloned());
    assert_eq!(notice, json!({"title": "Write a file?", "body": "\u{2039}b\u{203a}Note\u{2039}/b\u{203a} waits for your answer."}));
    app.wait_window("Graph Desk asks");
    agent.cancel(&command);
    assert_eq!(agent.wait_terminal(&command)["status"], "cancelled");
    app.terminate();
    assert!(app.wait().success());
}

#[test]
fn a_run_goes_on_behind_a_closed_window_and_alone_keeps_the_computer_awake() {
    let _screen = Screen::take();
    let session = FakeSession::start();
    let world = World::new();
    world.share("slow", SLOW);
    let mut app = App::start_in_with(world, &[], &session.env());
    app.wait_window("Graph Desk");
    assert!(session.ask("awake").is_null(), "nothing runs, so the computer may sleep");
    let agent = app.world.agent("Claude");
    let command = agent.run(&agent.session("slow"), json!({}), "window-key-8");
    agent.wait_running(&command);
    let held = wait_for("the computer to be kept awake", || Some(session.ask("awake")).filter(|lock| lock["held"] == true));
    assert_eq!((&held["what"], &held["who"], &held["mode"]), (&json!("idle:sleep"), &json!("Graph Desk"), &json!("block")), "{held}");

    desktop::close_window("Graph Desk");
    wait_for("the window to be gone", || app.window("Graph Desk").is_none().then_some(()));
    wait_for("word that it stays", || session.ask("notices").as_array()?.iter().any(|n| n["title"] == "Graph Desk keeps running").then_some(()));
    wait_for("the run in the tray", || session.tray_has("Busy with Slow", false));
    assert_eq!(agent.get(&command)["status"], "running", "the window closed, the run goes on");
    agent.cancel(&command);
    assert_eq!(agent.wait_terminal(&command)["status"], "cancelled");
    wait_for("the computer to be free to sleep", || (session.ask("awake")["held"] == false).then_some(()));

    let asked = Instant::now();
    assert_eq!(session.ask("click Quit"), true);
    assert!(app.wait().success());
    assert!(asked.elapsed() < Duration::from_secs(10));
}
