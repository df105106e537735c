//! The primitives the prelude is built on: calls to the host that answer with a promise, notes that need no answer, and `lines`.
use std::{
    cell::{Cell, RefCell},
    collections::{HashMap, VecDeque},
    rc::Rc,
};

use boa_engine::{
    Context, JsArgs, JsError, JsNativeError, JsObject, JsResult, JsString, JsValue, NativeFunction,
    builtins::promise::ResolvingFunctions,
    js_string,
    object::{
        FunctionObjectBuilder, ObjectInitializer,
        builtins::{JsArray, JsPromise},
    },
    property::Attribute,
};
use domain::{
    limits::{HOST_CALLS_IN_FLIGHT_MAX, HOST_CALLS_MAX, LIST_ITEMS_MAX, LOG_CHARS_MAX, NAME_CHARS_MAX, RETRY_ATTEMPTS_MAX},
    text::cut_chars,
};

use super::{
    Gone, Link, SOURCE_NAME,
    stringify::{self, Unwritable},
};
use crate::vm::wire::{Answer, Budget, Call, Failure, FromVm, Note, Start, ToVm, What};

/// The script's side of its host.
pub(super) struct Host {
    link: RefCell<Box<dyn Link>>,
    waiting: RefCell<HashMap<u64, Waiting>>,
    /// Made, but not sent: as many as may be in flight are.
    held_back: RefCell<VecDeque<Call>>,
    in_flight: Cell<usize>,
    made: Cell<u64>,
    notes: Cell<usize>,
    wave: Cell<Option<u64>>,
    budget: Cell<Budget>,
    last_line: Cell<Option<u32>>,
    random: Cell<u64>,
    make_error: RefCell<Option<JsObject>>,
    primordials: RefCell<Option<stringify::Primordials>>,
    warnings: RefCell<Vec<String>>,
    gone: Cell<bool>,
}

struct Waiting {
    resolve: ResolvingFunctions,
    kind: Kind,
    wave: Option<u64>,
    site: Site,
    label: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Agent,
    Tool,
    Ask,
    Graph,
    Sleep,
    Wave,
}
impl Kind {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Agent => "agent",
            Self::Tool => "tool",
            Self::Ask => "ask",
            Self::Graph => "graph",
            Self::Sleep => "sleep",
            Self::Wave => "wave",
        }
    }
}

/// Where the script stands: frames of its own source only.
#[derive(Debug, Clone, Default)]
struct Site {
    line: Option<u32>,
    stack: String,
}

pub(super) enum Undelivered {
    Gone,
    Script(JsError),
}

impl Host {
    pub(super) fn new(link: Box<dyn Link>, start: &Start) -> Rc<Self> {
        Rc::new(Self {
            link: RefCell::new(link),
            waiting: RefCell::default(),
            held_back: RefCell::default(),
            in_flight: Cell::new(0),
            made: Cell::new(0),
            notes: Cell::new(0),
            wave: Cell::new(None),
            budget: Cell::new(start.budget),
            last_line: Cell::new(None),
            random: Cell::new(start.seed),
            make_error: RefCell::default(),
            primordials: RefCell::default(),
            warnings: RefCell::default(),
            gone: Cell::new(false),
        })
    }

    pub(super) fn take_primordials(&self, cx: &mut Context) -> JsResult<()> {
        *self.primordials.borrow_mut() = Some(stringify::Primordials::take(cx)?);
        Ok(())
    }
    pub(super) fn keep_make_error(&self, function: &JsValue) -> JsResult<()> {
        *self.make_error.borrow_mut() = Some(callable(function)?);
        Ok(())
    }

    pub(super) fn send_last(&self, message: FromVm) {
        // Nobody listening is nobody to tell.
        let _ = self.link.borrow_mut().send(message);
    }
    pub(super) fn send_idle(&self) -> Result<(), Gone> {
        if self.gone.get() {
            return Err(Gone);
        }
        self.link.borrow_mut().send(FromVm::Idle)
    }
    pub(super) fn receive(&self) -> Result<ToVm, Gone> {
        self.link.borrow_mut().receive()
    }
    pub(super) fn note(&self, note: Note) -> Result<(), Gone> {
        self.link.borrow_mut().send(FromVm::Note(note))
    }
    pub(super) fn waits_for_nothing(&self) -> bool {
        self.waiting.borrow().is_empty()
    }
    pub(super) fn last_line(&self) -> Option<u32> {
        self.last_line.get()
    }
    pub(super) fn take_warnings(&self) -> Vec<String> {
        self.warnings.take()
    }

    pub(super) fn stringify(&self, what: &str, value: &JsValue, cx: &mut Context) -> Result<String, Unwritable> {
        let primordials = self.primordials.borrow().clone();
        let primordials = primordials.ok_or_else(|| Unwritable::Script(JsNativeError::error().with_message("not set up").into()))?;
        let written = stringify::stringify(what, value, &primordials, cx)?;
        self.warnings.borrow_mut().extend(written.warnings);
        Ok(written.json)
    }

    /// Settles the promise of one call; the wave of that call is the wave of what follows from it.
    pub(super) fn settle(&self, answer: Answer, cx: &mut Context) -> Result<(), Undelivered> {
        self.budget.set(answer.budget);
        let waiting = self.waiting.borrow_mut().remove(&answer.id);
        let Some(waiting) = waiting else { return Ok(()) };
        self.in_flight.set(self.in_flight.get().saturating_sub(1));
        self.send_held_back().map_err(|Gone| Undelivered::Gone)?;
        self.wave.set(waiting.wave);
        let settled = match answer.body {
            Ok(json) => match parse_json(&json, cx) {
                Ok(value) => waiting.resolve.resolve.call(&JsValue::undefined(), &[value], cx),
                // Deeper than the interpreter's own parser goes.
                Err(e) => e.into_opaque(cx).and_then(|e| waiting.resolve.reject.call(&JsValue::undefined(), &[e], cx)),
            },
            Err(failure) => self.reject(&waiting, &failure, cx),
        };
        settled.map(|_| ()).map_err(Undelivered::Script)
    }

    fn reject(&self, waiting: &Waiting, failure: &Failure, cx: &mut Context) -> JsResult<JsValue> {
        let error = self.error(waiting.kind, &waiting.label, &waiting.site.stack, failure, cx)?;
        waiting.resolve.reject.call(&JsValue::undefined(), &[error], cx)
    }

    fn error(&self, kind: Kind, label: &str, stack: &str, failure: &Failure, cx: &mut Context) -> JsResult<JsValue> {
        let make = self.make_error.borrow().clone();
        let Some(make) = make else { return Err(JsNativeError::error().with_message(failure.message.clone()).into()) };
        let text = |t: &str| JsValue::from(JsString::from(t));
        #[allow(clippy::cast_precision_loss)] // token counts are far below 2^53
        let tokens = JsValue::from(failure.tokens as f64);
        let cost = failure.cost.map_or_else(JsValue::null, JsValue::from);
        let args = [
            text(kind.as_str()),
            text(&failure.code),
            text(&failure.message),
            failure.retryable.into(),
            tokens,
            cost,
            if label.is_empty() { JsValue::undefined() } else { text(label) },
            text(stack),
        ];
        make.call(&JsValue::undefined(), &args, cx)
    }

    /// Sends a call, or holds it back while too many are in flight; the promise is settled by [`Self::settle`].
    fn make_call(&self, kind: Kind, label: String, what: What, cx: &mut Context) -> JsResult<JsValue> {
        let site = site(cx);
        let id = self.made.get() + 1;
        if id > HOST_CALLS_MAX as u64 {
            return Err(self.over_limit(kind, &site, format!("more than {HOST_CALLS_MAX} calls in one execution"), cx));
        }
        self.made.set(id);
        if site.line.is_some() {
            self.last_line.set(site.line);
        }
        let (promise, resolve) = JsPromise::new_pending(cx);
        let call = Call { id, what, wave: self.wave.get(), line: site.line };
        self.waiting.borrow_mut().insert(id, Waiting { resolve, kind, wave: self.wave.get(), site, label });
        self.held_back.borrow_mut().push_back(call);
        self.send_held_back().map_err(|gone| self.lost(&gone))?;
        Ok(promise.into())
    }

    fn send_held_back(&self) -> Result<(), Gone> {
        while self.in_flight.get() < HOST_CALLS_IN_FLIGHT_MAX {
            let call = self.held_back.borrow_mut().pop_front();
            let Some(call) = call else { return Ok(()) };
            self.in_flight.set(self.in_flight.get() + 1);
            self.link.borrow_mut().send(FromVm::Call(call))?;
        }
        Ok(())
    }

    fn make_note(&self, note: Note, cx: &mut Context) -> JsResult<JsValue> {
        if self.notes.get() >= HOST_CALLS_MAX {
            let site = site(cx);
            return Err(self.over_limit(Kind::Sleep, &site, format!("more than {HOST_CALLS_MAX} lines of log and progress"), cx));
        }
        self.notes.set(self.notes.get() + 1);
        self.note(note).map_err(|gone| self.lost(&gone))?;
        Ok(JsValue::undefined())
    }

    fn over_limit(&self, kind: Kind, site: &Site, message: String, cx: &mut Context) -> JsError {
        let failure = Failure { code: "limit".into(), message, retryable: false, tokens: 0, cost: None };
        self.error(kind, "", &site.stack, &failure, cx).map_or_else(|e| e, JsError::from_opaque)
    }

    /// Nobody listens any more: an error that no script can catch.
    fn lost(&self, _: &Gone) -> JsError {
        self.gone.set(true);
        boa_engine::error::RuntimeLimitError::LoopIteration.into()
    }
}

fn host(cx: &Context) -> JsResult<Rc<Host>> {
    cx.get_data::<Rc<Host>>().cloned().ok_or_else(|| JsNativeError::error().with_message("no host").into())
}

pub(super) fn callable(value: &JsValue) -> JsResult<JsObject> {
    value.as_callable().ok_or_else(|| JsNativeError::typ().with_message("not a function").into())
}

/// `JSON.parse`, as it was before the script.
pub(super) fn parse_json(text: &str, cx: &mut Context) -> JsResult<JsValue> {
    let host = host(cx)?;
    let parse = host.primordials.borrow().as_ref().map(|p| p.parse.clone());
    let parse = parse.ok_or_else(|| JsNativeError::error().with_message("not set up"))?;
    parse.call(&JsValue::undefined(), &[JsString::from(text).into()], cx)
}

fn site(cx: &Context) -> Site {
    let mut site = Site::default();
    for at in cx.stack_trace().map(boa_engine::vm::CallFrame::position).take(50) {
        let Some(position) = at.position else { continue };
        if at.path.to_string() != SOURCE_NAME {
            continue;
        }
        let (line, column) = super::faults::own_place(position.line_number(), position.column_number());
        site.line.get_or_insert(line);
        site.stack.push_str(&format!("    at {} ({SOURCE_NAME}:{line}:{column})\n", at.function_name.to_std_string_lossy()));
    }
    site
}

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
    let total = host(cx)?.budget.get().total;
    let mut object = ObjectInitializer::new(cx);
    for (name, function) in made {
        object.property(name, function, Attribute::empty());
    }
    object.property(js_string!("total"), number(total), Attribute::empty());
    object.property(js_string!("itemsMax"), number(LIST_ITEMS_MAX as u64), Attribute::empty());
    object.property(js_string!("attemptsMax"), number(RETRY_ATTEMPTS_MAX as u64), Attribute::empty());
    Ok(object.build())
}

#[allow(clippy::cast_precision_loss)] // counts are far below 2^53
fn number(n: u64) -> JsValue {
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
    host.note(Note::WaveStopped { wave, reason }).map_err(|gone| host.lost(&gone))?;
    Ok(JsValue::undefined())
}

fn close_wave(_: &JsValue, args: &[JsValue], cx: &mut Context) -> JsResult<JsValue> {
    let Some(wave) = wave_of(args.get_or_undefined(0)) else { return Ok(JsValue::undefined()) };
    let (done, failed) = (wave_of(args.get_or_undefined(1)).unwrap_or(0), wave_of(args.get_or_undefined(2)).unwrap_or(0));
    let host = host(cx)?;
    host.note(Note::WaveFinished { wave, done, failed }).map_err(|gone| host.lost(&gone))?;
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
