//! One handler per route of the device API.
use std::time::Duration;

use axum::{
    Json,
    extract::{Query, State},
};
use domain::{
    AgentId, CommandId, GraphSessionId, ProjectId,
    command::Status,
    limits::{CONTROL_HOLD_MS_MAX, DOORBELL_HOLD_MS_MAX, PAGE_MAX},
    wire::relay as wire,
};
use serde::Deserialize;
use serde_json::{Value, json};

use super::extract::{Body, From, Id, Paired, Text, Version, too_many};
use crate::{
    app::App,
    http_error::{ApiError, Code},
    queue::{commands::CommandFilter, owner::PairError, owner_view::GraphText},
};

type Answer<T> = Result<Json<T>, ApiError>;

pub async fn pair(_: Version, From(address): From, State(app): State<App>, Body(request): Body<wire::PairRequest>) -> Answer<wire::PairAnswer> {
    app.guesses.admit(address).await.map_err(too_many)?;
    let paired = app.queue.pair(request).await;
    if matches!(paired, Err(PairError::BadCode)) {
        app.guesses.wrong(address, "pairing code");
    }
    Ok(Json(paired?))
}

pub async fn unpair(Paired(device): Paired, State(app): State<App>) -> Answer<Value> {
    app.queue.unpair(&device).await?;
    Ok(Json(json!({"device_id": device.id})))
}

pub async fn sync(Paired(device): Paired, State(app): State<App>, Body(request): Body<wire::SyncRequest>) -> Answer<wire::SyncAnswer> {
    Ok(Json(app.queue.sync(&device, request).await?))
}

pub async fn doorbell(Paired(device): Paired, State(app): State<App>, Body(request): Body<wire::DoorbellRequest>) -> Answer<wire::DoorbellAnswer> {
    let _place = app.held.take(device.id)?;
    let hold = Duration::from_millis(request.hold_ms.min(DOORBELL_HOLD_MS_MAX));
    let heard = app.queue.doorbell(&device, request.project_ids, request.after, hold).await?;
    Ok(Json(wire::DoorbellAnswer { rang: heard.rang, seq: heard.seq }))
}

pub async fn start(
    Paired(device): Paired,
    Id(command): Id<CommandId>,
    State(app): State<App>,
    Body(request): Body<wire::StartRequest>,
) -> Answer<wire::StartAnswer> {
    let started = app.queue.start(&device, command, request.execution_id).await?;
    if let Some(waited_ms) = started.waited_ms {
        app.metrics.picked_up(waited_ms);
    }
    Ok(Json(wire::StartAnswer { status: Status::Running.as_str().into(), cancel: started.cancel }))
}

pub async fn control(
    Paired(device): Paired,
    Id(command): Id<CommandId>,
    State(app): State<App>,
    Body(request): Body<wire::ControlRequest>,
) -> Answer<wire::ControlAnswer> {
    let hold = Duration::from_millis(request.hold_ms.unwrap_or(0).min(CONTROL_HOLD_MS_MAX));
    let _place = if hold.is_zero() { None } else { Some(app.held.take(device.id)?) };
    let cancel = app.queue.control(&device, command, request.execution_id, request.progress, hold).await?;
    Ok(Json(wire::ControlAnswer { cancel }))
}

pub async fn complete(Paired(device): Paired, Id(command): Id<CommandId>, State(app): State<App>, Text(body): Text) -> Answer<wire::CompleteAnswer> {
    let recorded = app.queue.complete(&device, command, &body).await?;
    Ok(Json(wire::CompleteAnswer { recorded: recorded.recorded, status: recorded.status.as_str().into() }))
}

pub async fn projects(Paired(device): Paired, State(app): State<App>) -> Answer<wire::ProjectList> {
    Ok(Json(wire::ProjectList { projects: app.queue.projects(device.owner).await? }))
}

pub async fn create_project(Paired(device): Paired, State(app): State<App>, Body(new): Body<wire::ProjectName>) -> Answer<wire::Project> {
    Ok(Json(app.queue.create_project(device.owner, new.name).await?))
}

pub async fn rename_project(
    Paired(device): Paired,
    Id(project): Id<ProjectId>,
    State(app): State<App>,
    Body(new): Body<wire::ProjectName>,
) -> Answer<wire::Project> {
    Ok(Json(app.queue.rename_project(device.owner, project, new.name).await?))
}

pub async fn delete_project(Paired(device): Paired, Id(project): Id<ProjectId>, State(app): State<App>) -> Answer<Value> {
    app.queue.delete_project(device.owner, project).await?;
    Ok(Json(json!({"project_id": project})))
}

pub async fn mint_agent_token(
    Paired(device): Paired,
    State(app): State<App>,
    Body(grant): Body<wire::GrantRequest>,
) -> Answer<wire::AgentTokenAnswer> {
    let (agent_id, token) = app.queue.mint_agent_token(device.owner, grant).await?;
    Ok(Json(wire::AgentTokenAnswer { agent_id, token, mcp_url: app.config.mcp_url() }))
}

pub async fn connect_code(Paired(device): Paired, State(app): State<App>, Body(grant): Body<wire::GrantRequest>) -> Answer<wire::ConnectCodeAnswer> {
    let (connect_code, expires_at) = app.queue.connect_code(device.owner, grant).await?;
    Ok(Json(wire::ConnectCodeAnswer { connect_code, expires_at, mcp_url: app.config.mcp_url() }))
}

pub async fn sign_in_code(Paired(device): Paired, State(app): State<App>) -> Answer<Value> {
    let (code, expires_at) = app.queue.sign_in_code(device.owner).await?;
    Ok(Json(json!({"sign_in_code": code, "expires_at": expires_at, "url": format!("{}/owner", app.config.public_url)})))
}

pub async fn put_graph(
    Paired(device): Paired,
    Id(session): Id<GraphSessionId>,
    State(app): State<App>,
    Body(graph): Body<GraphText>,
) -> Answer<Value> {
    app.queue.put_graph(&device, session, graph).await?;
    Ok(Json(json!({"graph_session_id": session})))
}

/// Which texts of this device are here: after a restore on either side it can tell what to send and what to remove.
pub async fn graphs(Paired(device): Paired, State(app): State<App>) -> Answer<wire::ReadableGraphs> {
    Ok(Json(wire::ReadableGraphs { graph_session_ids: app.queue.graphs_of(&device).await? }))
}

pub async fn delete_graph(Paired(device): Paired, Id(session): Id<GraphSessionId>, State(app): State<App>) -> Answer<Value> {
    app.queue.delete_graph(&device, session).await?;
    Ok(Json(json!({"graph_session_id": session})))
}

pub async fn agents(Paired(device): Paired, State(app): State<App>) -> Answer<wire::AgentList> {
    Ok(Json(wire::AgentList { agents: app.queue.agents(device.owner).await? }))
}

pub async fn revoke_agent(Paired(device): Paired, Id(agent): Id<AgentId>, State(app): State<App>) -> Answer<Value> {
    app.queue.revoke(device.owner, agent).await?;
    Ok(Json(json!({"agent_id": agent})))
}

#[derive(Debug, Deserialize)]
pub struct CommandsQuery {
    project_id: Option<ProjectId>,
    status: Option<String>,
    limit: Option<u64>,
    cursor: Option<String>,
}

pub async fn commands(
    Paired(device): Paired,
    State(app): State<App>,
    query: Result<Query<CommandsQuery>, axum::extract::rejection::QueryRejection>,
) -> Answer<wire::CommandList> {
    let malformed = |m: String| ApiError::new(Code::Malformed, m);
    let Query(query) = query.map_err(|e| malformed(e.body_text()))?;
    let limit = query.limit.unwrap_or(PAGE_MAX);
    if !(1..=PAGE_MAX).contains(&limit) {
        return Err(malformed(format!("limit must be 1 to {PAGE_MAX}")));
    }
    let status = CommandFilter::status(query.status.as_deref()).map_err(malformed)?;
    let before = match &query.cursor {
        Some(cursor) => Some(cursor.parse().map_err(|_| malformed("cursor is not one that this list gave".into()))?),
        None => None,
    };
    let filter = CommandFilter { project: query.project_id, status, before, limit: limit as usize };
    Ok(Json(app.queue.owners_commands(&device, filter).await?))
}

/// The owner's own cancel, from any of their devices.
pub async fn cancel(Paired(device): Paired, Id(command): Id<CommandId>, State(app): State<App>) -> Answer<Value> {
    let view = app.queue.owner_cancel(device.owner, command).await?;
    Ok(Json(json!({
        "command_id": view.command,
        "status": view.status.as_str(),
        "terminal": view.status.is_terminal(),
        "cancel_requested": view.cancel_asked,
    })))
}
