//! What an execution tells while it runs: append-only, numbered, the single source for the window, the history and the progress.
use serde::{Deserialize, Serialize};

use super::said::Sentence;
use crate::{ids::ExecutionId, time::Timestamp};

/// One line of an execution's story. `seq` counts from 1 without gaps.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
pub struct FleetEvent {
    pub seq: u64,
    #[cfg_attr(feature = "ts", ts(type = "string"))]
    pub at: Timestamp,
    #[serde(flatten)]
    pub what: FleetWhat,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum AgentEnd {
    Done,
    Failed,
    Cancelled,
    /// Not started: the ceiling was reached or the wave stopped.
    Refused,
    /// Its answer came from the journal: no tokens were spent.
    Replayed,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum RulingWord {
    Allow,
    Ask,
    Deny,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum FleetWhat {
    /// Always the first. `run_id` is what `fleet_cancel_run` takes.
    FleetStarted {
        #[cfg_attr(feature = "ts", ts(type = "string"))]
        run_id: ExecutionId,
        ceiling: u64,
        max_concurrency: u64,
        seed: u64,
    },
    Phase {
        title: String,
    },
    Log {
        text: String,
    },
    /// A `parallel`, `pipeline` or `retry` begins.
    WaveStarted {
        wave: u64,
        size: u64,
        form: String,
    },
    WaveFinished {
        wave: u64,
        done: u64,
        failed: u64,
    },
    WaveRefused {
        wave: u64,
        reason: String,
    },
    /// `line` is the call site in the Graph's source, counted from 1.
    AgentQueued {
        agent: u64,
        label: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        phase: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        wave: Option<u64>,
        model: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        line: Option<u32>,
        /// Slugs of the called Graphs this stands in, outermost first; empty for the executed Graph itself. `line` is of the last one.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        called: Vec<String>,
        prompt: String,
    },
    AgentStarted {
        agent: u64,
    },
    ModelCall {
        agent: u64,
        turn: u64,
        attempt: u64,
        input: u64,
        output: u64,
        cached: u64,
        estimated: bool,
        cost: Option<f64>,
        ms: u64,
    },
    /// A piece of streamed text. Shown live, kept in the transcript, not in the event table.
    AgentText {
        agent: u64,
        /// UTF-16 units this agent had said before: who hears a piece twice, or missed one, knows it.
        #[serde(default)]
        from: u64,
        text: String,
    },
    Retry {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        agent: Option<u64>,
        why: String,
        wait_ms: u64,
        attempt: u64,
    },
    /// `agent` is absent where the script itself calls the tool.
    /// `input` is the compact JSON text of the arguments.
    ToolCall {
        call: u64,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        agent: Option<u64>,
        tool: String,
        input: String,
        ruling: RulingWord,
        rule: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        line: Option<u32>,
        /// Slugs of the called Graphs this stands in, outermost first; empty for the executed Graph itself. `line` is of the last one.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        called: Vec<String>,
        /// `rule` with its facts; absent in stories of older desktops.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        said: Option<Sentence>,
    },
    ApprovalAsked {
        call: u64,
        approval: u64,
        seconds_left: u64,
    },
    /// `answer`: once, run, always, deny, unanswered, gone.
    ApprovalAnswered {
        call: u64,
        approval: u64,
        answer: String,
        by: String,
        waited_ms: u64,
        /// `by` with its facts, where a rule saved meanwhile answered.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        said: Option<Sentence>,
    },
    ToolResult {
        call: u64,
        ok: bool,
        bytes: u64,
        ms: u64,
        preview: String,
    },
    AgentFinished {
        agent: u64,
        end: AgentEnd,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        code: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<String>,
        tokens: u64,
        cost: Option<f64>,
        ms: u64,
    },
    Ledger {
        spent: u64,
        held: u64,
        ceiling: u64,
        cost: Option<f64>,
    },
    /// Everything that could run waits for the owner.
    FleetWaiting {
        approvals: u64,
    },
    FleetResumed {},
    Warning {
        text: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        line: Option<u32>,
    },
    /// Always the last.
    FleetFinished {
        status: String,
        reason: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        line: Option<u32>,
        tokens: u64,
        cost: Option<f64>,
        agents_done: u64,
        agents_failed: u64,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_one_flat_object() {
        let event = FleetEvent { seq: 2, at: Timestamp::from_ms(0), what: FleetWhat::Phase { title: "Read".into() } };
        let json = serde_json::to_string(&event).unwrap();
        assert_eq!(json, r#"{"seq":2,"at":"1970-01-01T00:00:00.000Z","kind":"phase","title":"Read"}"#);
        assert_eq!(serde_json::from_str::<FleetEvent>(&json).unwrap(), event);
    }
}
