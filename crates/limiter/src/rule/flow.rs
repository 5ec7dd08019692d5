//! How tokens flow into a bucket, in whole numbers.

use parking_lot::RwLock;

use super::{MOST, RuleError};

/// The longest time in which a bucket may fill, in µs: 36,000 years. A moment so far off still is a `u64`.
const FILLS_WITHIN_US: u128 = 1 << 60;

/// So many units a tick, and so many units to a token.
///
/// With a rate of `r` tokens per period of `p` µs a unit is the `p`th part of a token, and exactly `r` of them flow in
/// each microsecond: no decision ever rounds. Only a bucket of more than 2^53 units (as much as Redis' Lua counts
/// exactly; with a period of a day a burst of 52,000) needs longer ticks and larger units, the same in every store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Flow {
    /// Its number in the list of all flows of this process.
    pub(crate) id: u32,
    /// Units that flow in each tick.
    pub(crate) per_tick: u32,
    /// Units in a token.
    pub(crate) units: u64,
    /// Length of a tick in microseconds.
    pub(crate) tick_us: u64,
}

/// All flows that rules ever had. A bucket in memory keeps the number of the flow under which its tokens were spent, in
/// 4 bytes instead of 20; the list grows by one for each rule that an operator thinks of.
static FLOWS: RwLock<Vec<Flow>> = RwLock::new(Vec::new());

impl Flow {
    /// Units in a token of a rule with a period of a second, whose ticks are microseconds.
    pub(crate) const PER_SECOND_UNITS: u64 = 1_000_000;

    /// `rate` tokens a period of `period_us`, into a bucket of `burst` tokens.
    pub(super) fn new(rate: u64, period_us: u64, burst: u64) -> Result<Self, RuleError> {
        let fill_us = u128::from(burst) * u128::from(period_us) / u128::from(rate);
        if fill_us > FILLS_WITHIN_US {
            return Err(RuleError::FillsTooSlowly);
        }
        let (mut per_tick, mut units, mut tick_us) = (u128::from(rate), u128::from(period_us), 1u128);
        let fits = |per_tick: u128, units: u128| {
            let most = u128::from(burst) * units;
            // The second: a moment in ticks since 1970 plus the time to fill.
            per_tick <= u128::from(u32::MAX) && most <= u128::from(MOST) && most / per_tick <= 1 << 52
        };
        if !fits(per_tick, units) {
            let divisor = u128::from(greatest_common_divisor(rate, period_us));
            (per_tick, units) = (per_tick / divisor, units / divisor);
        }
        while !fits(per_tick, units) {
            let too_fast = per_tick > u128::from(u32::MAX);
            match units {
                1 if too_fast => return Err(RuleError::TooMuch { field: "replenish-rate", most: u32::MAX.into() }),
                // Rounded so that rather less flows than was asked for, by less than a billionth.
                _ if too_fast => (per_tick, units) = (per_tick / 2, units.div_ceil(2)),
                1 => (per_tick, tick_us) = (per_tick * 10, tick_us * 10),
                _ if units.is_multiple_of(10) => (units, tick_us) = (units / 10, tick_us * 10),
                _ => (units, tick_us) = (units.div_ceil(2), tick_us * 2),
            }
        }
        // All three are below 2^64: the first two by the conditions, and a tick is shorter than the time to fill.
        Ok(Self::listed(per_tick as u32, units as u64, tick_us as u64))
    }

    fn listed(per_tick: u32, units: u64, tick_us: u64) -> Self {
        let mut flows = FLOWS.write();
        let known = flows.iter().find(|flow| (flow.per_tick, flow.units, flow.tick_us) == (per_tick, units, tick_us));
        if let Some(known) = known {
            return *known;
        }
        let flow = Self { id: flows.len() as u32, per_tick, units, tick_us };
        flows.push(flow);
        flow
    }

    /// The flow with that number.
    #[cold]
    pub(crate) fn with_id(id: u32) -> Option<Self> {
        FLOWS.read().get(id as usize).copied()
    }

    /// Whole ticks until `time_us`.
    #[inline]
    pub(crate) fn ticks(&self, time_us: u64) -> u64 {
        if self.tick_us == 1 { time_us } else { time_us / self.tick_us }
    }

    /// Whole tokens in `units`.
    #[inline]
    pub(crate) fn whole_tokens(&self, units: u64) -> u64 {
        // Dividing by a constant takes a quarter of the time.
        if self.units == Self::PER_SECOND_UNITS { units / Self::PER_SECOND_UNITS } else { units / self.units }
    }

    /// Microseconds in which so many tokens flow in, to a tick.
    #[cfg(feature = "redis")]
    pub(crate) fn us_for(&self, tokens: u64) -> u64 {
        let ticks = (u128::from(tokens) * u128::from(self.units)).div_ceil(u128::from(self.per_tick));
        u64::try_from(ticks.saturating_mul(u128::from(self.tick_us))).unwrap_or(u64::MAX)
    }

    /// Whole tokens that flow in within so many microseconds, of whole ticks.
    #[cfg(feature = "redis")]
    pub(crate) fn tokens_in(&self, us: u64) -> u64 {
        let units = u128::from(us / self.tick_us) * u128::from(self.per_tick);
        u64::try_from(units / u128::from(self.units)).unwrap_or(u64::MAX)
    }

    /// What `units` of another flow are in this one's, rounded up to whole tokens unless both count alike.
    pub(crate) fn convert(&self, units: u64, from: &Self) -> u64 {
        if (self.units, self.tick_us) == (from.units, from.tick_us) {
            units
        } else {
            units.div_ceil(from.units).saturating_mul(self.units)
        }
    }
}

fn greatest_common_divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use proptest::prelude::*;

    use super::*;

    const SECOND: u64 = 1_000_000;
    const DAY: u64 = 86_400 * SECOND;

    fn flow(rate: u64, period_us: u64, burst: u64) -> (u32, u64, u64) {
        let flow = Flow::new(rate, period_us, burst).unwrap();
        (flow.per_tick, flow.units, flow.tick_us)
    }

    #[test]
    fn usual_rules_are_counted_in_parts_of_their_period() {
        assert_eq!(flow(10, SECOND, 20), (10, SECOND, 1));
        assert_eq!(flow(4_294_967_295, SECOND, 4_294_967_295), (4_294_967_295, SECOND, 1));
        assert_eq!(flow(1, DAY, 50_000), (1, DAY, 1));
        assert_eq!(flow(5, 365 * DAY, 5), (5, 365 * DAY, 1));
    }

    #[test]
    fn large_numbers_get_larger_units_or_longer_ticks_and_stay_exact() {
        assert_eq!(flow(1_000_000, DAY, 1_000_000), (1, 86_400, 1));
        assert_eq!(flow(1_000_000_007, DAY, 1_000_000_007), (1_000_000_007, DAY / 10_000, 10_000));
        assert_eq!(flow(10_000_000_000, SECOND, MOST), (10_000, 1, 1));
        assert_eq!(flow(10_000, SECOND, MOST), (10, 1, 1_000));
    }

    #[test]
    fn what_cannot_be_counted_is_refused() {
        assert_eq!(Flow::new(1, SECOND, MOST), Err(RuleError::FillsTooSlowly));
        assert!(matches!(Flow::new(MOST, SECOND, MOST), Err(RuleError::TooMuch { .. })));
    }

    #[test]
    fn equal_flows_are_one() {
        let id = |rate| Flow::new(rate, SECOND, 7).unwrap().id;
        assert_eq!(id(81), id(81));
        assert_ne!(id(81), id(82));
        assert_eq!(Flow::with_id(id(82)).map(|flow| flow.per_tick), Some(82));
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn a_flow_never_runs_faster_than_asked_and_hardly_slower(
            rate in 1u64..=MOST, period_us in 1u64..=MOST, burst in 0u64..=MOST
        ) {
            let Ok(flow) = Flow::new(rate, period_us, burst) else { return Ok(()) };
            // Tokens a µs: per_tick / (units * tick).
            let ours = u128::from(flow.per_tick) * u128::from(period_us);
            let asked = u128::from(rate) * u128::from(flow.units) * u128::from(flow.tick_us);
            prop_assert!(ours <= asked);
            prop_assert!(ours as f64 >= asked as f64 * 0.5, "{flow:?}");
            prop_assert!(u128::from(burst) * u128::from(flow.units) <= u128::from(MOST));
        }
    }
}
