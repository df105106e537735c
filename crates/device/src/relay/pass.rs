//! One pass: the unanswered claim first, then the outbox, then one sync per project, then the commands, one after the other.
use std::collections::VecDeque;

use domain::{
    CancelReason, CommandId, ExecutionId, FailReason, Outcome, ProjectId,
    completion::Used,
    limits::NAME_CHARS_MAX,
    text::{NOT_SHARED, NOTHING_RAN, RESTARTED, cut_chars},
    wire::relay::{Pickup, RelayState, RunningCommand, SyncRequest},
};

use super::{AskError, Busy, Relay, RunFeed, RunRequest, Synced, client::Offer};
use crate::{
    crash, sharing,
    store::{Channel, CommandFacts, EndFacts, ExecutionRecord, Graph, NewExecution, Origin, Project, Seen, StoreError},
    view::Topic,
};

/// What ended a pass early.
#[derive(Debug, thiserror::Error)]
pub enum PassError {
    #[error(transparent)]
    Ask(#[from] AskError),
    #[error("the profile's database failed: {0}")]
    Store(#[from] StoreError),
}

#[derive(Debug, Default)]
pub struct PassReport {
    /// Commands that were run, refused, withdrawn or reported: progress was made.
    pub handled: usize,
    /// The server holds more commands than its answer could carry.
    pub more: bool,
    /// The first trouble that concerned more than one request.
    pub trouble: Option<PassError>,
}

/// What became of a claim.
enum Claim {
    /// Ended or let go: the next command may be claimed.
    Settled,
    /// In hand already: nothing was done, so this alone is no reason for another pass.
    Untouched,
    /// No answer yet: nothing else is claimed until there is one.
    Unanswered(AskError),
}

impl Relay {
    /// One bounded round. Passes never overlap: a second caller waits for nothing and gets `None`. Also `None` while not paired.
    pub async fn pass(&self) -> Option<PassReport> {
        let _one = self.passing.try_lock().ok()?;
        self.linked()?;
        let mut report = PassReport::default();
        if let Err(error) = self.pass_inner(&mut report).await {
            tracing::warn!("a pass ended early: {error}");
            report.trouble = Some(error);
        }
        self.note(|s| s.syncing = false);
        Some(report)
    }

    async fn pass_inner(&self, report: &mut PassReport) -> Result<(), PassError> {
        self.note(|s| s.syncing = true);
        let mut unanswered = None;
        for claim in self.store.claims()? {
            match self.settle_claim(&claim).await? {
                Claim::Settled => report.handled += 1,
                Claim::Untouched => {}
                Claim::Unanswered(error) => unanswered = Some(error),
            }
        }
        // The sync is tried even if the outbox found nobody: it is what the owner sees as contact, and may fare better.
        let delivered = if unanswered.is_none() { self.deliver_all().await } else { Ok(()) };
        let offers = self.sync_all(report, unanswered.is_some()).await?;
        self.note(|s| s.syncing = false);
        delivered?;
        // Only after the sync, which makes the sessions this device's; beside what follows, which may take hours.
        self.texts_due.notify_one();
        if let Some(error) = unanswered {
            return Err(error.into());
        }
        for (project, offer) in offers {
            if self.is_stopping() || self.is_quiet() || self.wishes().paused_since.is_some() {
                break;
            }
            match self.handle(project, offer).await? {
                Claim::Settled => report.handled += 1,
                Claim::Untouched => {}
                Claim::Unanswered(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    // ── Sync ────────────────────────────────────────────────────────────────────────────────────────────────────────

    /// Tells only the projects whose sharing the server does not know yet; takes no commands. Goes out beside a busy pass.
    pub async fn sync_metadata(&self) -> Result<(), PassError> {
        for project in self.store.projects()?.into_iter().filter(Project::is_unanswered) {
            if let Err(error) = self.sync(project.id, true).await
                && !matches!(&error, PassError::Ask(AskError::Refused { .. }))
            {
                return Err(error);
            }
        }
        self.texts_due.notify_one();
        Ok(())
    }

    /// Syncs every project the owner has enabled, and repeats the last word about a disabled one until it is answered. The commands of all,
    /// oldest first; within a project in the server's order.
    async fn sync_all(&self, report: &mut PassReport, claim_open: bool) -> Result<Vec<(ProjectId, Offer)>, PassError> {
        // Who may claim nothing now asks for nothing: the answer would be megabytes for the bin.
        let metadata_only = claim_open || self.wishes().paused_since.is_some();
        let mut queues: Vec<(ProjectId, VecDeque<Offer>)> = Vec::new();
        let mut reported = false;
        for project in self.store.projects()?.into_iter().filter(|p| p.enabled || p.is_unanswered()) {
            let synced = match self.sync(project.id, metadata_only).await {
                Ok(Some(synced)) => synced,
                Ok(None) => continue,
                Err(PassError::Ask(error @ AskError::Refused { .. })) => {
                    if error.status() == Some(404) {
                        self.refresh_projects().await?;
                    }
                    continue;
                }
                Err(error) => return Err(error),
            };
            crash::point("after_sync_answered");
            report.more |= synced.more;
            for running in &synced.running {
                reported |= self.account_for(running)?;
            }
            queues.push((project.id, synced.commands.into()));
        }
        if reported {
            report.handled += 1;
            self.deliver_all().await?;
        }
        Ok(merge(queues))
    }

    /// One sync of one project. `None` if the project is gone. A refusal is noted at the project.
    async fn sync(&self, project: ProjectId, metadata_only: bool) -> Result<Option<Synced>, PassError> {
        // The server may know a newer revision than this profile (a lost one): ours is then told again, above it. Once is enough.
        let mut told_again = false;
        loop {
            let Some((state, sessions)) = sharing::shared_sessions(&self.store, project, &*self.ports.asks)? else { return Ok(None) };
            let Some(client) = self.client() else { return Ok(None) };
            let wishes = self.wishes();
            let pickup = if wishes.pickup_instant { Pickup::Doorbell } else { Pickup::Poll };
            let request = SyncRequest {
                project_id: project,
                revision: state.revision,
                sessions,
                relay: Some(RelayState { pickup, paused: wishes.paused_since.is_some() }),
                metadata_only,
                disabled: !state.enabled,
            };
            let synced = match self.heard(client.sync(&request).await) {
                Ok(synced) => synced,
                Err(error) => {
                    self.store.note_sync_error(project, &error.sentence().to_column())?;
                    return Err(error.into());
                }
            };
            let now = self.now();
            self.note(|s| s.clock_ahead_ms = synced.server_time.since_ms(now));
            let fault = (!synced.faults.is_empty()).then(|| synced.faults.join(" "));
            for fault in &synced.faults {
                tracing::warn!(%project, "{fault}");
            }
            if !self.store.note_sync(project, state.revision, synced.revision, fault.as_deref(), now)? || told_again {
                return Ok(Some(synced));
            }
            told_again = true;
        }
    }

    /// A project that the server does not know (any more) goes from the list.
    async fn refresh_projects(&self) -> Result<(), PassError> {
        let Some(client) = self.client() else { return Ok(()) };
        if let Ok(list) = self.heard(client.projects().await) {
            self.store.put_projects(&list.projects, self.now())?;
        }
        Ok(())
    }

    /// The server believes we run this. True if it was told how that ended.
    fn account_for(&self, running: &RunningCommand) -> Result<bool, PassError> {
        let Some((_, link)) = self.linked() else { return Ok(false) };
        match self.store.seen(running.command_id)? {
            Seen::InHand => Ok(false),
            Seen::Ended => Ok(self.store.report_again(running.command_id, link.device, self.now())?),
            Seen::Never => {
                self.store.report_unknown(running.command_id, &running.execution_id, link.device, self.now())?;
                Ok(true)
            }
        }
    }

    // ── One command ─────────────────────────────────────────────────────────────────────────────────────────────────

    async fn handle(&self, project: ProjectId, offer: Offer) -> Result<Claim, PassError> {
        let Some((_, link)) = self.linked() else { return Ok(Claim::Settled) };
        match self.store.seen(offer.command)? {
            Seen::InHand => return Ok(Claim::Untouched),
            Seen::Ended => {
                self.store.report_again(offer.command, link.device, self.now())?;
                self.deliver_one(offer.command).await?;
                return Ok(Claim::Settled);
            }
            Seen::Never => {}
        }
        // Endings first: the queue should not learn of a new start while an older ending waits here.
        self.deliver_all().await?;
        let Some(graph) = sharing::consent(&self.store, project, offer.offered.graph_session_id, &offer.offered.slug)? else {
            self.store.report_not_shared(offer.command, link.device, self.now())?;
            self.deliver_one(offer.command).await?;
            return Ok(Claim::Settled);
        };
        let facts = CommandFacts {
            command: offer.command,
            project,
            device: link.device,
            slug: graph.slug.clone(),
            queued_at: offer.offered.queued_at,
            agent: offer.offered.agent.map(|name| cut_chars(&name, NAME_CHARS_MAX).to_owned()),
        };
        let new = NewExecution {
            id: ExecutionId::from_random(self.ports.random.bytes16()),
            graph: graph.id,
            graph_name: graph.name,
            version: graph.version,
            args: offer.offered.arguments,
            dry: false,
            resumed_from: None,
            origin: Origin::Command(facts.clone()),
        };
        self.ours().insert(new.id.clone());
        self.store.store_claim(&new, &facts, self.now())?;
        match self.store.execution(&new.id)? {
            Some(claim) => self.settle_claim(&claim).await,
            None => Ok(Claim::Settled),
        }
    }

    /// Asks to start a stored claim, and acts on the answer. Repeating the question is harmless: it names the same execution.
    async fn settle_claim(&self, claim: &ExecutionRecord) -> Result<Claim, PassError> {
        let Origin::Command(facts) = &claim.origin else { return Ok(Claim::Settled) };
        let Some(client) = self.client() else { return Ok(Claim::Settled) };
        let is_ours = self.ours().contains(&claim.id);
        let answer = match self.heard(client.start(facts.command, &claim.id).await) {
            Ok(answer) => answer,
            Err(error) if error.is_final() => {
                self.start_refused(claim, facts, is_ours, &error).await?;
                return Ok(Claim::Settled);
            }
            Err(error) => return Ok(Claim::Unanswered(error)),
        };
        crash::point("after_start_granted");
        if !is_ours {
            self.end(claim, facts.command, &restarted()).await?;
        } else if answer.cancel {
            let error = NOTHING_RAN.to_owned();
            self.end(claim, facts.command, &Outcome::Cancelled { why: CancelReason::Stopped, error, used: Used::default() }).await?;
        } else {
            match sharing::consent(&self.store, facts.project, claim.graph, facts.slug.as_str())? {
                Some(graph) => self.run(claim, facts, &graph).await?,
                None => {
                    let (why, error) = (CancelReason::NotShared, NOT_SHARED.to_owned());
                    self.end(claim, facts.command, &Outcome::Cancelled { why, error, used: Used::default() }).await?;
                }
            }
        }
        self.ours().remove(&claim.id);
        Ok(Claim::Settled)
    }

    /// Another has it, or it ended: no execution comes of it. A claim of an earlier process whose command ran to an ending may have run here.
    async fn start_refused(&self, claim: &ExecutionRecord, facts: &CommandFacts, is_ours: bool, error: &AskError) -> Result<(), PassError> {
        let stands = match error {
            AskError::Refused { state, .. } => state.as_deref(),
            AskError::Unreachable(_) | AskError::NotOurs { .. } | AskError::Unauthorized { .. } | AskError::TooMany { .. } => None,
        };
        tracing::info!(command = %facts.command, "not started: {error}");
        self.ours().remove(&claim.id);
        if is_ours || matches!(stands, Some("cancelled" | "expired") | None) {
            return Ok(self.store.let_go(&claim.id, facts.command)?);
        }
        self.end(claim, facts.command, &restarted()).await
    }

    /// Consent was just checked and nothing awaited since: the Graph begins.
    async fn run(&self, claim: &ExecutionRecord, facts: &CommandFacts, graph: &Graph) -> Result<(), PassError> {
        let now = self.now();
        // Queued by the server's clock, so waited by the server's clock.
        let waited_ms = now.plus_ms(self.status().clock_ahead_ms).since_ms(facts.queued_at);
        self.store.store_running(&claim.id, graph.version, u64::try_from(waited_ms).unwrap_or(0), now)?;
        let request = RunRequest {
            execution: claim.id.clone(),
            channel: Channel::External(facts.command),
            graph: graph.id,
            version: graph.version,
            args: claim.args.clone(),
            dry: false,
            resumed_from: None,
            origin: claim.origin.clone(),
        };
        let (feed, news) = RunFeed::new();
        let watched = news.clone();
        self.note(|s| s.busy = Some(Busy { execution: claim.id.clone(), graph: graph.name.clone(), since: now }));
        let outcome = tokio::select! {
            biased;
            outcome = self.ports.runner.run_graph_now(request, feed) => outcome,
            never = self.watch_for_stop(facts.command, &claim.id, watched) => match never {},
            never = self.redeliver() => match never {},
        };
        let progress = news.borrow().progress.clone();
        let ended = self.end_with(claim, facts.command, &outcome, progress.agents_done).await;
        self.note(|s| s.busy = None);
        ended
    }

    /// During an execution the outbox is tried every 20 s.
    async fn redeliver(&self) -> std::convert::Infallible {
        let every = std::time::Duration::from_millis(domain::limits::PASS_EVERY_MS);
        loop {
            tokio::time::sleep(every).await;
            if self.is_quiet() {
                continue;
            }
            if let Err(error) = self.deliver_all().await {
                tracing::debug!("the outbox waits: {error}");
                self.heed_retry_after(&error);
            }
        }
    }

    async fn end(&self, claim: &ExecutionRecord, command: CommandId, outcome: &Outcome) -> Result<(), PassError> {
        self.end_with(claim, command, outcome, 0).await
    }

    /// Stores the ending with its completion, then posts it. A disk that refuses is asked until it takes it: the ending must not be lost
    /// while the Graph's effects stay.
    async fn end_with(&self, claim: &ExecutionRecord, command: CommandId, outcome: &Outcome, agents_done: u64) -> Result<(), PassError> {
        let facts = EndFacts { agents_done, ..EndFacts::default() };
        while let Err(error) = self.store.end_execution(&claim.id, outcome, &facts, self.now()) {
            tracing::error!(execution = %claim.id, "the ending cannot be stored, trying again: {error}");
            if self.is_stopping() {
                return Err(error.into());
            }
            tokio::time::sleep(std::time::Duration::from_secs(5)).await;
        }
        self.store.tell(Topic::Status);
        self.deliver_one(command).await
    }
}

fn restarted() -> Outcome {
    Outcome::Failed { why: FailReason::DeviceRestarted, error: RESTARTED.to_owned(), used: Used::default() }
}

/// Oldest head first, each project's own order kept.
fn merge(mut queues: Vec<(ProjectId, VecDeque<Offer>)>) -> Vec<(ProjectId, Offer)> {
    let mut merged = Vec::with_capacity(queues.iter().map(|(_, q)| q.len()).sum());
    loop {
        let oldest = queues.iter_mut().filter(|(_, q)| !q.is_empty()).min_by_key(|(_, q)| q.front().map(|o| (o.offered.queued_at, o.offered.seq)));
        let Some((project, queue)) = oldest else { return merged };
        if let Some(offer) = queue.pop_front() {
            merged.push((*project, offer));
        }
    }
}
