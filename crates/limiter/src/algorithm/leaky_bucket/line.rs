//! What is remembered of a line of requests.

use super::State;

/// A line of requests that were given turns. 24 bytes, and a box where turns were given back or a rule warms up.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// When the turn behind all that were given is: microseconds.
    pub(super) free_at_us: u64,
    /// When this was kept. An earlier time now means that the clock was set back.
    pub(super) at_us: u64,
    extra: Option<Box<Extra>>,
}

#[derive(Clone, Debug, PartialEq)]
struct Extra {
    warmth: Option<Warmth>,
    gaps: Box<[Free]>,
}

/// How warm a line is, under the rule by which it was kept.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Warmth {
    /// Permits stored at `free_at_us`.
    pub(super) permits: f64,
    /// As many as can be.
    pub(super) most: f64,
    /// When there are that many again: nothing is worth remembering any more.
    pub(super) cold_at_us: u64,
}

/// A stretch of time that was given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Free {
    pub(super) from_us: u64,
    pub(super) to_us: u64,
}

impl Line {
    pub(super) fn new(free_at_us: u64, at_us: u64, warmth: Option<Warmth>, gaps: Vec<Free>) -> Self {
        let has_more = warmth.is_some() || !gaps.is_empty();
        Self { free_at_us, at_us, extra: has_more.then(|| Box::new(Extra { warmth, gaps: gaps.into() })) }
    }

    pub(super) fn warmth(&self) -> Option<&Warmth> {
        self.extra.as_ref()?.warmth.as_ref()
    }

    pub(super) fn gaps(&self) -> &[Free] {
        self.extra.as_ref().map_or(&[], |extra| &extra.gaps)
    }
}

impl State for Line {
    const VACANT: Self = Self { free_at_us: 0, at_us: 0, extra: None };

    #[inline]
    fn rests_at_us(&self) -> u64 {
        self.warmth().map_or(self.free_at_us, |warmth| warmth.cold_at_us)
    }

    fn owned_bytes(&self) -> usize {
        self.extra.as_ref().map_or(0, |extra| size_of::<Extra>() + size_of_val(&*extra.gaps))
    }
}

impl Free {
    pub(super) fn moved_back(self, by_us: u64) -> Self {
        Self { from_us: self.from_us.saturating_sub(by_us), to_us: self.to_us - by_us }
    }
}
