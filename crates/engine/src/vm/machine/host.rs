//! The script's side of its host: calls that are made, held back, answered; where the script stands meanwhile.
use std::{
    cell::{Cell, RefCell},
    collections::{HashMap, VecDeque},
    rc::Rc,
};

use boa_engine::{
    Context, JsError, JsNativeError, JsObject, JsResult, JsString, JsValue, builtins::promise::ResolvingFunctions, object::builtins::JsPromise,
};
use domain::limits::{HOST_CALLS_IN_FLIGHT_MAX, HOST_CALLS_MAX};

use super::{
    Gone, Link, SOURCE_NAME,
    jobs::CurrentWave,
    parse::parse_json,
    stringify::{self, Unwritable},
};
use crate::vm::wire::{Answer, Budget, Call, Failure, FromVm, Note, Start, ToVm, What};

pub(super) struct Host {
    link: RefCell<Box<dyn Link>>,
    waiting: RefCell<HashMap<u64, Waiting>>,
    /// Made, but not sent: as many as may be in flight are.
    held_back: RefCell<VecDeque<Call>>,
    in_flight: Cell<usize>,
    made: Cell<u64>,
    notes: Cell<usize>,
    pub(super) wave: CurrentWave,
    pub(super) budget: Cell<Budget>,
    last_line: Cell<Option<u32>>,
    pub(super) random: Cell<u64>,
    own: Own,
    warnings: RefCell<Vec<String>>,
    gone: Cell<bool>,
}

/// Functions of the interpreter that the host calls itself, as they were before the script could change anything.
#[derive(Clone)]
pub(super) struct Own {
    pub(super) primordials: stringify::Primordials,
    /// The prelude's: makes the error of a failed call.
    pub(super) make_error: JsObject,
}

struct Waiting {
    resolve: ResolvingFunctions,
    kind: Kind,
    site: Site,
    label: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
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
pub(super) struct Site {
    pub(super) line: Option<u32>,
    pub(super) stack: String,
}

pub(super) enum Undelivered {
    Gone,
    Script(JsError),
}

impl Host {
    pub(super) fn new(link: Box<dyn Link>, start: &Start, own: Own, wave: CurrentWave) -> Rc<Self> {
        Rc::new(Self {
            link: RefCell::new(link),
            waiting: RefCell::default(),
            held_back: RefCell::default(),
            in_flight: Cell::new(0),
            made: Cell::new(0),
            notes: Cell::new(0),
            wave,
            budget: Cell::new(start.budget),
            last_line: Cell::new(None),
            random: Cell::new(start.seed),
            own,
            warnings: RefCell::default(),
            gone: Cell::new(false),
        })
    }

    pub(super) const fn parse(&self) -> &JsObject {
        &self.own.primordials.parse
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
    pub(super) fn note(&self, note: Note, line: Option<u32>) -> Result<(), Gone> {
        self.link.borrow_mut().send(FromVm::Note { note, line })
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
        let written = stringify::stringify(what, value, &self.own.primordials, cx)?;
        self.warnings.borrow_mut().extend(written.warnings);
        Ok(written.json)
    }

    /// Settles the promise of one call.
    pub(super) fn settle(&self, answer: Answer, cx: &mut Context) -> Result<(), Undelivered> {
        self.budget.set(answer.budget);
        let waiting = self.waiting.borrow_mut().remove(&answer.id);
        let Some(waiting) = waiting else { return Ok(()) };
        self.in_flight.set(self.in_flight.get().saturating_sub(1));
        self.send_held_back().map_err(|Gone| Undelivered::Gone)?;
        self.stands_at(&waiting.site);
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
        self.own.make_error.call(&JsValue::undefined(), &args, cx)
    }

    /// Sends a call, or holds it back while too many are in flight; the promise is settled by [`Self::settle`].
    pub(super) fn make_call(&self, kind: Kind, label: String, what: What, cx: &mut Context) -> JsResult<JsValue> {
        let site = site(cx);
        let id = self.made.get() + 1;
        if id > HOST_CALLS_MAX as u64 {
            return Err(self.over_limit(kind, &site, format!("more than {HOST_CALLS_MAX} calls in one execution"), cx));
        }
        self.made.set(id);
        self.stands_at(&site);
        let (promise, resolve) = JsPromise::new_pending(cx);
        let call = Call { id, what, wave: self.wave.get(), line: site.line };
        self.waiting.borrow_mut().insert(id, Waiting { resolve, kind, site, label });
        self.held_back.borrow_mut().push_back(call);
        self.send_held_back().map_err(|gone| self.lost(&gone))?;
        Ok(promise.into())
    }

    fn stands_at(&self, site: &Site) {
        if site.line.is_some() {
            self.last_line.set(site.line);
        }
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

    pub(super) fn make_note(&self, note: Note, cx: &mut Context) -> JsResult<JsValue> {
        let site = site(cx);
        if self.notes.get() >= HOST_CALLS_MAX {
            return Err(self.over_limit(Kind::Sleep, &site, format!("more than {HOST_CALLS_MAX} lines of log and progress"), cx));
        }
        self.notes.set(self.notes.get() + 1);
        self.stands_at(&site);
        self.note(note, site.line).map_err(|gone| self.lost(&gone))?;
        Ok(JsValue::undefined())
    }

    fn over_limit(&self, kind: Kind, site: &Site, message: String, cx: &mut Context) -> JsError {
        let failure = Failure { code: "limit".into(), message, retryable: false, tokens: 0, cost: None };
        self.error(kind, "", &site.stack, &failure, cx).map_or_else(|e| e, JsError::from_opaque)
    }

    /// Nobody listens any more: an error that no script can catch.
    pub(super) fn lost(&self, _: &Gone) -> JsError {
        self.gone.set(true);
        boa_engine::error::RuntimeLimitError::LoopIteration.into()
    }
}

pub(super) fn host(cx: &Context) -> JsResult<Rc<Host>> {
    cx.get_data::<Rc<Host>>().cloned().ok_or_else(|| JsNativeError::error().with_message("no host").into())
}

pub(super) fn callable(value: &JsValue) -> JsResult<JsObject> {
    value.as_callable().ok_or_else(|| JsNativeError::typ().with_message("not a function").into())
}

pub(super) fn site(cx: &Context) -> Site {
    let mut site = Site::default();
    for at in cx.stack_trace().map(boa_engine::vm::CallFrame::position).take(50) {
        let Some(position) = at.position else { continue };
        if at.path.to_string() != SOURCE_NAME {
            continue;
        }
        let place = super::faults::own_place(position.line_number(), position.column_number());
        site.line = site.line.or(place.map(|(line, _)| line));
        let (line, column) = place.unwrap_or((1, 0));
        site.stack.push_str(&format!("    at {} ({SOURCE_NAME}:{line}:{column})\n", at.function_name.to_std_string_lossy()));
    }
    site
}
