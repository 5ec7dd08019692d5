//! Prepaid quota: a total that nothing refills within its period.

use super::{Algorithm, Moment, RuleVerdict, State};
use crate::rule::{MAX_SAFE_INTEGER, Quota};

/// State of a quota that differs from a new one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuotaState {
    /// End of the period: microseconds; [`u64::MAX`] if there is none.
    pub(crate) ends_at_us: u64,
    /// Tokens consumed minus tokens granted.
    pub(crate) used: i64,
}

/// Largest absolute value of [`QuotaState::used`].
const MAX_USED: i64 = MAX_SAFE_INTEGER as i64;

impl Algorithm for Quota {
    type State = QuotaState;
    type Change = QuotaState;

    /// Without a period, a denial has no retry delay, since only a grant helps. A denial writes only if the period now
    /// ends earlier than stored, because the rule changed or the clock was set back.
    fn decide(&self, state: Option<&QuotaState>, now: Moment, cost: u64) -> (RuleVerdict, Option<QuotaState>) {
        let (quota, is_stale) = self.state_at(state, now);
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

    /// Tokens of an earlier period are not returned to the current one. The store limits returned tokens to the cost of
    /// the request, since `used` includes grants.
    fn settle(&self, state: Option<&QuotaState>, now: Moment, more: i64, counted_at_us: u64) -> Option<QuotaState> {
        let (quota, is_stale) = self.state_at(state, now);
        let more = if more > 0 {
            more.min(self.remaining_of(&quota) as i64)
        } else if self.began_at_us(&quota, now) <= counted_at_us {
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
        self.remaining_of(&self.state_at(state, now).0)
    }

    /// Returns the state after a grant of `more` tokens; a negative grant removes tokens.
    pub(crate) fn grant(&self, state: Option<&QuotaState>, now: Moment, more: i64) -> QuotaState {
        let (quota, _) = self.state_at(state, now);
        quota.with_used(quota.used.saturating_sub(more))
    }

    /// Returns the state with exactly `left` tokens remaining.
    pub(crate) fn set(&self, state: Option<&QuotaState>, now: Moment, left: u64) -> QuotaState {
        let (quota, _) = self.state_at(state, now);
        quota.with_used(self.allowance() as i64 - left.min(MAX_SAFE_INTEGER) as i64)
    }

    fn remaining_of(&self, quota: &QuotaState) -> u64 {
        u64::try_from(self.allowance() as i64 - quota.used).unwrap_or(0).min(MAX_SAFE_INTEGER)
    }

    /// Returns the state at `now`, and true if it must be written even if nothing is consumed.
    fn state_at(&self, state: Option<&QuotaState>, now: Moment) -> (QuotaState, bool) {
        let ends_at_us = match self.periods_around(now.wall_us) {
            Some([_, _, next, _]) => now.now_us.saturating_add(next - now.wall_us),
            None => u64::MAX,
        };
        match state.filter(|quota| quota.used != 0 && now.now_us < quota.ends_at_us) {
            Some(quota) if quota.ends_at_us <= ends_at_us => (*quota, false),
            Some(quota) => (QuotaState { ends_at_us, ..*quota }, true),
            None => (QuotaState { ends_at_us, used: 0 }, false),
        }
    }

    fn began_at_us(&self, quota: &QuotaState, now: Moment) -> u64 {
        self.periods_around(now.wall_us).map_or(0, |[_, this, next, _]| quota.ends_at_us.saturating_sub(next - this))
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
    const EMPTY: Self = Self { ends_at_us: 0, used: 0 };

    /// A quota without a period never expires while it differs from a new one.
    #[inline]
    fn expires_at_us(&self) -> u64 {
        if self.used == 0 { self.ends_at_us.min(1) } else { self.ends_at_us }
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
        let given_back = rule.settle(state.as_ref(), Moment::at(START), -5, START).unwrap();
        assert_eq!(given_back.expires_at_us(), 1, "as new");
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
    fn grants_add_up_and_set_replaces_the_remaining_tokens() {
        let (rule, mut state) = (Quota::new(5).unwrap(), None);
        let now = Moment::at(START);
        decide(&rule, &mut state, START, 5);
        state = Some(rule.grant(state.as_ref(), now, 7));
        assert_eq!(decide(&rule, &mut state, START, 0).remaining, 7);
        state = Some(rule.grant(state.as_ref(), now, -3));
        assert_eq!(rule.remaining(state.as_ref(), now), 4);
        state = Some(rule.set(state.as_ref(), now, 100));
        assert_eq!(rule.remaining(state.as_ref(), now), 100);
        state = Some(rule.grant(state.as_ref(), now, i64::MIN));
        assert_eq!(rule.remaining(state.as_ref(), now), 0);
        assert_eq!(
            decide(&Quota::new(MAX_SAFE_INTEGER).unwrap(), &mut state, START, 1).outcome,
            Outcome::NeverAdmitted
        );
    }
}
