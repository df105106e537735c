//! The owner's rules and per-tool settings, and the log of every ruling.
use std::collections::BTreeMap;

use agent::{
    gate::RulingLine,
    policy::{Rule, RuleBook, Ruling, StoredRule, ToolSetting},
};
use domain::{ExecutionId, Timestamp, wire::said::Sentence};
use rusqlite::params;

use super::{Store, StoreError, count, int, parsed};
use crate::view::Topic;

/// A rule with its record of use.
#[derive(Debug, Clone, PartialEq)]
pub struct RuleRecord {
    pub id: i64,
    pub text: String,
    pub created_at: Timestamp,
    pub last_used_at: Option<Timestamp>,
    pub uses: u64,
}

/// A line of the ruling log.
#[derive(Debug, Clone, PartialEq)]
pub struct RulingRecord {
    /// Position in the log: newer is larger.
    pub number: u64,
    pub at: Timestamp,
    pub execution: String,
    pub call: u64,
    pub graph: String,
    pub agent: Option<String>,
    pub tool: String,
    pub input_hash: String,
    pub ruling: Ruling,
    pub because: Sentence,
    pub answer: Option<String>,
    pub waited_ms: Option<u64>,
}

/// Most lines a page of the log holds.
pub const LOG_ROWS_MAX: u64 = 500;

impl Store {
    /// Everything the owner has said of tools, as the policy reads it.
    pub fn rule_book(&self) -> Result<RuleBook, StoreError> {
        self.read(|c| {
            let mut found = c.prepare_cached("SELECT id, text FROM rules ORDER BY id")?;
            let rules = found.query_map([], |r| Ok(StoredRule { id: r.get(0)?, text: r.get(1)? }))?.collect::<Result<_, _>>()?;
            let mut found = c.prepare_cached("SELECT tool, ruling, fingerprint FROM tool_settings")?;
            let rows = found.query_map([], |r| Ok((r.get::<_, String>(0)?, r.get::<_, String>(1)?, r.get::<_, Option<String>>(2)?)))?;
            let mut settings = BTreeMap::new();
            for row in rows {
                let (tool, ruling, fingerprint) = row?;
                settings.insert(tool, ToolSetting { ruling: parsed(&ruling, "ruling", ruling_of)?, fingerprint });
            }
            Ok(RuleBook { rules, settings })
        })
    }

    pub fn rules(&self) -> Result<Vec<RuleRecord>, StoreError> {
        self.read(|c| {
            let mut found = c.prepare_cached("SELECT id, text, created_at, last_used_at, uses FROM rules ORDER BY id DESC")?;
            let rows = found.query_map([], |r| {
                Ok(RuleRecord {
                    id: r.get(0)?,
                    text: r.get(1)?,
                    created_at: Timestamp::from_ms(r.get(2)?),
                    last_used_at: r.get::<_, Option<i64>>(3)?.map(Timestamp::from_ms),
                    uses: count(r.get(4)?),
                })
            })?;
            Ok(rows.collect::<Result<_, _>>()?)
        })
    }

    /// Saves a rule once: an equal one that is there already keeps its id.
    pub fn add_rule(&self, rule: &Rule, now: Timestamp) -> Result<i64, StoreError> {
        let text = rule.to_json();
        let id = self.write(|tx| {
            let same: Option<i64> = tx.query_row("SELECT min(id) FROM rules WHERE text = ?1", [&text], |r| r.get(0))?;
            if let Some(id) = same {
                return Ok(id);
            }
            tx.execute("INSERT INTO rules (text, created_at) VALUES (?1, ?2)", params![text, now.ms()])?;
            Ok::<_, StoreError>(tx.last_insert_rowid())
        })?;
        self.tell(Topic::Approvals);
        Ok(id)
    }

    pub fn delete_rule(&self, id: i64) -> Result<bool, StoreError> {
        let gone = self.write(|tx| Ok::<_, StoreError>(tx.execute("DELETE FROM rules WHERE id = ?1", [id])? > 0))?;
        self.tell(Topic::Approvals);
        Ok(gone)
    }

    pub fn set_tool(&self, tool: &str, setting: &ToolSetting, now: Timestamp) -> Result<(), StoreError> {
        self.write(|tx| {
            tx.execute(
                "INSERT INTO tool_settings (tool, ruling, fingerprint, set_at) VALUES (?1, ?2, ?3, ?4)
                 ON CONFLICT (tool) DO UPDATE SET ruling = excluded.ruling, fingerprint = excluded.fingerprint, set_at = excluded.set_at",
                params![tool, setting.ruling.word(), setting.fingerprint, now.ms()],
            )?;
            Ok::<_, StoreError>(())
        })?;
        self.tell(Topic::Approvals);
        Ok(())
    }

    /// Writes one ruling, durably: what cannot be written is not done. `agent` is the label of the agent that called.
    pub fn log_ruling(&self, line: &RulingLine, graph: &str, agent: Option<&str>, now: Timestamp) -> Result<(), StoreError> {
        let (answer, waited) = match &line.answer {
            Some((word, waited)) => (Some(*word), Some(int(waited.as_millis() as u64))),
            None => (None, None),
        };
        self.write(|tx| {
            tx.prepare_cached(
                "INSERT INTO rulings (at, execution_id, call, graph, agent, tool, input_hash, ruling, because, rule_id, answer, waited_ms)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)",
            )?
            .execute(params![
                now.ms(),
                line.execution.as_str(),
                int(line.call),
                graph,
                agent,
                line.tool,
                line.input_hash,
                line.ruling.word(),
                line.because.to_column(),
                line.rule,
                answer,
                waited
            ])?;
            if let Some(rule) = line.rule {
                tx.prepare_cached("UPDATE rules SET uses = uses + 1, last_used_at = ?2 WHERE id = ?1")?.execute(params![rule, now.ms()])?;
            }
            Ok(())
        })
    }

    /// A page of the log, newest first, and whether there is more: of one execution where it is given, older than `before` where that is.
    pub fn rulings(&self, execution: Option<&ExecutionId>, before: Option<u64>, limit: u64) -> Result<(Vec<RulingRecord>, bool), StoreError> {
        let limit = limit.min(LOG_ROWS_MAX);
        let of = if execution.is_some() { "execution_id = ?1" } else { "?1 IS NULL" };
        let mut page = self.read(|c| {
            let mut found = c.prepare_cached(&format!(
                "SELECT at, execution_id, call, graph, agent, tool, input_hash, ruling, because, answer, waited_ms, number FROM rulings
                  WHERE {of} AND number < ?2 ORDER BY number DESC LIMIT ?3"
            ))?;
            let rows = found.query_map(params![execution.map(ExecutionId::as_str), before.map_or(i64::MAX, int), int(limit + 1)], |r| {
                Ok((
                    r.get::<_, String>(7)?,
                    RulingRecord {
                        number: count(r.get(11)?),
                        at: Timestamp::from_ms(r.get(0)?),
                        execution: r.get(1)?,
                        call: count(r.get(2)?),
                        graph: r.get(3)?,
                        agent: r.get(4)?,
                        tool: r.get(5)?,
                        input_hash: r.get(6)?,
                        ruling: Ruling::Deny,
                        because: Sentence::from_column(r.get(8)?),
                        answer: r.get(9)?,
                        waited_ms: r.get::<_, Option<i64>>(10)?.map(count),
                    },
                ))
            })?;
            rows.map(|row| {
                let (word, record) = row?;
                Ok(RulingRecord { ruling: parsed(&word, "ruling", ruling_of)?, ..record })
            })
            .collect::<Result<Vec<_>, StoreError>>()
        })?;
        let more = page.len() as u64 > limit;
        page.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
        Ok((page, more))
    }
}

fn ruling_of(text: &str) -> Option<Ruling> {
    match text {
        "allow" => Some(Ruling::Allow),
        "ask" => Some(Ruling::Ask),
        "deny" => Some(Ruling::Deny),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use agent::policy::Scope;
    use domain::wire::said::said;

    use super::*;

    fn rule(tool: &str) -> Rule {
        Rule { tool: tool.into(), pattern: None, scope: Scope::Everywhere, effect: Ruling::Allow, fingerprint: None }
    }

    #[test]
    fn a_rule_is_saved_once_and_counts_its_uses() {
        let store = Store::in_memory().unwrap();
        let id = store.add_rule(&rule("write_file"), Timestamp::from_ms(1)).unwrap();
        assert_eq!(store.add_rule(&rule("write_file"), Timestamp::from_ms(2)).unwrap(), id);
        let line = RulingLine {
            execution: ExecutionId::parse("e-1").unwrap(),
            call: 1,
            agent: None,
            tool: "write_file".into(),
            input_hash: "ab".into(),
            ruling: Ruling::Allow,
            because: "rule 1".into(),
            rule: Some(id),
            answer: Some(("once", Duration::from_millis(1500))),
        };
        store.log_ruling(&line, "Digest", Some("writer"), Timestamp::from_ms(3)).unwrap();
        let rules = store.rules().unwrap();
        assert_eq!((rules.len(), rules[0].uses, rules[0].last_used_at), (1, 1, Some(Timestamp::from_ms(3))));
        let (log, more) = store.rulings(Some(&line.execution), None, 10).unwrap();
        assert!(!more);
        assert_eq!((log.len(), log[0].waited_ms, log[0].agent.as_deref()), (1, Some(1500), Some("writer")));
        assert_eq!(log[0].because, Sentence::from("rule 1"));
        let said = said("by_rule", "rule {id}: {rule}", [("id", 1_u64.into()), ("rule", rule("write_file").sentence().into())]);
        store.log_ruling(&RulingLine { because: said.clone(), ..line.clone() }, "Digest", None, Timestamp::from_ms(4)).unwrap();
        let (newest, more) = store.rulings(None, None, 1).unwrap();
        assert_eq!((newest.len(), &newest[0].because, more), (1, &said, true), "a page holds as many as were asked for");
        let older = store.rulings(None, Some(newest[0].number), 1).unwrap();
        assert_eq!((&older.0, older.1), (&log, false), "and the next one goes on where it ended");
        assert_eq!(store.rulings(Some(&ExecutionId::parse("other").unwrap()), None, 10).unwrap(), (Vec::new(), false));
        assert!(store.delete_rule(id).unwrap() && store.rule_book().unwrap().rules.is_empty());
    }
}
