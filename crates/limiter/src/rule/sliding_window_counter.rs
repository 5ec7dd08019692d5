//! The rule of sliding windows that are estimated from two counters.

use std::time::Duration;

use super::{MOST, RuleError, micros};

/// About `limit` in any stretch of time as long as `window`, from two counters a key: what was taken in the current
/// window, and of what was taken in the one before the part that it overlaps with the last `window`. Windows begin at
/// multiples of their length since 1970.
///
/// The estimate takes the previous window's requests as evenly spread. How far it is from an exact
/// [log](super::SlidingWindowLog): where `x` were admitted within the last `a` of a window, at most
/// `limit + x * (1 - a / window)` are admitted in the stretch that begins there. So never twice the limit (a fixed
/// window may admit that), and at most 1.25 times the limit after even traffic. In the other direction it denies what a
/// log would admit: after 100 in the first second of a minute with a limit of 100, a log admits another 100 in the
/// first second of the next minute, this one 10 by its 6th second and 50 by its 30th.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SlidingWindowCounter {
    limit: u64,
    window_us: u64,
    tick_us: u64,
}

impl SlidingWindowCounter {
    /// About `limit` in any stretch of `window`. A limit of 0 denies everything.
    ///
    /// # Errors
    /// A window of nothing, or numbers beyond counting.
    pub fn new(limit: u64, window: Duration) -> Result<Self, RuleError> {
        if limit > MOST {
            return Err(RuleError::TooMuch { field: "limit", most: MOST });
        }
        let window_us = micros("window", window)?;
        // As many ticks a window as leave every product of tokens and ticks exact; both quotients are 1 at least.
        let ticks = (MOST / limit.max(1)).min(window_us);
        Ok(Self { limit, window_us, tick_us: window_us.div_ceil(ticks) })
    }

    /// About how much passes in any stretch of a window.
    #[must_use]
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// How long a window is.
    #[must_use]
    pub fn window(&self) -> Duration {
        Duration::from_micros(self.window_us)
    }

    #[inline]
    pub(crate) fn window_us(&self) -> u64 {
        self.window_us
    }

    /// The steps in which the previous window's part shrinks, in microseconds: 1 unless limit times window is above 2^53.
    #[must_use]
    #[inline]
    pub fn tick_us(&self) -> u64 {
        self.tick_us
    }

    /// Ticks in a window, the last of which may be shorter. Times the limit they are at most [`MOST`].
    #[inline]
    pub(crate) fn ticks(&self) -> u64 {
        if self.tick_us == 1 { self.window_us } else { self.window_us.div_ceil(self.tick_us) }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use super::*;

    #[test]
    fn every_product_of_tokens_and_ticks_is_exact() {
        let day = 86_400_000_000;
        for (limit, window_us, tick_us) in [
            (100, day, 1),
            (104_249, day, 1),
            (104_250, day, 2),
            (0, MOST, 1),
            (1, MOST, 1),
            (2, MOST, 3),
            (MOST, day, day),
        ] {
            let rule = SlidingWindowCounter::new(limit, Duration::from_micros(window_us)).unwrap();
            assert_eq!(rule.tick_us(), tick_us, "{limit} in {window_us}");
            assert!(u128::from(limit) * u128::from(rule.ticks()) <= u128::from(MOST), "{limit} in {window_us}");
        }
        assert!(SlidingWindowCounter::new(MOST + 1, Duration::from_secs(1)).is_err());
        assert!(SlidingWindowCounter::new(1, Duration::ZERO).is_err());
    }
}
