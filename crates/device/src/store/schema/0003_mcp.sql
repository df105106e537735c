-- MCP servers the owner added. Values of variables and headers are never here: they are in the secret store under mcp:<id>.
CREATE TABLE mcp_servers (
    id           TEXT PRIMARY KEY,
    name         TEXT NOT NULL UNIQUE,
    way          TEXT NOT NULL CHECK (way IN ('stdio', 'http')),
    -- The program of a stdio server, the address of an HTTP server.
    target       TEXT NOT NULL,
    args         TEXT NOT NULL DEFAULT '[]',
    -- Names of the environment variables or headers it gets.
    secret_names TEXT NOT NULL DEFAULT '[]',
    timeout_s    INTEGER NOT NULL,
    enabled      INTEGER NOT NULL,
    -- Its tools as they were last listed: offered and ruled on before it runs again.
    tools        TEXT NOT NULL DEFAULT '[]',
    added_at     INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- How its models are told about tools: in the protocol's own way, or led by a JSON Schema.
ALTER TABLE providers ADD COLUMN tool_calls TEXT NOT NULL DEFAULT 'native' CHECK (tool_calls IN ('native', 'emulated'));
-- Ollama: tokens of context to ask for.
ALTER TABLE providers ADD COLUMN context INTEGER;
