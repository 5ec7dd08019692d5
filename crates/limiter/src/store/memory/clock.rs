//! Clocks of the memory store, in microseconds.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
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

/// Monotonic clock of the machine, with the wall clock beside it.
#[derive(Debug)]
pub struct MonotonicClock {
    start: Instant,
    /// Wall clock minus this clock, when they were last compared.
    difference_us: AtomicU64,
    /// Time of the next comparison.
    compare_at_us: AtomicU64,
}

/// Interval between comparisons of a [`MonotonicClock`] with the wall clock.
const COMPARE_EVERY_US: u64 = 1_000;

/// Clock of tokio's timer: the monotonic clock of the machine, and in tests with paused time (`test-util`) that of the test.
/// Its wall clock is read at the start only.
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::{sync::Arc, time::Duration};
/// use tollgate_limiter::{MemoryStore, RateLimiter, TokenBucket, TokioClock};
///
/// let store = MemoryStore::with_clock(Arc::new(TokioClock::default()));
/// let limiter = RateLimiter::new("jobs", TokenBucket::new(1, Duration::from_secs(3_600), 1)?, store);
/// limiter.until_allowed("alice", 1).await?;
/// limiter.until_allowed("alice", 1).await?; // Tokio advances its time by an hour.
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct TokioClock {
    start: tokio::time::Instant,
    wall_us_at_start: u64,
}

/// Clock for tests. It advances only when told to; its wall clock shows the same time.
#[derive(Debug, Default)]
pub struct ManualClock {
    now_us: AtomicU64,
}

impl Default for MonotonicClock {
    fn default() -> Self {
        Self { start: Instant::now(), difference_us: unix_us().into(), compare_at_us: COMPARE_EVERY_US.into() }
    }
}

impl Clock for MonotonicClock {
    #[inline]
    fn now_us(&self) -> u64 {
        let elapsed = self.start.elapsed();
        elapsed.as_secs() * 1_000_000 + u64::from(elapsed.subsec_micros())
    }

    /// The wall clock is read once in a millisecond, since reading a clock is a third of a decision.
    #[inline]
    fn both_us(&self) -> (u64, u64) {
        let now_us = self.now_us();
        if now_us >= self.compare_at_us.load(Relaxed) {
            self.difference_us.store(unix_us().wrapping_sub(now_us), Relaxed);
            self.compare_at_us.store(now_us + COMPARE_EVERY_US, Relaxed);
        }
        (now_us, now_us.wrapping_add(self.difference_us.load(Relaxed)))
    }

    #[inline]
    fn wall_us(&self) -> u64 {
        unix_us()
    }
}

impl Default for TokioClock {
    fn default() -> Self {
        Self { start: tokio::time::Instant::now(), wall_us_at_start: unix_us() }
    }
}

impl Clock for TokioClock {
    fn now_us(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_micros()).unwrap_or(u64::MAX)
    }
    fn wall_us(&self) -> u64 {
        self.wall_us_at_start.saturating_add(self.now_us())
    }
    fn both_us(&self) -> (u64, u64) {
        let now_us = self.now_us();
        (now_us, self.wall_us_at_start.saturating_add(now_us))
    }
}

impl ManualClock {
    /// Advances the clock by `by`.
    pub fn advance(&self, by: Duration) {
        self.now_us.fetch_add(u64::try_from(by.as_micros()).unwrap_or(u64::MAX), SeqCst);
    }

    /// Sets the clock, forward or back.
    pub fn set(&self, now_us: u64) {
        self.now_us.store(now_us, SeqCst);
    }
}

impl Clock for ManualClock {
    fn now_us(&self) -> u64 {
        self.now_us.load(SeqCst)
    }
    fn wall_us(&self) -> u64 {
        self.now_us()
    }
}

/// Returns the wall clock of the machine in microseconds since 1970.
pub(crate) fn unix_us() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    since.as_secs() * 1_000_000 + u64::from(since.subsec_micros())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_monotonic_clock_follows_a_wall_clock_that_was_set() {
        let clock = MonotonicClock::default();
        // As after a step of an hour since the last comparison.
        clock.difference_us.fetch_sub(3_600_000_000, Relaxed);
        clock.compare_at_us.store(0, Relaxed);
        let (before_us, (_, wall_us)) = (unix_us(), clock.both_us());
        assert!(wall_us.abs_diff(before_us) < 1_000_000, "{wall_us} at {before_us}");
        assert!(clock.compare_at_us.load(Relaxed) > 0, "compared again in a millisecond");
    }
}
