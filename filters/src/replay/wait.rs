//! Time for which a request waits for its body.

use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// Time for which the reader of a body has waited for the client.
#[derive(Debug, Default)]
pub struct BodyWait(Mutex<Waits>);

#[derive(Debug, Default)]
struct Waits {
    /// Start of the current wait.
    since: Option<Instant>,
    /// Sum of the earlier ones.
    before: Duration,
}

/// Measures the waits for one body until it is dropped.
#[derive(Debug)]
pub(super) struct MeasuredWait(pub(super) Arc<BodyWait>);

// === impl BodyWait ===

impl BodyWait {
    /// Returns the sum of all waits.
    #[must_use]
    pub fn total(&self) -> Duration {
        let waits = self.0.lock();
        waits.before + waits.since.map_or(Duration::ZERO, |since| since.elapsed())
    }

    /// Returns true while the reader waits.
    #[must_use]
    pub fn is_waiting(&self) -> bool {
        self.0.lock().since.is_some()
    }

    fn end(&self) {
        let mut waits = self.0.lock();
        if let Some(since) = waits.since.take() {
            waits.before += since.elapsed();
        }
    }
}

// === impl MeasuredWait ===

impl MeasuredWait {
    /// Notes the result of a poll of the body.
    pub(super) fn polled<T>(&self, frame: &Poll<T>) {
        if frame.is_pending() {
            self.0.0.lock().since.get_or_insert_with(Instant::now);
        } else {
            self.0.end();
        }
    }
}

impl Drop for MeasuredWait {
    fn drop(&mut self) {
        self.0.end();
    }
}
