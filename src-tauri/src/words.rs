//! What the shell says outside the window: tray, notifications and the system's dialogues, in the language of the settings.
//!
//! The words are those of the window's catalogue. Names in them belong to the owner or to an agent. Invariant: they arrive as text,
//! whatever the notification server thinks of markup.
use std::{collections::BTreeMap, sync::LazyLock};

use device::view::{ApprovalQuestion, RelayView, StatusView};
use domain::wire::said::{Sentence, said};

pub const NAME: &str = "Graph Desk";
pub const NO_DISPLAY: &str = "Graph Desk needs a display and found none. Use `graph-deskd`, the same desktop without a window.";

static GERMAN: LazyLock<BTreeMap<String, String>> =
    LazyLock::new(|| serde_json::from_str(include_str!("../../ui/src/app/texts/said.de.json")).unwrap_or_default());

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Language {
    English,
    German,
}

impl Language {
    /// The one the settings name; of `system` what the system's environment names, and English where it names none.
    pub fn of(setting: &str) -> Self {
        if setting != "system" && !setting.is_empty() {
            return Self::named(setting);
        }
        let named = ["LC_ALL", "LC_MESSAGES", "LANG"].into_iter().find_map(|name| std::env::var(name).ok().filter(|value| !value.is_empty()));
        Self::named(&named.unwrap_or_default())
    }

    /// `de`, `de-AT` and `de_DE.UTF-8` are German.
    fn named(locale: &str) -> Self {
        let language = locale.split(|c: char| !c.is_ascii_alphabetic()).next();
        if language == Some("de") { Self::German } else { Self::English }
    }

    pub fn say(self, sentence: &Sentence) -> String {
        match self {
            Self::English => sentence.text.clone(),
            Self::German => sentence.in_words_of(&GERMAN),
        }
    }
}

/// The tray's first line, in the words of the status bar.
pub fn tray_line(status: &StatusView) -> Sentence {
    let relay = match &status.relay {
        RelayView::NotConnected => said("tray_not_connected", "Not connected to a Graph Queue", []),
        RelayView::Ready { .. } => said("tray_ready", "Ready", []),
        RelayView::Busy { graph, .. } => said("tray_busy", "Busy with {graph}", [("graph", plain(graph).into())]),
        RelayView::Paused { .. } => said("tray_paused", "Paused: commands wait in the queue", []),
        RelayView::Offline { .. } => said("tray_offline", "Offline: finished work is kept and will be sent", []),
        RelayView::ServerSays { message, .. } => said("tray_server_says", "The server says: {message}", [("message", message.map(&plain).into())]),
        RelayView::Failing { times, .. } => {
            said("tray_failing", "The relay failed {times} times: commands wait, restart Graph Desk", [("times", times.to_string().into())])
        }
    };
    match status.approvals_waiting {
        0 => relay,
        1 => said("tray_approval", "{relay} · 1 approval waiting", [("relay", relay.into())]),
        n => said("tray_approvals", "{relay} · {n} approvals waiting", [("relay", relay.into()), ("n", n.into())]),
    }
}

pub struct Notice {
    pub title: Sentence,
    pub body: Sentence,
}

pub fn asks(question: &ApprovalQuestion) -> Notice {
    let graph = ("graph", plain(&question.graph).into());
    let body = match &question.agent {
        Some(agent) => said("notice_agent_waits", "{agent}, an agent of {graph} waits for your answer.", [("agent", plain(agent).into()), graph]),
        None => said("notice_graph_waits", "{graph} waits for your answer.", [graph]),
    };
    Notice { title: said("notice_asks", "{what}?", [("what", question.title.map(&plain).into())]), body }
}

/// After the window was closed: nothing on the screen says that the app still runs.
pub fn keeps_running(has_tray: bool) -> Notice {
    let body = if has_tray {
        said("notice_stays_in_tray", "Connected agents can start what you share. Open or quit it from the tray.", [])
    } else {
        said(
            "notice_stays",
            "Connected agents can start what you share. Start it again to open its window. To quit by closing the window, change it in Settings.",
            [],
        )
    };
    Notice { title: said("notice_keeps_running", "Graph Desk keeps running", []), body }
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

    #[test]
    fn the_language_is_the_one_chosen() {
        for (locale, language) in
            [("de", Language::German), ("de_DE.UTF-8", Language::German), ("en_GB", Language::English), ("C", Language::English)]
        {
            assert_eq!(Language::named(locale), language, "{locale}");
        }
        assert_eq!(Language::of("de").say(&said("tray_ready", "Ready", [])), "Bereit");
        assert_eq!(Language::of("en").say(&said("tray_ready", "Ready", [])), "Ready");
        let busy = said("tray_busy", "Busy with {graph}", [("graph", plain("<b>").into())]);
        assert_eq!(Language::German.say(&said("tray_approval", "", [("relay", busy.into())])), "Arbeitet an ‹b› · 1 Genehmigung wartet");
    }
}
