//! When calls are let through: a state machine that is told the time, as a duration since any one moment.
//!
//! Source: resilience4j's `CircuitBreakerStateMachine` and `CircuitBreakerMetrics`. One thing differs: a call that was let
//! through in another state than the present one is not counted, where resilience4j counts it towards whatever state it
//! ends in, so that answers to calls from before an outage may close a half-open breaker.

use std::time::Duration;

use super::window::{Outcome, Sums, Window, WindowSize};

/// When a breaker opens and closes. The defaults are resilience4j's.
#[derive(Clone, Debug, PartialEq)]
pub struct Rules {
    /// What it looks back on (`slidingWindowType`, `slidingWindowSize`).
    pub window: WindowSize,
    /// Calls before which it does not judge (`minimumNumberOfCalls`); the whole window, where that is fewer calls.
    pub minimum_calls: u32,
    /// It opens at this share of failed calls, in percent (`failureRateThreshold`).
    pub failure_rate: f64,
    /// It opens at this share of slow calls, in percent (`slowCallRateThreshold`).
    pub slow_rate: f64,
    /// A call that takes longer is slow (`slowCallDurationThreshold`).
    pub slow_after: Duration,
    /// How long it is open.
    pub wait: OpenWait,
    /// Calls that it lets through, half open, to see how they end (`permittedNumberOfCallsInHalfOpenState`).
    pub trial_calls: u32,
    /// It opens again when it was half open for so long (`maxWaitDurationInHalfOpenState`); `None`: it waits for the calls.
    pub trial_wait: Option<Duration>,
    /// Whether it is half open as soon as the wait is over, not with the next call
    /// (`automaticTransitionFromOpenToHalfOpenEnabled`). Only [`State`] shows it.
    pub automatic: bool,
}

/// How long a breaker is open before it lets calls through again (`waitDurationInOpenState`).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OpenWait {
    /// The first time.
    pub first: Duration,
    /// What the wait is multiplied by, each time that it opens without having closed (`exponentialBackoffMultiplier`).
    pub multiplier: f64,
    /// No wait is longer (`exponentialMaxWaitDurationInOpenState`).
    pub max: Option<Duration>,
}

/// Whether calls go through.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// All of them.
    Closed,
    /// A few, on trial.
    HalfOpen,
    /// None.
    Open,
}

/// The machine. Calls are told apart by the number of the state that let them through.
#[derive(Clone, Debug)]
pub(super) struct Machine {
    rules: Rules,
    state: Inner,
    epoch: u64,
    /// How often it opened since it was closed.
    opened: u32,
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
    /// Whether what is in a window is reason to open; `None` before that can be said.
    fn verdict(&self, sums: Sums, size: Option<u32>) -> Option<bool> {
        let minimum = size.map_or(self.minimum_calls, |size| self.minimum_calls.min(size));
        if sums.calls == 0 || sums.calls < minimum {
            return None;
        }
        Some(percent(sums.failed, sums.calls) >= self.failure_rate || percent(sums.slow, sums.calls) >= self.slow_rate)
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
    /// The `number`th wait, from 1.
    fn wait(&self, number: u32) -> Duration {
        let factor = self.multiplier.powi(i32::try_from(number.saturating_sub(1)).unwrap_or(i32::MAX));
        let wait = Duration::try_from_secs_f64(self.first.as_secs_f64() * factor).unwrap_or(Duration::MAX);
        wait.min(self.max.unwrap_or(Duration::MAX))
    }
}

fn percent(part: u32, whole: u32) -> f64 {
    f64::from(part) * 100.0 / f64::from(whole)
}

impl State {
    /// The word for it in metrics and logs.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::HalfOpen => "half_open",
            Self::Open => "open",
        }
    }
}

impl Machine {
    pub(super) fn new(rules: Rules) -> Self {
        let state = Inner::Closed(Window::new(rules.window));
        Self { rules, state, epoch: 0, opened: 0 }
    }

    /// The state that a call now finds.
    pub(super) fn state(&mut self, now: Duration) -> State {
        self.settle(now);
        match &self.state {
            Inner::Closed(_) => State::Closed,
            Inner::Open { until } if self.rules.automatic && *until <= now => State::HalfOpen,
            Inner::Open { .. } => State::Open,
            Inner::HalfOpen { .. } => State::HalfOpen,
        }
    }

    /// The number of the present state, to be told with the outcome of what it lets through.
    pub(super) fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The share of failed calls in percent; `None` before it is judged by.
    pub(super) fn failure_rate(&mut self, now: Duration) -> Option<f64> {
        let size = self.rules.window_calls();
        let (sums, size) = match &mut self.state {
            Inner::Closed(window) => (window.sums(now), size),
            Inner::HalfOpen { window, .. } => (window.sums(now), Some(self.rules.trial_calls)),
            Inner::Open { .. } => return None,
        };
        self.rules.verdict(sums, size).map(|_| percent(sums.failed, sums.calls))
    }

    /// Lets a call through, or says how long none will be: zero where that depends on the calls on trial.
    pub(super) fn admit(&mut self, now: Duration) -> Result<u64, Duration> {
        self.settle(now);
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

    /// A call that the state numbered `epoch` let through has ended.
    pub(super) fn record(&mut self, now: Duration, epoch: u64, outcome: Outcome) {
        self.settle(now);
        if epoch != self.epoch {
            return;
        }
        let size = self.rules.window_calls();
        match &mut self.state {
            Inner::Closed(window) => {
                let sums = window.record(now, outcome);
                if self.rules.verdict(sums, size) == Some(true) {
                    self.open(now);
                }
            }
            Inner::HalfOpen { window, .. } => {
                let sums = window.record(now, outcome);
                match self.rules.verdict(sums, Some(self.rules.trial_calls.max(1))) {
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

    /// A call that the state numbered `epoch` let through has ended in a way that does not count: another may go.
    pub(super) fn release(&mut self, epoch: u64) {
        if let Inner::HalfOpen { admitted, .. } = &mut self.state
            && epoch == self.epoch
        {
            *admitted = admitted.saturating_sub(1);
        }
    }

    /// What happens with time alone.
    fn settle(&mut self, now: Duration) {
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
