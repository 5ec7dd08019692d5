//! Settings of locks, and retries while another request holds the lock.

use std::num::{NonZeroU32, NonZeroUsize};
use std::time::Duration;

use crate::store::redis::random::fraction;

/// Settings of locks.
#[derive(Clone, Debug)]
pub struct LockSettings {
    /// Expiry of a lock, in case its gateway dies. It must exceed two round trips; the default is a second.
    pub ttl: Duration,
    /// Retries while another request holds the lock.
    pub retry: Retry,
    /// Concurrent decisions. Each has a connection of its own, since `WATCH` belongs to a connection. The default is 8.
    pub connections: NonZeroUsize,
}

impl Default for LockSettings {
    fn default() -> Self {
        let connections = NonZeroUsize::MIN.saturating_add(7);
        Self { ttl: Duration::from_secs(1), retry: Retry::default(), connections }
    }
}

/// Number of attempts, and the pauses between them. A decision's timeout may end them earlier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    /// Equal pauses.
    Fixed {
        /// Pause between two attempts.
        delay: Duration,
        /// Number of attempts, including the first.
        tries: NonZeroU32,
    },
    /// Pauses that double, so that requests for one lock spread out.
    Exponential {
        /// First pause.
        base: Duration,
        /// Longest pause, before jitter.
        max: Duration,
        /// Largest random addition to a pause.
        jitter: Duration,
        /// Number of attempts, including the first.
        tries: NonZeroU32,
    },
}

impl Default for Retry {
    /// Exponential from 100 ms to 2 s with up to 200 ms of jitter, 5 attempts.
    fn default() -> Self {
        Self::Exponential {
            base: Duration::from_millis(100),
            max: Duration::from_secs(2),
            jitter: Duration::from_millis(200),
            tries: NonZeroU32::MIN.saturating_add(4),
        }
    }
}

impl Retry {
    /// Returns the pause after attempt `n`, counted from 0; `None` after the last.
    pub(super) fn pause(&self, n: u32) -> Option<Duration> {
        self.pause_with(n, fraction)
    }

    fn pause_with(&self, n: u32, random: impl Fn() -> f64) -> Option<Duration> {
        match *self {
            Self::Fixed { delay, tries } => (n + 1 < tries.get()).then_some(delay),
            Self::Exponential { base, max, jitter, tries } => {
                let doubled = base.saturating_mul(1u32.checked_shl(n).unwrap_or(u32::MAX)).min(max);
                (n + 1 < tries.get()).then(|| doubled.saturating_add(jitter.mul_f64(random())))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_longest() {
        let retry = Retry::Exponential {
            base: Duration::from_millis(100),
            max: Duration::from_secs(2),
            jitter: Duration::from_millis(200),
            tries: NonZeroU32::MAX,
        };
        let pauses = |random: f64| {
            [0, 1, 4, 5, 31, 32, 99].map(|n| retry.pause_with(n, || random).unwrap_or_default().as_millis())
        };
        assert_eq!(pauses(0.0), [100, 200, 1_600, 2_000, 2_000, 2_000, 2_000]);
        assert_eq!(pauses(0.5), [200, 300, 1_700, 2_100, 2_100, 2_100, 2_100]);
    }

    #[test]
    fn five_attempts_have_four_pauses() {
        assert_eq!((0..9).map_while(|n| Retry::default().pause(n)).count(), 4);
        let fixed = Retry::Fixed { delay: Duration::from_millis(7), tries: NonZeroU32::MIN.saturating_add(1) };
        assert_eq!([0, 1].map(|n| fixed.pause(n)), [Some(Duration::from_millis(7)), None]);
    }
}
