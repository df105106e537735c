//! The life of a command: one pure function owns every arrow.
//!
//! The server's SQL repeats these guards in its WHERE clauses; `docs/queue.md` draws them. Terminal states never change.
//! An accepted cancel ends as `cancelled` whatever ending follows; what really happened stays in the reason.
use crate::ids::ExecutionId;

macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $text:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum $name { $($(#[$vdoc])* $variant),+ }

        impl $name {
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text),+ }
            }
            pub fn parse(text: &str) -> Option<Self> {
                match text { $($text => Some(Self::$variant),)+ _ => None }
            }
        }
        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}

words!(
    /// Why a command failed. One cause, one word.
    FailReason {
        ScriptError = "script_error",
        ArgumentsInvalid = "arguments_invalid",
        CeilingReached = "ceiling_reached",
        WaveStopped = "wave_stopped",
        Deadline = "deadline",
        OutOfMemory = "out_of_memory",
        TooDeep = "too_deep",
        Stalled = "stalled",
        ResultNotJson = "result_not_json",
        NoModel = "no_model",
        DeviceRestarted = "device_restarted",
        DeviceDidNotReturn = "device_did_not_return",
        OwnerQuit = "owner_quit",
    }
);

words!(
    /// Why a command was cancelled.
    CancelReason {
        /// Cancelled before any device started it: nothing ran.
        CancelledWhileQueued = "cancelled_while_queued",
        /// Consent was missing at the instant of start: nothing ran.
        NotShared = "not_shared",
        AgentRevoked = "agent_revoked",
        OwnerStopped = "owner_stopped",
        /// A cancel was accepted and the Graph was stopped.
        Stopped = "stopped",
        /// A cancel was accepted, but the Graph had ended by itself first.
        FinishedBeforeStop = "finished_before_stop",
        DeviceRestarted = "device_restarted",
        DeviceDidNotReturn = "device_did_not_return",
    }
);

words!(
    /// The state's name, as agents, owners and tables see it.
    Status {
        Queued = "queued",
        Running = "running",
        Completed = "completed",
        Failed = "failed",
        Cancelled = "cancelled",
        Expired = "expired",
    }
);

impl Status {
    pub const fn is_terminal(self) -> bool {
        match self {
            Self::Queued | Self::Running => false,
            Self::Completed | Self::Failed | Self::Cancelled | Self::Expired => true,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CancelFlag {
    None,
    Asked,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum CommandState {
    Queued,
    Running { execution: ExecutionId, cancel: CancelFlag },
    Completed,
    Failed { why: FailReason },
    Cancelled { why: CancelReason },
    Expired,
}

impl CommandState {
    pub const fn status(&self) -> Status {
        match self {
            Self::Queued => Status::Queued,
            Self::Running { .. } => Status::Running,
            Self::Completed => Status::Completed,
            Self::Failed { .. } => Status::Failed,
            Self::Cancelled { .. } => Status::Cancelled,
            Self::Expired => Status::Expired,
        }
    }

    /// `done` for a completed command, else the word of its ending.
    pub const fn reason(&self) -> Option<&'static str> {
        match self {
            Self::Queued | Self::Running { .. } | Self::Expired => None,
            Self::Completed => Some("done"),
            Self::Failed { why } => Some(why.as_str()),
            Self::Cancelled { why } => Some(why.as_str()),
        }
    }
}

/// How an execution ended, as its device tells it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Ending {
    Completed,
    Failed(FailReason),
    Cancelled(CancelReason),
}

impl Ending {
    const fn into_state(self) -> CommandState {
        match self {
            Self::Completed => CommandState::Completed,
            Self::Failed(why) => CommandState::Failed { why },
            Self::Cancelled(why) => CommandState::Cancelled { why },
        }
    }

    /// The reason kept when a cancel had been accepted before this ending.
    pub const fn as_cancelled(self) -> CancelReason {
        match self {
            Self::Completed => CancelReason::FinishedBeforeStop,
            Self::Failed(FailReason::DeviceRestarted) => CancelReason::DeviceRestarted,
            Self::Failed(FailReason::DeviceDidNotReturn) => CancelReason::DeviceDidNotReturn,
            Self::Failed(FailReason::OwnerQuit) => CancelReason::Stopped,
            Self::Failed(
                FailReason::ScriptError
                | FailReason::ArgumentsInvalid
                | FailReason::CeilingReached
                | FailReason::WaveStopped
                | FailReason::Deadline
                | FailReason::OutOfMemory
                | FailReason::TooDeep
                | FailReason::Stalled
                | FailReason::ResultNotJson
                | FailReason::NoModel,
            ) => CancelReason::FinishedBeforeStop,
            Self::Cancelled(CancelReason::OwnerStopped | CancelReason::Stopped | CancelReason::CancelledWhileQueued | CancelReason::AgentRevoked) => {
                CancelReason::Stopped
            }
            // Nothing ran at all: that stays the truth.
            Self::Cancelled(
                why @ (CancelReason::NotShared | CancelReason::FinishedBeforeStop | CancelReason::DeviceRestarted | CancelReason::DeviceDidNotReturn),
            ) => why,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// The connected agent or the owner asks for the end.
    Cancel,
    /// Its connected agent was revoked.
    AgentRevoked,
    /// Its project was deleted.
    ProjectDeleted,
    /// Its device disabled the project, or found before the claim that consent is gone.
    NotShared,
    /// A device claims it, immediately before running it.
    Start { execution: ExecutionId },
    /// A device reports an ending of an execution it owns.
    End { execution: ExecutionId, ending: Ending },
    /// The queued time to live has passed.
    QueuedTooLong,
    /// The running time to live has passed without contact.
    DeviceGone,
}

/// Why an event changes nothing. The state that stands goes with the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// Terminal states never change. A device's report gets 200 with `recorded: false`, a cancel the state that stands.
    #[error("the command has already ended")]
    AlreadyEnded,
    /// Another execution holds the command: 409.
    #[error("the command belongs to another execution")]
    OtherExecution,
    /// A running command is neither withdrawn nor expired from the queue: its own ending decides.
    #[error("the command is running")]
    Running,
    /// Only a running command can lose its device.
    #[error("the command has not been started")]
    NotStarted,
}

/// The state after `event`, or why it changes nothing. Repeating an accepted event gives the same state again.
pub fn apply(state: &CommandState, event: Event) -> Result<CommandState, Refused> {
    use CommandState as S;
    use Event as E;
    match (state, event) {
        // Delivery is not a claim, so a queued command can still be withdrawn at once and never starts.
        (S::Queued, E::Cancel) => Ok(S::Cancelled { why: CancelReason::CancelledWhileQueued }),
        (S::Queued, E::AgentRevoked) => Ok(S::Cancelled { why: CancelReason::AgentRevoked }),
        (S::Queued, E::ProjectDeleted | E::NotShared) => Ok(S::Cancelled { why: CancelReason::NotShared }),
        (S::Queued, E::Start { execution }) => Ok(S::Running { execution, cancel: CancelFlag::None }),
        // A server restored from a backup may have forgotten the start: the device's memory of its own ending counts.
        (S::Queued, E::End { execution: _, ending }) => Ok(ending.into_state()),
        (S::Queued, E::QueuedTooLong) => Ok(S::Expired),
        (S::Queued, E::DeviceGone) => Err(Refused::NotStarted),

        (S::Running { execution, .. }, E::Cancel | E::AgentRevoked | E::ProjectDeleted) => {
            Ok(S::Running { execution: execution.clone(), cancel: CancelFlag::Asked })
        }
        // The answer to the first start may have been lost: the same execution is granted again.
        (S::Running { execution: holder, cancel }, E::Start { execution }) if *holder == execution => Ok(S::Running { execution, cancel: *cancel }),
        (S::Running { execution: holder, cancel: CancelFlag::None }, E::End { execution, ending }) if *holder == execution => Ok(ending.into_state()),
        // An accepted cancel wins over any ending; what really happened stays in the reason.
        (S::Running { execution: holder, cancel: CancelFlag::Asked }, E::End { execution, ending }) if *holder == execution => {
            Ok(S::Cancelled { why: ending.as_cancelled() })
        }
        (S::Running { .. }, E::Start { .. } | E::End { .. }) => Err(Refused::OtherExecution),
        (S::Running { .. }, E::NotShared | E::QueuedTooLong) => Err(Refused::Running),
        (S::Running { cancel: CancelFlag::None, .. }, E::DeviceGone) => Ok(S::Failed { why: FailReason::DeviceDidNotReturn }),
        (S::Running { cancel: CancelFlag::Asked, .. }, E::DeviceGone) => Ok(S::Cancelled { why: CancelReason::DeviceDidNotReturn }),

        (
            S::Completed | S::Failed { .. } | S::Cancelled { .. } | S::Expired,
            E::Cancel | E::AgentRevoked | E::ProjectDeleted | E::NotShared | E::Start { .. } | E::End { .. } | E::QueuedTooLong | E::DeviceGone,
        ) => Err(Refused::AlreadyEnded),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn execution(name: &str) -> ExecutionId {
        ExecutionId::parse(name).unwrap()
    }
    fn running(name: &str, cancel: CancelFlag) -> CommandState {
        CommandState::Running { execution: execution(name), cancel }
    }
    fn show(outcome: &Result<CommandState, Refused>) -> String {
        match outcome {
            Ok(CommandState::Running { execution, cancel: CancelFlag::None }) => format!("running {execution}"),
            Ok(CommandState::Running { execution, cancel: CancelFlag::Asked }) => format!("running {execution}, cancel asked"),
            Ok(state) => format!("{} {}", state.status(), state.reason().unwrap_or("-")),
            Err(refused) => format!("refused: {refused}"),
        }
    }

    /// The whole matrix: every state against every event. A new state or event makes a row or column that must be filled.
    #[test]
    fn every_state_answers_every_event() {
        use CancelFlag::{Asked, None};
        use Event as E;
        let done = || Ending::Completed;
        let events: Vec<(&str, Event)> = vec![
            ("cancel", E::Cancel),
            ("agent revoked", E::AgentRevoked),
            ("project deleted", E::ProjectDeleted),
            ("not shared", E::NotShared),
            ("start e1", E::Start { execution: execution("e1") }),
            ("start e2", E::Start { execution: execution("e2") }),
            ("e1 completed", E::End { execution: execution("e1"), ending: done() }),
            ("e1 failed script_error", E::End { execution: execution("e1"), ending: Ending::Failed(FailReason::ScriptError) }),
            ("e1 failed device_restarted", E::End { execution: execution("e1"), ending: Ending::Failed(FailReason::DeviceRestarted) }),
            ("e1 cancelled stopped", E::End { execution: execution("e1"), ending: Ending::Cancelled(CancelReason::Stopped) }),
            ("e1 cancelled owner_stopped", E::End { execution: execution("e1"), ending: Ending::Cancelled(CancelReason::OwnerStopped) }),
            ("e1 cancelled not_shared", E::End { execution: execution("e1"), ending: Ending::Cancelled(CancelReason::NotShared) }),
            ("e2 completed", E::End { execution: execution("e2"), ending: done() }),
            ("queued too long", E::QueuedTooLong),
            ("device gone", E::DeviceGone),
        ];
        let other = "refused: the command belongs to another execution";
        let busy = "refused: the command is running";
        let rows: Vec<(CommandState, Vec<&str>)> = vec![
            (
                CommandState::Queued,
                vec![
                    "cancelled cancelled_while_queued",
                    "cancelled agent_revoked",
                    "cancelled not_shared",
                    "cancelled not_shared",
                    "running e1",
                    "running e2",
                    "completed done",
                    "failed script_error",
                    "failed device_restarted",
                    "cancelled stopped",
                    "cancelled owner_stopped",
                    "cancelled not_shared",
                    "completed done",
                    "expired -",
                    "refused: the command has not been started",
                ],
            ),
            (
                running("e1", None),
                vec![
                    "running e1, cancel asked",
                    "running e1, cancel asked",
                    "running e1, cancel asked",
                    busy,
                    "running e1",
                    other,
                    "completed done",
                    "failed script_error",
                    "failed device_restarted",
                    "cancelled stopped",
                    "cancelled owner_stopped",
                    "cancelled not_shared",
                    other,
                    busy,
                    "failed device_did_not_return",
                ],
            ),
            (
                running("e1", Asked),
                vec![
                    "running e1, cancel asked",
                    "running e1, cancel asked",
                    "running e1, cancel asked",
                    busy,
                    "running e1, cancel asked",
                    other,
                    "cancelled finished_before_stop",
                    "cancelled finished_before_stop",
                    "cancelled device_restarted",
                    "cancelled stopped",
                    "cancelled stopped",
                    "cancelled not_shared",
                    other,
                    busy,
                    "cancelled device_did_not_return",
                ],
            ),
        ];
        for (state, expected) in rows {
            assert_eq!(expected.len(), events.len());
            for ((name, event), expected) in events.iter().zip(expected) {
                assert_eq!(show(&apply(&state, event.clone())), expected, "{state:?} on {name}");
            }
        }
        let mut terminal = vec![CommandState::Completed, CommandState::Expired];
        terminal.extend(FailReason::ALL.iter().map(|why| CommandState::Failed { why: *why }));
        terminal.extend(CancelReason::ALL.iter().map(|why| CommandState::Cancelled { why: *why }));
        for state in terminal {
            assert!(state.status().is_terminal());
            for (name, event) in &events {
                assert_eq!(apply(&state, event.clone()), Err(Refused::AlreadyEnded), "{state:?} on {name}");
            }
        }
    }

    #[test]
    fn an_accepted_cancel_always_ends_as_cancelled() {
        let endings = FailReason::ALL
            .iter()
            .map(|why| Ending::Failed(*why))
            .chain(CancelReason::ALL.iter().map(|why| Ending::Cancelled(*why)))
            .chain([Ending::Completed]);
        for ending in endings {
            let after = apply(&running("e1", CancelFlag::Asked), Event::End { execution: execution("e1"), ending }).unwrap();
            assert_eq!(after.status(), Status::Cancelled, "{ending:?}");
        }
    }

    #[test]
    fn every_word_reads_back() {
        for why in FailReason::ALL {
            assert_eq!(FailReason::parse(why.as_str()), Some(*why));
        }
        for why in CancelReason::ALL {
            assert_eq!(CancelReason::parse(why.as_str()), Some(*why));
        }
        for status in Status::ALL {
            assert_eq!(Status::parse(status.as_str()), Some(*status));
        }
    }
}
