//! The calls that a breaker judges by: the last so many, or those of the last so many seconds.

use std::collections::VecDeque;
use std::num::NonZeroU32;
use std::time::Duration;

/// How one call ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Outcome {
    pub(super) failed: bool,
    pub(super) slow: bool,
}

/// How many calls there were, and how they ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sums {
    pub(super) calls: u32,
    pub(super) failed: u32,
    pub(super) slow: u32,
}

/// What a breaker looks back on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WindowSize {
    /// The last so many calls (`COUNT_BASED`).
    Calls(NonZeroU32),
    /// The calls of the last so many seconds, the current one among them (`TIME_BASED`).
    Seconds(NonZeroU32),
}

/// Calls within a window. Takes a byte or two a call, or a dozen bytes a second.
#[derive(Clone, Debug)]
pub(super) struct Window {
    size: WindowSize,
    calls: VecDeque<Outcome>,
    seconds: VecDeque<(u64, Sums)>,
    sums: Sums,
}

impl Sums {
    fn add(&mut self, outcome: Outcome) {
        self.calls += 1;
        self.failed += u32::from(outcome.failed);
        self.slow += u32::from(outcome.slow);
    }

    fn take(&mut self, other: Self) {
        self.calls -= other.calls;
        self.failed -= other.failed;
        self.slow -= other.slow;
    }
}

impl From<Outcome> for Sums {
    fn from(outcome: Outcome) -> Self {
        let mut sums = Self::default();
        sums.add(outcome);
        sums
    }
}

impl Window {
    pub(super) fn new(size: WindowSize) -> Self {
        Self { size, calls: VecDeque::new(), seconds: VecDeque::new(), sums: Sums::default() }
    }

    /// Notes a call that ended at `now`, and drops what has left the window.
    pub(super) fn record(&mut self, now: Duration, outcome: Outcome) -> Sums {
        self.sums(now);
        self.sums.add(outcome);
        match self.size {
            WindowSize::Calls(size) => {
                self.calls.push_back(outcome);
                if self.calls.len() > size.get() as usize
                    && let Some(oldest) = self.calls.pop_front()
                {
                    self.sums.take(oldest.into());
                }
            }
            WindowSize::Seconds(_) => match self.seconds.back_mut() {
                Some((second, sums)) if *second >= now.as_secs() => sums.add(outcome),
                _ => self.seconds.push_back((now.as_secs(), outcome.into())),
            },
        }
        self.sums
    }

    /// The calls of the window that ends at `now`.
    pub(super) fn sums(&mut self, now: Duration) -> Sums {
        if let WindowSize::Seconds(size) = self.size {
            let has_left = |second: u64| second + u64::from(size.get()) <= now.as_secs();
            while let Some((_, old)) = self.seconds.pop_front_if(|(second, _)| has_left(*second)) {
                self.sums.take(old);
            }
        }
        self.sums
    }
}
