//! Fixed window: a counter per window.

use super::{Algorithm, Moment, RuleVerdict, State};
use crate::rule::FixedWindow;

/// State of an open window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// End of the window: microseconds.
    pub(crate) ends_at_us: u64,
    /// Tokens consumed in the window.
    pub(crate) used: u64,
}

impl Algorithm for FixedWindow {
    type State = Window;
    type Change = Window;

    /// An open window keeps its end when the rule changes, unless it would end earlier under the new rule. A denial
    /// writes only in that case, or if the clock was set back.
    #[inline]
    fn decide(&self, state: Option<&Window>, now: Moment, cost: u64) -> (RuleVerdict, Option<Window>) {
        let (window, is_stale) = self.window_at(state, now);
        let left = self.limit().saturating_sub(window.used);
        let ends_in_us = window.ends_at_us - now.now_us;
        if cost <= left {
            let window = Window { used: window.used + cost, ..window };
            let reset_after_us = if window.used > 0 { ends_in_us } else { 0 };
            return (RuleVerdict::allowed(left - cost, reset_after_us, now), (cost > 0 || is_stale).then_some(window));
        }
        let retry_after_us = (cost <= self.limit()).then_some(ends_in_us);
        let reset_after_us = if window.used > 0 { ends_in_us } else { 0 };
        (RuleVerdict::denied(left, retry_after_us, reset_after_us, now), is_stale.then_some(window))
    }

    /// Tokens of an earlier window are not returned to the current one. A correction never ends a window earlier, since
    /// it may come from an earlier rule with a shorter window.
    ///
    /// The window began its length under this rule before its end. If another, shorter window is open, tokens that were
    /// taken before it may be returned to it: at most what the request took.
    fn settle(&self, state: Option<&Window>, now: Moment, more: i64, counted_at_us: u64) -> Option<Window> {
        let window = match state.filter(|window| now.now_us < window.ends_at_us) {
            Some(window) => *window,
            None => self.window_at(None, now).0,
        };
        let used = if more < 0 {
            let began_at_us = window.ends_at_us.saturating_sub(self.rest_and_length_us(now.wall_us).1);
            let counts = counted_at_us >= began_at_us;
            if counts { window.used.saturating_sub(more.unsigned_abs()) } else { window.used }
        } else {
            window.used.max(window.used.saturating_add(more.unsigned_abs()).min(self.limit()))
        };
        (used != window.used).then_some(Window { used, ..window })
    }

    #[inline]
    fn apply(_: Option<Window>, change: Window) -> Window {
        change
    }
}

impl FixedWindow {
    /// Returns the window at `now`, and true if it must be written even if nothing is consumed.
    #[inline]
    fn window_at(&self, state: Option<&Window>, now: Moment) -> (Window, bool) {
        let ends_at_us = now.now_us.saturating_add(self.rest_and_length_us(now.wall_us).0);
        match state.filter(|window| now.now_us < window.ends_at_us) {
            Some(window) if window.ends_at_us <= ends_at_us => (*window, false),
            Some(window) => (Window { ends_at_us, ..*window }, true),
            None => (Window { ends_at_us, used: 0 }, false),
        }
    }
}

impl State for Window {
    const EMPTY: Self = Self { ends_at_us: 0, used: 0 };

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
    use crate::rule::Align;
    use crate::verdict::Outcome;

    const SECOND: u64 = 1_000_000;

    fn rule(limit: u64, secs: u64, align: Align) -> FixedWindow {
        FixedWindow::new(limit, Duration::from_secs(secs), align).unwrap()
    }

    /// Decides a request and updates `state`.
    fn decide(rule: &FixedWindow, state: &mut Option<Window>, now_us: u64, cost: u64) -> RuleVerdict {
        let (verdict, change) = rule.decide(state.as_ref(), Moment::at(now_us), cost);
        *state = change.or(*state);
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
            state = rule.settle(state.as_ref(), Moment::at(now_us), more, counted_at_us).or(state);
            state.unwrap().used
        };
        assert_eq!(settle(6, -2, 5), 4);
        assert_eq!(settle(6, 100, 5), 10);
        assert_eq!(settle(6, -100, 5), 0);
        assert_eq!(settle(61 * SECOND, 1, 61 * SECOND), 1);
        assert_eq!(settle(61 * SECOND, -1, 5), 1, "counted in a window that is over");
    }
}
