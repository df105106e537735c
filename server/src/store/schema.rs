//! The tables, for both databases, as forward-only steps.
//!
//! Types are TEXT and BIGINT alone; times are milliseconds, booleans 0 or 1, ids and hashes text. A column ending in `_json` holds
//! free text as a JSON string. A step that has been released is never edited: a change is a new step.
use super::StoreError;

/// The number of the last step.
pub const SCHEMA_VERSION: i64 = STEPS.len() as i64;

const STEPS: &[&str] = &[STEP_1, STEP_2, STEP_3, STEP_4];

/// Every index over queued commands is a page more to write for each of them: one for a device's, in their order, is enough.
const STEP_4: &str = "
DROP INDEX commands_offered;
DROP INDEX commands_in_line;
CREATE INDEX commands_in_line ON commands (device_id, seq, project_id, status) WHERE status = 'queued';
DROP INDEX commands_of_agent;
";

/// What is counted in every submission is counted from an index alone: SQLite reads `status` in the row unless the index holds it.
const STEP_3: &str = "
DROP INDEX commands_in_line;
CREATE INDEX commands_in_line ON commands (device_id, seq, status) WHERE status = 'queued';
DROP INDEX commands_of_project;
CREATE INDEX commands_of_project ON commands (project_id, expires_at, status) WHERE status = 'queued';
DROP INDEX commands_running;
CREATE INDEX commands_running ON commands (device_id, project_id, status) WHERE status = 'running';
";

/// OAuth, and the owner's browser page.
const STEP_2: &str = "
CREATE TABLE clients (client_hash TEXT PRIMARY KEY, client_json TEXT NOT NULL, created_at BIGINT NOT NULL, used_at BIGINT);
CREATE TABLE connect_codes (code_hash TEXT PRIMARY KEY, owner_id TEXT NOT NULL, grant_json TEXT NOT NULL, expires_at BIGINT NOT NULL, used_at BIGINT);
CREATE TABLE authorize_requests (request_hash TEXT PRIMARY KEY, request_json TEXT NOT NULL, tries BIGINT NOT NULL, expires_at BIGINT NOT NULL);
CREATE TABLE authorization_codes (
  code_hash TEXT PRIMARY KEY, agent_id TEXT NOT NULL, request_json TEXT NOT NULL, scopes TEXT NOT NULL, expires_at BIGINT NOT NULL, used_at BIGINT);
CREATE TABLE sign_in_codes (code_hash TEXT PRIMARY KEY, owner_id TEXT NOT NULL, expires_at BIGINT NOT NULL);
CREATE TABLE browser_sessions (cookie_hash TEXT PRIMARY KEY, owner_id TEXT NOT NULL, expires_at BIGINT NOT NULL);
CREATE TABLE readable_graphs (
  graph_session_id TEXT PRIMARY KEY, owner_id TEXT NOT NULL, device_id TEXT NOT NULL, name_json TEXT NOT NULL, text_json TEXT NOT NULL,
  updated_at BIGINT NOT NULL);
CREATE INDEX readable_graphs_by_owner ON readable_graphs (owner_id);
ALTER TABLE tokens ADD COLUMN client_id_json TEXT;
ALTER TABLE tokens ADD COLUMN scopes TEXT;
ALTER TABLE tokens ADD COLUMN consent_until BIGINT;
";

const STEP_1: &str = "
CREATE TABLE settings (name TEXT PRIMARY KEY, value TEXT NOT NULL);

-- `seq` is raised in every transaction that queues for this owner: it numbers the commands, and its row is the owner's lock.
CREATE TABLE owners (owner_id TEXT PRIMARY KEY, name_json TEXT NOT NULL UNIQUE, seq BIGINT NOT NULL, created_at BIGINT NOT NULL);

CREATE TABLE pairing_codes (code_hash TEXT PRIMARY KEY, owner_id TEXT NOT NULL, expires_at BIGINT NOT NULL, used_at BIGINT);

CREATE TABLE devices (
  device_id TEXT PRIMARY KEY, owner_id TEXT NOT NULL, name_json TEXT NOT NULL, token_hash TEXT UNIQUE, created_at BIGINT NOT NULL,
  unpaired_at BIGINT, last_contact_at BIGINT, pickup TEXT NOT NULL, paused BIGINT NOT NULL);
CREATE INDEX devices_by_owner ON devices (owner_id);

CREATE TABLE projects (project_id TEXT PRIMARY KEY, owner_id TEXT NOT NULL, name_json TEXT NOT NULL, created_at BIGINT NOT NULL, deleted_at BIGINT);
CREATE INDEX projects_by_owner ON projects (owner_id, created_at);

-- What one device last said about one project.
CREATE TABLE shares (
  device_id TEXT NOT NULL, project_id TEXT NOT NULL, revision BIGINT NOT NULL, list_hash TEXT NOT NULL, disabled BIGINT NOT NULL,
  PRIMARY KEY (device_id, project_id));
-- The sessions ticked there, as the last sync uploaded them.
CREATE TABLE shared_sessions (
  project_id TEXT NOT NULL, graph_session_id TEXT NOT NULL, device_id TEXT NOT NULL, name_json TEXT NOT NULL, description_json TEXT NOT NULL,
  slug TEXT NOT NULL, version BIGINT NOT NULL, status TEXT NOT NULL, arguments_schema TEXT, asks_json TEXT,
  PRIMARY KEY (project_id, graph_session_id));
CREATE INDEX shared_sessions_by_session ON shared_sessions (graph_session_id);
-- The first device to sync a Graph session holds it.
CREATE TABLE session_holders (graph_session_id TEXT PRIMARY KEY, device_id TEXT NOT NULL);
CREATE INDEX session_holders_by_device ON session_holders (device_id);

-- A connected agent is one grant.
CREATE TABLE agents (
  agent_id TEXT PRIMARY KEY, owner_id TEXT NOT NULL, name_json TEXT NOT NULL, kind TEXT NOT NULL, scopes TEXT NOT NULL, client_id_json TEXT,
  created_at BIGINT NOT NULL, last_used_at BIGINT, revoked_at BIGINT);
CREATE INDEX agents_by_owner ON agents (owner_id, created_at);
CREATE TABLE agent_projects (agent_id TEXT NOT NULL, project_id TEXT NOT NULL, PRIMARY KEY (agent_id, project_id));
CREATE TABLE tokens (
  token_hash TEXT PRIMARY KEY, agent_id TEXT NOT NULL, kind TEXT NOT NULL, created_at BIGINT NOT NULL, expires_at BIGINT, rotated_at BIGINT);
CREATE INDEX tokens_by_agent ON tokens (agent_id);
CREATE INDEX tokens_by_expiry ON tokens (expires_at);

CREATE TABLE commands (
  command_id TEXT PRIMARY KEY, owner_id TEXT NOT NULL, project_id TEXT NOT NULL, agent_id TEXT NOT NULL, device_id TEXT NOT NULL,
  graph_session_id TEXT NOT NULL, slug TEXT NOT NULL, seq BIGINT NOT NULL, key_hash TEXT NOT NULL, request_hash TEXT NOT NULL,
  arguments TEXT NOT NULL, arguments_bytes BIGINT NOT NULL, queued_at BIGINT NOT NULL, expires_at BIGINT NOT NULL, status TEXT NOT NULL,
  reason TEXT, execution_id TEXT, cancel_asked BIGINT NOT NULL, started_at BIGINT, ended_at BIGINT, last_control_at BIGINT, progress TEXT,
  completion TEXT);
CREATE UNIQUE INDEX commands_by_key ON commands (agent_id, key_hash);
CREATE UNIQUE INDEX commands_by_owner ON commands (owner_id, seq);
-- Every index a poll uses covers open commands only: its cost does not grow with history.
CREATE INDEX commands_offered ON commands (device_id, project_id, seq) WHERE status = 'queued';
CREATE INDEX commands_in_line ON commands (device_id, seq) WHERE status = 'queued';
CREATE INDEX commands_of_project ON commands (project_id) WHERE status = 'queued';
CREATE INDEX commands_expiring ON commands (expires_at) WHERE status = 'queued';
CREATE INDEX commands_running ON commands (device_id, project_id) WHERE status = 'running';
CREATE INDEX commands_ended ON commands (ended_at) WHERE ended_at IS NOT NULL;
CREATE INDEX commands_of_agent ON commands (agent_id) WHERE ended_at IS NULL;
";

fn check(found: i64) -> Result<usize, StoreError> {
    match usize::try_from(found) {
        Ok(done) if found <= SCHEMA_VERSION => Ok(done),
        _ => Err(StoreError::TooNew { found, known: SCHEMA_VERSION }),
    }
}

pub fn migrate_sqlite(conn: &mut rusqlite::Connection) -> Result<(), StoreError> {
    let tx = conn.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
    let done = check(tx.query_row("PRAGMA user_version", [], |row| row.get(0))?)?;
    for step in &STEPS[done..] {
        tx.execute_batch(step)?;
    }
    if done < STEPS.len() {
        tx.execute_batch(&format!("PRAGMA user_version = {SCHEMA_VERSION}"))?;
    }
    Ok(tx.commit()?)
}

pub async fn migrate_postgres(client: &mut deadpool_postgres::Object) -> Result<(), StoreError> {
    let tx = client.transaction().await?;
    // Several instances may start at once: the first one migrates, the others wait.
    tx.batch_execute("SELECT pg_advisory_xact_lock(4740216); CREATE TABLE IF NOT EXISTS schema_steps (done BIGINT NOT NULL)").await?;
    let found: i64 = tx.query_one("SELECT coalesce(max(done), 0) FROM schema_steps", &[]).await?.try_get(0)?;
    let done = check(found)?;
    for step in &STEPS[done..] {
        tx.batch_execute(step).await?;
    }
    if done < STEPS.len() {
        tx.execute("INSERT INTO schema_steps (done) VALUES ($1)", &[&SCHEMA_VERSION]).await?;
    }
    Ok(tx.commit().await?)
}
