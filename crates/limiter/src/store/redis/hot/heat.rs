//! How often a question is asked.

/// Requests in a period from which on a key is hot: below, what a lease saves is not worth what it may strand.
const HOT: u64 = 8;

/// Requests that a call may bring in advance at most.
const MOST_SPARE: u64 = 1_000;

/// The part of what is left that one gateway may hold: the others shall find something, too.
const PART: u64 = 4;

/// Requests in this period and in the one before it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Heat {
    since_us: u64,
    now: u64,
    before: u64,
}

impl Heat {
    /// Counts a request, in periods that last so long.
    pub(super) fn count(&mut self, now_us: u64, period_us: u64) {
        let elapsed = now_us.saturating_sub(self.since_us);
        if elapsed >= period_us {
            self.before = if elapsed < period_us.saturating_mul(2) { self.now } else { 0 };
            (self.since_us, self.now) = (now_us, 0);
        }
        self.now += 1;
    }

    /// Whether requests come so often that it pays to ask for several at once.
    pub(super) fn is_hot(&self) -> bool {
        self.before.max(self.now) > HOT
    }

    /// Whether it has been asked lately.
    pub(super) fn is_warm(&self, now_us: u64, period_us: u64) -> bool {
        now_us.saturating_sub(self.since_us) < period_us.saturating_mul(2)
    }

    /// How many requests to ask for in advance, where Redis has room for `left` of them, which so many gateways share.
    /// As many as a period may have, and none where little is left.
    pub(super) fn wants(&self, left: u64, gateways: u64) -> u64 {
        if self.is_hot() { self.before.max(self.now).min(left / PART / gateways.max(1)).min(MOST_SPARE) } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heat(before: u64, now: u64) -> Heat {
        let mut heat = Heat::default();
        (0..before).for_each(|_| heat.count(1_000, 100));
        (0..now).for_each(|_| heat.count(1_100, 100));
        heat
    }

    #[test]
    fn a_key_is_hot_for_as_long_as_a_period_had_many_requests() {
        assert!(!heat(8, 8).is_hot() && heat(9, 1).is_hot() && heat(1, 9).is_hot());
        let mut cold = heat(100, 100);
        cold.count(1_300, 100);
        assert!(!cold.is_hot(), "nobody came for a whole period");
    }

    #[test]
    fn as_much_is_wanted_as_a_period_needs_and_a_part_of_what_is_left() {
        assert_eq!(heat(50, 3).wants(1_000_000, 1), 50);
        assert_eq!((heat(50, 3).wants(100, 1), heat(50, 3).wants(100, 5), heat(50, 3).wants(3, 1)), (25, 5, 0));
        assert_eq!((heat(5, 3).wants(1_000, 1), heat(5_000, 3).wants(1_000_000, 1)), (0, 1_000));
    }
}
