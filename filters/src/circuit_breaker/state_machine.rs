//! The state machine of a breaker. Callers pass the time as a duration since a fixed moment.
//!
//! Source: resilience4j's `CircuitBreakerStateMachine` and `CircuitBreakerMetrics`. One difference: a call that was
//! permitted in an earlier state is not counted. resilience4j counts it in the state in which it ends, so that calls from
//! before an outage may close a half-open breaker.

use std::time::Duration;

use super::window::{Counts, Outcome, Window, WindowSize};

/// Conditions under which a breaker opens and closes. The defaults are resilience4j's.
#[derive(Clone, Debug, PartialEq)]
pub struct Rules {
    /// The sliding window (`slidingWindowType`, `slidingWindowSize`).
    pub window: WindowSize,
    /// Minimum number of calls before the rates count (`minimumNumberOfCalls`), limited to the size of the window.
    pub minimum_calls: u32,
    /// Percentage of failed calls at which the breaker opens (`failureRateThreshold`).
    pub failure_rate: f64,
    /// Percentage of slow calls at which the breaker opens (`slowCallRateThreshold`).
    pub slow_rate: f64,
    /// Duration above which a call is slow (`slowCallDurationThreshold`).
    pub slow_after: Duration,
    /// Duration of the open state.
    pub wait: OpenWait,
    /// Number of permitted calls in the half-open state (`permittedNumberOfCallsInHalfOpenState`).
    pub trial_calls: u32,
    /// Maximum duration of the half-open state, after which the breaker opens again (`maxWaitDurationInHalfOpenState`);
    /// `None` is unlimited.
    pub trial_wait: Option<Duration>,
    /// Enters the half-open state at the end of the wait, without a call
    /// (`automaticTransitionFromOpenToHalfOpenEnabled`). This affects only the reported [`State`].
    pub automatic: bool,
}

/// Duration of the open state (`waitDurationInOpenState`).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OpenWait {
    /// The first duration.
    pub first: Duration,
    /// Factor for each time that the breaker opens again before it has closed (`exponentialBackoffMultiplier`).
    pub multiplier: f64,
    /// The maximum duration (`exponentialMaxWaitDurationInOpenState`).
    pub max: Option<Duration>,
}

tollgate_limiter::labelled! {
    /// The state of a breaker.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum State {
        /// All calls are permitted.
        Closed = "closed",
        /// A few trial calls are permitted.
        HalfOpen = "half_open",
        /// No calls are permitted.
        Open = "open",
    }
}

/// The state machine. The epoch, which each change of state increments, identifies the state that permitted a call.
#[derive(Clone, Debug)]
pub(super) struct StateMachine {
    rules: Rules,
    state: Inner,
    epoch: u64,
    /// Number of times that it opened since it was closed.
    opened: u32,
    /// State that an operator has set, and the end of it.
    forced: Option<(ForcedState, Duration)>,
}

/// State that an operator sets for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForcedState {
    /// No call is permitted.
    Open,
    /// Every call is permitted.
    Closed,
}

#[derive(Clone, Debug)]
enum Inner {
    Closed(Window),
    Open { until: Duration },
    HalfOpen { since: Duration, admitted: u32, window: Window },
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            window: WindowSize::Calls(std::num::NonZeroU32::MIN.saturating_add(99)),
            minimum_calls: 100,
            failure_rate: 50.0,
            slow_rate: 100.0,
            slow_after: Duration::from_secs(60),
            wait: OpenWait { first: Duration::from_secs(60), multiplier: 1.0, max: None },
            trial_calls: 10,
            trial_wait: None,
            automatic: false,
        }
    }
}

impl Rules {
    /// Returns true if the counts of a window open the breaker; `None` below the minimum number of calls.
    fn should_open(&self, counts: Counts, size: Option<u32>) -> Option<bool> {
        let minimum = size.map_or(self.minimum_calls, |size| self.minimum_calls.min(size));
        if counts.calls == 0 || counts.calls < minimum {
            return None;
        }
        Some(
            percent(counts.failed, counts.calls) >= self.failure_rate
                || percent(counts.slow, counts.calls) >= self.slow_rate,
        )
    }

    fn window_calls(&self) -> Option<u32> {
        match self.window {
            WindowSize::Calls(size) => Some(size.get()),
            WindowSize::Seconds(_) => None,
        }
    }

    fn trial_window(&self) -> Window {
        let size = std::num::NonZeroU32::new(self.trial_calls).unwrap_or(std::num::NonZeroU32::MIN);
        Window::new(WindowSize::Calls(size))
    }
}

impl OpenWait {
    /// Returns the duration of the open state when the breaker opens for the time `number`, from 1, without closing.
    fn wait(&self, number: u32) -> Duration {
        let factor = self.multiplier.powi(i32::try_from(number.saturating_sub(1)).unwrap_or(i32::MAX));
        let wait = Duration::try_from_secs_f64(self.first.as_secs_f64() * factor).unwrap_or(Duration::MAX);
        wait.min(self.max.unwrap_or(Duration::MAX))
    }
}

fn percent(part: u32, whole: u32) -> f64 {
    f64::from(part) * 100.0 / f64::from(whole)
}

impl StateMachine {
    pub(super) fn new(rules: Rules) -> Self {
        let state = Inner::Closed(Window::new(rules.window));
        Self { rules, state, epoch: 0, opened: 0, forced: None }
    }

    /// Returns the state at `now`.
    pub(super) fn state(&mut self, now: Duration) -> State {
        self.advance(now);
        match &self.state {
            _ if self.forced.is_some_and(|(state, _)| state == ForcedState::Open) => State::Open,
            _ if self.forced.is_some() => State::Closed,
            Inner::Closed(_) => State::Closed,
            Inner::Open { until } if self.rules.automatic && *until <= now => State::HalfOpen,
            Inner::Open { .. } => State::Open,
            Inner::HalfOpen { .. } => State::HalfOpen,
        }
    }

    /// Returns the number of the current state. [`record`](Self::record) and [`release`](Self::release) take it.
    pub(super) fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Returns the percentage of failed calls; `None` below the minimum number of calls.
    pub(super) fn failure_rate(&mut self, now: Duration) -> Option<f64> {
        let size = self.rules.window_calls();
        let (counts, size) = match &mut self.state {
            Inner::Closed(window) => (window.counts(now), size),
            Inner::HalfOpen { window, .. } => (window.counts(now), Some(self.rules.trial_calls)),
            Inner::Open { .. } => return None,
        };
        self.rules.should_open(counts, size).map(|_| percent(counts.failed, counts.calls))
    }

    /// Sets the state until `until`. Calls are not counted meanwhile.
    pub(super) fn force(&mut self, state: ForcedState, until: Duration) {
        self.forced = Some((state, until));
        self.epoch += 1;
    }

    /// Returns to the previous state. Trial calls start anew, because those before are of an earlier epoch.
    pub(super) fn end_force(&mut self, now: Duration) {
        if self.forced.take().is_some() {
            self.epoch += 1;
            if let Inner::HalfOpen { since, admitted, window } = &mut self.state {
                (*since, *admitted, *window) = (now, 0, self.rules.trial_window());
            }
        }
    }

    /// Returns the state that an operator has set, and its remaining time.
    pub(super) fn forced(&mut self, now: Duration) -> Option<(ForcedState, Duration)> {
        self.advance(now);
        self.forced.map(|(state, until)| (state, until.saturating_sub(now)))
    }

    /// Permits a call and returns the epoch. The error is the time until calls are permitted; zero if that depends on the
    /// trial calls.
    pub(super) fn admit(&mut self, now: Duration) -> Result<u64, Duration> {
        self.advance(now);
        match self.forced {
            Some((ForcedState::Open, until)) => return Err(until.saturating_sub(now)),
            Some((ForcedState::Closed, _)) => return Ok(self.epoch),
            None => {}
        }
        if let Inner::Open { until } = self.state {
            if now < until {
                return Err(until - now);
            }
            self.enter(Inner::HalfOpen { since: now, admitted: 0, window: self.rules.trial_window() });
        }
        if let Inner::HalfOpen { admitted, .. } = &mut self.state {
            if *admitted >= self.rules.trial_calls.max(1) {
                return Err(Duration::ZERO);
            }
            *admitted += 1;
        }
        Ok(self.epoch)
    }

    /// Records the end of a call that was permitted in `epoch`.
    pub(super) fn record(&mut self, now: Duration, epoch: u64, outcome: Outcome) {
        self.advance(now);
        if epoch != self.epoch || self.forced.is_some() {
            return;
        }
        let size = self.rules.window_calls();
        match &mut self.state {
            Inner::Closed(window) => {
                let counts = window.record(now, outcome);
                if self.rules.should_open(counts, size) == Some(true) {
                    self.open(now);
                }
            }
            Inner::HalfOpen { window, .. } => {
                let counts = window.record(now, outcome);
                match self.rules.should_open(counts, Some(self.rules.trial_calls.max(1))) {
                    Some(true) => self.open(now),
                    Some(false) => {
                        self.opened = 0;
                        self.enter(Inner::Closed(Window::new(self.rules.window)));
                    }
                    None => {}
                }
            }
            Inner::Open { .. } => {}
        }
    }

    /// Releases the place of a call that was permitted in `epoch`. Half-open, another trial call is permitted.
    pub(super) fn release(&mut self, epoch: u64) {
        if let Inner::HalfOpen { admitted, .. } = &mut self.state
            && epoch == self.epoch
        {
            *admitted = admitted.saturating_sub(1);
        }
    }

    /// Makes the transitions that depend only on time.
    fn advance(&mut self, now: Duration) {
        match self.forced {
            Some((_, until)) if until <= now => self.end_force(until),
            Some(_) => return,
            None => {}
        }
        if let (Inner::HalfOpen { since, .. }, Some(wait)) = (&self.state, self.rules.trial_wait) {
            let end = since.saturating_add(wait);
            if end <= now {
                self.open(end);
            }
        }
    }

    fn open(&mut self, now: Duration) {
        self.opened = self.opened.saturating_add(1);
        let until = now.saturating_add(self.rules.wait.wait(self.opened));
        self.enter(Inner::Open { until });
    }

    fn enter(&mut self, state: Inner) {
        self.state = state;
        self.epoch += 1;
    }
}

#[cfg(test)]
mod tests;
