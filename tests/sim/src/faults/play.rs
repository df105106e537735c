//! Plays a plan against the real relay and server, with the auditor beside it.
use device::{relay::Wishes, store::Store};
use domain::{AgentId, GraphSessionId, ProjectId};
use serde_json::json;

use super::{
    Played,
    auditor::Auditor,
    plan::{AGENTS, Act, CLONE, DESKS, GRAPHS, PROJECTS, QUEUED_MAX, QUIET_FROM_MS, REVOCABLE, RunNumber, Step},
};
use crate::{
    agent::{Agent, CallError, RunView},
    clock::sleep_ms,
    findings::Pickup,
    graph::Graphs,
    net::Weather,
    rng::Rng,
    world::{Desktop, World, WorldError},
};

/// After the faults everything must end within this time.
const QUIET_MS_MAX: u64 = 900_000;
const LOOK_EVERY_MS: u64 = 5_000;

struct Stage {
    world: World,
    desks: Vec<Desktop>,
    projects: Vec<ProjectId>,
    /// By machine: the sessions of its Graphs.
    graphs: Vec<Vec<GraphSessionId>>,
    agents: Vec<Agent>,
    /// Who may be revoked.
    revocable: Option<AgentId>,
    auditor: Auditor,
    runs: Vec<(RunNumber, Act)>,
    tasks: Vec<tokio::task::JoinHandle<()>>,
}

pub async fn play(rng: Rng, steps: Vec<Step>) -> Result<Played, WorldError> {
    let mut stage = Stage::set(rng).await?;
    let began_ms = stage.world.clock.elapsed_ms();
    for step in steps {
        loop {
            let now_ms = stage.world.clock.elapsed_ms() - began_ms;
            if now_ms >= step.at_ms {
                break;
            }
            sleep_ms((step.at_ms - now_ms).min(LOOK_EVERY_MS)).await;
            stage.look();
        }
        stage.auditor.tell(&step.act.to_string());
        stage.act(step.act).await?;
        // The other tasks get their turn before the auditor looks.
        tokio::task::yield_now().await;
        stage.look();
    }
    stage.calm_down().await?;
    stage.until_all_has_ended().await;
    for run in stage.auditor.runs() {
        if let (Some(command), Some(agent)) = (stage.auditor.command_of(run), stage.agent_of(run)) {
            let answer = agent.get(&command, 0).await;
            stage.auditor.told_at_last(run, &answer);
        }
    }
    stage.look();
    let watched = stage.watched();
    stage.auditor.stops(&watched);
    for desk in &mut stage.desks {
        desk.crash().await;
    }
    stage.world.stop_server().await;
    Ok(stage.auditor.close())
}

impl Stage {
    async fn set(rng: Rng) -> Result<Self, WorldError> {
        let world = World::open_with(rng, |config| config.terms.queued_per_project = QUEUED_MAX).await?;
        let auditor = Auditor::new(&world.clock, &world.database(), DESKS).map_err(|e| WorldError::Wrong(e.to_string()))?;
        let first = world.desktop("Ada", "Desk 0", Pickup::Doorbell).await?;
        let mut projects = Vec::new();
        for n in 0..PROJECTS {
            projects.push(first.client.create_project(&format!("Project {n}")).await?.project_id);
        }
        let second = world.desktop("Ada", "Desk 1", Pickup::Doorbell).await?;
        // A copy of the first one's profile on another machine: the same identity and token, a disk of its own.
        let clone = world.desktop_with("Desk 0, copied", "Ada", first.link.clone(), Pickup::Doorbell)?;
        let mut stage = Self {
            desks: vec![first, second, clone],
            graphs: Vec::new(),
            agents: Vec::new(),
            revocable: None,
            runs: Vec::new(),
            tasks: Vec::new(),
            world,
            projects,
            auditor,
        };
        for machine in 0..DESKS - 1 {
            let sessions = (0..GRAPHS).map(|g| GraphSessionId::from_random([(1 + machine * GRAPHS + g) as u8; 16])).collect();
            stage.graphs.push(sessions);
        }
        for desk in 0..DESKS {
            stage.furnish(desk).await?;
        }
        for n in 0..AGENTS {
            let (agent, id) = stage.world.agent(&stage.desks[0], &format!("Agent {n}"), &stage.projects).await?;
            stage.agents.push(agent);
            stage.revocable = (n == REVOCABLE).then_some(id);
        }
        for desk in [0, 1] {
            stage.desks[desk].switch_on()?;
        }
        sleep_ms(1_000).await;
        Ok(stage)
    }

    fn machine(desk: usize) -> usize {
        if desk == CLONE { 0 } else { desk }
    }

    /// Both projects enabled, every Graph ticked for the first.
    async fn furnish(&mut self, desk: usize) -> Result<(), WorldError> {
        let machine = Self::machine(desk);
        let it = &self.desks[desk];
        for project in &self.projects {
            it.enable(*project).await?;
        }
        for (g, session) in self.graphs[machine].iter().enumerate() {
            let slug = format!("g{g}-0");
            it.make_graph(&slug, *session)?;
            it.store.tick(self.projects[0], *session, "{}", it.now())?;
            self.auditor.consent(desk, |c| {
                c.slugs.insert(*session, slug.clone());
                c.ticks.insert((self.projects[0], *session));
                c.enabled.extend(self.projects.iter().copied());
            });
        }
        let (auditor, graphs) = (self.auditor.clone(), it.graphs.clone());
        graphs.set_on_begin(move |request| auditor.begins(desk, request));
        Ok(())
    }

    fn watched(&self) -> Vec<(&Store, &Graphs)> {
        self.desks.iter().map(|d| (&d.store, &d.graphs)).collect()
    }

    fn look(&self) {
        self.auditor.look(&self.watched());
    }

    fn run_of(&self, run: RunNumber) -> Option<&Act> {
        self.runs.iter().find(|(n, _)| *n == run).map(|(_, act)| act)
    }

    fn agent_of(&self, run: RunNumber) -> Option<&Agent> {
        match self.run_of(run)? {
            Act::Run { agent, .. } => self.agents.get(*agent),
            _ => None,
        }
    }

    fn session(&self, desk: usize, graph: usize) -> GraphSessionId {
        self.graphs[Self::machine(desk)][graph]
    }

    // ── Acts ────────────────────────────────────────────────────────────────────────────────────────────────────────

    async fn act(&mut self, act: Act) -> Result<(), WorldError> {
        match act {
            Act::Run { run, .. } => {
                self.runs.push((run, act));
                self.send(run);
            }
            Act::Repeat { run } => self.send(run),
            Act::Cancel { run } => self.ask(run, |agent, auditor, command| async move {
                let answer = agent.cancel(&command).await;
                auditor.cancelled(run, "its agent", &answer);
            }),
            Act::Peek { run } => self.peek(run),
            Act::OwnerCancel { run, desk } => self.owner_cancel(run, desk),
            Act::Revoke { desk } => self.revoke(desk),
            Act::Tick { .. } | Act::Enable { .. } | Act::Rename { .. } | Act::Delete { .. } | Act::Undelete { .. } => self.owner(act)?,
            Act::Pause { desk, on } => {
                let paused_since = on.then(|| self.desks[desk].now());
                let wishes = Wishes { paused_since, ..self.desks[desk].wishes };
                self.desks[desk].wish(wishes);
            }
            Act::Pickup { desk, instant } => {
                let wishes = Wishes { pickup_instant: instant, ..self.desks[desk].wishes };
                self.desks[desk].wish(wishes);
            }
            Act::Crash { desk } => {
                self.auditor.may_restart();
                self.desks[desk].crash().await;
            }
            // Quitting waits for a pass in hand; the world goes on meanwhile.
            Act::Quit { desk } => {
                self.auditor.may_restart();
                self.desks[desk].quit().await;
            }
            Act::Boot { desk } => {
                self.auditor.may_restart();
                self.desks[desk].switch_on()?;
            }
            Act::Freeze { desk, on } => self.desks[desk].freeze(on),
            Act::Clock { desk, skew_ms } => self.desks[desk].clock.set_skew_ms(skew_ms),
            Act::ServerDown { graceful } => {
                if graceful {
                    self.world.stop_server().await;
                } else {
                    self.world.kill_server();
                }
            }
            Act::ServerUp => self.world.start_server().await?,
            Act::Weather { desk, weather } => self.desks[desk].line.set_weather(weather),
            Act::AgentWeather { agent, weather } => self.agents[agent].line.set_weather(weather),
        }
        Ok(())
    }

    fn send(&mut self, run: RunNumber) {
        let Some(Act::Run { agent, desk, graph, run_ms, starts_after_ms, .. }) = self.run_of(run).cloned() else { return };
        let (agent, auditor, session) = (self.agents[agent].clone(), self.auditor.clone(), self.session(desk, graph).to_string());
        self.tasks.push(tokio::spawn(async move {
            let arguments = json!({"run_ms": run_ms, "starts_after_ms": starts_after_ms});
            let answer = agent.run(&session, arguments, &format!("operation-{run}")).await;
            auditor.ticket(run, &answer);
        }));
    }

    /// Something the run's own agent does, if it has a ticket.
    fn ask<F>(&mut self, run: RunNumber, what: impl FnOnce(Agent, Auditor, String) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        if let (Some(agent), Some(command)) = (self.agent_of(run).cloned(), self.auditor.command_of(run)) {
            let task = tokio::spawn(what(agent, self.auditor.clone(), command));
            self.tasks.push(task);
        }
    }

    fn peek(&mut self, run: RunNumber) {
        let Some(Act::Run { agent, .. }) = self.run_of(run) else { return };
        let other = self.agents[(agent + 1) % AGENTS].clone();
        self.ask(run, |_, auditor, command| async move {
            auditor.peeked(run, &other.get(&command, 0).await);
            auditor.peeked(run, &other.cancel(&command).await);
        });
    }

    fn owner_cancel(&mut self, run: RunNumber, desk: usize) {
        let client = self.desks[desk].client.clone();
        self.ask(run, |agent, auditor, command| async move {
            let Ok(id) = domain::CommandId::parse(&command) else { return };
            // The owner's answer has no state in it that the agent's has not: what stands is read as the agent reads it.
            if client.cancel_command(id).await.is_ok() {
                let stands: Result<RunView, CallError> = agent.get(&command, 0).await;
                if stands.is_ok() {
                    auditor.cancelled(run, "the owner", &stands);
                }
            }
        });
    }

    fn revoke(&mut self, desk: usize) {
        let (client, auditor, Some(agent)) = (self.desks[desk].client.clone(), self.auditor.clone(), self.revocable) else { return };
        auditor.revoking(&agent.to_string());
        self.tasks.push(tokio::spawn(async move {
            if client.revoke_agent(agent).await.is_ok() {
                auditor.revoked(&agent.to_string());
            }
        }));
    }

    /// Changes of consent. The truth hears of what is withdrawn before the machine does, of what is given after it.
    fn owner(&self, act: Act) -> Result<(), WorldError> {
        match act {
            Act::Tick { desk, project, graph, on } => {
                let (it, project, session) = (&self.desks[desk], self.projects[project], self.session(desk, graph));
                if on {
                    if it.store.tick(project, session, "{}", it.now()).is_ok() {
                        self.auditor.consent(desk, |c| {
                            c.ticks.insert((project, session));
                        });
                    }
                } else {
                    self.auditor.consent(desk, |c| {
                        c.ticks.remove(&(project, session));
                    });
                    it.store.untick(project, session)?;
                }
            }
            Act::Enable { desk, project, on } => {
                let project = self.projects[project];
                if !on {
                    self.auditor.consent(desk, |c| {
                        c.enabled.remove(&project);
                    });
                }
                self.desks[desk].store.enable_project(project, on)?;
                if on {
                    self.auditor.consent(desk, |c| {
                        c.enabled.insert(project);
                    });
                }
            }
            Act::Rename { desk, graph, name } => {
                let (session, slug) = (self.session(desk, graph), format!("g{graph}-{name}"));
                if self.desks[desk].rename(session, &slug).is_ok() {
                    self.auditor.consent(desk, |c| {
                        c.slugs.insert(session, slug);
                    });
                }
            }
            Act::Delete { desk, graph } => {
                let (it, session) = (&self.desks[desk], self.session(desk, graph));
                self.auditor.consent(desk, |c| {
                    c.deleted.insert(session);
                    c.ticks.retain(|(_, s)| *s != session);
                });
                let _ = it.store.delete_graph(session, it.now()); // deleted already
            }
            Act::Undelete { desk, graph } => {
                let (it, session) = (&self.desks[desk], self.session(desk, graph));
                let back = it.store.undelete_graph(session, it.now())?;
                self.auditor.consent(desk, |c| {
                    c.deleted.remove(&session);
                    c.slugs.insert(session, back.slug.to_string());
                });
            }
            _ => {}
        }
        Ok(())
    }

    // ── The quiet after ─────────────────────────────────────────────────────────────────────────────────────────────

    /// Everything is put right: lines, server, power, pause. Consent stays as the owner left it, wrong clocks stay wrong.
    async fn calm_down(&mut self) -> Result<(), WorldError> {
        let now_ms = self.world.clock.elapsed_ms();
        sleep_ms(QUIET_FROM_MS.saturating_sub(now_ms)).await;
        self.auditor.tell("the faults stop");
        self.world.start_server().await?;
        for agent in &self.agents {
            agent.line.set_weather(Weather::FAIR);
        }
        self.auditor.may_restart();
        for desk in 0..DESKS {
            self.desks[desk].line.set_weather(Weather::FAIR);
            self.desks[desk].freeze(false);
            let wishes = Wishes { paused_since: None, ..self.desks[desk].wishes };
            self.desks[desk].wish(wishes);
            // A copy that was never started stays in its drawer.
            if desk != CLONE || self.desks[desk].was_on() {
                self.desks[desk].switch_on()?;
            }
        }
        Ok(())
    }

    async fn until_all_has_ended(&mut self) {
        let from_ms = self.world.clock.elapsed_ms();
        for task in std::mem::take(&mut self.tasks) {
            let _ = task.await; // a panic in it shows as a missing answer
        }
        loop {
            self.look();
            let Some(open) = self.auditor.unfinished(&self.watched()) else { return };
            if self.world.clock.elapsed_ms() - from_ms > QUIET_MS_MAX {
                let desks: Vec<_> = self.desks.iter().filter_map(|desk| Some(format!("{}: {:?}", desk.name, desk.status()?))).collect();
                self.auditor.fault(&format!("{} s after the faults stopped: {open}; {}", QUIET_MS_MAX / 1000, desks.join("; ")));
                return;
            }
            sleep_ms(LOOK_EVERY_MS).await;
        }
    }
}
