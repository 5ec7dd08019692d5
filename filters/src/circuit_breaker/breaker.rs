//! One breaker, shared by everybody who calls under its name.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::machine::{Machine, Rules, State};
use super::window::Outcome;

/// A circuit breaker. While it is closed, letting a call through is one load; its outcome is noted under a short lock.
#[derive(Debug)]
pub struct Breaker {
    name: Arc<str>,
    rules: Rules,
    origin: Instant,
    /// The number of the present state while that is closed, [`NOT_CLOSED`] otherwise.
    closed: AtomicU64,
    machine: Mutex<Machine>,
    calls: [AtomicU64; CallKind::ALL.len()],
}

const NOT_CLOSED: u64 = u64::MAX;

/// What became of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CallKind {
    /// It counted as a success.
    Successful,
    /// It counted as a failure.
    Failed,
    /// It took longer than it should; counted besides as what it was.
    Slow,
    /// It says nothing about the upstream: given up, answered by a filter, or of a kind to be ignored.
    Ignored,
    /// It was not let through.
    NotPermitted,
}

/// A call that was let through. Dropped without a word it does not count.
#[derive(Debug)]
pub(super) struct Permit {
    breaker: Arc<Breaker>,
    epoch: u64,
    started: Instant,
    is_told: bool,
}

/// A call that was not let through.
#[derive(Clone, Copy, Debug)]
pub(super) struct NotPermitted {
    pub(super) state: State,
    /// How long none will be, where that is known.
    pub(super) wait: Duration,
}

// === impl Breaker ===

impl Breaker {
    /// A closed one.
    #[must_use]
    pub fn new(name: Arc<str>, rules: Rules) -> Self {
        let machine = Mutex::new(Machine::new(rules.clone()));
        Self { name, rules, origin: Instant::now(), closed: AtomicU64::new(0), machine, calls: Default::default() }
    }

    /// What it is called.
    #[must_use]
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// When it opens and closes.
    #[must_use]
    pub fn rules(&self) -> &Rules {
        &self.rules
    }

    /// Whether calls go through.
    #[must_use]
    pub fn state(&self) -> State {
        self.with(|machine, now| machine.state(now))
    }

    /// The share of failed calls in percent; `None` before it is judged by.
    #[must_use]
    pub fn failure_rate(&self) -> Option<f64> {
        self.with(Machine::failure_rate)
    }

    /// How many calls became `kind`.
    #[must_use]
    pub fn calls(&self, kind: CallKind) -> u64 {
        self.calls[kind as usize].load(Relaxed)
    }

    pub(super) fn admit(self: &Arc<Self>) -> Result<Permit, NotPermitted> {
        let permit = |epoch| Permit { breaker: Arc::clone(self), epoch, started: Instant::now(), is_told: false };
        let closed = self.closed.load(Relaxed);
        if closed != NOT_CLOSED {
            return Ok(permit(closed));
        }
        let (admitted, state) = self.with(|machine, now| (machine.admit(now), machine.state(now)));
        admitted.map(permit).map_err(|wait| {
            self.count(CallKind::NotPermitted);
            NotPermitted { state, wait }
        })
    }

    /// Lets `act` work on the machine, and says in the log what has changed.
    fn with<T>(&self, act: impl FnOnce(&mut Machine, Duration) -> T) -> T {
        let now = self.origin.elapsed();
        let (result, before, after) = {
            let mut machine = self.machine.lock();
            let epoch = machine.epoch();
            let result = act(&mut machine, now);
            let state = machine.state(now);
            // Within the lock, so that an older state does not overwrite a newer one.
            self.closed.store(if state == State::Closed { machine.epoch() } else { NOT_CLOSED }, Relaxed);
            (result, epoch, (machine.epoch(), state))
        };
        if before != after.0 {
            let name = &*self.name;
            match after.1 {
                State::Open => tracing::warn!(name, "circuit breaker opens: calls are not let through"),
                State::HalfOpen => tracing::info!(name, "circuit breaker is half open: a few calls are let through"),
                State::Closed => tracing::info!(name, "circuit breaker closes"),
            }
        }
        result
    }

    fn count(&self, kind: CallKind) {
        self.calls[kind as usize].fetch_add(1, Relaxed);
    }
}

// === impl CallKind ===

impl CallKind {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Successful, Self::Failed, Self::Slow, Self::Ignored, Self::NotPermitted];

    /// The word for it in metrics.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Successful => "successful",
            Self::Failed => "failed",
            Self::Slow => "slow",
            Self::Ignored => "ignored",
            Self::NotPermitted => "not_permitted",
        }
    }
}

// === impl Permit ===

impl Permit {
    /// The call has ended.
    pub(super) fn ended(mut self, failed: bool) {
        self.is_told = true;
        let slow = self.started.elapsed() > self.breaker.rules.slow_after;
        let breaker = &self.breaker;
        breaker.count(if failed { CallKind::Failed } else { CallKind::Successful });
        if slow {
            breaker.count(CallKind::Slow);
        }
        breaker.with(|machine, now| machine.record(now, self.epoch, Outcome { failed, slow }));
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if !self.is_told {
            self.breaker.count(CallKind::Ignored);
            self.breaker.with(|machine, _| machine.release(self.epoch));
        }
    }
}
