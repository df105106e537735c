//! The relay's view of whoever runs Graphs: start one, hear of it, stop it.
//!
//! `run_graph_now` is the one door by which the Graph screen and the relay start a Graph; the simulation hands in a modelled one.
use std::collections::BTreeMap;

use domain::{
    ExecutionId, GraphSessionId, Outcome, RawJson,
    limits::PROGRESS_TEXT_CHARS_MAX,
    text::cut_chars,
    wire::{
        event::{AgentEnd, FleetEvent, FleetWhat},
        relay::{Progress, WaitingApproval},
    },
};
use tokio::{sync::watch, time::Instant};

use crate::{
    ports::BoxFuture,
    store::{Channel, Origin},
};

/// One execution to run. Its row is stored as `running` already.
#[derive(Debug, Clone, PartialEq)]
pub struct RunRequest {
    pub execution: ExecutionId,
    pub channel: Channel,
    pub graph: GraphSessionId,
    /// The version that runs.
    pub version: u64,
    pub args: RawJson,
    pub dry: bool,
    pub resumed_from: Option<ExecutionId>,
    pub origin: Origin,
}

pub trait RunGraphs: Send + Sync {
    /// Runs to its one outcome. Dropping the future stops the Graph. The ending of a command's execution is stored by the relay
    /// ([`crate::store::Store::end_execution`]; the first ending stands, so an executor that knows more may store it before it returns).
    fn run_graph_now(&self, request: RunRequest, feed: RunFeed) -> BoxFuture<'static, Outcome>;

    /// Stops a run by the id its `fleet_started` told: the connected agent's cancel was accepted, or the command is no longer this
    /// execution's. The outcome is then `cancelled` (reason `stopped`) unless the Graph had ended by itself.
    fn fleet_cancel_run(&self, run_id: &ExecutionId);
}

/// What is known of a run while it goes on.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RunNews {
    /// From `fleet_started`: what `fleet_cancel_run` takes.
    pub run_id: Option<ExecutionId>,
    /// As of the last event; [`RunNews::progress_at`] is what travels.
    pub progress: Progress,
    /// When each of `progress.waiting_approval` was asked.
    asked_at: Vec<Instant>,
}

impl RunNews {
    /// The progress with the questions' time run on.
    pub fn progress_at(&self, now: Instant) -> Progress {
        let mut progress = self.progress.clone();
        for (question, asked) in progress.waiting_approval.iter_mut().zip(&self.asked_at) {
            question.seconds_left = question.seconds_left.saturating_sub((now - *asked).as_secs());
        }
        progress
    }
}

/// The executor's way to tell the relay of a run. Folds the events into the progress that control polls carry up.
pub struct RunFeed {
    news: watch::Sender<RunNews>,
    fold: Fold,
}

#[derive(Default)]
struct Fold {
    labels: BTreeMap<u64, String>,
    /// Tool and agent of calls that may ask.
    calls: BTreeMap<u64, (String, String)>,
    asking: BTreeMap<u64, (Instant, WaitingApproval)>,
}

impl RunFeed {
    pub fn new() -> (Self, watch::Receiver<RunNews>) {
        let (news, reader) = watch::channel(RunNews::default());
        (Self { news, fold: Fold::default() }, reader)
    }

    /// Nobody listens: for the owner's own executions.
    pub fn unheard() -> Self {
        Self::new().0
    }

    /// `fleet_started` without an event, for executors that have none.
    pub fn started(&self, run_id: &ExecutionId) {
        self.news.send_modify(|n| n.run_id = Some(run_id.clone()));
    }

    pub fn observe(&mut self, event: &FleetEvent) {
        let fold = &mut self.fold;
        self.news.send_if_modified(|news| {
            let before = news.clone();
            fold.apply(news, &event.what);
            *news != before
        });
    }
}

impl Fold {
    fn apply(&mut self, news: &mut RunNews, what: &FleetWhat) {
        let progress = &mut news.progress;
        match what {
            FleetWhat::FleetStarted { run_id, .. } => news.run_id = Some(run_id.clone()),
            FleetWhat::Phase { title } => progress.phase = Some(cut_chars(title, PROGRESS_TEXT_CHARS_MAX).to_owned()),
            FleetWhat::Log { text } => progress.text = cut_chars(text, PROGRESS_TEXT_CHARS_MAX).to_owned(),
            FleetWhat::AgentQueued { agent, label, .. } => {
                self.labels.insert(*agent, label.clone());
                progress.agents_total = Some(progress.agents_total.unwrap_or(0) + 1);
            }
            FleetWhat::AgentFinished { end, .. } => {
                progress.agents_done += match end {
                    AgentEnd::Done | AgentEnd::Failed | AgentEnd::Cancelled | AgentEnd::Refused | AgentEnd::Replayed => 1,
                }
            }
            FleetWhat::Ledger { spent, .. } => progress.tokens = *spent,
            FleetWhat::ToolCall { call, agent, tool, .. } => {
                let agent = agent.and_then(|a| self.labels.get(&a).cloned()).unwrap_or_else(|| "script".into());
                self.calls.insert(*call, (tool.clone(), agent));
            }
            FleetWhat::ApprovalAsked { call, seconds_left, .. } => {
                let (tool, agent) = self.calls.get(call).cloned().unwrap_or_else(|| ("ask".into(), "script".into()));
                self.asking.insert(*call, (Instant::now(), WaitingApproval { tool, agent, seconds_left: *seconds_left }));
                (news.asked_at, progress.waiting_approval) = self.asking.values().cloned().unzip();
            }
            FleetWhat::ApprovalAnswered { call, .. } => {
                self.asking.remove(call);
                (news.asked_at, progress.waiting_approval) = self.asking.values().cloned().unzip();
            }
            FleetWhat::ToolResult { call, .. } => {
                self.calls.remove(call);
            }
            FleetWhat::WaveStarted { .. }
            | FleetWhat::WaveFinished { .. }
            | FleetWhat::WaveRefused { .. }
            | FleetWhat::AgentStarted { .. }
            | FleetWhat::ModelCall { .. }
            | FleetWhat::AgentText { .. }
            | FleetWhat::Retry { .. }
            | FleetWhat::FleetWaiting { .. }
            | FleetWhat::FleetResumed {}
            | FleetWhat::Warning { .. }
            | FleetWhat::FleetFinished { .. } => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::{Timestamp, wire::event::RulingWord};

    #[test]
    fn an_executions_story_folds_into_the_progress_an_agent_reads() {
        let (mut feed, news) = RunFeed::new();
        let run_id = ExecutionId::parse("e-1").unwrap();
        let story = [
            FleetWhat::FleetStarted { run_id: run_id.clone(), ceiling: 10, max_concurrency: 1, seed: 1 },
            FleetWhat::Phase { title: "Read".into() },
            FleetWhat::AgentQueued {
                agent: 1,
                label: "reader".into(),
                phase: None,
                wave: None,
                model: "m".into(),
                line: None,
                called: Vec::new(),
                prompt: "p".into(),
            },
            FleetWhat::ToolCall {
                call: 7,
                agent: Some(1),
                tool: "read_file".into(),
                input: "{}".into(),
                ruling: RulingWord::Ask,
                rule: "r".into(),
                line: None,
                called: Vec::new(),
                said: None,
            },
            FleetWhat::ApprovalAsked { call: 7, approval: 1, seconds_left: 600 },
            FleetWhat::Ledger { spent: 5, held: 0, ceiling: 10, cost: None },
        ];
        for (i, what) in story.into_iter().enumerate() {
            feed.observe(&FleetEvent { seq: i as u64 + 1, at: Timestamp::from_ms(0), what });
        }
        let seen = news.borrow().clone();
        assert_eq!(seen.run_id, Some(run_id));
        assert_eq!(seen.progress.waiting_approval, [WaitingApproval { tool: "read_file".into(), agent: "reader".into(), seconds_left: 600 }]);
        let later = seen.progress_at(Instant::now() + std::time::Duration::from_secs(100));
        assert!((499..=500).contains(&later.waiting_approval[0].seconds_left));
        assert_eq!((seen.progress.phase.as_deref(), seen.progress.tokens, seen.progress.agents_total), (Some("Read"), 5, Some(1)));
    }
}
