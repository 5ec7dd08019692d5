//! Prepaid stocks.

use super::{Algorithm, Answer, Moment, State};
use crate::rule::{MOST, Quota};

/// What is remembered of a stock that is not as new.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stock {
    /// When a new one begins: microseconds; [`u64::MAX`] if never.
    pub(crate) ends_at_us: u64,
    /// What was taken, less what was granted.
    pub(crate) used: i64,
}

/// The most by which a stock may be in debt or credit.
const MOST_USED: i64 = MOST as i64;

impl Algorithm for Quota {
    type State = Stock;
    type Change = Stock;

    /// Without a reset nobody who is denied need come again: only a grant helps. A denial writes only when the end of
    /// the period is nearer than what was kept, since the rule changed or the clock was set back.
    fn decide(&self, state: Option<&Stock>, now: Moment, cost: u64) -> (Answer, Option<Stock>) {
        let (stock, is_stale) = self.stock_at(state, now);
        let left = self.left_of(&stock);
        if cost <= left {
            let stock = Stock { used: stock.used + cost as i64, ..stock };
            let answer = Answer::allowed(self.left_of(&stock), stock.reset_after_us(now), now);
            return (answer, (cost > 0 || is_stale).then_some(stock));
        }
        let renews = stock.ends_at_us < u64::MAX && cost <= self.allowance();
        let retry_after_us = renews.then(|| stock.ends_at_us - now.now_us);
        (Answer::denied(left, retry_after_us, stock.reset_after_us(now), now), is_stale.then_some(stock))
    }

    /// What was taken in a period that is over is not given back to the next one. How much a request may give back,
    /// which is what it took, is the store's to bound: what was granted is in the same number.
    fn settle(&self, state: Option<&Stock>, now: Moment, more: i64, counted_at_us: u64) -> Option<Stock> {
        let (stock, is_stale) = self.stock_at(state, now);
        let more = if more > 0 {
            more.min(self.left_of(&stock) as i64)
        } else if self.began_at_us(&stock, now) <= counted_at_us {
            more
        } else {
            0
        };
        let settled = stock.with_used(stock.used.saturating_add(more));
        (is_stale || settled != stock).then_some(settled)
    }

    #[inline]
    fn apply(_: Option<Stock>, change: Stock) -> Stock {
        change
    }
}

impl Quota {
    /// What is left.
    pub(crate) fn left(&self, state: Option<&Stock>, now: Moment) -> u64 {
        self.left_of(&self.stock_at(state, now).0)
    }

    /// The stock with so much more in it; with less, if that is negative.
    pub(crate) fn grant(&self, state: Option<&Stock>, now: Moment, more: i64) -> Stock {
        let (stock, _) = self.stock_at(state, now);
        stock.with_used(stock.used.saturating_sub(more))
    }

    /// The stock with just so much left.
    pub(crate) fn set(&self, state: Option<&Stock>, now: Moment, left: u64) -> Stock {
        let (stock, _) = self.stock_at(state, now);
        stock.with_used(self.allowance() as i64 - left.min(MOST) as i64)
    }

    fn left_of(&self, stock: &Stock) -> u64 {
        u64::try_from(self.allowance() as i64 - stock.used).unwrap_or(0).min(MOST)
    }

    /// The stock at `now`, and whether what was kept must be written anew even if nothing is taken.
    fn stock_at(&self, state: Option<&Stock>, now: Moment) -> (Stock, bool) {
        let ends_at_us = match self.periods_around(now.wall_us) {
            Some([_, _, next, _]) => now.now_us.saturating_add(next - now.wall_us),
            None => u64::MAX,
        };
        match state.filter(|stock| stock.used != 0 && now.now_us < stock.ends_at_us) {
            Some(stock) if stock.ends_at_us <= ends_at_us => (*stock, false),
            Some(stock) => (Stock { ends_at_us, ..*stock }, true),
            None => (Stock { ends_at_us, used: 0 }, false),
        }
    }

    fn began_at_us(&self, stock: &Stock, now: Moment) -> u64 {
        self.periods_around(now.wall_us).map_or(0, |[_, this, next, _]| stock.ends_at_us.saturating_sub(next - this))
    }
}

impl Stock {
    fn with_used(self, used: i64) -> Self {
        Self { used: used.clamp(-MOST_USED, MOST_USED), ..self }
    }

    fn reset_after_us(&self, now: Moment) -> u64 {
        if self.used == 0 || self.ends_at_us == u64::MAX { 0 } else { self.ends_at_us - now.now_us }
    }
}

impl State for Stock {
    const VACANT: Self = Self { ends_at_us: 0, used: 0 };

    /// Never, while anything is taken or granted and no new stock will begin.
    #[inline]
    fn rests_at_us(&self) -> u64 {
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
    /// A midnight.
    const START: u64 = 20_000 * DAY;

    fn daily(allowance: u64) -> Quota {
        Quota::resetting(allowance, Calendar::new(CalendarUnit::Day, "UTC").unwrap()).unwrap()
    }

    /// Decides and keeps.
    fn ask(rule: &Quota, state: &mut Option<Stock>, now_us: u64, cost: u64) -> Answer {
        let (answer, change) = rule.decide(state.as_ref(), Moment::at(now_us), cost);
        *state = change.or(*state);
        answer
    }

    #[test]
    fn a_stock_is_taken_from_and_never_refilled() {
        let (rule, mut state) = (Quota::new(5).unwrap(), None);
        assert_eq!(ask(&rule, &mut state, START, 3).remaining, 2);
        let answer = ask(&rule, &mut state, START, 3);
        assert_eq!((answer.outcome, answer.remaining), (Outcome::NeverAdmitted, 2));
        assert_eq!(ask(&rule, &mut state, START + 9_999 * DAY, 2).remaining, 0);
        assert_eq!(state.unwrap().rests_at_us(), u64::MAX, "never forgotten");
        let given_back = rule.settle(state.as_ref(), Moment::at(START), -5, START).unwrap();
        assert_eq!(given_back.rests_at_us(), 1, "as new");
    }

    #[test]
    fn a_new_period_brings_a_new_stock() {
        let (rule, mut state) = (daily(5), None);
        assert_eq!(ask(&rule, &mut state, START + DAY / 2, 5).reset_after, Duration::from_micros(DAY / 2));
        let wait = Outcome::Denied { retry_after: Duration::from_micros(DAY / 4) };
        assert_eq!(ask(&rule, &mut state, START + DAY / 4 * 3, 5).outcome, wait);
        assert_eq!(ask(&rule, &mut state, START + DAY / 4 * 3, 6).outcome, Outcome::NeverAdmitted);
        assert_eq!(ask(&rule, &mut state, START + DAY, 5).outcome, Outcome::Allowed);
        assert_eq!(rule.settle(state.as_ref(), Moment::at(START + DAY), -5, START + DAY - 1), None, "of yesterday");
    }

    #[test]
    fn grants_add_up_and_a_set_stock_is_what_it_was_set_to() {
        let (rule, mut state) = (Quota::new(5).unwrap(), None);
        let now = Moment::at(START);
        ask(&rule, &mut state, START, 5);
        state = Some(rule.grant(state.as_ref(), now, 7));
        assert_eq!(ask(&rule, &mut state, START, 0).remaining, 7);
        state = Some(rule.grant(state.as_ref(), now, -3));
        assert_eq!(rule.left(state.as_ref(), now), 4);
        state = Some(rule.set(state.as_ref(), now, 100));
        assert_eq!(rule.left(state.as_ref(), now), 100);
        state = Some(rule.grant(state.as_ref(), now, i64::MIN));
        assert_eq!(rule.left(state.as_ref(), now), 0);
        assert_eq!(ask(&Quota::new(MOST).unwrap(), &mut state, START, 1).outcome, Outcome::NeverAdmitted);
    }
}
