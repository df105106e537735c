//! The device API's bodies, `protocol.md` §3. Requests and answers share these types on both sides.
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::{
    command::{CancelReason, Ending, FailReason},
    completion::{Completion, Used},
    ids::{AgentId, CommandId, DeviceId, ExecutionId, GraphSessionId, ProjectId, Slug},
    json::RawJson,
    limits::{ASKS_MAX, DESCRIPTION_CHARS_MAX, ERROR_UTF16_MAX, NAME_CHARS_MAX, SCHEMA_BYTES_MAX},
    text::cut_utf16,
    time::Timestamp,
};

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PairRequest {
    pub pairing_code: String,
    pub device_name: String,
    /// With the id of a device of the same owner the device keeps that identity; the old token dies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device_id: Option<DeviceId>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PairAnswer {
    pub device_id: DeviceId,
    pub device_token: String,
    /// The owner's name.
    pub owner: String,
}

/// `draft`, `ready` or `archived`. Only a ready session can be ticked and run by a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SessionStatus {
    Draft,
    Ready,
    Archived,
}

/// What an agent may know of one ticked session: metadata, never the program.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SharedSession {
    pub graph_session_id: GraphSessionId,
    pub name: String,
    pub description: String,
    pub slug: Slug,
    pub version: u64,
    pub status: SessionStatus,
    /// JSON Schema of the arguments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arguments_schema: Option<RawJson>,
    /// Tools that will ask the owner, where the owner chose to tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asks: Option<Vec<String>>,
}

impl SharedSession {
    /// The first bound that is passed, as a sentence naming field and limit.
    pub fn check(&self) -> Result<(), String> {
        let chars = |field: &str, text: &str, max: usize| {
            let n = text.chars().count();
            if n <= max { Ok(()) } else { Err(format!("{field} has {n} characters; at most {max} are allowed")) }
        };
        chars("name", &self.name, NAME_CHARS_MAX)?;
        chars("description", &self.description, DESCRIPTION_CHARS_MAX)?;
        if let Some(schema) = &self.arguments_schema {
            let n = schema.as_str().len();
            if n > SCHEMA_BYTES_MAX {
                return Err(format!("arguments_schema has {n} bytes; at most {SCHEMA_BYTES_MAX} are allowed"));
            }
        }
        match &self.asks {
            Some(asks) if asks.len() > ASKS_MAX => Err(format!("asks names {} tools; at most {ASKS_MAX} are allowed", asks.len())),
            _ => Ok(()),
        }
    }
}

/// How this device picks up work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pickup {
    /// It holds a doorbell.
    Doorbell,
    /// It asks every 20 s.
    Poll,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RelayState {
    pub pickup: Pickup,
    pub paused: bool,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SyncRequest {
    pub project_id: ProjectId,
    /// Counted up with each change of sharing; the server ignores an older one.
    #[serde(default)]
    pub revision: u64,
    pub sessions: Vec<SharedSession>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub relay: Option<RelayState>,
    /// Replace the list, hand out no commands.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub metadata_only: bool,
    /// The owner disabled the project on this device: its queued commands of this device end as not_shared.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub disabled: bool,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct OfferedCommand {
    /// Text, not yet an id: the device refuses what is not a [`CommandId`] before it writes anything.
    pub command_id: String,
    pub graph_session_id: GraphSessionId,
    /// The session's slug when the command was queued.
    pub slug: String,
    pub seq: u64,
    pub arguments: RawJson,
    pub queued_at: Timestamp,
    pub expires_at: Timestamp,
    /// Name of the connected agent that asked, for the owner's eyes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RunningCommand {
    pub command_id: CommandId,
    pub execution_id: ExecutionId,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SyncAnswer {
    /// Oldest first.
    pub commands: Vec<OfferedCommand>,
    #[serde(default)]
    pub more: bool,
    /// What the server believes this device is running in this project.
    #[serde(default)]
    pub running: Vec<RunningCommand>,
    /// The revision that stands.
    #[serde(default)]
    pub revision: u64,
    pub server_time: Timestamp,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct DoorbellRequest {
    pub project_ids: Vec<ProjectId>,
    /// Ring only for commands with a sequence number above this.
    pub after: u64,
    pub hold_ms: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct DoorbellAnswer {
    pub rang: bool,
    /// Highest sequence number seen; the next request's `after`.
    #[serde(default)]
    pub seq: u64,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct StartRequest {
    pub execution_id: ExecutionId,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct StartAnswer {
    pub status: String,
    /// End it as cancelled without running it.
    #[serde(default)]
    pub cancel: bool,
}

/// A question an execution waits for. Times are told as seconds left: the device's clock may be wrong.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WaitingApproval {
    pub tool: String,
    pub agent: String,
    pub seconds_left: u64,
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Progress {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    pub agents_done: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agents_total: Option<u64>,
    pub tokens: u64,
    #[serde(default)]
    pub waiting_approval: Vec<WaitingApproval>,
    #[serde(default)]
    pub text: String,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ControlRequest {
    pub execution_id: ExecutionId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<Progress>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hold_ms: Option<u64>,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct ControlAnswer {
    pub cancel: bool,
}

/// Nothing else is an answer to a completion: a captive portal's page has not this shape.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CompleteAnswer {
    pub recorded: bool,
    pub status: String,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ErrorBody {
    pub error: ErrorDetail,
    /// On a refused `start`: the state that stands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ErrorDetail {
    pub code: String,
    pub message: String,
    pub retryable: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Project {
    pub project_id: ProjectId,
    pub name: String,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ProjectList {
    pub projects: Vec<Project>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ProjectName {
    pub name: String,
}

/// The Graphs of the asking device whose text is here for reading in the browser.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ReadableGraphs {
    pub graph_session_ids: Vec<GraphSessionId>,
}

/// What the owner grants: named projects and scopes.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct GrantRequest {
    pub name: String,
    pub project_ids: Vec<ProjectId>,
    pub scopes: Vec<String>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct AgentTokenAnswer {
    pub agent_id: AgentId,
    /// Shown once; only its hash is kept.
    pub token: String,
    /// The address an MCP client connects to.
    pub mcp_url: String,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ConnectCodeAnswer {
    pub connect_code: String,
    pub expires_at: Timestamp,
    pub mcp_url: String,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ConnectedAgent {
    pub agent_id: AgentId,
    pub name: String,
    /// `token` or `oauth`.
    pub kind: String,
    pub project_ids: Vec<ProjectId>,
    pub scopes: Vec<String>,
    pub created_at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_used_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked_at: Option<Timestamp>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct AgentList {
    pub agents: Vec<ConnectedAgent>,
}

/// One command in the owner's own list. Arguments and results only for sessions of the asking device.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct OwnedCommand {
    pub command_id: CommandId,
    pub project_id: ProjectId,
    pub graph_session_id: GraphSessionId,
    pub slug: String,
    pub agent: String,
    pub device_id: DeviceId,
    pub status: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    pub queued_at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pickup_wait_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub execution_id: Option<ExecutionId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arguments: Option<RawJson>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<RawJson>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CommandList {
    pub commands: Vec<OwnedCommand>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// A completion's JSON, read back. The text itself is kept beside it, so nothing of the owner's numbers is lost.
///
/// Unknown members are ignored; a missing `reason` (the published relay sends none) is derived from the status.
pub fn read_completion(text: &str) -> Result<Completion, String> {
    #[derive(Deserialize)]
    struct Body<'a> {
        #[serde(default)]
        execution_id: Option<ExecutionId>,
        status: String,
        #[serde(default)]
        reason: Option<String>,
        #[serde(borrow, default)]
        result: Option<&'a RawValue>,
        #[serde(default)]
        result_truncated: bool,
        #[serde(default)]
        error: Option<String>,
        #[serde(default)]
        total_tokens: Option<u64>,
        #[serde(default)]
        reported_cost: Option<f64>,
    }
    let body: Body<'_> = serde_json::from_str(text).map_err(|e| e.to_string())?;
    let used = Used { total_tokens: body.total_tokens.unwrap_or(0), cost: body.reported_cost };
    let Some(execution) = body.execution_id else {
        return match (body.status.as_str(), body.reason.as_deref()) {
            ("cancelled", None | Some("not_shared")) => Ok(Completion::NotShared),
            _ => Err("execution_id may be null only with status cancelled and reason not_shared".into()),
        };
    };
    let error = cut_utf16(body.error.as_deref().unwrap_or_default(), ERROR_UTF16_MAX).to_owned();
    let ending = match body.status.as_str() {
        "completed" if body.result_truncated => return Ok(Completion::DoneTruncated { execution }),
        "completed" => {
            let text = body.result.map_or("null", RawValue::get);
            let result = RawJson::parse(text).map_err(|e| format!("result: {e}"))?;
            return Ok(Completion::Done { execution, result, used });
        }
        "failed" => match body.reason.as_deref() {
            None => Ending::Failed(FailReason::ScriptError),
            Some(word) => Ending::Failed(FailReason::parse(word).ok_or("reason is not one of the reasons of failed")?),
        },
        "cancelled" => match body.reason.as_deref() {
            None => Ending::Cancelled(CancelReason::Stopped),
            Some(word) => Ending::Cancelled(CancelReason::parse(word).ok_or("reason is not one of the reasons of cancelled")?),
        },
        _ => return Err("status must be completed, failed or cancelled".into()),
    };
    Ok(Completion::Ended { execution, ending, error, used })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::completion::Outcome;

    #[test]
    fn a_completion_reads_back_as_it_was_written() {
        let execution = || ExecutionId::parse("e-1").unwrap();
        let used = Used { total_tokens: 7, cost: Some(0.25) };
        let result = RawJson::parse(r#"{"z":1e+21,"a":[-0,9223372036854775809],"n":"\u0000"}"#).unwrap();
        for completion in [
            Completion::bounded(execution(), &Outcome::Completed { result, used }),
            Completion::DoneTruncated { execution: execution() },
            Completion::bounded(execution(), &Outcome::Failed { why: FailReason::Deadline, error: "too\0 late".into(), used }),
            Completion::bounded(execution(), &Outcome::Cancelled { why: CancelReason::OwnerStopped, error: "Stopped".into(), used: Used::default() }),
            Completion::NotShared,
        ] {
            assert_eq!(read_completion(&completion.to_json()), Ok(completion));
        }
    }

    #[test]
    fn the_published_relay_may_leave_out_the_reason() {
        let read = read_completion(r#"{"execution_id":"e","status":"failed","error":"x","total_tokens":1,"reported_cost":null,"new":1}"#).unwrap();
        assert_eq!(read.ending(), Ending::Failed(FailReason::ScriptError));
    }

    #[test]
    fn what_is_no_completion_is_refused_in_words() {
        for bad in [
            r#"{"execution_id":null,"status":"completed"}"#,
            r#"{"execution_id":"e","status":"queued"}"#,
            r#"{"execution_id":"a b","status":"completed"}"#,
            r#"{"execution_id":"e","status":"failed","reason":"because"}"#,
            "[]",
        ] {
            assert!(read_completion(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_session_over_a_bound_is_told_which() {
        let mut session = SharedSession {
            graph_session_id: GraphSessionId::from_random([1; 16]),
            name: "x".repeat(120),
            description: "y".repeat(2000),
            slug: Slug::parse("s").unwrap(),
            version: 1,
            status: SessionStatus::Ready,
            arguments_schema: None,
            asks: None,
        };
        assert_eq!(session.check(), Ok(()));
        session.name.push('x');
        assert_eq!(session.check(), Err("name has 121 characters; at most 120 are allowed".into()));
    }
}
