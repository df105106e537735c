-- Graphs whose text the queue holds, or may hold, for reading in the browser.
CREATE TABLE readable_uploads (
    graph_session_id TEXT PRIMARY KEY,
    -- What the queue answered that it holds; empty before its first answer.
    version          INTEGER,
    name             TEXT,
    -- The try that was refused last: the version it carried, 0 for a removal.
    refused_version  INTEGER,
    tries            INTEGER NOT NULL DEFAULT 0,
    next_try_at      INTEGER NOT NULL DEFAULT 0,
    last_error       TEXT
) STRICT, WITHOUT ROWID;
