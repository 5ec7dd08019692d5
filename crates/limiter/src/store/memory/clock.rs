//! Clocks of the memory store, in microseconds.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Clock that counts microseconds from an arbitrary start.
pub trait Clock: Send + Sync {
    /// Returns the microseconds since the start. The value should never decrease.
    fn now_us(&self) -> u64;

    /// Returns the microseconds since 1970-01-01T00:00Z on the wall clock, which an operator may set forward or back.
    fn wall_us(&self) -> u64;

    /// Returns [`now_us`](Self::now_us) and [`wall_us`](Self::wall_us). A clock may derive both from one reading, so that a
    /// recorded time reproduces a decision.
    fn both_us(&self) -> (u64, u64) {
        (self.now_us(), self.wall_us())
    }
}

/// Monotonic clock of the machine. Setting the wall clock does not affect it.
#[derive(Debug)]
pub struct MonotonicClock {
    start: Instant,
}

/// Clock for tests. It advances only when told to; its wall clock shows the same time.
#[derive(Debug, Default)]
pub struct ManualClock {
    now_us: AtomicU64,
}

impl Default for MonotonicClock {
    fn default() -> Self {
        Self { start: Instant::now() }
    }
}

impl Clock for MonotonicClock {
    #[inline]
    fn now_us(&self) -> u64 {
        let elapsed = self.start.elapsed();
        elapsed.as_secs() * 1_000_000 + u64::from(elapsed.subsec_micros())
    }

    #[inline]
    fn wall_us(&self) -> u64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        since.as_secs() * 1_000_000 + u64::from(since.subsec_micros())
    }
}

impl ManualClock {
    /// Advances the clock by `by`.
    pub fn advance(&self, by: Duration) {
        self.now_us.fetch_add(u64::try_from(by.as_micros()).unwrap_or(u64::MAX), Ordering::SeqCst);
    }

    /// Sets the clock, forward or back.
    pub fn set(&self, now_us: u64) {
        self.now_us.store(now_us, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now_us(&self) -> u64 {
        self.now_us.load(Ordering::SeqCst)
    }
    fn wall_us(&self) -> u64 {
        self.now_us()
    }
}
