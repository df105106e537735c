//! The outbox: completions the server has not confirmed.
//!
//! Invariant: a row leaves only after a 2xx of our shape or by the owner's own hand. A refused row does not hold up the others: it is
//! tried ever more rarely and shown to the owner with the server's words.
use domain::{CommandId, Completion, DeviceId, ExecutionId, Timestamp, limits::OUTBOX_RETRY_MS_MAX, limits::PASS_EVERY_MS};
use rusqlite::{Connection, Row, params};

use super::{Store, StoreError, count, int, parsed};
use crate::view::Topic;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutboxRow {
    pub command: CommandId,
    pub execution: Option<ExecutionId>,
    /// Posted as it stands.
    pub body: String,
    pub tries: u64,
    pub next_try_at: Timestamp,
    /// The server refused it: "needs attention".
    pub refused: bool,
    pub last_error: Option<String>,
    pub created_at: Timestamp,
}

/// How one attempt to deliver went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// A 2xx of our shape: the row goes. `status` is the state that stands on the server.
    Answered { recorded: bool, status: String },
    /// No answer, or none of ours: tried again at the next pass.
    NotDelivered { words: String },
    /// Refused in our own envelope, and waiting will not change it.
    Refused { words: String },
}

const COLUMNS: &str = "command_id, execution_id, body, tries, next_try_at, refused, last_error, created_at";

fn outbox_row(row: &Row<'_>) -> rusqlite::Result<Result<OutboxRow, StoreError>> {
    let (command, execution): (String, Option<String>) = (row.get(0)?, row.get(1)?);
    let (body, tries, refused, last_error) = (row.get(2)?, count(row.get(3)?), row.get(5)?, row.get(6)?);
    let (next_try_at, created_at) = (Timestamp::from_ms(row.get(4)?), Timestamp::from_ms(row.get(7)?));
    Ok((|| {
        let command = parsed(&command, "command_id", |t| CommandId::parse(t).ok())?;
        let execution = execution.map(|t| parsed(&t, "execution_id", |t| ExecutionId::parse(t).ok())).transpose()?;
        Ok(OutboxRow { command, execution, body, tries, next_try_at, refused, last_error, created_at })
    })())
}

fn rows(on: &Connection, clause: &str, params: &[&dyn rusqlite::ToSql]) -> Result<Vec<OutboxRow>, StoreError> {
    let mut statement = on.prepare_cached(&format!("SELECT {COLUMNS} FROM outbox {clause} ORDER BY number"))?;
    let found: Vec<_> = statement.query_map(params, outbox_row)?.collect::<rusqlite::Result<_>>()?;
    found.into_iter().collect()
}

/// A completion is immutable: one already waiting for this command stays.
pub(super) fn put(on: &Connection, command: CommandId, device: DeviceId, completion: &Completion, now: Timestamp) -> Result<(), StoreError> {
    on.prepare_cached("INSERT OR IGNORE INTO outbox (command_id, execution_id, body, device_id, created_at) VALUES (?1, ?2, ?3, ?4, ?5)")?
        .execute(params![command.to_string(), completion.execution().map(ExecutionId::as_str), completion.to_json(), device.to_string(), now.ms()])?;
    Ok(())
}

pub(super) fn holds(on: &Connection, command: CommandId) -> Result<bool, StoreError> {
    let mut statement = on.prepare_cached("SELECT EXISTS (SELECT 1 FROM outbox WHERE command_id = ?1)")?;
    Ok(statement.query_row([command.to_string()], |row| row.get(0))?)
}

/// Doubles from two passes up to an hour.
pub(super) fn refused_wait_ms(tries: u64) -> i64 {
    let doubled = PASS_EVERY_MS.saturating_mul(1 << tries.min(20));
    int(doubled.min(OUTBOX_RETRY_MS_MAX))
}

impl Store {
    pub fn outbox(&self) -> Result<Vec<OutboxRow>, StoreError> {
        self.read(|on| rows(on, "", &[]))
    }

    /// What this identity may deliver now, oldest first. A time beyond the longest wait can only come from a clock that was put back.
    pub fn outbox_due(&self, device: DeviceId, now: Timestamp) -> Result<Vec<OutboxRow>, StoreError> {
        self.read(|on| {
            let clause = "WHERE device_id = ?1 AND (next_try_at <= ?2 OR next_try_at > ?3)";
            rows(on, clause, &[&device.to_string(), &now.ms(), &now.plus_ms(int(OUTBOX_RETRY_MS_MAX)).ms()])
        })
    }

    /// What needs the owner: refused by the server, or made under an identity this device has no more.
    pub fn outbox_attention(&self) -> Result<Vec<OutboxRow>, StoreError> {
        self.read(|on| rows(on, "WHERE refused = 1 OR device_id NOT IN (SELECT device_id FROM pairing)", &[]))
    }

    pub(crate) fn outbox_settle(&self, command: CommandId, verdict: &Verdict, now: Timestamp) -> Result<(), StoreError> {
        self.write_soon(|tx| {
            match verdict {
                Verdict::Answered { recorded, status } => {
                    tx.prepare_cached("DELETE FROM outbox WHERE command_id = ?1")?.execute([command.to_string()])?;
                    // Not recorded, yet the state we reported stands: the answer to an earlier attempt was lost. An accepted cancel turns any
                    // ending into `cancelled`. Told once as delivered it stays so when it is told again.
                    tx.prepare_cached(
                        "UPDATE executions SET delivery_at = ?2, delivery_status = ?4,
                                delivery = CASE WHEN ?3 OR state = ?4 OR (cancel_asked AND ?4 = 'cancelled') THEN 'delivered' ELSE 'too_late' END
                          WHERE command_id = ?1 AND delivery <> 'delivered'",
                    )?
                    .execute(params![command.to_string(), now.ms(), recorded, status])?;
                }
                Verdict::NotDelivered { words } => {
                    tx.prepare_cached("UPDATE outbox SET tries = tries + 1, last_error = ?2 WHERE command_id = ?1")?
                        .execute(params![command.to_string(), words])?;
                }
                Verdict::Refused { words } => {
                    tx.prepare_cached("UPDATE outbox SET tries = tries + 1, last_error = ?2, refused = 1 WHERE command_id = ?1")?
                        .execute(params![command.to_string(), words])?;
                    for row in rows(tx, "WHERE command_id = ?1", &[&command.to_string()])? {
                        tx.prepare_cached("UPDATE outbox SET next_try_at = ?2 WHERE command_id = ?1")?
                            .execute(params![command.to_string(), now.plus_ms(refused_wait_ms(row.tries)).ms()])?;
                    }
                }
            }
            Ok::<_, StoreError>(())
        })?;
        self.tell(Topic::Status);
        self.tell(Topic::Sharing);
        Ok(())
    }

    /// The owner asks for another try of a refused completion, now.
    pub fn outbox_retry(&self, command: CommandId) -> Result<bool, StoreError> {
        let changed = self.write_soon(|tx| {
            let sql = "UPDATE outbox SET next_try_at = 0 WHERE command_id = ?1";
            Ok::<_, StoreError>(tx.prepare_cached(sql)?.execute([command.to_string()])?)
        })?;
        self.tell_sharing();
        Ok(changed > 0)
    }

    /// The owner gives a completion up. Only the owner can, and only a refused one. The history keeps the execution.
    pub fn outbox_discard(&self, command: CommandId, now: Timestamp) -> Result<bool, StoreError> {
        let gone = self.write(|tx| {
            let sql = "DELETE FROM outbox WHERE command_id = ?1 AND (refused = 1 OR device_id NOT IN (SELECT device_id FROM pairing))";
            let gone = tx.prepare_cached(sql)?.execute([command.to_string()])?;
            if gone > 0 {
                tx.prepare_cached("UPDATE executions SET delivery = 'discarded', delivery_at = ?2 WHERE command_id = ?1")?
                    .execute(params![command.to_string(), now.ms()])?;
            }
            Ok::<_, StoreError>(gone)
        })?;
        self.tell(Topic::Sharing);
        self.tell(Topic::Status);
        Ok(gone > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_completion_is_tried_ever_more_rarely_but_hourly_at_least() {
        let waits: Vec<i64> = (1..=9).map(refused_wait_ms).collect();
        assert_eq!(waits, [40_000, 80_000, 160_000, 320_000, 640_000, 1_280_000, 2_560_000, 3_600_000, 3_600_000]);
        assert_eq!(refused_wait_ms(u64::MAX), 3_600_000);
    }
}
