//! How long to wait before the next attempt.
//!
//! Source: `Backoff.exponential` and `Jitter.random` of reactor-addons, which Spring Cloud Gateway's `Retry` uses.

use std::time::Duration;

/// Pauses that grow by a factor.
#[derive(Clone, Debug, PartialEq)]
pub struct Backoff {
    /// The first pause (`firstBackoff`).
    pub first: Duration,
    /// No pause is longer (`maxBackoff`).
    pub max: Option<Duration>,
    /// What each pause is multiplied by (`factor`).
    pub factor: u32,
    /// Whether the pause before, jitter included, is what is multiplied (`basedOnPreviousValue`).
    pub from_previous: bool,
    /// The part of a pause by which it may be longer or shorter, from 0 to 1 (`jitter.randomFactor`). It is never
    /// shorter than the first, nor longer than the longest.
    pub jitter: f64,
}

impl Default for Backoff {
    fn default() -> Self {
        Self { first: Duration::from_millis(5), max: None, factor: 2, from_previous: true, jitter: 0.0 }
    }
}

impl Backoff {
    /// The pause before retry `number`, from 1, when the one before it was `previous`. `random` is from 0 to 1.
    #[must_use]
    pub fn pause(&self, number: u32, previous: Duration, random: f64) -> Duration {
        let max = self.max.unwrap_or(Duration::MAX);
        let grown = if self.from_previous {
            previous.saturating_mul(self.factor)
        } else {
            self.first.saturating_mul(self.factor.saturating_pow(number.saturating_sub(1)))
        };
        let pause = grown.max(self.first).min(max);
        if self.jitter <= 0.0 {
            return pause;
        }
        let offset = scaled(pause, self.jitter);
        let low = pause.saturating_sub(offset).max(self.first).min(pause);
        let high = pause.saturating_add(offset).min(max).max(pause);
        low + scaled(high - low, random)
    }
}

/// `duration` times `factor`, which is from 0 to 1.
fn scaled(duration: Duration, factor: f64) -> Duration {
    Duration::try_from_secs_f64(duration.as_secs_f64() * factor.clamp(0.0, 1.0)).unwrap_or(duration)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn millis(pauses: impl IntoIterator<Item = u64>) -> Vec<Duration> {
        pauses.into_iter().map(Duration::from_millis).collect()
    }

    fn pauses(backoff: &Backoff, random: f64) -> Vec<Duration> {
        let mut previous = Duration::ZERO;
        let next = |number| {
            previous = backoff.pause(number, previous, random);
            previous
        };
        (1..=5).map(next).collect()
    }

    #[test]
    fn pauses_double_up_to_the_longest() {
        for from_previous in [true, false] {
            let backoff = Backoff { from_previous, ..Backoff::default() };
            assert_eq!(pauses(&backoff, 0.5), millis([5, 10, 20, 40, 80]));
            let backoff = Backoff { max: Some(Duration::from_millis(25)), factor: 3, ..backoff };
            assert_eq!(pauses(&backoff, 0.5), millis([5, 15, 25, 25, 25]));
        }
    }

    #[test]
    fn what_is_based_on_the_pause_before_grows_with_its_jitter() {
        let first = Duration::from_millis(100);
        let jittered = Backoff { first, jitter: 0.5, ..Backoff::default() };
        assert_eq!(pauses(&jittered, 1.0)[..3], millis([150, 450, 1350]));
        let plain = Backoff { from_previous: false, ..jittered };
        assert_eq!(pauses(&plain, 1.0)[..3], millis([150, 300, 600]));
        assert_eq!(pauses(&plain, 0.0)[..3], millis([100, 100, 200]), "never less than the first");
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn a_pause_stays_between_the_first_and_the_longest(
            first in 1u64..10_000, more in 0u64..100_000, factor in 0u32..10, from_previous: bool,
            jitter in 0.0f64..=1.0, random in 0.0f64..=1.0, number in 1u32..200, previous in 0u64..u64::MAX,
        ) {
            let (first, max) = (Duration::from_millis(first), Duration::from_millis(first + more));
            let backoff = Backoff { first, max: Some(max), factor, from_previous, jitter };
            let pause = backoff.pause(number, Duration::from_millis(previous), random);
            prop_assert!(first <= pause && pause <= max, "{pause:?}");
        }
    }
}
