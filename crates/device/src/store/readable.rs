//! What the queue holds of the owner's Graphs for reading in the browser, and what it should hold.
//!
//! A Graph should be there while it is ticked for a project that is enabled and that the owner made readable; nothing else ever is.
//! Invariant: a row is on disk before its text is first sent, and goes only when the queue has answered the removal. So a lost answer, a
//! crash or an offline week cannot leave a text behind that nobody remembers.
use std::collections::BTreeMap;

use domain::{
    GraphSessionId, Timestamp,
    limits::{OUTBOX_RETRY_MS_MAX, PASS_EVERY_MS},
};
use rusqlite::{Connection, params};

use super::{Store, StoreError, count, int, outbox::refused_wait_ms, parsed};
use crate::view::Topic;

/// A Graph's name and newest version: when either changes, its text is sent again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    pub name: String,
    pub version: u64,
}

/// A row: what the queue answered, if it did, and the last refusal.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Held {
    pub answered: Option<Wanted>,
    refused_version: Option<u64>,
    next_try_at: i64,
    pub last_error: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    Remove(GraphSessionId),
    Upload(GraphSessionId),
}

/// A Graph's text as it is sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadableText {
    pub name: String,
    pub version: u64,
    pub source: String,
}

/// Where the queue stands against the owner's switches.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ReadableState {
    /// There, and up to date.
    pub readable: u64,
    pub uploading: u64,
    /// Not wanted there any more, and the queue has not answered yet.
    pub removing: u64,
    pub last_error: Option<String>,
}

type Wishes = BTreeMap<GraphSessionId, Wanted>;
type Rows = BTreeMap<GraphSessionId, Held>;

/// Version 0 stands for a removal: real versions count from 1.
const REMOVAL: u64 = 0;

impl Held {
    /// A refused try is repeated ever more rarely, another one at once. A time beyond the longest wait can only come from a clock that was
    /// put back.
    fn is_due(&self, version: u64, now: Timestamp) -> bool {
        let wait = self.next_try_at - now.ms();
        self.refused_version != Some(version) || wait <= 0 || wait > int(OUTBOX_RETRY_MS_MAX)
    }
}

/// What to do now, removals first.
fn plan(wanted: &Wishes, held: &Rows, now: Timestamp) -> Vec<Step> {
    let gone = held.iter().filter(|(id, row)| !wanted.contains_key(*id) && row.is_due(REMOVAL, now)).map(|(id, _)| Step::Remove(*id));
    let stale = wanted.iter().filter(|(id, wish)| match held.get(*id) {
        None => true,
        Some(row) => row.answered.as_ref() != Some(*wish) && row.is_due(wish.version, now),
    });
    gone.chain(stale.map(|(id, _)| Step::Upload(*id))).collect()
}

fn wanted(on: &Connection) -> Result<Wishes, StoreError> {
    let mut statement = on.prepare_cached(
        "SELECT DISTINCT g.id, g.name, g.version FROM projects p JOIN ticks t ON t.project_id = p.id JOIN graph_sessions g ON g.id = t.graph_session_id
          WHERE p.enabled AND p.readable AND g.deleted_at IS NULL",
    )?;
    let rows: Vec<(String, String, i64)> = statement.query_map([], |r| Ok((r.get(0)?, r.get(1)?, r.get(2)?)))?.collect::<Result<_, _>>()?;
    rows.into_iter().map(|(id, name, version)| Ok((session(&id)?, Wanted { name, version: count(version) }))).collect()
}

fn held(on: &Connection) -> Result<Rows, StoreError> {
    let mut statement =
        on.prepare_cached("SELECT graph_session_id, version, name, refused_version, next_try_at, last_error FROM readable_uploads")?;
    let rows: Vec<(String, Held)> = statement
        .query_map([], |r| {
            let answered = match (r.get(1)?, r.get(2)?) {
                (Some(version), Some(name)) => Some(Wanted { name, version: count(version) }),
                (None, _) | (_, None) => None,
            };
            let refused_version = r.get::<_, Option<i64>>(3)?.map(count);
            Ok((r.get(0)?, Held { answered, refused_version, next_try_at: r.get(4)?, last_error: r.get(5)? }))
        })?
        .collect::<Result<_, _>>()?;
    rows.into_iter().map(|(id, row)| Ok((session(&id)?, row))).collect()
}

fn session(text: &str) -> Result<GraphSessionId, StoreError> {
    parsed(text, "graph_session_id", |t| GraphSessionId::parse(t).ok())
}

impl Store {
    /// What brings the queue in line with the owner's switches, of what may be tried now.
    pub(crate) fn readable_plan(&self, now: Timestamp) -> Result<Vec<Step>, StoreError> {
        self.read(|on| {
            let tx = on.unchecked_transaction()?;
            Ok(plan(&wanted(&tx)?, &held(&tx)?, now))
        })
    }

    /// The text to send, if the owner still wants it there; from here on the queue may hold it. Waits for the disk.
    pub(crate) fn begin_upload(&self, id: GraphSessionId) -> Result<Option<ReadableText>, StoreError> {
        self.write(|tx| {
            let Some(Wanted { name, version }) = wanted(tx)?.remove(&id) else { return Ok(None) };
            let Some(saved) = super::graphs::version(tx, id, version)? else { return Ok(None) };
            tx.prepare_cached("INSERT INTO readable_uploads (graph_session_id) VALUES (?1) ON CONFLICT DO NOTHING")?.execute([id.to_string()])?;
            Ok(Some(ReadableText { name, version, source: saved.source }))
        })
    }

    pub(crate) fn upload_answered(&self, id: GraphSessionId, sent: &ReadableText) -> Result<(), StoreError> {
        self.settle_readable(|tx| {
            tx.prepare_cached(
                "UPDATE readable_uploads SET version = ?2, name = ?3, refused_version = NULL, tries = 0, last_error = NULL WHERE graph_session_id = ?1",
            )?
            .execute(params![id.to_string(), int(sent.version), sent.name])
        })
    }

    pub(crate) fn removal_answered(&self, id: GraphSessionId) -> Result<(), StoreError> {
        self.settle_readable(|tx| tx.prepare_cached("DELETE FROM readable_uploads WHERE graph_session_id = ?1")?.execute([id.to_string()]))
    }

    /// `version` is the one that was sent; none for a removal. `is_final`: the queue refused it, and waiting will not change that soon.
    pub(crate) fn readable_failed(
        &self,
        id: GraphSessionId,
        version: Option<u64>,
        words: &str,
        is_final: bool,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        self.settle_readable(|tx| {
            let sql = "UPDATE readable_uploads SET last_error = ?2 WHERE graph_session_id = ?1 AND last_error IS NOT ?2";
            let changed = tx.prepare_cached(sql)?.execute(params![id.to_string(), words])?;
            if is_final {
                let sql = "UPDATE readable_uploads SET tries = CASE WHEN refused_version = ?2 THEN tries + 1 ELSE 1 END, refused_version = ?2
                            WHERE graph_session_id = ?1 RETURNING tries";
                let version = int(version.unwrap_or(REMOVAL));
                let tries: i64 = tx.prepare_cached(sql)?.query_row(params![id.to_string(), version], |row| row.get(0))?;
                let next = now.plus_ms(refused_wait_ms(count(tries)));
                tx.prepare_cached("UPDATE readable_uploads SET next_try_at = ?2 WHERE graph_session_id = ?1")?
                    .execute(params![id.to_string(), next.ms()])?;
            }
            Ok(changed)
        })
    }

    /// What the queue says that it holds: what is not known here may have to go, what is missing there is sent anew.
    pub(crate) fn compare_uploads(&self, there: &[GraphSessionId]) -> Result<(), StoreError> {
        self.settle_readable(|tx| {
            let mut changed = 0;
            for id in there {
                let sql = "INSERT INTO readable_uploads (graph_session_id) VALUES (?1) ON CONFLICT DO NOTHING";
                changed += tx.prepare_cached(sql)?.execute([id.to_string()])?;
            }
            let mut known = tx.prepare_cached("SELECT graph_session_id FROM readable_uploads WHERE version IS NOT NULL")?;
            let known: Vec<String> = known.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
            for id in known.iter().filter(|id| !there.iter().any(|t| t.to_string() == **id)) {
                changed += tx.prepare_cached("UPDATE readable_uploads SET version = NULL, name = NULL WHERE graph_session_id = ?1")?.execute([id])?;
            }
            Ok(changed)
        })
    }

    /// A power loss may undo this: the same is then asked again.
    fn settle_readable(&self, change: impl FnOnce(&rusqlite::Connection) -> rusqlite::Result<usize>) -> Result<(), StoreError> {
        if self.write_soon(|tx| Ok::<_, StoreError>(change(tx)?))? > 0 {
            self.tell(Topic::Sharing);
        }
        Ok(())
    }

    pub fn readable_state(&self) -> Result<ReadableState, StoreError> {
        self.read(|on| {
            let tx = on.unchecked_transaction()?;
            let (wanted, held) = (wanted(&tx)?, held(&tx)?);
            let readable = wanted.iter().filter(|(id, wish)| held.get(*id).is_some_and(|row| row.answered.as_ref() == Some(*wish))).count() as u64;
            Ok(ReadableState {
                readable,
                uploading: wanted.len() as u64 - readable,
                removing: held.keys().filter(|id| !wanted.contains_key(*id)).count() as u64,
                last_error: held.into_values().find_map(|row| row.last_error),
            })
        })
    }
}

const _: () = assert!(PASS_EVERY_MS < OUTBOX_RETRY_MS_MAX);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_plan_removes_first_sends_what_changed_and_repeats_a_refusal_rarely() {
        let id = |n: u8| GraphSessionId::from_random([n; 16]);
        let wish = |version| Wanted { name: "A".into(), version };
        let row =
            |answered: Option<Wanted>, refused: Option<u64>, next_try_at| Held { answered, refused_version: refused, next_try_at, last_error: None };
        let at = Timestamp::from_ms;
        for (what, wanted, held, expected) in [
            ("never sent", Some(wish(1)), None, Some(Step::Upload(id(1)))),
            ("sent, and no answer came", Some(wish(1)), Some(row(None, None, 0)), Some(Step::Upload(id(1)))),
            ("there", Some(wish(1)), Some(row(Some(wish(1)), None, 0)), None),
            ("a newer version", Some(wish(2)), Some(row(Some(wish(1)), None, 0)), Some(Step::Upload(id(1)))),
            ("renamed", Some(wish(1)), Some(row(Some(Wanted { name: "B".into(), version: 1 }), None, 0)), Some(Step::Upload(id(1)))),
            ("not wanted", None, Some(row(Some(wish(1)), None, 0)), Some(Step::Remove(id(1)))),
            ("not wanted, perhaps there", None, Some(row(None, None, 0)), Some(Step::Remove(id(1)))),
            ("refused, too early", Some(wish(2)), Some(row(None, Some(2), 9_000)), None),
            ("refused, time is up", Some(wish(2)), Some(row(None, Some(2), 5_000)), Some(Step::Upload(id(1)))),
            ("an older version was refused", Some(wish(3)), Some(row(None, Some(2), 9_000)), Some(Step::Upload(id(1)))),
            ("its upload was refused, its removal was not", None, Some(row(None, Some(2), 9_000)), Some(Step::Remove(id(1)))),
            ("its removal was refused, too early", None, Some(row(None, Some(REMOVAL), 9_000)), None),
            ("the clock was put back by a day", None, Some(row(None, Some(REMOVAL), 86_400_000)), Some(Step::Remove(id(1)))),
        ] {
            let wishes = wanted.into_iter().map(|w| (id(1), w)).collect();
            let rows = held.into_iter().map(|h| (id(1), h)).collect();
            assert_eq!(plan(&wishes, &rows, at(5_000)), expected.into_iter().collect::<Vec<_>>(), "{what}");
        }
        let wishes = [(id(1), wish(1))].into();
        let rows = [(id(2), row(None, None, 0))].into();
        assert_eq!(plan(&wishes, &rows, at(0)), [Step::Remove(id(2)), Step::Upload(id(1))]);
    }
}
