//! The sliding window of a breaker: a number of calls or of seconds.

use std::collections::VecDeque;
use std::num::NonZeroU32;
use std::time::Duration;

/// The outcome of one call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Outcome {
    pub(super) failed: bool,
    pub(super) slow: bool,
}

/// Numbers of calls by outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) calls: u32,
    pub(super) failed: u32,
    pub(super) slow: u32,
}

/// The size of a sliding window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WindowSize {
    /// A number of calls (`COUNT_BASED`).
    Calls(NonZeroU32),
    /// A number of seconds, including the current one (`TIME_BASED`).
    Seconds(NonZeroU32),
}

/// Calls in a sliding window. Takes two bytes per call, or about twenty bytes per second.
#[derive(Clone, Debug)]
pub(super) struct Window {
    size: WindowSize,
    calls: VecDeque<Outcome>,
    seconds: VecDeque<(u64, Counts)>,
    counts: Counts,
}

impl Counts {
    fn add(&mut self, outcome: Outcome) {
        self.calls += 1;
        self.failed += u32::from(outcome.failed);
        self.slow += u32::from(outcome.slow);
    }

    fn subtract(&mut self, other: Self) {
        self.calls -= other.calls;
        self.failed -= other.failed;
        self.slow -= other.slow;
    }
}

impl From<Outcome> for Counts {
    fn from(outcome: Outcome) -> Self {
        let mut counts = Self::default();
        counts.add(outcome);
        counts
    }
}

impl Window {
    pub(super) fn new(size: WindowSize) -> Self {
        Self { size, calls: VecDeque::new(), seconds: VecDeque::new(), counts: Counts::default() }
    }

    /// Records a call that ended at `now`. Returns the counts of the window.
    pub(super) fn record(&mut self, now: Duration, outcome: Outcome) -> Counts {
        self.counts(now);
        self.counts.add(outcome);
        match self.size {
            WindowSize::Calls(size) => {
                self.calls.push_back(outcome);
                if self.calls.len() > size.get() as usize
                    && let Some(oldest) = self.calls.pop_front()
                {
                    self.counts.subtract(oldest.into());
                }
            }
            WindowSize::Seconds(_) => match self.seconds.back_mut() {
                Some((second, counts)) if *second >= now.as_secs() => counts.add(outcome),
                _ => self.seconds.push_back((now.as_secs(), outcome.into())),
            },
        }
        self.counts
    }

    /// Returns the counts of the window that ends at `now`.
    pub(super) fn counts(&mut self, now: Duration) -> Counts {
        if let WindowSize::Seconds(size) = self.size {
            let is_expired = |second: u64| second + u64::from(size.get()) <= now.as_secs();
            while let Some(&(_, old)) = self.seconds.front().filter(|(second, _)| is_expired(*second)) {
                self.counts.subtract(old);
                self.seconds.pop_front();
            }
        }
        self.counts
    }
}
