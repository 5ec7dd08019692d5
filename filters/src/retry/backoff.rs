//! Delays between attempts.
//!
//! Source: `Backoff.exponential` and `Jitter.random` of reactor-addons, which Spring Cloud Gateway's `Retry` uses.

use std::time::Duration;

/// Delays that grow by a factor.
#[derive(Clone, Debug, PartialEq)]
pub struct Backoff {
    /// The first delay (`firstBackoff`).
    pub first: Duration,
    /// The maximum delay (`maxBackoff`).
    pub max: Option<Duration>,
    /// The factor between delays (`factor`).
    pub factor: u32,
    /// Multiplies the previous delay, jitter included (`basedOnPreviousValue`), instead of the first one.
    pub from_previous: bool,
    /// Fraction of a delay by which it varies, from 0 to 1 (`jitter.randomFactor`). The result stays between the first and
    /// the maximum delay.
    pub jitter: f64,
}

impl Default for Backoff {
    fn default() -> Self {
        Self { first: Duration::from_millis(5), max: None, factor: 2, from_previous: true, jitter: 0.0 }
    }
}

impl Backoff {
    /// Returns the delay before retry `number`, from 1, after a delay of `previous`. `random` is from 0 to 1.
    #[must_use]
    pub fn delay(&self, number: u32, previous: Duration, random: f64) -> Duration {
        let max = self.max.unwrap_or(Duration::MAX);
        let grown = if self.from_previous {
            previous.saturating_mul(self.factor)
        } else {
            self.first.saturating_mul(self.factor.saturating_pow(number.saturating_sub(1)))
        };
        let delay = grown.max(self.first).min(max);
        if self.jitter <= 0.0 {
            return delay;
        }
        let offset = scale(delay, self.jitter);
        let low = delay.saturating_sub(offset).max(self.first).min(delay);
        let high = delay.saturating_add(offset).min(max).max(delay);
        low + scale(high - low, random)
    }
}

/// Returns `duration` times `factor`, which is from 0 to 1.
fn scale(duration: Duration, factor: f64) -> Duration {
    Duration::try_from_secs_f64(duration.as_secs_f64() * factor.clamp(0.0, 1.0)).unwrap_or(duration)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn millis(delays: impl IntoIterator<Item = u64>) -> Vec<Duration> {
        delays.into_iter().map(Duration::from_millis).collect()
    }

    fn delays(backoff: &Backoff, random: f64) -> Vec<Duration> {
        let mut previous = Duration::ZERO;
        let next = |number| {
            previous = backoff.delay(number, previous, random);
            previous
        };
        (1..=5).map(next).collect()
    }

    #[test]
    fn delays_double_up_to_the_maximum() {
        for from_previous in [true, false] {
            let backoff = Backoff { from_previous, ..Backoff::default() };
            assert_eq!(delays(&backoff, 0.5), millis([5, 10, 20, 40, 80]));
            let backoff = Backoff { max: Some(Duration::from_millis(25)), factor: 3, ..backoff };
            assert_eq!(delays(&backoff, 0.5), millis([5, 15, 25, 25, 25]));
        }
    }

    #[test]
    fn a_delay_based_on_the_previous_one_grows_with_its_jitter() {
        let first = Duration::from_millis(100);
        let jittered = Backoff { first, jitter: 0.5, ..Backoff::default() };
        assert_eq!(delays(&jittered, 1.0)[..3], millis([150, 450, 1350]));
        let plain = Backoff { from_previous: false, ..jittered };
        assert_eq!(delays(&plain, 1.0)[..3], millis([150, 300, 600]));
        assert_eq!(delays(&plain, 0.0)[..3], millis([100, 100, 200]), "never less than the first");
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn a_delay_stays_between_the_first_and_the_maximum(
            first in 1u64..10_000, more in 0u64..100_000, factor in 0u32..10, from_previous: bool,
            jitter in 0.0f64..=1.0, random in 0.0f64..=1.0, number in 1u32..200, previous in 0u64..u64::MAX,
        ) {
            let (first, max) = (Duration::from_millis(first), Duration::from_millis(first + more));
            let backoff = Backoff { first, max: Some(max), factor, from_previous, jitter };
            let pause = backoff.delay(number, Duration::from_millis(previous), random);
            prop_assert!(first <= pause && pause <= max, "{pause:?}");
        }
    }
}
