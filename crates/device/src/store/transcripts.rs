//! What agents said, compressed, and the journal of their answers. Both may be lost with a power cut; an execution's ending may not.
use domain::{ExecutionId, RawJson, Timestamp};
use rusqlite::params;
use serde::{Deserialize, Serialize};

use super::{Store, StoreError, count, int, parsed};

/// A stretch of streamed text, and the number of the event it came after.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Piece {
    pub after: u64,
    pub at: Timestamp,
    pub text: String,
}

/// Transcripts compress well at the lowest level; a higher one costs more than it saves.
const LEVEL: i32 = 3;
const UNPACKED_BYTES_MAX: usize = 64 * 1024 * 1024;

impl Store {
    pub fn save_transcript(&self, execution: &ExecutionId, agent: u64, pieces: &[Piece]) -> Result<(), StoreError> {
        let broken = |_| StoreError::Unreadable { what: "transcript" };
        let json = serde_json::to_vec(pieces).map_err(|_| StoreError::Unreadable { what: "transcript" })?;
        let packed = zstd::bulk::compress(&json, LEVEL).map_err(broken)?;
        self.write_soon(|tx| {
            tx.prepare_cached("INSERT OR REPLACE INTO transcripts (execution_id, agent, pieces) VALUES (?1, ?2, ?3)")?.execute(params![
                execution.as_str(),
                int(agent),
                packed
            ])?;
            Ok(())
        })
    }

    /// By agent, in the order of speaking.
    pub fn transcripts(&self, execution: &ExecutionId) -> Result<Vec<(u64, Vec<Piece>)>, StoreError> {
        let packed: Vec<(i64, Vec<u8>)> = self.read(|c| {
            let mut found = c.prepare_cached("SELECT agent, pieces FROM transcripts WHERE execution_id = ?1 ORDER BY agent")?;
            Ok::<_, StoreError>(found.query_map([execution.as_str()], |r| Ok((r.get(0)?, r.get(1)?)))?.collect::<Result<_, _>>()?)
        })?;
        let broken = StoreError::Unreadable { what: "transcript" };
        let unpack = |(agent, packed): (i64, Vec<u8>)| {
            let json = zstd::bulk::decompress(&packed, UNPACKED_BYTES_MAX).ok()?;
            Some((count(agent), serde_json::from_slice(&json).ok()?))
        };
        packed.into_iter().map(unpack).collect::<Option<_>>().ok_or(broken)
    }

    /// Keeps a finished agent's answer for a later resume.
    pub fn keep_answer(&self, execution: &ExecutionId, key: &str, value: &RawJson) -> Result<(), StoreError> {
        self.write_soon(|tx| {
            tx.prepare_cached("INSERT INTO journal (execution_id, key, value) VALUES (?1, ?2, ?3)")?.execute(params![
                execution.as_str(),
                key,
                value.as_str()
            ])?;
            Ok(())
        })
    }

    /// Drops what belongs to executions that are no longer in the history: transcripts, journals, and rulings older than `before`.
    pub fn prune_stories(&self, before: Timestamp) -> Result<(), StoreError> {
        self.write_soon(|tx| {
            tx.execute("DELETE FROM transcripts WHERE execution_id NOT IN (SELECT id FROM executions)", [])?;
            tx.execute("DELETE FROM journal WHERE execution_id NOT IN (SELECT id FROM executions)", [])?;
            tx.execute("DELETE FROM rulings WHERE at < ?1 AND execution_id NOT IN (SELECT id FROM executions)", [before.ms()])?;
            Ok(())
        })
    }

    /// In the order in which the agents finished.
    pub fn journal(&self, execution: &ExecutionId) -> Result<Vec<(String, RawJson)>, StoreError> {
        self.read(|c| {
            let mut found = c.prepare_cached("SELECT key, value FROM journal WHERE execution_id = ?1 ORDER BY number")?;
            let rows = found.query_map([execution.as_str()], |r| Ok((r.get::<_, String>(0)?, r.get::<_, String>(1)?)))?;
            rows.map(|row| {
                let (key, value) = row?;
                Ok((key, parsed(&value, "journal answer", |t| RawJson::parse(t).ok())?))
            })
            .collect()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transcript_and_a_journal_read_back_as_they_were_told() {
        let store = Store::in_memory().unwrap();
        let execution = ExecutionId::parse("e-1").unwrap();
        let pieces = vec![Piece { after: 3, at: Timestamp::from_ms(5), text: "words ".repeat(1000) }];
        store.save_transcript(&execution, 2, &pieces).unwrap();
        assert_eq!(store.transcripts(&execution).unwrap(), [(2, pieces)]);
        let value = RawJson::parse(r#"{"n":1e+21}"#).unwrap();
        store.keep_answer(&execution, "k", &value).unwrap();
        assert_eq!(store.journal(&execution).unwrap(), [("k".to_owned(), value)]);
    }
}
