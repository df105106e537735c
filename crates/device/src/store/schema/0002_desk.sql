-- The owner's settings: key and JSON value. A key that is missing has its default.
CREATE TABLE settings (
    key   TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- Folders tools may see.
CREATE TABLE folders (
    path     TEXT PRIMARY KEY,
    access   TEXT NOT NULL CHECK (access IN ('read', 'write')),
    added_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- text is the rule as JSON, read anew for each ruling: what cannot be read denies.
CREATE TABLE rules (
    id           INTEGER PRIMARY KEY AUTOINCREMENT,
    text         TEXT NOT NULL,
    created_at   INTEGER NOT NULL,
    last_used_at INTEGER,
    uses         INTEGER NOT NULL DEFAULT 0
) STRICT;

CREATE TABLE tool_settings (
    tool        TEXT PRIMARY KEY,
    ruling      TEXT NOT NULL CHECK (ruling IN ('allow', 'ask', 'deny')),
    fingerprint TEXT,
    set_at      INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Every ruling, written before the tool acts. An asked call has two lines: the question and its answer.
CREATE TABLE rulings (
    number       INTEGER PRIMARY KEY AUTOINCREMENT,
    at           INTEGER NOT NULL,
    execution_id TEXT NOT NULL,
    call         INTEGER NOT NULL,
    graph        TEXT NOT NULL,
    agent        TEXT,
    tool         TEXT NOT NULL,
    input_hash   TEXT NOT NULL,
    ruling       TEXT NOT NULL CHECK (ruling IN ('allow', 'ask', 'deny')),
    because      TEXT NOT NULL,
    rule_id      INTEGER,
    answer       TEXT,
    waited_ms    INTEGER
) STRICT;
CREATE INDEX rulings_by_execution ON rulings (execution_id, number);

-- Where models are. Keys are never here: they are in the secret store under provider:<id>.
CREATE TABLE providers (
    id          TEXT PRIMARY KEY,
    kind        TEXT NOT NULL CHECK (kind IN ('anthropic', 'openai_compatible', 'ollama')),
    name        TEXT NOT NULL UNIQUE,
    address     TEXT NOT NULL,
    has_key     INTEGER NOT NULL DEFAULT 0,
    models      TEXT NOT NULL DEFAULT '[]',
    concurrency INTEGER NOT NULL,
    added_at    INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- default, fast, strong, local → provider/model.
CREATE TABLE model_aliases (
    alias TEXT PRIMARY KEY,
    model TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- Dollars per million tokens, where the owner set them.
CREATE TABLE prices (
    model  TEXT PRIMARY KEY,
    input  REAL NOT NULL,
    output REAL NOT NULL
) STRICT, WITHOUT ROWID;

-- What an agent's model said, compressed: JSON list of {after, at, text}, `after` being the number of the event it came after.
CREATE TABLE transcripts (
    execution_id TEXT NOT NULL,
    agent        INTEGER NOT NULL,
    pieces       BLOB NOT NULL,
    PRIMARY KEY (execution_id, agent)
) STRICT, WITHOUT ROWID;

-- Answers of finished agents by the content of their call: what a resumed execution need not pay again.
CREATE TABLE journal (
    number       INTEGER PRIMARY KEY AUTOINCREMENT,
    execution_id TEXT NOT NULL,
    key          TEXT NOT NULL,
    value        TEXT NOT NULL
) STRICT;
CREATE INDEX journal_by_execution ON journal (execution_id, number);
