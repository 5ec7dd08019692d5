//! Denials that need not be asked for again.
//!
//! Redis said how long it takes until a request could pass. Until then the same request is denied here: nothing but
//! somebody who gives back can make it earlier (see [`Returns`](super::returns::Returns)), and no clock of another
//! machine is compared with this one's, since the time runs from when the question was sent. That is never later than
//! when Redis decided it, so the note never outlives the denial.

use std::collections::HashMap;
use std::time::Duration;

use super::identity::Identity;
use super::returns::Seen;
use crate::rule::Rule;
use crate::store::Check;
use crate::verdict::{Outcome, Source, Verdict};

/// The longest time for which a denial is believed. It bounds what may be wrong where nobody tells this gateway that
/// something was given back: Redis speaks no RESP3, the user may not listen, or another gateway limits the same key by
/// another rule.
const BELIEVED_FOR_US: u64 = 1_000_000;

/// Notes kept at most, in halves: when one is full the older one goes, long past what most of its notes were good for.
const HALF: usize = 5_000;

/// A denial, and for how long it is one.
#[derive(Clone, Debug)]
pub(super) struct Note {
    verdict: Verdict,
    costs: Box<[u64]>,
    /// The verdict's wait is counted from here on: when it arrived.
    since_us: u64,
    until_us: u64,
    pub(super) seen: Seen,
}

/// Notes by keys and rules: one each, for the cost that was denied last.
#[derive(Default)]
pub(super) struct Denials {
    young: HashMap<u128, Note>,
    old: HashMap<u128, Note>,
}

impl Note {
    /// A note of `verdict`, asked for at `sent_us` with what was `seen` then; `None` if it denies nothing.
    pub(super) fn of(verdict: &Verdict, costs: &[u64], seen: Seen, sent_us: u64, now_us: u64) -> Option<Self> {
        let wait_us = match verdict.outcome {
            Outcome::Denied { retry_after } => micros(retry_after),
            Outcome::NeverAdmitted => BELIEVED_FOR_US,
            Outcome::Allowed | Outcome::StoreUnavailable { .. } => return None,
        };
        let until_us = sent_us.saturating_add(wait_us.min(BELIEVED_FOR_US));
        let is_good = now_us < until_us;
        is_good.then(|| Self { verdict: verdict.clone(), costs: costs.into(), since_us: now_us, until_us, seen })
    }

    /// What becomes of a request that takes as much or more, at `now_us`; `None` if only Redis knows.
    fn verdict(&self, checks: &[Check<'_>], now_us: u64) -> Option<Verdict> {
        // A time before it: a test's clock was set back.
        if !(self.since_us..self.until_us).contains(&now_us) || self.costs.len() != checks.len() {
            return None;
        }
        let passed = Duration::from_micros(now_us - self.since_us);
        let mut verdict = Verdict {
            outcome: later(self.verdict.outcome, passed),
            reset_after: self.verdict.reset_after.saturating_sub(passed),
            source: Source::DenialCache,
            ..self.verdict.clone()
        };
        for answer in &mut verdict.per_rule {
            answer.outcome = later(answer.outcome, passed);
            answer.reset_after = answer.reset_after.saturating_sub(passed);
        }
        if checks.iter().map(|check| check.cost).eq(self.costs.iter().copied()) {
            return Some(verdict);
        }
        // Which rule of a list would deny the longest then is not known.
        let ([check], [cost], Outcome::Denied { retry_after }) = (checks, &*self.costs, verdict.outcome) else {
            return None;
        };
        let more = longer(check.rule, check.cost.checked_sub(*cost)?)?;
        verdict.outcome = match check.cost {
            cost if cost > check.rule.capacity() => Outcome::NeverAdmitted,
            _ => Outcome::Denied { retry_after: retry_after.saturating_add(more) },
        };
        Some(verdict)
    }
}

impl Denials {
    /// The note that says what becomes of `checks`, and what that is.
    pub(super) fn find(&self, identity: Identity, checks: &[Check<'_>], now_us: u64) -> Option<(&Note, Verdict)> {
        let notes = [self.young.get(&identity.rules), self.old.get(&identity.rules)];
        notes.into_iter().flatten().find_map(|note| Some((note, note.verdict(checks, now_us)?)))
    }

    pub(super) fn insert(&mut self, identity: Identity, note: Note) {
        if self.young.len() >= HALF {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(identity.rules, note);
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }
}

/// An outcome after so much time; a rule that denied for a shorter time than another one does no more.
fn later(outcome: Outcome, passed: Duration) -> Outcome {
    match outcome {
        Outcome::Denied { retry_after } if retry_after <= passed => Outcome::Allowed,
        Outcome::Denied { retry_after } => Outcome::Denied { retry_after: retry_after - passed },
        other => other,
    }
}

/// How much longer a request waits that takes so much more, to a tick of the rule at most more than it must; `None` if
/// that depends on what others took when.
fn longer(rule: &Rule, more: u64) -> Option<Duration> {
    match rule {
        Rule::TokenBucket(bucket) | Rule::Gcra(bucket) => Some(Duration::from_micros(bucket.flow().us_for(more))),
        // All of it comes back in one moment.
        Rule::FixedWindow(_) => Some(Duration::ZERO),
        Rule::Quota(quota) => quota.reset().is_some().then_some(Duration::ZERO),
        _ => None,
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use super::super::identity::Seeds;
    use super::super::returns::Returns;
    use super::*;
    use crate::algorithm::{Algorithm, Moment};
    use crate::key::BucketKey;
    use crate::rule::{Align, FixedWindow, SlidingWindowLog, TokenBucket};
    use crate::store::redis::operands::Style;
    use crate::verdict::RuleVerdict;

    const KEY: BucketKey<'_> = BucketKey { scope: "r", id: b"me" };

    fn denied(wait_us: u64) -> Verdict {
        let outcome = Outcome::Denied { retry_after: Duration::from_micros(wait_us) };
        RuleVerdict { outcome, ..RuleVerdict::allowed(0, wait_us * 2, Moment::at(7)) }.into_verdict(Source::Redis)
    }

    fn note(verdict: &Verdict, cost: u64, sent_us: u64, now_us: u64) -> Option<Note> {
        Note::of(verdict, &[cost], Returns::default().look(std::iter::empty()), sent_us, now_us)
    }

    fn gcra() -> Rule {
        Rule::Gcra(TokenBucket::per_second(10, 20).unwrap())
    }

    fn wait_us(note: &Note, rule: &Rule, cost: u64, now_us: u64) -> Option<u64> {
        match note.verdict(&[Check { key: KEY, rule, cost }], now_us)?.outcome {
            Outcome::Denied { retry_after } => Some(micros(retry_after)),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_denial_is_one_from_when_it_was_sent_until_its_wait_is_over() {
        let note = note(&denied(1_000), 1, 500, 800).unwrap();
        assert_eq!(wait_us(&note, &gcra(), 1, 800), Some(1_000));
        assert_eq!(wait_us(&note, &gcra(), 1, 1_499), Some(301), "as the client was told, from the answer on");
        assert_eq!(wait_us(&note, &gcra(), 1, 1_500), None);
        assert_eq!(wait_us(&note, &gcra(), 1, 799), None, "a clock that was set back");
        let verdict = note.verdict(&[Check { key: KEY, rule: &gcra(), cost: 1 }], 900).unwrap();
        assert_eq!((verdict.reset_after, verdict.source), (Duration::from_micros(1_900), Source::DenialCache));
    }

    #[test]
    fn nothing_is_believed_for_more_than_a_second() {
        let never = Verdict { outcome: Outcome::NeverAdmitted, ..denied(0) };
        for verdict in [denied(3_600_000_000), never] {
            let note = note(&verdict, 1, 500, 800).unwrap();
            let is_denied = |now_us| note.verdict(&[Check { key: KEY, rule: &gcra(), cost: 1 }], now_us).is_some();
            assert!(is_denied(1_000_499) && !is_denied(1_000_500));
        }
    }

    #[test]
    fn only_denials_that_last_are_noted() {
        let allowed = Verdict { outcome: Outcome::Allowed, ..denied(0) };
        let unseen = Outcome::StoreUnavailable { retry_after: Duration::from_secs(1) };
        assert!(note(&allowed, 1, 0, 0).is_none() && note(&Verdict::uncounted(unseen), 1, 0, 0).is_none());
        assert!(note(&denied(300), 1, 500, 800).is_none(), "over before it arrived");
    }

    #[test]
    fn a_higher_cost_waits_longer_and_a_lower_one_asks() {
        let note = note(&denied(1_000), 2, 0, 0).unwrap();
        assert_eq!(wait_us(&note, &gcra(), 1, 0), None);
        assert_eq!(wait_us(&note, &gcra(), 5, 0), Some(301_000), "three tokens more, of ten a second");
        let window = Rule::FixedWindow(FixedWindow::new(20, Duration::from_secs(1), Align::First).unwrap());
        assert_eq!(wait_us(&note, &window, 5, 0), Some(1_000));
        let never = note.verdict(&[Check { key: KEY, rule: &window, cost: 21 }], 0).unwrap();
        assert_eq!(never.outcome, Outcome::NeverAdmitted);
        let log = Rule::SlidingWindowLog(SlidingWindowLog::new(20, Duration::from_secs(1)).unwrap());
        assert_eq!((wait_us(&note, &log, 2, 0), wait_us(&note, &log, 3, 0)), (Some(1_000), None));
    }

    #[test]
    fn the_wait_of_a_higher_cost_is_true() {
        let rule = TokenBucket::new(7, Duration::from_secs(3), 20).unwrap();
        let (_, change) = rule.decide(None, Moment::at(1_000_000), 20);
        let state = TokenBucket::apply(None, change.unwrap());
        for (at, cost, dearer) in [(1_000_000, 1, 2), (1_100_001, 2, 9), (1_234_567, 3, 20)] {
            let now = Moment::at(at);
            let note = note(&rule.decide(Some(&state), now, cost).0.into_verdict(Source::Redis), cost, at, at).unwrap();
            let wait = wait_us(&note, &Rule::Gcra(rule.clone()), dearer, at + 5).unwrap();
            let decide = |us| rule.decide(Some(&state), Moment::at(at + 5 + us), dearer).0.outcome;
            assert_eq!(decide(wait), Outcome::Allowed);
            assert_ne!(decide(wait - 2), Outcome::Allowed, "a tick more at most");
        }
    }

    #[test]
    fn a_rule_of_a_list_that_no_longer_denies_says_so() {
        let [short, long] = [100, 200].map(|wait_us| denied(wait_us).outcome);
        let answer = |outcome| RuleVerdict { outcome, ..RuleVerdict::allowed(0, 0, Moment::at(0)) };
        let both = Verdict::combine(vec![answer(short), answer(long)], [20, 20].into_iter(), Source::Redis).unwrap();
        let note = Note::of(&both, &[1, 1], Returns::default().look(std::iter::empty()), 0, 0).unwrap();
        let rule = gcra();
        let checks = [Check { key: KEY, rule: &rule, cost: 1 }; 2];
        let outcomes = |now_us| note.verdict(&checks, now_us).unwrap().per_rule.iter().map(|a| a.outcome).collect();
        let after: Vec<Outcome> = outcomes(100);
        assert_eq!(after, [Outcome::Allowed, short]);
        let dearer = [checks[0], Check { cost: 2, ..checks[1] }];
        assert!(note.verdict(&dearer, 0).is_none(), "who would deny the longest is not known");
    }

    #[test]
    fn the_oldest_notes_go_first() {
        let (seeds, mut denials, rule) = (Seeds::default(), Denials::default(), gcra());
        let mut identities = Vec::new();
        for number in 0..HALF * 2 + 1 {
            let id = number.to_be_bytes();
            let check = Check { key: BucketKey { scope: "r", id: &id }, rule: &rule, cost: 1 };
            let identity = seeds.identify(&[check], &Style::default());
            denials.insert(identity, note(&denied(1_000), 1, 0, 0).unwrap());
            identities.push(identity);
        }
        let check = [Check { key: KEY, rule: &rule, cost: 1 }];
        let known = |denials: &Denials, at: usize| denials.find(identities[at], &check, 1).is_some();
        assert!(!known(&denials, 0) && known(&denials, HALF) && known(&denials, HALF * 2));
        assert_eq!(denials.young.len() + denials.old.len(), HALF + 1);
        denials.clear();
        assert!(!known(&denials, HALF * 2));
    }
}
