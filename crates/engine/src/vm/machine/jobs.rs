//! The interpreter's job queue, clock and hooks.
//!
//! The interpreter has a trap: a limit (loop, recursion) that is hit after an `await` is swallowed, the step just vanishes and its promise
//! never settles. The hooks watch every resumed step, so that the cause can still be told.
use std::{
    cell::{Cell, RefCell},
    collections::VecDeque,
    rc::Rc,
    sync::{Arc, atomic::Ordering},
};

use boa_engine::{
    Context, JsError, JsNativeError, JsObject, JsResult, JsString, JsValue,
    builtins::promise::{OperationType, Promise},
    context::{
        HostHooks,
        time::{Clock, JsInstant},
    },
    job::{GenericJob, Job, JobCallback, JobExecutor, NativeAsyncJob, PromiseJob},
    object::builtins::JsFunction,
    realm::Realm,
};
use domain::limits::{MIB, VM_LOOP_ITERATIONS_MAX, VM_RECURSION_MAX};
use futures::FutureExt;

use super::Pulse;

/// One typed array or buffer may be this large; the heap limit counts them all.
const BUFFER_BYTES_MAX: u64 = 64 * MIB as u64;

pub(super) enum Drained {
    Empty,
    Error(JsError),
    Stopped,
}

/// What a step that vanished had run into.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lost {
    /// As many instructions as only a loop without end makes.
    Loop,
    Recursion,
}

pub(super) struct Jobs {
    promises: RefCell<VecDeque<PromiseJob>>,
    others: RefCell<VecDeque<GenericJob>>,
    asyncs: RefCell<VecDeque<NativeAsyncJob>>,
    /// Counts what a step leaves behind when it waits again or ends: jobs and reactions.
    traces: Cell<u64>,
    lost: Cell<Option<Lost>>,
    pulse: Arc<Pulse>,
    wave: CurrentWave,
}

/// The wave that what runs now belongs to. Whatever waits is resumed in the wave in which it began to wait, however it waited.
pub(super) type CurrentWave = Rc<Cell<Option<u64>>>;

impl Jobs {
    pub(super) fn new(pulse: Arc<Pulse>, wave: CurrentWave) -> Self {
        Self {
            promises: RefCell::default(),
            others: RefCell::default(),
            asyncs: RefCell::default(),
            traces: Cell::new(0),
            lost: Cell::new(None),
            pulse,
            wave,
        }
    }

    /// Runs jobs until there are none.
    pub(super) fn drain(&self, cx: &mut Context) -> Drained {
        loop {
            if self.pulse.stop.load(Ordering::Relaxed) {
                return Drained::Stopped;
            }
            let job = self.promises.borrow_mut().pop_front();
            if let Some(job) = job {
                if let Err(e) = job.call(cx) {
                    return Drained::Error(e);
                }
                continue;
            }
            let other = self.others.borrow_mut().pop_front();
            if let Some(other) = other {
                if let Err(e) = other.call(cx) {
                    return Drained::Error(e);
                }
                continue;
            }
            // Only `import()` makes these; the loader that loads nothing has its refusal ready at once.
            let pending = self.asyncs.borrow_mut().pop_front();
            let Some(pending) = pending else {
                cx.clear_kept_objects();
                return Drained::Empty;
            };
            let cell = RefCell::new(&mut *cx);
            if let Some(Err(e)) = pending.call(&cell).now_or_never() {
                return Drained::Error(e);
            }
        }
    }

    pub(super) fn lost(&self) -> Option<Lost> {
        self.lost.get()
    }
    fn trace(&self) {
        self.traces.set(self.traces.get() + 1);
    }
}

impl JobExecutor for Jobs {
    fn enqueue_job(self: Rc<Self>, job: Job, _: &mut Context) {
        self.trace();
        match job {
            Job::PromiseJob(job) => self.promises.borrow_mut().push_back(job),
            Job::GenericJob(job) => self.others.borrow_mut().push_back(job),
            Job::AsyncJob(job) => self.asyncs.borrow_mut().push_back(job),
            // No timers and no finalizers are in scope; the enum may grow.
            _ => {}
        }
    }
    fn run_jobs(self: Rc<Self>, cx: &mut Context) -> JsResult<()> {
        match self.drain(cx) {
            Drained::Error(e) => Err(e),
            Drained::Empty | Drained::Stopped => Ok(()),
        }
    }
}

/// The script's clock: the recorded start plus what the host says has passed. It moves only with answers, so a replay sees the same.
#[derive(Default)]
pub(super) struct ScriptClock {
    start_ms: Cell<i64>,
    passed_ms: Cell<i64>,
}
impl ScriptClock {
    pub(super) fn begin(&self, start_ms: i64) {
        self.start_ms.set(start_ms);
    }
    pub(super) fn set(&self, passed_ms: i64) {
        self.passed_ms.set(self.passed_ms.get().max(passed_ms));
    }
}
impl Clock for ScriptClock {
    fn now(&self) -> JsInstant {
        let ms = self.passed_ms.get().max(0).unsigned_abs();
        JsInstant::new(ms / 1000, u32::try_from(ms % 1000).unwrap_or(0) * 1_000_000)
    }
    fn system_time_millis(&self) -> i64 {
        self.start_ms.get().saturating_add(self.passed_ms.get())
    }
}

pub(super) struct Hooks {
    jobs: Rc<Jobs>,
    unhandled: RefCell<Vec<JsObject<Promise>>>,
}
impl Hooks {
    pub(super) fn new(jobs: Rc<Jobs>) -> Self {
        Self { jobs, unhandled: RefCell::default() }
    }

    /// Words for every rejection that nobody looked at, a few at most.
    pub(super) fn unhandled(&self, cx: &mut Context) -> Vec<String> {
        let all = self.unhandled.take();
        let words = all.iter().take(5).map(|promise| {
            let reason = match boa_engine::object::builtins::JsPromise::from_object(promise.clone().upcast()).map(|p| p.state()) {
                Ok(boa_engine::builtins::promise::PromiseState::Rejected(reason)) => super::faults::words(&reason, cx),
                Ok(_) | Err(_) => "unknown".to_owned(),
            };
            format!("A promise failed and nobody awaited it: {reason}")
        });
        words.collect()
    }
}

impl HostHooks for Hooks {
    fn make_job_callback(&self, callback: JsFunction, _: &mut Context) -> JobCallback {
        self.jobs.trace();
        JobCallback::new(callback, self.jobs.wave.get())
    }

    fn call_job_callback(&self, job: &JobCallback, this: &JsValue, args: &[JsValue], cx: &mut Context) -> JsResult<JsValue> {
        if let Some(wave) = job.host_defined().downcast_ref::<Option<u64>>() {
            self.jobs.wave.set(*wave);
        }
        let (traces, fuel) = (self.jobs.traces.get(), cx.instructions_remaining());
        let result = job.callback().call(this, args, cx)?;
        // A step that waits again or has someone waiting for it leaves a trace. One that leaves none has ended unseen, or vanished.
        if self.jobs.traces.get() == traces && result.is_undefined() {
            // The instructions it took tell which: a limit is not reached with few.
            let used = fuel - cx.instructions_remaining();
            if u64::try_from(used).is_ok_and(|used| used > VM_LOOP_ITERATIONS_MAX) {
                self.jobs.lost.set(Some(Lost::Loop));
            } else if used >= VM_RECURSION_MAX {
                self.jobs.lost.set(Some(Lost::Recursion));
            }
        }
        Ok(result)
    }

    fn promise_rejection_tracker(&self, promise: &JsObject<Promise>, operation: OperationType, _: &mut Context) {
        match operation {
            OperationType::Reject => self.unhandled.borrow_mut().push(promise.clone()),
            OperationType::Handle => self.unhandled.borrow_mut().retain(|other| !JsObject::equals(other, promise)),
        }
    }

    fn ensure_can_compile_strings(&self, _: Realm, _: &[JsString], _: &JsString, _: bool, _: &mut Context) -> JsResult<()> {
        Err(JsNativeError::eval().with_message("a Graph cannot make code from text: eval and Function are switched off").into())
    }
    fn local_timezone_offset_seconds(&self, _: i64) -> i32 {
        0
    }
    fn max_buffer_size(&self, _: &mut Context) -> u64 {
        BUFFER_BYTES_MAX
    }
}
