//! Executions: what ran here, under which version, how it ended, and what the server was told of it.
//!
//! A command's execution is stored as `claiming` before the queue is asked, so its id survives any crash. An ending is written once, in
//! one transaction with its completion; the first ending stands.
use domain::{
    CancelReason, CommandId, Completion, DeviceId, ExecutionId, FailReason, GraphSessionId, Outcome, ProjectId, RawJson, Slug, Timestamp,
    completion::Used, limits::COMMANDS_REMEMBERED_MS, text::RESTARTED, wire::event::FleetEvent,
};
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::{Binding, Channel, Store, StoreError, bindings, count, int, outbox, parsed};
use crate::{
    crash,
    view::{ExecutionState, Topic},
};

/// What the queue told of the command behind an execution.
#[derive(Debug, Clone, PartialEq)]
pub struct CommandFacts {
    pub command: CommandId,
    pub project: ProjectId,
    /// The identity this device was paired as.
    pub device: DeviceId,
    /// The session's slug when the command was queued.
    pub slug: Slug,
    pub queued_at: Timestamp,
    /// Name of the connected agent, where the server told it.
    pub agent: Option<String>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Origin {
    Owner,
    Command(CommandFacts),
}

#[derive(Debug, Clone, PartialEq)]
pub struct NewExecution {
    pub id: ExecutionId,
    pub graph: GraphSessionId,
    pub graph_name: String,
    pub version: u64,
    pub args: RawJson,
    pub dry: bool,
    pub resumed_from: Option<ExecutionId>,
    pub origin: Origin,
}

/// What is known once the engine begins.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Beginning {
    pub ceiling: u64,
    pub max_concurrency: u64,
    pub seed: u64,
}

/// What an ending carries beside its outcome.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct EndFacts {
    /// Line of the Graph's source, counted from 1.
    pub error_line: Option<u32>,
    pub agents_done: u64,
    pub agents_failed: u64,
    /// The receipt as JSON; empty keeps the stored one.
    pub ledger: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct RunningTotals {
    pub tokens: u64,
    pub cost: Option<f64>,
    pub agents_done: u64,
    pub agents_failed: u64,
}

/// What the server was told of a command's execution.
#[derive(Debug, Clone, PartialEq)]
pub enum Delivery {
    /// Not ended, or not a command's.
    None,
    Outbox,
    Delivered {
        at: Timestamp,
    },
    /// The server had ended the command before; its state stands.
    TooLate {
        at: Timestamp,
        status: String,
    },
    Discarded {
        at: Timestamp,
    },
}

#[derive(Debug, Clone, PartialEq)]
pub struct ExecutionRecord {
    /// Position in the history: newer is larger.
    pub number: u64,
    pub id: ExecutionId,
    pub channel: Channel,
    pub graph: GraphSessionId,
    pub graph_name: String,
    pub version: u64,
    pub state: ExecutionState,
    pub reason: Option<String>,
    pub dry: bool,
    pub args: RawJson,
    pub result: Option<RawJson>,
    pub error: Option<String>,
    pub error_line: Option<u32>,
    pub beginning: Beginning,
    pub totals: RunningTotals,
    pub ledger: String,
    pub resumed_from: Option<ExecutionId>,
    pub started_at: Timestamp,
    pub ended_at: Option<Timestamp>,
    pub origin: Origin,
    pub pickup_wait_ms: Option<u64>,
    /// The control poll brought a cancel.
    pub cancel_asked: bool,
    pub delivery: Delivery,
}

#[derive(Debug, Clone, Default)]
pub struct ExecutionQuery {
    pub graph: Option<GraphSessionId>,
    pub project: Option<ProjectId>,
    pub agent: Option<String>,
    pub state: Option<ExecutionState>,
    /// Only commands' (true) or only the owner's (false).
    pub of_commands: Option<bool>,
    /// Found in the Graph's name, arguments, result or error.
    pub text: Option<String>,
    /// Only what began then or later.
    pub since: Option<Timestamp>,
    /// Only what began before.
    pub until: Option<Timestamp>,
    /// Only older than this [`ExecutionRecord::number`].
    pub before: Option<u64>,
    /// At least 1.
    pub limit: u64,
}

#[derive(Debug, Clone, PartialEq)]
pub struct ExecutionPage {
    /// Newest first.
    pub rows: Vec<ExecutionRecord>,
    pub more: bool,
    /// How many match in all.
    pub total: u64,
}

/// What this device remembers of a command it is offered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Seen {
    Never,
    /// Claiming, running, waiting in the outbox, or given up by the owner: nothing is to be done.
    InHand,
    /// Ended here, and the server had been told: it forgot.
    Ended,
}

const fn state_word(state: ExecutionState) -> &'static str {
    match state {
        ExecutionState::Claiming => "claiming",
        ExecutionState::Running => "running",
        ExecutionState::Completed => "completed",
        ExecutionState::Failed => "failed",
        ExecutionState::Cancelled => "cancelled",
    }
}

fn state(word: &str) -> Option<ExecutionState> {
    [ExecutionState::Claiming, ExecutionState::Running, ExecutionState::Completed, ExecutionState::Failed, ExecutionState::Cancelled]
        .into_iter()
        .find(|s| state_word(*s) == word)
}

const COLUMNS: &str = "number, id, channel, graph_session_id, graph, version, state, reason, dry, args, result, error, error_line, ceiling, \
    max_concurrency, seed, tokens, cost, agents_done, agents_failed, ledger, resumed_from, started_at, ended_at, command_id, project_id, \
    device_id, agent, slug, queued_at, pickup_wait_ms, cancel_asked, delivery, delivery_at, delivery_status";

/// Reads by name: thirty-five columns are too many to count.
fn record(row: &Row<'_>) -> rusqlite::Result<Result<ExecutionRecord, StoreError>> {
    let text = |name: &str| row.get::<_, Option<String>>(name);
    let time = |name: &str| row.get::<_, Option<i64>>(name).map(|t| t.map(Timestamp::from_ms));
    let number = |name: &str| row.get::<_, i64>(name).map(count);
    let words = (text("id")?, text("channel")?, text("graph_session_id")?, text("state")?, text("args")?, text("result")?, text("resumed_from")?);
    let origin = (text("command_id")?, text("project_id")?, text("device_id")?, text("slug")?, time("queued_at")?, text("agent")?);
    let delivery = (text("delivery")?, time("delivery_at")?, text("delivery_status")?);
    let beginning = Beginning { ceiling: number("ceiling")?, max_concurrency: number("max_concurrency")?, seed: row.get::<_, i64>("seed")? as u64 };
    let totals = RunningTotals {
        tokens: number("tokens")?,
        cost: row.get("cost")?,
        agents_done: number("agents_done")?,
        agents_failed: number("agents_failed")?,
    };
    let (position, version, dry, cancel_asked) = (number("number")?, number("version")?, row.get("dry")?, row.get("cancel_asked")?);
    let (graph_name, reason, error, error_line) = (row.get("graph")?, row.get("reason")?, row.get("error")?, row.get("error_line")?);
    let (ledger, started_at, ended_at) = (row.get("ledger")?, Timestamp::from_ms(row.get("started_at")?), time("ended_at")?);
    let pickup_wait_ms = row.get::<_, Option<i64>>("pickup_wait_ms")?.map(count);
    Ok((|| {
        let (id, channel, graph, word, args, result, resumed) = words;
        let execution = |t: &str| ExecutionId::parse(t).ok();
        Ok(ExecutionRecord {
            number: position,
            id: parsed(&id.unwrap_or_default(), "execution_id", execution)?,
            channel: parsed(&channel.unwrap_or_default(), "channel", |t| Channel::parse(t).ok())?,
            graph: parsed(&graph.unwrap_or_default(), "graph_session_id", |t| GraphSessionId::parse(t).ok())?,
            graph_name,
            version,
            state: parsed(&word.unwrap_or_default(), "state", state)?,
            reason,
            dry,
            args: parsed(&args.unwrap_or_default(), "args", |t| RawJson::parse(t).ok())?,
            result: result.map(|t| parsed(&t, "result", |t| RawJson::parse(t).ok())).transpose()?,
            error,
            error_line,
            beginning,
            totals,
            ledger,
            resumed_from: resumed.map(|t| parsed(&t, "execution_id", execution)).transpose()?,
            started_at,
            ended_at,
            origin: read_origin(origin)?,
            pickup_wait_ms,
            cancel_asked,
            delivery: read_delivery(delivery)?,
        })
    })())
}

type OriginColumns = (Option<String>, Option<String>, Option<String>, Option<String>, Option<Timestamp>, Option<String>);

fn read_origin((command, project, device, slug, queued_at, agent): OriginColumns) -> Result<Origin, StoreError> {
    let Some(command) = command else { return Ok(Origin::Owner) };
    Ok(Origin::Command(CommandFacts {
        command: parsed(&command, "command_id", |t| CommandId::parse(t).ok())?,
        project: parsed(&project.unwrap_or_default(), "project_id", |t| ProjectId::parse(t).ok())?,
        device: parsed(&device.unwrap_or_default(), "device_id", |t| DeviceId::parse(t).ok())?,
        slug: parsed(&slug.unwrap_or_default(), "slug", |t| Slug::parse(t).ok())?,
        queued_at: queued_at.unwrap_or_default(),
        agent,
    }))
}

fn read_delivery((word, at, status): (Option<String>, Option<Timestamp>, Option<String>)) -> Result<Delivery, StoreError> {
    let at = at.unwrap_or_default();
    match word.as_deref() {
        Some("none") => Ok(Delivery::None),
        Some("outbox") => Ok(Delivery::Outbox),
        Some("delivered") => Ok(Delivery::Delivered { at }),
        Some("too_late") => Ok(Delivery::TooLate { at, status: status.unwrap_or_default() }),
        Some("discarded") => Ok(Delivery::Discarded { at }),
        _ => Err(StoreError::Unreadable { what: "delivery" }),
    }
}

fn find(on: &Connection, id: &ExecutionId) -> Result<Option<ExecutionRecord>, StoreError> {
    let mut statement = on.prepare_cached(&format!("SELECT {COLUMNS} FROM executions WHERE id = ?1"))?;
    statement.query_row([id.as_str()], record).optional()?.transpose()
}

fn find_by_command(on: &Connection, command: CommandId) -> Result<Option<ExecutionRecord>, StoreError> {
    let mut statement = on.prepare_cached(&format!("SELECT {COLUMNS} FROM executions WHERE command_id = ?1"))?;
    statement.query_row([command.to_string()], record).optional()?.transpose()
}

fn find_all(on: &Connection, clause: &str, params: &[&dyn rusqlite::ToSql]) -> Result<Vec<ExecutionRecord>, StoreError> {
    let mut statement = on.prepare_cached(&format!("SELECT {COLUMNS} FROM executions {clause}"))?;
    let rows: Vec<_> = statement.query_map(params, record)?.collect::<rusqlite::Result<_>>()?;
    rows.into_iter().collect()
}

fn insert(on: &Connection, new: &NewExecution, state: ExecutionState, now: Timestamp) -> Result<(), StoreError> {
    let (channel, facts) = match &new.origin {
        Origin::Owner => (Channel::Local(new.id.clone()), None),
        Origin::Command(facts) => (Channel::External(facts.command), Some(facts)),
    };
    on.prepare_cached(
        "INSERT INTO executions (id, channel, graph_session_id, graph, version, state, dry, args, resumed_from, started_at,
                                 command_id, project_id, device_id, slug, queued_at, agent)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16)",
    )?
    .execute(params![
        new.id.as_str(),
        channel.to_string(),
        new.graph.to_string(),
        new.graph_name,
        int(new.version),
        state_word(state),
        new.dry,
        new.args.as_str(),
        new.resumed_from.as_ref().map(ExecutionId::as_str),
        now.ms(),
        facts.map(|f| f.command.to_string()),
        facts.map(|f| f.project.to_string()),
        facts.map(|f| f.device.to_string()),
        facts.map(|f| f.slug.as_str()),
        facts.map(|f| f.queued_at.ms()),
        facts.and_then(|f| f.agent.as_deref()),
    ])?;
    Ok(())
}

/// Writes the ending of an open execution and, for a command's, its completion. The first ending stands: false when there was one.
fn end(tx: &Connection, id: &ExecutionId, outcome: &Outcome, facts: &EndFacts, now: Timestamp) -> Result<bool, StoreError> {
    let Some(record) = find(tx, id)?.filter(|r| matches!(r.state, ExecutionState::Claiming | ExecutionState::Running)) else { return Ok(false) };
    let (state, reason, result, error) = match outcome {
        Outcome::Completed { result, .. } => (ExecutionState::Completed, "done", Some(result.as_str()), None),
        Outcome::Failed { why, error, .. } => (ExecutionState::Failed, why.as_str(), None, Some(error.as_str())),
        Outcome::Cancelled { why, error, .. } => (ExecutionState::Cancelled, why.as_str(), None, Some(error.as_str())),
    };
    let delivery = match &record.origin {
        Origin::Owner => "none",
        Origin::Command(facts) => {
            outbox::put(tx, facts.command, facts.device, &Completion::bounded(id.clone(), outcome), now)?;
            "outbox"
        }
    };
    tx.prepare_cached(
        "UPDATE executions SET state = ?2, reason = ?3, result = ?4, error = ?5, error_line = ?6, tokens = ?7, cost = ?8, agents_done = ?9,
                agents_failed = ?10, ledger = CASE WHEN ?11 = '' THEN ledger ELSE ?11 END, ended_at = ?12, delivery = ?13
          WHERE id = ?1 AND state IN ('claiming', 'running')",
    )?
    .execute(params![
        id.as_str(),
        state_word(state),
        reason,
        result,
        error,
        facts.error_line,
        int(outcome.used().total_tokens),
        outcome.used().cost,
        int(facts.agents_done),
        int(facts.agents_failed),
        facts.ledger,
        now.ms(),
        delivery
    ])?;
    Ok(true)
}

/// What a record's ending was, for telling it once more.
fn outcome_of(record: &ExecutionRecord) -> Option<Outcome> {
    let used = Used { total_tokens: record.totals.tokens, cost: record.totals.cost };
    let (reason, error) = (record.reason.as_deref().unwrap_or_default(), record.error.clone().unwrap_or_default());
    match record.state {
        ExecutionState::Claiming | ExecutionState::Running => None,
        ExecutionState::Completed => record.result.clone().map(|result| Outcome::Completed { result, used }),
        ExecutionState::Failed => FailReason::parse(reason).map(|why| Outcome::Failed { why, error, used }),
        ExecutionState::Cancelled => CancelReason::parse(reason).map(|why| Outcome::Cancelled { why, error, used }),
    }
}

fn forget_old_commands(on: &Connection, now: Timestamp) -> Result<(), StoreError> {
    let before = now.plus_ms(-COMMANDS_REMEMBERED_MS).ms();
    on.prepare_cached("DELETE FROM seen_commands WHERE seen_at < ?1")?.execute([before])?;
    Ok(())
}

/// Failed, not begun again: whether its effects happened is not known to be false.
fn restarted(used: Used) -> Outcome {
    Outcome::Failed { why: FailReason::DeviceRestarted, error: RESTARTED.to_owned(), used }
}

impl Store {
    /// The owner's own execution begins.
    pub fn begin_execution(&self, new: &NewExecution, now: Timestamp) -> Result<(), StoreError> {
        self.write_soon(|tx| insert(tx, new, ExecutionState::Running, now))?;
        self.tell(Topic::Executions);
        Ok(())
    }

    /// The engine's first words about an execution.
    pub fn note_beginning(&self, id: &ExecutionId, beginning: Beginning) -> Result<(), StoreError> {
        self.write_soon(|tx| {
            tx.prepare_cached("UPDATE executions SET ceiling = ?2, max_concurrency = ?3, seed = ?4 WHERE id = ?1")?.execute(params![
                id.as_str(),
                int(beginning.ceiling),
                int(beginning.max_concurrency),
                beginning.seed as i64
            ])?;
            Ok::<_, StoreError>(())
        })
    }

    /// Appends to the story of an execution and notes what it used so far. Repeated numbers are kept as they were.
    pub fn append_events(&self, id: &ExecutionId, events: &[FleetEvent], totals: RunningTotals) -> Result<(), StoreError> {
        self.write_soon(|tx| {
            let mut add = tx.prepare_cached("INSERT OR IGNORE INTO execution_events (execution_id, seq, event) VALUES (?1, ?2, ?3)")?;
            for event in events {
                let json = serde_json::to_string(event).map_err(|_| StoreError::Unreadable { what: "event" })?;
                add.execute(params![id.as_str(), int(event.seq), json])?;
            }
            tx.prepare_cached(
                "UPDATE executions SET tokens = ?2, cost = ?3, agents_done = ?4, agents_failed = ?5 WHERE id = ?1 AND state = 'running'",
            )?
            .execute(params![id.as_str(), int(totals.tokens), totals.cost, int(totals.agents_done), int(totals.agents_failed)])?;
            Ok::<_, StoreError>(())
        })
    }

    /// In order, only those numbered above `after`.
    pub fn events(&self, id: &ExecutionId, after: u64) -> Result<Vec<FleetEvent>, StoreError> {
        self.read(|on| {
            let mut statement = on.prepare_cached("SELECT event FROM execution_events WHERE execution_id = ?1 AND seq > ?2 ORDER BY seq")?;
            let rows: Vec<String> = statement.query_map(params![id.as_str(), int(after)], |row| row.get(0))?.collect::<Result<_, _>>()?;
            rows.iter().map(|text| parsed(text, "event", |t| serde_json::from_str(t).ok())).collect()
        })
    }

    /// The ending of an execution and, for a command's, its completion in the outbox: one transaction that survives power loss.
    /// The first ending stands, so this may be repeated; true if this was it.
    pub fn end_execution(&self, id: &ExecutionId, outcome: &Outcome, facts: &EndFacts, now: Timestamp) -> Result<bool, StoreError> {
        crash::point("before_outbox_write");
        let first = self.write(|tx| end(tx, id, outcome, facts, now))?;
        if first {
            crash::point("after_outbox_write");
            self.tell(Topic::Executions);
        }
        Ok(first)
    }

    /// Ends what a dead process left running: failed, honestly, with the completion of a command's in the outbox. Claims that were not
    /// answered stay; the relay's next pass resolves them.
    pub fn end_interrupted(&self, now: Timestamp) -> Result<Vec<ExecutionId>, StoreError> {
        self.end_open("WHERE state = 'running' ORDER BY number", now)
    }

    /// The same for commands alone: the relay that ran them failed, the owner's own executions go on.
    pub fn end_interrupted_commands(&self, now: Timestamp) -> Result<Vec<ExecutionId>, StoreError> {
        self.end_open("WHERE state = 'running' AND command_id IS NOT NULL ORDER BY number", now)
    }

    fn end_open(&self, which: &str, now: Timestamp) -> Result<Vec<ExecutionId>, StoreError> {
        self.write(|tx| {
            let open = find_all(tx, which, &[])?;
            for record in &open {
                let used = Used { total_tokens: record.totals.tokens, cost: record.totals.cost };
                let facts = EndFacts { agents_done: record.totals.agents_done, agents_failed: record.totals.agents_failed, ..EndFacts::default() };
                end(tx, &record.id, &restarted(used), &facts, now)?;
            }
            forget_old_commands(tx, now)?;
            Ok::<_, StoreError>(open.into_iter().map(|r| r.id).collect())
        })
    }

    pub fn execution(&self, id: &ExecutionId) -> Result<Option<ExecutionRecord>, StoreError> {
        self.read(|on| find(on, id))
    }

    pub fn execution_of(&self, command: CommandId) -> Result<Option<ExecutionRecord>, StoreError> {
        self.read(|on| find_by_command(on, command))
    }

    /// Running now, oldest first.
    pub fn running_executions(&self) -> Result<Vec<ExecutionRecord>, StoreError> {
        self.read(|on| find_all(on, "WHERE state = 'running' ORDER BY number", &[]))
    }

    /// The newest of each Graph.
    pub fn last_executions(&self) -> Result<Vec<ExecutionRecord>, StoreError> {
        self.read(|on| find_all(on, "WHERE number IN (SELECT max(number) FROM executions GROUP BY graph_session_id)", &[]))
    }

    pub fn executions(&self, query: &ExecutionQuery) -> Result<ExecutionPage, StoreError> {
        let text = query.text.as_ref().map(|t| format!("%{}%", t.replace('\\', "\\\\").replace('%', "\\%").replace('_', "\\_")));
        const MATCH: &str = "(?1 IS NULL OR graph_session_id = ?1) AND (?2 IS NULL OR project_id = ?2) AND (?3 IS NULL OR agent = ?3)
            AND (?4 IS NULL OR state = ?4) AND (?5 IS NULL OR (command_id IS NOT NULL) = ?5)
            AND (?6 IS NULL OR graph LIKE ?6 ESCAPE '\\' OR args LIKE ?6 ESCAPE '\\' OR result LIKE ?6 ESCAPE '\\' OR error LIKE ?6 ESCAPE '\\')
            AND (?7 IS NULL OR started_at >= ?7) AND (?8 IS NULL OR started_at < ?8)";
        let (graph, project) = (query.graph.map(|id| id.to_string()), query.project.map(|id| id.to_string()));
        let state = query.state.map(state_word);
        let (since, until) = (query.since.map(Timestamp::ms), query.until.map(Timestamp::ms));
        self.read(|on| {
            let total = on
                .prepare_cached(&format!("SELECT count(*) FROM executions WHERE {MATCH}"))?
                .query_row(params![graph, project, query.agent, state, query.of_commands, text, since, until], |row| row.get::<_, i64>(0))?;
            let clause = format!("WHERE {MATCH} AND (?9 IS NULL OR number < ?9) ORDER BY number DESC LIMIT ?10");
            let (before, limit) = (query.before.map(int), int(query.limit.max(1).saturating_add(1)));
            let mut rows =
                find_all(on, &clause, &[&graph, &project, &query.agent, &state, &query.of_commands, &text, &since, &until, &before, &limit])?;
            let more = rows.len() as u64 > query.limit.max(1);
            if more {
                rows.pop();
            }
            Ok(ExecutionPage { rows, more, total: count(total) })
        })
    }

    /// Tokens of executions that began at or after `since`.
    pub fn tokens_since(&self, since: Timestamp) -> Result<u64, StoreError> {
        self.read(|on| {
            let mut statement = on.prepare_cached("SELECT coalesce(sum(tokens), 0) FROM executions WHERE started_at >= ?1")?;
            Ok(count(statement.query_row([since.ms()], |row| row.get(0))?))
        })
    }

    /// Graph's name and pickup wait in milliseconds of a project's last commands, newest first.
    pub fn pickup_waits(&self, project: ProjectId, limit: u64) -> Result<Vec<(String, u64)>, StoreError> {
        self.read(|on| {
            let sql =
                "SELECT graph, pickup_wait_ms FROM executions WHERE project_id = ?1 AND pickup_wait_ms IS NOT NULL ORDER BY number DESC LIMIT ?2";
            let mut statement = on.prepare_cached(sql)?;
            let rows = statement.query_map(params![project.to_string(), int(limit)], |row| Ok((row.get(0)?, row.get(1).map(count)?)))?;
            Ok(rows.collect::<rusqlite::Result<_>>()?)
        })
    }

    /// Drops executions that ended before `before`, with their events; never open or undelivered ones.
    pub fn prune_executions(&self, before: Timestamp) -> Result<usize, StoreError> {
        let gone = self.write_soon(|tx| {
            tx.execute(
                "DELETE FROM execution_events WHERE execution_id IN (SELECT id FROM executions WHERE ended_at < ?1 AND delivery <> 'outbox')",
                [before.ms()],
            )?;
            let gone = tx.execute("DELETE FROM executions WHERE ended_at < ?1 AND delivery <> 'outbox'", [before.ms()])?;
            tx.execute(
                "DELETE FROM connected_graph_project_bindings
                  WHERE bound_at < ?1 AND command_id NOT IN (SELECT command_id FROM executions WHERE command_id IS NOT NULL)",
                [before.ms()],
            )?;
            Ok::<_, StoreError>(gone)
        })?;
        if gone > 0 {
            self.tell(Topic::Executions);
        }
        Ok(gone)
    }

    // ── Commands ────────────────────────────────────────────────────────────────────────────────────────────────────

    /// Stores the execution that is about to ask for its command, the binding of its channel, and that the command was seen.
    pub(crate) fn store_claim(&self, new: &NewExecution, facts: &CommandFacts, now: Timestamp) -> Result<(), StoreError> {
        crash::point("before_execution_stored");
        self.write(|tx| {
            insert(tx, new, ExecutionState::Claiming, now)?;
            bindings::bind(tx, &Binding { command: facts.command, project: facts.project }, now)?;
            tx.prepare_cached("INSERT OR REPLACE INTO seen_commands (command_id, execution_id, seen_at) VALUES (?1, ?2, ?3)")?.execute(params![
                facts.command.to_string(),
                new.id.as_str(),
                now.ms()
            ])?;
            Ok::<_, StoreError>(())
        })?;
        crash::point("after_execution_stored");
        Ok(())
    }

    /// Claims without an answer, oldest first. There is at most one unless a profile was tampered with.
    pub(crate) fn claims(&self) -> Result<Vec<ExecutionRecord>, StoreError> {
        self.read(|on| find_all(on, "WHERE state = 'claiming' ORDER BY number", &[]))
    }

    /// The claim was granted and consent still holds: it runs, with the version that is current now.
    pub(crate) fn store_running(&self, id: &ExecutionId, version: u64, pickup_wait_ms: u64, now: Timestamp) -> Result<(), StoreError> {
        // Not waiting for the disk: undone by a power loss it is an unanswered claim, which never runs again either.
        self.write_soon(|tx| {
            let sql = "UPDATE executions SET state = 'running', version = ?2, started_at = ?3, pickup_wait_ms = ?4
                        WHERE id = ?1 AND state = 'claiming'";
            tx.prepare_cached(sql)?.execute(params![id.as_str(), int(version), now.ms(), int(pickup_wait_ms)])?;
            Ok::<_, StoreError>(())
        })?;
        crash::point("after_running_stored");
        self.tell(Topic::Executions);
        Ok(())
    }

    /// The claim was refused: no execution came of it, and the command may be offered again.
    pub(crate) fn let_go(&self, id: &ExecutionId, command: CommandId) -> Result<(), StoreError> {
        self.write_soon(|tx| {
            tx.prepare_cached("DELETE FROM executions WHERE id = ?1 AND state = 'claiming'")?.execute([id.as_str()])?;
            bindings::unbind(tx, command)?;
            tx.prepare_cached("DELETE FROM seen_commands WHERE command_id = ?1")?.execute([command.to_string()])?;
            Ok::<_, StoreError>(())
        })
    }

    /// The control poll brought a cancel.
    pub(crate) fn note_cancel_asked(&self, id: &ExecutionId) -> Result<(), StoreError> {
        self.write_soon(|tx| {
            tx.prepare_cached("UPDATE executions SET cancel_asked = 1 WHERE id = ?1")?.execute([id.as_str()])?;
            Ok::<_, StoreError>(())
        })
    }

    pub(crate) fn seen(&self, command: CommandId) -> Result<Seen, StoreError> {
        self.read(|on| {
            if outbox::holds(on, command)? {
                return Ok(Seen::InHand);
            }
            let text = command.to_string();
            // One given up by the owner's own hand is as good as in hand: nothing more is said of it.
            let sql = "SELECT CASE WHEN delivery = 'discarded' THEN 'running' ELSE state END FROM executions WHERE command_id = ?1";
            let state: Option<String> = on.prepare_cached(sql)?.query_row([&text], |row| row.get(0)).optional()?;
            match state.as_deref() {
                Some("claiming" | "running") => Ok(Seen::InHand),
                Some(_) => Ok(Seen::Ended),
                None => {
                    let mut known = on.prepare_cached("SELECT EXISTS (SELECT 1 FROM seen_commands WHERE command_id = ?1)")?;
                    Ok(if known.query_row([&text], |row| row.get(0))? { Seen::Ended } else { Seen::Never })
                }
            }
        })
    }

    /// Puts the completion of a command that ended here into the outbox once more: the server forgot it. True if there was one.
    pub(crate) fn report_again(&self, command: CommandId, device: DeviceId, now: Timestamp) -> Result<bool, StoreError> {
        self.write(|tx| {
            if let Some(record) = find_by_command(tx, command)? {
                let Some(outcome) = outcome_of(&record) else { return Ok(false) };
                outbox::put(tx, command, device, &Completion::bounded(record.id, &outcome), now)?;
                return Ok(true);
            }
            // Pruned from the history: how it ended is forgotten, that it had an execution is not, and that must not run again.
            let mut statement = tx.prepare_cached("SELECT execution_id FROM seen_commands WHERE command_id = ?1")?;
            let execution: Option<Option<String>> = statement.query_row([command.to_string()], |row| row.get(0)).optional()?;
            let Some(execution) = execution.flatten() else { return Ok(false) };
            let execution = parsed(&execution, "execution_id", |t| ExecutionId::parse(t).ok())?;
            outbox::put(tx, command, device, &Completion::bounded(execution, &restarted(Used::default())), now)?;
            Ok::<_, StoreError>(true)
        })
    }

    /// The server believes this device runs `execution`, of which the device knows nothing (a lost profile): it ends as restarted.
    pub(crate) fn report_unknown(&self, command: CommandId, execution: &ExecutionId, device: DeviceId, now: Timestamp) -> Result<(), StoreError> {
        self.write(|tx| {
            outbox::put(tx, command, device, &Completion::bounded(execution.clone(), &restarted(Used::default())), now)?;
            tx.prepare_cached("INSERT OR IGNORE INTO seen_commands (command_id, execution_id, seen_at) VALUES (?1, ?2, ?3)")?.execute(params![
                command.to_string(),
                execution.as_str(),
                now.ms()
            ])?;
            Ok::<_, StoreError>(())
        })
    }

    /// Consent was gone before the claim: there is no execution, only this answer.
    pub(crate) fn report_not_shared(&self, command: CommandId, device: DeviceId, now: Timestamp) -> Result<(), StoreError> {
        self.write(|tx| outbox::put(tx, command, device, &Completion::NotShared, now))?;
        crash::point("after_not_shared_stored");
        Ok(())
    }
}
