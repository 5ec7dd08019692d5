//! Stops asking a store that does not answer.
//!
//! Source: the circuit breaker of Nygard's *Release It!*, on consecutive failures. Opened, it lets one request through
//! every [`PROBE_EVERY_US`] to see whether the store is back; the first success closes it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use super::error::StoreError;
use crate::store::memory::{Clock, MonotonicClock};

/// Failures in a row that open it.
const OPENS_AFTER: u32 = 5;

/// Microseconds between two requests that probe an open breaker. More than the usual deadline of a request, so that
/// one at a time is on its way; little enough to notice within a second that the store is back.
const PROBE_EVERY_US: u64 = 200_000;

/// A circuit breaker that any number of clients may share: what one of them learns of the server, all know.
#[derive(Debug, Default)]
pub(super) struct Breaker {
    clock: MonotonicClock,
    machine: Machine,
    /// The server's name in the log; without one it says nothing there.
    name: Option<String>,
    told: Mutex<Told>,
}

/// What the log was told.
#[derive(Debug, Default)]
struct Told {
    at_us: u64,
    open: bool,
}

/// The breakers of several servers, by their names; clones share them.
#[derive(Clone, Debug, Default)]
pub struct Breakers {
    by_name: Arc<Mutex<HashMap<String, Weak<Breaker>>>>,
    silent: bool,
}

/// Whether requests go through.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BreakerState {
    /// All of them.
    Closed,
    /// None but a probe now and then.
    Open,
}

/// The state machine, told the time in microseconds.
#[derive(Debug, Default)]
struct Machine {
    failures: AtomicU32,
    /// When the next probe may go; 0 while closed.
    probe_at_us: AtomicU64,
}

// === impl Breaker ===

impl Breaker {
    /// Whether a request may be sent. After a `true` the outcome must be reported, unless the request was abandoned.
    #[inline]
    pub(super) fn admits(&self) -> bool {
        self.machine.is_closed() || self.machine.admits_probe(self.clock.now_us())
    }

    /// The store answered.
    #[inline]
    pub(super) fn succeeded(&self) {
        if self.machine.succeeded() {
            self.tell_closed();
        }
    }

    /// A request failed.
    pub(super) fn failed(&self, kind: StoreError) {
        if self.machine.failed(self.clock.now_us()) {
            self.tell_opened(kind);
        }
    }

    /// The store is known to be out of reach.
    pub(super) fn open(&self, kind: StoreError) {
        if self.machine.open(self.clock.now_us()) {
            self.tell_opened(kind);
        }
    }

    /// The store looks reachable again: the next request may probe it.
    pub(super) fn probe_now(&self) {
        self.machine.probe_now(self.clock.now_us());
    }

    /// Whether requests go through.
    #[must_use]
    pub(super) fn state(&self) -> BreakerState {
        if self.machine.is_closed() { BreakerState::Closed } else { BreakerState::Open }
    }

    /// One that opens again and again says so once a second.
    fn tell_opened(&self, kind: StoreError) {
        let Some(name) = &self.name else { return };
        let now = self.clock.now_us().max(1);
        let mut told = self.told.lock();
        if told.at_us == 0 || now.saturating_sub(told.at_us) >= 1_000_000 {
            *told = Told { at_us: now, open: true };
            tracing::warn!(redis = %name, kind = kind.as_str(), "stops asking redis: {kind}");
        }
    }

    fn tell_closed(&self) {
        let Some(name) = &self.name else { return };
        if std::mem::take(&mut self.told.lock().open) {
            tracing::info!(redis = %name, "asks redis again");
        }
    }
}

// === impl Breakers ===

impl Breakers {
    /// Breakers that leave it to others to say in the log that a server is not asked.
    pub(crate) fn silent() -> Self {
        Self { silent: true, ..Self::default() }
    }

    /// The breaker of the server called `name`, for as long as anyone has it.
    pub(super) fn of(&self, name: &str) -> Arc<Breaker> {
        let mut known = self.by_name.lock();
        known.retain(|_, breaker| breaker.strong_count() > 0);
        known.get(name).and_then(Weak::upgrade).unwrap_or_else(|| {
            let breaker = Arc::new(Breaker { name: (!self.silent).then(|| name.to_owned()), ..Breaker::default() });
            known.insert(name.to_owned(), Arc::downgrade(&breaker));
            breaker
        })
    }
}

// === impl BreakerState ===

impl BreakerState {
    /// The word for it in metrics and logs.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Open => "open",
        }
    }
}

// === impl Machine ===

impl Machine {
    #[inline]
    fn is_closed(&self) -> bool {
        self.probe_at_us.load(Ordering::Relaxed) == 0
    }

    /// While open: whether this request is the next probe. Whoever is told so puts off the one after it.
    fn admits_probe(&self, now_us: u64) -> bool {
        let due = self.probe_at_us.load(Ordering::Relaxed);
        let next = now_us.saturating_add(PROBE_EVERY_US);
        due == 0
            || (due <= now_us
                && self.probe_at_us.compare_exchange(due, next, Ordering::Relaxed, Ordering::Relaxed).is_ok())
    }

    /// Returns whether this closed it.
    #[inline]
    fn succeeded(&self) -> bool {
        // Written only when there is something to change: every request comes by here.
        if self.failures.load(Ordering::Relaxed) != 0 {
            self.failures.store(0, Ordering::Relaxed);
        }
        !self.is_closed() && self.probe_at_us.swap(0, Ordering::Relaxed) != 0
    }

    /// Returns whether this opened it.
    fn failed(&self, now_us: u64) -> bool {
        self.failures.fetch_add(1, Ordering::Relaxed).saturating_add(1) >= OPENS_AFTER && self.open(now_us)
    }

    /// Returns whether it was closed.
    fn open(&self, now_us: u64) -> bool {
        let probe_at = now_us.saturating_add(PROBE_EVERY_US);
        // One that is open already keeps its turn, or failures could put the probe off for ever.
        let opened = self.probe_at_us.compare_exchange(0, probe_at, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        // The first success closes it again, and one failure after that is not five.
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

    fn fail(machine: &Machine, times: u32, now_us: u64) {
        for _ in 0..times {
            machine.failed(now_us);
        }
    }

    #[test]
    fn five_failures_in_a_row_open_it() {
        let machine = Machine::default();
        fail(&machine, 4, 10);
        assert!(machine.is_closed());
        fail(&machine, 1, 10);
        assert!(!machine.is_closed());
    }

    #[test]
    fn a_success_in_between_starts_the_count_anew() {
        let machine = Machine::default();
        fail(&machine, 4, 10);
        machine.succeeded();
        fail(&machine, 4, 10);
        assert!(machine.is_closed());
    }

    #[test]
    fn an_open_one_admits_one_probe_every_200_ms() {
        let machine = Machine::default();
        machine.open(1_000);
        assert!(!machine.admits_probe(1_000));
        assert!(!machine.admits_probe(200_999));
        assert!(machine.admits_probe(201_000));
        assert!(!machine.admits_probe(201_000), "the first probe is still on its way");
        machine.failed(301_000);
        assert!(!machine.admits_probe(400_999));
        assert!(machine.admits_probe(401_000));
    }

    #[test]
    fn failures_that_come_late_do_not_put_the_probe_off() {
        let machine = Machine::default();
        machine.open(0);
        fail(&machine, 100, 199_999);
        assert!(machine.admits_probe(200_000));
    }

    #[test]
    fn the_first_success_closes_it() {
        let machine = Machine::default();
        machine.open(0);
        assert!(machine.admits_probe(200_000));
        machine.succeeded();
        assert!(machine.is_closed());
        fail(&machine, 4, 200_001);
        assert!(machine.is_closed(), "it takes five failures again");
    }

    #[test]
    fn a_new_connection_brings_the_probe_forward() {
        let machine = Machine::default();
        machine.open(1_000);
        machine.probe_now(2_000);
        assert!(!machine.is_closed());
        assert!(machine.admits_probe(2_000));
        machine.succeeded();
        machine.probe_now(3_000);
        assert!(machine.is_closed(), "a closed one stays closed");
    }
}
