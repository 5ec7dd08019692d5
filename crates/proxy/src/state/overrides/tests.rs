#![allow(clippy::unwrap_used)]

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use serde_json::json;
use tollgate_limiter::rule::TokenBucket;
use tollgate_limiter::store::memory::{Clock, MemoryStore};
use tollgate_limiter::store::{Check, Decision};
use tollgate_limiter::verdict::Verdict;

use super::*;

/// Clock that stands still.
#[derive(Debug)]
struct Still(AtomicU64);

impl Clock for Still {
    fn now_us(&self) -> u64 {
        self.0.load(Relaxed)
    }

    fn wall_us(&self) -> u64 {
        self.now_us()
    }
}

struct Bench {
    overrides: Arc<Overrides>,
    store: Arc<dyn Store>,
    rules: [Rule; 2],
}

fn bucket(burst: u64) -> Rule {
    Rule::TokenBucket(TokenBucket::new(1, Duration::from_secs(3600), burst).unwrap())
}

/// Two rules: `orders` of requests without a plan, `orders#b` of the plan `gold`.
fn bench() -> Bench {
    let overrides = Arc::<Overrides>::default();
    let rules = [bucket(5), bucket(3)];
    let configured = |scope: &str, plan: Option<&str>, rule: &Rule| ConfiguredRule {
        scope: scope.into(),
        plan: plan.map(Into::into),
        rule: rule.clone(),
    };
    overrides.source.lock().rules =
        vec![configured("orders", None, &rules[0]), configured("orders#b", Some("gold"), &rules[1])];
    let memory = MemoryStore::with_clock(Arc::new(Still(AtomicU64::new(1_000_000_000_000))));
    let store = overrides.over(Arc::new(memory));
    Bench { overrides, store, rules }
}

fn target(scope: &str, plan: Option<&str>, key: Option<&str>) -> OverrideTarget {
    OverrideTarget { scope: scope.into(), plan: plan.map(Into::into), key: key.map(|key| key.as_bytes().into()) }
}

fn change(numbers: serde_json::Value) -> OverrideEffect {
    OverrideEffect::Rule(serde_json::from_value(numbers).unwrap())
}

impl Bench {
    fn set(&self, target: OverrideTarget, effect: OverrideEffect, time: Duration) {
        let names = OverrideNames { route: "orders".into(), rule: "orders".into(), by: "test".into() };
        self.overrides.set(Override { target, effect, names, until: Instant::now() + time }).unwrap();
    }

    fn decide(&self, checks: &[(&str, &str, usize, u64)]) -> Verdict {
        let checks: Vec<_> = checks
            .iter()
            .map(|(scope, id, rule, cost)| Check {
                key: BucketKey { scope, id: id.as_bytes() },
                rule: &self.rules[*rule],
                cost: *cost,
            })
            .collect();
        match self.store.decide(&checks, &[]) {
            Decision::Ready(verdict) => verdict,
            Decision::Pending(_) => unreachable!("the store is in memory"),
        }
    }

    fn left(&self, id: &str) -> u64 {
        self.decide(&[("orders", id, 0, 0)]).remaining.unwrap()
    }
}

const HOUR: Duration = Duration::from_secs(3600);

#[test]
fn a_law_applies_to_its_key_and_rule_until_its_end() {
    let bench = bench();
    let ask = |id, cost| bench.decide(&[("orders", id, 0, cost)]).is_allowed();
    assert!(!bench.overrides.has_any() && ask("a", 3));
    bench.set(target("orders", None, Some("a")), change(json!({"burst-capacity": 9})), HOUR);
    assert_eq!((bench.left("a"), bench.left("b")), (6, 5));
    bench.set(target("orders", None, None), change(json!({"burst-capacity": 2})), HOUR);
    assert_eq!((bench.left("a"), bench.left("b")), (6, 2), "that of the key precedes");
    assert_eq!(bench.decide(&[("orders#b", "a", 1, 0)]).remaining, Some(3), "another rule");
    bench.set(target("orders", None, Some("a")), OverrideEffect::Block, Duration::ZERO);
    assert_eq!(bench.left("a"), 0, "3 of 2 are spent: the one of every key applies again");
    assert_eq!(bench.overrides.all().len(), 1);
    bench.overrides.expire();
    assert!(bench.overrides.remove(&target("orders", None, None)) && !bench.overrides.has_any());
    assert!(!bench.overrides.remove(&target("orders", None, None)));
    assert_eq!((bench.left("a"), bench.left("b")), (2, 5), "what was spent stays spent");
}

#[test]
fn nothing_is_settled_for_a_request_that_took_nothing() {
    let bench = bench();
    let key = |scope| BucketKey { scope, id: b"a" };
    assert!(bench.decide(&[("orders", "a", 0, 4)]).is_allowed());
    bench.set(target("orders", None, Some("a")), OverrideEffect::Unlimited, HOUR);
    let alone = bench.decide(&[("orders", "a", 0, 7)]);
    let both = bench.decide(&[("orders", "a", 0, 7), ("orders#b", "a", 1, 2)]);
    assert!(alone.is_allowed() && both.is_allowed());
    assert_eq!(both.per_rule[1].remaining, 1, "the other rule counts");
    assert!(!bench.decide(&[("orders", "a", 0, 7), ("orders#b", "a", 1, 2)]).is_allowed());
    bench.overrides.remove(&target("orders", None, Some("a")));
    for (counted_at_us, left) in [(alone.counted_at_us, 1), (both.per_rule[0].counted_at_us, 1)] {
        bench.store.settle(Check { key: key("orders"), rule: &bench.rules[0], cost: 7 }, -7, counted_at_us);
        assert_eq!(bench.left("a"), left, "no token comes back that was not taken");
    }
    let at = both.per_rule[1].counted_at_us;
    bench.store.settle(Check { key: key("orders#b"), rule: &bench.rules[1], cost: 2 }, -2, at);
    assert_eq!(bench.decide(&[("orders#b", "a", 1, 0)]).remaining, Some(3));
}

#[test]
fn a_blocked_request_takes_nothing_and_names_its_rule() {
    let bench = bench();
    bench.set(target("orders#b", Some("gold"), Some("a")), OverrideEffect::Block, HOUR);
    let verdict = bench.decide(&[("orders", "a", 0, 1), ("orders#b", "a", 1, 1)]);
    assert_eq!((verdict.is_allowed(), verdict.rule, verdict.remaining), (false, 1, Some(0)));
    assert_eq!(bench.left("a"), 5);
}

#[test]
fn overrides_apply_to_enforced_and_observed_rules() {
    let bench = bench();
    let both = |id: &str| {
        let check = |scope, rule| Check { key: BucketKey { scope, id: id.as_bytes() }, rule, cost: 1 };
        let decision = bench.store.decide(&[check("orders", &bench.rules[0])], &[check("orders#b", &bench.rules[1])]);
        let Decision::Ready(verdict) = decision else { unreachable!("the store is in memory") };
        (verdict.remaining, verdict.observed.map(|observed| (observed.is_allowed(), observed.remaining)))
    };
    assert_eq!(both("a"), (Some(4), Some((true, Some(2)))));
    bench.set(target("orders#b", Some("gold"), Some("a")), OverrideEffect::Block, HOUR);
    assert_eq!(both("a"), (Some(3), Some((false, Some(0)))), "an observed block denies nothing");
    bench.set(target("orders", None, Some("a")), OverrideEffect::Unlimited, HOUR);
    assert_eq!(both("a"), (Some(5), Some((false, Some(0)))), "both decided by overrides");
    bench.set(target("orders", None, Some("a")), OverrideEffect::Block, HOUR);
    assert_eq!(both("a"), (Some(0), None), "a denied request is not checked under observed rules");
    bench.set(target("orders#b", Some("gold"), None), OverrideEffect::Unlimited, HOUR);
    assert_eq!(both("b"), (Some(4), Some((true, Some(3)))));
    bench.set(target("orders", None, Some("c")), OverrideEffect::Unlimited, HOUR);
    bench.set(target("orders#b", Some("gold"), Some("c")), change(json!({"burst-capacity": 9})), HOUR);
    assert_eq!(both("c"), (Some(5), Some((true, Some(8)))), "the observed rule takes its tokens");
}

#[test]
fn redis_replaces_all_overrides() {
    let bench = bench();
    bench.set(target("orders", None, Some("a")), OverrideEffect::Block, HOUR);
    let shared = |key| {
        let it = Override {
            target: target("orders", None, Some(key)),
            effect: change(json!({"burst-capacity": 8})),
            names: OverrideNames { route: "orders".into(), rule: "orders".into(), by: "other".into() },
            until: Instant::now(),
        };
        SharedOverride { target: it.target.field(), text: it.text(), expires_in: HOUR }
    };
    let broken = SharedOverride { target: "[]".into(), text: "{}".into(), expires_in: HOUR };
    bench.overrides.replace(&[shared("b"), broken]);
    assert_eq!((bench.left("a"), bench.left("b")), (5, 8));
    bench.overrides.replace(&[]);
    assert_eq!((bench.left("b"), bench.overrides.has_any()), (5, false));
}

#[test]
fn equal_rules_of_plans_that_share_buckets_are_ambiguous() {
    let bench = bench();
    let gold = target("orders", Some("gold"), None);
    assert!(bench.overrides.is_ambiguous(&gold, &bench.rules[0]));
    assert!(!bench.overrides.is_ambiguous(&gold, &bench.rules[1]));
    assert!(!bench.overrides.is_ambiguous(&target("orders", Some("gold"), Some("a")), &bench.rules[0]));
}
