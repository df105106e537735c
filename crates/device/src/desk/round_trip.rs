//! The Doctor's round trip: a Graph that does nothing goes the way of Claude's commands, over MCP into the real queue, out to this desktop's
//! relay and back, each hop timed.
//!
//! For that it makes a project, a Graph and an agent token of its own and takes them away again, whatever happened. What not: no part of
//! the way is short-cut; a desktop that takes no commands is told so instead.
use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use domain::{
    GraphSessionId, ProjectId, Timestamp,
    text::{SCOPE_READ, SCOPE_RUN},
    wire::{
        relay::{AgentTokenAnswer, GrantRequest, SessionStatus},
        said::{Sentence, said},
    },
};
use http::header;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{
    Desk,
    connections::ask_error,
    doctor::{PROBE, hop},
    errors::capital,
    lock,
};
use crate::{
    relay::QueueClient,
    store::{NewGraph, VersionFacts},
    view::{DoctorHop, ErrorView},
};

const NAME: &str = "Doctor check";
/// A pickup without the doorbell takes up to 20 s.
const PATIENCE: Duration = Duration::from_secs(45);
const ANSWER_WITHIN: Duration = Duration::from_secs(30);

/// What was made for the trip.
struct Made {
    project: ProjectId,
    graph: GraphSessionId,
    agent: AgentTokenAnswer,
}

impl Desk {
    pub(super) async fn hops_round_trip(self: &Arc<Self>, client: &QueueClient) -> Vec<DoctorHop> {
        if lock(&self.driver).is_none() {
            let text = said("hop_trip_nobody", "Not tried: no desktop runs with this profile. Start it, then ask again.", []);
            return vec![hop("Round trip", true, None, text)];
        }
        if let Some(busy) = self.relay.status().busy {
            let text = said("hop_trip_busy", "Not tried: {graph} is running. Ask again when it has ended.", [("graph", busy.graph.into())]);
            return vec![hop("Round trip", true, None, text)];
        }
        let started = Instant::now();
        let (mut made, mut hops) = (None, Vec::new());
        let went = self.travel(client, &mut made, &mut hops).await;
        if let Err(error) = went {
            hops.push(hop("Round trip", false, Some(started), error.into()));
        }
        if let Some(Err(error)) = match made {
            Some(made) => Some(self.take_away(client, &made).await),
            None => None,
        } {
            let facts = [("error", Sentence::from(error).into()), ("name", NAME.into())];
            let text = said("hop_tidy", "{error} The project \"{name}\" and its agent may be left; remove them in Connections.", facts);
            hops.push(hop("Tidying up", false, None, text));
        }
        hops
    }

    async fn travel(self: &Arc<Self>, client: &QueueClient, made: &mut Option<Made>, hops: &mut Vec<DoctorHop>) -> Result<(), ErrorView> {
        let started = Instant::now();
        let made = made.insert(self.make(client).await?);
        self.relay.sync_metadata().await.map_err(|e| super::error("internal", format!("The shared Graph was not told: {e}.")))?;
        hops.push(hop("Sharing", true, Some(started), said("hop_sharing", "The queue took a project, a Graph and an agent for this check.", [])));

        let started = Instant::now();
        let arguments = json!({"graph_session_id": made.graph, "idempotency_key": format!("doctor-{}", made.agent.agent_id)});
        let ticket = self.tool(&made.agent, "run_graph_session", arguments).await?;
        let command = ticket["command_id"].as_str().unwrap_or_default().to_owned();
        hops.push(hop("Ticket", true, Some(started), said("hop_ticket", "Queued over MCP, as Claude does it.", [])));

        let run = loop {
            let run = self.tool(&made.agent, "get_graph_run", json!({"command_id": command, "wait_seconds": 20})).await?;
            if run["terminal"] == true {
                break run;
            }
            if started.elapsed() > PATIENCE {
                let why = match run["waiting"]["text"].as_str() {
                    Some(words) => words.trim_end_matches('.').into(),
                    None => said("hop_pickup_untaken", "The relay did not take it", []),
                };
                let late = said("hop_pickup_late", "{why}. The queue has the command and this desktop did not run it.", [("why", why.into())]);
                hops.push(hop("Pickup", false, Some(started), late));
                return Ok(());
            }
        };
        let waited = run["pickup_wait_ms"].as_u64();
        let claimed = said("hop_pickup", "The relay heard of the command and claimed it.", []);
        hops.push(DoctorHop { ms: waited, ..hop("Pickup", waited.is_some(), None, claimed) });
        let at = |name: &str| run["times"][name].as_str().and_then(Timestamp::parse);
        let ran = at("started_at").zip(at("ended_at")).and_then(|(from, to)| u64::try_from(to.since_ms(from)).ok());
        let ended = match run["status"].as_str() {
            Some("completed") => {
                hop("Run and result", true, None, said("hop_run", "The Graph ran here, and its result came back through the queue.", []))
            }
            status => {
                let error = run["error"].as_str().or(status).unwrap_or("it has no state");
                let facts = [("error", error.trim_end_matches('.').into())];
                hop("Run and result", false, None, said("hop_run_broken", "The Graph did not complete: {error}.", facts))
            }
        };
        hops.push(DoctorHop { ms: ran, ..ended });
        hops.push(hop("Round trip", true, Some(started), said("hop_trip", "From Claude's ticket to the result it reads.", [])));
        Ok(())
    }

    async fn make(self: &Arc<Self>, client: &QueueClient) -> Result<Made, ErrorView> {
        let project = client.create_project(NAME).await.map_err(ask_error)?.project_id;
        let graph = GraphSessionId::from_random(self.config.random.bytes16());
        let agent = async {
            self.refresh_projects().await?;
            let now = self.config.clock.now();
            let slug = self.store.free_slug(&domain::Slug::parse("doctor-check").map_err(|e| super::error("internal", e.to_string()))?)?;
            let new = NewGraph {
                id: graph,
                name: NAME.into(),
                slug,
                description: "Does nothing; the Doctor made it and takes it away again.".into(),
                status: SessionStatus::Ready,
                source: PROBE.into(),
                facts: VersionFacts::default(),
            };
            self.store.create_graph(new, now)?;
            self.store.enable_project(project, true)?;
            self.store.tick(project, graph, "{}", now)?;
            let grant = GrantRequest { name: NAME.into(), project_ids: vec![project], scopes: vec![SCOPE_READ.into(), SCOPE_RUN.into()] };
            client.mint_agent_token(&grant).await.map_err(ask_error)
        };
        match agent.await {
            Ok(agent) => Ok(Made { project, graph, agent }),
            Err(error) => {
                self.take_away_project(client, project, graph).await?;
                Err(error)
            }
        }
    }

    async fn take_away(self: &Arc<Self>, client: &QueueClient, made: &Made) -> Result<(), ErrorView> {
        let revoked = client.revoke_agent(made.agent.agent_id).await.map_err(ask_error);
        self.take_away_project(client, made.project, made.graph).await?;
        revoked
    }

    async fn take_away_project(self: &Arc<Self>, client: &QueueClient, project: ProjectId, graph: GraphSessionId) -> Result<(), ErrorView> {
        if self.store.graph(graph)?.is_some() {
            self.store.delete_graph(graph, self.config.clock.now())?;
        }
        client.delete_project(project).await.map_err(ask_error)?;
        self.refresh_projects().await
    }

    /// One tool call as a connected agent makes it; its structured answer.
    async fn tool(&self, agent: &AgentTokenAnswer, name: &str, arguments: Value) -> Result<Value, ErrorView> {
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": name, "arguments": arguments}});
        let failed = |words: String| super::error("internal", format!("{} ({name} at {}).", capital(words.trim_end_matches('.')), agent.mcp_url));
        let request = http::Request::post(&agent.mcp_url)
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::ACCEPT, "application/json, text/event-stream")
            .header(header::AUTHORIZATION, format!("Bearer {}", agent.token))
            .header("mcp-protocol-version", "2025-06-18")
            .body(Bytes::from(body.to_string()))
            .map_err(|_| failed("the queue's public address is not one a request can be sent to".into()))?;
        let answer = self.config.http.send(request, ANSWER_WITHIN).await.map_err(|e| failed(e.to_string()))?;
        let status = answer.status().as_u16();
        let answer: Value = serde_json::from_slice(answer.body()).map_err(|_| failed(format!("it answered {status} and no JSON-RPC")))?;
        let result = &answer["result"];
        if result["isError"] == true || !result["structuredContent"].is_object() {
            let words = result["content"][0]["text"].as_str().or(answer["error"]["message"].as_str());
            return Err(failed(words.map_or_else(|| format!("it answered {status}"), str::to_owned)));
        }
        Ok(result["structuredContent"].clone())
    }
}
