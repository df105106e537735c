//! One model call with its retries: place in the lane, reservation, call, settlement, and what to do about a failure.
use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use domain::{
    ledger::{Ledger, Reservation, Usage},
    limits::MODEL_ATTEMPTS_MAX,
    wire::event::FleetWhat,
};
use tokio::time::Instant;

use super::{AgentErrorCode, Failure, Running, talk::Talk};
use crate::model::{ModelError, ModelReply, ModelRequest, ModelUsage};

/// A provider that wants us to wait longer than this is not waited for.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(120);
const BACKOFF_MAX: Duration = Duration::from_secs(30);

impl Running {
    pub(super) async fn call_model(&self, turn: u64, talk: &mut Talk) -> Result<ModelReply, Failure> {
        let request = talk.request(self.max_tokens);
        let input = talk.estimate();
        for attempt in 1..=MODEL_ATTEMPTS_MAX as u64 {
            match self.attempt(turn, attempt, &request, input).await? {
                Ok(reply) => {
                    talk.counted(reply.usage);
                    return Ok(reply);
                }
                Err(error) => self.before_next(attempt, &error).await?,
            }
        }
        Err(Failure::new(AgentErrorCode::Provider, "the model could not be called")) // every last attempt fails in `before_next`
    }

    async fn attempt(&self, turn: u64, attempt: u64, request: &ModelRequest, input: u64) -> Result<Result<ModelReply, ModelError>, Failure> {
        let _place = self.model.lane.enter().await;
        let mut held = self.reserve(input)?;
        let started = Instant::now();
        let on_text = |text: &str| {
            if let Some(agent) = self.with.caller.agent {
                self.with.record.tell(FleetWhat::AgentText { agent, from: 0, text: text.to_owned() });
            }
        };
        let result = self.model.model.call(request, &on_text).await;
        let usage = match &result {
            Ok(reply) => reply.usage.map_or(Usage::Unknown, |u| Usage::Known { input: u.input, output: u.output }),
            Err(error) if error.used_nothing() => Usage::Nothing,
            Err(_) => Usage::Unknown,
        };
        let counted = result.as_ref().ok().and_then(|reply| reply.usage);
        let overrun = held.settle(usage, self.cost(counted));
        self.account(turn, attempt, counted, usage, input, started.elapsed());
        if overrun {
            return Err(Failure::new(AgentErrorCode::CeilingReached, "the provider used more tokens than it was allowed; the run ends"));
        }
        Ok(result)
    }

    fn reserve(&self, input: u64) -> Result<Held, Failure> {
        let worst = self.model.price.map(|price| price.worst(input, self.max_tokens));
        let reserved = self.with.ledger.lock().unwrap_or_else(PoisonError::into_inner).reserve_priced(&self.label, input, self.max_tokens, worst);
        (self.with.ledger_changed)();
        let reservation = reserved.map_err(|reached| Failure::new(AgentErrorCode::CeilingReached, reached))?;
        let (ledger, changed, spent) = (self.with.ledger.clone(), self.with.ledger_changed.clone(), self.spent.clone());
        Ok(Held { ledger, changed, spent, reserved: input.saturating_add(self.max_tokens), reservation: Some(reservation) })
    }

    /// Dollars; `None` where the price or the usage is not known.
    fn cost(&self, counted: Option<ModelUsage>) -> Option<f64> {
        Some(self.model.price?.cost(counted?))
    }

    fn account(&self, turn: u64, attempt: u64, counted: Option<ModelUsage>, usage: Usage, input: u64, took: Duration) {
        let cost = self.cost(counted);
        let mut spent = self.spent.lock().unwrap_or_else(PoisonError::into_inner);
        spent.usage += counted.unwrap_or_default();
        if usage != Usage::Nothing {
            match cost {
                Some(cost) => spent.cost = Some(spent.cost.unwrap_or(0.0) + cost),
                None => spent.cost_unknown = true,
            }
        }
        drop(spent);
        let estimated = usage == Usage::Unknown;
        let (input, output) = match usage {
            Usage::Known { input, output } => (input, output),
            Usage::Unknown => (input, self.max_tokens),
            Usage::Nothing => (0, 0),
        };
        let Some(agent) = self.with.caller.agent else { return };
        let (cached, ms) = (counted.map_or(0, |u| u.cache_read), took.as_millis() as u64);
        self.with.record.tell(FleetWhat::ModelCall { agent, turn, attempt, input, output, cached, estimated, cost, ms });
    }

    /// Waits before the next attempt, or says why there is none.
    async fn before_next(&self, attempt: u64, error: &ModelError) -> Result<(), Failure> {
        let code = code(error);
        if !error.is_retryable() || attempt >= MODEL_ATTEMPTS_MAX as u64 {
            let tries = if attempt > 1 { format!(" (after {attempt} tries)") } else { String::new() };
            return Err(Failure::new(code, format!("{error}{tries}")));
        }
        let asked = match error {
            ModelError::Status { retry_after, .. } => *retry_after,
            ModelError::Unreachable(_) | ModelError::Broken(_) | ModelError::Stalled(_) | ModelError::Overflow(_) | ModelError::PastReserved(_) => {
                None
            }
        };
        if let Some(wait) = asked.filter(|wait| *wait > RETRY_AFTER_MAX) {
            return Err(Failure::new(code, format!("{error}; the provider asks to wait {} s", wait.as_secs())));
        }
        let wait = asked.unwrap_or_else(|| self.backoff(attempt));
        if error.is_rate_limit() {
            self.model.lane.pause_for(wait);
        }
        let (why, wait_ms) = (error.to_string(), wait.as_millis() as u64);
        self.with.record.tell(FleetWhat::Retry { agent: self.with.caller.agent, why, wait_ms, attempt });
        tokio::time::sleep(wait).await;
        Ok(())
    }

    /// 1, 2, 4, 8 … at most 30 s, a quarter more or less.
    fn backoff(&self, attempt: u64) -> Duration {
        let doubled = Duration::from_secs(1 << (attempt - 1).min(5));
        doubled.min(BACKOFF_MAX).mul_f64(0.75 + 0.5 * (self.with.jitter)().clamp(0.0, 1.0))
    }
}

fn code(error: &ModelError) -> AgentErrorCode {
    match error {
        ModelError::Status { status: 429 | 529, .. } => AgentErrorCode::RateLimited,
        ModelError::Status { .. } | ModelError::Unreachable(_) | ModelError::Broken(_) => AgentErrorCode::Provider,
        ModelError::Stalled(_) => AgentErrorCode::Stalled,
        ModelError::Overflow(_) => AgentErrorCode::ContextOverflow,
        ModelError::PastReserved(_) => AgentErrorCode::Cut,
    }
}

/// A reservation in use. Dropped without a settlement (the agent was stopped in mid-call) it keeps its tokens.
struct Held {
    ledger: Arc<Mutex<Ledger>>,
    changed: Arc<dyn Fn() + Send + Sync>,
    spent: Arc<Mutex<super::Spent>>,
    reserved: u64,
    reservation: Option<Reservation>,
}
impl Held {
    /// True if this or another call of the execution used more than it was allowed.
    fn settle(&mut self, usage: Usage, cost: Option<f64>) -> bool {
        let Some(reservation) = self.reservation.take() else { return false };
        let mut ledger = self.ledger.lock().unwrap_or_else(PoisonError::into_inner);
        ledger.settle_priced(reservation, usage, cost);
        let overrun = ledger.is_overrun();
        drop(ledger);
        self.spent.lock().unwrap_or_else(PoisonError::into_inner).tokens += match usage {
            Usage::Known { input, output } => input.saturating_add(output),
            Usage::Unknown => self.reserved,
            Usage::Nothing => 0,
        };
        (self.changed)();
        overrun
    }
}
impl Drop for Held {
    fn drop(&mut self) {
        if self.reservation.is_some() {
            self.spent.lock().unwrap_or_else(PoisonError::into_inner).cost_unknown = true;
            self.settle(Usage::Unknown, None);
        }
    }
}
