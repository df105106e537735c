//! Runs: start, stop, history, one execution in full.
use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use domain::{
    ExecutionId, ProjectId, RawJson, Timestamp,
    limits::ARGUMENTS_BYTES_MAX,
    wire::{
        event::{FleetEvent, FleetWhat},
        said::Sentence,
    },
};
use engine::StopWhy;

use super::{
    Desk,
    errors::{bad_argument, error},
};
use crate::{
    relay::{RunFeed, RunGraphs, RunRequest},
    runs::ReceiptLine,
    store::{Channel, Delivery as Delivered, ExecutionQuery, ExecutionRecord, NewExecution, Origin, Piece},
    view::{
        CommandOrigin, Delivery, ErrorView, ExecutionDetail, ExecutionFilter, ExecutionPage, ExecutionRow, ExecutionState, ExportedFile, LedgerRow,
    },
};

const PAGE_DEFAULT: u64 = 50;
const PAGE_MAX: u64 = 200;

impl Desk {
    /// Starts the Graph's newest version for the owner; the execution's id. It runs on by itself.
    pub async fn run_graph_now(self: &Arc<Self>, id: String, args: String) -> Result<String, ErrorView> {
        let (execution, run) = self.begin_own(&id, &args, None)?;
        tokio::spawn(run);
        Ok(execution.to_string())
    }

    /// The same, without network, tokens or effects; what it found out stands in its events.
    pub async fn run_graph_dry(self: &Arc<Self>, id: String, args: String) -> Result<String, ErrorView> {
        let request = self.store_own(&id, &args, None, true)?;
        let (executor, execution) = (self.executor.clone(), request.execution.to_string());
        tokio::spawn(async move { executor.run_dry(request).await });
        Ok(execution)
    }

    pub async fn fleet_cancel_run(&self, execution_id: String) -> Result<(), ErrorView> {
        let execution = execution_of(&execution_id)?;
        if self.executor.stop(&execution, StopWhy::Owner) {
            return Ok(());
        }
        match self.store.execution(&execution)? {
            Some(record) if record.ended_at.is_some() => Err(error("execution_ended", "This run has already ended.")),
            Some(_) => Err(error("execution_claiming", "This run has not started yet: the queue is still being asked. Cancel the command, or wait.")),
            None => Err(gone()),
        }
    }

    pub async fn executions_list(&self, filter: ExecutionFilter) -> Result<ExecutionPage, ErrorView> {
        let wrong = |field: &str, message: String| bad_argument(Some(field), message);
        let graph = filter.graph_id.as_deref().map(super::graphs::session_id).transpose()?;
        let project = filter.project_id.as_deref().map(ProjectId::parse).transpose().map_err(|e| wrong("project_id", format!("{e}.")))?;
        let of_commands = match filter.origin.as_deref() {
            None | Some("") => None,
            Some("owner") => Some(false),
            Some("command") => Some(true),
            Some(_) => return Err(wrong("origin", "The origin is owner or command.".into())),
        };
        let before = match filter.after.as_deref() {
            None | Some("") => None,
            Some(text) => Some(text.parse::<u64>().map_err(|_| wrong("after", "This page is not one that was given before.".into()))?),
        };
        let limit = filter.limit.unwrap_or(PAGE_DEFAULT);
        if !(1..=PAGE_MAX).contains(&limit) {
            return Err(wrong("limit", format!("A page has 1 to {PAGE_MAX} rows.")));
        }
        let text = filter.text.filter(|t| !t.trim().is_empty());
        let agent = filter.agent.filter(|a| !a.is_empty());
        let page = self.store.executions(&ExecutionQuery {
            graph,
            project,
            agent,
            state: filter.state,
            of_commands,
            text,
            since: filter.since.map(Timestamp::from_ms),
            until: filter.until.map(Timestamp::from_ms),
            before,
            limit,
        })?;
        let names = self.project_names()?;
        let next = page.rows.last().filter(|_| page.more).map(|last| last.number.to_string());
        let rows = page.rows.iter().map(|record| self.execution_row(record, &names)).collect::<Result<_, _>>()?;
        Ok(ExecutionPage { rows, next, total: page.total })
    }

    pub async fn execution_open(&self, execution_id: String) -> Result<ExecutionDetail, ErrorView> {
        let record = self.store.execution(&execution_of(&execution_id)?)?.ok_or_else(gone)?;
        let source = self.store.graph_version(record.graph, record.version)?.map(|v| v.source).unwrap_or_default();
        let receipt: Vec<ReceiptLine> = serde_json::from_str(&record.ledger).unwrap_or_default();
        let ended_short = matches!(record.state, ExecutionState::Failed | ExecutionState::Cancelled);
        Ok(ExecutionDetail {
            row: self.execution_row(&record, &self.project_names()?)?,
            args: record.args.to_string(),
            result: record.result.as_ref().map(RawJson::to_string),
            error: record.error.clone(),
            error_line: record.error_line,
            source,
            ceiling: record.beginning.ceiling,
            ledger: receipt.into_iter().map(LedgerRow::from).collect(),
            can_resume: ended_short && !record.dry && self.store.graph(record.graph)?.is_some(),
            events: self.story(&record.id, 0)?,
        })
    }

    pub async fn execution_events(&self, execution_id: String, after: u64) -> Result<Vec<FleetEvent>, ErrorView> {
        self.story(&execution_of(&execution_id)?, after)
    }

    /// Everything that is known of one execution, as one JSON file.
    pub async fn execution_export(&self, execution_id: String) -> Result<ExportedFile, ErrorView> {
        let detail = self.execution_open(execution_id.clone()).await?;
        let execution = execution_of(&execution_id)?;
        let (rulings, _) = self.store.rulings(Some(&execution), None, crate::store::LOG_ROWS_MAX)?;
        let rulings: Vec<serde_json::Value> = rulings
            .into_iter()
            .rev()
            .map(|r| {
                serde_json::json!({
                    "at": r.at, "call": r.call, "agent": r.agent, "tool": r.tool, "input_hash": r.input_hash, "ruling": r.ruling.word(),
                    "because": r.because.text, "answer": r.answer, "waited_ms": r.waited_ms
                })
            })
            .collect();
        let unreadable = |e: serde_json::Error| error("internal", format!("The run cannot be written as a file: {e}."));
        let mut file = serde_json::to_value(&detail).map_err(unreadable)?;
        if let Some(members) = file.as_object_mut() {
            members.insert("rulings".into(), rulings.into());
        }
        let text = serde_json::to_string_pretty(&file).map_err(unreadable)?;
        Ok(ExportedFile { file_name: format!("{execution_id}.execution.json"), text })
    }

    /// Runs a failed or stopped execution's version again; agents that had answered are not asked again.
    pub async fn execution_resume(self: &Arc<Self>, execution_id: String) -> Result<String, ErrorView> {
        let record = self.store.execution(&execution_of(&execution_id)?)?.ok_or_else(gone)?;
        if !matches!(record.state, ExecutionState::Failed | ExecutionState::Cancelled) {
            return Err(error("cannot_resume", "Only a run that failed or was stopped can be resumed."));
        }
        let (execution, run) = self.begin_own(&record.graph.to_string(), record.args.as_str(), Some(&record))?;
        tokio::spawn(run);
        Ok(execution.to_string())
    }

    /// An execution of the owner's own: stored, and ready to be driven to its outcome.
    pub(super) fn begin_own(
        &self,
        id: &str,
        args: &str,
        resume: Option<&ExecutionRecord>,
    ) -> Result<(ExecutionId, crate::ports::BoxFuture<'static, domain::Outcome>), ErrorView> {
        let request = self.store_own(id, args, resume, false)?;
        Ok((request.execution.clone(), self.executor.run_graph_now(request, RunFeed::unheard())))
    }

    fn store_own(&self, id: &str, args: &str, resume: Option<&ExecutionRecord>, dry: bool) -> Result<RunRequest, ErrorView> {
        let graph = self.graph(id)?;
        if args.len() > ARGUMENTS_BYTES_MAX {
            return Err(bad_argument(Some("args"), "The arguments are longer than 1 MiB. Put large data into a file and pass its path."));
        }
        let args = if args.trim().is_empty() { "{}" } else { args };
        let args = RawJson::parse(args).map_err(|e| bad_argument(Some("args"), format!("The arguments are {e}.")))?;
        let execution = ExecutionId::from_random(self.config.random.bytes16());
        let request = RunRequest {
            channel: Channel::Local(execution.clone()),
            execution,
            graph: graph.id,
            version: resume.map_or(graph.version, |r| r.version),
            args,
            dry,
            resumed_from: resume.map(|r| r.id.clone()),
            origin: Origin::Owner,
        };
        let new = NewExecution {
            id: request.execution.clone(),
            graph: graph.id,
            graph_name: graph.name,
            version: request.version,
            args: request.args.clone(),
            dry,
            resumed_from: request.resumed_from.clone(),
            origin: Origin::Owner,
        };
        self.store.begin_execution(&new, self.config.clock.now())?;
        Ok(request)
    }

    /// Events above `after`, each agent's streamed text after the event it followed.
    fn story(&self, execution: &ExecutionId, after: u64) -> Result<Vec<FleetEvent>, ErrorView> {
        let events = self.store.events(execution, after)?;
        let mut texts: Vec<FleetEvent> = Vec::new();
        let mut places: Vec<u64> = Vec::new();
        let said: BTreeMap<u64, Vec<Piece>> = self.executor.texts(execution).into_iter().chain(self.store.transcripts(execution)?).collect();
        for (agent, pieces) in said {
            let mut from = 0;
            for piece in pieces {
                let at_unit = from;
                from += piece.text.encode_utf16().count() as u64;
                if piece.after >= after {
                    places.push(piece.after);
                    texts.push(FleetEvent { seq: 0, at: piece.at, what: FleetWhat::AgentText { agent, from: at_unit, text: piece.text } });
                }
            }
        }
        let mut placed: Vec<(u64, bool, FleetEvent)> = events.into_iter().map(|e| (e.seq, false, e)).collect();
        placed.extend(places.into_iter().zip(texts).map(|(place, text)| (place, true, text)));
        placed.sort_by_key(|(place, is_text, _)| (*place, *is_text));
        Ok(placed.into_iter().map(|(.., event)| event).collect())
    }

    pub(super) fn project_names(&self) -> Result<HashMap<ProjectId, String>, ErrorView> {
        Ok(self.store.projects()?.into_iter().map(|p| (p.id, p.name)).collect())
    }

    fn execution_row(&self, record: &ExecutionRecord, names: &HashMap<ProjectId, String>) -> Result<ExecutionRow, ErrorView> {
        let asking = self.approvals.waiting().iter().filter(|w| w.execution == record.id).count() as u64;
        let (command, slug) = match &record.origin {
            Origin::Owner => (None, self.store.graph(record.graph)?.map(|g| g.slug.to_string())),
            Origin::Command(facts) => {
                let origin = CommandOrigin {
                    command_id: facts.command.to_string(),
                    project_id: facts.project.to_string(),
                    project: names.get(&facts.project).cloned(),
                    agent: facts.agent.clone(),
                    pickup_wait_ms: record.pickup_wait_ms,
                    delivery: self.delivery(record, facts.command)?,
                };
                (Some(origin), Some(facts.slug.to_string()))
            }
        };
        Ok(ExecutionRow {
            execution_id: record.id.to_string(),
            graph_id: record.graph.to_string(),
            graph: record.graph_name.clone(),
            slug: slug.unwrap_or_default(),
            version: record.version,
            state: record.state,
            reason: record.reason.clone(),
            dry: record.dry,
            started_at: record.started_at.ms(),
            ended_at: record.ended_at.map(domain::Timestamp::ms),
            tokens: record.totals.tokens,
            cost: record.totals.cost,
            agents_done: record.totals.agents_done,
            agents_failed: record.totals.agents_failed,
            asking,
            command,
        })
    }

    fn delivery(&self, record: &ExecutionRecord, command: domain::CommandId) -> Result<Delivery, ErrorView> {
        Ok(match &record.delivery {
            Delivered::None => Delivery::NotYet,
            Delivered::Delivered { at } => Delivery::Delivered { when: at.ms() },
            Delivered::TooLate { at, status } => Delivery::TooLate { when: at.ms(), status: status.clone() },
            Delivered::Discarded { at } => Delivery::Discarded { when: at.ms() },
            Delivered::Outbox => match self.store.outbox()?.into_iter().find(|row| row.command == command) {
                None => Delivery::NotYet,
                Some(row) => match (row.refused, row.last_error.map(Sentence::from_column)) {
                    (true, words) => Delivery::NeedsAttention { tries: row.tries, server_says: words.unwrap_or_default() },
                    (false, last_error) => Delivery::InOutbox { tries: row.tries, last_error },
                },
            },
        })
    }
}

pub(super) fn execution_of(text: &str) -> Result<ExecutionId, ErrorView> {
    ExecutionId::parse(text).map_err(|e| bad_argument(Some("execution_id"), format!("{e}.")))
}

fn gone() -> ErrorView {
    error("execution_gone", "This run is not in the history. It may have been pruned: see Settings, days to keep the history.")
}
