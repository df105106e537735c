//! The auditor: keeps the simple truth beside the system and compares.
//!
//! It hears of every step before the system does, of every first instruction of a Graph at that instant, and of every answer an agent
//! got. The server's state it reads from the server's own database, the devices' from theirs.
use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use device::{relay::RunRequest, store::Origin, store::Store, view::ExecutionState};
use domain::{CommandId, ExecutionId, GraphSessionId, ProjectId, text::RUN_NOT_FOUND};
use rusqlite::{Connection, OpenFlags};

use super::plan::{QUEUED_MAX, RunNumber};
use crate::{
    agent::{CallError, RunView},
    clock::SimClock,
    graph::Graphs,
};

/// What the owner has set on one machine.
#[derive(Debug, Clone, Default)]
pub struct Consent {
    pub enabled: BTreeSet<ProjectId>,
    pub ticks: BTreeSet<(ProjectId, GraphSessionId)>,
    pub slugs: BTreeMap<GraphSessionId, String>,
    pub deleted: BTreeSet<GraphSessionId>,
}

#[derive(Debug, Clone, Default)]
struct Ticket {
    command: Option<String>,
    cancel_accepted: bool,
}

/// A row of the server's table of commands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    pub command: String,
    pub agent: String,
    pub project: String,
    pub slug: String,
    pub status: String,
    pub reason: Option<String>,
    pub execution: Option<String>,
    pub cancel_asked: bool,
}

impl Row {
    pub fn is_terminal(&self) -> bool {
        !matches!(self.status.as_str(), "queued" | "running")
    }
    fn told(&self) -> String {
        format!("{}{}", self.status, self.reason.as_ref().map(|r| format!(" ({r})")).unwrap_or_default())
    }
}

#[derive(Debug, Clone)]
struct Started {
    desk: usize,
    execution: ExecutionId,
}

#[derive(Default)]
struct Truth {
    consent: Vec<Consent>,
    tickets: BTreeMap<RunNumber, Ticket>,
    started: BTreeMap<String, Vec<Started>>,
    last: BTreeMap<String, Row>,
    /// Completions seen in an outbox, by desk.
    waiting: BTreeSet<(usize, String)>,
    /// Agents whose revocation was sent: they may be out.
    revoking: BTreeSet<String>,
    /// Agents whose revocation was answered: they are out.
    revoked: BTreeSet<String>,
    /// A crash, a boot or a clone: a desktop may truthfully say that it restarted.
    may_restart: bool,
    story: Vec<String>,
    faults: Vec<String>,
}

#[derive(Clone)]
pub struct Auditor {
    clock: SimClock,
    database: Arc<Mutex<Connection>>,
    truth: Arc<Mutex<Truth>>,
}

impl Auditor {
    pub fn new(clock: &SimClock, database: &Path, desks: usize) -> Result<Self, rusqlite::Error> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(database, flags)?;
        let truth = Truth { consent: vec![Consent::default(); desks], ..Truth::default() };
        Ok(Self { clock: clock.clone(), database: Arc::new(Mutex::new(connection)), truth: Arc::new(Mutex::new(truth)) })
    }

    fn truth(&self) -> MutexGuard<'_, Truth> {
        self.truth.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn moment(&self) -> String {
        format!("{:>8.3} s", self.clock.elapsed_ms() as f64 / 1000.0)
    }

    pub fn tell(&self, what: &str) {
        let line = format!("{}  {what}", self.moment());
        self.truth().story.push(line);
    }

    pub fn fault(&self, what: &str) {
        let line = format!("{}  {what}", self.moment());
        let mut truth = self.truth();
        if !truth.faults.iter().any(|f| f.ends_with(what)) {
            truth.faults.push(line);
        }
    }

    /// The owner's word changes before the machine hears it: consent once withdrawn may not be used.
    pub fn consent(&self, desk: usize, change: impl FnOnce(&mut Consent)) {
        if let Some(consent) = self.truth().consent.get_mut(desk) {
            change(consent);
        }
    }

    pub fn may_restart(&self) {
        self.truth().may_restart = true;
    }

    pub fn command_of(&self, run: RunNumber) -> Option<String> {
        self.truth().tickets.get(&run)?.command.clone()
    }

    // ── What agents are told ────────────────────────────────────────────────────────────────────────────────────────

    pub fn ticket(&self, run: RunNumber, answer: &Result<RunView, CallError>) {
        match answer {
            Ok(ticket) => {
                let command = ticket.0["command_id"].as_str().unwrap_or_default().to_owned();
                self.tell(&format!("run {run} is command {}", short(&command)));
                let mut truth = self.truth();
                let taken = truth.tickets.iter().any(|(other, t)| *other != run && t.command.as_ref() == Some(&command));
                let known = truth.tickets.entry(run).or_default().command.replace(command.clone());
                drop(truth);
                if taken {
                    self.fault("two keys got one command");
                }
                if known.is_some_and(|known| known != command) {
                    self.fault(&format!("run {run}: the same key got two commands"));
                }
            }
            Err(e) => self.tell(&format!("run {run} got no ticket: {e}")),
        }
    }

    pub fn cancelled(&self, run: RunNumber, by: &str, answer: &Result<RunView, CallError>) {
        match answer {
            Ok(view) if view.status() == "cancelled" || view.0["cancel_requested"] == true && !view.is_terminal() => {
                self.tell(&format!("the cancel of run {run} by {by} is accepted: {}", view.status()));
                self.truth().tickets.entry(run).or_default().cancel_accepted = true;
            }
            Ok(view) if view.is_terminal() => self.tell(&format!("the cancel of run {run} by {by} came too late: {}", view.status())),
            Ok(view) => self.fault(&format!("the cancel of run {run} by {by} was answered but not accepted: {}", view.status())),
            Err(e) => self.tell(&format!("the cancel of run {run} by {by} got no answer: {e}")),
        }
    }

    pub fn peeked(&self, run: RunNumber, answer: &Result<RunView, CallError>) {
        match answer {
            Ok(_) => self.fault(&format!("another agent was let at run {run}")),
            Err(CallError::Refused(words)) if words == RUN_NOT_FOUND => {}
            Err(CallError::Refused(words)) => self.fault(&format!("another agent asked for run {run} and was told: {words}")),
            Err(CallError::Lost(_) | CallError::Status(_)) => {}
        }
    }

    pub fn revoking(&self, agent: &str) {
        self.truth().revoking.insert(agent.to_owned());
    }

    /// From the answer on the agent is out, what it queued has ended and what runs is asked to stop.
    pub fn revoked(&self, agent: &str) {
        self.tell("the revocation is answered");
        self.truth().revoked.insert(agent.to_owned());
    }

    // ── The instant of a start ──────────────────────────────────────────────────────────────────────────────────────

    pub fn begins(&self, desk: usize, request: &RunRequest) {
        let Origin::Command(facts) = &request.origin else { return };
        let command = facts.command.to_string();
        self.tell(&format!("desk {desk} begins command {}", short(&command)));
        let row = self.rows().into_iter().find(|r| r.command == command);
        let consent = self.truth().consent.get(desk).cloned().unwrap_or_default();
        let slug = consent.slugs.get(&request.graph);
        let no = |why: &str| self.fault(&format!("command {} began {why}", short(&command)));
        if !consent.enabled.contains(&facts.project) {
            no("although its project is disabled");
        }
        if !consent.ticks.contains(&(facts.project, request.graph)) {
            no("although its session is not ticked");
        }
        if consent.deleted.contains(&request.graph) {
            no("although its Graph is deleted");
        }
        match row {
            None => no("although the server does not know it"),
            Some(row) => {
                if slug != Some(&row.slug) {
                    no(&format!("although it was queued for the slug {} and that is now {}", row.slug, slug.map_or("gone", String::as_str)));
                }
                if row.project != facts.project.to_string() {
                    no("under another project than it was queued for");
                }
                if row.status != "running" || row.execution.as_deref() != Some(request.execution.as_str()) {
                    no(&format!("although the server holds it as {}", row.told()));
                }
            }
        }
        let mut truth = self.truth();
        let started = truth.started.entry(command.clone()).or_default();
        started.push(Started { desk, execution: request.execution.clone() });
        let twice = started.len() > 1;
        drop(truth);
        if twice {
            self.fault(&format!("command {} ran twice", short(&command)));
        }
    }

    // ── After every step ────────────────────────────────────────────────────────────────────────────────────────────

    /// The server's commands, oldest first.
    pub fn rows(&self) -> Vec<Row> {
        let connection = self.database.lock().unwrap_or_else(PoisonError::into_inner);
        let read = || -> Result<Vec<Row>, rusqlite::Error> {
            let mut statement = connection.prepare_cached(
                "SELECT command_id, project_id, slug, status, reason, execution_id, agent_id, cancel_asked <> 0 FROM commands ORDER BY seq",
            )?;
            let rows = statement.query_map([], |row| {
                Ok(Row {
                    command: row.get(0)?,
                    project: row.get(1)?,
                    slug: row.get(2)?,
                    status: row.get(3)?,
                    reason: row.get(4)?,
                    execution: row.get(5)?,
                    agent: row.get(6)?,
                    cancel_asked: row.get(7)?,
                })
            })?;
            rows.collect::<Result<Vec<Row>, _>>()
        };
        read().unwrap_or_else(|e| {
            self.fault(&format!("the auditor cannot read the server's database: {e}"));
            Vec::new()
        })
    }

    /// Compares everything. Cheap enough to be done after each step.
    pub fn look(&self, desks: &[(&Store, &Graphs)]) {
        let rows = self.rows();
        let mut queued: BTreeMap<&str, usize> = BTreeMap::new();
        for row in &rows {
            self.look_at(row, desks);
            *queued.entry(&row.project).or_default() += usize::from(row.status == "queued");
        }
        if let Some((_, n)) = queued.into_iter().find(|(_, n)| *n > QUEUED_MAX) {
            self.fault(&format!("a project has {n} commands queued; {QUEUED_MAX} are allowed"));
        }
        self.look_at_outboxes(&rows, desks);
    }

    fn look_at(&self, row: &Row, desks: &[(&Store, &Graphs)]) {
        let (before, started, accepted, may_restart) = {
            let mut truth = self.truth();
            let before = truth.last.insert(row.command.clone(), row.clone());
            let started = truth.started.get(&row.command).cloned().unwrap_or_default();
            let accepted = truth.tickets.values().any(|t| t.cancel_accepted && t.command.as_ref() == Some(&row.command));
            (before, started, accepted, truth.may_restart)
        };
        let name = short(&row.command);
        if before.as_ref() != Some(row) {
            self.tell(&format!("command {name} is {}", row.told()));
        }
        if let Some(before) = before {
            if before.is_terminal() && (before.status != row.status || before.reason != row.reason) {
                self.fault(&format!("command {name} had ended as {} and is now {}", before.told(), row.told()));
            }
            if before.status == "running" && row.status == "queued" {
                self.fault(&format!("command {name} was running and is queued again"));
            }
        }
        let never_ran = row.status == "expired" || matches!(row.reason.as_deref(), Some("cancelled_while_queued" | "not_shared"));
        if never_ran && !started.is_empty() {
            self.fault(&format!("command {name} is {} although it ran", row.told()));
        }
        if accepted && row.is_terminal() && row.status != "cancelled" {
            self.fault(&format!("the cancel of command {name} was accepted and it ended as {}", row.told()));
        }
        let revoked = self.truth().revoked.contains(&row.agent);
        if revoked && !row.is_terminal() && !(row.status == "running" && row.cancel_asked) {
            self.fault(&format!("command {name} is {} and not asked to stop, though its agent was revoked", row.told()));
        }
        if row.reason.as_deref() == Some("device_restarted") && !may_restart {
            self.fault(&format!("command {name} says that its desktop restarted, which none did"));
        }
        if row.status == "completed" {
            let by_itself = started.first().is_some_and(|s| desks.get(s.desk).is_some_and(|(_, graphs)| graphs.ended_ms(&s.execution).is_some()));
            if !by_itself {
                self.fault(&format!("command {name} is completed, but no Graph of it came to its end"));
            }
        }
        // What has ended on a device and not on the server must be in that device's outbox.
        if let (false, Some(start), Ok(command)) = (row.is_terminal(), started.first(), CommandId::parse(&row.command))
            && let Some((store, _)) = desks.get(start.desk)
            && let Ok(Some(record)) = store.execution_of(command)
        {
            let ended = !matches!(record.state, ExecutionState::Claiming | ExecutionState::Running);
            if ended && !store.outbox().is_ok_and(|rows| rows.iter().any(|r| r.command == command)) {
                self.fault(&format!("the ending of command {name} is in no outbox and not on the server"));
            }
        }
    }

    /// A completion leaves an outbox only when the server has an ending for it.
    fn look_at_outboxes(&self, rows: &[Row], desks: &[(&Store, &Graphs)]) {
        let mut now = BTreeSet::new();
        for (desk, (store, _)) in desks.iter().enumerate() {
            match store.outbox() {
                Ok(outbox) => now.extend(outbox.into_iter().map(|row| (desk, row.command.to_string()))),
                Err(e) => self.fault(&format!("the outbox of desk {desk} cannot be read: {e}")),
            }
        }
        let before = std::mem::replace(&mut self.truth().waiting, now.clone());
        for (desk, command) in before.difference(&now) {
            if !rows.iter().any(|r| r.command == *command && r.is_terminal()) {
                self.fault(&format!("desk {desk} let go of the completion of command {}, which has no ending on the server", short(command)));
            }
        }
    }

    // ── At the end ──────────────────────────────────────────────────────────────────────────────────────────────────

    /// Commands that have not ended, with an empty outbox everywhere: `None` when all is told.
    pub fn unfinished(&self, desks: &[(&Store, &Graphs)]) -> Option<String> {
        let open: Vec<String> =
            self.rows().iter().filter(|r| !r.is_terminal()).map(|r| format!("command {} is {}", short(&r.command), r.told())).collect();
        let mut kept = Vec::new();
        for (desk, (store, _)) in desks.iter().enumerate() {
            for row in store.outbox().unwrap_or_default().into_iter().filter(|r| !r.refused) {
                kept.push(format!("desk {desk} still holds the completion of {}", short(&row.command.to_string())));
            }
        }
        let all = [open, kept].concat();
        if all.is_empty() { None } else { Some(all.join("; ")) }
    }

    pub fn stops(&self, desks: &[(&Store, &Graphs)]) {
        for (desk, (_, graphs)) in desks.iter().enumerate() {
            for began in graphs.began() {
                let stops = graphs.stops_asked(&began.execution);
                if stops > 1 {
                    self.fault(&format!("desk {desk} was told {stops} times to stop one execution"));
                }
            }
        }
    }

    /// What the agent that queued it is told in the end.
    pub fn told_at_last(&self, run: RunNumber, answer: &Result<RunView, CallError>) {
        let Some(command) = self.command_of(run) else { return };
        let row = self.rows().into_iter().find(|r| r.command == command);
        let (is_out, may_be_out) = {
            let truth = self.truth();
            let is_in = |agents: &BTreeSet<String>| row.as_ref().is_some_and(|row| agents.contains(&row.agent));
            (is_in(&truth.revoked), is_in(&truth.revoking))
        };
        match (answer, row) {
            (Ok(_), _) if is_out => self.fault(&format!("run {run} is read by a revoked agent")),
            (Err(CallError::Status(401)), _) if may_be_out => {}
            (Ok(view), Some(row)) if view.status() == row.status && view.reason() == row.reason.as_deref().unwrap_or_default() => {}
            (Ok(view), row) => self.fault(&format!("run {run} reads as {} ({}), the server holds {row:?}", view.status(), view.reason())),
            (Err(e), _) => self.fault(&format!("run {run} cannot be read by its own agent: {e}")),
        }
    }

    pub fn runs(&self) -> Vec<RunNumber> {
        self.truth().tickets.keys().copied().collect()
    }

    pub fn close(self) -> super::Played {
        let commands = self.rows().len();
        let truth = std::mem::take(&mut *self.truth());
        super::Played { story: truth.story, faults: truth.faults, commands, began: truth.started.values().map(Vec::len).sum() }
    }
}

/// The first eight digits tell commands of one world apart.
fn short(command: &str) -> &str {
    command.get(..8).unwrap_or(command)
}
