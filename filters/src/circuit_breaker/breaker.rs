//! A circuit breaker that several stacks share.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::state_machine::{ForcedState, Rules, State, StateMachine};
use super::window::Outcome;
use crate::replay::BodyWait;

/// A circuit breaker. While it is closed, admitting a call is one atomic load; its outcome is recorded under a short lock.
#[derive(Debug)]
pub struct Breaker {
    name: Arc<str>,
    rules: Rules,
    origin: Instant,
    /// The epoch of the state machine while it is closed and not forced, [`NOT_CLOSED`] otherwise.
    closed_epoch: AtomicU64,
    machine: Mutex<StateMachine>,
    calls: [AtomicU64; CallKind::ALL.len()],
}

const NOT_CLOSED: u64 = u64::MAX;

tollgate_limiter::labelled! {
    /// The outcome of a call.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum CallKind {
        /// It counted as a success.
        Successful = "successful",
        /// It counted as a failure.
        Failed = "failed",
        /// It took longer than [`Rules::slow_after`]. It is also counted as a success or a failure.
        Slow = "slow",
        /// It counted neither as a success nor as a failure: it was cancelled, had a local response, or an ignored fault.
        Ignored = "ignored",
        /// It was not permitted.
        NotPermitted = "not_permitted",
    }
}

/// A permitted call. If dropped without [`ended`](Self::ended), the call counts as [`Ignored`](CallKind::Ignored).
#[derive(Debug)]
pub(super) struct Permit {
    breaker: Arc<Breaker>,
    epoch: u64,
    started: Instant,
    /// Time for which the call has waited for the client.
    wait: Option<Arc<BodyWait>>,
    /// True until it has given up its place among the trial calls.
    has_place: bool,
    has_ended: bool,
}

/// A call that was not permitted.
#[derive(Clone, Copy, Debug)]
pub(super) struct NotPermitted {
    pub(super) state: State,
    /// Time until calls are permitted again; zero if unknown.
    pub(super) wait: Duration,
}

// === impl Breaker ===

impl Breaker {
    /// Creates a closed breaker.
    #[must_use]
    pub fn new(name: Arc<str>, rules: Rules) -> Self {
        let machine = Mutex::new(StateMachine::new(rules.clone()));
        Self {
            name,
            rules,
            origin: Instant::now(),
            closed_epoch: AtomicU64::new(0),
            machine,
            calls: Default::default(),
        }
    }

    /// Returns the name.
    #[must_use]
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// Returns the rules.
    #[must_use]
    pub fn rules(&self) -> &Rules {
        &self.rules
    }

    /// Returns the state.
    #[must_use]
    pub fn state(&self) -> State {
        self.with(|machine, now| machine.state(now))
    }

    /// Sets the state for `time`. Calls are not counted meanwhile; afterwards, the breaker continues as before.
    pub fn force(&self, state: ForcedState, time: Duration) {
        self.with(|machine, now| machine.force(state, now.saturating_add(time)));
    }

    /// Ends a forced state.
    pub fn end_force(&self) {
        self.with(StateMachine::end_force);
    }

    /// Returns the forced state and its remaining time; `None` if no state is forced.
    #[must_use]
    pub fn forced(&self) -> Option<(ForcedState, Duration)> {
        self.with(StateMachine::forced)
    }

    /// Returns the percentage of failed calls; `None` below the minimum number of calls.
    #[must_use]
    pub fn failure_rate(&self) -> Option<f64> {
        self.with(StateMachine::failure_rate)
    }

    /// Returns the number of calls with this outcome.
    #[must_use]
    pub fn calls(&self, kind: CallKind) -> u64 {
        self.calls[kind as usize].load(Relaxed)
    }

    pub(super) fn admit(self: &Arc<Self>) -> Result<Permit, NotPermitted> {
        let permit = |epoch| Permit {
            breaker: Arc::clone(self),
            epoch,
            started: Instant::now(),
            wait: None,
            has_place: true,
            has_ended: false,
        };
        let epoch = self.closed_epoch.load(Relaxed);
        if epoch != NOT_CLOSED {
            return Ok(permit(epoch));
        }
        let (admitted, state) = self.with(|machine, now| (machine.admit(now), machine.state(now)));
        admitted.map(permit).map_err(|wait| {
            self.count(CallKind::NotPermitted);
            NotPermitted { state, wait }
        })
    }

    /// Runs `act` on the state machine and logs a change of state.
    fn with<T>(&self, act: impl FnOnce(&mut StateMachine, Duration) -> T) -> T {
        let now = self.origin.elapsed();
        let (result, has_changed, state, is_forced) = {
            let mut machine = self.machine.lock();
            let epoch = machine.epoch();
            let result = act(&mut machine, now);
            let state = machine.state(now);
            // A forced state ends by time, so each call must check the state machine meanwhile.
            let is_forced = machine.forced(now).is_some();
            let is_closed = state == State::Closed && !is_forced;
            // Under the lock, so that an older state does not overwrite a newer one.
            self.closed_epoch.store(if is_closed { machine.epoch() } else { NOT_CLOSED }, Relaxed);
            (result, machine.epoch() != epoch, state, is_forced)
        };
        if has_changed {
            let name = &*self.name;
            match state {
                _ if is_forced => tracing::warn!(name, state = state.as_str(), "circuit breaker forced"),
                State::Open => tracing::warn!(name, "circuit breaker opened"),
                State::HalfOpen => tracing::info!(name, "circuit breaker half-open"),
                State::Closed => tracing::info!(name, "circuit breaker closed"),
            }
        }
        result
    }

    fn count(&self, kind: CallKind) {
        self.calls[kind as usize].fetch_add(1, Relaxed);
    }
}

// === impl Permit ===

impl Permit {
    /// Leaves out `wait` from the time of the call.
    pub(super) fn exclude(&mut self, wait: Arc<BodyWait>) {
        self.wait = Some(wait);
    }

    /// Returns true while the call waits for the client.
    pub(super) fn is_waiting(&self) -> bool {
        self.wait.as_ref().is_some_and(|wait| wait.is_waiting())
    }

    /// Returns the time of the call so far, without that in which it waited for the client.
    pub(super) fn elapsed(&self) -> Duration {
        let waited = self.wait.as_ref().map_or(Duration::ZERO, |wait| wait.total());
        self.started.elapsed().saturating_sub(waited)
    }

    /// Half-open, permits another trial call beside this one, whose outcome counts all the same.
    pub(super) fn give_up_place(&mut self) {
        if std::mem::take(&mut self.has_place) {
            self.breaker.with(|machine, _| machine.release(self.epoch));
        }
    }

    /// Records the end of the call.
    pub(super) fn ended(mut self, failed: bool) {
        self.has_ended = true;
        let slow = self.elapsed() > self.breaker.rules.slow_after;
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
        if !self.has_ended {
            self.breaker.count(CallKind::Ignored);
            self.give_up_place();
        }
    }
}
