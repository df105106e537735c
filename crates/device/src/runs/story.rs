//! The story of one execution: each event gets its number and time here, is stored, and only then shown.
//!
//! A writer task stores what has gathered while it stored the last batch, so a busy fleet costs one transaction per batch, not per event.
//! Streamed text (`agent_text`) has no number but a place in its agent's text; it is kept here while the agent speaks and compressed in the
//! transcripts afterwards, beside the number it came after.
//! Invariant: numbers count from 1 without gaps, in the order in which the engine and the host told.
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use domain::{
    ExecutionId, Timestamp,
    wire::event::{AgentEnd, FleetEvent, FleetWhat},
};
use tokio::sync::{broadcast, mpsc};

use crate::{
    ports::Clock,
    relay::RunFeed,
    store::{Piece, RunningTotals, Store},
    view::DeskEvent,
};

pub struct Story {
    clock: Arc<dyn Clock>,
    told: Mutex<Told>,
}

struct Told {
    seq: u64,
    to_writer: Option<mpsc::UnboundedSender<Item>>,
    counts: Counts,
    labels: BTreeMap<u64, String>,
    /// What agents have said that are still at work, and how many UTF-16 units it has.
    texts: BTreeMap<u64, (u64, Vec<Piece>)>,
    feed: RunFeed,
}

/// An event with what was used so far, and the whole texts of agents that have ended.
struct Item {
    event: Option<(FleetEvent, RunningTotals)>,
    texts: Vec<(u64, Vec<Piece>)>,
}

/// What the status bar and the history's row say of an execution, counted along with its events.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Counts {
    pub phase: Option<String>,
    pub agents_queued: u64,
    pub agents_running: u64,
    pub agents_done: u64,
    pub agents_failed: u64,
    pub asking: u64,
    pub tokens: u64,
    pub cost: Option<f64>,
    pub error_line: Option<u32>,
}

impl Counts {
    fn count(&mut self, what: &FleetWhat) {
        match what {
            FleetWhat::Phase { title } => self.phase = Some(title.clone()),
            FleetWhat::AgentQueued { .. } => self.agents_queued += 1,
            FleetWhat::AgentStarted { .. } => self.agents_running += 1,
            FleetWhat::AgentFinished { end, .. } => {
                match end {
                    AgentEnd::Done | AgentEnd::Replayed => self.agents_done += 1,
                    AgentEnd::Failed | AgentEnd::Cancelled | AgentEnd::Refused => self.agents_failed += 1,
                }
                // A refused or replayed agent never started.
                self.agents_running = self.agents_running.saturating_sub(1);
            }
            FleetWhat::ApprovalAsked { .. } => self.asking += 1,
            FleetWhat::ApprovalAnswered { approval, .. } => {
                if *approval > 0 {
                    self.asking = self.asking.saturating_sub(1);
                }
            }
            FleetWhat::Ledger { spent, cost, .. } => {
                self.tokens = *spent;
                self.cost = *cost;
            }
            FleetWhat::FleetFinished { tokens, cost, line, agents_done, agents_failed, .. } => {
                self.tokens = *tokens;
                self.cost = *cost;
                self.error_line = *line;
                self.agents_done = *agents_done;
                self.agents_failed = *agents_failed;
                self.agents_running = 0;
                self.asking = 0;
            }
            FleetWhat::FleetStarted { .. }
            | FleetWhat::Log { .. }
            | FleetWhat::WaveStarted { .. }
            | FleetWhat::WaveFinished { .. }
            | FleetWhat::WaveRefused { .. }
            | FleetWhat::ModelCall { .. }
            | FleetWhat::AgentText { .. }
            | FleetWhat::Retry { .. }
            | FleetWhat::ToolCall { .. }
            | FleetWhat::ToolResult { .. }
            | FleetWhat::FleetWaiting { .. }
            | FleetWhat::FleetResumed {}
            | FleetWhat::Warning { .. } => {}
        }
    }
}

impl Story {
    /// Begins a story and its writer. The writer ends once [`Story::close`] was called and everything is stored.
    pub fn begin(
        execution: ExecutionId,
        clock: Arc<dyn Clock>,
        store: Store,
        watchers: broadcast::Sender<DeskEvent>,
        feed: RunFeed,
    ) -> (Arc<Self>, tokio::task::JoinHandle<()>) {
        let (to_writer, from_story) = mpsc::unbounded_channel();
        let told =
            Mutex::new(Told { seq: 0, to_writer: Some(to_writer), counts: Counts::default(), labels: BTreeMap::new(), texts: BTreeMap::new(), feed });
        let writer = tokio::spawn(write(execution, from_story, store, watchers));
        (Arc::new(Self { clock, told }), writer)
    }

    pub fn tell(&self, mut what: FleetWhat) {
        let at = self.clock.now();
        let mut told = self.lock();
        told.counts.count(&what);
        let is_text = matches!(what, FleetWhat::AgentText { .. });
        if !is_text {
            told.seq += 1;
        }
        if let FleetWhat::AgentQueued { agent, label, .. } = &what {
            told.labels.insert(*agent, label.clone());
        }
        if let FleetWhat::AgentText { agent, from, text } = &mut what {
            let after = told.seq;
            let (units, pieces) = told.texts.entry(*agent).or_default();
            *from = *units;
            *units += text.encode_utf16().count() as u64;
            add_text(pieces, after, at, text);
        }
        let mut texts = Vec::new();
        if let FleetWhat::AgentFinished { agent, .. } = &what {
            texts.extend(told.texts.remove(agent).map(|(_, pieces)| (*agent, pieces)));
        }
        let event = FleetEvent { seq: if is_text { 0 } else { told.seq }, at, what };
        told.feed.observe(&event);
        let counts = &told.counts;
        let totals = RunningTotals { tokens: counts.tokens, cost: counts.cost, agents_done: counts.agents_done, agents_failed: counts.agents_failed };
        if let Some(to_writer) = &told.to_writer {
            let _ = to_writer.send(Item { event: Some((event, totals)), texts }); // the writer ends only after the story is closed
        }
    }

    pub fn counts(&self) -> Counts {
        self.lock().counts.clone()
    }

    /// The label of an agent of this execution.
    pub fn label(&self, agent: u64) -> Option<String> {
        self.lock().labels.get(&agent).cloned()
    }

    /// What agents have said that are still at work: the transcripts hold it once they have ended.
    pub fn texts(&self) -> Vec<(u64, Vec<Piece>)> {
        self.lock().texts.iter().map(|(agent, (_, pieces))| (*agent, pieces.clone())).collect()
    }

    /// Nothing more will be told.
    pub fn close(&self) {
        let mut told = self.lock();
        let texts = std::mem::take(&mut told.texts).into_iter().map(|(agent, (_, pieces))| (agent, pieces)).collect();
        if let Some(to_writer) = told.to_writer.take() {
            let _ = to_writer.send(Item { event: None, texts }); // the writer ends only after the story is closed
        }
    }

    fn lock(&self) -> MutexGuard<'_, Told> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn write(execution: ExecutionId, mut story: mpsc::UnboundedReceiver<Item>, store: Store, watchers: broadcast::Sender<DeskEvent>) {
    const BATCH: usize = 512;
    let mut batch = Vec::new();
    while story.recv_many(&mut batch, BATCH).await > 0 {
        let (mut events, mut totals, mut texts) = (Vec::new(), RunningTotals::default(), Vec::new());
        for item in batch.drain(..) {
            if let Some((event, used)) = item.event {
                events.push(event);
                totals = used;
            }
            texts.extend(item.texts);
        }
        let numbered: Vec<FleetEvent> = events.iter().filter(|e| e.seq > 0).cloned().collect();
        // The execution goes on when this fails: its rulings and its ending are stored on their own, durably.
        if !numbered.is_empty()
            && let Err(e) = store.append_events(&execution, &numbered, totals)
        {
            tracing::error!(%execution, "events could not be stored: {e}");
        }
        save_texts(&store, &execution, texts);
        if events.is_empty() {
            continue;
        }
        let _ = watchers.send(DeskEvent::Fleet { execution_id: execution.to_string(), events }); // nobody may be watching
    }
}

/// Puts a piece behind what its agent has said.
fn add_text(pieces: &mut Vec<Piece>, after: u64, at: Timestamp, text: &str) {
    match pieces.last_mut() {
        Some(piece) if piece.after == after => piece.text.push_str(text),
        _ => pieces.push(Piece { after, at, text: text.to_owned() }),
    }
}

fn save_texts(store: &Store, execution: &ExecutionId, transcripts: Vec<(u64, Vec<Piece>)>) {
    for (agent, pieces) in transcripts {
        if let Err(e) = store.save_transcript(execution, agent, &pieces) {
            tracing::error!(%execution, agent, "a transcript could not be stored: {e}");
        }
    }
}
