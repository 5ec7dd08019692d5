//! Clock of the buckets in memory.

use std::sync::atomic::{AtomicI64, Ordering::Relaxed};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use tollgate_limiter::store::memory::Clock;

/// Difference between the clocks from which on the wall clock is followed.
const TOLERANCE_US: i64 = 1000;

/// Monotonic clock that counts microseconds since 1970, from the time at its creation on.
///
/// The access log has the times of decisions on this clock, so that a replay of the log repeats them. The wall clock is
/// the same count, corrected when the clock of the machine was set.
#[derive(Debug)]
pub struct StoreClock {
    start: Instant,
    start_us: u64,
    /// Wall clock minus this clock.
    correction_us: AtomicI64,
}

impl Default for StoreClock {
    fn default() -> Self {
        Self { start: Instant::now(), start_us: wall_clock_us(), correction_us: AtomicI64::new(0) }
    }
}

impl StoreClock {
    /// Follows a wall clock that was set, by a millisecond or more. To be called several times a second.
    pub fn follow_wall_clock(&self) {
        self.follow(wall_clock_us());
    }

    fn follow(&self, wall_us: u64) {
        let difference = i64::try_from(i128::from(wall_us) - i128::from(self.now_us())).unwrap_or(0);
        if (difference - self.correction_us.load(Relaxed)).abs() >= TOLERANCE_US {
            self.correction_us.store(difference, Relaxed);
        }
    }
}

impl Clock for StoreClock {
    #[inline]
    fn now_us(&self) -> u64 {
        let elapsed = self.start.elapsed();
        self.start_us + elapsed.as_secs() * 1_000_000 + u64::from(elapsed.subsec_micros())
    }

    #[inline]
    fn wall_us(&self) -> u64 {
        self.both_us().1
    }

    #[inline]
    fn both_us(&self) -> (u64, u64) {
        let now_us = self.now_us();
        (now_us, now_us.saturating_add_signed(self.correction_us.load(Relaxed)))
    }
}

fn wall_clock_us() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    since.as_secs() * 1_000_000 + u64::from(since.subsec_micros())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wall_clock_that_was_set_is_followed() {
        let clock = StoreClock::default();
        let hour_us = 3_600_000_000;
        clock.follow(clock.now_us() + 10);
        assert_eq!(clock.correction_us.load(Relaxed), 0);
        clock.follow(clock.now_us() + hour_us);
        assert!(clock.wall_us() - clock.now_us() > hour_us - 1_000_000);
        clock.follow(clock.now_us() - hour_us);
        assert!(clock.now_us() - clock.wall_us() > hour_us - 1_000_000);
    }
}
