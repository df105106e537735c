//! What parent and script process tell each other: length-prefixed JSON frames over stdio.
//!
//! JSON that belongs to the script or the owner travels as text inside a string: nobody in between reads its numbers.
//! Both ends are always of the same build, so these types may change freely.
use serde::{Deserialize, Serialize};

/// A frame longer than this is not ours.
pub(crate) const FRAME_BYTES_MAX: usize = 64 * domain::limits::MIB;

/// Parent to script.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum ToVm {
    Start(Start),
    /// Only look for syntax errors.
    Lint {
        source: String,
    },
    Answer(Answer),
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Start {
    pub source: String,
    /// JSON text of the arguments.
    pub args: String,
    pub seed: u64,
    pub now_ms: i64,
    pub budget: Budget,
    /// Longest it may work without coming back.
    pub busy_ms: u64,
}

/// The ledger as the script sees it, as of the last answer.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub struct Budget {
    pub total: u64,
    pub spent: u64,
    pub free: u64,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Answer {
    pub id: u64,
    /// JSON text, or the error.
    pub body: Result<String, Failure>,
    pub budget: Budget,
    /// Milliseconds of the script's clock since its start.
    pub clock_ms: i64,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Failure {
    pub code: String,
    pub message: String,
    pub retryable: bool,
    pub tokens: u64,
    pub cost: Option<f64>,
}

/// Script to parent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum FromVm {
    /// The order has arrived, and nothing of it was done yet. Only the process says so: whoever hands an order to one that was waiting
    /// learns by this that it still lived.
    Taken,
    Call(Call),
    Note {
        note: Note,
        /// Where the script stood.
        line: Option<u32>,
    },
    /// The last frame of a lint.
    Linted(Result<(), Place>),
    /// The script waits for its host: nothing happens before the next answer. Only the in-process twin says so.
    Idle,
    /// The last frame of a run.
    End(End),
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Call {
    pub id: u64,
    pub what: What,
    pub wave: Option<u64>,
    pub line: Option<u32>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum What {
    Agent { prompt: String, options: String },
    Tool { name: String, input: String },
    Ask { question: String, options: String },
    Graph { slug: String, args: String },
    Sleep { seconds: f64 },
    Wave { form: String, size: u64 },
}

/// What needs no answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Note {
    Log {
        text: String,
    },
    Phase {
        title: String,
    },
    WaveFinished {
        wave: u64,
        done: u64,
        failed: u64,
    },
    /// Too many failures of one class: nothing of this wave may start any more.
    WaveStopped {
        wave: u64,
        reason: String,
    },
    Retry {
        why: String,
        wait_ms: u64,
        attempt: u64,
    },
    Warning {
        text: String,
        line: Option<u32>,
    },
}

/// A place in the source, with words. Counted from 1; 0 means unknown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    pub message: String,
    pub line: u32,
    pub column: u32,
}

/// How a script ended by itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum End {
    /// JSON text of what it returned.
    Returned {
        json: String,
    },
    Failed(Fault),
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Fault {
    pub kind: FaultKind,
    /// Ready to show: message, place, frames, source line with caret.
    pub text: String,
    pub line: Option<u32>,
    /// Code of an uncaught call error.
    pub code: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum FaultKind {
    Syntax,
    Thrown,
    TooDeep,
    Stalled,
    NotJson,
    /// The interpreter itself failed.
    Broken,
}
