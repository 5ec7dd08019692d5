//! Order of the decisions of a shard.

use crate::algorithm::Moment;

/// Largest apparent step back of the clock that is explained by waiting for the lock. A larger step means that the
/// clock was set back.
const OVERTAKEN_WITHIN_US: u64 = 1_000_000;

/// Time of a decision, with its number among the decisions of the same microsecond: a hybrid logical clock
/// (Kulkarni et al., 2014). Decisions that share a shard have different ticks, in the order in which they took its lock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Tick {
    pub(super) us: u64,
    pub(super) order: u32,
}

impl Tick {
    /// Returns the tick of a decision after this one, that read `now_us` before it took the lock.
    ///
    /// If a thread with a later time took the lock first, that time is returned, so time never runs back for a key.
    #[inline]
    pub(super) fn next(self, now_us: u64) -> Self {
        if self.us.wrapping_sub(now_us) > OVERTAKEN_WITHIN_US {
            return Self { us: now_us, order: 0 };
        }
        Self { us: self.us, order: self.order.wrapping_add(1) }
    }

    /// Moves `now`, which was read before the lock, to this tick, on both clocks.
    #[inline]
    pub(super) fn moment(self, now: Moment) -> Moment {
        Moment { now_us: self.us, wall_us: now.wall_us.wrapping_add(self.us.wrapping_sub(now.now_us)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_grow_unless_the_clock_is_set_back() {
        let first = Tick { us: 5_000_000, order: 0 };
        let overtaken = first.next(4_999_998);
        assert_eq!(overtaken, Tick { us: 5_000_000, order: 1 });
        assert_eq!(overtaken.next(5_000_000), Tick { us: 5_000_000, order: 2 });
        assert_eq!(overtaken.next(5_000_001), Tick { us: 5_000_001, order: 0 });
        assert_eq!(overtaken.next(3_000_000), Tick { us: 3_000_000, order: 0 });
        let wall_us = overtaken.moment(Moment { now_us: 4_999_998, wall_us: 70 }).wall_us;
        assert_eq!(wall_us, 72, "the wall clock moves with the other");
    }
}
