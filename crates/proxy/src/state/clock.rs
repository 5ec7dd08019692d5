//! Clock of the buckets in memory.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use thiserror::Error;
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
    start_us: AtomicU64,
    /// Wall clock minus this clock.
    correction_us: AtomicI64,
}

impl Default for StoreClock {
    fn default() -> Self {
        Self { start: Instant::now(), start_us: wall_clock_us().into(), correction_us: AtomicI64::new(0) }
    }
}

/// Longest time by which another clock may be ahead, in microseconds.
const LONGEST_AHEAD_US: u64 = 60_000_000;

/// The wall clock of another process shows a time in the future.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("it is from {}s in the future: is a clock wrong?", .0.as_secs())]
pub struct FromFuture(Duration);

impl StoreClock {
    /// Continues the clock of another process at the present time. That clock showed `now_us` when its wall clock showed
    /// `wall_us`. Must be called before the first decision.
    ///
    /// # Errors
    /// The other wall clock was ahead by more than a minute.
    pub fn resume(&self, (now_us, wall_us): (u64, u64)) -> Result<(), FromFuture> {
        let present_us = wall_clock_us();
        // No process has run for 292,000 years.
        let ahead_us = wall_us.saturating_sub(present_us).max(now_us.saturating_sub(u64::MAX / 2));
        if ahead_us > LONGEST_AHEAD_US {
            return Err(FromFuture(Duration::from_micros(ahead_us)));
        }
        let resumed_us = now_us.saturating_add(present_us.saturating_sub(wall_us));
        self.start_us.store(resumed_us.saturating_sub(self.elapsed_us()), Relaxed);
        self.follow(present_us);
        Ok(())
    }

    #[inline]
    fn elapsed_us(&self) -> u64 {
        let elapsed = self.start.elapsed();
        elapsed.as_secs() * 1_000_000 + u64::from(elapsed.subsec_micros())
    }

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
        self.start_us.load(Relaxed) + self.elapsed_us()
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
    #![allow(clippy::unwrap_used)]
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
    #[test]
    fn another_clock_goes_on_by_the_time_that_passed_on_the_wall() {
        let (second_us, hour_us) = (1_000_000, 3_600_000_000);
        let clock = StoreClock::default();
        let present_us = clock.now_us();
        // The other clock had been an hour behind, and stopped ten seconds ago.
        clock.resume((present_us - hour_us, present_us - 10 * second_us)).unwrap();
        let (now_us, wall_us) = clock.both_us();
        assert!((now_us - (present_us - hour_us + 10 * second_us)) < second_us, "{now_us}");
        assert!(wall_us.abs_diff(present_us) < second_us, "{wall_us}");
        // A clock that is a little ahead: no time has passed.
        clock.resume((present_us, present_us + 5 * second_us)).unwrap();
        assert!(clock.now_us() - present_us < second_us);
        let ahead = clock.resume((present_us, present_us + hour_us)).unwrap_err();
        assert!(ahead.0 > Duration::from_secs(3_590), "{ahead}");
    }
}
