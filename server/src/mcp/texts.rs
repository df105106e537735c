//! What an agent is told beside the facts: one table of sentences. Guidance stands here, in results, never in tool descriptions.
use domain::{
    Timestamp,
    command::Status,
    limits::{DEVICE_ONLINE_MS, POLL_AFTER_OFFLINE_S, POLL_AFTER_QUEUED_DOORBELL_S, POLL_AFTER_QUEUED_S, POLL_AFTER_RUNNING_S},
    wire::relay::Pickup,
};

use crate::queue::view::CommandView;

macro_rules! waiting_codes {
    ($($variant:ident = $word:literal, $text:literal, owner $owner:literal, agent $agent:literal;)+) => {
        /// Why nothing happens. The first that holds is told.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Waiting { $($variant),+ }
        impl Waiting {
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];
            pub const fn as_str(self) -> &'static str { match self { $(Self::$variant => $word),+ } }
            pub const fn text(self) -> &'static str { match self { $(Self::$variant => $text),+ } }
            pub const fn owner_can(self) -> &'static str { match self { $(Self::$variant => $owner),+ } }
            pub const fn agent_can(self) -> &'static str { match self { $(Self::$variant => $agent),+ } }
        }
    };
}

waiting_codes! {
    DeviceNeverSeen = "device_never_seen", "The owner's desktop has not contacted the queue yet.",
        owner "Start Graph Desk on the computer that shares this Graph session.", agent "Tell the owner; the run waits in the queue until then.";
    DeviceOffline = "device_offline", "The owner's desktop is offline.",
        owner "Start Graph Desk, or wake the computer and check its network.", agent "Tell the owner; the command stays as it is until the desktop is back.";
    DevicePaused = "device_paused", "The owner has paused pickup on the desktop.",
        owner "Resume pickup in Graph Desk.", agent "Tell the owner; the run waits in the queue until pickup is resumed.";
    WaitingApproval = "waiting_approval", "The run waits for the owner to answer an approval on the desktop.",
        owner "Answer the approval popup in Graph Desk.", agent "Tell the owner which approval is open; the run goes on once it is answered.";
    BehindAnotherRun = "behind_another_run", "Another run comes first: one desktop is one worker.",
        owner "Wait, or stop the run that is in progress.", agent "Wait; runs are taken in the order in which they were queued.";
    PickingUp = "picking_up", "The desktop is online and has not started this run yet.",
        owner "Nothing.", agent "Wait; the desktop asks for work about every 20 seconds.";
}

/// Why the command does not move, if it does not.
pub fn waiting(view: &CommandView, now: Timestamp) -> Option<(Waiting, Timestamp)> {
    let desktop = &view.desktop;
    let asks = view.progress.as_ref().is_some_and(|p| !p.waiting_approval.is_empty());
    match view.status {
        Status::Completed | Status::Failed | Status::Cancelled | Status::Expired => None,
        Status::Queued | Status::Running if desktop.last_contact_at.is_none() => Some((Waiting::DeviceNeverSeen, view.queued_at)),
        Status::Queued | Status::Running if !desktop.online(now) => {
            let since = desktop.last_contact_at.map_or(view.queued_at, |at| at.plus_ms(DEVICE_ONLINE_MS));
            Some((Waiting::DeviceOffline, since.max(view.queued_at)))
        }
        Status::Queued if desktop.paused => Some((Waiting::DevicePaused, view.queued_at)),
        Status::Running if asks => Some((Waiting::WaitingApproval, view.started_at.unwrap_or(view.queued_at))),
        Status::Running => None,
        Status::Queued if view.ahead > 0 || view.running > 0 => Some((Waiting::BehindAnotherRun, view.queued_at)),
        Status::Queued => Some((Waiting::PickingUp, view.queued_at)),
    }
}

/// When a look is worth it again, in seconds. 0: never.
pub fn poll_after_seconds(view: &CommandView, now: Timestamp) -> u64 {
    match view.status {
        Status::Completed | Status::Failed | Status::Cancelled | Status::Expired => 0,
        Status::Queued | Status::Running if !view.desktop.online(now) => POLL_AFTER_OFFLINE_S,
        Status::Queued if view.desktop.pickup == Pickup::Doorbell && !view.desktop.paused => POLL_AFTER_QUEUED_DOORBELL_S,
        Status::Queued => POLL_AFTER_QUEUED_S,
        Status::Running => POLL_AFTER_RUNNING_S,
    }
}

pub const KEY_CONFLICT: &str = "This idempotency_key was already used for another run; nothing was queued. One key per intended operation; keep it when repeating after a lost response; a new key only for a new run.";

const NOT_UNDONE: &str = "Cancelling stops further work where possible; it does not undo what was done.";

/// What makes sense now.
pub fn next_step(view: &CommandView, now: Timestamp, replayed: bool) -> String {
    let step = step(view, now);
    if replayed { format!("This key already made this command; nothing new was queued. {step}") } else { step }
}

fn step(view: &CommandView, now: Timestamp) -> String {
    let wait = poll_after_seconds(view, now);
    match view.status {
        Status::Queued => match waiting(view, now).map(|(code, _)| code) {
            Some(code @ (Waiting::DeviceNeverSeen | Waiting::DeviceOffline | Waiting::DevicePaused)) => {
                format!("Queued, not running. {} {} It expires if it is not started before {}.", code.text(), code.agent_can(), view.expires_at)
            }
            Some(Waiting::BehindAnotherRun) => format!(
                "Queued behind others, not running: one desktop is one worker; parallel work belongs inside one Graph. Read this command_id again with get_graph_run in {wait} seconds, at a fixed pace."
            ),
            Some(Waiting::WaitingApproval | Waiting::PickingUp) | None => format!(
                "Queued, not running yet. Read this command_id again with get_graph_run in {wait} seconds; starting a second run would duplicate the work."
            ),
        },
        Status::Running => running(view, now, wait),
        Status::Completed if view.result_was_truncated() => {
            "Finished, but the result is too long to travel, so none of it is shown. The owner finds it whole in the history of Graph Desk under execution_id; a Graph meant for an agent ends with a concise summary.".into()
        }
        Status::Completed => "Finished. `result` holds what the Graph returned.".into(),
        Status::Failed => failed(view.reason.as_deref()),
        Status::Cancelled => cancelled(view),
        Status::Expired => "The desktop did not start this run before it expired, so nothing ran. A new idempotency_key queues a new run.".into(),
    }
}

fn running(view: &CommandView, now: Timestamp, wait: u64) -> String {
    if view.cancel_asked {
        return format!("The cancel was accepted and the desktop is told to stop. {NOT_UNDONE} Read this command_id again in {wait} seconds.");
    }
    match waiting(view, now).map(|(code, _)| code) {
        Some(Waiting::WaitingApproval) => {
            format!(
                "Running, and waiting for the owner's approval on the desktop. {} Read this command_id again in {wait} seconds.",
                Waiting::WaitingApproval.agent_can()
            )
        }
        Some(Waiting::DeviceOffline | Waiting::DeviceNeverSeen) => {
            format!(
                "Started, and the desktop has been silent since. It may still be running; its report comes when the desktop is back. Read this command_id again in {wait} seconds; a second run would duplicate the work."
            )
        }
        Some(Waiting::DevicePaused | Waiting::BehindAnotherRun | Waiting::PickingUp) | None => {
            format!(
                "Running on the owner's desktop. Read this command_id again with get_graph_run in {wait} seconds, at a fixed pace. If a read fails, repeat the read with the same command_id."
            )
        }
    }
}

fn failed(reason: Option<&str>) -> String {
    use domain::command::FailReason as F;
    let why = match reason.and_then(F::parse) {
        Some(F::ScriptError) => "The Graph's program ended with an error; `error` says which.",
        Some(F::ArgumentsInvalid) => "The Graph did not accept its arguments; `error` says why. Correct them and start a new run with a new key.",
        Some(F::CeilingReached) => "The run reached its token ceiling. The owner can raise it, or the work can be made smaller.",
        Some(F::WaveStopped) => "Too many agents of one wave failed in the same way, so the rest was not started; `error` names the failure.",
        Some(F::Deadline) => "The run reached its time limit. The owner can raise it, or the work can be made smaller.",
        Some(F::OutOfMemory) => "The Graph's program used more memory than it may.",
        Some(F::TooDeep) => "The Graph's program, or a Graph called by a Graph, nested too deep.",
        Some(F::Stalled) => "Nothing moved for too long and the run was given up.",
        Some(F::ResultNotJson) => "The Graph ended with something that is not JSON.",
        Some(F::NoModel) => "No model was available on the desktop; the owner can set one up in Graph Desk.",
        Some(F::DeviceRestarted) => {
            "The desktop restarted during this run. What it had done so far stays done; whether to run it again is for the owner to decide."
        }
        Some(F::DeviceDidNotReturn) => "The desktop did not come back, so nobody knows how far the run came.",
        Some(F::OwnerQuit) => "The owner quit Graph Desk during this run.",
        None => "The run failed.",
    };
    format!("{why} A new run needs a new idempotency_key.")
}

fn cancelled(view: &CommandView) -> String {
    use domain::command::CancelReason as C;
    let why = match view.reason.as_deref().and_then(C::parse) {
        Some(C::CancelledWhileQueued) => "Cancelled before the desktop started it: nothing ran.",
        Some(C::NotShared) => "The owner no longer shares this Graph session with the project.",
        Some(C::AgentRevoked) => "The access of the connected agent was removed before it started: nothing ran.",
        Some(C::OwnerStopped) => "The owner stopped this run on the desktop.",
        Some(C::Stopped) => "Cancelled while it was running.",
        Some(C::FinishedBeforeStop) => "Cancelled, though the Graph had ended by itself before it could be stopped.",
        Some(C::DeviceRestarted) => "Cancelled; the desktop restarted before it could stop the run.",
        Some(C::DeviceDidNotReturn) => "Cancelled; the desktop did not come back, so nobody knows how far the run came.",
        None => "Cancelled.",
    };
    if view.started_at.is_some() || view.execution.is_some() { format!("{why} {NOT_UNDONE}") } else { why.into() }
}
