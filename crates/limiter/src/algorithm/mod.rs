//! Pure decisions: a rule, what was kept, a time and a cost in; an answer and what to keep out.

pub mod fixed_window;
pub mod leaky_bucket;
pub mod quota;
pub mod sliding_window_counter;
pub mod sliding_window_log;
mod spec;
pub mod token_bucket;

use std::time::Duration;

pub use self::spec::AlgorithmSpec;
use super::verdict::{Answer, Outcome};

/// When a request is decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// Microseconds on a clock that runs evenly; everything is counted on it.
    pub now_us: u64,
    /// Microseconds since 1970-01-01T00:00Z, for rules with windows that begin on the clock; others get any number.
    pub wall_us: u64,
}

impl Moment {
    /// A moment on a clock that shows the time since 1970, such as that of Redis.
    #[must_use]
    pub fn at(now_us: u64) -> Self {
        Self { now_us, wall_us: now_us }
    }
}

/// How requests are decided under one kind of rule.
///
/// `state` is what earlier decisions left; `None` is a key that nobody asked for, or that rests.
pub trait Algorithm {
    /// What is kept of a key.
    type State: State;
    /// What a decision changes in it: mostly the new state itself.
    type Change;

    /// Decides a request that takes `cost`. The change is `None` when there is nothing to keep: a denial takes nothing,
    /// and writes only what must not be computed from an old rule or a clock gone wrong again.
    fn decide(&self, state: Option<&Self::State>, now: Moment, cost: u64) -> (Answer, Option<Self::Change>);

    /// Corrects what a request took at `counted_at_us`, once its cost is known: a positive `more` takes so much in
    /// addition, at most what there is; a negative one gives back what is still counted.
    fn settle(&self, state: Option<&Self::State>, now: Moment, more: i64, counted_at_us: u64) -> Option<Self::Change>;

    /// The state after a change.
    fn apply(state: Option<Self::State>, change: Self::Change) -> Self::State;
}

/// What is kept of a key.
pub trait State: Clone {
    /// Stands for no state at all.
    const VACANT: Self;

    /// From when on forgetting it loses nothing; 0 for [`VACANT`](Self::VACANT) alone.
    fn rests_at_us(&self) -> u64;

    /// Memory that it owns elsewhere, in bytes.
    fn owned_bytes(&self) -> usize {
        0
    }
}

impl Answer {
    /// Allowed at `now`.
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

    /// Denied at `now`; `retry_after_us` is `None` when waiting does not help.
    #[inline]
    pub(crate) fn denied(remaining: u64, retry_after_us: Option<u64>, reset_after_us: u64, now: Moment) -> Self {
        let outcome = match retry_after_us {
            Some(us) => Outcome::Denied { retry_after: Duration::from_micros(us) },
            None => Outcome::NeverAdmitted,
        };
        Self { outcome, ..Self::allowed(remaining, reset_after_us, now) }
    }
}
