//! State of a leaky bucket's queue.

use super::State;

/// State of a queue: 24 bytes, and a box if it has gaps or a warm-up.
#[derive(Clone, Debug, PartialEq)]
pub struct QueueState {
    /// Next free turn at the end of the queue: microseconds.
    pub(super) free_at_us: u64,
    /// Time of the last write. An earlier time now means that the clock was set back.
    pub(super) at_us: u64,
    extra: Option<Box<Extra>>,
}

#[derive(Clone, Debug, PartialEq)]
struct Extra {
    warm_up: Option<WarmUpState>,
    gaps: Box<[Gap]>,
}

/// Warm-up of a queue, under the rule that wrote it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct WarmUpState {
    /// Permits stored at `free_at_us`.
    pub(super) permits: f64,
    /// Largest number of stored permits.
    pub(super) max_permits: f64,
    /// Time at which the permits reach `max_permits` again, so that the state expires.
    pub(super) idle_at_us: u64,
}

/// Time between turns that was given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Gap {
    pub(super) from_us: u64,
    pub(super) to_us: u64,
}

impl QueueState {
    pub(super) fn new(free_at_us: u64, at_us: u64, warm_up: Option<WarmUpState>, gaps: Vec<Gap>) -> Self {
        let has_more = warm_up.is_some() || !gaps.is_empty();
        Self { free_at_us, at_us, extra: has_more.then(|| Box::new(Extra { warm_up, gaps: gaps.into() })) }
    }

    pub(super) fn warm_up(&self) -> Option<&WarmUpState> {
        self.extra.as_ref()?.warm_up.as_ref()
    }

    pub(super) fn gaps(&self) -> &[Gap] {
        self.extra.as_ref().map_or(&[], |extra| &extra.gaps)
    }
}

impl State for QueueState {
    const EMPTY: Self = Self { free_at_us: 0, at_us: 0, extra: None };

    #[inline]
    fn expires_at_us(&self) -> u64 {
        self.warm_up().map_or(self.free_at_us, |warm_up| warm_up.idle_at_us)
    }

    fn heap_bytes(&self) -> usize {
        self.extra.as_ref().map_or(0, |extra| size_of::<Extra>() + size_of_val(&*extra.gaps))
    }
}

impl Gap {
    pub(super) fn moved_back(self, by_us: u64) -> Self {
        Self { from_us: self.from_us.saturating_sub(by_us), to_us: self.to_us - by_us }
    }
}
