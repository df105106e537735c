//! The policy by itself: patterns, scopes, broken rules, fingerprints, chains of Graphs.
use std::collections::BTreeMap;

use agent::policy::{self, Pattern, Place, Rule, RuleBook, Ruled, Ruling, Scope, Target, ToolCall, ToolClass, denied_outright, exact_rules_for};

use crate::support::{a_rule, book, book_of, call_of, graph, json, project, setting};
use Ruling::{Allow, Ask, Deny};

fn ruling(call: &ToolCall, book: &RuleBook) -> Ruling {
    policy::rule(call, book).ruling
}
fn path(p: &str) -> Target {
    Target::Path(p.into())
}
fn command(words: &[&str]) -> ToolCall {
    call_of("run_command", ToolClass::Command, Target::Command { argv: words.iter().map(|w| (*w).to_owned()).collect() })
}
fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|w| (*w).to_owned()).collect()
}
fn with_pattern(tool: &str, effect: Ruling, pattern: Pattern) -> RuleBook {
    book(&[Rule { pattern: Some(pattern), ..a_rule(tool, effect) }])
}

#[test]
fn without_a_word_of_the_owner_the_class_decides() {
    for (class, expected) in
        [(ToolClass::Read, Allow), (ToolClass::Write, Ask), (ToolClass::Command, Ask), (ToolClass::Network, Ask), (ToolClass::Mcp, Ask)]
    {
        assert_eq!(ruling(&call_of("t", class, Target::Nothing), &RuleBook::default()), expected, "{class:?}");
    }
}

#[test]
fn the_strictest_matching_rule_wins_in_any_order() {
    let call = call_of("write_file", ToolClass::Write, path("/data/a"));
    let all = [Allow, Ask, Deny];
    for a in all {
        for b in all {
            for c in all {
                let rules = book(&[a_rule("write_file", a), a_rule("*", b), a_rule("write_file", c)]);
                assert_eq!(ruling(&call, &rules), a.max(b).max(c));
            }
        }
    }
    let Ruled { because, rule, .. } = policy::rule(&call, &book(&[a_rule("*", Allow), a_rule("write_file", Deny)]));
    assert_eq!((because.text.as_str(), rule), ("rule 2: deny write_file, everywhere", Some(2)));
}

#[test]
fn a_rule_that_cannot_be_read_denies_what_it_names_or_everything() {
    let call = call_of("read_file", ToolClass::Read, path("/data/a"));
    let good = a_rule("read_file", Allow).to_json();
    for (text, expected) in [
        ("", Deny),
        ("{", Deny),
        ("null", Deny),
        (r#"{"tool":"","scope":"everywhere","effect":"allow"}"#, Deny),
        (r#"{"tool":"read_file","scope":"everywhere","effect":"permit"}"#, Deny),
        (r#"{"tool":"read_file","scope":"moon","effect":"allow"}"#, Deny),
        (r#"{"tool":"read_file","scope":"everywhere","effect":"allow","until":"tomorrow"}"#, Deny),
        (r#"{"tool":"read_file","scope":"everywhere","effect":"allow","pattern":{"glob":"*"}}"#, Deny),
        (r#"{"tool":"*","scope":"everywhere"}"#, Deny),
        (r#"{"tool":"write_file","scope":"everywhere"}"#, Allow), // broken, but of another tool
    ] {
        assert_eq!(ruling(&call, &book_of([good.clone(), text.to_owned()])), expected, "{text}");
    }
    assert!(policy::rule(&call, &book_of(["{".to_owned()])).because.text.contains("cannot be read and therefore denies"));
}

#[test]
fn a_setting_speaks_only_where_no_rule_matches() {
    let call = call_of("write_file", ToolClass::Write, path("/data/a"));
    for set in [Allow, Ask, Deny] {
        let mut rules = RuleBook { settings: BTreeMap::from([("write_file".into(), setting(set))]), ..RuleBook::default() };
        assert_eq!(ruling(&call, &rules), set);
        for effect in [Allow, Ask, Deny] {
            rules.rules = book(&[a_rule("write_file", effect)]).rules;
            assert_eq!(ruling(&call, &rules), effect);
            rules.rules = book(&[a_rule("read_file", effect)]).rules;
            assert_eq!(ruling(&call, &rules), set);
        }
    }
}

#[test]
fn a_folder_pattern_means_whole_components() {
    let rules = with_pattern("write_file", Allow, Pattern::Folder("/data/out".into()));
    for (at, expected) in
        [("/data/out/a", Allow), ("/data/out/b/c", Allow), ("/data/out", Allow), ("/data/outer/a", Ask), ("/data/a", Ask), ("/other/data/out/a", Ask)]
    {
        assert_eq!(ruling(&call_of("write_file", ToolClass::Write, path(at)), &rules), expected, "{at}");
    }
}

#[test]
fn an_allowed_prefix_never_covers_programs_that_run_others() {
    let rules = |effect, prefix: &[&str]| with_pattern("run_command", effect, Pattern::ArgvPrefix(words(prefix)));
    for (effect, prefix, argv, expected) in [
        (Allow, &["ls"] as &[_], &["ls", "-l"] as &[_], Allow),
        (Allow, &["ls", "-l"], &["ls"], Ask),
        (Allow, &["ls"], &["lsof"], Ask),
        (Allow, &["ls"], &["./ls"], Ask),
        (Allow, &["ls"], &["/data/ls"], Ask),
        (Allow, &["sh", "-c"], &["sh", "-c", "rm x"], Ask),
        (Allow, &["python3.12"], &["python3.12", "x.py"], Ask),
        (Allow, &["/usr/bin/env"], &["/usr/bin/env", "rm"], Ask),
        (Allow, &["git"], &["git", "-c", "core.pager=rm", "log"], Ask),
        (Allow, &["find", "."], &["find", ".", "-exec", "rm", "{}"], Ask),
        (Allow, &["BASH.exe"], &["BASH.exe", "-c", "x"], Ask),
        (Allow, &[], &["ls"], Ask),
        (Deny, &["rm"], &["/bin/rm", "x"], Deny),
        (Deny, &["rm"], &["rmdir", "x"], Ask),
        (Deny, &["sh"], &["sh", "-c", "x"], Deny),
    ] {
        assert_eq!(ruling(&command(argv), &rules(effect, prefix)), expected, "{effect:?} {prefix:?} {argv:?}");
    }
    let exact = with_pattern("run_command", Allow, Pattern::Argv(words(&["sh", "-c", "date"])));
    assert_eq!(ruling(&command(&["sh", "-c", "date"]), &exact), Allow, "the owner saw the whole line");
    assert_eq!(ruling(&command(&["sh", "-c", "date", "x"]), &exact), Ask);
    assert_eq!(ruling(&command(&["sh", "-c", "rm x"]), &exact), Ask);
}

#[test]
fn hosts_and_methods_are_compared_whole() {
    let to = |host: &str, method: &str| call_of("http_fetch", ToolClass::Network, Target::Http { host: host.into(), method: method.into() });
    let rules = with_pattern("http_fetch", Allow, Pattern::Http { host: "example.com".into(), methods: vec!["GET".into()] });
    for (host, method, expected) in [
        ("example.com", "GET", Allow),
        ("EXAMPLE.com", "GET", Allow),
        ("example.com", "POST", Ask),
        ("evil-example.com", "GET", Ask),
        ("example.com.evil.net", "GET", Ask),
    ] {
        assert_eq!(ruling(&to(host, method), &rules), expected, "{method} {host}");
    }
}

#[test]
fn json_is_compared_by_meaning_at_each_pointer() {
    let at = |pointer: &str, value| Pattern::Equals(BTreeMap::from([(pointer.to_owned(), json(value))]));
    let call = |input: &str| ToolCall {
        input: domain::RawJson::parse(input).unwrap(),
        fingerprint: Some("f1".into()),
        ..call_of("mcp__s__t", ToolClass::Mcp, Target::Nothing)
    };
    let rules = |pattern| book(&[Rule { pattern: Some(pattern), fingerprint: Some("f1".into()), ..a_rule("mcp__s__t", Allow) }]);
    for (pattern, input, expected) in [
        (at("/repo", "a".into()), r#"{"repo":"a","x":1}"#, Allow),
        (at("/repo", "a".into()), r#"{"repo":"b"}"#, Ask),
        (at("/repo", "a".into()), r#"{}"#, Ask),
        (at("", serde_json::json!({"a":1,"b":2})), r#"{"b":2,"a":1.0}"#, Allow),
        (at("", serde_json::json!({"a":1})), r#"{"a":1,"b":2}"#, Ask),
    ] {
        assert_eq!(ruling(&call(input), &rules(pattern.clone())), expected, "{pattern:?} {input}");
    }
}

#[test]
fn a_changed_mcp_tool_is_asked_about_again() {
    let tool = |now: &str| ToolCall { fingerprint: Some(now.into()), ..call_of("mcp__s__t", ToolClass::Mcp, Target::Nothing) };
    let bound = |f: Option<&str>, effect| book(&[Rule { fingerprint: f.map(str::to_owned), ..a_rule("mcp__s__t", effect) }]);
    assert_eq!(ruling(&tool("v1"), &bound(Some("v1"), Allow)), Allow);
    assert_eq!(ruling(&tool("v2"), &bound(Some("v1"), Allow)), Ask);
    assert_eq!(ruling(&tool("v1"), &bound(None, Allow)), Ask, "an allow that names no description allows nothing of a server");
    assert_eq!(ruling(&tool("v2"), &bound(Some("v1"), Deny)), Deny, "a deny holds whatever the tool becomes");
    assert_eq!(ruling(&tool("v1"), &book(&[a_rule("*", Allow)])), Ask);
    let set = |f: Option<&str>| RuleBook {
        settings: BTreeMap::from([("mcp__s__t".into(), policy::ToolSetting { ruling: Allow, fingerprint: f.map(str::to_owned) })]),
        ..RuleBook::default()
    };
    assert_eq!((ruling(&tool("v1"), &set(Some("v1"))), ruling(&tool("v2"), &set(Some("v1"))), ruling(&tool("v1"), &set(None))), (Allow, Ask, Ask));
}

#[test]
fn in_a_called_graph_the_strictest_of_both_holds() {
    let (outer, inner) = (graph(1, 1), graph(2, 7));
    let scoped = |at, effect| Rule { scope: Scope::Graph(at), ..a_rule("write_file", effect) };
    let call = |graphs: Vec<_>| ToolCall { place: Place { project: None, graphs }, ..call_of("write_file", ToolClass::Write, path("/d/a")) };
    for (rules, graphs, expected) in [
        (vec![scoped(outer, Allow)], vec![outer], Allow),
        (vec![scoped(outer, Allow)], vec![outer, inner], Ask),
        (vec![scoped(inner, Allow)], vec![outer, inner], Ask),
        (vec![scoped(outer, Allow), scoped(inner, Allow)], vec![outer, inner], Allow),
        (vec![scoped(outer, Allow), scoped(inner, Deny)], vec![outer, inner], Deny),
        (vec![scoped(outer, Deny), scoped(inner, Allow)], vec![outer, inner], Deny),
        (vec![scoped(inner, Deny), a_rule("write_file", Allow)], vec![outer, inner], Deny),
        (vec![a_rule("write_file", Allow)], vec![outer, inner], Allow),
        (vec![scoped(graph(1, 2), Allow)], vec![outer], Ask),
    ] {
        assert_eq!(ruling(&call(graphs.clone()), &book(&rules)), expected, "{rules:?} {graphs:?}");
    }
}

#[test]
fn narrowing_denies_and_no_rule_undoes_it() {
    let call = ToolCall { offered: false, ..call_of("read_file", ToolClass::Read, path("/d/a")) };
    assert_eq!(ruling(&call, &book(&[a_rule("*", Allow), a_rule("read_file", Allow)])), Deny);
}

#[test]
fn files_that_hold_keys_ask_even_for_reading() {
    for (at, expected) in [
        ("/home/me/.ssh/config", Ask),
        ("/home/me/p/.env", Ask),
        ("/home/me/p/.env.local", Ask),
        ("/home/me/p/server.PEM", Ask),
        ("/home/me/.aws/credentials", Ask),
        ("/home/me/p/environment.md", Allow),
        ("/home/me/p/keyboard.txt", Allow),
    ] {
        assert_eq!(ruling(&call_of("read_file", ToolClass::Read, path(at)), &RuleBook::default()), expected, "{at}");
    }
    let allowed = with_pattern("read_file", Allow, Pattern::Folder("/home/me/p".into()));
    assert_eq!(ruling(&call_of("read_file", ToolClass::Read, path("/home/me/p/.env")), &allowed), Allow);
}

#[test]
fn always_saves_the_exact_call_and_says_so() {
    let at_home = Place { project: Some(project(1)), graphs: vec![graph(1, 3)] };
    for (call, sentences) in [
        (
            ToolCall { place: at_home.clone(), ..call_of("write_file", ToolClass::Write, path("/d/out/a.md")) },
            vec![
                "allow write_file in /d/out, in version 3 of this Graph",
                "allow write_file in /d/out, in this project",
                "allow write_file in /d/out, everywhere",
            ],
        ),
        (command(&["sh", "-c", "echo it's"]), vec![r"allow run_command for exactly sh -c 'echo it'\''s', everywhere"]),
        (
            call_of("http_fetch", ToolClass::Network, Target::Http { host: "example.com".into(), method: "POST".into() }),
            vec!["allow http_fetch to example.com (POST), everywhere"],
        ),
        (
            ToolCall {
                input: json(serde_json::json!({"q":"x\u{202e}y"})),
                fingerprint: Some("f".into()),
                ..call_of("mcp__s__t", ToolClass::Mcp, Target::Nothing)
            },
            vec!["allow mcp__s__t with the input = {\"q\":\"x⟨U+202E⟩y\"}, everywhere"],
        ),
    ] {
        let rules = exact_rules_for(&call);
        assert_eq!(rules.iter().map(|rule| rule.sentence().text).collect::<Vec<_>>(), sentences);
        for rule in rules {
            assert_eq!(Rule::from_json(&rule.to_json()).as_ref(), Ok(&rule), "what is saved reads back");
            assert_eq!(ruling(&call, &book(&[rule])), Allow, "and allows the call it came from");
        }
    }
    let nested = ToolCall { place: Place { project: None, graphs: vec![graph(1, 1), graph(2, 1)] }, ..command(&["ls"]) };
    assert!(exact_rules_for(&nested).iter().all(|r| r.scope == Scope::Everywhere), "one Graph of a chain cannot allow for all");
}

#[test]
fn a_tool_that_can_never_be_allowed_is_not_offered() {
    let p = Some(project(1));
    let rule = |scope, effect| Rule { scope, ..a_rule("run_command", effect) };
    for (rules, expected) in [
        (vec![], false),
        (vec![rule(Scope::Everywhere, Deny)], true),
        (vec![rule(Scope::Everywhere, Deny), rule(Scope::Everywhere, Allow)], true),
        (vec![rule(Scope::Project(project(1)), Deny)], true),
        (vec![rule(Scope::Project(project(2)), Deny)], false),
        (vec![Rule { pattern: Some(Pattern::ArgvPrefix(words(&["rm"]))), ..a_rule("run_command", Deny) }], false),
        (vec![a_rule("*", Deny)], true),
    ] {
        assert_eq!(denied_outright("run_command", p, &book(&rules)), expected, "{rules:?}");
    }
}
