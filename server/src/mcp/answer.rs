//! The shapes of the tools' answers, `protocol.md` §1. All guidance sits inside: clients show the model only the structured content.
use domain::{RawJson, Timestamp, command::Status, wire::relay::Project};
use serde_json::{Map, Value, json};

use super::{slots::Slots, texts};
use crate::{
    ports::Random,
    queue::{
        list::Page,
        sync::status_word,
        view::{CommandView, Desktop},
    },
    raw::RawMembers,
};

/// Builds the members of one answer; raw JSON goes in by a slot.
pub struct Shaper<'a> {
    pub slots: &'a Slots,
    pub random: &'a dyn Random,
    pub now: Timestamp,
}

impl Shaper<'_> {
    fn raw(&self, raw: &RawJson) -> Value {
        self.slots.put(raw, self.random)
    }

    fn desktop(&self, desktop: &Desktop) -> Value {
        json!({"name": desktop.name, "online": desktop.online(self.now), "last_contact_at": desktop.last_contact_at})
    }

    pub fn projects(&self, projects: &[Project]) -> Value {
        json!({ "projects": projects })
    }

    pub fn sessions(&self, page: &Page) -> Value {
        let sessions: Vec<Value> = page
            .sessions
            .iter()
            .map(|s| {
                let mut entry = json!({
                    "graph_session_id": s.session, "name": s.name, "description": s.description, "slug": s.slug, "version": s.version,
                    "status": status_word(s.status),
                });
                if let Some(schema) = &s.arguments_schema {
                    entry["arguments_schema"] = self.raw(schema);
                }
                if let Some(asks) = &s.asks {
                    entry["asks"] = json!(asks);
                }
                entry["desktop"] = self.desktop(&s.desktop);
                entry
            })
            .collect();
        let mut answer = json!({"project_id": page.project, "sessions": sessions});
        if let Some(cursor) = &page.next_cursor {
            answer["next_cursor"] = json!(cursor);
        }
        answer
    }

    fn times(view: &CommandView) -> Value {
        let mut times = json!({ "queued_at": view.queued_at });
        if let Some(at) = view.started_at {
            times["started_at"] = json!(at);
        }
        if let Some(at) = view.ended_at {
            times["ended_at"] = json!(at);
        }
        times["expires_at"] = json!(view.expires_at);
        times
    }

    pub fn ticket(&self, view: &CommandView, replayed: bool) -> Value {
        let position = if view.status == Status::Queued { view.ahead + view.running + 1 } else { 0 };
        json!({
            "command_id": view.command,
            "project_id": view.project,
            "status": view.status.as_str(),
            "replayed": replayed,
            "queue_position": position,
            "desktop": self.desktop(&view.desktop),
            "times": Self::times(view),
            "poll_after_seconds": texts::poll_after_seconds(view, self.now),
            "next_step": texts::next_step(view, self.now, replayed),
        })
    }

    pub fn cancelled(&self, view: &CommandView) -> Value {
        let mut answer = json!({
            "command_id": view.command,
            "status": view.status.as_str(),
            "terminal": view.status.is_terminal(),
            "cancel_requested": view.cancel_asked,
        });
        if let Some(reason) = &view.reason {
            answer["reason"] = json!(reason);
        }
        answer["next_step"] = json!(texts::next_step(view, self.now, false));
        answer
    }

    pub fn run(&self, view: &CommandView) -> Value {
        let mut answer = Map::new();
        let mut put = |name: &str, value: Value| {
            answer.insert(name.to_owned(), value);
        };
        put("command_id", json!(view.command));
        put("project_id", json!(view.project));
        put("graph_session_id", json!(view.session));
        put("status", json!(view.status.as_str()));
        put("terminal", json!(view.status.is_terminal()));
        put("cancel_requested", json!(view.cancel_asked));
        if let Some((code, since)) = texts::waiting(view, self.now) {
            put(
                "waiting",
                json!({"code": code.as_str(), "text": code.text(), "since": since, "owner_can": code.owner_can(), "agent_can": code.agent_can()}),
            );
        }
        if let (Status::Running, Some(progress)) = (view.status, &view.progress) {
            put("progress", json!(progress));
        }
        if let Some(ms) = view.pickup_wait_ms() {
            put("pickup_wait_ms", json!(ms));
        }
        put("desktop", self.desktop(&view.desktop));
        put("times", Self::times(view));
        put("poll_after_seconds", json!(texts::poll_after_seconds(view, self.now)));
        put("next_step", json!(texts::next_step(view, self.now, false)));
        if let Some(reason) = &view.reason {
            put("reason", json!(reason));
        }
        if let Some(execution) = &view.execution {
            put("execution_id", json!(execution));
        }
        self.outcome(view, &mut put);
        Value::Object(answer)
    }

    /// What the completion says, member by member and to the letter. Of a cancelled run no result is readable.
    fn outcome(&self, view: &CommandView, put: &mut impl FnMut(&str, Value)) {
        let Some(members) = view.completion.as_deref().and_then(|text| RawMembers::parse(text).ok()) else { return };
        let mut copy = |name: &str| {
            if let Some(raw) = members.get(name).and_then(|text| RawJson::parse(text).ok()) {
                put(name, self.raw(&raw));
            }
        };
        match view.status {
            Status::Completed if view.result_was_truncated() => copy("result_truncated"),
            Status::Completed => copy("result"),
            Status::Failed | Status::Cancelled => copy("error"),
            Status::Queued | Status::Running | Status::Expired => return,
        }
        copy("total_tokens");
        copy("reported_cost");
    }
}
