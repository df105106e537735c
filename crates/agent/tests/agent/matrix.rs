//! The ruling matrix: every tool × what the owner said × where he said it × what he answers, through the real gate and real files.
//! The expectation is computed here, from the sentence in the specification, not by the code under test.
use agent::{
    approvals::{Attendance, OwnersAnswer},
    gate::Refusal,
    policy::{Rule, RuleBook, Ruling, Scope},
};
use serde_json::{Value, json};

use crate::support::{Desk, a_rule, book_of, caller, graph, project, setting};
use Ruling::{Allow, Ask, Deny};

const TOOLS: &[(&str, Ruling)] = &[("list_files", Allow), ("read_file", Allow), ("search_files", Allow), ("write_file", Ask), ("edit_file", Ask)];

/// What the owner has said: rules (`None` is one that cannot be read) and a setting.
const SAYINGS: &[(&[Option<Ruling>], Option<Ruling>)] = &[
    (&[], None),
    (&[Some(Allow)], None),
    (&[Some(Ask)], None),
    (&[Some(Deny)], None),
    (&[None], None),
    (&[Some(Allow), Some(Ask)], None),
    (&[Some(Deny), Some(Allow)], None),
    (&[Some(Allow), None], None),
    (&[], Some(Allow)),
    (&[], Some(Ask)),
    (&[], Some(Deny)),
    (&[Some(Allow)], Some(Deny)),
    (&[Some(Ask)], Some(Allow)),
];

#[derive(Debug, Clone, Copy, PartialEq)]
enum Where {
    Everywhere,
    ThisProject,
    OtherProject,
    ThisGraph,
    OtherVersion,
}
const WHERE: &[Where] = &[Where::Everywhere, Where::ThisProject, Where::OtherProject, Where::ThisGraph, Where::OtherVersion];

#[derive(Debug, Clone, Copy, PartialEq)]
enum Says {
    Once,
    Run,
    Always,
    Deny,
    Nothing,
    Unattended,
}
const SAYS: &[Says] = &[Says::Once, Says::Run, Says::Always, Says::Deny, Says::Nothing, Says::Unattended];

fn scope(at: Where) -> Scope {
    match at {
        Where::Everywhere => Scope::Everywhere,
        Where::ThisProject => Scope::Project(project(1)),
        Where::OtherProject => Scope::Project(project(2)),
        Where::ThisGraph => Scope::Graph(graph(1, 3)),
        Where::OtherVersion => Scope::Graph(graph(1, 2)),
    }
}

fn rule_book(tool: &str, rules: &[Option<Ruling>], set: Option<Ruling>, at: Where) -> RuleBook {
    let text = |effect: &Option<Ruling>| match effect {
        Some(effect) => Rule { scope: scope(at), ..a_rule(tool, *effect) }.to_json(),
        None => format!(r#"{{"tool":"{tool}","scope":?}}"#),
    };
    let mut book = book_of(rules.iter().map(text));
    book.settings.extend(set.map(|s| (tool.to_owned(), setting(s))));
    book
}

fn expected(class_default: Ruling, rules: &[Option<Ruling>], set: Option<Ruling>, at: Where) -> Ruling {
    let here = !matches!(at, Where::OtherProject | Where::OtherVersion);
    let speaking = rules.iter().filter_map(|r| match r {
        None => Some(Deny), // unreadable: its scope cannot be read either
        Some(effect) => here.then_some(*effect),
    });
    speaking.max().or(set).unwrap_or(class_default)
}

fn input(desk: &Desk, tool: &str) -> Value {
    let (folder, file) = (desk.path(""), desk.path("a.txt"));
    match tool {
        "list_files" => json!({ "path": folder }),
        "read_file" => json!({ "path": file }),
        "search_files" => json!({ "path": folder, "text": "old" }),
        "write_file" => json!({ "path": file, "content": "new" }),
        _ => json!({ "path": file, "old": "old", "new": "new" }),
    }
}

/// Invariant 5.
#[tokio::test(start_paused = true)]
async fn every_tool_rule_scope_and_answer_gives_what_the_sentence_says() {
    let mut cases = 0;
    for (tool, class_default) in TOOLS {
        for (rules, set) in SAYINGS {
            for at in WHERE {
                for says in SAYS {
                    check(tool, *class_default, rules, *set, *at, *says).await;
                    cases += 1;
                }
            }
        }
    }
    println!("ruling matrix: {cases} cases");
    assert_eq!(cases, TOOLS.len() * SAYINGS.len() * WHERE.len() * SAYS.len());
}

async fn check(tool: &str, class_default: Ruling, rules: &[Option<Ruling>], set: Option<Ruling>, at: Where, says: Says) {
    let case = format!("{tool} {rules:?} {set:?} {at:?} {says:?}");
    let attendance = if says == Says::Unattended { Attendance::None } else { Attendance::Window };
    let desk = Desk::attended(rule_book(tool, rules, set, at), attendance);
    std::fs::write(desk.path("a.txt"), "old").unwrap();
    let owner = desk.owner_always_says(move |question| match says {
        Says::Once | Says::Nothing | Says::Unattended => OwnersAnswer::Once,
        Says::Run => OwnersAnswer::Run,
        Says::Always => OwnersAnswer::Always(Box::new(question.rules[0].clone())),
        Says::Deny => OwnersAnswer::Deny { note: Some("not today".into()) },
    });
    if says == Says::Nothing {
        owner.abort();
    }
    let result = desk.call_from(&caller(), tool, input(&desk, tool)).await;
    let (acted, refusal) = match (expected(class_default, rules, set, at), says) {
        (Allow, _) | (Ask, Says::Once | Says::Run | Says::Always) => (true, None),
        (Deny, _) => (false, Some("denied_by_rule")),
        (Ask, Says::Deny) => (false, Some("denied_by_owner")),
        (Ask, Says::Nothing) => (false, Some("unanswered")),
        (Ask, Says::Unattended) => (false, Some("unattended")),
    };
    assert_eq!(result.is_ok(), acted, "{case}: {result:?}");
    assert_eq!(result.as_ref().err().map(Refusal::code), refusal, "{case}");
    let wrote = std::fs::read_to_string(desk.path("a.txt")).unwrap() == "new";
    assert_eq!(wrote, acted && class_default == Ask, "{case}");
    let lines = desk.record.lines();
    assert_eq!(lines[0].ruling, expected(class_default, rules, set, at), "{case}: the history has the ruling");
    assert_eq!(lines.len(), if lines[0].ruling == Ask { 2 } else { 1 }, "{case}: and the answer");
    owner.abort();
}
