//! What the command line asks for beyond the window's commands: names instead of ids, and several steps as one.
//!
//! `graph-deskd` and the control socket come through [`Desk::verb`]; a name that is no verb is a command of the window, with one exception:
//! questions of agents are answered in the window alone.
mod sources;

use std::sync::Arc;

use domain::{ProjectId, Slug, wire::relay::SessionStatus};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

use super::{
    Desk,
    errors::{bad_argument, error},
};
use crate::{
    store::Graph,
    view::{ErrorView, ExecutionFilter, ExecutionState, FolderAccess, GrantDraft, RuleDraft, Ruling, SettingsChange},
};

pub use sources::{McpAct, McpAdd, McpDo, ModelAdd, Named};

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Import {
    pub file_name: String,
    pub source: String,
    pub ready: bool,
    pub slug: Option<String>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Share {
    pub slug: String,
    /// Made if there is none of that name. For taking back: all projects where it is missing.
    pub project: Option<String>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Readable {
    pub project: String,
    pub readable: bool,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Allow {
    pub tool: String,
    pub ruling: Ruling,
    pub pattern: Option<String>,
    /// A Graph's slug: the rule holds in its present version only.
    pub graph: Option<String>,
    pub project: Option<String>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct AgentToken {
    pub name: String,
    pub projects: Vec<String>,
    pub read_only: bool,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Run {
    pub slug: String,
    /// JSON text.
    pub args: String,
}

/// A run from the command line, at its end.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Ran {
    pub execution_id: String,
    pub state: ExecutionState,
    pub reason: Option<String>,
    pub result: Option<Value>,
    pub error: Option<String>,
    pub error_line: Option<u32>,
    pub tokens: u64,
    /// Dollars; `None` where a price or a usage is not known.
    #[serde(default)]
    pub cost: Option<f64>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Folder {
    pub path: String,
    pub write: bool,
}

impl Desk {
    /// One verb of the command line, or one command of the window.
    pub async fn verb(self: &Arc<Self>, name: &str, args: Value) -> Result<Value, ErrorView> {
        match name {
            "cli_import" => self.cli_import(read(args)?).await,
            "cli_share" => self.cli_share(read(args)?).await,
            "cli_unshare" => self.cli_unshare(read(args)?).await,
            "cli_readable" => {
                let Readable { project, readable } = read(args)?;
                let id = self.project_named(&project)?.ok_or_else(|| no_project(&project))?;
                answer(&self.project_readable(id.to_string(), readable).await?)
            }
            "cli_allow" => self.cli_allow(read(args)?),
            "cli_agent_token" => self.cli_agent_token(read(args)?).await,
            "cli_run" => self.cli_run(read(args)?).await,
            "cli_folder_add" => {
                let Folder { path, write } = read(args)?;
                let access = if write { FolderAccess::Write } else { FolderAccess::Read };
                answer(&self.folder_add(path, access).await?)
            }
            "cli_pause" => answer(&self.settings_update(SettingsChange { paused: Some(true), ..SettingsChange::default() }).await?),
            "cli_resume" => answer(&self.settings_update(SettingsChange { paused: Some(false), ..SettingsChange::default() }).await?),
            "cli_runs" => answer(&self.executions_list(ExecutionFilter { limit: Some(200), ..ExecutionFilter::default() }).await?),
            "window_open" => self.window_open(),
            // Whoever can open the socket could be a tool's child process: what waits for the owner's own hand is answered in the window.
            "approval_answer" => Err(error("window_only", "A question of an agent is answered in the window.")),
            other => match self.source_verb(other, &args).await {
                Some(done) => done,
                None => self.call(other, args).await,
            },
        }
    }

    async fn cli_import(self: &Arc<Self>, import: Import) -> Result<Value, ErrorView> {
        let slug = match import.slug.as_deref().map(super::graphs::slug_of).transpose()? {
            Some(slug) => Some(self.store.free_slug(&slug)?),
            None => None,
        };
        let graph = self.import(&import.file_name, import.source, slug, import.ready).await?;
        Ok(json!({ "id": graph.id, "slug": graph.slug, "name": graph.name, "version": graph.version, "status": graph.status }))
    }

    async fn cli_share(self: &Arc<Self>, share: Share) -> Result<Value, ErrorView> {
        let graph = self.graph_of(&share.slug)?;
        let name = share.project.ok_or_else(|| bad_argument(Some("project"), "Name the project with --project."))?;
        if graph.status != SessionStatus::Ready {
            let word = if graph.status == SessionStatus::Draft { "a draft" } else { "archived" };
            return Err(error(
                "not_ready",
                format!("{} is {word}. Only a ready Graph can be shared. Import it with --ready, or set it to ready in the window.", graph.name),
            ));
        }
        let project = match self.project_named(&name)? {
            Some(project) => project,
            None => self.create_project(&name).await?,
        };
        self.sharing_tick(project.to_string(), graph.id.to_string(), true).await?;
        self.project_enable(project.to_string(), true).await?;
        Ok(json!({ "graph_session_id": graph.id, "slug": graph.slug, "project_id": project, "project": name }))
    }

    async fn cli_unshare(&self, share: Share) -> Result<Value, ErrorView> {
        let graph = self.graph_of(&share.slug)?;
        let projects: Vec<ProjectId> = match &share.project {
            Some(name) => vec![self.project_named(name)?.ok_or_else(|| no_project(name))?],
            None => self.store.ticks()?.into_iter().filter(|t| t.graph == graph.id).map(|t| t.project).collect(),
        };
        for project in &projects {
            self.sharing_tick(project.to_string(), graph.id.to_string(), false).await?;
        }
        Ok(json!({ "slug": graph.slug, "projects": projects.len() }))
    }

    fn cli_allow(&self, allow: Allow) -> Result<Value, ErrorView> {
        let graph = allow.graph.as_deref().map(|slug| self.graph_of(slug)).transpose()?;
        let project = match &allow.project {
            Some(name) => Some(self.project_named(name)?.ok_or_else(|| no_project(name))?),
            None => None,
        };
        let draft = RuleDraft {
            tool: allow.tool,
            ruling: allow.ruling,
            pattern: allow.pattern,
            graph_session_id: graph.map(|g| g.id.to_string()),
            project_id: project.map(|p| p.to_string()),
        };
        Ok(json!({ "rule": self.add_rule(&draft)?.sentence().text }))
    }

    async fn cli_agent_token(self: &Arc<Self>, token: AgentToken) -> Result<Value, ErrorView> {
        let mut project_ids = Vec::new();
        for name in &token.projects {
            project_ids.push(self.project_named(name)?.ok_or_else(|| no_project(name))?.to_string());
        }
        let grant = GrantDraft { name: token.name, project_ids, may_run: !token.read_only };
        answer(&self.agent_token_mint(grant).await?)
    }

    /// Runs to the end.
    async fn cli_run(self: &Arc<Self>, run: Run) -> Result<Value, ErrorView> {
        let graph = self.graph_of(&run.slug)?;
        let (execution, ending) = self.begin_own(&graph.id.to_string(), &run.args, None)?;
        // On a task of its own: whoever asked may hang up, the execution goes on.
        tokio::spawn(ending).await.map_err(|e| error("internal", format!("The run broke off: {e}.")))?;
        let detail = self.execution_open(execution.to_string()).await?;
        answer(&Ran {
            execution_id: execution.to_string(),
            state: detail.row.state,
            reason: detail.row.reason,
            result: detail.result.as_deref().and_then(|text| serde_json::from_str(text).ok()),
            error: detail.error,
            error_line: detail.error_line,
            tokens: detail.row.tokens,
            cost: detail.row.cost,
        })
    }

    fn graph_of(&self, slug: &str) -> Result<Graph, ErrorView> {
        let slug =
            Slug::parse(slug).map_err(|_| bad_argument(Some("slug"), "Slugs are lower-case letters, digits and dashes, like review-change-set."))?;
        self.store
            .graph_by_slug(&slug)?
            .ok_or_else(|| error("graph_unknown", format!("There is no Graph with the slug {slug}. graph-deskd status lists them.")))
    }

    /// By name, or by id.
    fn project_named(&self, name: &str) -> Result<Option<ProjectId>, ErrorView> {
        let all = self.store.projects()?;
        let found: Vec<_> = all.iter().filter(|p| p.name == name || p.id.to_string() == name).collect();
        match found.as_slice() {
            [] => Ok(None),
            [one] => Ok(Some(one.id)),
            _ => Err(error("project_ambiguous", format!("Several projects are named {name}. Give the project's id instead."))),
        }
    }
}

fn no_project(name: &str) -> ErrorView {
    error("project_unknown", format!("There is no project named {name}. graph-deskd share SLUG --project NAME makes one."))
}

fn read<T: DeserializeOwned>(args: Value) -> Result<T, ErrorView> {
    serde_json::from_value(args).map_err(|e| bad_argument(None, format!("The command's arguments cannot be read: {e}.")))
}

fn answer<T: Serialize>(value: &T) -> Result<Value, ErrorView> {
    serde_json::to_value(value).map_err(|e| error("internal", format!("The answer cannot be written: {e}.")))
}
