//! The primitives the prelude is built on: calls to the host that answer with a promise, notes that need no answer, and `lines`.
use boa_engine::{
    Context, JsArgs, JsError, JsNativeError, JsObject, JsResult, JsString, JsValue, NativeFunction, js_string,
    object::{FunctionObjectBuilder, ObjectInitializer, builtins::JsArray},
    property::Attribute,
};
use domain::{
    limits::{LIST_ITEMS_MAX, LOG_CHARS_MAX, NAME_CHARS_MAX, RETRY_ATTEMPTS_MAX},
    text::cut_chars,
};

use super::{
    host::{Host, Kind, host, site},
    stringify::Unwritable,
};
use crate::vm::wire::{Note, What};

type Native = fn(&JsValue, &[JsValue], &mut Context) -> JsResult<JsValue>;

/// The object the prelude's function is called with.
pub(super) fn primitives(cx: &mut Context) -> JsResult<JsObject> {
    let functions: [(&str, usize, Native); 12] = [
        ("call", 3, call),
        ("log", 1, log),
        ("phase", 1, phase),
        ("lines", 1, lines),
        ("wave", 0, wave),
        ("enterWave", 1, enter_wave),
        ("stopWave", 2, stop_wave),
        ("closeWave", 3, close_wave),
        ("noteRetry", 3, note_retry),
        ("spent", 0, |_, _, cx| Ok(number(host(cx)?.budget.get().spent))),
        ("remaining", 0, |_, _, cx| Ok(number(host(cx)?.budget.get().free))),
        ("site", 0, |_, _, cx| Ok(JsString::from(site(cx).stack.as_str()).into())),
    ];
    let made: Vec<_> = functions
        .into_iter()
        .map(|(name, length, native)| {
            let name = JsString::from(name);
            let function = FunctionObjectBuilder::new(cx.realm(), NativeFunction::from_fn_ptr(native)).name(name.clone()).length(length).build();
            (name, function)
        })
        .collect();
    let mut object = ObjectInitializer::new(cx);
    for (name, function) in made {
        object.property(name, function, Attribute::empty());
    }
    object.property(js_string!("itemsMax"), number(LIST_ITEMS_MAX as u64), Attribute::empty());
    object.property(js_string!("attemptsMax"), number(RETRY_ATTEMPTS_MAX as u64), Attribute::empty());
    Ok(object.build())
}

#[allow(clippy::cast_precision_loss)] // counts are far below 2^53
pub(super) fn number(n: u64) -> JsValue {
    JsValue::from(n as f64)
}

/// `call(kind, …)`: what each kind takes is checked here, so that the mistake has its place.
fn call(_: &JsValue, args: &[JsValue], cx: &mut Context) -> JsResult<JsValue> {
    let host = host(cx)?;
    let kind = args.get_or_undefined(0).to_string(cx)?.to_std_string_lossy();
    let (first, second) = (args.get_or_undefined(1).clone(), args.get_or_undefined(2).clone());
    match kind.as_str() {
        "agent" => {
            let prompt = text(&first, "agent(prompt, options): prompt")?;
            let options = json(&host, "options of agent()", &second, cx)?;
            host.make_call(Kind::Agent, label(&second, cx)?, What::Agent { prompt, options }, cx)
        }
        "tool" => {
            let name = text(&first, "tool(name, input): name")?;
            let input = json(&host, "input of tool()", &second, cx)?;
            host.make_call(Kind::Tool, name.clone(), What::Tool { name, input }, cx)
        }
        "ask" => {
            let question = text(&first, "ask(question, options): question")?;
            let options = json(&host, "options of ask()", &second, cx)?;
            host.make_call(Kind::Ask, String::new(), What::Ask { question, options }, cx)
        }
        "graph" => {
            let slug = text(&first, "graph(slug, args): slug")?;
            let args = json(&host, "args of graph()", &second, cx)?;
            host.make_call(Kind::Graph, slug.clone(), What::Graph { slug, args }, cx)
        }
        "sleep" => {
            let seconds = first.as_number().filter(|s| *s >= 0.0 && s.is_finite());
            let seconds = seconds.ok_or_else(|| wrong("sleep(seconds): seconds must be a number, 0 or more"))?;
            host.make_call(Kind::Sleep, String::new(), What::Sleep { seconds }, cx)
        }
        "wave" => {
            let form = text(&first, "form")?;
            let size = second.to_index(cx)?;
            host.make_call(Kind::Wave, String::new(), What::Wave { form, size }, cx)
        }
        _ => Err(wrong("no such call")),
    }
}

fn wrong(message: &str) -> JsError {
    JsNativeError::typ().with_message(message.to_owned()).into()
}

fn text(value: &JsValue, what: &str) -> JsResult<String> {
    match value.as_string() {
        Some(text) => Ok(text.to_std_string_lossy()),
        None => Err(wrong(&format!("{what} must be a text, it is {}", value.type_of()))),
    }
}

/// `{}` for what was left out.
fn json(host: &Host, what: &str, value: &JsValue, cx: &mut Context) -> JsResult<String> {
    if value.is_undefined() {
        return Ok("{}".to_owned());
    }
    host.stringify(what, value, cx).map_err(|e| match e {
        Unwritable::NotJson { path, what } => wrong(&format!("{path} is {what}")),
        Unwritable::Script(e) => e,
    })
}

fn label(options: &JsValue, cx: &mut Context) -> JsResult<String> {
    let Some(options) = options.as_object() else { return Ok(String::new()) };
    let label = options.get(js_string!("label"), cx)?;
    Ok(label.as_string().map(|l| l.to_std_string_lossy()).unwrap_or_default())
}

/// `log(…)`: texts as they are, everything else as JSON.
fn log(_: &JsValue, args: &[JsValue], cx: &mut Context) -> JsResult<JsValue> {
    let host = host(cx)?;
    let mut out = String::new();
    for value in args {
        if !out.is_empty() {
            out.push(' ');
        }
        match value.as_string() {
            Some(text) => out.push_str(&text.to_std_string_lossy()),
            None if value.is_undefined() => out.push_str("undefined"),
            None => out.push_str(&json(&host, "the value to log", value, cx)?),
        }
    }
    host.make_note(Note::Log { text: cut_chars(&out, LOG_CHARS_MAX).to_owned() }, cx)
}

fn phase(_: &JsValue, args: &[JsValue], cx: &mut Context) -> JsResult<JsValue> {
    let title = text(args.get_or_undefined(0), "phase(title): title")?;
    host(cx)?.make_note(Note::Phase { title: cut_chars(&title, NAME_CHARS_MAX).to_owned() }, cx)
}

/// `lines(text)`: one pass, where `split` of this interpreter takes time that grows with the square.
fn lines(_: &JsValue, args: &[JsValue], cx: &mut Context) -> JsResult<JsValue> {
    let Some(text) = args.get_or_undefined(0).as_string() else {
        return Err(wrong("lines(text): text must be a text"));
    };
    const NEW_LINE: u16 = 0x0A;
    const RETURN: u16 = 0x0D;
    let (mut pieces, mut start, mut previous) = (Vec::new(), 0, 0);
    for (at, unit) in text.iter().enumerate() {
        if unit == NEW_LINE {
            let end = if previous == RETURN { at - 1 } else { at };
            pieces.push(JsValue::from(text.slice(start, end.max(start))));
            start = at + 1;
        }
        previous = unit;
    }
    if start < text.len() {
        pieces.push(JsValue::from(text.slice(start, text.len())));
    }
    Ok(JsArray::from_iter(pieces, cx).into())
}

fn wave(_: &JsValue, _: &[JsValue], cx: &mut Context) -> JsResult<JsValue> {
    Ok(host(cx)?.wave.get().map_or_else(JsValue::undefined, number))
}

fn wave_of(value: &JsValue) -> Option<u64> {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // our own numbers, from 1
    value.as_number().map(|n| n as u64)
}

fn enter_wave(_: &JsValue, args: &[JsValue], cx: &mut Context) -> JsResult<JsValue> {
    host(cx)?.wave.set(wave_of(args.get_or_undefined(0)));
    Ok(JsValue::undefined())
}

fn stop_wave(_: &JsValue, args: &[JsValue], cx: &mut Context) -> JsResult<JsValue> {
    let Some(wave) = wave_of(args.get_or_undefined(0)) else { return Ok(JsValue::undefined()) };
    let reason = args.get_or_undefined(1).to_string(cx)?.to_std_string_lossy();
    let host = host(cx)?;
    host.note(Note::WaveStopped { wave, reason }, None).map_err(|gone| host.lost(&gone))?;
    Ok(JsValue::undefined())
}

fn close_wave(_: &JsValue, args: &[JsValue], cx: &mut Context) -> JsResult<JsValue> {
    let Some(wave) = wave_of(args.get_or_undefined(0)) else { return Ok(JsValue::undefined()) };
    let (done, failed) = (wave_of(args.get_or_undefined(1)).unwrap_or(0), wave_of(args.get_or_undefined(2)).unwrap_or(0));
    let host = host(cx)?;
    host.note(Note::WaveFinished { wave, done, failed }, None).map_err(|gone| host.lost(&gone))?;
    Ok(JsValue::undefined())
}

fn note_retry(_: &JsValue, args: &[JsValue], cx: &mut Context) -> JsResult<JsValue> {
    let why = args.get_or_undefined(0).to_string(cx)?.to_std_string_lossy();
    let seconds = args.get_or_undefined(1).as_number().unwrap_or(0.0);
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // saturates, which is what we want
    let wait_ms = (seconds * 1000.0).max(0.0) as u64;
    let attempt = wave_of(args.get_or_undefined(2)).unwrap_or(0);
    host(cx)?.make_note(Note::Retry { why: cut_chars(&why, LOG_CHARS_MAX).to_owned(), wait_ms, attempt }, cx)
}

/// `Math.random` from the recorded seed (SplitMix64).
pub(super) fn seed_random(cx: &mut Context) -> JsResult<()> {
    let math = cx.intrinsics().objects().math();
    let random = FunctionObjectBuilder::new(cx.realm(), NativeFunction::from_fn_ptr(random)).name(js_string!("random")).length(0).build();
    math.set(js_string!("random"), random, true, cx)?;
    Ok(())
}

fn random(_: &JsValue, _: &[JsValue], cx: &mut Context) -> JsResult<JsValue> {
    let host = host(cx)?;
    let state = host.random.get().wrapping_add(0x9E37_79B9_7F4A_7C15);
    host.random.set(state);
    let mut x = state;
    x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^= x >> 31;
    #[allow(clippy::cast_precision_loss)] // 53 bits fit exactly
    Ok(((x >> 11) as f64 / (1u64 << 53) as f64).into())
}
