//! Outcomes of the latest attempts at an endpoint, for operators.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU32};
use std::time::SystemTime;

use parking_lot::Mutex;

/// Outcomes of the latest attempts at an endpoint.
///
/// Successes write only if they change something, because all workers read this cache line.
#[derive(Debug, Default)]
pub(super) struct AttemptRecord {
    has_responded: AtomicBool,
    /// Failures since the latest response.
    failures: AtomicU32,
    last_failure: Mutex<Option<AttemptFailure>>,
    /// Reason of the latest health check, if it failed.
    check_error: Mutex<Option<String>>,
}

/// Failure of an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttemptFailure {
    /// Time.
    pub at: SystemTime,
    /// Description with its causes.
    pub error: String,
}

impl AttemptRecord {
    /// Records a response, of any status.
    pub(super) fn responded(&self) {
        self.clear_failures();
        if !self.has_responded.load(Relaxed) {
            self.has_responded.store(true, Relaxed);
        }
    }

    /// Records a failure.
    pub(super) fn failed(&self, failure: AttemptFailure) {
        *self.last_failure.lock() = Some(failure);
        self.failures.fetch_add(1, Relaxed);
    }

    /// Resets the number of failures, but keeps the latest one.
    pub(super) fn clear_failures(&self) {
        if self.failures.load(Relaxed) != 0 {
            self.failures.store(0, Relaxed);
        }
    }

    /// Returns true after the first response.
    pub(super) fn has_responded(&self) -> bool {
        self.has_responded.load(Relaxed)
    }

    /// Returns the number of failures since the latest response.
    pub(super) fn failures(&self) -> u32 {
        self.failures.load(Relaxed)
    }

    /// Records the result of a health check.
    pub(super) fn checked(&self, error: Option<String>) {
        let mut latest = self.check_error.lock();
        if *latest != error {
            *latest = error;
        }
    }

    /// Returns the reason of the latest health check, if it failed.
    pub(super) fn check_error(&self) -> Option<String> {
        self.check_error.lock().clone()
    }

    /// Returns the latest failure; `None` if there was none.
    pub(super) fn last_failure(&self) -> Option<AttemptFailure> {
        self.last_failure.lock().clone()
    }
}
