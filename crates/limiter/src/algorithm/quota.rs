//! Prepaid quota: a total that nothing refills within its period.

use super::{Algorithm, Moment, RuleVerdict, State};
use crate::rule::{MAX_SAFE_INTEGER, Quota};

/// State of a quota that was used in its period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuotaState {
    /// First use of the quota in its period: microseconds.
    pub(crate) began_at_us: u64,
    /// End of the period: microseconds; [`u64::MAX`] if there is none.
    pub(crate) ends_at_us: u64,
    /// Tokens consumed minus tokens granted.
    pub(crate) used: i64,
}

/// Quota at a moment.
struct Current {
    quota: QuotaState,
    /// True if the quota was used in this period.
    is_known: bool,
    /// True if the state must be written even if nothing is consumed.
    is_stale: bool,
}

/// Largest absolute value of [`QuotaState::used`].
const MAX_USED: i64 = MAX_SAFE_INTEGER as i64;

impl Algorithm for Quota {
    type State = QuotaState;
    type Change = QuotaState;

    /// Without a period, a denial has no retry delay, since only a grant helps. A denial writes only if the period now
    /// ends earlier than stored, because the rule changed or the clock was set back.
    fn decide(&self, state: Option<&QuotaState>, now: Moment, cost: u64) -> (RuleVerdict, Option<QuotaState>) {
        let Current { quota, is_stale, .. } = self.at(state, now);
        let left = self.remaining_of(&quota);
        if cost <= left {
            let quota = QuotaState { used: quota.used + cost as i64, ..quota };
            let verdict = RuleVerdict::allowed(self.remaining_of(&quota), quota.reset_after_us(now), now);
            return (verdict, (cost > 0 || is_stale).then_some(quota));
        }
        let renews = quota.ends_at_us < u64::MAX && cost <= self.allowance();
        let retry_after_us = renews.then(|| quota.ends_at_us - now.now_us);
        (RuleVerdict::denied(left, retry_after_us, quota.reset_after_us(now), now), is_stale.then_some(quota))
    }

    /// Tokens of an earlier period are not returned to the current one, whatever rule counted them. The store limits
    /// returned tokens to the cost of the request, since `used` includes grants.
    fn settle(&self, state: Option<&QuotaState>, now: Moment, more: i64, counted_at_us: u64) -> Option<QuotaState> {
        let Current { quota, is_known, is_stale } = self.at(state, now);
        let more = if more > 0 {
            more.min(self.remaining_of(&quota) as i64)
        } else if is_known && quota.began_at_us <= counted_at_us {
            more
        } else {
            0
        };
        let settled = quota.with_used(quota.used.saturating_add(more));
        (is_stale || settled != quota).then_some(settled)
    }

    #[inline]
    fn apply(_: Option<QuotaState>, change: QuotaState) -> QuotaState {
        change
    }
}

impl Quota {
    /// Returns the remaining tokens.
    pub(crate) fn remaining(&self, state: Option<&QuotaState>, now: Moment) -> u64 {
        self.remaining_of(&self.at(state, now).quota)
    }

    /// Returns the state after a grant of `more` tokens, if it changes; a negative grant removes tokens.
    pub(crate) fn grant(&self, state: Option<&QuotaState>, now: Moment, more: i64) -> Option<QuotaState> {
        let Current { quota, is_stale, .. } = self.at(state, now);
        (is_stale || more != 0).then(|| quota.with_used(quota.used.saturating_sub(more)))
    }

    /// Returns the state with exactly `left` tokens remaining, if it changes.
    pub(crate) fn set(&self, state: Option<&QuotaState>, now: Moment, left: u64) -> Option<QuotaState> {
        let Current { quota, is_stale, .. } = self.at(state, now);
        let set = quota.with_used(self.allowance() as i64 - left.min(MAX_SAFE_INTEGER) as i64);
        (is_stale || set != quota).then_some(set)
    }

    fn remaining_of(&self, quota: &QuotaState) -> u64 {
        u64::try_from(self.allowance() as i64 - quota.used).unwrap_or(0).min(MAX_SAFE_INTEGER)
    }

    /// Returns the quota at `now`.
    ///
    /// A quota with usage keeps its end when the rule changes, unless its period would end earlier under the new rule.
    fn at(&self, state: Option<&QuotaState>, now: Moment) -> Current {
        let ends_at_us = match self.periods_around(now.wall_us) {
            Some([_, _, next, _]) => now.now_us.saturating_add(next - now.wall_us),
            None => u64::MAX,
        };
        let Some(known) = state.filter(|quota| now.now_us < quota.ends_at_us) else {
            let quota = QuotaState { began_at_us: now.now_us, ends_at_us, used: 0 };
            return Current { quota, is_known: false, is_stale: false };
        };
        let is_used = known.used != 0;
        let quota = QuotaState {
            began_at_us: known.began_at_us.min(now.now_us),
            ends_at_us: if is_used { ends_at_us.min(known.ends_at_us) } else { ends_at_us },
            used: known.used,
        };
        Current { quota, is_known: true, is_stale: is_used && ends_at_us < known.ends_at_us }
    }
}

impl QuotaState {
    fn with_used(self, used: i64) -> Self {
        Self { used: used.clamp(-MAX_USED, MAX_USED), ..self }
    }

    fn reset_after_us(&self, now: Moment) -> u64 {
        if self.used == 0 || self.ends_at_us == u64::MAX { 0 } else { self.ends_at_us - now.now_us }
    }
}

impl State for QuotaState {
    const EMPTY: Self = Self { began_at_us: 0, ends_at_us: 0, used: 0 };

    /// A used quota lasts until its period ends, even if all its tokens were returned or granted: later corrections
    /// belong to it.
    #[inline]
    fn expires_at_us(&self) -> u64 {
        self.ends_at_us
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use std::time::Duration;

    use super::*;
    use crate::rule::{Calendar, CalendarUnit};
    use crate::verdict::Outcome;

    const DAY: u64 = 86_400_000_000;
    /// A midnight in UTC.
    const START: u64 = 20_000 * DAY;

    fn daily(allowance: u64) -> Quota {
        Quota::resetting(allowance, Calendar::new(CalendarUnit::Day, "UTC").unwrap()).unwrap()
    }

    /// Decides a request and updates `state`.
    fn decide(rule: &Quota, state: &mut Option<QuotaState>, now_us: u64, cost: u64) -> RuleVerdict {
        let (verdict, change) = rule.decide(state.as_ref(), Moment::at(now_us), cost);
        *state = change.or(*state);
        verdict
    }

    #[test]
    fn a_quota_without_a_period_is_never_refilled() {
        let (rule, mut state) = (Quota::new(5).unwrap(), None);
        assert_eq!(decide(&rule, &mut state, START, 3).remaining, 2);
        let verdict = decide(&rule, &mut state, START, 3);
        assert_eq!((verdict.outcome, verdict.remaining), (Outcome::NeverAdmitted, 2));
        assert_eq!(decide(&rule, &mut state, START + 9_999 * DAY, 2).remaining, 0);
        assert_eq!(state.unwrap().expires_at_us(), u64::MAX, "never forgotten");
        state = rule.settle(state.as_ref(), Moment::at(START + 1), -5, START);
        assert_eq!(rule.remaining(state.as_ref(), Moment::at(START + 1)), 5);
        state = rule.settle(state.as_ref(), Moment::at(START + 2), -1, START);
        assert_eq!(rule.remaining(state.as_ref(), Moment::at(START + 2)), 6, "of a request before a grant");
    }

    #[test]
    fn a_new_period_starts_with_the_full_allowance() {
        let (rule, mut state) = (daily(5), None);
        assert_eq!(decide(&rule, &mut state, START + DAY / 2, 5).reset_after, Duration::from_micros(DAY / 2));
        let wait = Outcome::Denied { retry_after: Duration::from_micros(DAY / 4) };
        assert_eq!(decide(&rule, &mut state, START + DAY / 4 * 3, 5).outcome, wait);
        assert_eq!(decide(&rule, &mut state, START + DAY / 4 * 3, 6).outcome, Outcome::NeverAdmitted);
        assert_eq!(decide(&rule, &mut state, START + DAY, 5).outcome, Outcome::Allowed);
        assert_eq!(rule.settle(state.as_ref(), Moment::at(START + DAY), -5, START + DAY - 1), None, "of yesterday");
    }

    #[test]
    fn tokens_of_an_ended_period_are_never_returned_whatever_the_rule() {
        let noon = START + DAY / 2;
        let hourly = Quota::resetting(5, Calendar::new(CalendarUnit::Hour, "UTC").unwrap()).unwrap();
        let later = Moment::at(noon + 3_700_000_000);
        for changed in [Quota::new(5).unwrap(), daily(5), hourly.clone()] {
            let mut state = None;
            decide(&hourly, &mut state, noon, 5);
            assert_eq!(changed.settle(state.as_ref(), later, -5, noon), None, "before the next request");
            assert_eq!(changed.settle(None, later, -5, noon), None, "of a dropped state");
            assert_eq!(decide(&changed, &mut state, later.now_us, 1).remaining, 4);
            assert_eq!(changed.settle(state.as_ref(), later, -5, noon), None);
            let returned = changed.settle(state.as_ref(), later, -1, later.now_us).unwrap();
            assert_eq!(changed.remaining(Some(&returned), later), 5, "of this period");
        }
    }

    #[test]
    fn tokens_are_returned_after_a_changed_rule_within_the_period_and_after_a_clock_set_back() {
        let (noon, mut state) = (START + DAY / 2, None);
        decide(&daily(5), &mut state, noon, 5);
        let changed = Quota::new(5).unwrap();
        state = changed.settle(state.as_ref(), Moment::at(noon + 1), -2, noon);
        assert_eq!(decide(&changed, &mut state, noon + 2, 0).remaining, 2);
        assert_eq!(decide(&changed, &mut state, noon - DAY / 4, 2).remaining, 0);
        state = changed.settle(state.as_ref(), Moment::at(noon), -2, noon - DAY / 4);
        assert_eq!(decide(&changed, &mut state, noon, 0).remaining, 2);
    }

    #[test]
    fn grants_add_up_and_set_replaces_the_remaining_tokens() {
        let (rule, mut state) = (Quota::new(5).unwrap(), None);
        let now = Moment::at(START);
        decide(&rule, &mut state, START, 5);
        state = rule.grant(state.as_ref(), now, 7);
        assert_eq!(decide(&rule, &mut state, START, 0).remaining, 7);
        state = rule.grant(state.as_ref(), now, -3);
        assert_eq!(rule.remaining(state.as_ref(), now), 4);
        state = rule.set(state.as_ref(), now, 100);
        assert_eq!(rule.remaining(state.as_ref(), now), 100);
        state = rule.grant(state.as_ref(), now, i64::MIN);
        assert_eq!(rule.remaining(state.as_ref(), now), 0);
        assert_eq!(
            decide(&Quota::new(MAX_SAFE_INTEGER).unwrap(), &mut state, START, 1).outcome,
            Outcome::NeverAdmitted
        );
    }
}
