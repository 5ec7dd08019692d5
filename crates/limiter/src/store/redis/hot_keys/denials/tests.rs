#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use super::*;
use crate::algorithm::{Algorithm, Moment};
use crate::key::BucketKey;
use crate::rule::{Align, FixedWindow, SlidingWindowLog, TokenBucket};
use crate::store::redis::command::CallOptions;
use crate::store::redis::hot_keys::fingerprint::FingerprintSeed;
use crate::store::redis::invalidation::Invalidations;
use crate::verdict::RuleVerdict;

const KEY: BucketKey<'_> = BucketKey { scope: "r", id: b"me" };

fn denied(wait_us: u64) -> Verdict {
    let outcome = Outcome::Denied { retry_after: Duration::from_micros(wait_us) };
    RuleVerdict { outcome, ..RuleVerdict::allowed(0, wait_us * 2, Moment::at(7)) }.into_verdict(Source::Redis)
}

fn unwatched() -> WatchedKeys {
    let invalidations = Invalidations::default();
    invalidations.watch(std::iter::empty(), invalidations.epoch())
}

fn cached(verdict: &Verdict, cost: u64, sent_us: u64, now_us: u64) -> Option<CachedDenial> {
    CachedDenial::of(verdict, [cost].into(), unwatched(), sent_us, now_us)
}

fn gcra() -> Rule {
    Rule::Gcra(TokenBucket::per_second(10, 20).unwrap())
}

fn wait_us(denial: &CachedDenial, rule: &Rule, cost: u64, now_us: u64) -> Option<u64> {
    match denial.verdict(&[Check { key: KEY, rule, cost }], now_us)?.outcome {
        Outcome::Denied { retry_after } => Some(micros(retry_after)),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_denial_holds_from_its_reply_until_its_wait_after_sending_is_over() {
    let denial = cached(&denied(1_000), 1, 500, 800).unwrap();
    assert_eq!(wait_us(&denial, &gcra(), 1, 800), Some(1_000));
    assert_eq!(wait_us(&denial, &gcra(), 1, 1_499), Some(301), "counted from the reply");
    assert_eq!(wait_us(&denial, &gcra(), 1, 1_500), None);
    assert_eq!(wait_us(&denial, &gcra(), 1, 799), None, "the clock was set back");
    let verdict = denial.verdict(&[Check { key: KEY, rule: &gcra(), cost: 1 }], 900).unwrap();
    assert_eq!((verdict.reset_after, verdict.source), (Duration::from_micros(1_900), Source::DenialCache));
}

#[test]
fn no_denial_is_cached_for_more_than_a_second() {
    let never = Verdict { outcome: Outcome::NeverAdmitted, ..denied(0) };
    for verdict in [denied(3_600_000_000), never] {
        let denial = cached(&verdict, 1, 500, 800).unwrap();
        let is_denied = |now_us| denial.verdict(&[Check { key: KEY, rule: &gcra(), cost: 1 }], now_us).is_some();
        assert!(is_denied(1_000_499) && !is_denied(1_000_500));
    }
}

#[test]
fn only_denials_that_last_are_cached() {
    let allowed = Verdict { outcome: Outcome::Allowed, ..denied(0) };
    let unseen = Outcome::StoreUnavailable { retry_after: Duration::from_secs(1) };
    assert!(cached(&allowed, 1, 0, 0).is_none() && cached(&Verdict::uncounted(unseen), 1, 0, 0).is_none());
    assert!(cached(&denied(300), 1, 500, 800).is_none(), "over before it arrived");
}

#[test]
fn a_higher_cost_waits_longer_and_a_lower_one_calls_redis() {
    let denial = cached(&denied(1_000), 2, 0, 0).unwrap();
    assert_eq!(wait_us(&denial, &gcra(), 1, 0), None);
    assert_eq!(wait_us(&denial, &gcra(), 5, 0), Some(301_000), "three tokens more, of ten a second");
    let window = Rule::FixedWindow(FixedWindow::new(20, Duration::from_secs(1), Align::First).unwrap());
    assert_eq!(wait_us(&denial, &window, 5, 0), Some(1_000));
    let never = denial.verdict(&[Check { key: KEY, rule: &window, cost: 21 }], 0).unwrap();
    assert_eq!(never.outcome, Outcome::NeverAdmitted);
    let log = Rule::SlidingWindowLog(SlidingWindowLog::new(20, Duration::from_secs(1)).unwrap());
    assert_eq!((wait_us(&denial, &log, 2, 0), wait_us(&denial, &log, 3, 0)), (Some(1_000), None));
}

#[test]
fn the_wait_of_a_higher_cost_is_exact_to_a_tick() {
    let rule = TokenBucket::new(7, Duration::from_secs(3), 20).unwrap();
    let (_, change) = rule.decide(None, Moment::at(1_000_000), 20);
    let state = TokenBucket::apply(None, change.unwrap());
    for (at, cost, dearer) in [(1_000_000, 1, 2), (1_100_001, 2, 9), (1_234_567, 3, 20)] {
        let now = Moment::at(at);
        let denial = cached(&rule.decide(Some(&state), now, cost).0.into_verdict(Source::Redis), cost, at, at).unwrap();
        let wait = wait_us(&denial, &Rule::Gcra(rule.clone()), dearer, at + 5).unwrap();
        let decide = |us| rule.decide(Some(&state), Moment::at(at + 5 + us), dearer).0.outcome;
        assert_eq!(decide(wait), Outcome::Allowed);
        assert_ne!(decide(wait - 2), Outcome::Allowed, "a tick more at most");
    }
}

#[test]
fn a_rule_of_a_list_that_no_longer_denies_reports_allowed() {
    let [short, long] = [100, 200].map(|wait_us| denied(wait_us).outcome);
    let rule_verdict = |outcome| RuleVerdict { outcome, ..RuleVerdict::allowed(0, 0, Moment::at(0)) };
    let both =
        Verdict::combine(vec![rule_verdict(short), rule_verdict(long)], [20, 20].into_iter(), Source::Redis).unwrap();
    let denial = CachedDenial::of(&both, [1, 1].into(), unwatched(), 0, 0).unwrap();
    let rule = gcra();
    let checks = [Check { key: KEY, rule: &rule, cost: 1 }; 2];
    let outcomes = |now_us| denial.verdict(&checks, now_us).unwrap().per_rule.iter().map(|a| a.outcome).collect();
    let after: Vec<Outcome> = outcomes(100);
    assert_eq!(after, [Outcome::Allowed, short]);
    let dearer = [checks[0], Check { cost: 2, ..checks[1] }];
    assert!(denial.verdict(&dearer, 0).is_none(), "the rule that denies longest is unknown");
}

#[test]
fn the_oldest_denials_are_dropped_first() {
    let (seeds, rule) = (FingerprintSeed::default(), gcra());
    let cache = DenialCache::new(Arc::default(), Arc::default());
    let mut fingerprints = Vec::new();
    for number in 0..HALF * 2 + 1 {
        let id = number.to_be_bytes();
        let check = Check { key: BucketKey { scope: "r", id: &id }, rule: &rule, cost: 1 };
        let fingerprint = seeds.fingerprint(&[check], &CallOptions::default());
        cache.denials.lock().insert(fingerprint, cached(&denied(1_000), 1, 0, 0).unwrap());
        fingerprints.push(fingerprint);
    }
    let check = [Check { key: KEY, rule: &rule, cost: 1 }];
    let is_cached = |at: usize| cache.denials.lock().find(fingerprints[at], &check, 1).is_some();
    assert!(!is_cached(0) && is_cached(HALF) && is_cached(HALF * 2));
    let denials = cache.denials.lock();
    assert_eq!(denials.young.len() + denials.old.len(), HALF + 1);
}
