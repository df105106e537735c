//! The immutable outcome of a command, as the relay posts it.
//!
//! All or nothing: a body of at most [`COMPLETION_UTF16_MAX`] UTF-16 code units carries the whole result, a longer one none of it.
//! The whole record always stays in the device's history under its execution id.
use crate::{
    command::{CancelReason, Ending, FailReason},
    ids::ExecutionId,
    json::{RawJson, js_number},
    limits::{COMPLETION_UTF16_MAX, ERROR_UTF16_MAX},
    text::{NOT_SHARED, cut_utf16, utf16_len},
};

/// What an execution used. `cost` is `None` where no price is known, never zero for unknown.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Used {
    pub total_tokens: u64,
    pub cost: Option<f64>,
}

/// How one execution of a Graph ended, before it is cut to what travels.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    Completed { result: RawJson, used: Used },
    Failed { why: FailReason, error: String, used: Used },
    Cancelled { why: CancelReason, error: String, used: Used },
}

impl Outcome {
    pub const fn ending(&self) -> Ending {
        match self {
            Self::Completed { .. } => Ending::Completed,
            Self::Failed { why, .. } => Ending::Failed(*why),
            Self::Cancelled { why, .. } => Ending::Cancelled(*why),
        }
    }
    pub const fn used(&self) -> Used {
        match self {
            Self::Completed { used, .. } | Self::Failed { used, .. } | Self::Cancelled { used, .. } => *used,
        }
    }
}

/// The body of `…/complete`. Its JSON is made once, stored in the outbox, and posted as it was stored.
#[derive(Debug, Clone, PartialEq)]
pub enum Completion {
    Done {
        execution: ExecutionId,
        result: RawJson,
        used: Used,
    },
    /// Completed, but the result is too long to travel.
    DoneTruncated {
        execution: ExecutionId,
    },
    Ended {
        execution: ExecutionId,
        ending: Ending,
        error: String,
        used: Used,
    },
    /// Consent was gone before the claim: no execution exists.
    NotShared,
}

impl Completion {
    /// Cuts an outcome to what may travel.
    pub fn bounded(execution: ExecutionId, outcome: &Outcome) -> Self {
        match outcome {
            Outcome::Completed { result, used } => {
                let whole = Self::Done { execution: execution.clone(), result: result.clone(), used: *used };
                if utf16_len(&whole.to_json()) <= COMPLETION_UTF16_MAX { whole } else { Self::DoneTruncated { execution } }
            }
            Outcome::Failed { error, used, .. } | Outcome::Cancelled { error, used, .. } => {
                Self::Ended { execution, ending: outcome.ending(), error: cut_utf16(error, ERROR_UTF16_MAX).to_owned(), used: *used }
            }
        }
    }

    pub const fn execution(&self) -> Option<&ExecutionId> {
        match self {
            Self::Done { execution, .. } | Self::DoneTruncated { execution } | Self::Ended { execution, .. } => Some(execution),
            Self::NotShared => None,
        }
    }

    pub const fn ending(&self) -> Ending {
        match self {
            Self::Done { .. } | Self::DoneTruncated { .. } => Ending::Completed,
            Self::Ended { ending, .. } => *ending,
            Self::NotShared => Ending::Cancelled(CancelReason::NotShared),
        }
    }

    /// The compact text, in the published order of its members.
    pub fn to_json(&self) -> String {
        let quoted = |text: &str| serde_json::Value::from(text).to_string();
        let cost = |used: &Used| used.cost.map_or_else(|| "null".into(), js_number);
        match self {
            Self::Done { execution, result, used } => format!(
                r#"{{"execution_id":"{execution}","status":"completed","result":{result},"total_tokens":{},"reported_cost":{}}}"#,
                used.total_tokens,
                cost(used)
            ),
            Self::DoneTruncated { execution } => format!(r#"{{"execution_id":"{execution}","status":"completed","result_truncated":true}}"#),
            Self::Ended { execution, ending, error, used } => {
                let (status, reason) = match ending {
                    Ending::Failed(why) => ("failed", why.as_str()),
                    Ending::Cancelled(why) => ("cancelled", why.as_str()),
                    Ending::Completed => ("completed", "done"),
                };
                format!(
                    r#"{{"execution_id":"{execution}","status":"{status}","reason":"{reason}","error":{},"total_tokens":{},"reported_cost":{}}}"#,
                    quoted(error),
                    used.total_tokens,
                    cost(used)
                )
            }
            Self::NotShared => format!(r#"{{"execution_id":null,"status":"cancelled","reason":"not_shared","error":{}}}"#, quoted(NOT_SHARED)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const UUID: &str = "3f2b8c1e-9a4d-4c6b-8e2f-0a1b2c3d4e5f";

    fn done(id: &str, result: &str) -> Completion {
        let result = RawJson::of(&serde_json::Value::from(result));
        let used = Used { total_tokens: 0, cost: Some(0.0) };
        Completion::bounded(ExecutionId::parse(id).unwrap(), &Outcome::Completed { result, used })
    }
    fn is_whole(c: &Completion) -> bool {
        matches!(c, Completion::Done { .. })
    }

    #[test]
    fn a_result_travels_whole_or_not_at_all() {
        for (result, units, whole) in [
            ("😀".repeat(49_900), 99_923, true),
            ("😀".repeat(60_000), 120_123, false),
            ("é".repeat(99_000), 99_123, true),
            ("x".repeat(100_000 - 123), 100_000, true),
            ("x".repeat(100_001 - 123), 100_001, false),
        ] {
            let raw = RawJson::of(&serde_json::Value::from(result.as_str()));
            let body =
                Completion::Done { execution: ExecutionId::parse(UUID).unwrap(), result: raw, used: Used { total_tokens: 0, cost: Some(0.0) } };
            assert_eq!(utf16_len(&body.to_json()), units);
            let sent = done(UUID, &result);
            assert_eq!(is_whole(&sent), whole, "{units} units");
            if !whole {
                assert_eq!(sent.to_json(), format!(r#"{{"execution_id":"{UUID}","status":"completed","result_truncated":true}}"#));
            }
        }
    }

    #[test]
    fn the_published_envelope_holds_99_899_characters_of_any_script() {
        for (letter, bytes) in [("a", 99_899), ("語", 299_697)] {
            let fits = letter.repeat(99_899);
            assert_eq!(fits.len(), bytes);
            assert!(is_whole(&done("exec-000000001", &fits)));
            assert!(!is_whole(&done("exec-000000001", &letter.repeat(99_900))));
        }
    }

    #[test]
    fn errors_are_cut_to_two_thousand_units() {
        let execution = || ExecutionId::parse(UUID).unwrap();
        for (error, expected) in [
            (format!("{}😀", "x".repeat(1999)), "x".repeat(1999)),
            ("😀".repeat(3000), "😀".repeat(1000)),
            ("中".repeat(5000), "中".repeat(2000)),
            ("a\0b\"".to_owned(), "a\0b\"".to_owned()),
        ] {
            let outcome = Outcome::Failed { why: FailReason::ScriptError, error, used: Used::default() };
            let sent = Completion::bounded(execution(), &outcome);
            let json: serde_json::Value = serde_json::from_str(&sent.to_json()).unwrap();
            assert_eq!(json["error"], expected);
            assert_eq!(json["reported_cost"], serde_json::Value::Null, "an unknown cost is null, not zero");
        }
    }

    #[test]
    fn not_shared_before_a_claim_names_no_execution() {
        assert_eq!(
            Completion::NotShared.to_json(),
            r#"{"execution_id":null,"status":"cancelled","reason":"not_shared","error":"Graph session is no longer shared with this project"}"#
        );
    }

    proptest! {
        #[test]
        fn what_travels_never_exceeds_the_limit_and_never_lies(result in "\\PC{0,80}", times in 0usize..4000, tokens in 0u64..1_000_000, cost in proptest::option::of(0.0f64..1e6)) {
            let raw = RawJson::of(&serde_json::Value::from(result.repeat(times)));
            let outcome = Outcome::Completed { result: raw.clone(), used: Used { total_tokens: tokens, cost } };
            let sent = Completion::bounded(ExecutionId::parse(UUID).unwrap(), &outcome);
            let json = sent.to_json();
            prop_assert!(utf16_len(&json) <= COMPLETION_UTF16_MAX);
            let read: serde_json::Value = serde_json::from_str(&json).unwrap();
            match sent {
                Completion::Done { .. } => prop_assert_eq!(&read["result"], &raw.to_value()),
                Completion::DoneTruncated { .. } => prop_assert!(read.get("result").is_none() && read["result_truncated"] == true),
                Completion::Ended { .. } | Completion::NotShared => prop_assert!(false),
            }
        }

        #[test]
        fn an_error_is_cut_on_a_character(error in "\\PC{0,3000}") {
            let cut = cut_utf16(&error, ERROR_UTF16_MAX);
            prop_assert!(error.starts_with(cut) && utf16_len(cut) <= ERROR_UTF16_MAX);
            prop_assert!(cut.len() == error.len() || utf16_len(cut) >= ERROR_UTF16_MAX - 1);
        }
    }
}
