//! Prepaid quota: a total that nothing refills within its period.
//!
//! While rules with other periods use the same key, each calendar has a count of its own, and every request is counted in
//! all periods that have not ended. So a shorter period ends no longer one.

mod periods;
#[cfg(test)]
mod tests;

pub use self::periods::QuotaState;
use self::periods::{Current, Period, PeriodOrigin};
use super::{Algorithm, Moment, RuleVerdict};
use crate::rule::{MAX_SAFE_INTEGER, Quota};

impl Algorithm for Quota {
    type State = QuotaState;
    type Change = QuotaState;

    /// Without a period, a denial has no retry delay, since only a grant helps. A denial writes only if the calendar is
    /// new to the key, or the period now ends earlier than stored, because the clock was set far back.
    fn decide(&self, state: Option<&QuotaState>, now: Moment, cost: u64) -> (RuleVerdict, Option<QuotaState>) {
        let Current { mut rule_period, mut others, is_stale, .. } = self.at(state, now);
        let remaining = self.remaining_of(&rule_period);
        let ends_after_us = rule_period.ends_at_us - now.wall_us;
        let verdict = if cost <= remaining {
            rule_period.count(cost as i64);
            others.iter_mut().filter(|other| other.is_open(now)).for_each(|other| other.count(cost as i64));
            RuleVerdict::allowed(self.remaining_of(&rule_period), rule_period.reset_after_us(now), now)
        } else {
            let renews = rule_period.ends_at_us < u64::MAX && cost <= self.allowance();
            RuleVerdict::denied(remaining, renews.then_some(ends_after_us), rule_period.reset_after_us(now), now)
        };
        let is_changed = is_stale || cost > 0 && cost <= remaining;
        (verdict, is_changed.then(|| QuotaState::new(Some(rule_period), others)))
    }

    /// Tokens of an earlier period are not returned to the current one, whatever rule counted them. The store limits
    /// returned tokens to the cost of the request, since `used` includes grants. A correction adds no calendar, since it
    /// may come from an earlier rule.
    fn settle(&self, state: Option<&QuotaState>, now: Moment, more: i64, counted_at_us: u64) -> Option<QuotaState> {
        let Current { mut rule_period, mut others, origin, is_stale } = self.at(state, now);
        let mut is_changed = is_stale && origin != PeriodOrigin::New;
        let more = more.min(self.remaining_of(&rule_period) as i64);
        let mut settle = |period: &mut Period| {
            if more > 0 || period.began_at_us <= counted_at_us {
                let before = period.used;
                period.count(more);
                is_changed |= period.used != before;
            }
        };
        others.iter_mut().filter(|other| other.is_open(now)).for_each(&mut settle);
        if origin == PeriodOrigin::Open || more > 0 && origin != PeriodOrigin::New {
            settle(&mut rule_period);
        }
        let rule_period = Some(rule_period).filter(|_| origin != PeriodOrigin::New);
        is_changed.then(|| QuotaState::new(rule_period, others))
    }

    #[inline]
    fn apply(_: Option<QuotaState>, change: QuotaState) -> QuotaState {
        change
    }
}

impl Quota {
    /// Returns the remaining tokens.
    pub(crate) fn remaining(&self, state: Option<&QuotaState>, now: Moment) -> u64 {
        self.remaining_of(&self.at(state, now).rule_period)
    }

    /// Returns the state after a grant of `more` tokens, if it changes; a negative grant removes tokens.
    pub(crate) fn grant(&self, state: Option<&QuotaState>, now: Moment, more: i64) -> Option<QuotaState> {
        let Current { mut rule_period, others, is_stale, .. } = self.at(state, now);
        rule_period.count(more.saturating_neg());
        (is_stale || more != 0).then(|| QuotaState::new(Some(rule_period), others))
    }

    /// Returns the state with exactly `remaining` tokens remaining, if it changes.
    pub(crate) fn set(&self, state: Option<&QuotaState>, now: Moment, remaining: u64) -> Option<QuotaState> {
        let Current { mut rule_period, others, is_stale, .. } = self.at(state, now);
        let before = rule_period.used;
        rule_period.used = self.allowance() as i64 - remaining.min(MAX_SAFE_INTEGER) as i64;
        (is_stale || rule_period.used != before).then(|| QuotaState::new(Some(rule_period), others))
    }

    fn remaining_of(&self, period: &Period) -> u64 {
        u64::try_from(self.allowance() as i64 - period.used).unwrap_or(0).min(MAX_SAFE_INTEGER)
    }

    /// Returns the quota at `now`.
    fn at(&self, state: Option<&QuotaState>, now: Moment) -> Current {
        let [ends_at_us, latest_end_us] = match self.periods_around(now.wall_us) {
            Some([_, _, next, after_next]) => [next, after_next],
            None => [u64::MAX; 2],
        };
        let fresh = Period { began_at_us: now.now_us, ends_at_us, used: 0, calendar: self.calendar_id() };
        match state {
            Some(state) => state.at(fresh, latest_end_us, now),
            None => Current::alone(fresh),
        }
    }
}
