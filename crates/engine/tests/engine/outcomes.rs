//! Script → outcome, in rows.
use super::support::{Run, shown};

async fn check(rows: &[(&str, &str)]) {
    let mut wrong = Vec::new();
    for (source, expected) in rows {
        let run = Run::in_process();
        let outcome = tokio::time::timeout(std::time::Duration::from_secs(7200), run.run(source)).await;
        let seen = outcome.map_or("no outcome within two hours of the simulated clock".to_owned(), |o| shown(&o));
        if seen != *expected {
            wrong.push(format!("{source}\n  seen     {seen}\n  expected {expected}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// C32, C70.
#[tokio::test(start_paused = true)]
async fn results_are_written_as_json_stringify_writes_them() {
    check(&[
        ("return 1", "= 1"),
        ("", "= null"),
        ("return undefined", "= null"),
        ("return {a:NaN,b:-0,c:1e21,d:undefined}", r#"= {"a":null,"b":0,"c":1e+21}"#),
        (
            "return [undefined, null, Infinity, 0.1+0.2, 1e-7, 123456789012345680000]",
            "= [null,null,null,0.30000000000000004,1e-7,123456789012345680000]",
        ),
        ("return new Date(0)", r#"= "1970-01-01T00:00:00.000Z""#),
        ("return {toJSON(k){ return {k} }}", r#"= {"k":""}"#),
        ("return {x: {toJSON(k){ return k }}}", r#"= {"x":"x"}"#),
        ("return [new Number(3), new String('s'), new Boolean(false), Object(1)]", r#"= [3,"s",false,1]"#),
        (r#"return "\u0000\n\"\\\u007f\u2028é😀\ud800""#, "= \"\\u0000\\n\\\"\\\\\u{7f}\u{2028}é😀\\ud800\""),
        ("return {z:1,a:2,1:3,'':4}", r#"= {"1":3,"z":1,"a":2,"":4}"#),
        (r#"return {"\u00e9":1,"e\u0301":2,"z":-0,"a":2**63+1}"#, "= {\"\u{e9}\":1,\"e\u{301}\":2,\"z\":0,\"a\":9223372036854776000}"),
        ("return Object.create({inherited: 1}, {own: {value: 2, enumerable: true}, hidden: {value: 3}})", r#"= {"own":2}"#),
        ("return new Proxy([1,2], {})", "= [1,2]"),
        ("return new Proxy({a:1}, {})", r#"= {"a":1}"#),
        ("return [,1]", "= [null,1]"),
        ("return new Map([[1,2]])", "= {}"),
        ("return class { static a = 1 }", "result_not_json: The result cannot be written as JSON: the result is a function."),
        ("return 10n", "result_not_json: The result cannot be written as JSON: the result is a BigInt; write it as a text, like String(n)."),
        (
            "return {a:[1,{b:10n}]}",
            "result_not_json: The result cannot be written as JSON: the result.a[1].b is a BigInt; write it as a text, like String(n).",
        ),
        (
            "const a = {}; a.b = {a}; return a",
            "result_not_json: The result cannot be written as JSON: the result.b.a is part of a cycle: it contains itself.",
        ),
        ("return {f(){}}", "result_not_json: The result cannot be written as JSON: the result.f is a function."),
        ("return {s: Symbol('x')}", "result_not_json: The result cannot be written as JSON: the result.s is a symbol."),
        ("return {p: sleep(1)}", "result_not_json: The result cannot be written as JSON: the result.p is a promise; is an await missing?."),
        ("return {get x(){ throw new Error('no') }}", "script_error: Error: no"),
        (
            "const a = []; a.length = 4294967295; return a",
            "result_not_json: The result cannot be written as JSON: the result is where it grows larger than 8 MiB.",
        ),
        ("return 'x'.repeat(9000000)", "result_not_json: The result cannot be written as JSON: the result is where it grows larger than 8 MiB."),
    ])
    .await;
    let ones = Run::in_process().run("return Array(40000).fill(1)").await;
    assert_eq!(shown(&ones), format!("= [{}1]", "1,".repeat(39_999)));
}

/// C34.
#[tokio::test(start_paused = true)]
async fn a_result_nests_a_hundred_levels_and_no_more() {
    for (depth, ok) in [(100, true), (101, false), (1_000, false), (50_000, false)] {
        let arrays = format!("let a = 1; for (let i = 0; i < {depth}; i++) a = [a]; return a");
        let objects = format!("let a = 1; for (let i = 0; i < {depth}; i++) a = {{a}}; return a");
        for source in [arrays, objects] {
            let outcome = shown(&Run::in_process().run(&source).await);
            assert_eq!(outcome.starts_with("= "), ok, "{source}: {outcome}");
            assert!(ok || outcome.starts_with("result_not_json: ") && outcome.contains("nested deeper than 100 levels"), "{outcome}");
        }
    }
}

/// C34, C70: what comes in as text and goes out as it came, through the script and around it.
#[tokio::test(start_paused = true)]
async fn arguments_and_answers_keep_their_depth_and_their_letters() {
    let deep = |n: usize| (format!("{}1{}", "[".repeat(n), "]".repeat(n)), format!("{}1{}", r#"{"a":"#.repeat(n), "}".repeat(n)));
    for depth in [1, 99] {
        let (arrays, objects) = deep(depth);
        for nested in [arrays, objects] {
            let args = format!(r#"{{"deep":{nested}}}"#);
            assert_eq!(shown(&Run::in_process().args(&args).run("return args").await), format!("= {args}"));
            let answered = Run::in_process().args(&args).run("return await tool('echo', args)").await;
            assert_eq!(shown(&answered), format!("= {args}"));
        }
    }
    for depth in [101, 1_000, 100_000] {
        let (arrays, objects) = deep(depth);
        for nested in [arrays, objects] {
            assert_eq!(domain::RawJson::parse(&nested), Err(domain::json::JsonError::TooDeep), "refused where it comes in");
        }
    }
    let letters = r#"{"z":1,"a":"1e+21","\u00e9":"é","e\u0301":"\ud83d\ude00 \ud800 \\ud800"}"#;
    // Half a surrogate pair is no character; the language would keep it, the interpreter cannot.
    let kept = "{\"z\":1,\"a\":\"1e+21\",\"\u{e9}\":\"é\",\"e\u{301}\":\"\u{1f600} \u{fffd} \\\\ud800\"}";
    assert_eq!(shown(&Run::in_process().args(letters).run("return args").await), format!("= {kept}"));
}

#[tokio::test(start_paused = true)]
async fn whatever_is_thrown_becomes_readable_text() {
    check(&[
        ("throw new Error('boom')", "script_error: Error: boom"),
        ("throw 'boom'", "script_error: boom"),
        ("throw undefined", "script_error: the script threw undefined"),
        ("throw null", "script_error: the script threw null"),
        ("throw Symbol('s')", "script_error: the script threw Symbol(s)"),
        ("throw 10n", "script_error: the script threw 10n"),
        ("class MyError extends Error { get name() { return 'MyError' } } throw new MyError('mine')", "script_error: MyError: mine"),
        ("throw {message: 'only'}", "script_error: only"),
        ("const x = {}; x.foo(1)", "script_error: TypeError: x.foo is not a function"),
        ("const x = {}; await x.y.foo(1)", "script_error: TypeError: probably .foo of x.y, which is null or undefined"),
        ("foo()", "script_error: ReferenceError: foo is not defined"),
        ("eval('1')", "script_error: EvalError: a Graph cannot make code from text: eval and Function are switched off"),
        ("new Function('return 1')()", "script_error: EvalError: a Graph cannot make code from text: eval and Function are switched off"),
        (
            "return typeof WeakRef + typeof FinalizationRegistry + typeof SharedArrayBuffer + typeof Atomics",
            r#"= "undefinedundefinedundefinedundefined""#,
        ),
        ("args = 1", "script_error: TypeError: cannot set non-writable property: args"),
        ("delete globalThis.agent", "script_error: TypeError: Cannot delete property"),
    ])
    .await;
}

#[tokio::test(start_paused = true)]
async fn an_error_shows_place_frames_and_the_line_with_a_caret() {
    let source = "export const meta = { name: 'x', description: '' };\nfunction step(x) {\n  return x.nope();\n}\nawait sleep(0);\nstep({});\n";
    let outcome = Run::in_process().run(source).await;
    let domain::Outcome::Failed { error, .. } = outcome else { panic!("{outcome:?}") };
    assert_eq!(
        error,
        "TypeError: x.nope is not a function\n    at line 3, column 16 in step\n    at line 6, column 5 in the Graph\n\n    3 |   return x.nope();\n      |                ^"
    );
    for (source, first, place) in [
        ("const x = {};\nconst y = x.y.z.w()", "TypeError: cannot read .w of x.y.z, which is null or undefined", "line 2, column 15"),
        (
            "const list = args.list;\n\nfor (const x of [1]) {\n  list.map(y => 1);\n}",
            "TypeError: probably .map of list, which is null or undefined",
            "line 4, column 3",
        ),
        ("'abc'.foo()", "TypeError: .foo is not a function", "line 1, column 10"),
        ("const x = 1;\nx = 2", "TypeError: cannot mutate an immutable binding 'x'", "line 2, column 1"),
        ("await agent('say a');\nawait agent('fail refused')", "AgentError: it failed with refused", "line 2, column 12"),
    ] {
        let outcome = Run::in_process().run(source).await;
        let domain::Outcome::Failed { error, .. } = outcome else { panic!("{outcome:?}") };
        assert!(error.starts_with(&format!("{first}\n    at {place} in the Graph")), "{source}\n{error}");
    }
    let outcome = Run::in_process().run("throw new Error('first line')").await;
    let domain::Outcome::Failed { error, .. } = outcome else { panic!("{outcome:?}") };
    assert!(error.contains("at line 1, column 7"), "columns of the first line are the owner's: {error}");
}

#[tokio::test(start_paused = true)]
async fn syntax_errors_have_their_place() {
    let mut wrong = Vec::new();
    for (source, line, column, words) in [
        ("return 1 +", 1, 1, "too early"),
        ("let x = 1;\nlet x = 2;", 2, 5, "x is declared twice"),
        ("const f = () => { let y = 1; const y = 2 }", 1, 36, "y is declared twice"),
        ("return 1 })(); (async function(){", 1, 11, "unexpected )"),
        ("} async function x() {", 1, 1, "closing bracket"),
        ("const a = 1;\nconst b = ;", 2, 11, ""),
        ("export const meta = { name: f() };", 1, 29, "plain literal"),
        ("import x from 'fs'", 1, 8, "cannot import"),
        ("const a = 1;\nexport default a", 2, 1, "cannot export"),
    ] {
        let fault = engine::inspect(source, &engine::InProcessVm).await.unwrap_err();
        if (fault.line, fault.column) != (line, column) || !fault.message.contains(words) {
            wrong.push(format!("{source}: {fault}"));
        }
        let outcome = shown(&Run::in_process().run(source).await);
        assert!(outcome.starts_with("script_error: "), "{source}: {outcome}");
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[tokio::test(start_paused = true)]
async fn calls_answer_and_fail_as_documented() {
    check(&[
        ("return await agent('say hi')", r#"= "hi""#),
        (
            "return await agent('fail provider').catch(e => [e instanceof AgentError, e.name, e.code, e.retryable, e.usage.tokens])",
            r#"= [true,"AgentError","provider",false,0]"#,
        ),
        ("await agent('fail provider')", "script_error: AgentError: it failed with provider"),
        ("await agent('fail no_model')", "no_model: AgentError: it failed with no_model"),
        ("return await tool('echo', {a: 1})", r#"= {"a":1}"#),
        ("return await tool('deny').catch(e => [e instanceof ToolError, e.code, e.label])", r#"= [true,"denied","deny"]"#),
        ("return (await tool('deep')).flat(Infinity)", "= [1]"),
        ("return await ask('sure?', {default: true})", "= true"),
        ("return await ask('sure?').catch(e => e.code)", r#"= "unanswered""#),
        ("await sleep(3000); return 1", "= 1"),
        ("return lines('a\\r\\nb\\n\\nc')", r#"= ["a","b","","c"]"#),
        ("return [lines(''), lines('\\n'), lines('a\\n'), lines('\\r')]", r#"= [[],[""],["a"],["\r"]]"#),
        ("return [budget.total, budget.spent(), budget.remaining()]", "= [200000,0,200000]"),
        ("await agent('use 100 50'); return [budget.spent(), budget.remaining()]", "= [150,199850]"),
        ("return await agent(1).catch(e => e.message)", "script_error: TypeError: agent(prompt, options): prompt must be a text, it is number"),
        (
            "return await agent('say x', {nope: 1}).catch(e => [e.code, e.message.slice(0, 35)])",
            r#"= ["invalid","agent options: unknown field `nope`"]"#,
        ),
        ("return await tool('echo', 1).catch(e => e.code)", r#"= "invalid""#),
        ("await new Promise(() => {})", "stalled: The script waits for a promise that nothing will ever settle."),
        ("await import('fs')", "script_error: TypeError: module resolution is disabled for this context"),
        ("return [Date.now(), new Date().toISOString()]", r#"= [1796047327123,"2026-11-30T14:02:07.123Z"]"#),
        ("await sleep(1.5); return Date.now()", "= 1796047328623"),
        ("agent('never'); return 1", "= 1"),
    ])
    .await;
}

#[tokio::test(start_paused = true)]
async fn the_same_seed_gives_the_same_numbers() {
    let source = "return [Math.random(), Math.random()]";
    let (a, b) = (Run::in_process().run(source).await, Run::in_process().run(source).await);
    let c = Run::in_process().set(|s| s.seed = 8).run(source).await;
    assert_eq!(shown(&a), shown(&b));
    assert_ne!(shown(&a), shown(&c));
}

#[tokio::test(start_paused = true)]
async fn arguments_are_checked_before_the_run_and_arrive_as_they_came() {
    let meta =
        "export const meta = { name: 'a', description: '', args: { type: 'object', properties: { n: { type: 'integer' } }, required: ['n'] } };\n";
    let run = Run::in_process().args(r#"{"n":"x"}"#);
    assert_eq!(
        shown(&run.run(&format!("{meta} return 1")).await),
        r#"arguments_invalid: The arguments do not fit this Graph. args.n: "x" is not of type "integer""#
    );
    assert!(run.host.tools.lock().unwrap().is_empty());
    let run = Run::in_process().args(r#"{"n":3,"__proto__":{"x":1},"u":"\u0000é","f":1e21}"#);
    assert_eq!(shown(&run.run(&format!("{meta} return [args, {{}}.x]")).await), r#"= [{"n":3,"__proto__":{"x":1},"u":"\u0000é","f":1e+21},null]"#);
}

#[tokio::test(start_paused = true)]
async fn waves_keep_order_and_leave_null_for_what_failed() {
    check(&[
        ("return await parallel([() => agent('wait 30 a'), () => agent('wait 10 b'), () => 3])", r#"= ["a","b",3]"#),
        ("return await parallel([])", "= []"),
        ("return await parallel([() => agent('fail provider'), () => { throw new Error('mine') }, async () => 'x'])", r#"= [null,null,"x"]"#),
        ("return await parallel([() => nope(), () => 1])", "script_error: ReferenceError: nope is not defined"),
        ("return await parallel([agent('say a')])", "script_error: TypeError: parallel takes functions, like () => agent(\"…\"); item 0 is a promise, already started"),
        ("return await parallel(Array(1001).fill(() => 1))", "script_error: AgentError: parallel: 1001 items, at most 1000 are allowed"),
        ("return await pipeline([1,2,3], (x) => x * 2, async (x, item, i) => [x, item, i])", "= [[2,1,0],[4,2,1],[6,3,2]]"),
        ("return await pipeline(['a','b'], (x) => agent('say ' + x), (x, item) => x === 'a' ? agent('fail schema') : x + item)", r#"= [null,"bb"]"#),
        ("return await parallel(Array.from({length: 6}, () => () => agent('fail provider')))", "wave_stopped: AgentError: 3 agents of this wave failed the same way (provider: it failed with provider); what had not started was not started"),
        ("let n = 0; return await retry(3, () => { n++; if (n < 3) throw new Error('again'); return n })", "= 3"),
        ("return await retry(2, (k) => agent('fail timeout')).catch(e => [e.code, e.attempts.length])", r#"= ["timeout",2]"#),
        ("let n = 0; return await retry(5, () => { n++; nope() }).catch(() => n)", "= 1"),
        ("let n = 0; return await retry(5, () => { n++; return agent('fail refused') }, {on: ['timeout']}).catch(() => n)", "= 1"),
        ("Array.prototype.fill = Array.prototype.push = Promise.prototype.then = Object.defineProperty = () => { throw 1 }; return await parallel([() => agent('say a'), () => 2])", r#"= ["a",2]"#),
        ("Object.defineProperty(Array.prototype, '0', {set() { throw new Error('caught') }}); return (await parallel([() => 1]))[0]", "= 1"),
    ])
    .await;
}
