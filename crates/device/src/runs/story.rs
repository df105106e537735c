//! The story of one execution: each event gets its number and time here, is stored, and only then shown.
//!
//! A writer task stores what has gathered while it stored the last batch, so a busy fleet costs one transaction per batch, not per event.
//! Streamed text (`agent_text`) has no number; it is kept compressed in the transcripts, beside the number it came after.
//! Invariant: numbers count from 1 without gaps, in the order in which the engine and the host told.
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use domain::{
    ExecutionId,
    limits::PROGRESS_TEXT_CHARS_MAX,
    text::cut_chars,
    wire::{
        event::{AgentEnd, FleetEvent, FleetWhat},
        relay::Progress,
    },
};
use tokio::sync::{broadcast, mpsc};

use crate::{
    ports::Clock,
    store::{Store, events::Piece},
    view::DeskEvent,
};

pub struct Story {
    clock: Arc<dyn Clock>,
    told: Mutex<Told>,
}

#[derive(Default)]
struct Told {
    seq: u64,
    to_writer: Option<mpsc::UnboundedSender<FleetEvent>>,
    counts: Counts,
}

/// What lists and the control poll say of an execution, counted along with its events.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Counts {
    pub phase: Option<String>,
    pub text: String,
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
            FleetWhat::Log { text } => self.text = cut_chars(text, PROGRESS_TEXT_CHARS_MAX).to_owned(),
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

    pub fn progress(&self) -> Progress {
        Progress {
            phase: self.phase.clone(),
            agents_done: self.agents_done + self.agents_failed,
            agents_total: (self.agents_queued > 0).then_some(self.agents_queued),
            tokens: self.tokens,
            waiting_approval: Vec::new(),
            text: self.text.clone(),
        }
    }
}

impl Story {
    /// Begins a story and its writer. The writer ends once [`Story::close`] was called and everything is stored.
    pub fn begin(
        execution: ExecutionId,
        clock: Arc<dyn Clock>,
        store: Arc<Store>,
        watchers: broadcast::Sender<DeskEvent>,
    ) -> (Arc<Self>, tokio::task::JoinHandle<()>) {
        let (to_writer, from_story) = mpsc::unbounded_channel();
        let told = Mutex::new(Told { to_writer: Some(to_writer), ..Told::default() });
        let writer = tokio::spawn(write(execution, from_story, store, watchers));
        (Arc::new(Self { clock, told }), writer)
    }

    pub fn tell(&self, what: FleetWhat) {
        let at = self.clock.now();
        let mut told = self.lock();
        told.counts.count(&what);
        let is_text = matches!(what, FleetWhat::AgentText { .. });
        if !is_text {
            told.seq += 1;
        }
        let event = FleetEvent { seq: if is_text { 0 } else { told.seq }, at, what };
        if let Some(to_writer) = &told.to_writer {
            let _ = to_writer.send(event); // the writer ends only after the story is closed
        }
    }

    pub fn counts(&self) -> Counts {
        self.lock().counts.clone()
    }

    /// Nothing more will be told.
    pub fn close(&self) {
        self.lock().to_writer = None;
    }

    fn lock(&self) -> MutexGuard<'_, Told> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn write(execution: ExecutionId, mut story: mpsc::UnboundedReceiver<FleetEvent>, store: Arc<Store>, watchers: broadcast::Sender<DeskEvent>) {
    const BATCH: usize = 512;
    let (mut batch, mut last_seq) = (Vec::new(), 0);
    let mut texts: BTreeMap<u64, Vec<Piece>> = BTreeMap::new();
    while story.recv_many(&mut batch, BATCH).await > 0 {
        let events = std::mem::take(&mut batch);
        let mut ended = Vec::new();
        for event in &events {
            match &event.what {
                FleetWhat::AgentText { agent, text } => {
                    let pieces = texts.entry(*agent).or_default();
                    match pieces.last_mut() {
                        Some(piece) if piece.after == last_seq => piece.text.push_str(text),
                        _ => pieces.push(Piece { after: last_seq, at: event.at, text: text.clone() }),
                    }
                }
                FleetWhat::AgentFinished { agent, .. } => {
                    ended.extend(texts.remove(agent).map(|pieces| (*agent, pieces)));
                    last_seq = event.seq;
                }
                _ => last_seq = event.seq,
            }
        }
        store_batch(&store, &execution, &events, ended).await;
        let _ = watchers.send(DeskEvent::Fleet { execution_id: execution.to_string(), events }); // nobody may be watching
    }
    if !texts.is_empty() {
        store_batch(&store, &execution, &[], texts.into_iter().collect()).await;
    }
}

async fn store_batch(store: &Arc<Store>, execution: &ExecutionId, events: &[FleetEvent], transcripts: Vec<(u64, Vec<Piece>)>) {
    let numbered: Vec<FleetEvent> = events.iter().filter(|e| e.seq > 0).cloned().collect();
    if let Err(e) = store.append_story(execution, &numbered, &transcripts).await {
        // The execution goes on: its rulings and its ending are stored on their own, durably.
        tracing::error!(%execution, "events could not be stored: {e}");
    }
}
