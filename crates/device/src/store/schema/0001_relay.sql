-- Times are milliseconds since 1970. JSON of the owner is compact text. Rows only grow columns: older desktops' files are opened by newer ones.

CREATE TABLE graph_sessions (
    id          TEXT PRIMARY KEY,
    name        TEXT NOT NULL,
    slug        TEXT NOT NULL,
    description TEXT NOT NULL,
    status      TEXT NOT NULL CHECK (status IN ('draft', 'ready', 'archived')),
    version     INTEGER NOT NULL,
    created_at  INTEGER NOT NULL,
    updated_at  INTEGER NOT NULL,
    deleted_at  INTEGER
) STRICT;
-- A deleted session gives its slug back.
CREATE UNIQUE INDEX graph_sessions_slug ON graph_sessions (slug) WHERE deleted_at IS NULL;

-- Never updated but for its name: an execution points at the version it ran.
CREATE TABLE graph_versions (
    graph_session_id TEXT NOT NULL REFERENCES graph_sessions (id),
    version          INTEGER NOT NULL,
    source           TEXT NOT NULL,
    name             TEXT,
    saved_at         INTEGER NOT NULL,
    args_schema      TEXT,
    tools            TEXT NOT NULL DEFAULT '[]',
    models           TEXT NOT NULL DEFAULT '[]',
    PRIMARY KEY (graph_session_id, version)
) STRICT, WITHOUT ROWID;

-- revision counts up with every change of sharing; answered_revision is the last one the server confirmed.
CREATE TABLE projects (
    id                TEXT PRIMARY KEY,
    name              TEXT NOT NULL,
    enabled           INTEGER NOT NULL DEFAULT 0,
    readable          INTEGER NOT NULL DEFAULT 0,
    revision          INTEGER NOT NULL DEFAULT 0,
    answered_revision INTEGER NOT NULL DEFAULT 0,
    synced_at         INTEGER,
    sync_error        TEXT,
    added_at          INTEGER NOT NULL
) STRICT;

-- The owner's consent: this session may be run by commands of this project.
CREATE TABLE ticks (
    project_id       TEXT NOT NULL REFERENCES projects (id) ON DELETE CASCADE,
    graph_session_id TEXT NOT NULL REFERENCES graph_sessions (id),
    ticked_at        INTEGER NOT NULL,
    -- What the Graph could do when it was ticked, as JSON; powers gained since are shown.
    powers           TEXT NOT NULL DEFAULT '{}',
    PRIMARY KEY (project_id, graph_session_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX ticks_by_session ON ticks (graph_session_id);

-- ConnectedGraphProjectBinding: files what reports on a channel under its project.
CREATE TABLE connected_graph_project_bindings (
    channel    TEXT PRIMARY KEY,
    project_id TEXT NOT NULL,
    command_id TEXT NOT NULL,
    bound_at   INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE executions (
    number           INTEGER PRIMARY KEY AUTOINCREMENT,
    id               TEXT NOT NULL UNIQUE,
    channel          TEXT NOT NULL,
    graph_session_id TEXT NOT NULL,
    graph            TEXT NOT NULL,
    version          INTEGER NOT NULL,
    state            TEXT NOT NULL CHECK (state IN ('claiming', 'running', 'completed', 'failed', 'cancelled')),
    reason           TEXT,
    dry              INTEGER NOT NULL DEFAULT 0,
    args             TEXT NOT NULL,
    result           TEXT,
    error            TEXT,
    error_line       INTEGER,
    ceiling          INTEGER NOT NULL DEFAULT 0,
    max_concurrency  INTEGER NOT NULL DEFAULT 0,
    seed             INTEGER NOT NULL DEFAULT 0,
    tokens           INTEGER NOT NULL DEFAULT 0,
    cost             REAL,
    agents_done      INTEGER NOT NULL DEFAULT 0,
    agents_failed    INTEGER NOT NULL DEFAULT 0,
    ledger           TEXT NOT NULL DEFAULT '[]',
    resumed_from     TEXT,
    started_at       INTEGER NOT NULL,
    ended_at         INTEGER,
    -- Of a command's execution only. UNIQUE: a command has at most one execution here.
    command_id       TEXT UNIQUE,
    project_id       TEXT,
    -- The paired identity that claimed it, and alone may report its end.
    device_id        TEXT,
    agent            TEXT,
    slug             TEXT,
    queued_at        INTEGER,
    pickup_wait_ms   INTEGER,
    cancel_asked     INTEGER NOT NULL DEFAULT 0,
    delivery         TEXT NOT NULL DEFAULT 'none' CHECK (delivery IN ('none', 'outbox', 'delivered', 'too_late', 'discarded')),
    delivery_at      INTEGER,
    delivery_status  TEXT
) STRICT;
CREATE INDEX executions_by_session ON executions (graph_session_id, number);
CREATE INDEX executions_by_project ON executions (project_id, number) WHERE project_id IS NOT NULL;
CREATE INDEX executions_open ON executions (state) WHERE state IN ('claiming', 'running');

CREATE TABLE execution_events (
    execution_id TEXT NOT NULL,
    seq          INTEGER NOT NULL,
    event        TEXT NOT NULL,
    PRIMARY KEY (execution_id, seq)
) STRICT, WITHOUT ROWID;

-- Completions the server has not confirmed. body is posted as it stands here, byte for byte.
CREATE TABLE outbox (
    number       INTEGER PRIMARY KEY AUTOINCREMENT,
    command_id   TEXT NOT NULL UNIQUE,
    execution_id TEXT,
    body         TEXT NOT NULL,
    -- The paired identity that may deliver it; another queue would not know the command.
    device_id    TEXT NOT NULL,
    created_at   INTEGER NOT NULL,
    tries        INTEGER NOT NULL DEFAULT 0,
    next_try_at  INTEGER NOT NULL DEFAULT 0,
    -- The server refused it in words: it needs the owner's attention.
    refused      INTEGER NOT NULL DEFAULT 0,
    last_error   TEXT
) STRICT;

-- Commands with an execution on this device, remembered 31 days: longer than the server keeps them, whatever the history's retention.
CREATE TABLE seen_commands (
    command_id   TEXT PRIMARY KEY,
    execution_id TEXT,
    seen_at      INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX seen_commands_by_age ON seen_commands (seen_at);

CREATE TABLE pairing (
    only        INTEGER PRIMARY KEY CHECK (only = 1),
    address     TEXT NOT NULL,
    device_id   TEXT NOT NULL,
    device_name TEXT NOT NULL,
    owner       TEXT NOT NULL,
    builtin     INTEGER NOT NULL DEFAULT 0,
    paired_at   INTEGER NOT NULL
) STRICT;
