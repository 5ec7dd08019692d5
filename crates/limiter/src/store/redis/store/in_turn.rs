//! Decisions under leaky buckets, whose requests must start in their turn although replies may be late.
//!
//! A request that missed its turn takes another one, now with the time that the reply took as its lead. The other rules of a
//! list have taken its cost already and are not asked again. They get it back if no turn is left.

use tokio::time::Instant;

use super::RedisStore;
use crate::rule::Rule;
use crate::store::memory::unix_us;
use crate::store::{Check, Decision, OwnedCheck};
use crate::verdict::{RuleVerdict, Source, Verdict};

/// Turns that a request may miss. Then it starts at once: replies are too irregular to tell when its turn is.
const MAX_MISSED: u8 = 2;

impl RedisStore {
    /// Lets the request of `decision` start in its turn. If it is denied after all, the `observed` rules get their costs
    /// back.
    pub(super) fn in_turn(&self, enforced: &[Check<'_>], observed: &[Check<'_>], decision: Decision) -> Decision {
        let Decision::Pending(verdict) = decision else { return decision };
        // On a clock of the caller's, turns are those of that clock.
        let assigns_turns = enforced.iter().any(|check| matches!(check.rule, Rule::LeakyBucket(_)));
        if !assigns_turns || self.options.clock.is_some() {
            return Decision::Pending(verdict);
        }
        let enforced: Vec<OwnedCheck> = enforced.iter().map(OwnedCheck::of).collect();
        let observed: Vec<OwnedCheck> = observed.iter().map(OwnedCheck::of).collect();
        let (store, sent) = (self.clone(), Instant::now());
        Decision::Pending(Box::pin(async move {
            let mut verdict = verdict.await;
            let observed_verdict = verdict.observed.take();
            let verdict = store.start(&enforced, sent, verdict).await;
            if verdict.is_allowed() {
                return Verdict { observed: observed_verdict, ..verdict };
            }
            if let Some(taken) = observed_verdict.filter(|observed| observed.is_allowed()) {
                store.return_costs(observed.iter().zip(&rule_verdicts(&taken)), verdict.decided_at_us());
            }
            verdict
        }))
    }

    /// Corrects the delay of a verdict; takes other turns in place of those that were missed.
    async fn start(&self, checks: &[OwnedCheck], sent: Instant, mut verdict: Verdict) -> Verdict {
        let mut missed = self.correct(checks.iter(), sent, &mut verdict);
        for _ in 0..MAX_MISSED {
            if missed.is_empty() {
                break;
            }
            let again: Vec<&OwnedCheck> = missed.iter().map(|position| &checks[*position]).collect();
            let sent = Instant::now();
            let start_at = sent + verdict.delay;
            let decision = self.decide_once(&again.iter().map(|check| check.check()).collect::<Vec<_>>(), &[]);
            let mut turns = decision.get().await;
            if turns.source == Source::Fallback {
                // Redis has admitted the request already.
                break;
            }
            let missed_again = self.correct(again.into_iter(), sent, &mut turns);
            verdict = self.with_turns(checks, &verdict, &missed, &turns);
            if verdict.is_allowed() {
                verdict.delay = turns.delay.max(start_at.saturating_duration_since(Instant::now()));
            }
            missed = missed_again.into_iter().map(|position| missed[position]).collect();
        }
        verdict
    }

    /// Verdict with `turns` in place of the `missed` ones. If they are denied, the other rules get the cost back.
    fn with_turns(&self, checks: &[OwnedCheck], before: &Verdict, missed: &[usize], turns: &Verdict) -> Verdict {
        let mut rule_verdicts = self::rule_verdicts(before);
        if !turns.is_allowed() {
            let taken: Vec<usize> = (0..checks.len()).filter(|position| !missed.contains(position)).collect();
            self.return_costs(taken.iter().map(|at| (&checks[*at], &rule_verdicts[*at])), turns.decided_at_us());
            for at in taken {
                let full = checks[at].rule.capacity();
                rule_verdicts[at].remaining = rule_verdicts[at].remaining.saturating_add(checks[at].cost).min(full);
            }
        }
        for (position, turn) in missed.iter().zip(self::rule_verdicts(turns)) {
            rule_verdicts[*position] = turn;
        }
        let capacities = checks.iter().map(|check| check.rule.capacity());
        Verdict::combine(rule_verdicts, capacities, turns.source).unwrap_or_else(|| turns.clone())
    }

    /// Returns the costs of a request that was denied at `denied_at_us` after all.
    fn return_costs<'c>(&self, taken: impl Iterator<Item = (&'c OwnedCheck, &'c RuleVerdict)>, denied_at_us: u64) {
        for (check, rule_verdict) in taken {
            self.return_cost(check.check(), rule_verdict.counted_at_us, denied_at_us);
        }
    }

    /// Corrects the delay of a verdict. Returns the positions of the rules whose turns were missed.
    fn correct<'c>(
        &self,
        checks: impl Iterator<Item = &'c OwnedCheck>,
        sent: Instant,
        verdict: &mut Verdict,
    ) -> Vec<usize> {
        if verdict.source != Source::Redis {
            return Vec::new();
        }
        let rules = checks.map(|check| &check.rule);
        self.options.reply_delay.correct(verdict, rules, unix_us(), sent.elapsed())
    }
}

/// Verdict of each rule.
fn rule_verdicts(verdict: &Verdict) -> Vec<RuleVerdict> {
    let Verdict { outcome, reset_after, delay, counted_at_us, .. } = *verdict;
    let remaining = verdict.remaining.unwrap_or_default();
    match &*verdict.per_rule {
        [] => vec![RuleVerdict { outcome, remaining, reset_after, delay, counted_at_us }],
        rule_verdicts => rule_verdicts.to_vec(),
    }
}
