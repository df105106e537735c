//! Graphs: list, editor, versions, import and export.
//!
//! A save is a version, faults or not: nobody loses work. But a Graph with faults is never ready; saving one takes a ready Graph back to draft.
use std::collections::HashMap;

use agent::policy::{self, Place, Target, ToolCall};
use domain::{
    GraphSessionId, RawJson, Slug,
    limits::{AGENTS_PER_EXECUTION_MAX, NAME_CHARS_MAX},
    text::cut_chars,
    wire::relay::SessionStatus,
};
use engine::Meta;

use super::{
    Desk,
    approvals::ruling_view,
    errors::{bad_argument, error},
    powers::{self, Snapshot},
};
use crate::{
    store::{ExecutionRecord, Graph, GraphEdit, NewGraph, Settings, VersionFacts},
    view::{
        ErrorView, ExportedFile, GainedPower, GraphChange, GraphDetail, GraphRow, GraphStatus, Inspection, LastExecution, Powers, Severity,
        SourceFault, TemplateRow, ToolPower, VersionRow,
    },
};

/// What all rows of a list have in common, read once.
pub(super) struct Around {
    projects: HashMap<String, String>,
    ticks: Vec<crate::store::Tick>,
    last: HashMap<GraphSessionId, ExecutionRecord>,
    settings: Settings,
    folders: Vec<String>,
    tools: Vec<String>,
}

impl Desk {
    pub async fn templates_list(&self) -> Result<Vec<TemplateRow>, ErrorView> {
        let row = |(id, source): &(&str, &str)| {
            let meta = Meta::read(source).unwrap_or_default();
            TemplateRow { id: (*id).into(), name: meta.name, description: meta.description, source: (*source).into() }
        };
        Ok(engine::TEMPLATES.iter().map(row).collect())
    }

    pub async fn graphs_list(&self) -> Result<Vec<GraphRow>, ErrorView> {
        let around = self.around()?;
        self.store.graphs()?.into_iter().map(|graph| self.graph_row(graph, &around)).collect()
    }

    pub async fn graph_open(&self, id: String) -> Result<GraphDetail, ErrorView> {
        let graph = self.graph(&id)?;
        let version =
            self.store.graph_version(graph.id, graph.version)?.ok_or_else(|| error("version_gone", "The Graph's newest version cannot be read."))?;
        let inspection = self.inspect(&version.source).await;
        let around = self.around()?;
        let powers = self.powers(&graph, &around)?;
        let versions = self.store.graph_versions(graph.id)?;
        let versions =
            versions.into_iter().map(|v| VersionRow { version: v.version, name: v.name, saved_at: v.saved_at.ms(), lines: v.lines }).collect();
        Ok(GraphDetail { row: self.graph_row(graph, &around)?, source: version.source, inspection, versions, powers })
    }

    pub async fn graph_create(&self, source: String) -> Result<GraphDetail, ErrorView> {
        let inspection = self.inspect(&source).await;
        let graph = self.create(source, &inspection, None, SessionStatus::Draft)?;
        self.graph_open(graph.id.to_string()).await
    }

    pub async fn graph_create_from_template(&self, template: String) -> Result<GraphDetail, ErrorView> {
        let found = self.templates_list().await?.into_iter().find(|t| t.id == template);
        let found = found.ok_or_else(|| error("template_unknown", format!("There is no template named {template}.")))?;
        self.graph_create(found.source).await
    }

    /// Import never shares; what comes in is a draft.
    pub async fn graph_import(&self, file_name: String, source: String) -> Result<GraphDetail, ErrorView> {
        let graph = self.import(&file_name, source, None, false).await?;
        self.graph_open(graph.id.to_string()).await
    }

    /// A new Graph from a file. `ready` only if it was asked for and the source has no faults.
    pub(super) async fn import(&self, file_name: &str, source: String, slug: Option<Slug>, ready: bool) -> Result<Graph, ErrorView> {
        let mut inspection = self.inspect(&source).await;
        if ready {
            refuse_faults(&inspection)?;
        }
        if inspection.name.is_none() {
            inspection.name = Some(file_name.trim_end_matches(".js").trim_end_matches(".graph").to_owned()).filter(|n| !n.trim().is_empty());
        }
        self.create(source, &inspection, slug, if ready { SessionStatus::Ready } else { SessionStatus::Draft })
    }

    pub async fn graph_export(&self, id: String) -> Result<ExportedFile, ErrorView> {
        let graph = self.graph(&id)?;
        let text = self.graph_version_source(id, graph.version).await?;
        Ok(ExportedFile { file_name: format!("{}.graph.js", graph.slug), text })
    }

    pub async fn graph_save(&self, id: String, source: String) -> Result<GraphDetail, ErrorView> {
        let graph = self.graph(&id)?;
        let now = self.config.clock.now();
        let inspection = self.inspect(&source).await;
        let edit = GraphEdit {
            name: inspection.name.as_deref().map(|n| cut_chars(n, NAME_CHARS_MAX).to_owned()).filter(|n| *n != graph.name && !n.trim().is_empty()),
            description: inspection.description.clone().filter(|d| *d != graph.description),
            status: (graph.status == SessionStatus::Ready && has_faults(&inspection)).then_some(SessionStatus::Draft),
            slug: None,
        };
        self.store.save_version(graph.id, &source, &facts(&inspection), now)?;
        self.store.change_graph(graph.id, edit, now)?;
        self.graph_open(id).await
    }

    pub async fn graph_update(&self, id: String, change: GraphChange) -> Result<GraphDetail, ErrorView> {
        let graph = self.graph(&id)?;
        let slug = change.slug.as_deref().map(slug_of).transpose()?;
        if change.status == Some(GraphStatus::Ready) && graph.status != SessionStatus::Ready {
            let source = self.graph_version_source(id.clone(), graph.version).await?;
            refuse_faults(&self.inspect(&source).await)?;
        }
        let edit = GraphEdit { name: change.name, slug, description: change.description, status: change.status.map(status_of) };
        self.store.change_graph(graph.id, edit, self.config.clock.now())?;
        self.graph_open(id).await
    }

    pub async fn graph_duplicate(&self, id: String) -> Result<GraphDetail, ErrorView> {
        let graph = self.graph(&id)?;
        let source = self.graph_version_source(id, graph.version).await?;
        let mut inspection = self.inspect(&source).await;
        inspection.name = Some(format!("{} (copy)", graph.name));
        let copy = self.create(source, &inspection, Some(self.store.free_slug(&graph.slug)?), SessionStatus::Draft)?;
        self.graph_open(copy.id.to_string()).await
    }

    pub async fn graph_delete(&self, id: String) -> Result<(), ErrorView> {
        let graph = self.graph(&id)?;
        Ok(self.store.delete_graph(graph.id, self.config.clock.now())?)
    }

    pub async fn graph_undelete(&self, id: String) -> Result<GraphDetail, ErrorView> {
        let session = session_id(&id)?;
        self.store.undelete_graph(session, self.config.clock.now())?;
        self.graph_open(id).await
    }

    pub async fn graph_version_source(&self, id: String, version: u64) -> Result<String, ErrorView> {
        let found = self.store.graph_version(session_id(&id)?, version)?;
        Ok(found.ok_or_else(|| error("version_gone", format!("There is no version {version} of this Graph.")))?.source)
    }

    pub async fn graph_version_name(&self, id: String, version: u64, name: String) -> Result<GraphDetail, ErrorView> {
        self.store.name_version(session_id(&id)?, version, &name)?;
        self.graph_open(id).await
    }

    pub async fn graph_inspect(&self, source: String) -> Result<Inspection, ErrorView> {
        Ok(self.inspect(&source).await)
    }

    // ── Shared by the places ────────────────────────────────────────────────────────────────────────────────────────

    pub(super) fn graph(&self, id: &str) -> Result<Graph, ErrorView> {
        self.store
            .graph(session_id(id)?)?
            .ok_or_else(|| error("graph_gone", "This Graph is gone: it was deleted. Its runs are still in the history."))
    }

    pub(super) async fn inspect(&self, source: &str) -> Inspection {
        match engine::inspect(source, &self.config.graph_vm).await {
            Ok(meta) => {
                let known = self.toolbox().map(|t| t.definitions()).unwrap_or_default();
                let unknown = meta.tools.iter().filter(|tool| !known.iter().any(|d| d.name == **tool) && !tool.starts_with("mcp__"));
                let faults = unknown
                    .map(|tool| SourceFault {
                        line: 1,
                        column: 1,
                        message: format!("meta.tools names {tool}; there is no such tool."),
                        severity: Severity::Warning,
                    })
                    .collect();
                Inspection {
                    name: Some(meta.name).filter(|n| !n.trim().is_empty()),
                    description: Some(meta.description).filter(|d| !d.is_empty()),
                    phases: meta.phases.into_iter().map(|p| p.title).collect(),
                    args_schema: meta.args.map(|a| a.to_string()),
                    tools: meta.tools,
                    models: meta.models,
                    faults,
                }
            }
            Err(fault) => Inspection {
                name: None,
                description: None,
                phases: Vec::new(),
                args_schema: None,
                tools: Vec::new(),
                models: Vec::new(),
                // The editor marks its first line where the place is not known.
                faults: vec![SourceFault { line: fault.line.max(1), column: fault.column.max(1), message: fault.message, severity: Severity::Error }],
            },
        }
    }

    fn create(&self, source: String, inspection: &Inspection, slug: Option<Slug>, status: SessionStatus) -> Result<Graph, ErrorView> {
        let name = inspection.name.as_deref().unwrap_or("Untitled");
        let slug = match slug {
            Some(slug) => slug,
            None => self.store.free_slug(&slug_from(name))?,
        };
        let new = NewGraph {
            id: GraphSessionId::from_random(self.config.random.bytes16()),
            name: cut_chars(name, NAME_CHARS_MAX).to_owned(),
            slug,
            description: inspection.description.clone().unwrap_or_default(),
            status,
            source,
            facts: facts(inspection),
        };
        Ok(self.store.create_graph(new, self.config.clock.now())?)
    }

    pub(super) fn around(&self) -> Result<Around, ErrorView> {
        let folders = self.store.folders()?.into_iter().map(|f| match f.access {
            agent::tools::Access::Read => f.path.display().to_string(),
            agent::tools::Access::Write => format!("{}{}", f.path.display(), powers::WRITE),
        });
        Ok(Around {
            projects: self.store.projects()?.into_iter().map(|p| (p.id.to_string(), p.name)).collect(),
            ticks: self.store.ticks()?,
            last: self.store.last_executions()?.into_iter().map(|run| (run.graph, run)).collect(),
            settings: self.store.settings()?,
            folders: folders.collect(),
            tools: self.toolbox()?.definitions().into_iter().map(|d| d.name).collect(),
        })
    }

    /// What a Graph may do today, as it is kept with a tick.
    pub(super) fn snapshot(&self, graph: &Graph, around: &Around) -> Result<Snapshot, ErrorView> {
        let source = self.store.graph_version(graph.id, graph.version)?.map(|v| v.source).unwrap_or_default();
        let meta = Meta::read(&source).unwrap_or_default();
        let settings = &around.settings;
        Ok(Snapshot {
            tools: if meta.tools.is_empty() { around.tools.clone() } else { meta.tools }.into_iter().collect(),
            models: meta.models.into_iter().collect(),
            folders: around.folders.iter().cloned().collect(),
            token_ceiling: meta.limits.token_ceiling.unwrap_or(u64::MAX).min(settings.token_ceiling),
            max_concurrency: meta.limits.max_concurrency.map_or(settings.max_concurrency, |n| settings.max_concurrency.min(n as u64)),
        })
    }

    /// Powers gained since any project ticked it.
    pub(super) fn gained(&self, graph: &Graph, around: &Around) -> Result<Vec<GainedPower>, ErrorView> {
        let ticks: Vec<_> = around.ticks.iter().filter(|t| t.graph == graph.id).collect();
        if ticks.is_empty() {
            return Ok(Vec::new());
        }
        let now = self.snapshot(graph, around)?;
        let mut all: Vec<GainedPower> = Vec::new();
        for power in ticks.iter().flat_map(|t| powers::gained(&t.powers, &now)) {
            if !all.contains(&power) {
                all.push(power);
            }
        }
        Ok(all)
    }

    pub(super) fn graph_row(&self, graph: Graph, around: &Around) -> Result<GraphRow, ErrorView> {
        let gained = self.gained(&graph, around)?;
        let id = graph.id.to_string();
        let shared = around.ticks.iter().filter(|t| t.graph == graph.id);
        let mut shared_with: Vec<String> = shared.filter_map(|t| around.projects.get(&t.project.to_string()).cloned()).collect();
        shared_with.sort();
        let last = around.last.get(&graph.id);
        Ok(GraphRow {
            name: graph.name,
            slug: graph.slug.to_string(),
            description: graph.description,
            version: graph.version,
            status: status_view(graph.status),
            shared_with,
            updated_at: graph.updated_at.ms(),
            last_execution: last.map(|run| LastExecution {
                execution_id: run.id.to_string(),
                state: run.state,
                at: run.ended_at.unwrap_or(run.started_at).ms(),
            }),
            gained,
            id,
        })
    }

    fn powers(&self, graph: &Graph, around: &Around) -> Result<Powers, ErrorView> {
        let book = self.store.rule_book()?;
        let definitions = self.toolbox()?.definitions();
        let may = self.snapshot(graph, around)?;
        let asked = definitions.iter().filter(|d| may.tools.contains(&d.name));
        let tools = asked.map(|d| {
            let call = ToolCall {
                tool: d.name.clone(),
                class: d.class,
                target: Target::Nothing,
                input: RawJson::empty_object(),
                fingerprint: d.fingerprint.clone(),
                place: Place { project: None, graphs: vec![policy::GraphAt { session: graph.id, version: graph.version }] },
                offered: true,
            };
            let ruled = policy::rule(&call, &book);
            ToolPower { tool: d.name.clone(), ruling: ruling_view(ruled.ruling), because: ruled.because }
        });
        Ok(Powers {
            tools: tools.collect(),
            folders: self.folder_views()?,
            models: may.models.into_iter().collect(),
            token_ceiling: may.token_ceiling,
            max_concurrency: may.max_concurrency,
            agents_max: self.agents_max(graph)?,
        })
    }

    /// Where its own `meta` bounds them; from the code alone no number can be told.
    fn agents_max(&self, graph: &Graph) -> Result<Option<u64>, ErrorView> {
        let source = self.store.graph_version(graph.id, graph.version)?.map(|v| v.source).unwrap_or_default();
        let stated = Meta::read(&source).unwrap_or_default().limits.agents;
        Ok(stated.map(|agents| agents.min(AGENTS_PER_EXECUTION_MAX) as u64))
    }
}

pub(super) fn facts(inspection: &Inspection) -> VersionFacts {
    VersionFacts {
        args_schema: inspection.args_schema.as_deref().and_then(|text| RawJson::parse(text).ok()),
        tools: inspection.tools.clone(),
        models: inspection.models.clone(),
    }
}

fn has_faults(inspection: &Inspection) -> bool {
    inspection.faults.iter().any(|f| f.severity == Severity::Error)
}

/// A Graph with faults cannot be ready.
fn refuse_faults(inspection: &Inspection) -> Result<(), ErrorView> {
    match inspection.faults.iter().find(|f| f.severity == Severity::Error) {
        None => Ok(()),
        Some(fault) => Err(ErrorView {
            line: Some(fault.line),
            column: Some(fault.column),
            ..error("source_faulty", format!("Line {}: {} The Graph cannot be ready until this is mended.", fault.line, ended(&fault.message)))
                .with("why", ended(&fault.message))
        }),
    }
}

fn ended(text: &str) -> String {
    let text = super::errors::capital(text.trim());
    if text.ends_with(['.', '!', '?']) { text } else { format!("{text}.") }
}

pub(super) fn session_id(id: &str) -> Result<GraphSessionId, ErrorView> {
    GraphSessionId::parse(id).map_err(|e| bad_argument(Some("id"), format!("{e}.")))
}

pub(super) fn slug_of(text: &str) -> Result<Slug, ErrorView> {
    Slug::parse(text).map_err(|_| bad_argument(Some("slug"), "Slugs are lower-case letters, digits and dashes, like review-change-set."))
}

/// The slug a name suggests: its letters and digits, the rest as single dashes.
pub(super) fn slug_from(name: &str) -> Slug {
    let mut text = String::new();
    for c in name.to_lowercase().chars() {
        if c.is_ascii_alphanumeric() {
            text.push(c);
        } else if !text.is_empty() && !text.ends_with('-') {
            text.push('-');
        }
    }
    text.truncate(domain::limits::SLUG_CHARS_MAX);
    let text = text.trim_matches('-');
    Slug::parse(text).or_else(|_| Slug::parse("graph")).unwrap_or_else(|_| unreachable!("graph is a slug"))
}

pub(super) const fn status_view(status: SessionStatus) -> GraphStatus {
    match status {
        SessionStatus::Draft => GraphStatus::Draft,
        SessionStatus::Ready => GraphStatus::Ready,
        SessionStatus::Archived => GraphStatus::Archived,
    }
}

const fn status_of(status: GraphStatus) -> SessionStatus {
    match status {
        GraphStatus::Draft => SessionStatus::Draft,
        GraphStatus::Ready => SessionStatus::Ready,
        GraphStatus::Archived => SessionStatus::Archived,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_suggests_a_slug() {
        for (name, slug) in [("Review a change set", "review-a-change-set"), ("  Ärger & Co. ", "rger-co"), ("日本", "graph"), ("--", "graph")] {
            assert_eq!(slug_from(name).as_str(), slug);
        }
        assert!(slug_from(&"long name ".repeat(20)).as_str().len() <= 64);
    }
}
