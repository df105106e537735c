//! Which approval popup is open: one at a time, first in first out, a closed one is set aside.
//!
//! Pure: it is told what waits and says what to close and open; `windows` does it. What is *not* here: answering (the desk does) and
//! deadlines. Invariant: at most one popup is open, and it shows a question that waits.
use std::collections::HashSet;

const LABEL: &str = "approval-";

/// The label of a question's window. It is the only place a popup's question is written: popups name none in their calls.
pub fn label(approval: u64) -> String {
    format!("{LABEL}{approval}")
}

/// The question a window may see and answer; `None` for every other window.
pub fn question_of(label: &str) -> Option<u64> {
    let digits = label.strip_prefix(LABEL)?;
    if digits.bytes().all(|b| b.is_ascii_digit()) { digits.parse().ok() } else { None }
}

#[derive(Debug, Default)]
pub struct Popups {
    open: Option<u64>,
    /// Closed by the owner without an answer: "not now". They wait in the main window until they are answered or their time is up.
    set_aside: HashSet<u64>,
}

#[derive(Debug, Default, PartialEq, Eq)]
pub struct Step {
    pub close: Option<u64>,
    pub open: Option<u64>,
}

impl Popups {
    /// What must change now that exactly `waiting` wait, in the order they were asked.
    pub fn step(&mut self, waiting: &[u64]) -> Step {
        let close = self.open.take_if(|open| !waiting.contains(open));
        self.set_aside.retain(|approval| waiting.contains(approval));
        let mut open = None;
        if self.open.is_none() {
            open = waiting.iter().copied().find(|approval| !self.set_aside.contains(approval));
            self.open = open;
        }
        Step { close, open }
    }

    /// A popup's window is gone. True when it was the owner who closed it: then the next one may come.
    pub fn closed(&mut self, approval: u64) -> bool {
        let by_owner = self.open.take_if(|open| *open == approval).is_some();
        if by_owner {
            self.set_aside.insert(approval);
        }
        by_owner
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(close: Option<u64>, open: Option<u64>) -> Step {
        Step { close, open }
    }

    #[test]
    fn one_popup_at_a_time_first_in_first_out() {
        let mut popups = Popups::default();
        assert_eq!(popups.step(&[]), step(None, None));
        assert_eq!(popups.step(&[4, 5, 6]), step(None, Some(4)));
        assert_eq!(popups.step(&[4, 5, 6, 7]), step(None, None));
        assert_eq!(popups.step(&[5, 6, 7]), step(Some(4), Some(5)));
        assert!(!popups.closed(4), "closed by us, not by the owner");
        assert_eq!(popups.step(&[]), step(Some(5), None));
    }

    #[test]
    fn a_closed_popup_means_not_now_and_lets_the_next_one_come() {
        let mut popups = Popups::default();
        popups.step(&[1, 2]);
        assert!(popups.closed(1));
        assert_eq!(popups.step(&[1, 2]), step(None, Some(2)));
        assert_eq!(popups.step(&[1]), step(Some(2), None), "1 stays set aside");
        assert_eq!(popups.step(&[1, 3]), step(None, Some(3)));
    }

    #[test]
    fn the_label_alone_names_a_popups_question() {
        assert_eq!(question_of(&label(17)), Some(17));
        for other in ["main", "approval-", "approval-1x", "approval--1", "approval-+1", "approval-99999999999999999999999"] {
            assert_eq!(question_of(other), None, "{other}");
        }
    }
}
