//! The five tools as they are published. Their order, texts and schemas are interface; a golden test compares them.
use std::sync::LazyLock;

use domain::text::{RUN_GRAPH_SESSION, SCOPE_READ, SCOPE_RUN};
use rmcp::model::{JsonObject, MetaObject, Tool, ToolAnnotations};
use serde_json::{Value, json};

/// A tool's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Name {
    CancelGraphRun,
    GetGraphRun,
    ListGraphSessions,
    ListProjects,
    RunGraphSession,
}

impl Name {
    pub const ALL: &'static [Self] = &[Self::CancelGraphRun, Self::GetGraphRun, Self::ListGraphSessions, Self::ListProjects, Self::RunGraphSession];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::CancelGraphRun => "cancel_graph_run",
            Self::GetGraphRun => "get_graph_run",
            Self::ListGraphSessions => "list_graph_sessions",
            Self::ListProjects => "list_projects",
            Self::RunGraphSession => "run_graph_session",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|name| name.as_str() == text)
    }

    pub const fn scope(self) -> &'static str {
        match self {
            Self::GetGraphRun | Self::ListGraphSessions | Self::ListProjects => SCOPE_READ,
            Self::CancelGraphRun | Self::RunGraphSession => SCOPE_RUN,
        }
    }

    /// The members its arguments may have.
    pub const fn members(self) -> &'static [&'static str] {
        match self {
            Self::CancelGraphRun => &["command_id"],
            Self::GetGraphRun => &["command_id", "wait_seconds"],
            Self::ListGraphSessions => &["project_id", "limit", "cursor"],
            Self::ListProjects => &[],
            Self::RunGraphSession => &["graph_session_id", "arguments", "idempotency_key"],
        }
    }

    const fn title(self) -> &'static str {
        match self {
            Self::CancelGraphRun => "Cancel a Graph run",
            Self::GetGraphRun => "Get a Graph run",
            Self::ListGraphSessions => "List shared Graph sessions",
            Self::ListProjects => "List connected projects",
            Self::RunGraphSession => "Run a Graph session",
        }
    }

    const fn description(self) -> &'static str {
        match self {
            Self::CancelGraphRun => {
                "Cancel a Graph run started by this Connected agent. A queued run ends at once and never starts; for a running one this stops further work where possible and does not undo what was done."
            }
            Self::GetGraphRun => {
                "Read status, progress and result of a Graph run started by this Connected agent. With wait_seconds the answer comes as soon as the status changes, at the latest after that time. Runs can be read for 30 days after they ended."
            }
            Self::ListGraphSessions => {
                "List the Graph sessions that the owner shares with a connected project: names, descriptions and argument schemas as the owner's desktop last uploaded them."
            }
            Self::ListProjects => "List the owner's projects that this Connected agent was granted.",
            Self::RunGraphSession => RUN_GRAPH_SESSION,
        }
    }

    fn annotations(self) -> ToolAnnotations {
        let hints = ToolAnnotations::new();
        match self {
            Self::GetGraphRun | Self::ListGraphSessions | Self::ListProjects => hints.read_only(true),
            Self::CancelGraphRun => hints.read_only(false).destructive(true).idempotent(true),
            Self::RunGraphSession => hints.read_only(false).destructive(true),
        }
    }

    fn input_schema(self) -> Value {
        let command_id = json!({"type": "string", "description": "The command_id that run_graph_session answered with."});
        let (properties, required) = match self {
            Self::CancelGraphRun => (json!({"command_id": command_id}), json!(["command_id"])),
            Self::GetGraphRun => {
                let wait = json!({"type": "integer", "minimum": 0, "maximum": 25, "description": "Seconds to wait for a change of status. Default 0: answer at once."});
                (json!({"command_id": command_id, "wait_seconds": wait}), json!(["command_id"]))
            }
            Self::ListGraphSessions => (
                json!({
                    "project_id": {"type": "string", "description": "A project_id of list_projects."},
                    "limit": {"type": "integer", "minimum": 1, "maximum": 50, "default": 20, "description": "Sessions per page."},
                    "cursor": {"type": "string", "description": "next_cursor of the page before."},
                }),
                json!(["project_id"]),
            ),
            Self::ListProjects => (json!({}), json!([])),
            Self::RunGraphSession => (
                json!({
                    "graph_session_id": {"type": "string", "description": "A graph_session_id of list_graph_sessions."},
                    "arguments": {"type": "object", "description": "Arguments of the Graph, fitting the session's arguments_schema where it has one."},
                    "idempotency_key": {"type": "string", "minLength": 8, "maxLength": 128,
                        "description": "One per intended run. The same key with the same run answers with the same command."},
                }),
                json!(["graph_session_id", "idempotency_key"]),
            ),
        };
        let mut schema = json!({"type": "object", "properties": properties, "additionalProperties": false});
        if required.as_array().is_some_and(|r| !r.is_empty()) {
            schema["required"] = required;
        }
        schema
    }

    fn output_schema(self) -> Value {
        match self {
            Self::ListProjects => {
                let project = json!({"type": "object", "properties": {"project_id": {"type": "string"}, "name": {"type": "string"}}, "required": ["project_id", "name"]});
                object(json!({"projects": {"type": "array", "items": project}}), &["projects"])
            }
            Self::ListGraphSessions => {
                let session = object(
                    json!({
                        "graph_session_id": {"type": "string"}, "name": {"type": "string"}, "description": {"type": "string"}, "slug": {"type": "string"},
                        "version": {"type": "integer"}, "status": {"type": "string", "enum": ["draft", "ready", "archived"]},
                        "arguments_schema": {"type": "object"}, "asks": {"type": "array", "items": {"type": "string"}}, "desktop": desktop(),
                    }),
                    &["graph_session_id", "name", "description", "slug", "version", "status"],
                );
                let properties =
                    json!({"project_id": {"type": "string"}, "sessions": {"type": "array", "items": session}, "next_cursor": {"type": "string"}});
                object(properties, &["project_id", "sessions"])
            }
            Self::RunGraphSession => object(
                json!({
                    "command_id": {"type": "string"}, "project_id": {"type": "string"}, "status": status(), "replayed": {"type": "boolean"},
                    "queue_position": {"type": "integer", "description": "1: next on that desktop. 0: no longer queued."},
                    "desktop": desktop(), "times": times(), "poll_after_seconds": {"type": "integer"}, "next_step": {"type": "string"},
                }),
                &["command_id", "project_id", "status", "replayed", "queue_position", "desktop", "times", "poll_after_seconds", "next_step"],
            ),
            Self::CancelGraphRun => object(
                json!({
                    "command_id": {"type": "string"}, "status": status(), "terminal": {"type": "boolean"}, "cancel_requested": {"type": "boolean"},
                    "reason": {"type": "string"}, "next_step": {"type": "string"},
                }),
                &["command_id", "status", "terminal", "cancel_requested", "next_step"],
            ),
            Self::GetGraphRun => object(
                json!({
                    "command_id": {"type": "string"}, "project_id": {"type": "string"}, "graph_session_id": {"type": "string"}, "status": status(),
                    "terminal": {"type": "boolean"}, "cancel_requested": {"type": "boolean"},
                    "waiting": {"type": "object"}, "progress": {"type": "object"}, "pickup_wait_ms": {"type": "integer"},
                    "desktop": desktop(), "times": times(), "poll_after_seconds": {"type": "integer"}, "next_step": {"type": "string"},
                    "reason": {"type": "string"}, "execution_id": {"type": "string"}, "result": {}, "result_truncated": {"type": "boolean"},
                    "error": {"type": "string"}, "total_tokens": {"type": "integer"}, "reported_cost": {"type": ["number", "null"]},
                }),
                &[
                    "command_id",
                    "project_id",
                    "graph_session_id",
                    "status",
                    "terminal",
                    "cancel_requested",
                    "desktop",
                    "times",
                    "poll_after_seconds",
                    "next_step",
                ],
            ),
        }
    }

    /// Top-level extension of the tool object, mirrored in `_meta` for clients that only read that.
    pub fn security_schemes(self) -> Value {
        json!([{"type": "oauth2", "scopes": [self.scope()]}])
    }
}

fn object(properties: Value, required: &[&str]) -> Value {
    json!({"type": "object", "properties": properties, "required": required})
}

fn status() -> Value {
    json!({"type": "string", "enum": ["queued", "running", "completed", "failed", "cancelled", "expired"]})
}

fn desktop() -> Value {
    object(
        json!({"name": {"type": "string"}, "online": {"type": "boolean"}, "last_contact_at": {"type": ["string", "null"]}}),
        &["name", "online", "last_contact_at"],
    )
}

fn times() -> Value {
    let time = json!({"type": "string", "format": "date-time"});
    object(json!({"queued_at": time, "started_at": time, "ended_at": time, "expires_at": time}), &["queued_at", "expires_at"])
}

fn members(value: Value) -> JsonObject {
    match value {
        Value::Object(members) => members,
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => JsonObject::new(),
    }
}

/// All of them, in their published order.
pub static TOOLS: LazyLock<Vec<Tool>> = LazyLock::new(|| {
    let tool = |name: &Name| {
        let mut meta = JsonObject::new();
        meta.insert("securitySchemes".into(), name.security_schemes());
        Tool::new(name.as_str(), name.description(), std::sync::Arc::new(members(name.input_schema())))
            .with_title(name.title())
            .with_raw_output_schema(std::sync::Arc::new(members(name.output_schema())))
            .with_annotations(name.annotations())
            .with_meta(MetaObject(meta))
    };
    Name::ALL.iter().map(tool).collect()
});
