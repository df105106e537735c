//! What docs/queue.md says is what the code does.
use domain::command::{CancelReason, FailReason, Status};

const QUEUE: &str = include_str!("../../../docs/queue.md");
const OPERATING: &str = include_str!("../../../docs/operating.md");

/// Words in back quotes between two headings.
fn quoted<'a>(text: &'a str, from: &str, to: &str) -> Vec<&'a str> {
    let part = text.split_once(from).unwrap().1.split_once(to).unwrap().0;
    part.split('`').skip(1).step_by(2).collect()
}

#[test]
fn the_page_names_every_state_and_reason_and_no_other() {
    let table = QUEUE.split_once("## States").unwrap().1.split_once("## Arrows").unwrap().0;
    let states: Vec<&str> = table.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next()).collect();
    assert_eq!(states, Status::ALL.iter().map(|s| s.as_str()).collect::<Vec<_>>());
    let failed = quoted(QUEUE, "Of `failed`:", "Of `cancelled`:");
    assert_eq!(failed, FailReason::ALL.iter().map(|r| r.as_str()).collect::<Vec<_>>());
    let cancelled = quoted(QUEUE, "Of `cancelled`:", "## What happens");
    assert_eq!(cancelled, CancelReason::ALL.iter().map(|r| r.as_str()).collect::<Vec<_>>());
}

#[test]
fn the_limits_page_says_what_the_code_says() {
    use domain::limits as l;
    for (value, text) in [
        (l::SESSIONS_PER_SYNC_MAX, "| 100 / 4 MiB |"),
        (l::QUEUED_PER_PROJECT_MAX, "| 100 (`--queued-per-project`)"),
        (l::HELD_REQUESTS_PER_DEVICE_MAX, "| 4 / 20,000"),
        (l::REQUESTS_PER_SECOND_DEFAULT as usize, "| 60 on the average"),
        (l::JSON_DEPTH_MAX, "/ 100 levels"),
        (l::CONNECT_CODE_TRIES_MAX as usize, "; 5 per authorize request"),
        ((l::QUEUED_TTL_MS / 86_400_000) as usize, "| 7 d / 30 d / 30 d"),
    ] {
        assert!(text.contains(&value.to_string()), "{text} no longer holds {value}");
        assert!(OPERATING.contains(text), "{text}");
    }
    assert_eq!((l::ARGUMENTS_BYTES_MAX, l::BODY_BYTES_MAX, l::SYNC_ANSWER_BYTES_MAX), (1 << 20, 2 << 20, 4 << 20));
}
