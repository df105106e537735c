//! The queue of questions on a paused clock.
use std::time::Duration;

use agent::{
    approvals::{Answer, AnswerError, Approvals, Attendance, OwnersAnswer, Question, Who},
    policy::{self, Pattern, Rule, Ruling, Scope, Target, ToolClass},
    tools::Effect,
};
use tokio::time::advance;

use crate::support::{a_rule, book, call_of, execution, until_waiting};

fn question(of: u8, number: u64, file: &str) -> Question {
    Question {
        execution: execution(of),
        number,
        who: Who { graph: "Digest".into(), agent: Some(format!("a{number}")), ..Who::default() },
        call: call_of("write_file", ToolClass::Write, Target::Path(file.into())),
        effect: Effect::default(),
        because: "default".into(),
        timeout: Duration::from_secs(600),
    }
}
fn queue() -> Approvals {
    Approvals::new(Attendance::Window)
}
fn ask(approvals: &Approvals, question: Question) -> tokio::task::JoinHandle<Answer> {
    let approvals = approvals.clone();
    tokio::spawn(async move { approvals.ask(question).await })
}
const DENY: OwnersAnswer = OwnersAnswer::Deny { note: None };

/// C42, and none is merged though all are alike.
#[tokio::test(start_paused = true)]
async fn seven_questions_are_seven_in_order_each_with_its_own_answer() {
    let approvals = queue();
    let mut asked = Vec::new();
    for n in 0..7 {
        asked.push(ask(&approvals, question(1, n, "/d/a")));
        until_waiting(&approvals, n as usize + 1).await;
    }
    let waiting = approvals.waiting();
    assert_eq!(waiting.iter().map(|w| w.number).collect::<Vec<_>>(), (0..7).collect::<Vec<_>>());
    assert!(waiting.windows(2).all(|pair| pair[0].id < pair[1].id));
    for (n, w) in waiting.iter().enumerate() {
        approvals.answer(w.id, if n % 2 == 0 { OwnersAnswer::Once } else { DENY }).unwrap();
    }
    let mut answers = Vec::new();
    for a in asked {
        answers.push(a.await.unwrap().is_allowed());
    }
    assert_eq!(answers, [true, false, true, false, true, false, true]);
    assert_eq!(approvals.waiting().len(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_question_is_answered_once() {
    let approvals = queue();
    let asked = ask(&approvals, question(1, 1, "/d/a"));
    let id = until_waiting(&approvals, 1).await[0];
    approvals.answer(id, DENY).unwrap();
    assert_eq!(approvals.answer(id, OwnersAnswer::Once), Err(AnswerError::NotOpen(id)));
    assert_eq!(approvals.answer(id + 1, OwnersAnswer::Once), Err(AnswerError::NotOpen(id + 1)));
    assert_eq!(asked.await.unwrap(), Answer::Deny { note: None });
}

#[tokio::test(start_paused = true)]
async fn the_popup_takes_no_answer_in_its_first_half_second() {
    let approvals = queue();
    let asked = ask(&approvals, question(1, 1, "/d/a"));
    let id = until_waiting(&approvals, 1).await[0];
    approvals.shown(id);
    for _ in 0..4 {
        assert_eq!(approvals.answer(id, OwnersAnswer::Once), Err(AnswerError::TooEarly(id)));
        advance(Duration::from_millis(124)).await;
    }
    advance(Duration::from_millis(10)).await;
    approvals.answer(id, OwnersAnswer::Once).unwrap();
    assert_eq!(asked.await.unwrap(), Answer::Once);
}

#[tokio::test(start_paused = true)]
async fn seconds_left_run_down_and_the_end_is_a_deny() {
    let approvals = queue();
    let asked = ask(&approvals, question(1, 1, "/d/a"));
    until_waiting(&approvals, 1).await;
    assert_eq!(approvals.waiting()[0].seconds_left, 600);
    advance(Duration::from_millis(90_500)).await;
    assert_eq!(approvals.waiting()[0].seconds_left, 510);
    assert_eq!(asked.await.unwrap(), Answer::Unanswered { after: Duration::from_secs(600) });
    assert_eq!(approvals.waiting().len(), 0);
}

#[tokio::test(start_paused = true)]
async fn after_three_unanswered_the_rest_of_that_run_is_denied_at_once() {
    let approvals = queue();
    let mut asked = Vec::new();
    for n in 0..5 {
        asked.push(ask(&approvals, Question { timeout: Duration::from_secs(100 + n), ..question(1, n, "/d/a") }));
    }
    let other = ask(&approvals, question(2, 9, "/d/a"));
    until_waiting(&approvals, 6).await;
    let mut ends = Vec::new();
    for a in asked {
        ends.push(a.await.unwrap());
    }
    assert!(
        matches!(ends[..], [Answer::Unanswered { .. }, Answer::Unanswered { .. }, Answer::Unanswered { .. }, Answer::NotAsked, Answer::NotAsked]),
        "{ends:?}"
    );
    assert_eq!(approvals.ask(question(1, 6, "/d/a")).await, Answer::NotAsked, "and it is not even asked");
    assert_eq!(approvals.waiting().len(), 1, "the other execution still waits");
    approvals.withdraw(&execution(2));
    assert_eq!(other.await.unwrap(), Answer::Gone);
}

#[tokio::test(start_paused = true)]
async fn allowing_for_this_run_covers_calls_like_it_in_this_run_only() {
    let approvals = queue();
    let first = ask(&approvals, question(1, 1, "/d/out/a"));
    let like_it = ask(&approvals, question(1, 2, "/d/out/b"));
    let elsewhere = ask(&approvals, question(1, 3, "/d/a"));
    let other_run = ask(&approvals, question(2, 4, "/d/out/a"));
    let ids = until_waiting(&approvals, 4).await;
    approvals.answer(ids[0], OwnersAnswer::Run).unwrap();
    assert_eq!(first.await.unwrap(), Answer::Run);
    assert!(like_it.await.unwrap().is_allowed(), "the waiting one too");
    assert!(approvals.ask(question(1, 5, "/d/out/c")).await.is_allowed(), "and a later one without a question");
    until_waiting(&approvals, 2).await;
    approvals.withdraw(&execution(1));
    assert_eq!(elsewhere.await.unwrap(), Answer::Gone);
    let again = ask(&approvals, question(1, 6, "/d/out/d"));
    until_waiting(&approvals, 2).await;
    drop((again, other_run));
}

#[tokio::test(start_paused = true)]
async fn a_saved_rule_decides_the_waiting_it_speaks_of() {
    let approvals = queue();
    let mut asked = Vec::new();
    for (n, file) in ["/d/out/a", "/d/out/b", "/d/in/c", "/d/no/d"].iter().enumerate() {
        asked.push(ask(&approvals, question(1, n as u64, file)));
    }
    let ids = until_waiting(&approvals, 4).await;
    let offered = approvals.waiting()[0].rules.clone();
    let foreign = Box::new(a_rule("*", Ruling::Allow));
    assert_eq!(
        approvals.answer(ids[0], OwnersAnswer::Always(foreign)),
        Err(AnswerError::NotOffered(ids[0])),
        "only the rule that was shown can be saved"
    );
    approvals.answer(ids[0], OwnersAnswer::Always(Box::new(offered[0].clone()))).unwrap();
    let no = Rule { pattern: Some(Pattern::Folder("/d/no".into())), ..a_rule("write_file", Ruling::Deny) };
    let rules = book(&[offered[0].clone(), no]);
    assert_eq!(approvals.redecide(|call| policy::rule(call, &rules)), 2);
    assert!(matches!(asked.remove(0).await.unwrap(), Answer::Always(rule) if rule.scope == Scope::Everywhere));
    assert!(matches!(asked.remove(0).await.unwrap(), Answer::ByRule { allowed: true, .. }));
    assert!(
        matches!(asked.remove(1).await.unwrap(), Answer::ByRule { allowed: false, because } if because.text.contains("deny write_file in /d/no"))
    );
    assert_eq!(approvals.waiting().len(), 1, "the rest waits on");
}

#[tokio::test(start_paused = true)]
async fn a_question_whose_asker_is_gone_is_gone() {
    let approvals = queue();
    let asked = ask(&approvals, question(1, 1, "/d/a"));
    until_waiting(&approvals, 1).await;
    asked.abort();
    until_waiting(&approvals, 0).await;
}

#[tokio::test(start_paused = true)]
async fn where_nobody_can_be_asked_the_answer_is_at_once() {
    let approvals = Approvals::new(Attendance::None);
    assert_eq!(approvals.ask(question(1, 1, "/d/a")).await, Answer::Unattended);
    assert_eq!(*approvals.watch().borrow(), 0);
}

#[tokio::test(start_paused = true)]
async fn what_hides_in_a_question_is_spelled_out_for_the_owner() {
    let approvals = queue();
    let mut strange = question(1, 1, "/d/a\u{202e}txt");
    strange.call.input = domain::RawJson::parse("{\"path\":\"\u{202e}x\",\"esc\":\"\\u001b[2J\"}").unwrap();
    strange.who.agent = Some("helpful\u{200b}".into());
    strange.effect.diff = Some("+a\u{0}".into());
    let asked = ask(&approvals, strange);
    until_waiting(&approvals, 1).await;
    let shown = approvals.waiting().remove(0);
    assert!(shown.input_shown.contains("⟨U+202E⟩x") && shown.input_shown.contains("\\u001b[2J"), "{}", shown.input_shown);
    assert_eq!((shown.who.agent.as_deref(), shown.effect.diff.as_deref()), (Some("helpful⟨U+200B⟩"), Some("+a⟨U+0000⟩")));
    drop(asked);
}
