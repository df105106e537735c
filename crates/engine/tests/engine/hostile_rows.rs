//! Hostile scripts (`facts/boa.md` §2, §3 and §7) and how each may end, with the reason. Shared by the tests and the measurement.
use domain::FailReason::{self, OutOfMemory, ResultNotJson, ScriptError, Stalled, TooDeep};

pub struct Row {
    pub name: &'static str,
    pub source: String,
    /// The reasons it may fail with.
    pub reasons: &'static [FailReason],
    pub may_end_well: bool,
    pub why: &'static str,
}

/// How a group of scripts ends, and why it may end so.
struct Group {
    reasons: &'static [FailReason],
    may_end_well: bool,
    why: &'static str,
    scripts: Vec<(&'static str, String)>,
}

fn group(reasons: &'static [FailReason], why: &'static str, scripts: Vec<(&'static str, String)>) -> Group {
    Group { reasons, may_end_well: false, why, scripts }
}

fn texts(scripts: &[(&'static str, &str)]) -> Vec<(&'static str, String)> {
    scripts.iter().map(|(name, source)| (*name, (*source).to_owned())).collect()
}

fn nested(open: &str, close: &str, n: usize) -> String {
    format!("return {}1{}", open.repeat(n), close.repeat(n))
}

pub fn rows() -> Vec<Row> {
    let groups =
        [endless(), recursive(), native_depth(), too_large(), growing(), in_words(), before_the_parser(), deep_source(), results(), harmless()];
    let row = |group: &Group, (name, source): &(&'static str, String)| Row {
        name,
        source: source.clone(),
        reasons: group.reasons,
        may_end_well: group.may_end_well,
        why: group.why,
    };
    groups.iter().flat_map(|group| group.scripts.iter().map(|script| row(group, script)).collect::<Vec<_>>()).collect()
}

fn endless() -> Group {
    let scripts = texts(&[
        ("loop", "while(true){}"),
        ("loop in try", "for(;;){ try { while(true){} } catch {} finally {} }"),
        ("loop after await", "await null; while(true){}"),
        ("loop after a call", "await tool('echo', {}); while(true){}"),
        ("loop in a callback", "[1].map(() => { while(true){} })"),
        ("loop in a getter", "const o = { get x(){ while(true){} } }; return o.x"),
        ("loop in toJSON", "return { toJSON(){ while(true){} } }"),
        ("loop in an error's message", "throw { get message(){ while(true){} } }"),
        ("endless await", "for(;;) await null"),
        ("catch-all around a rejected await", "for(;;) { try { await Promise.reject(1) } catch {} }"),
        ("nested forEach", "const a = Array(100000).fill(0); a.forEach(() => a.forEach(() => a.forEach(() => 1)))"),
        ("indexOf of nothing", "return Array.prototype.indexOf.call({ length: 2**53 - 1 }, 1)"),
        ("regular expression", "return /^(a+)+$/.test('a'.repeat(40) + 'b')"),
        ("flood that catches", "for(;;) try { log('x') } catch {}"),
        ("endless proxy", "const p = new Proxy({}, { get: () => p }); for (let x = p;; x = x.y);"),
    ]);
    group(&[Stalled], "it works without end in the language or in one native function: patience ends it", scripts)
}

fn recursive() -> Group {
    let scripts = texts(&[
        ("recursion", "function f(){ f() } f()"),
        ("recursion after await", "await null; function f(){ f() } f()"),
        ("recursion through two", "const f = () => g(), g = () => f(); f()"),
        ("getter calling itself", "const o = { get x(){ return this.x } }; o.x"),
        ("getter calling itself after await", "await null; const o = { get x(){ return this.x } }; o.x"),
    ]);
    group(&[TooDeep], "the interpreter counts levels of calls and stops at its limit, at once", scripts)
}

fn native_depth() -> Group {
    let scripts = texts(&[
        ("JSON.stringify of toJSON", "const o = { toJSON(){ return { a: o } } }; return JSON.stringify(o)"),
        ("JSON.stringify nested", "let a = 1; for (let i = 0; i < 200000; i++) a = { a }; return JSON.stringify(a).length"),
        ("String of nested array", "let a = 1; for (let i = 0; i < 500000; i++) a = [a]; return String(a)"),
        ("proxy chain", "let p = {}; for (let i = 0; i < 1000000; i++) p = new Proxy(p, {}); return p.x"),
        ("bound chain", "let f = () => 1; for (let i = 0; i < 1000000; i++) f = f.bind(null, 1); return f()"),
    ]);
    group(
        &[TooDeep, OutOfMemory, Stalled],
        "native code recurses until its stack ends; what it recurses through may fill the memory or take all patience before that",
        scripts,
    )
}

fn too_large() -> Group {
    let scripts = texts(&[
        ("repeat", "return 'a'.repeat(2**30).length"),
        ("padStart", "return ''.padStart(2**31, 'ab').length"),
        ("padEnd", "return ''.padEnd(2**31, 'ab').length"),
    ]);
    group(&[OutOfMemory], "one allocation is far over the limit of the heap: the process ends before it is made", scripts)
}

fn growing() -> Group {
    let scripts = texts(&[
        ("endless push", "const a = []; for(;;) a.push({ a: [1, 2, 3] })"),
        ("endless push of strings", "const a = []; for(let i = 0;; i++) a.push('x'.repeat(1000) + i)"),
        ("doubling string", "let s = 'x'; for(;;) s += s"),
        ("endless map", "const m = new Map(); for(let i = 0;; i++) m.set({ i }, () => i)"),
        ("endless promise chain", "const f = () => Promise.resolve().then(f); await f()"),
        ("many buffers", "const a = []; for(;;) a.push(new ArrayBuffer(60000000))"),
        ("join of holes", "return new Array(2**32 - 1).join('x').length"),
        ("fill of holes", "new Array(2**32 - 1).fill(0)"),
        ("unshift", "const a = []; for(;;) a.unshift(1)"),
        ("big integers", "let x = 3n; for (let i = 0; i < 60; i++) x = x * x; return 1"),
        ("JSON.stringify of much", "const a = []; for(;;) a.push(JSON.stringify(a))"),
    ]);
    group(&[OutOfMemory, Stalled], "it grows step by step: the heap's limit or patience, whichever this machine reaches first", scripts)
}

fn in_words() -> Group {
    let scripts = texts(&[
        ("one big buffer", "return new ArrayBuffer(2**31).byteLength"),
        ("flood of calls", "for(;;) tool('never', {})"),
        ("flood of log", "for(;;) log('x'.repeat(1000))"),
        ("deep JSON.parse", "return JSON.parse('['.repeat(100000) + ']'.repeat(100000))"),
        ("100,000 brackets in Function", "return new Function('('.repeat(100000))"),
        ("100,000 brackets in eval", "return eval('('.repeat(100000))"),
        ("revoked proxy", "const { proxy, revoke } = Proxy.revocable({}, {}); revoke(); return proxy.x"),
        ("promise of itself", "let r; const p = new Promise((f) => { r = f }); r(p); await p"),
        ("Atomics.wait", "Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0)"),
    ]);
    group(&[ScriptError], "interpreter or host refuse it with an error of the language", scripts)
}

fn before_the_parser() -> Group {
    let scripts = vec![
        ("2,000 arrays", nested("[", "]", 2_000)),
        ("100,000 brackets", nested("(", ")", 100_000)),
        ("calls in calls", nested("f(", ")", 50_000)),
        ("objects in objects", nested("{a:", "}", 50_000)),
        ("nested templates", nested("`${", "}`", 2_000)),
        ("nested blocks", format!("{}{}", "{".repeat(10_000), "}".repeat(10_000))),
        ("half a megabyte", format!("// {}", "x".repeat(500_000))),
        ("wrapper escape", "})(); (async function(){ while(true){}".to_owned()),
    ];
    group(&[ScriptError], "size, brackets and wrapper are looked at before any parser that recurses", scripts)
}

fn deep_source() -> Group {
    let scripts = vec![
        ("arrows in arrows", format!("return {}1", "a=>".repeat(80_000))),
        ("negations", format!("return {}1", "!".repeat(250_000))),
        ("member chain", format!("return a{}", ".b".repeat(100_000))),
        ("sums", format!("return 1{}", "+1".repeat(120_000))),
        ("sums of texts", format!("return 'a'{}", "+'a'".repeat(60_000))),
        ("ternaries", format!("return {}1", "1?1:".repeat(60_000))),
        ("else if", format!("{}{{}}", "if (0) {} else ".repeat(15_000))),
        ("one long number", format!("return {}", "9".repeat(250_000))),
        ("many names", format!("{}return 1", (0..15_000).map(|i| format!("let a{i}=1;")).collect::<String>())),
        ("regular expression groups", format!("return /{}a{}/", "(".repeat(100_000), ")".repeat(100_000))),
    ];
    let why = "deep or long without brackets: the parser manages it, refuses it, or ends the process, by how much stack a level takes";
    Group { may_end_well: true, ..group(&[ScriptError, TooDeep, OutOfMemory, Stalled], why, scripts) }
}

fn results() -> Group {
    let scripts = texts(&[
        ("toJSON making objects", "const f = () => ({ toJSON(){ return { a: f() } } }); return f()"),
        ("sparse result", "const a = []; a[4294967294] = 1; return a"),
        ("endless proxy result", "return new Proxy([], { get: (t, k) => k === 'length' ? 2**53 - 1 : 1 })"),
        ("cycle", "const a = {}; a.a = a; return a"),
        ("result 100,000 deep", "let a = 1; for (let i = 0; i < 100000; i++) a = [a]; return a"),
    ]);
    group(&[ResultNotJson], "the result's own writer counts depth and size", scripts)
}

fn harmless() -> Group {
    let scripts = texts(&[
        ("valueOf calling itself", "const o = { valueOf(){ return +this } }; return +o"),
        ("toString calling itself", "const o = { toString(){ return '' + this } }; return '' + o"),
        ("recursion nobody awaits", "(async () => { await null; function f(){ f() } f() })(); return 1"),
        ("a list of 100,000 nodes", "let n = null; for (let i = 0; i < 100000; i++) n = { n }; return 1"),
        ("a hundred thousand arguments", "return Math.max(...Array(100000).fill(1))"),
        (
            "override",
            "globalThis.Promise = Array = Object = JSON = undefined; Function.prototype.call = Function.prototype.apply = null; return { a: [1] }",
        ),
        ("prototype in arguments", "return JSON.parse('{\"__proto__\": {\"x\": 1}}').x + typeof ({}).x"),
    ]);
    Group { may_end_well: true, ..group(&[], "it looks dangerous and is a program like any other", scripts) }
}
