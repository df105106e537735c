//! What the shell says outside the window: tray lines and notifications.
//!
//! Names in them belong to the owner or to an agent. Invariant: they arrive as text, whatever the notification server thinks of markup.
use device::view::{ApprovalQuestion, RelayView, StatusView};

pub const NAME: &str = "Graph Desk";
pub const NO_DISPLAY: &str = "Graph Desk needs a display and found none. Use `graph-deskd`, the same desktop without a window.";

/// The tray's first line, in the words of the status bar.
pub fn tray_line(status: &StatusView) -> String {
    let relay = match &status.relay {
        RelayView::NotConnected => "Not connected to a Graph Queue".to_owned(),
        RelayView::Ready { .. } => "Ready".to_owned(),
        RelayView::Busy { graph, .. } => format!("Busy with {}", plain(graph)),
        RelayView::Paused { .. } => "Paused: commands wait in the queue".to_owned(),
        RelayView::Offline { .. } => "Offline: finished work is kept and will be sent".to_owned(),
        RelayView::ServerSays { message, .. } => format!("The server says: {}", plain(message)),
        RelayView::Failing { times, .. } => format!("The relay failed {times} times: commands wait, restart Graph Desk"),
    };
    match status.approvals_waiting {
        0 => relay,
        1 => format!("{relay} · 1 approval waiting"),
        n => format!("{relay} · {n} approvals waiting"),
    }
}

pub struct Notice {
    pub title: String,
    pub body: String,
}

pub fn asks(question: &ApprovalQuestion) -> Notice {
    let who = match &question.agent {
        Some(agent) => format!("{}, an agent of {}", plain(agent), plain(&question.graph)),
        None => plain(&question.graph),
    };
    Notice { title: format!("{}?", plain(&question.title)), body: format!("{who} waits for your answer.") }
}

/// After the window was closed: nothing on the screen says that the app still runs.
pub fn keeps_running(has_tray: bool) -> Notice {
    let body = if has_tray {
        "Open or quit it from the tray."
    } else {
        "Start it again to open its window. To quit by closing the window, change it in Settings."
    };
    Notice { title: "Graph Desk keeps running".to_owned(), body: format!("Connected agents can start what you share. {body}") }
}

/// Notification servers may read markup, tray menus read `&` as a key. One line, at most 120 characters, no meaning but its own.
fn plain(text: &str) -> String {
    let shown = text.chars().map(|c| match c {
        '<' => '‹',
        '>' => '›',
        '&' => '＆',
        c if c.is_control() => ' ',
        c => c,
    });
    shown.take(120).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_in_a_name_is_shown_not_obeyed() {
        assert_eq!(plain("<img src=x onerror=alert(1)>\n& a"), "‹img src=x onerror=alert(1)› ＆ a");
        assert_eq!(plain(&"x".repeat(500)).len(), 120);
    }
}
