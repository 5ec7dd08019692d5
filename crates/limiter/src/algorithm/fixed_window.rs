//! Fixed window: a counter per window.
//!
//! Windows that open with a request end on the steady clock. Windows on the clock and of a calendar end at a wall time, and
//! a window that was left is not entered again when the clock is set back.
//!
//! While rules with other windows use the same key, each kind has a window of its own, and every request is counted in all
//! of them. So a shorter window ends none of a longer one, and a longer one starves no rule.

mod kind;
mod windows;

pub use self::windows::Windows;
use self::windows::{Opening, Window};
use super::lengths::Counted;
use super::{Algorithm, Moment, RuleVerdict};
use crate::rule::FixedWindow;

impl Algorithm for FixedWindow {
    type State = Windows;
    type Change = Windows;

    /// A denial writes only if the kind of the window is new to the key, or the clock was set far back.
    #[inline]
    fn decide(&self, state: Option<&Windows>, now: Moment, cost: u64) -> (RuleVerdict, Option<Windows>) {
        let Counted { mut rule_window, mut others, is_stale } = self.counted(state, now);
        let remaining = self.limit().saturating_sub(rule_window.used);
        let ends_in_us = rule_window.rest_us(now);
        if cost <= remaining {
            rule_window.used += cost;
            if cost > 0 {
                others.iter_mut().for_each(|other| other.window.take(cost, now));
            }
            let reset_after_us = if rule_window.used > 0 { ends_in_us } else { 0 };
            let verdict = RuleVerdict::allowed(remaining - cost, reset_after_us, now);
            return (verdict, (cost > 0 || is_stale).then(|| Windows::new(rule_window, others, now.now_us)));
        }
        let retry_after_us = (cost <= self.limit()).then_some(ends_in_us);
        let reset_after_us = if rule_window.used > 0 { ends_in_us } else { 0 };
        let verdict = RuleVerdict::denied(remaining, retry_after_us, reset_after_us, now);
        (verdict, is_stale.then(|| Windows::new(rule_window, others, now.now_us)))
    }

    /// Returns tokens to the open windows in which they were taken. A correction never ends a window earlier and never
    /// adds a kind, since it may come from an earlier rule.
    fn settle(&self, state: Option<&Windows>, now: Moment, more: i64, counted_at_us: u64) -> Option<Windows> {
        let fresh = Opening::of_rule(self, now);
        let Some(windows) = state.filter(|windows| windows.is_open(now)) else {
            let used = u64::try_from(more).unwrap_or(0).min(self.limit());
            return (used > 0).then(|| Windows::new(Window { used, ..fresh.window() }, Vec::new(), now.now_us));
        };
        if more < 0 {
            return windows.give_back(more.unsigned_abs(), counted_at_us, &fresh);
        }
        let remaining = self.limit().saturating_sub(windows.at(&fresh).rule_window.used);
        let taken = more.unsigned_abs().min(remaining);
        (taken > 0).then(|| windows.take(taken, &fresh))
    }

    #[inline]
    fn apply(_: Option<Windows>, change: Windows) -> Windows {
        change
    }
}

impl FixedWindow {
    /// Returns the windows at `now`.
    #[inline]
    fn counted(&self, state: Option<&Windows>, now: Moment) -> Counted<Window> {
        let fresh = Opening::of_rule(self, now);
        match state {
            Some(windows) => windows.at(&fresh),
            None => Counted::fresh(fresh.window()),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use std::time::Duration;

    use super::*;
    use crate::rule::Align;
    use crate::verdict::Outcome;

    const SECOND: u64 = 1_000_000;

    fn rule(limit: u64, secs: u64, align: Align) -> FixedWindow {
        FixedWindow::new(limit, Duration::from_secs(secs), align).unwrap()
    }

    /// Decides a request and updates `state`.
    fn decide(rule: &FixedWindow, state: &mut Option<Windows>, now_us: u64, cost: u64) -> RuleVerdict {
        let (verdict, change) = rule.decide(state.as_ref(), Moment::at(now_us), cost);
        *state = change.or(state.take());
        verdict
    }

    fn denied(us: u64) -> Outcome {
        Outcome::Denied { retry_after: Duration::from_micros(us) }
    }

    #[test]
    fn a_window_opens_with_the_first_request() {
        let (rule, mut state) = (rule(2, 60, Align::First), None);
        let at = 1_000_000 * SECOND + 7;
        assert_eq!(decide(&rule, &mut state, at, 1).remaining, 1);
        assert_eq!(decide(&rule, &mut state, at + SECOND, 1).reset_after, Duration::from_secs(59));
        assert_eq!(decide(&rule, &mut state, at + 60 * SECOND - 1, 1).outcome, denied(1));
        assert_eq!(decide(&rule, &mut state, at + 60 * SECOND, 1).remaining, 1);
    }

    #[test]
    fn a_window_aligned_to_the_clock_ends_at_a_multiple_of_its_length() {
        let (rule, mut state) = (rule(1, 60, Align::Clock), None);
        assert_eq!(decide(&rule, &mut state, 119 * SECOND, 1).outcome, Outcome::Allowed);
        assert_eq!(decide(&rule, &mut state, 119 * SECOND + 1, 1).outcome, denied(SECOND - 1));
        assert_eq!(
            decide(&rule, &mut state, 120 * SECOND, 1).outcome,
            Outcome::Allowed,
            "twice the limit across an edge"
        );
    }

    #[test]
    fn denied_requests_do_not_count_and_a_limit_of_0_denies_all() {
        let mut state = None;
        let three = rule(3, 1, Align::First);
        assert_eq!(decide(&three, &mut state, 5, 4).outcome, Outcome::NeverAdmitted);
        assert_eq!(state, None);
        assert_eq!(decide(&three, &mut state, 5, 2).remaining, 1);
        assert_eq!(decide(&three, &mut state, 5, 2).outcome, denied(SECOND));
        assert_eq!(decide(&three, &mut state, 5, 1).remaining, 0);
        assert_eq!(decide(&rule(0, 1, Align::First), &mut None, 5, 1).outcome, Outcome::NeverAdmitted);
    }

    #[test]
    fn a_changed_limit_keeps_the_consumed_tokens() {
        let mut state = None;
        decide(&rule(10, 60, Align::First), &mut state, 5, 10);
        assert_eq!(decide(&rule(20, 60, Align::First), &mut state, 6, 10).remaining, 0);
        assert_eq!(decide(&rule(5, 60, Align::First), &mut state, 7, 1).remaining, 0);
    }

    #[test]
    fn a_shorter_window_or_a_clock_set_back_denies_a_key_for_at_most_one_window() {
        let mut state = None;
        decide(&rule(1, 86_400, Align::First), &mut state, 1_000 * SECOND, 1);
        let minute = rule(1, 60, Align::First);
        assert_eq!(decide(&minute, &mut state, 1_001 * SECOND, 1).outcome, denied(60 * SECOND));
        assert_eq!(decide(&minute, &mut state, 1_061 * SECOND - 1, 1).outcome, denied(1));
        assert_eq!(decide(&minute, &mut state, 10 * SECOND, 1).outcome, denied(60 * SECOND));
        assert_eq!(decide(&minute, &mut state, 70 * SECOND, 1).outcome, Outcome::Allowed);
    }

    #[test]
    fn a_correction_leaves_a_window_that_is_too_long_to_the_next_decision() {
        let mut state = None;
        decide(&rule(1, 86_400, Align::First), &mut state, 1_000 * SECOND, 1);
        let minute = rule(1, 60, Align::First);
        assert_eq!(minute.settle(state.as_ref(), Moment::at(1_001 * SECOND), 0, 0), None);
        assert_eq!(decide(&minute, &mut state, 1_002 * SECOND, 1).outcome, denied(60 * SECOND));
    }

    #[test]
    fn a_correction_stays_within_its_window_and_the_limit() {
        let (rule, mut state) = (rule(10, 60, Align::First), None);
        decide(&rule, &mut state, 5, 6);
        let mut settle = |now_us, more, counted_at_us| {
            state = rule.settle(state.as_ref(), Moment::at(now_us), more, counted_at_us).or(state.take());
            10 - rule.decide(state.as_ref(), Moment::at(now_us), 0).0.remaining
        };
        assert_eq!(settle(6, -2, 5), 4);
        assert_eq!(settle(6, 100, 5), 10);
        assert_eq!(settle(6, -100, 5), 0);
        assert_eq!(settle(61 * SECOND, 1, 61 * SECOND), 1);
        assert_eq!(settle(61 * SECOND, -1, 5), 1, "counted in a window that is over");
    }

    #[test]
    fn a_shorter_window_ends_none_of_a_longer_one() {
        let (hourly, by_second, mut state) = (rule(100, 3_600, Align::First), rule(10, 1, Align::First), None);
        let (mut at_hour_rule, mut at_second_rule) = (0, 0);
        for at in 0..60 {
            for _ in 0..200 {
                let now_us = 1_000 * SECOND + at * SECOND;
                let mut admits = |rule| u64::from(decide(rule, &mut state, now_us, 1).outcome == Outcome::Allowed);
                at_hour_rule += admits(&hourly);
                at_second_rule += admits(&by_second);
            }
        }
        // The first second has a hundred tokens of the hour. From then on there are ten in each second.
        assert_eq!((at_hour_rule, at_second_rule), (95, 5 + 59 * 10));
    }

    #[test]
    fn at_most_four_lengths_have_windows() {
        let mut state = None;
        for secs in 1..10 {
            decide(&rule(1_000, secs, Align::First), &mut state, 1_000 * SECOND + secs, 1);
        }
        let text = format!("{state:?}");
        assert_eq!(text.matches("ends_at_us").count(), 4, "{text}");
        assert_eq!(decide(&rule(1_000, 1, Align::First), &mut state, 1_000 * SECOND + 20, 0).remaining, 1_000 - 9);
    }
}
