//! When passes happen: every 20 s, at once after a sharing change or a ring, once after a sleep; never two at a time.
//!
//! One task and one loop own all timers. What is on the wire lives in futures of this loop, so dropping it drops everything at once
//! (which is how the simulation pulls the plug).
use std::{future::Future, pin::Pin, sync::Arc, time::Duration};

use domain::{Timestamp, limits::PASS_EVERY_MS, wire::relay::DoorbellAnswer, wire::relay::DoorbellRequest};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{AskError, PassError, PassReport, Relay, doorbell::Doorbell};
use crate::{ports::BoxFuture, store::Project};

const EVERY: Duration = Duration::from_millis(PASS_EVERY_MS);
/// After a failed pass the next one is moved by up to this much either way: a server that comes back is not met by all at once.
const JITTER_MS: u64 = 2_000;
/// Passes for sharing changes come at most this often, the first at once.
const SHARING_PACE: Duration = Duration::from_secs(1);
/// Metadata-only syncs beside a busy pass come at most this often.
const METADATA_PACE: Duration = Duration::from_millis(250);
/// How often we look whether the computer slept.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// A wall clock this much ahead of the running one means sleep (or a clock put right): one pass at once.
const SLEPT_MS: i64 = 5_000;
/// A relay that failed waits so long before it begins again.
const AFTER_A_DEFECT: Duration = Duration::from_secs(2);
/// One that has gone on for so long since is no longer counted as failing: three passes of the rhythm.
const STEADY_AFTER: Duration = Duration::from_millis(3 * PASS_EVERY_MS);
/// After the app asked to stop, a pass may finish what it has in hand for this long.
const STOP_GRACE: Duration = Duration::from_secs(6);

type Bell = (Instant, BoxFuture<'static, Result<DoorbellAnswer, AskError>>);

struct Driver {
    relay: Arc<Relay>,
    pass: Option<BoxFuture<'static, Option<PassReport>>>,
    metadata: Option<BoxFuture<'static, Result<(), PassError>>>,
    texts: Option<BoxFuture<'static, Result<(), PassError>>>,
    bell: Option<Bell>,
    doorbell: Doorbell,
    /// The next pass of the 20 s rhythm.
    next_pass: Instant,
    /// One more pass as soon as possible.
    again: bool,
    /// A sharing change waits for its pass.
    sharing: bool,
    sharing_pass_from: Instant,
    /// A sharing change waits for its metadata-only sync (only while a pass is busy).
    metadata_wanted: bool,
    metadata_from: Instant,
    /// A sync was answered: the texts for the browser follow.
    texts_wanted: bool,
    looked: (Instant, Timestamp),
}

/// Drives a relay until `stop`, whatever happens: after a defect of ours what was in hand ends as after a restart, and it begins again.
pub async fn keep_driving(relay: Arc<Relay>, stop: CancellationToken) {
    loop {
        let mut driven = tokio::spawn(drive(Arc::clone(&relay), stop.clone()));
        let ended = match tokio::time::timeout(STEADY_AFTER, &mut driven).await {
            Ok(ended) => ended,
            Err(_) => {
                relay.note(|s| s.failing = None);
                driven.await
            }
        };
        let Err(failed) = ended else { return };
        tracing::error!("the relay failed and begins again: {failed}");
        relay.begin_again();
        tokio::select! {
            () = tokio::time::sleep(AFTER_A_DEFECT) => {}
            () = stop.cancelled() => return,
        }
    }
}

/// Drives a relay until `stop`; then lets a pass in hand finish for a few seconds.
pub async fn drive(relay: Arc<Relay>, stop: CancellationToken) {
    let now = Instant::now();
    let looked = (now, relay.now());
    let mut driver = Driver {
        relay: Arc::clone(&relay),
        pass: None,
        metadata: None,
        texts: None,
        bell: None,
        doorbell: Doorbell::new(now),
        next_pass: now,
        again: false,
        sharing: false,
        sharing_pass_from: now,
        metadata_wanted: false,
        metadata_from: now,
        texts_wanted: false,
        looked,
    };
    let mut sharing = relay.store.sharing_changes();
    let (mut link, mut wishes) = (relay.link.subscribe(), relay.wishes.subscribe());
    loop {
        driver.begin_what_is_due();
        let wake = driver.next_wake();
        tokio::select! {
            biased;
            () = stop.cancelled() => break,
            report = ready(&mut driver.pass) => driver.pass_ended(report),
            told = ready(&mut driver.metadata) => driver.metadata_ended(told),
            tended = ready(&mut driver.texts) => driver.texts_ended(tended),
            () = relay.texts_due.notified() => driver.texts_wanted = true,
            answer = ring(&mut driver.bell) => driver.bell_answered(answer),
            Ok(()) = sharing.changed() => driver.sharing_changed(),
            Ok(()) = link.changed() => driver.link_changed(),
            Ok(()) = wishes.changed() => driver.wishes_changed(),
            () = tokio::time::sleep_until(wake) => driver.look(),
        }
    }
    relay.stopping.send_replace(true);
    (driver.bell, driver.metadata, driver.texts) = (None, None, None);
    relay.note(|s| s.doorbell_open = false);
    if let Some(pass) = driver.pass
        && tokio::time::timeout(STOP_GRACE, pass).await.is_err()
    {
        tracing::info!("the app ended in the middle of a pass; its execution ends truthfully at the next start");
    }
}

/// The value of a future that may not be there; without one this waits for ever.
async fn ready<T>(slot: &mut Option<BoxFuture<'static, T>>) -> T {
    match slot {
        Some(future) => future.await,
        None => std::future::pending().await,
    }
}

async fn ring(bell: &mut Option<Bell>) -> (Instant, Result<DoorbellAnswer, AskError>) {
    match bell {
        Some((opened, future)) => (*opened, future.await),
        None => std::future::pending().await,
    }
}

fn boxed<T>(future: impl Future<Output = T> + Send + 'static) -> Pin<Box<dyn Future<Output = T> + Send>> {
    Box::pin(future)
}

impl Driver {
    fn begin_what_is_due(&mut self) {
        let now = Instant::now();
        if self.relay.is_quiet() {
            return;
        }
        let connected = self.relay.link.borrow().is_some();
        let on_time = now >= self.next_pass;
        let for_sharing = self.sharing && now >= self.sharing_pass_from;
        if on_time {
            // Busy or not: a pass that would overlap is skipped, the rhythm stays.
            while self.next_pass <= now {
                self.next_pass += EVERY;
            }
        }
        if connected && self.pass.is_none() && (self.again || on_time || for_sharing) {
            if self.sharing {
                self.sharing_pass_from = now + SHARING_PACE;
            }
            (self.again, self.sharing, self.metadata_wanted) = (false, false, false);
            let relay = Arc::clone(&self.relay);
            self.pass = Some(boxed(async move { relay.pass().await }));
        }
        if connected && self.metadata_wanted && self.metadata.is_none() && now >= self.metadata_from {
            (self.metadata_wanted, self.metadata_from) = (false, now + METADATA_PACE);
            let relay = Arc::clone(&self.relay);
            self.metadata = Some(boxed(async move { relay.sync_metadata().await }));
        }
        if connected && self.texts_wanted && self.texts.is_none() {
            self.texts_wanted = false;
            let relay = Arc::clone(&self.relay);
            self.texts = Some(boxed(async move { relay.tend_texts().await }));
        }
        self.hold_bell(now, connected);
    }

    fn hold_bell(&mut self, now: Instant, connected: bool) {
        let wishes = self.relay.wishes();
        let wanted = connected && wishes.pickup_instant && wishes.paused_since.is_none();
        if !wanted {
            (self.bell, self.doorbell.yields) = (None, false);
            self.doorbell.next = self.doorbell.next.max(now + EVERY); // wanting it again resets this
        } else if self.bell.is_none() && now >= self.doorbell.next {
            self.doorbell.yields = false;
            let projects = self.relay.store.projects().unwrap_or_default();
            let project_ids: Vec<_> = projects.iter().filter(|p| p.enabled).map(|p: &Project| p.id).collect();
            match self.relay.client() {
                Some(client) if !project_ids.is_empty() => {
                    let request = DoorbellRequest { project_ids, after: self.doorbell.after, hold_ms: Doorbell::hold_ms() };
                    self.bell = Some((now, boxed(async move { client.doorbell(&request).await })));
                }
                // Nothing to wait for; enabling a project is a sharing change, which looks again.
                Some(_) | None => self.doorbell.next = now + EVERY,
            }
        }
        let open = self.bell.is_some() || self.doorbell.yields;
        self.relay.note(|s| s.doorbell_open = open);
    }

    fn next_wake(&self) -> Instant {
        let mut wake = self.looked.0 + LOOK_EVERY;
        let quiet = self.relay.quiet_until();
        let mut at = |moment: Instant| wake = wake.min(quiet.map_or(moment, |until| moment.max(until)));
        at(self.next_pass);
        if self.sharing && self.pass.is_none() {
            at(self.sharing_pass_from);
        }
        if self.metadata_wanted && self.metadata.is_none() {
            at(self.metadata_from);
        }
        if self.bell.is_none() {
            at(self.doorbell.next);
        }
        // Never in the past: whatever is overdue but may not begin yet waits for the next look.
        if wake <= Instant::now() { self.looked.0 + LOOK_EVERY } else { wake }
    }

    fn pass_ended(&mut self, report: Option<PassReport>) {
        self.pass = None;
        self.doorbell.pass_ended(Instant::now());
        let Some(report) = report else { return };
        if let Some(trouble) = &report.trouble {
            self.relay.heed_retry_after(trouble);
            let jitter = Duration::from_millis(self.relay.ports.random.below(2 * JITTER_MS + 1));
            let earliest = Instant::now() + EVERY / 2;
            if self.next_pass > earliest {
                self.next_pass = (self.next_pass + jitter) - Duration::from_millis(JITTER_MS);
            }
        } else if report.more && report.handled > 0 {
            self.again = true;
        }
    }

    fn metadata_ended(&mut self, told: Result<(), PassError>) {
        self.metadata = None;
        if let Err(error) = told {
            tracing::debug!("sharing will be told with the next pass: {error}");
            self.relay.heed_retry_after(&error);
        }
    }

    fn texts_ended(&mut self, tended: Result<(), PassError>) {
        self.texts = None;
        if let Err(error) = tended {
            tracing::debug!("texts for the browser wait for the next sync: {error}");
            self.relay.heed_retry_after(&error);
        }
    }

    /// Its own Retry-After concerns it alone: a server limits what is held open, not what is asked.
    fn bell_answered(&mut self, (opened, answer): (Instant, Result<DoorbellAnswer, AskError>)) {
        self.bell = None;
        let answer = self.relay.heard_beside(answer);
        let random = Arc::clone(&self.relay.ports.random);
        if self.doorbell.settle(opened, &answer, Instant::now(), &*random) {
            self.again = true; // at once, or right after the busy pass; one pass a ring
        }
    }

    fn sharing_changed(&mut self) {
        self.sharing = true;
        self.metadata_wanted = self.pass.is_some();
        self.reopen_bell();
    }

    fn link_changed(&mut self) {
        self.again = true;
        self.doorbell = Doorbell::new(Instant::now());
        self.bell = None;
    }

    /// The server should know at once that this device is paused or back, or how it picks up.
    fn wishes_changed(&mut self) {
        self.again = true;
        self.reopen_bell();
    }

    /// The held request names the projects; hold it anew with today's.
    fn reopen_bell(&mut self) {
        self.bell = None;
        self.doorbell.reset(Instant::now());
    }

    /// The computer slept, or the clock was put forward; a doorbell held through a sleep is a dead line.
    fn look(&mut self) {
        let (mono, wall) = (Instant::now(), self.relay.now());
        if mono < self.looked.0 + LOOK_EVERY {
            return;
        }
        let ran_ms = i64::try_from((mono - self.looked.0).as_millis()).unwrap_or(i64::MAX);
        if wall.since_ms(self.looked.1) - ran_ms > SLEPT_MS {
            self.again = true;
            self.reopen_bell();
        }
        self.looked = (mono, wall);
    }
}
