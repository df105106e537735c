//! The interpreter: one script on one big-stack thread, talking to its host through a [`Link`].
//!
//! Invariant: it never waits for anything but its host. What it cannot bound by itself (native loops, memory) the process around it does.
mod faults;
mod host;
mod jobs;
mod lint;
mod natives;
mod parse;
mod stringify;

use std::{
    cell::Cell,
    path::Path,
    rc::Rc,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    task::{Poll, Waker},
};

use boa_engine::{
    Context, JsError, JsObject, JsResult, JsString, JsValue, Script, Source, builtins::promise::PromiseState, context::ContextBuilder, js_string,
    module::IdleModuleLoader, object::builtins::JsPromise, property::Attribute,
};
use domain::limits::{MIB, VM_BUSY_MS_MAX, VM_LOOP_ITERATIONS_MAX, VM_RECURSION_MAX, VM_STACK_BYTES, VM_VALUE_STACK_MAX};

use super::{
    stdio::HEAP_USED,
    wire::{Answer, End, Fault, FaultKind, FromVm, Note, Place, Start, ToVm},
};
use host::Host;
use jobs::{Drained, Hooks, Jobs, ScriptClock};

/// The name of the owner's source in positions; frames of anything else are not shown.
pub(crate) const SOURCE_NAME: &str = "graph.js";
const PRELUDE_NAME: &str = "prelude.js";
const PRELUDE: &str = include_str!("../prelude.js");
/// The one name in scope that is not the prelude's.
const ARGS: &str = "args";
const HEAD: &str = "(async function main(){\"use strict\";";
const TAIL: &str = "\n})";

/// What a machine is started for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// An execution, whose order may come later: its interpreter is made meanwhile.
    Run,
    /// A look for syntax errors, which needs no interpreter.
    Lint,
}
impl Purpose {
    pub(crate) const fn of(order: &ToVm) -> Self {
        match order {
            ToVm::Lint { .. } => Self::Lint,
            ToVm::Start(_) | ToVm::Answer(_) => Self::Run,
        }
    }
}

/// The machine's only way out.
pub(crate) trait Link {
    /// Blocks while the host does not keep up. `Err` means that nobody listens any more.
    fn send(&mut self, message: FromVm) -> Result<(), Gone>;
    /// Blocks until the host says something.
    fn receive(&mut self) -> Result<ToVm, Gone>;
}
#[derive(Debug)]
pub(crate) struct Gone;

/// Seen by the watchdog of the process and by whoever wants the machine to stop between two jobs.
#[derive(Debug)]
pub(crate) struct Pulse {
    /// Counts up whenever the machine begins to work or to wait; odd while it works.
    pub(crate) turns: AtomicU64,
    pub(crate) stop: AtomicBool,
    /// It has worked too long: it shall say where it stands, and end.
    pub(crate) tired: AtomicBool,
    /// Longest one turn of work may take.
    pub(crate) busy_ms: AtomicU64,
}
impl Default for Pulse {
    fn default() -> Self {
        Self { turns: AtomicU64::new(0), stop: AtomicBool::new(false), tired: AtomicBool::new(false), busy_ms: AtomicU64::new(VM_BUSY_MS_MAX) }
    }
}
impl Pulse {
    fn turn(&self) {
        self.turns.fetch_add(1, Ordering::SeqCst);
    }
}

/// Runs the machine on a thread of its own, with the stack it needs.
pub(crate) fn spawn(purpose: Purpose, link: impl Link + Send + 'static, pulse: Arc<Pulse>) -> std::io::Result<std::thread::JoinHandle<()>> {
    std::thread::Builder::new().name("script".into()).stack_size(VM_STACK_BYTES).spawn(move || serve(purpose, link, &pulse))
}

/// Takes one order, does it, says how it ended. For an execution the interpreter is made before the order comes: in a spare process nobody
/// waits for it.
fn serve(purpose: Purpose, mut link: impl Link + 'static, pulse: &Arc<Pulse>) {
    let prepared = (purpose == Purpose::Run).then(|| Interpreter::new(pulse));
    match link.receive() {
        Ok(ToVm::Start(start)) => {
            let interpreter = prepared.unwrap_or_else(|| Interpreter::new(pulse));
            pulse.busy_ms.store(start.busy_ms, Ordering::SeqCst);
            pulse.turn();
            run(&start, interpreter, Box::new(link), pulse);
            pulse.turn();
        }
        Ok(ToVm::Lint { source }) => {
            pulse.turn();
            // Nobody listening is nobody to tell.
            let _ = link.send(FromVm::Linted(lint::lint(&source)));
            pulse.turn();
        }
        Ok(ToVm::Answer(_)) | Err(Gone) => {}
    }
}

/// All that can be made without an order: what is in scope, but for the arguments and the ledger's ceiling.
struct Interpreter {
    context: Context,
    own: host::Own,
    /// The prelude's function that takes the ceiling.
    begin: JsObject,
    wave: jobs::CurrentWave,
    jobs: Rc<Jobs>,
    hooks: Rc<Hooks>,
    clock: Rc<ScriptClock>,
}

impl Interpreter {
    fn new(pulse: &Arc<Pulse>) -> JsResult<Self> {
        let wave = jobs::CurrentWave::default();
        let jobs = Rc::new(Jobs::new(Arc::clone(pulse), Rc::clone(&wave)));
        let hooks = Rc::new(Hooks::new(Rc::clone(&jobs)));
        let clock = Rc::new(ScriptClock::default());
        let mut context = ContextBuilder::new()
            .job_executor(Rc::clone(&jobs))
            .host_hooks(Rc::clone(&hooks))
            .clock(Rc::clone(&clock))
            .module_loader(Rc::new(IdleModuleLoader))
            .instructions_remaining(usize::MAX)
            .build()?;
        let limits = context.runtime_limits_mut();
        limits.set_loop_iteration_limit(VM_LOOP_ITERATIONS_MAX);
        limits.set_recursion_limit(VM_RECURSION_MAX);
        limits.set_stack_size_limit(VM_VALUE_STACK_MAX);
        let (own, begin) = set_up(&mut context)?;
        Ok(Self { context, own, begin, wave, jobs, hooks, clock })
    }
}

/// Registers what is in scope and takes away what would make two runs differ.
fn set_up(cx: &mut Context) -> JsResult<(host::Own, JsObject)> {
    let primordials = stringify::Primordials::take(cx)?;
    let prelude = Script::parse(Source::from_bytes(PRELUDE).with_path(Path::new(PRELUDE_NAME)), None, cx)?.evaluate(cx)?;
    let primitives = natives::primitives(cx)?;
    let made = host::callable(&prelude)?.call(&JsValue::undefined(), &[primitives.into()], cx)?.to_object(cx)?;
    let make_error = host::callable(&made.get(js_string!("makeError"), cx)?)?;
    let begin = host::callable(&made.get(js_string!("begin"), cx)?)?;
    let globals = made.get(js_string!("globals"), cx)?.to_object(cx)?;
    let mut missing = globals.own_property_keys(cx)?.len();
    for item in crate::api::API.iter().filter(|item| item.name != ARGS) {
        let value = globals.get(JsString::from(item.name), cx)?;
        cx.register_global_property(JsString::from(item.name), value, Attribute::empty())?;
        missing = missing.saturating_sub(1);
    }
    debug_assert_eq!(missing, 0, "the table and the prelude name the same");
    natives::seed_random(cx)?;
    for name in ["WeakRef", "FinalizationRegistry", "SharedArrayBuffer", "Atomics"] {
        cx.global_object().delete_property_or_throw(JsString::from(name), cx)?;
    }
    Ok((host::Own { primordials, make_error }, begin))
}

fn run(start: &Start, interpreter: JsResult<Interpreter>, mut link: Box<dyn Link>, pulse: &Arc<Pulse>) {
    // Nobody listening is nobody to tell.
    let mut fail = |fault| drop(link.send(FromVm::End(End::Failed(fault))));
    if let Err(Place { message, line, column }) = lint::lint(&start.source) {
        let text = faults::with_place(&format!("SyntaxError: {message}"), &start.source, line, column, &[]);
        return fail(Fault { kind: FaultKind::Syntax, text, line: Some(line), code: None });
    }
    let mut interpreter = match interpreter {
        Ok(interpreter) => interpreter,
        Err(e) => return fail(broken(&e)),
    };
    let host = Host::new(link, start, interpreter.own.clone(), Rc::clone(&interpreter.wave));
    // The interpreter is taken down only after the end was told: that takes time.
    host.send_last(FromVm::End(match evaluate(start, &host, &mut interpreter, pulse) {
        Ok(json) => End::Returned { json },
        Err(Stop::Fault(fault)) => End::Failed(fault),
        Err(Stop::Gone) => return,
    }));
}

/// Why the script does not go on.
pub(crate) enum Stop {
    Fault(Fault),
    Gone,
}
impl From<Gone> for Stop {
    fn from(_: Gone) -> Self {
        Self::Gone
    }
}

fn evaluate(start: &Start, host: &Rc<Host>, interpreter: &mut Interpreter, pulse: &Arc<Pulse>) -> Result<String, Stop> {
    let Interpreter { context: cx, begin, jobs, hooks, clock, .. } = interpreter;
    clock.begin(start.now_ms);
    let run = Running { source: &start.source, host, jobs, pulse, collected_at: Cell::new(0) };
    hand_over(start, host, begin, cx).map_err(|e| Stop::Fault(broken(&e)))?;
    let promise = run.start(cx)?;
    let value = run.settle(&promise, clock, cx)?;
    for text in hooks.unhandled(cx) {
        host.note(Note::Warning { text, line: None }, None)?;
    }
    let out = host.stringify("the result", &value, cx);
    let json = out.map_err(|e| Stop::Fault(run.unwritable(e, cx)))?;
    for text in host.take_warnings() {
        host.note(Note::Warning { text, line: None }, None)?;
    }
    Ok(json)
}

fn broken(e: &JsError) -> Fault {
    Fault { kind: FaultKind::Broken, text: format!("the interpreter failed: {e}"), line: None, code: None }
}

/// What only the order says comes into scope.
fn hand_over(start: &Start, host: &Rc<Host>, begin: &JsObject, cx: &mut Context) -> JsResult<()> {
    cx.insert_data(Rc::clone(host));
    begin.call(&JsValue::undefined(), &[natives::number(start.budget.total)], cx)?;
    let args = parse::parse_json(&start.args, cx)?;
    cx.register_global_property(JsString::from(ARGS), args, Attribute::empty())
}

struct Running<'a> {
    source: &'a str,
    host: &'a Rc<Host>,
    jobs: &'a Rc<Jobs>,
    pulse: &'a Arc<Pulse>,
    /// Size of the heap after the last collection we asked for.
    collected_at: Cell<usize>,
}

impl Running<'_> {
    fn start(&self, cx: &mut Context) -> Result<JsPromise, Stop> {
        let program = format!("{HEAD}{}{TAIL}()", crate::script::without_export(self.source));
        let parsed = Script::parse(Source::from_bytes(&program).with_path(Path::new(SOURCE_NAME)), None, cx);
        let script = parsed.map_err(|e| self.fault(e, cx))?;
        let value = self.first_steps(&script, cx)?;
        let promise = value.as_object().ok_or_else(|| JsError::from_opaque(value)).and_then(JsPromise::from_object);
        promise.map_err(|e| self.fault(e, cx))
    }

    /// The script up to its first wait, in slices: between two of them it can be interrupted, and it is known where it stands. After a
    /// wait the interpreter runs each step whole; then only the process around it can end it.
    fn first_steps(&self, script: &Script, cx: &mut Context) -> Result<JsValue, Stop> {
        const SLICE: u32 = 100_000;
        let ended = {
            let mut steps = std::pin::pin!(script.evaluate_async_with_budget(cx, SLICE));
            let mut nobody = std::task::Context::from_waker(Waker::noop());
            loop {
                match steps.as_mut().poll(&mut nobody) {
                    Poll::Ready(ended) => break Some(ended),
                    Poll::Pending if self.is_to_end() => break None,
                    Poll::Pending => {}
                }
            }
        };
        match ended {
            Some(ended) => ended.map_err(|e| self.fault(e, cx)),
            None if self.pulse.stop.load(Ordering::SeqCst) => Err(Stop::Gone),
            None => {
                let message = super::busy_words(self.pulse.busy_ms.load(Ordering::SeqCst));
                Err(Stop::Fault(faults::interrupted(&message, self.source, &host::site(cx).stack)))
            }
        }
    }

    fn is_to_end(&self) -> bool {
        self.pulse.stop.load(Ordering::SeqCst) || self.pulse.tired.load(Ordering::SeqCst)
    }

    /// Jobs, then one answer of the host, and again, until the script's promise is settled.
    fn settle(&self, promise: &JsPromise, clock: &ScriptClock, cx: &mut Context) -> Result<JsValue, Stop> {
        loop {
            match self.jobs.drain(cx) {
                Drained::Empty => {}
                Drained::Error(e) => return Err(self.fault(e, cx)),
                Drained::Stopped => return Err(Stop::Gone),
            }
            match promise.state() {
                PromiseState::Fulfilled(value) => return Ok(value),
                PromiseState::Rejected(value) => return Err(Stop::Fault(faults::thrown(&value, self.source, cx))),
                PromiseState::Pending => {}
            }
            if self.host.waits_for_nothing() {
                return Err(Stop::Fault(faults::stalled(self.jobs.lost(), self.source, self.host.last_line())));
            }
            self.collect_when_grown();
            self.host.send_idle()?;
            self.pulse.turn();
            let message = self.host.receive();
            self.pulse.turn();
            match message? {
                ToVm::Answer(answer) => {
                    clock.set(answer.clock_ms);
                    self.deliver(answer, cx)?;
                }
                ToVm::Start(_) | ToVm::Lint { .. } => return Err(Stop::Gone),
            }
        }
    }

    /// The collector does not see memory that hangs outside its own boxes (buffers above all): it is called when the heap has grown much.
    fn collect_when_grown(&self) {
        const GROWTH: usize = 64 * MIB;
        let used = HEAP_USED.load(Ordering::Relaxed);
        if used > self.collected_at.get().saturating_add(GROWTH) {
            boa_gc::force_collect();
            self.collected_at.set(HEAP_USED.load(Ordering::Relaxed));
        }
    }

    fn deliver(&self, answer: Answer, cx: &mut Context) -> Result<(), Stop> {
        let settled = self.host.settle(answer, cx);
        settled.map_err(|e| match e {
            host::Undelivered::Gone => Stop::Gone,
            host::Undelivered::Script(e) => self.fault(e, cx),
        })
    }

    fn fault(&self, e: JsError, cx: &mut Context) -> Stop {
        Stop::Fault(faults::from_error(e, self.source, cx))
    }

    fn unwritable(&self, e: stringify::Unwritable, cx: &mut Context) -> Fault {
        match e {
            stringify::Unwritable::NotJson { path, what } => {
                let text = format!("The result cannot be written as JSON: {path} is {what}.");
                Fault { kind: FaultKind::NotJson, text, line: None, code: None }
            }
            stringify::Unwritable::Script(e) => faults::from_error(e, self.source, cx),
        }
    }
}
