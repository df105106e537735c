//! Random weeks of a desktop's life, and an auditor that knows the simple truth. A failing seed names itself.
use std::collections::BTreeSet;

use domain::{CommandId, CommandState, Event, GraphSessionId, command::CancelFlag};

use crate::{
    queue::Fault,
    world::{World, project_id},
};

const SEEDS: u64 = 80;
const STEPS: usize = 60;

/// SplitMix64: small, and the same everywhere.
struct Dice(u64);
impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % bound
    }
}

struct Story {
    world: World,
    dice: Dice,
    sessions: Vec<GraphSessionId>,
    commands: Vec<CommandId>,
    /// Cancels the queue accepted while the command ran.
    cancelled: BTreeSet<CommandId>,
    is_up: bool,
    told: Vec<String>,
}

impl Story {
    fn new(seed: u64) -> Self {
        let mut dice = Dice(seed);
        let world = World::new(500 + dice.below(20_000));
        if dice.below(2) == 0 {
            world.pickup_every_20_s();
        }
        world.add_project(project_id(2), "Work");
        let sessions = (0..3).map(|n| world.share(&format!("graph-{n}"))).collect();
        world.runner.audit(world.store.clone());
        Self { world, dice, sessions, commands: Vec::new(), cancelled: BTreeSet::new(), is_up: false, told: Vec::new() }
    }

    async fn step(&mut self) {
        let session = self.sessions[self.dice.below(3) as usize];
        let now = domain::Timestamp::default();
        let what = self.dice.below(16);
        self.told.push(format!("{:?} {what}", self.world.elapsed()));
        match what {
            0..=2 => {
                let slug = self.world.store.graph(session).unwrap().unwrap().slug;
                self.commands.push(self.world.queue.enqueue(self.world.project, session, slug.as_str()));
            }
            3 => self.cancel(),
            4 => drop(self.world.store.untick(self.world.project, session)),
            5 => drop(self.world.store.tick(self.world.project, session, "{}", now)),
            6 => self.world.store.enable_project(self.world.project, false).unwrap(),
            7 | 8 => self.world.store.enable_project(self.world.project, true).unwrap(),
            9 | 10 if self.is_up => {
                self.world.crash().await;
                self.is_up = false;
            }
            9..=11 if !self.is_up => {
                self.world.boot();
                self.is_up = true;
            }
            12 | 13 => {
                let path = ["/sync", "/start", "/control", "/complete", "/doorbell"][self.dice.below(5) as usize];
                let fault = match self.dice.below(4) {
                    0 => Fault::LoseRequest,
                    1 => Fault::LoseAnswer,
                    2 => Fault::Hang,
                    _ => Fault::Delay(self.dice.below(8_000)),
                };
                self.world.queue.fault(path, fault, 1 + self.dice.below(2) as usize);
            }
            14 => *self.world.clock.wrong_by_ms.lock().unwrap() += self.dice.below(200_000) as i64 - 100_000,
            _ => self.forget_a_start(),
        }
        let ms = [0, 3, 40, 700, 5_000, 21_000][self.dice.below(6) as usize];
        tokio::time::sleep(std::time::Duration::from_millis(ms)).await;
    }

    fn cancel(&mut self) {
        if self.commands.is_empty() {
            return;
        }
        let command = self.commands[self.dice.below(self.commands.len() as u64) as usize];
        if self.world.queue.apply(command, Event::Cancel).is_ok() && matches!(self.world.queue.of(command), CommandState::Running { .. }) {
            self.cancelled.insert(command);
        }
    }

    /// A server restored from a backup: one running command is queued again.
    fn forget_a_start(&mut self) {
        let mut state = self.world.queue.state();
        let found = state.commands.iter_mut().find(|c| matches!(c.state, CommandState::Running { cancel: CancelFlag::None, .. }));
        if let Some(command) = found {
            command.state = CommandState::Queued;
        }
    }

    async fn end(&mut self, seed: u64) {
        self.world.queue.heal();
        self.world.store.enable_project(self.world.project, true).unwrap();
        if !self.is_up {
            self.world.boot();
        }
        for _ in 0..60_000 {
            let open = self.commands.iter().any(|c| !self.world.is_terminal(*c)) || !self.world.store.outbox().unwrap().is_empty();
            if !open {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
        let told = self.told.join("\n");
        for command in &self.commands {
            let ending = self.world.queue.ending(*command);
            assert!(self.world.is_terminal(*command), "seed {seed}: {command} never ended: {ending}\n{told}");
            assert!(self.world.runs_of(*command) <= 1, "seed {seed}: {command} ran twice\n{told}");
            assert!(!self.cancelled.contains(command) || ending.starts_with("cancelled/"), "seed {seed}: {command} {ending}\n{told}");
        }
        assert!(self.world.store.outbox().unwrap().is_empty(), "seed {seed}: a completion is stuck\n{told}");
        assert!(self.world.runner.state().most_running <= 1, "seed {seed}: two at once\n{told}");
        assert!(self.world.runner.state().without_consent.is_empty(), "seed {seed}: ran without consent\n{told}");
    }
}

#[tokio::test(start_paused = true)]
async fn no_command_runs_twice_or_without_consent_and_everything_ends_whatever_happens() {
    // DEVICE_SEED=17 replays one; DEVICE_SEEDS=5000 searches longer.
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let seeds = number("DEVICE_SEED").map_or(0..number("DEVICE_SEEDS").unwrap_or(SEEDS), |seed| seed..seed + 1);
    for seed in seeds {
        let mut story = Story::new(seed);
        for _ in 0..STEPS {
            story.step().await;
        }
        story.end(seed).await;
    }
}
