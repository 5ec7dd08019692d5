//! Algorithms as pure functions: from a rule, a state, a time and a cost to a verdict and a change of the state.

pub mod fixed_window;
pub mod leaky_bucket;
mod lengths;
pub mod quota;
pub mod sliding_window_counter;
pub mod sliding_window_log;
mod spec;
pub mod token_bucket;

use std::time::Duration;

#[cfg(feature = "gateway")]
pub use self::spec::{AlgorithmSpec, SettingsForm};
use super::verdict::{Outcome, RuleVerdict};

/// Time of a decision, on two clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// Microseconds on a steady clock.
    pub now_us: u64,
    /// Microseconds since 1970-01-01T00:00Z, for windows and periods that end at a time of day. Other rules ignore it.
    pub wall_us: u64,
}

/// Step of the wall clock, back across an edge, after which a shorter window still counts as the present one: one minute.
/// Windows longer than that tolerate a step of their length.
pub(crate) const STEP_BACK_US: u64 = 60_000_000;

impl Moment {
    /// Creates a moment from one clock that counts microseconds since 1970, such as the clock of Redis.
    #[must_use]
    pub fn at(now_us: u64) -> Self {
        Self { now_us, wall_us: now_us }
    }

    /// Returns the time on the wall clock that corresponds to a time on the steady clock.
    pub(crate) fn wall_at_us(self, steady_us: u64) -> u64 {
        steady_us.wrapping_add(self.wall_us.wrapping_sub(self.now_us))
    }
}

/// Decisions under one type of rule.
///
/// `state` is the result of earlier decisions; `None` stands for a new or expired key.
pub trait Algorithm {
    /// State of a key.
    type State: State;
    /// Change of a state; for most algorithms the new state itself.
    type Change;

    /// Decides a request of `cost` tokens.
    ///
    /// The change is `None` if the state stays as it is. A denial consumes nothing; it changes the state only to
    /// convert it to a changed rule or a clock that was set back.
    fn decide(&self, state: Option<&Self::State>, now: Moment, cost: u64) -> (RuleVerdict, Option<Self::Change>);

    /// Returns true if [`decide`](Self::decide) takes its usual path: this rule wrote `state`, and refills its bucket smoothly.
    #[inline]
    fn is_own(&self, _state: &Self::State) -> bool {
        true
    }

    /// Corrects the tokens of a request counted at `counted_at_us`.
    ///
    /// A positive `more` consumes up to that many available tokens; a negative one returns tokens that still count.
    fn settle(&self, state: Option<&Self::State>, now: Moment, more: i64, counted_at_us: u64) -> Option<Self::Change>;

    /// Returns the state after a change.
    fn apply(state: Option<Self::State>, change: Self::Change) -> Self::State;
}

/// State of a key.
pub trait State: Clone {
    /// Placeholder for no state.
    const EMPTY: Self;

    /// Returns the time from which the state equals no state; 0 only for [`EMPTY`](Self::EMPTY).
    fn expires_at_us(&self) -> u64;

    /// Returns true if the state equals no state, so that it can be dropped. Without a wall clock (0), states that end at a
    /// time of day are kept.
    #[inline]
    fn is_expired(&self, now: Moment) -> bool {
        self.expires_at_us() <= now.now_us
    }

    /// Replaces the ids of flows by those of this process, of which `flows` has one for each of another process. Returns false
    /// if there is none.
    fn renumber(&mut self, _flows: &[u32]) -> bool {
        true
    }

    /// Returns the heap memory owned by the state, in bytes.
    fn heap_bytes(&self) -> usize {
        0
    }
}

impl RuleVerdict {
    /// Returns the verdict of a request allowed at `now`.
    #[inline]
    pub(crate) fn allowed(remaining: u64, reset_after_us: u64, now: Moment) -> Self {
        Self {
            outcome: Outcome::Allowed,
            remaining,
            reset_after: Duration::from_micros(reset_after_us),
            delay: Duration::ZERO,
            counted_at_us: now.now_us,
        }
    }

    /// Returns the verdict of a request denied at `now`. `retry_after_us` is `None` if it can never be admitted.
    #[inline]
    pub(crate) fn denied(remaining: u64, retry_after_us: Option<u64>, reset_after_us: u64, now: Moment) -> Self {
        let outcome = match retry_after_us {
            Some(us) => Outcome::Denied { retry_after: Duration::from_micros(us) },
            None => Outcome::NeverAdmitted,
        };
        Self { outcome, ..Self::allowed(remaining, reset_after_us, now) }
    }
}
