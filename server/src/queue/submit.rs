//! `run_graph_session`: one command per (connected agent, idempotency key), committed before it is answered.
use domain::{
    CommandId, GraphSessionId, IdempotencyKey, ProjectId, RawJson, Slug, Timestamp,
    command::Status,
    limits::{ARGUMENTS_BYTES_MAX, JSON_DEPTH_MAX},
    text::SESSION_NOT_FOUND,
    wire::relay::SessionStatus,
};

use super::{Granted, Queue, grant_stands, lock_owner, schema_check, view};
use crate::{
    bell::Bell,
    ports::bytes,
    secret,
    store::{Collides, StoreError, Tx, params},
};

#[derive(Debug, thiserror::Error)]
pub enum SubmitError {
    #[error("the access of this connected agent was removed")]
    Revoked,
    #[error("{SESSION_NOT_FOUND}")]
    SessionNotFound,
    #[error("the Graph session is {0}, not ready")]
    NotReady(&'static str),
    #[error(
        "idempotency_key was already used for another run. One key per intended operation: keep it when repeating after a lost response, take a new key only for a new run"
    )]
    KeyConflict,
    #[error("arguments do not match this session's arguments_schema: {0}")]
    ArgumentsInvalid(String),
    #[error("arguments have {0} bytes of JSON text; at most {ARGUMENTS_BYTES_MAX} are allowed")]
    ArgumentsTooLong(usize),
    #[error("arguments are nested deeper than {JSON_DEPTH_MAX} levels")]
    ArgumentsTooDeep,
    #[error("{limit} commands are queued in this project already, the most it takes; they run one after the other on the owner's desktop")]
    QueueFull { limit: usize },
    /// The arguments were checked against another schema than the one that stands: this one.
    #[error("the session changed while its arguments were checked")]
    SchemaMoved(Option<String>),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Collides for SubmitError {
    fn store_error(&self) -> Option<&StoreError> {
        if let Self::Store(e) = self { Some(e) } else { None }
    }
}

#[derive(Debug)]
pub struct Submitted {
    pub view: view::CommandView,
    pub replayed: bool,
}

pub(super) const EARLIER: &str = "SELECT request_hash, command_id FROM commands WHERE agent_id = $1 AND key_hash = $2";
/// The session that would run, under the oldest granted project it is ticked for; its desktop; and what waits there.
pub(super) fn target_statement() -> String {
    format!(
        "SELECT s.project_id, s.slug, s.status, s.arguments_schema,
                (SELECT count(*) FROM commands q WHERE q.project_id = s.project_id AND q.status = 'queued' AND q.expires_at > $3),
                (SELECT count(*) FROM commands q WHERE q.device_id = s.device_id AND q.status = 'queued'),
                (SELECT count(*) FROM commands r WHERE r.device_id = s.device_id AND r.status = 'running'), {}
           FROM shared_sessions s
           JOIN agent_projects g ON g.project_id = s.project_id AND g.agent_id = $1
           JOIN projects p ON p.project_id = s.project_id AND p.deleted_at IS NULL
           JOIN devices d ON d.device_id = s.device_id
          WHERE s.graph_session_id = $2 ORDER BY p.created_at, p.project_id LIMIT 1",
        view::DESKTOP_COLUMNS
    )
}

#[derive(Clone)]
struct Submit {
    by: Granted,
    session: GraphSessionId,
    arguments: RawJson,
    key_hash: String,
    request_hash: String,
    checked_schema: Option<String>,
    command: CommandId,
    now: Timestamp,
    queued_ttl_ms: i64,
    queued_per_project: usize,
}

struct Target {
    project: ProjectId,
    slug: Slug,
    status: SessionStatus,
    schema: Option<String>,
    queued_in_project: i64,
    queued_on_desktop: i64,
    running_on_desktop: i64,
    desktop: view::Desktop,
}

enum Found {
    Replay(Box<view::CommandView>),
    New(Option<Target>),
}

impl Queue {
    pub async fn submit(&self, by: &Granted, session: GraphSessionId, arguments: RawJson, key: &IdempotencyKey) -> Result<Submitted, SubmitError> {
        let text = arguments.as_str();
        if text.len() > ARGUMENTS_BYTES_MAX {
            return Err(SubmitError::ArgumentsTooLong(text.len()));
        }
        let mut submit = Submit {
            by: by.clone(),
            session,
            key_hash: secret::hash(key.as_str()),
            request_hash: secret::hash(&format!("{session}\n{}", arguments.canonical())),
            arguments,
            checked_schema: None,
            command: CommandId::from_random(bytes(&*self.random)),
            now: self.now(),
            queued_ttl_ms: self.terms.queued_ttl_ms,
            queued_per_project: self.terms.queued_per_project,
        };
        // Arguments are checked before the one writer is asked, against a schema that the transaction compares.
        submit.checked_schema = self.store.read(&session, |tx, session| Box::pin(schema_of(tx, *session))).await?;
        loop {
            if let Some(schema) = &submit.checked_schema
                && let Err(why) = schema_check::check(schema, &submit.arguments)
            {
                // What was accepted once stands, whatever the schema has become; and a session that is not granted is not spoken of.
                match self.store.read(&submit, |tx, it| Box::pin(look(tx, it))).await? {
                    Found::Replay(view) => return Ok(self.answer(*view, true)),
                    Found::New(None) => return Err(SubmitError::SessionNotFound),
                    Found::New(Some(target)) if target.schema == submit.checked_schema => return Err(SubmitError::ArgumentsInvalid(why)),
                    Found::New(Some(target)) => submit.checked_schema = target.schema,
                }
                continue;
            }
            match self.store.write(submit.clone(), |tx, it| Box::pin(enqueue(tx, it))).await {
                Ok((view, replayed)) => return Ok(self.answer(view, replayed)),
                Err(SubmitError::SchemaMoved(stands)) => submit.checked_schema = stands,
                Err(e) => return Err(e),
            }
        }
    }

    fn answer(&self, mut view: view::CommandView, replayed: bool) -> Submitted {
        self.freshen(&mut view.desktop);
        Submitted { view, replayed }
    }
}

async fn look(tx: &mut Tx, it: &Submit) -> Result<Found, SubmitError> {
    if !grant_stands(tx, &it.by, it.now).await? {
        return Err(SubmitError::Revoked);
    }
    if let Some(view) = earlier(tx, it).await? {
        return Ok(Found::Replay(Box::new(view)));
    }
    Ok(Found::New(target(tx, it).await?))
}

/// The command this key already made.
async fn earlier(tx: &mut Tx, it: &Submit) -> Result<Option<view::CommandView>, SubmitError> {
    let Some(row) = tx.row(EARLIER, params![it.by.agent, &it.key_hash]).await? else { return Ok(None) };
    if row.text(0)? != it.request_hash {
        return Err(SubmitError::KeyConflict);
    }
    let id: CommandId = row.id(1)?;
    Ok(view::find(tx, &view::statement("c.command_id = $1"), params![id], it.now).await?)
}

async fn schema_of(tx: &mut Tx, session: GraphSessionId) -> Result<Option<String>, StoreError> {
    let row = tx.row("SELECT arguments_schema FROM shared_sessions WHERE graph_session_id = $1 LIMIT 1", params![session]).await?;
    Ok(row.map(|row| row.opt_text(0).map(|text| text.map(str::to_owned))).transpose()?.flatten())
}

async fn target(tx: &mut Tx, it: &Submit) -> Result<Option<Target>, StoreError> {
    let Some(row) = tx.row(&target_statement(), params![it.by.agent, it.session, it.now]).await? else { return Ok(None) };
    Ok(Some(Target {
        project: row.id(0)?,
        slug: row.id(1)?,
        status: super::sync::status_of(row.text(2)?)?,
        schema: row.opt_text(3)?.map(str::to_owned),
        queued_in_project: row.int(4)?,
        queued_on_desktop: row.int(5)?,
        running_on_desktop: row.int(6)?,
        desktop: view::desktop(&row, 7)?,
    }))
}

async fn enqueue(tx: &mut Tx, it: &Submit) -> Result<(view::CommandView, bool), SubmitError> {
    // A repeat changes nothing and waits for no disk. Of two that race the key's unique index lets one in, and the other runs again.
    if let Some(view) = earlier(tx, it).await? {
        return if grant_stands(tx, &it.by, it.now).await? { Ok((view, true)) } else { Err(SubmitError::Revoked) };
    }
    let seq = lock_owner(tx, it.by.owner).await?;
    if !grant_stands(tx, &it.by, it.now).await? {
        return Err(SubmitError::Revoked);
    }
    let Some(target) = target(tx, it).await? else { return Err(SubmitError::SessionNotFound) };
    match target.status {
        SessionStatus::Ready => {}
        SessionStatus::Draft => return Err(SubmitError::NotReady("a draft")),
        SessionStatus::Archived => return Err(SubmitError::NotReady("archived")),
    }
    if target.schema != it.checked_schema {
        return Err(SubmitError::SchemaMoved(target.schema));
    }
    if target.queued_in_project >= it.queued_per_project as i64 {
        return Err(SubmitError::QueueFull { limit: it.queued_per_project });
    }
    insert(tx, it, &target, seq).await?;
    tx.ring(Bell::Device(target.desktop.device));
    Ok((queued_view(it, target), false))
}

async fn insert(tx: &mut Tx, it: &Submit, target: &Target, seq: i64) -> Result<(), StoreError> {
    let sql = "INSERT INTO commands (command_id, owner_id, project_id, agent_id, device_id, graph_session_id, slug, seq, key_hash, request_hash,
                 arguments, arguments_bytes, queued_at, expires_at, status, cancel_asked)
               VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, 'queued', 0)";
    let params = params![
        it.command,
        it.by.owner,
        target.project,
        it.by.agent,
        target.desktop.device,
        it.session,
        &target.slug,
        seq,
        &it.key_hash,
        &it.request_hash,
        &it.arguments,
        it.arguments.as_str().len() as i64,
        it.now,
        it.now.plus_ms(it.queued_ttl_ms)
    ];
    tx.execute(sql, params).await.map(drop)
}

/// The command just queued. It stands behind all that its desktop has.
fn queued_view(it: &Submit, target: Target) -> view::CommandView {
    view::CommandView {
        command: it.command,
        project: target.project,
        session: it.session,
        status: Status::Queued,
        reason: None,
        execution: None,
        cancel_asked: false,
        queued_at: it.now,
        started_at: None,
        ended_at: None,
        expires_at: it.now.plus_ms(it.queued_ttl_ms),
        progress: None,
        completion: None,
        desktop: target.desktop,
        ahead: target.queued_on_desktop,
        running: target.running_on_desktop,
    }
}
