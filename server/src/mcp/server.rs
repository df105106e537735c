//! What the protocol library calls: the tools, and the same rows seen as tasks.
use std::{
    borrow::Cow,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use domain::{
    CommandId,
    command::Status,
    text::{RUN_NOT_FOUND, SESSION_NOT_FOUND},
};
use rmcp::{
    ErrorData as McpError, RoleServer, ServerHandler,
    model::{
        CacheScope, CallToolRequestParams, CallToolResponse, CallToolResult, CancelTaskParams, ContentBlock, CreateTaskResult, DetailedTask,
        DiscoverResult, GetTaskParams, GetTaskResult, Implementation, JsonObject, ListToolsResult, PaginatedRequestParams, ProtocolVersion,
        ServerCapabilities, ServerConfig, Task, TaskPayload, TaskStatus, Tool, UpdateTaskParams,
    },
    service::RequestContext,
};
use serde_json::Value;

use super::{
    answer::Shaper,
    input::{Input, Refused},
    slots::Slots,
    texts,
    tools::{Name, TOOLS},
};
use crate::{
    app::App,
    queue::{
        Granted,
        get::RunError,
        list::ListError,
        submit::{SubmitError, Submitted},
        view::CommandView,
    },
    store::StoreError,
};

const INSTRUCTIONS: &str = "Graph Queue runs saved programs (Graph sessions) on the owner's own desktop. list_projects and list_graph_sessions show what is shared; run_graph_session queues a run and answers with a command_id; get_graph_run reads it until it is terminal. What is accepted is queued, not running.";
const TOOLS_TTL_MS: u64 = 300_000;
const DISCOVER_TTL_MS: u64 = 3_600_000;

const VERSIONS: &[ProtocolVersion] =
    &[ProtocolVersion::V_2025_03_26, ProtocolVersion::V_2025_06_18, ProtocolVersion::V_2025_11_25, ProtocolVersion::V_2026_07_28];

/// One request's own things, put into the request by the gate.
#[derive(Clone)]
pub struct Call {
    pub by: Option<Granted>,
    /// The exact text of the tool's arguments.
    pub arguments: Arc<str>,
    pub slots: Slots,
    /// Set when the grant was found gone while the request was being answered: the gate answers 401.
    pub revoked: Arc<AtomicBool>,
}

#[derive(Clone)]
pub struct Handler {
    pub app: App,
}

/// How a tool call ends, besides an answer.
enum ToolError {
    /// Told to the agent as a tool error.
    Told(String),
    Revoked,
    Store(StoreError),
}

impl From<Refused> for ToolError {
    fn from(e: Refused) -> Self {
        Self::Told(e.0)
    }
}
impl From<ListError> for ToolError {
    fn from(e: ListError) -> Self {
        match e {
            ListError::Revoked => Self::Revoked,
            ListError::ProjectNotFound | ListError::BadCursor => Self::Told(e.to_string()),
            ListError::Store(e) => Self::Store(e),
        }
    }
}
impl From<RunError> for ToolError {
    fn from(e: RunError) -> Self {
        match e {
            RunError::Revoked => Self::Revoked,
            RunError::NotFound => Self::Told(e.to_string()),
            RunError::Store(e) => Self::Store(e),
        }
    }
}
impl From<SubmitError> for ToolError {
    fn from(e: SubmitError) -> Self {
        match e {
            SubmitError::Revoked => Self::Revoked,
            SubmitError::KeyConflict => Self::Told(texts::KEY_CONFLICT.into()),
            SubmitError::SessionNotFound
            | SubmitError::NotReady(_)
            | SubmitError::ArgumentsInvalid(_)
            | SubmitError::ArgumentsTooLong(_)
            | SubmitError::ArgumentsTooDeep
            | SubmitError::QueueFull { .. }
            | SubmitError::SchemaMoved(_) => Self::Told(e.to_string()),
            SubmitError::Store(e) => Self::Store(e),
        }
    }
}

/// An answer, or a ticket that a client with the tasks extension may get as a task.
enum Answered {
    Plain(Value),
    Ticket(Box<Submitted>),
}

impl Handler {
    fn call(context: &RequestContext<RoleServer>) -> Result<(Call, Granted), McpError> {
        let call = context.extensions.get::<http::request::Parts>().and_then(|parts| parts.extensions.get::<Call>());
        let call = call.ok_or_else(|| McpError::internal_error("the request came around the gate", None))?.clone();
        let by = call.by.clone().ok_or_else(|| McpError::internal_error("no connected agent", None))?;
        Ok((call, by))
    }

    fn shaper<'a>(&'a self, call: &'a Call) -> Shaper<'a> {
        Shaper { slots: &call.slots, random: &*self.app.queue.random, now: self.app.queue.now() }
    }

    async fn run_tool(&self, name: Name, call: &Call, by: &Granted) -> Result<Answered, ToolError> {
        let input = Input::read(&call.arguments, name.members())?;
        let queue = &self.app.queue;
        match name {
            Name::ListProjects => {
                let projects = queue.projects_of_agent(by).await?;
                Ok(Answered::Plain(self.shaper(call).projects(&projects)))
            }
            Name::ListGraphSessions => {
                let (project, limit, cursor) = (input.project()?, input.limit()?, input.cursor()?);
                let page = queue.list(by, project, limit, cursor.as_deref()).await?;
                Ok(Answered::Plain(self.shaper(call).sessions(&page)))
            }
            Name::RunGraphSession => {
                let (session, key, arguments) = (input.session()?, input.key()?, input.arguments()?);
                let Some(session) = session else { return Err(ToolError::Told(SESSION_NOT_FOUND.into())) };
                Ok(Answered::Ticket(Box::new(queue.submit(by, session, arguments, &key).await?)))
            }
            Name::GetGraphRun => {
                let (command, wait) = (input.command()?, Duration::from_secs(input.wait_seconds()?));
                let view = queue.get(by, command, wait).await?;
                Ok(Answered::Plain(self.shaper(call).run(&view)))
            }
            Name::CancelGraphRun => {
                let view = queue.cancel(by, input.command()?).await?;
                Ok(Answered::Plain(self.shaper(call).cancelled(&view)))
            }
        }
    }

    fn refuse(&self, call: &Call, error: ToolError) -> Result<String, McpError> {
        match error {
            ToolError::Told(text) => Ok(text),
            ToolError::Revoked => {
                call.revoked.store(true, Ordering::Relaxed);
                Err(McpError::internal_error("the access of this connected agent was removed", None))
            }
            ToolError::Store(e) => {
                tracing::error!(error = %e, "a tool call failed in the store");
                Ok("The queue could not answer at the moment. The same call may be repeated with the same arguments.".into())
            }
        }
    }

    /// The same row as a task: queued and running are working, every ending of the Graph is a result.
    fn task(&self, view: &CommandView) -> Task {
        let now = self.app.queue.now();
        let status = match view.status {
            Status::Queued | Status::Running => TaskStatus::Working,
            Status::Completed | Status::Failed | Status::Expired => TaskStatus::Completed,
            Status::Cancelled => TaskStatus::Cancelled,
        };
        let updated = view.ended_at.or(view.started_at).unwrap_or(view.queued_at);
        let retention = self.app.queue.terms.retention_ms;
        let kept_until = view.ended_at.unwrap_or(view.expires_at).plus_ms(retention);
        let ttl = kept_until.since_ms(view.queued_at).max(0) as u64;
        Task::new(view.command.to_string(), status, view.queued_at.to_string(), updated.to_string())
            .with_ttl_ms(ttl)
            .with_poll_interval_ms(texts::poll_after_seconds(view, now).max(1) * 1000)
            .with_status_message(texts::next_step(view, now, false))
    }

    fn result(&self, call: &Call, view: &CommandView) -> CallToolResult {
        let mut result = CallToolResult::structured(self.shaper(call).run(view));
        if matches!(view.status, Status::Failed | Status::Expired) {
            result.is_error = Some(true);
        }
        result
    }

    async fn task_view(&self, call: &Call, by: &Granted, id: &str) -> Result<CommandView, McpError> {
        let gone = || McpError::invalid_params(format!("Failed to retrieve task: {RUN_NOT_FOUND}"), None);
        self.app.queue.get(by, CommandId::parse(id).ok(), Duration::ZERO).await.map_err(|e| match e {
            RunError::NotFound => gone(),
            RunError::Revoked => {
                call.revoked.store(true, Ordering::Relaxed);
                gone()
            }
            RunError::Store(e) => {
                tracing::error!(error = %e, "a task could not be read");
                McpError::internal_error("the queue could not answer at the moment", None)
            }
        })
    }
}

impl ServerHandler for Handler {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().enable_tasks().build())
            .with_server_info(Implementation::new("graph-queue", env!("CARGO_PKG_VERSION")))
            .with_instructions(INSTRUCTIONS)
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        Cow::Borrowed(VERSIONS)
    }

    async fn discover(&self, _: RequestContext<RoleServer>) -> Result<DiscoverResult, McpError> {
        let mut found = DiscoverResult::from_server_info(VERSIONS.to_vec(), self.get_info());
        found.ttl_ms = DISCOVER_TTL_MS;
        found.cache_scope = CacheScope::Public;
        Ok(found)
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        TOOLS.iter().find(|tool| tool.name == name).cloned()
    }

    async fn list_tools(&self, _: Option<PaginatedRequestParams>, _: RequestContext<RoleServer>) -> Result<ListToolsResult, McpError> {
        let mut list = ListToolsResult::with_all_items(TOOLS.clone());
        list.ttl_ms = Some(TOOLS_TTL_MS);
        list.cache_scope = Some(CacheScope::Public);
        Ok(list)
    }

    async fn call_tool(&self, request: CallToolRequestParams, context: RequestContext<RoleServer>) -> Result<CallToolResponse, McpError> {
        let Some(name) = Name::parse(&request.name) else {
            return Err(McpError::invalid_params("Unknown tool", None));
        };
        let (call, by) = Self::call(&context)?;
        match self.run_tool(name, &call, &by).await {
            Ok(Answered::Plain(answer)) => Ok(CallToolResult::structured(answer).into()),
            Ok(Answered::Ticket(made)) if context.client_capabilities().is_some_and(|c| c.supports_tasks()) => {
                Ok(CallToolResponse::Task(CreateTaskResult::new(self.task(&made.view))))
            }
            Ok(Answered::Ticket(made)) => Ok(CallToolResult::structured(self.shaper(&call).ticket(&made.view, made.replayed)).into()),
            Err(e) => Ok(CallToolResult::error(vec![ContentBlock::text(self.refuse(&call, e)?)]).into()),
        }
    }

    async fn get_task(&self, request: GetTaskParams, context: RequestContext<RoleServer>) -> Result<GetTaskResult, McpError> {
        let (call, by) = Self::call(&context)?;
        let view = self.task_view(&call, &by, &request.task_id).await?;
        let payload = match view.status {
            Status::Queued | Status::Running => TaskPayload::Working,
            Status::Cancelled => TaskPayload::Cancelled,
            Status::Completed | Status::Failed | Status::Expired => {
                let result = serde_json::to_value(self.result(&call, &view)).ok();
                let Some(Value::Object(result)) = result else { return Err(McpError::internal_error("the result has no JSON", None)) };
                TaskPayload::Completed { result: JsonObject::from(result) }
            }
        };
        Ok(GetTaskResult::new(DetailedTask::new(self.task(&view), payload)))
    }

    /// Nothing is ever asked of the client inside a task; answers to nothing are taken without harm.
    async fn update_task(&self, request: UpdateTaskParams, context: RequestContext<RoleServer>) -> Result<(), McpError> {
        let (call, by) = Self::call(&context)?;
        self.task_view(&call, &by, &request.task_id).await.map(drop)
    }

    async fn cancel_task(&self, request: CancelTaskParams, context: RequestContext<RoleServer>) -> Result<(), McpError> {
        let (call, by) = Self::call(&context)?;
        self.task_view(&call, &by, &request.task_id).await?;
        let cancelled = self.app.queue.cancel(&by, CommandId::parse(&request.task_id).ok()).await;
        cancelled.map(drop).map_err(|_| McpError::invalid_params(format!("Failed to retrieve task: {RUN_NOT_FOUND}"), None))
    }
}
