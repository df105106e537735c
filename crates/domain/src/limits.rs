//! Every limit in one place, with the relations between them checked at compile time.
//!
//! Units stand last in the name. Reaching any of these has a tested answer.
pub const KIB: usize = 1024;
pub const MIB: usize = 1024 * KIB;
const MINUTE_MS: i64 = 60_000;
const DAY_MS: i64 = 24 * 60 * MINUTE_MS;

// ── The relay's contract ────────────────────────────────────────────────────────────────────────────────────────────
/// A pass starts this often, and at once after a sharing change.
pub const PASS_EVERY_MS: u64 = 20_000;
/// During an execution the relay asks "go on, or stop?" at least this often.
pub const CONTROL_POLL_EVERY_MS: u64 = 3_000;
/// Longest a control poll may be held by the server.
pub const CONTROL_HOLD_MS_MAX: u64 = 3_000;
/// Longest a doorbell may be held by the server.
pub const DOORBELL_HOLD_MS_MAX: u64 = 25_000;
/// Sessions one sync may carry for one project.
pub const SESSIONS_PER_SYNC_MAX: usize = 100;
/// A device compares what the queue holds of its Graphs with what it should hold at its start and this often.
pub const TEXTS_COMPARED_EVERY_MS: i64 = 60 * MINUTE_MS;
/// A request of the relay that has not been answered by then is given up (a held one: its hold and this much more).
pub const REQUEST_TIMEOUT_MS: u64 = 25_000;
/// A refused completion is tried ever more rarely, at most this rarely.
pub const OUTBOX_RETRY_MS_MAX: u64 = 60 * 60 * 1000;
/// Devices remember the commands they have seen this long, so that one offered again starts nothing.
pub const COMMANDS_REMEMBERED_MS: i64 = 31 * DAY_MS;

// ── Models ──────────────────────────────────────────────────────────────────────────────────────────────────────────
/// Models of one provider that have places of their own; the names beyond it, which any Graph may invent, share the provider's.
pub const MODEL_LANES_MAX: usize = 64;
/// Prices of the owner's own.
pub const PRICES_MAX: usize = 500;

// ── MCP servers of the owner ─────────────────────────────────────────────────────────────────────────────────────────
/// Servers kept by one desktop.
pub const MCP_SERVERS_MAX: usize = 32;
/// Arguments of a server's program.
pub const MCP_ARGS_MAX: usize = 100;
/// Environment variables or headers given to one server.
pub const MCP_VALUES_MAX: usize = 50;
/// Longest the owner may let a call of a server's tool take.
pub const MCP_TIMEOUT_S_MAX: u64 = 3_600;

// ── Completions ─────────────────────────────────────────────────────────────────────────────────────────────────────
/// A completion's JSON is at most this many UTF-16 code units, else its result is left out whole.
pub const COMPLETION_UTF16_MAX: usize = 100_000;
/// An error text is cut to this many UTF-16 code units, never inside a surrogate pair.
pub const ERROR_UTF16_MAX: usize = 2_000;

// ── The queue ───────────────────────────────────────────────────────────────────────────────────────────────────────
pub const QUEUED_TTL_MS: i64 = 7 * DAY_MS;
pub const RUNNING_TTL_MS: i64 = 30 * DAY_MS;
pub const RETENTION_MS: i64 = 30 * DAY_MS;
/// `online` means: authenticated contact within this time.
pub const DEVICE_ONLINE_MS: i64 = 60_000;
/// What `poll_after_seconds` advises; `docs/polling.md` derives the queued and the running one.
pub const POLL_AFTER_QUEUED_S: u64 = 20;
pub const POLL_AFTER_QUEUED_DOORBELL_S: u64 = 2;
pub const POLL_AFTER_RUNNING_S: u64 = 10;
pub const POLL_AFTER_OFFLINE_S: u64 = 30;
/// A device's last contact is stored at most this often.
pub const CONTACT_STORED_EVERY_MS: i64 = 15_000;
pub const QUEUED_PER_PROJECT_MAX: usize = 100;
pub const PAIRING_CODE_TTL_MS: i64 = 10 * MINUTE_MS;
pub const CONNECT_CODE_TTL_MS: i64 = 10 * MINUTE_MS;
/// Wrong connect codes one authorize request takes.
pub const CONNECT_CODE_TRIES_MAX: i64 = 5;
pub const AUTHORIZATION_CODE_TTL_MS: i64 = MINUTE_MS;
pub const ACCESS_TOKEN_TTL_MS: i64 = 60 * MINUTE_MS;
/// A refresh token dies when it was not used for so long; its grant needs a new consent after a year.
pub const REFRESH_TOKEN_TTL_MS: i64 = 60 * DAY_MS;
pub const CONSENT_TTL_MS: i64 = 365 * DAY_MS;
/// A refresh token that was just rotated gives the same successor again: clients refresh from two places at once.
pub const REFRESH_GRACE_MS: i64 = MINUTE_MS;
/// Registered clients that nobody ever allowed are forgotten.
pub const UNUSED_CLIENT_TTL_MS: i64 = DAY_MS;
pub const CLIENT_DOCUMENT_BYTES_MAX: usize = 64 * KIB;
pub const WAIT_SECONDS_MAX: u64 = 25;
pub const PAGE_MIN: u64 = 1;
pub const PAGE_MAX: u64 = 50;
pub const PAGE_DEFAULT: u64 = 20;
/// Rows of one page in the owner's browser.
pub const OWNER_PAGE_MAX: u64 = 200;
pub const HELD_REQUESTS_PER_DEVICE_MAX: usize = 4;
pub const REQUESTS_PER_SECOND_DEFAULT: u32 = 60;

// ── Sizes ───────────────────────────────────────────────────────────────────────────────────────────────────────────
pub const ARGUMENTS_BYTES_MAX: usize = MIB;
pub const BODY_BYTES_MAX: usize = 2 * MIB;
pub const SYNC_ANSWER_BYTES_MAX: usize = 4 * MIB;
pub const JSON_DEPTH_MAX: usize = 100;
pub const NAME_CHARS_MAX: usize = 120;
pub const DESCRIPTION_CHARS_MAX: usize = 2_000;
pub const SLUG_CHARS_MAX: usize = 64;
pub const EXECUTION_ID_CHARS_MAX: usize = 64;
pub const SCHEMA_BYTES_MAX: usize = 16 * KIB;
pub const ASKS_MAX: usize = 50;
pub const IDEMPOTENCY_KEY_CHARS_MIN: usize = 8;
pub const IDEMPOTENCY_KEY_CHARS_MAX: usize = 128;
pub const PROGRESS_TEXT_CHARS_MAX: usize = 500;

// ── The engine ──────────────────────────────────────────────────────────────────────────────────────────────────────
pub const SOURCE_BYTES_MAX: usize = 256 * KIB;
/// Brackets deeper than this are refused before any parser sees them: parsers recurse.
pub const SOURCE_DEPTH_MAX: usize = 200;
pub const VM_HEAP_BYTES_MAX: usize = 512 * MIB;
pub const VM_STACK_BYTES: usize = 256 * MIB;
pub const VM_RECURSION_MAX: usize = 2_000;
/// Far beyond what `VM_BUSY_MS_MAX` lets a script do on any machine of today: patience ends a loop, this is the net below it.
pub const VM_LOOP_ITERATIONS_MAX: u64 = 5_000_000_000;
pub const VM_VALUE_STACK_MAX: usize = 1_000_000;
/// Host calls one execution may make in all, and at once.
pub const HOST_CALLS_MAX: usize = 10_000;
pub const HOST_CALLS_IN_FLIGHT_MAX: usize = 1_024;
pub const RESULT_BYTES_MAX: usize = 8 * MIB;
/// A script that works this long without coming back to its host is stopped: it loops where no other limit counts.
pub const VM_BUSY_MS_MAX: u64 = 8_000;
/// One line of a script's log is cut to this many characters.
pub const LOG_CHARS_MAX: usize = 2_000;
/// `retry` takes at most this many attempts.
pub const RETRY_ATTEMPTS_MAX: usize = 20;
/// A result longer than this is large for an agent to read; the engine warns.
pub const RESULT_LARGE_CHARS: usize = 20_000;
pub const DEADLINE_MS_DEFAULT: u64 = 60 * 60 * 1000;
/// After a stop the script's process is gone within this time.
pub const STOP_GRACE_MS: u64 = 250;
pub const MAX_CONCURRENCY_DEFAULT: usize = 4;
pub const MAX_CONCURRENCY_MAX: usize = 64;
pub const TOKEN_CEILING_DEFAULT: u64 = 200_000;
pub const MAX_TOKENS_PER_CALL_DEFAULT: u64 = 4_096;
pub const AGENTS_PER_EXECUTION_MAX: usize = 500;
pub const LIST_ITEMS_MAX: usize = 1_000;
pub const GRAPH_DEPTH_MAX: usize = 5;
pub const AGENT_TURNS_MAX: usize = 25;
pub const AGENT_TIMEOUT_MS_DEFAULT: u64 = 600_000;
/// The same tool called with the same input this often in a row ends an agent.
pub const IDENTICAL_TOOL_CALLS_MAX: usize = 3;
/// This many failures of one class in a wave stop the wave.
pub const WAVE_FAILURES_MAX: usize = 3;
pub const MODEL_STALL_MS: u64 = 120_000;
pub const MODEL_ATTEMPTS_MAX: usize = 5;
pub const SCHEMA_REASKS_MAX: usize = 2;

// ── Tools and approvals ─────────────────────────────────────────────────────────────────────────────────────────────
pub const TOOL_OUTPUT_BYTES_MAX: usize = 64 * KIB;
pub const FILE_READ_BYTES_MAX: usize = MIB;
pub const FILE_WRITE_BYTES_MAX: usize = MIB;
pub const FILES_LISTED_MAX: usize = 1_000;
pub const COMMAND_TIMEOUT_MS: u64 = 60_000;
pub const HTTP_FETCH_BYTES_MAX: usize = 2 * MIB;
pub const APPROVAL_TIMEOUT_MS_DEFAULT: u64 = 10 * 60 * 1000;
/// After this many unanswered questions the rest of an execution's questions are denied at once.
pub const UNANSWERED_MAX: usize = 3;
/// The popup takes no answer in its first moments.
pub const POPUP_LOCKED_MS: u64 = 500;

// ── History ─────────────────────────────────────────────────────────────────────────────────────────────────────────
pub const HISTORY_RETENTION_DAYS_DEFAULT: u32 = 90;

const _: () = assert!(ARGUMENTS_BYTES_MAX < BODY_BYTES_MAX); // arguments must fit into their request
const _: () = assert!(BODY_BYTES_MAX < SYNC_ANSWER_BYTES_MAX); // one command always fits into a sync's answer
const _: () = assert!(COMPLETION_UTF16_MAX * 6 < BODY_BYTES_MAX); // even escaped, a whole completion fits into its request
const _: () = assert!(CONTROL_POLL_EVERY_MS as i64 * 5 <= DEVICE_ONLINE_MS); // four polls may be lost before we say offline
const _: () = assert!(POLL_AFTER_QUEUED_S * 1000 == PASS_EVERY_MS); // the first question is worth asking after one pickup interval
const _: () = assert!(PASS_EVERY_MS as i64 * 2 < DEVICE_ONLINE_MS); // so may one pass
const _: () = assert!(CONTACT_STORED_EVERY_MS + PASS_EVERY_MS as i64 * 2 <= DEVICE_ONLINE_MS); // and a contact stored late
const _: () = assert!(CONTROL_HOLD_MS_MAX <= CONTROL_POLL_EVERY_MS);
const _: () = assert!(DOORBELL_HOLD_MS_MAX <= REQUEST_TIMEOUT_MS);
const _: () = assert!(QUEUED_TTL_MS < RETENTION_MS && RETENTION_MS < COMMANDS_REMEMBERED_MS); // a remembered command outlives the server's copy
const _: () = assert!(MAX_TOKENS_PER_CALL_DEFAULT < TOKEN_CEILING_DEFAULT);
const _: () = assert!(REFRESH_GRACE_MS < ACCESS_TOKEN_TTL_MS && ACCESS_TOKEN_TTL_MS < REFRESH_TOKEN_TTL_MS && REFRESH_TOKEN_TTL_MS < CONSENT_TTL_MS);
const _: () = assert!(ERROR_UTF16_MAX < COMPLETION_UTF16_MAX);
const _: () = assert!(RESULT_LARGE_CHARS < COMPLETION_UTF16_MAX);
