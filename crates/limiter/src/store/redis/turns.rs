//! Turns of leaky buckets on this machine, to which replies may be late.
//!
//! Redis assigns a turn on its clock, and the request starts here. If the reply takes 90 ms, a request whose turn was 0 to
//! 90 ms ahead would start beside a request of another gateway. Three things keep starts apart:
//!
//! - The request tells Redis how late recent replies were (the lead). Its turn is then no earlier than the reply.
//! - The wait counts from Redis' decision, not from the reply, if the clocks allow it: the time of the decision must lie
//!   between sending and receiving on this machine's clock. Otherwise it counts from the reply, which is never early. So
//!   starts are as exact as the clocks agree, and never worse than the time of the reply.
//! - A request that missed its turn takes another one, under the rule of that turn only. The missed turn stays unused.
//!
//! Replies that are late by a small part of the interval need none of that.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::micros;
use crate::rule::{LeakyBucket, Rule};
use crate::verdict::{RuleVerdict, Verdict};

/// Part of an interval by which a request may start late.
const TOLERATED_PART: u64 = 16;

/// Time by which a request may start late in any case: timers are exact to a millisecond.
const TOLERATED_US: u64 = 2_000;

/// Time by which recent replies were late, in microseconds.
#[derive(Debug, Default)]
pub(crate) struct ReplyDelay(AtomicU64);

// === impl ReplyDelay ===

impl ReplyDelay {
    /// Returns the time before which a turn would be missed; 0 if replies arrive in time.
    pub(crate) fn lead_us(&self, rule: &LeakyBucket) -> u64 {
        let late_us = self.0.load(Ordering::Relaxed);
        if late_us <= tolerated_us(rule) { 0 } else { late_us + late_us / 8 + 1_000 }
    }

    /// Corrects the delay of `verdict`, which has just arrived: at `received_us` of this machine's clock, `elapsed` after the
    /// call was sent. Returns the positions of the rules whose turns were missed.
    pub(crate) fn correct<'r>(
        &self,
        verdict: &mut Verdict,
        rules: impl Iterator<Item = &'r Rule>,
        received_us: u64,
        elapsed: Duration,
    ) -> Vec<usize> {
        let elapsed_us = micros(elapsed);
        let only = (verdict.counted_at_us, verdict.delay);
        let of_rule = |rule_verdict: &RuleVerdict| (rule_verdict.counted_at_us, rule_verdict.delay);
        let (mut delay, mut missed) = (Duration::ZERO, Vec::new());
        for (position, rule) in rules.enumerate() {
            let Rule::LeakyBucket(rule) = rule else { continue };
            let (turn_us, wait) = verdict.per_rule.get(position).map_or(only, of_rule);
            let decided_us = turn_us.saturating_sub(micros(wait));
            let late_us = received_us.checked_sub(decided_us).filter(|late_us| *late_us <= elapsed_us);
            self.record(late_us.unwrap_or(elapsed_us));
            let late_us = late_us.filter(|late_us| *late_us > tolerated_us(rule)).unwrap_or(0);
            delay = delay.max(wait.saturating_sub(Duration::from_micros(late_us)));
            if verdict.is_allowed() && late_us > micros(wait) + tolerated_us(rule) {
                missed.push(position);
            }
        }
        verdict.delay = delay;
        missed
    }

    /// Records a reply. One that is less late lowers the value slowly.
    fn record(&self, late_us: u64) {
        let before = self.0.load(Ordering::Relaxed);
        self.0.store(late_us.max(before - before / 8), Ordering::Relaxed);
    }
}

fn tolerated_us(rule: &LeakyBucket) -> u64 {
    (micros(rule.interval()) / TOLERATED_PART).max(TOLERATED_US)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use super::*;
    use crate::algorithm::Moment;
    use crate::verdict::Source;

    const MS: u64 = 1_000;

    fn rule() -> LeakyBucket {
        LeakyBucket::new(20, Duration::from_secs(1))
            .unwrap()
            .with_max_wait(Duration::from_secs(9))
            .unwrap()
            .with_max_queue(99)
            .unwrap()
    }

    /// Corrects a verdict with a wait of `wait_ms`, decided `decided_ms` ago by the clock of Redis and sent 90 ms ago.
    /// Returns the delay and whether the turn was missed.
    fn corrected(delay: &ReplyDelay, wait_ms: u64, decided_ms: u64) -> (u64, bool) {
        let received_us = 1_763_769_600_000_000;
        let turn_us = received_us - decided_ms * MS + wait_ms * MS;
        let rule_verdict = RuleVerdict::allowed(0, 0, Moment::at(turn_us));
        let rule_verdict = RuleVerdict { delay: Duration::from_millis(wait_ms), ..rule_verdict };
        let mut verdict = rule_verdict.into_verdict(Source::Redis);
        let rules = [Rule::LeakyBucket(rule())];
        let missed = delay.correct(&mut verdict, rules.iter(), received_us, Duration::from_millis(90));
        (verdict.delay.as_millis() as u64, missed == [0])
    }

    #[test]
    fn the_wait_counts_from_the_decision_as_far_as_the_clocks_agree() {
        let delay = ReplyDelay::default();
        for (wait_ms, decided_ms, expected) in [
            (200, 80, (120, false)),
            (50, 80, (0, true)),
            (80, 80, (0, false)),
            (200, 1, (200, false)),
            (200, 500, (200, false)),
            (0, 500, (0, false)),
        ] {
            assert_eq!(corrected(&delay, wait_ms, decided_ms), expected, "{wait_ms} ms, decided {decided_ms} ms ago");
        }
    }

    #[test]
    fn the_lead_follows_late_replies_and_shrinks_slowly() {
        let (delay, rule) = (ReplyDelay::default(), rule());
        delay.record(3 * MS);
        assert_eq!(delay.lead_us(&rule), 0, "a sixteenth of the interval");
        delay.record(80 * MS);
        assert_eq!(delay.lead_us(&rule), 91 * MS);
        delay.record(MS);
        assert!((75 * MS..90 * MS).contains(&delay.lead_us(&rule)));
        (0..30).for_each(|_| delay.record(MS));
        assert_eq!(delay.lead_us(&rule), 0);
    }
}
