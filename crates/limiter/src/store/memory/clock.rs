//! What time it is, in microseconds.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// A clock that counts microseconds from a moment of its own.
pub trait Clock: Send + Sync {
    /// Microseconds since that moment. Never less than before, as far as the clock can help it.
    fn now_us(&self) -> u64;

    /// Microseconds since 1970-01-01T00:00Z, as far as the machine knows. It may be set forwards and back.
    fn wall_us(&self) -> u64;
}

/// The machine's monotonic clock: setting the wall clock does not move it.
#[derive(Debug)]
pub struct MonotonicClock {
    start: Instant,
}

/// A clock that a test moves by hand.
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
    /// Moves the clock on.
    pub fn advance(&self, by: Duration) {
        self.now_us.fetch_add(u64::try_from(by.as_micros()).unwrap_or(u64::MAX), Ordering::SeqCst);
    }

    /// Sets the clock, backwards too.
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
