//! Circuit breaker of a server.
//!
//! Source: Nygard, *Release It!*, on consecutive failures. An open breaker lets one probe request through every
//! [`PROBE_INTERVAL_US`]; the first successful reply closes it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use super::error::StoreError;
use crate::store::memory::{Clock, MonotonicClock};

/// Consecutive failures that open the breaker.
const FAILURES_TO_OPEN: u32 = 5;

/// Microseconds between two probes of an open breaker. Longer than the usual deadline of a request, so that one probe at
/// a time is in flight; short enough to notice recovery within a second.
const PROBE_INTERVAL_US: u64 = 200_000;

/// Least time between two log lines about one breaker that opens again and again.
const LOG_INTERVAL_US: u64 = 1_000_000;

/// Circuit breaker that any number of clients may share.
#[derive(Debug, Default)]
pub(crate) struct Breaker {
    clock: MonotonicClock,
    state: StateMachine,
    /// Server name in the log; `None` logs nothing.
    name: Option<String>,
    logged: Mutex<Logged>,
}

/// Last log line about a breaker that opened.
#[derive(Debug, Default)]
struct Logged {
    at_us: u64,
    open: bool,
}

/// Breakers of several servers by name; clones share them.
#[derive(Clone, Debug, Default)]
pub struct Breakers {
    by_name: Arc<Mutex<HashMap<String, Weak<Breaker>>>>,
    silent: bool,
}

crate::labelled! {
    /// State of a breaker.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum BreakerState {
        /// All requests pass.
        Closed = "closed",
        /// Only probes pass.
        Open = "open",
    }
}

/// State transitions; callers pass the time in microseconds.
#[derive(Debug, Default)]
struct StateMachine {
    failures: AtomicU32,
    /// Time of the next probe; 0 while closed.
    probe_at_us: AtomicU64,
}

// === impl Breaker ===

impl Breaker {
    /// Returns true if a request may be sent. The caller must then report the outcome, unless the request was dropped.
    #[inline]
    pub(crate) fn admits(&self) -> bool {
        self.state.is_closed() || self.state.admits_probe(self.clock.now_us())
    }

    /// Records a reply.
    #[inline]
    pub(crate) fn record_success(&self) {
        if self.state.record_success() {
            self.log_closed();
        }
    }

    /// Records a failed request.
    pub(crate) fn record_failure(&self, reason: StoreError) {
        if self.state.record_failure(self.clock.now_us()) {
            self.log_opened(reason);
        }
    }

    /// Opens the breaker at once: the server is known to be unreachable.
    pub(crate) fn open(&self, reason: StoreError) {
        if self.state.open(self.clock.now_us()) {
            self.log_opened(reason);
        }
    }

    /// Lets the next request probe the server: it looks reachable again.
    pub(crate) fn probe_now(&self) {
        self.state.probe_now(self.clock.now_us());
    }

    /// Current state.
    #[must_use]
    pub(crate) fn state(&self) -> BreakerState {
        if self.state.is_closed() { BreakerState::Closed } else { BreakerState::Open }
    }

    /// Logs at most once a second.
    fn log_opened(&self, reason: StoreError) {
        let Some(name) = &self.name else { return };
        let now = self.clock.now_us().max(1);
        let mut logged = self.logged.lock();
        if logged.at_us == 0 || now.saturating_sub(logged.at_us) >= LOG_INTERVAL_US {
            *logged = Logged { at_us: now, open: true };
            tracing::warn!(node = %name, reason = reason.as_str(), error = %reason, "redis circuit breaker opened");
        }
    }

    fn log_closed(&self) {
        let Some(name) = &self.name else { return };
        let mut logged = self.logged.lock();
        if std::mem::take(&mut logged.open) {
            let open_for_ms = self.clock.now_us().saturating_sub(logged.at_us) / 1_000;
            tracing::info!(node = %name, open_for_ms, "redis circuit breaker closed");
        }
    }
}

// === impl Breakers ===

impl Breakers {
    /// Breakers that log nothing; their owner does.
    pub(crate) fn silent() -> Self {
        Self { silent: true, ..Self::default() }
    }

    /// Breaker of the server `name`; it lives for as long as a client uses it.
    pub(crate) fn get_or_create(&self, name: &str) -> Arc<Breaker> {
        let mut by_name = self.by_name.lock();
        by_name.retain(|_, breaker| breaker.strong_count() > 0);
        by_name.get(name).and_then(Weak::upgrade).unwrap_or_else(|| {
            let breaker = Arc::new(Breaker { name: (!self.silent).then(|| name.to_owned()), ..Breaker::default() });
            by_name.insert(name.to_owned(), Arc::downgrade(&breaker));
            breaker
        })
    }
}

// === impl StateMachine ===

impl StateMachine {
    #[inline]
    fn is_closed(&self) -> bool {
        self.probe_at_us.load(Ordering::Relaxed) == 0
    }

    /// Returns true if this request is the next probe of an open breaker, and schedules the probe after it.
    fn admits_probe(&self, now_us: u64) -> bool {
        let due = self.probe_at_us.load(Ordering::Relaxed);
        let next = now_us.saturating_add(PROBE_INTERVAL_US);
        due == 0
            || (due <= now_us
                && self.probe_at_us.compare_exchange(due, next, Ordering::Relaxed, Ordering::Relaxed).is_ok())
    }

    /// Returns true if this closed the breaker.
    #[inline]
    fn record_success(&self) -> bool {
        // Written only if it changes: every request passes here.
        if self.failures.load(Ordering::Relaxed) != 0 {
            self.failures.store(0, Ordering::Relaxed);
        }
        !self.is_closed() && self.probe_at_us.swap(0, Ordering::Relaxed) != 0
    }

    /// Returns true if this opened the breaker.
    fn record_failure(&self, now_us: u64) -> bool {
        self.failures.fetch_add(1, Ordering::Relaxed).saturating_add(1) >= FAILURES_TO_OPEN && self.open(now_us)
    }

    /// Returns true if the breaker was closed.
    fn open(&self, now_us: u64) -> bool {
        let probe_at = now_us.saturating_add(PROBE_INTERVAL_US);
        // An open breaker keeps its next probe; otherwise failures could postpone it for ever.
        let opened = self.probe_at_us.compare_exchange(0, probe_at, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        // After it closes, one failure must not open it again: five must.
        self.failures.store(0, Ordering::Relaxed);
        opened
    }

    fn probe_now(&self, now_us: u64) {
        let _ = self
            .probe_at_us
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |due| (due != 0).then_some(due.min(now_us.max(1))));
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use super::*;

    fn fail(state: &StateMachine, times: u32, now_us: u64) {
        for _ in 0..times {
            state.record_failure(now_us);
        }
    }

    #[test]
    fn five_consecutive_failures_open_the_breaker() {
        let state = StateMachine::default();
        fail(&state, 4, 10);
        assert!(state.is_closed());
        fail(&state, 1, 10);
        assert!(!state.is_closed());
    }

    #[test]
    fn a_success_resets_the_failure_count() {
        let state = StateMachine::default();
        fail(&state, 4, 10);
        state.record_success();
        fail(&state, 4, 10);
        assert!(state.is_closed());
    }

    #[test]
    fn an_open_breaker_admits_one_probe_every_200_ms() {
        let state = StateMachine::default();
        state.open(1_000);
        assert!(!state.admits_probe(1_000));
        assert!(!state.admits_probe(200_999));
        assert!(state.admits_probe(201_000));
        assert!(!state.admits_probe(201_000), "the first probe is still in flight");
        state.record_failure(301_000);
        assert!(!state.admits_probe(400_999));
        assert!(state.admits_probe(401_000));
    }

    #[test]
    fn late_failures_do_not_postpone_the_probe() {
        let state = StateMachine::default();
        state.open(0);
        fail(&state, 100, 199_999);
        assert!(state.admits_probe(200_000));
    }

    #[test]
    fn the_first_success_closes_the_breaker() {
        let state = StateMachine::default();
        state.open(0);
        assert!(state.admits_probe(200_000));
        state.record_success();
        assert!(state.is_closed());
        fail(&state, 4, 200_001);
        assert!(state.is_closed(), "five failures are needed again");
    }

    #[test]
    fn a_new_connection_brings_the_probe_forward() {
        let state = StateMachine::default();
        state.open(1_000);
        state.probe_now(2_000);
        assert!(!state.is_closed());
        assert!(state.admits_probe(2_000));
        state.record_success();
        state.probe_now(3_000);
        assert!(state.is_closed(), "a closed breaker stays closed");
    }
}
