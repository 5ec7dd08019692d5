//! Decisions under leaky buckets, whose requests must start in their turn although replies may be late.
//!
//! A request that missed its turn is decided again, now with the time that the reply took as its lead. A list of rules is
//! not: the other rules have taken its cost already. Such a request starts at once.

use tokio::time::Instant;

use super::RedisStore;
use crate::rule::Rule;
use crate::store::redis::command::unix_us;
use crate::store::redis::owned_check::OwnedCheck;
use crate::store::{Check, Decision};
use crate::verdict::{Source, StagedVerdict, Verdict};

/// Turns that a request may miss. Then it starts at once: replies are too irregular to tell when its turn is.
const MAX_MISSED: u8 = 2;

/// Rules of a decision in flight, and the time before it was sent.
struct InFlight {
    checks: Vec<OwnedCheck>,
    sent: Instant,
}

impl RedisStore {
    /// Lets the request of `decision` start in its turn.
    pub(super) fn in_turn(&self, checks: &[Check<'_>], decision: Decision) -> Decision {
        let Decision::Pending(verdict) = decision else { return decision };
        let Some(in_flight) = self.in_flight(checks) else { return Decision::Pending(verdict) };
        let store = self.clone();
        Decision::Pending(Box::pin(async move { store.start(in_flight, verdict.await).await }))
    }

    /// As [`in_turn`](Self::in_turn), by the `enforced` checks. A missed turn is not replaced.
    pub(super) fn in_turn_staged(
        &self,
        enforced: &[Check<'_>],
        decision: Decision<StagedVerdict>,
    ) -> Decision<StagedVerdict> {
        let Decision::Pending(verdict) = decision else { return decision };
        let Some(in_flight) = self.in_flight(enforced) else { return Decision::Pending(verdict) };
        let store = self.clone();
        Decision::Pending(Box::pin(async move {
            let mut verdict = verdict.await;
            store.correct(&in_flight, &mut verdict.enforced);
            verdict
        }))
    }

    /// A decision that was not sent yet; `None` if no rule assigns turns, or if the clock is the caller's.
    fn in_flight(&self, checks: &[Check<'_>]) -> Option<InFlight> {
        let assigns_turns = checks.iter().any(|check| matches!(check.rule, Rule::LeakyBucket(_)));
        (assigns_turns && self.options.clock.is_none())
            .then(|| InFlight { checks: checks.iter().map(OwnedCheck::of).collect(), sent: Instant::now() })
    }

    /// Corrects the delay of a verdict; takes another turn if the assigned one was missed.
    async fn start(&self, mut in_flight: InFlight, mut verdict: Verdict) -> Verdict {
        for _ in 0..MAX_MISSED {
            let is_missed = self.correct(&in_flight, &mut verdict);
            let [only] = in_flight.checks.as_slice() else { return verdict };
            if !is_missed {
                return verdict;
            }
            let decision = self.decide_once(&[only.check()]);
            in_flight.sent = Instant::now();
            verdict = match decision {
                Decision::Ready(verdict) => verdict,
                Decision::Pending(verdict) => verdict.await,
            };
        }
        self.correct(&in_flight, &mut verdict);
        verdict
    }

    /// Corrects the delay of a verdict. Returns true if the turn was missed.
    fn correct(&self, in_flight: &InFlight, verdict: &mut Verdict) -> bool {
        let rules = in_flight.checks.iter().map(|check| &check.rule);
        verdict.source == Source::Redis
            && self.options.reply_delay.correct(verdict, rules, unix_us(), in_flight.sent.elapsed())
    }
}
