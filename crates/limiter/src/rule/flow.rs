//! The refill of a token bucket in whole numbers.

use std::collections::HashMap;
use std::sync::LazyLock;

use serde::{Deserialize, Serialize};

use parking_lot::RwLock;

use super::{MAX_SAFE_INTEGER, RuleError};

/// Longest time in which an empty bucket may fill, in µs: 36,000 years. A timestamp that far ahead fits into a `u64`.
const FILLS_WITHIN_US: u128 = 1 << 60;
/// Longest such time of a bucket that refills in steps, whose timestamps are microseconds in Redis too: 142 years.
pub(crate) const FILLS_IN_STEPS_WITHIN_US: u64 = 1 << 52;

/// Refill of a bucket: units per tick and units per token.
///
/// With a rate of `r` tokens per period of `p` µs, a unit is 1/`p` of a token. Exactly `r` units are added per
/// microsecond, so no decision rounds. Redis' Lua counts exactly up to 2^53 units and 2^52 ticks to fill; with a rate
/// of 1 per day that is a burst of 52,000. Larger buckets use longer ticks and larger units, the same in every store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct Flow {
    /// Index in the list of all flows of this process.
    #[serde(skip)]
    pub(crate) id: u32,
    /// Units added per tick.
    pub(crate) per_tick: u32,
    /// Units per token.
    pub(crate) units: u64,
    /// Length of a tick in microseconds.
    pub(crate) tick_us: u64,
    /// Time after which all of its refill is added at once, a multiple of a tick; 0: the refill of each tick is added with it.
    pub(crate) step_us: u64,
    /// Largest debt in tokens of a state that refers to this flow: the burst, unless a larger burst left a larger debt.
    pub(crate) bound: u64,
}

/// Flows of all rules created so far.
///
/// A bucket in memory stores the 4-byte index of the flow under which its tokens were spent, instead of 28 bytes. The
/// list grows by one entry per distinct configured rule, and by one per pair of a rule and a larger burst of another rule.
static FLOWS: RwLock<Vec<Flow>> = RwLock::new(Vec::new());
/// Indices of the flows, by the flow with the index 0: a file may have 60,000 rules.
static IDS: LazyLock<RwLock<HashMap<Flow, u32>>> = LazyLock::new(RwLock::default);

impl Flow {
    /// Units per token of a rule with a period of a second and ticks of a microsecond.
    pub(crate) const PER_SECOND_UNITS: u64 = 1_000_000;

    /// Computes the flow of `rate` tokens per `period_us` into a bucket of `burst` tokens.
    pub(super) fn new(rate: u64, period_us: u64, burst: u64) -> Result<Self, RuleError> {
        let fill_us = u128::from(burst) * u128::from(period_us) / u128::from(rate);
        if fill_us > FILLS_WITHIN_US {
            return Err(RuleError::FillsTooSlowly);
        }
        let (mut per_tick, mut units, mut tick_us) = (u128::from(rate), u128::from(period_us), 1u128);
        let fits = |per_tick: u128, units: u128| {
            let capacity = u128::from(burst) * units;
            // The last condition bounds a timestamp: ticks since 1970 plus the time to fill.
            per_tick <= u128::from(u32::MAX)
                && capacity <= u128::from(MAX_SAFE_INTEGER)
                && capacity / per_tick <= 1 << 52
        };
        if !fits(per_tick, units) {
            let divisor = u128::from(greatest_common_divisor(rate, period_us));
            (per_tick, units) = (per_tick / divisor, units / divisor);
        }
        while !fits(per_tick, units) {
            let too_fast = per_tick > u128::from(u32::MAX);
            match units {
                1 if too_fast => return Err(RuleError::TooLarge { field: "replenish_rate", max: u32::MAX.into() }),
                // Rounds the rate down, by less than a billionth.
                _ if too_fast => (per_tick, units) = (per_tick / 2, units.div_ceil(2)),
                1 => (per_tick, tick_us) = (per_tick * 10, tick_us * 10),
                _ if units.is_multiple_of(10) => (units, tick_us) = (units / 10, tick_us * 10),
                _ => (units, tick_us) = (units.div_ceil(2), tick_us * 2),
            }
        }
        // The casts are lossless: the conditions bound the first two, and a tick is shorter than the time to fill.
        let (per_tick, units, tick_us) = (per_tick as u32, units as u64, tick_us as u64);
        Ok(Self { id: 0, per_tick, units, tick_us, step_us: 0, bound: burst }.interned())
    }

    /// Computes the flow of `rate` tokens after each `period_us` into a bucket of `burst` tokens.
    ///
    /// Its ticks divide the period, so that each step adds exactly `rate` tokens. They are the shortest with which the units
    /// of a step fit into 32 bits: 1 µs for most periods below an hour, 100 µs for 10 tokens a day.
    pub(super) fn in_steps(rate: u64, period_us: u64, burst: u64) -> Result<Self, RuleError> {
        let per_tick =
            u32::try_from(rate).map_err(|_| RuleError::TooLarge { field: "replenish_rate", max: u32::MAX.into() })?;
        if u128::from(burst.div_ceil(rate).max(1)) * u128::from(period_us) > FILLS_IN_STEPS_WITHIN_US.into() {
            return Err(RuleError::StepsTooSlowly);
        }
        let mut tick_us = 1;
        loop {
            let units = period_us / tick_us;
            let is_counted = u128::from(burst) * u128::from(units) <= MAX_SAFE_INTEGER.into();
            if units == 1 || is_counted && u128::from(rate) * u128::from(units) <= u32::MAX.into() {
                return Ok(Self { id: 0, per_tick, units, tick_us, step_us: period_us, bound: burst }.interned());
            }
            tick_us *= [2, 3, 5, 7].into_iter().find(|divisor| units.is_multiple_of(*divisor)).unwrap_or(units);
        }
    }

    /// Returns this flow with the id of an equal flow, or with a new id.
    pub(crate) fn interned(self) -> Self {
        let equal = Self { id: 0, ..self };
        if let Some(id) = IDS.read().get(&equal) {
            return Self { id: *id, ..self };
        }
        let id = *IDS.write().entry(equal).or_insert_with(|| {
            let mut flows = FLOWS.write();
            let id = flows.len() as u32;
            flows.push(Self { id, ..self });
            id
        });
        Self { id, ..self }
    }

    /// Returns all flows by their id.
    pub(crate) fn all() -> Vec<Self> {
        FLOWS.read().clone()
    }

    /// Returns true if the flow of another process can be counted with.
    pub(crate) fn is_valid(&self) -> bool {
        let is_counted = self.per_tick > 0 && self.units > 0 && self.tick_us > 0;
        is_counted && self.step_us.is_multiple_of(self.tick_us) && self.step_units() <= u32::MAX.into()
    }

    /// Returns the units that a step adds.
    pub(crate) fn step_units(&self) -> u64 {
        (self.step_us / self.tick_us).saturating_mul(self.per_tick.into())
    }

    /// Returns this flow for a state with a debt of up to `bound` tokens.
    #[cold]
    pub(crate) fn bounded(&self, bound: u64) -> Self {
        if self.bound == bound { *self } else { Self { bound, ..*self }.interned() }
    }

    /// Returns true if both flows count in the same units and ticks, and at the same rate.
    pub(crate) fn counts_like(&self, other: &Self) -> bool {
        (self.per_tick, self.units, self.tick_us) == (other.per_tick, other.units, other.tick_us)
    }

    /// Returns the largest debt of a state that refers to this flow, in units.
    pub(crate) fn most_debt(&self) -> u64 {
        self.bound.saturating_mul(self.units).min(self.max_units())
    }

    /// Returns the largest number of units that every store counts exactly, including the time to refill them.
    pub(crate) fn max_units(&self) -> u64 {
        if self.per_tick == 1 { 1 << 52 } else { MAX_SAFE_INTEGER }
    }

    /// Returns the flow with index `id`.
    #[cold]
    pub(crate) fn with_id(id: u32) -> Option<Self> {
        FLOWS.read().get(id as usize).copied()
    }

    /// Returns the whole ticks in `time_us`.
    #[inline]
    pub(crate) fn ticks(&self, time_us: u64) -> u64 {
        if self.tick_us == 1 { time_us } else { time_us / self.tick_us }
    }

    /// Returns the whole tokens in `units`.
    #[inline]
    pub(crate) fn whole_tokens(&self, units: u64) -> u64 {
        // A division by a constant takes a quarter of the time.
        if self.units == Self::PER_SECOND_UNITS { units / Self::PER_SECOND_UNITS } else { units / self.units }
    }

    /// Returns the microseconds in which `tokens` are added, rounded up to a tick.
    pub(crate) fn us_for(&self, tokens: u64) -> u64 {
        let ticks = (u128::from(tokens) * u128::from(self.units)).div_ceil(u128::from(self.per_tick));
        u64::try_from(ticks.saturating_mul(u128::from(self.tick_us))).unwrap_or(u64::MAX)
    }

    /// Returns the whole tokens added within the whole ticks of `us` microseconds.
    #[cfg(feature = "redis")]
    pub(crate) fn tokens_in(&self, us: u64) -> u64 {
        let units = u128::from(us / self.tick_us) * u128::from(self.per_tick);
        u64::try_from(units / u128::from(self.units)).unwrap_or(u64::MAX)
    }
}

/// Returns the largest number that divides both.
pub(crate) fn greatest_common_divisor(a: u64, b: u64) -> u64 {
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
    fn common_rules_use_one_unit_per_microsecond_of_the_period() {
        assert_eq!(flow(10, SECOND, 20), (10, SECOND, 1));
        assert_eq!(flow(4_294_967_295, SECOND, 4_294_967_295), (4_294_967_295, SECOND, 1));
        assert_eq!(flow(1, DAY, 50_000), (1, DAY, 1));
        assert_eq!(flow(5, 365 * DAY, 5), (5, 365 * DAY, 1));
    }

    #[test]
    fn large_numbers_use_larger_units_or_longer_ticks_and_stay_exact() {
        assert_eq!(flow(1_000_000, DAY, 1_000_000), (1, 86_400, 1));
        assert_eq!(flow(1_000_000_007, DAY, 1_000_000_007), (1_000_000_007, DAY / 10_000, 10_000));
        assert_eq!(flow(10_000_000_000, SECOND, MAX_SAFE_INTEGER), (10_000, 1, 1));
        assert_eq!(flow(10_000, SECOND, MAX_SAFE_INTEGER), (10, 1, 1_000));
    }

    #[test]
    fn rules_that_cannot_be_counted_exactly_are_errors() {
        assert_eq!(Flow::new(1, SECOND, MAX_SAFE_INTEGER), Err(RuleError::FillsTooSlowly));
        assert!(matches!(Flow::new(MAX_SAFE_INTEGER, SECOND, MAX_SAFE_INTEGER), Err(RuleError::TooLarge { .. })));
    }

    #[test]
    fn equal_flows_share_an_id() {
        let id = |rate| Flow::new(rate, SECOND, 7).unwrap().id;
        assert_eq!(id(81), id(81));
        assert_ne!(id(81), id(82));
        assert_eq!(Flow::with_id(id(82)).map(|flow| flow.per_tick), Some(82));
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn a_flow_is_never_faster_than_its_rate_and_at_most_twice_slower(
            rate in 1u64..=MAX_SAFE_INTEGER, period_us in 1u64..=MAX_SAFE_INTEGER, burst in 0u64..=MAX_SAFE_INTEGER
        ) {
            let Ok(flow) = Flow::new(rate, period_us, burst) else { return Ok(()) };
            // Tokens per µs: per_tick / (units * tick).
            let ours = u128::from(flow.per_tick) * u128::from(period_us);
            let asked = u128::from(rate) * u128::from(flow.units) * u128::from(flow.tick_us);
            prop_assert!(ours <= asked);
            prop_assert!(ours as f64 >= asked as f64 * 0.5, "{flow:?}");
            prop_assert!(u128::from(burst) * u128::from(flow.units) <= u128::from(MAX_SAFE_INTEGER));
        }
    }
}
