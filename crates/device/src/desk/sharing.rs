//! Sharing: the tick matrix. A change is consent given or taken back; the relay hears of it at once.
use std::sync::Arc;

use agent::policy::{self, Place, Ruling, Target, ToolCall};
use domain::{CommandId, GraphSessionId, ProjectId, RawJson, wire::said::Sentence};

use super::{
    Desk,
    errors::{bad_argument, error},
    graphs::{session_id, status_view},
};
use crate::{
    runs::Executor,
    sharing::AsksOf,
    store::{Origin, Store},
    view::{AttentionRow, BrowserView, ErrorView, PickupWait, SharedProject, SharingRow, SharingView, VisibleSession},
};

const WAITS_SHOWN: u64 = 20;

impl Desk {
    pub async fn sharing_get(&self) -> Result<SharingView, ErrorView> {
        let around = self.around()?;
        let mut projects = Vec::new();
        for project in self.store.projects()? {
            let waits = self.store.pickup_waits(project.id, WAITS_SHOWN)?;
            let ticked = self.store.shared_graphs(project.id)?.map(|(_, graphs)| graphs).unwrap_or_default();
            let visible = ticked.iter().map(|(graph, _)| VisibleSession {
                name: graph.name.clone(),
                slug: graph.slug.to_string(),
                description: graph.description.clone(),
                version: graph.version,
            });
            projects.push(SharedProject {
                project_id: project.id.to_string(),
                enabled: project.enabled,
                readable: project.readable,
                ticked: self.store.ticks()?.iter().filter(|t| t.project == project.id).count() as u64,
                last_sync: project.synced_at.map(domain::Timestamp::ms),
                syncing: project.is_unanswered(),
                pickup_waits: waits.into_iter().map(|(graph, ms)| PickupWait { graph, ms }).collect(),
                visible: if project.enabled { visible.collect() } else { Vec::new() },
                name: project.name,
                sync_error: project.sync_error.map(Sentence::from_column),
            });
        }
        let ticks = self.store.ticks()?;
        let rows = self.store.graphs()?.into_iter().map(|graph| {
            Ok::<_, ErrorView>(SharingRow {
                graph_session_id: graph.id.to_string(),
                gained: self.gained(&graph, &around)?,
                ticked: ticks.iter().filter(|t| t.graph == graph.id).map(|t| t.project.to_string()).collect(),
                name: graph.name,
                slug: graph.slug.to_string(),
                status: status_view(graph.status),
            })
        });
        Ok(SharingView {
            connected: self.store.pairing()?.is_some(),
            projects,
            rows: rows.collect::<Result<_, _>>()?,
            limit: domain::limits::SESSIONS_PER_SYNC_MAX as u64,
            attention: self.attention()?,
            browser: self.browser()?,
        })
    }

    /// Ticking again what is ticked keeps it and takes note of the powers it has today ("Keep sharing").
    pub async fn sharing_tick(&self, project_id: String, graph_session_id: String, ticked: bool) -> Result<SharingView, ErrorView> {
        let (project, session) = (project_of(&project_id)?, session_id(&graph_session_id)?);
        if ticked {
            let graph = self.graph(&graph_session_id)?;
            let powers = self.snapshot(&graph, &self.around()?)?;
            self.store.tick(project, session, &powers.to_json(), self.config.clock.now())?;
        } else {
            self.store.untick(project, session)?;
        }
        self.changed(crate::view::Topic::Graphs);
        self.sharing_get().await
    }

    pub async fn project_enable(&self, project_id: String, enabled: bool) -> Result<SharingView, ErrorView> {
        self.store.enable_project(project_of(&project_id)?, enabled)?;
        self.sharing_get().await
    }

    pub async fn project_readable(&self, project_id: String, readable: bool) -> Result<SharingView, ErrorView> {
        self.store.make_project_readable(project_of(&project_id)?, readable)?;
        self.sharing_get().await
    }

    pub async fn attention_retry(&self, command_id: String) -> Result<SharingView, ErrorView> {
        if !self.store.outbox_retry(command_of(&command_id)?)? {
            return Err(settled());
        }
        self.sharing_get().await
    }

    pub async fn attention_discard(&self, command_id: String) -> Result<SharingView, ErrorView> {
        if !self.store.outbox_discard(command_of(&command_id)?, self.config.clock.now())? {
            return Err(settled());
        }
        self.sharing_get().await
    }

    fn browser(&self) -> Result<BrowserView, ErrorView> {
        let state = self.store.readable_state()?;
        let problem = state.last_error.map(Sentence::from_column);
        Ok(BrowserView { readable: state.readable, uploading: state.uploading, removing: state.removing, problem })
    }

    fn attention(&self) -> Result<Vec<AttentionRow>, ErrorView> {
        let rows = self.store.outbox_attention()?.into_iter().map(|row| {
            let record = self.store.execution_of(row.command)?;
            Ok::<_, ErrorView>(AttentionRow {
                command_id: row.command.to_string(),
                execution_id: row.execution.map(|id| id.to_string()),
                project_id: record.as_ref().and_then(|r| match &r.origin {
                    Origin::Command(facts) => Some(facts.project.to_string()),
                    Origin::Owner => None,
                }),
                graph: record.map(|r| r.graph_name),
                server_says: row.last_error.map(Sentence::from_column).unwrap_or_default(),
                tries: row.tries,
                next_try: Some(row.next_try_at.ms()),
            })
        });
        rows.collect()
    }
}

/// Which tools of a Graph would ask the owner; told only where the owner chose to tell.
pub(super) fn asks_of(store: Store, executor: Executor) -> Arc<AsksOf> {
    Arc::new(move |graph: GraphSessionId, tools: &[String]| {
        if !store.settings().is_ok_and(|s| s.tell_asks) {
            return None;
        }
        let book = store.rule_book().ok()?;
        let version = store.graph(graph).ok()??.version;
        let asks = executor.tools().into_iter().filter(|tool| tools.contains(&tool.name)).filter(|tool| {
            let call = ToolCall {
                tool: tool.name.clone(),
                class: tool.class,
                target: Target::Nothing,
                input: RawJson::empty_object(),
                fingerprint: tool.fingerprint.clone(),
                place: Place { project: None, graphs: vec![policy::GraphAt { session: graph, version }] },
                offered: true,
            };
            policy::rule(&call, &book).ruling == Ruling::Ask
        });
        Some(asks.map(|tool| tool.name).take(domain::limits::ASKS_MAX).collect())
    })
}

pub(super) fn project_of(text: &str) -> Result<ProjectId, ErrorView> {
    ProjectId::parse(text).map_err(|e| bad_argument(Some("project_id"), format!("{e}.")))
}

fn command_of(text: &str) -> Result<CommandId, ErrorView> {
    CommandId::parse(text).map_err(|e| bad_argument(Some("command_id"), format!("{e}.")))
}

fn settled() -> ErrorView {
    error("completion_settled", "This completion no longer waits: the server took it, or it was discarded.")
}
