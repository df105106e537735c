//! The experiments behind the published table, each in worlds of its own.
//!
//! Worlds are independent, so two threads share them; what comes out depends on the seed and not on who ran what.
mod cancels;
mod offline;
mod queueing;
mod single;

use std::sync::{
    Mutex, PoisonError,
    atomic::{AtomicUsize, Ordering},
};

use domain::{GraphSessionId, ProjectId};

use crate::{
    agent::Agent,
    clock::{self, sleep_ms},
    findings::{Bursts, Cancels, Findings, Foreign, Largest, Offline, Outbox, Pickup, Polled, Retries, Waits},
    net::Weather,
    rng::Rng,
    table::bursts_of,
    world::{Desktop, World, WorldError},
};

/// The names `--experiment` takes.
pub const EXPERIMENTS: [&str; 9] = ["pickup", "bursts", "polling", "cancel", "idempotency", "offline", "outbox", "limits", "foreign"];

const PASS_MS: u64 = 20_000;
const THREADS: usize = 2;
/// The polling runs are the long ones: they are shared out over several worlds.
const POLLING_WORLDS: usize = 4;
const BURST_SIZES: [usize; 3] = [1, 3, 5];

/// One world's worth of work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Work {
    Polling(Pickup, usize),
    Bursts(Pickup, usize),
    Cancels(Pickup),
    Pickup(Pickup),
    Retries,
    Offline(Pickup),
    Outbox(Pickup),
    Limits,
    Foreign,
}

enum Piece {
    Polling(Pickup, Polled),
    Bursts(Pickup, usize, Bursts),
    Cancels(Pickup, Cancels),
    Pickup(Pickup, Waits),
    Retries(Retries),
    Offline(Pickup, Offline),
    Outbox(Pickup, Outbox),
    Limits(Largest),
    Foreign(Foreign),
}

impl Work {
    /// Everything, the longest first.
    fn all() -> Vec<Self> {
        let both = [Pickup::EveryPass, Pickup::Doorbell];
        let mut all: Vec<Self> = both.iter().flat_map(|p| (0..POLLING_WORLDS).map(|shard| Self::Polling(*p, shard))).collect();
        all.extend([2, 1, 0].into_iter().flat_map(|size| both.map(|p| Self::Bursts(p, size))));
        all.extend(both.map(Self::Cancels));
        all.extend(both.map(Self::Pickup));
        all.push(Self::Retries);
        all.extend(both.map(Self::Offline));
        all.extend(both.map(Self::Outbox));
        all.extend([Self::Limits, Self::Foreign]);
        all
    }

    const fn experiment(self) -> &'static str {
        match self {
            Self::Polling(..) => "polling",
            Self::Bursts(..) => "bursts",
            Self::Cancels(_) => "cancel",
            Self::Pickup(_) => "pickup",
            Self::Retries => "idempotency",
            Self::Offline(_) => "offline",
            Self::Outbox(_) => "outbox",
            Self::Limits => "limits",
            Self::Foreign => "foreign",
        }
    }

    async fn run(self, root: &Rng, runs: usize) -> Result<Piece, WorldError> {
        let rng = |part: usize| root.nth(self.experiment(), part as u64);
        let part = |pickup: Pickup| usize::from(pickup == Pickup::Doorbell);
        Ok(match self {
            Self::Polling(p, shard) => {
                let runs = beside(p, runs);
                let share = runs / POLLING_WORLDS + usize::from(shard < runs % POLLING_WORLDS);
                Piece::Polling(p, queueing::polling(rng(part(p) * POLLING_WORLDS + shard), p, share).await?)
            }
            Self::Bursts(p, size) => {
                Piece::Bursts(p, size, queueing::bursts(rng(part(p) * 3 + size), p, BURST_SIZES[size], beside(p, bursts_of(runs))).await?)
            }
            // Counts are compared with a published sample of 2,000: a fourth of it would only show the luck of the draw.
            Self::Cancels(p) => Piece::Cancels(p, cancels::cancels(rng(part(p)), p, beside(p, 4 * runs)).await?),
            Self::Pickup(p) => Piece::Pickup(p, queueing::pickup(rng(part(p)), p, beside(p, runs)).await?),
            Self::Retries => Piece::Retries(single::retries(rng(0)).await?),
            Self::Offline(p) => Piece::Offline(p, offline::offline(rng(part(p)), p).await?),
            Self::Outbox(p) => Piece::Outbox(p, offline::outbox(rng(part(p)), p).await?),
            Self::Limits => Piece::Limits(single::limits(rng(0)).await?),
            Self::Foreign => Piece::Foreign(single::foreign(rng(0)).await?),
        })
    }
}

/// The doorbell's figures stand beside the compared ones and vary less: a quarter of the runs shows them.
fn beside(pickup: Pickup, runs: usize) -> usize {
    match pickup {
        Pickup::EveryPass => runs,
        Pickup::Doorbell => (runs / 4).max(20),
    }
}

/// Runs what the table needs, or one experiment of it.
pub fn run(seed: u64, runs: usize, only: Option<&str>) -> Result<Findings, WorldError> {
    let work: Vec<Work> = Work::all().into_iter().filter(|w| only.is_none_or(|name| name == w.experiment())).collect();
    let root = Rng::new(seed);
    let next = AtomicUsize::new(0);
    let pieces: Mutex<Vec<Option<Result<Piece, WorldError>>>> = Mutex::new(work.iter().map(|_| None).collect());
    std::thread::scope(|threads| {
        for _ in 0..THREADS {
            threads.spawn(|| {
                while let Some((at, one)) = Some(next.fetch_add(1, Ordering::Relaxed)).and_then(|at| Some((at, *work.get(at)?))) {
                    let piece = clock::run(one.run(&root, runs)).unwrap_or_else(|e| Err(e.into()));
                    if let Some(slot) = pieces.lock().unwrap_or_else(PoisonError::into_inner).get_mut(at) {
                        *slot = Some(piece);
                    }
                }
            });
        }
    });
    let mut findings = Findings::default();
    for (piece, work) in pieces.into_inner().unwrap_or_else(PoisonError::into_inner).into_iter().zip(work) {
        let piece = piece.ok_or_else(|| WorldError::Wrong(format!("{work:?} ended without a word")))?;
        findings.take(piece?);
    }
    Ok(findings)
}

impl Findings {
    fn take(&mut self, piece: Piece) {
        let at = |pickup: Pickup| usize::from(pickup == Pickup::Doorbell);
        match piece {
            Piece::Polling(p, polled) => self.polled[at(p)].join(polled),
            Piece::Bursts(p, size, bursts) => self.bursts[at(p)][size] = bursts,
            Piece::Cancels(p, cancels) => self.cancels[at(p)] = cancels,
            Piece::Pickup(p, waits) => self.waits[at(p)] = waits,
            Piece::Retries(retries) => self.retries = retries,
            Piece::Offline(p, offline) => self.offline[at(p)] = offline,
            Piece::Outbox(p, outbox) => self.outbox[at(p)] = outbox,
            Piece::Limits(largest) => self.largest = largest,
            Piece::Foreign(foreign) => self.foreign = foreign,
        }
    }
}

impl Polled {
    fn join(&mut self, other: Self) {
        self.end_ms.extend(other.end_ms);
        for watched in other.watched {
            match self.watched.iter_mut().find(|w| w.strategy == watched.strategy) {
                Some(mine) => {
                    mine.calls.extend(watched.calls);
                    mine.delay_ms.extend(watched.delay_ms);
                }
                None => self.watched.push(watched),
            }
        }
    }
}

/// A desktop that shares one Graph, and an agent that may run it.
pub(crate) struct Pair {
    pub desktop: Desktop,
    pub agent: Agent,
    pub session: GraphSessionId,
    project: ProjectId,
    rng: Rng,
}

impl Pair {
    async fn new(world: &World, n: usize, pickup: Pickup) -> Result<Self, WorldError> {
        let rng = world.rng.nth("pair", n as u64);
        let owner = format!("Owner {n}");
        let desktop = world.desktop(&owner, &format!("Desk {n}"), pickup).await?;
        let project = desktop.client.create_project("Simulated").await?.project_id;
        let mut id = [0; 16];
        rng.stream("graph").fill(&mut id);
        let session = desktop.share(project, "simulated", id).await?;
        let (agent, _) = world.agent(&desktop, &format!("Agent {n}"), &[project]).await?;
        if pickup == Pickup::Doorbell {
            // Asking every 20 s the way does not matter. With a doorbell it is all there is: 20 to 40 ms there and back.
            desktop.line.set_weather(Weather { delay_ms: (10, 20), ..Weather::FAIR });
        }
        Ok(Self { desktop, agent, session, project, rng })
    }

    /// `n` of them in one world, switched on at random moments within 20 s and synced once.
    pub async fn many(world: &World, n: usize, pickup: Pickup) -> Result<Vec<Self>, WorldError> {
        let mut pairs = Vec::with_capacity(n);
        for i in 0..n {
            pairs.push(Self::new(world, i, pickup).await?);
        }
        let mut rng = world.rng.stream("phases");
        let mut phases: Vec<u64> = rng.strata(n).into_iter().map(|u| (u * PASS_MS as f64) as u64).collect();
        phases.sort_unstable();
        let began = world.clock.elapsed_ms();
        for (pair, phase) in pairs.iter_mut().zip(phases) {
            sleep_ms((began + phase).saturating_sub(world.clock.elapsed_ms())).await;
            pair.desktop.switch_on()?;
        }
        sleep_ms(PASS_MS).await;
        Ok(pairs)
    }

    /// Waits for the moment of the 20 s rhythm that `u` names, not sooner than now.
    async fn wait_for_phase(&self, u: f64) {
        let now = self.desktop.clock.elapsed_ms();
        let mut at = now / PASS_MS * PASS_MS + (u * PASS_MS as f64) as u64;
        if at < now {
            at += PASS_MS;
        }
        sleep_ms(at - now).await;
    }
}

/// Numbers for `n` draws, dealt to `hands` in turn: stratified as a whole, random for each.
fn dealt(rng: &mut Rng, n: usize, hands: usize) -> Vec<Vec<f64>> {
    let mut dealt = vec![Vec::new(); hands];
    for (i, u) in rng.strata(n).into_iter().enumerate() {
        dealt[i % hands].push(u);
    }
    dealt
}

/// Runs one task per pair and gathers what they return, in the order of the pairs.
pub(crate) async fn each<T: Send + 'static>(tasks: Vec<impl Future<Output = Result<T, WorldError>> + Send + 'static>) -> Result<Vec<T>, WorldError> {
    let handles: Vec<_> = tasks.into_iter().map(tokio::spawn).collect();
    let mut gathered = Vec::with_capacity(handles.len());
    for handle in handles {
        gathered.push(handle.await.map_err(|e| WorldError::Wrong(e.to_string()))??);
    }
    Ok(gathered)
}
