//! Changed lists of rules in Redis: a rule that joins a list, leaves it or is renamed keeps its state.

mod others;

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tollgate_limiter::key::BucketKey;
use tollgate_limiter::rule::{
    Align, FixedWindow, LeakyBucket, Quota, Rule, SlidingWindowCounter, SlidingWindowLog, TokenBucket,
};
use tollgate_limiter::store::memory::{Clock, ManualClock};
use tollgate_limiter::store::redis::{Limiters, RedisClient, RedisStore};
use tollgate_limiter::store::{Check, OnStoreFailure, Store};
use tollgate_limiter::verdict::{Source, Verdict};

use crate::lock::{locked, without_scripts};
use crate::model::answer;
use crate::support::{RedisServer, memory, store};

const HOUR: Duration = Duration::from_secs(3_600);
const DAY: Duration = Duration::from_secs(86_400);

/// Gateway with one limiter: its store, and its rules under their scopes.
#[derive(Clone)]
struct Gateway<S> {
    store: S,
    rules: Vec<(&'static str, Rule)>,
}

fn limiters(rules: &[(&'static str, Rule)]) -> Arc<Limiters> {
    Arc::new(Limiters::new(rules.iter().map(|(scope, rule)| ((*scope).into(), rule.algorithm()))))
}

/// Returns a gateway of one configuration.
fn gateway(client: &Arc<RedisClient>, rules: &[(&'static str, &Rule)]) -> Gateway<RedisStore> {
    let rules: Vec<_> = rules.iter().map(|(scope, rule)| (*scope, (*rule).clone())).collect();
    let store = store(client, OnStoreFailure::Deny).denial_cache(false).limiters(limiters(&rules));
    Gateway { store, rules }
}

impl<S: Store> Gateway<S> {
    async fn ask(&self, cost: u64) -> Verdict {
        let key = |scope| BucketKey { scope, id: b"me" };
        let checks: Vec<_> = self.rules.iter().map(|(scope, rule)| Check { key: key(scope), rule, cost }).collect();
        let verdict = answer(self.store.decide(&checks)).await;
        assert_eq!(verdict.source, Source::Redis);
        verdict
    }

    /// Returns the number of admitted requests of 25.
    async fn burst(&self) -> usize {
        let mut admitted = 0;
        for _ in 0..25 {
            admitted += usize::from(self.ask(1).await.is_allowed());
        }
        admitted
    }
}

/// Rules of each algorithm: `limit` in `time`.
fn kinds(limit: u64, time: Duration) -> [Rule; 8] {
    let bucket = TokenBucket::new(limit, time, limit).unwrap();
    let window = |align| Rule::FixedWindow(FixedWindow::new(limit, time, align).unwrap());
    // No window on the clock ends within a test.
    let long = time * 100_000;
    [
        Rule::TokenBucket(bucket.clone()),
        Rule::Gcra(bucket),
        window(Align::First),
        Rule::FixedWindow(FixedWindow::new(limit, long, Align::Clock).unwrap()),
        Rule::SlidingWindowCounter(SlidingWindowCounter::new(limit, long).unwrap()),
        Rule::LeakyBucket(LeakyBucket::new(limit, time, DAY * 2, limit - 1).unwrap()),
        Rule::SlidingWindowLog(SlidingWindowLog::new(limit, time).unwrap()),
        Rule::Quota(Quota::new(limit).unwrap()),
    ]
}

/// Pairs of a rule of 20 per hour and one of 1000 per day: of one algorithm, and of two. Logs and quotas have names where a
/// limiter has several of them.
fn pairs() -> Vec<(Rule, Rule)> {
    let (hourly, daily) = (kinds(20, HOUR), kinds(1_000, DAY));
    let same = (0..5).map(|n| (hourly[n].clone(), daily[n].clone()));
    let other = (0..8).map(|n| (hourly[n].clone(), daily[if n < 3 { 4 } else { 1 }].clone()));
    same.chain(other).collect()
}

/// Returns the admitted requests of each configuration in turn.
async fn bursts(server: &RedisServer, client: &Arc<RedisClient>, all: &[&[(&'static str, &Rule)]]) -> Vec<usize> {
    redis::cmd("FLUSHALL").exec(&mut server.connection()).unwrap();
    let mut admitted = Vec::new();
    for rules in all {
        admitted.push(gateway(client, rules).burst().await);
    }
    admitted
}

#[tokio::test]
async fn a_second_rule_that_comes_and_goes_refills_nothing() {
    let server = RedisServer::start();
    let client = server.connected_client().await;
    for (first, second) in &pairs() {
        let single: &[_] = &[("r", first)];
        for list in [[("r#x", first), ("r#y", second)], [("r#y", second), ("r#x", first)]] {
            let admitted = bursts(&server, &client, &[single, &list, single, &list]).await;
            assert_eq!(admitted, [20, 0, 0, 0], "{first:?} and {list:?}");
            let admitted = bursts(&server, &client, &[&list, single, &list]).await;
            assert_eq!(admitted, [20, 0, 0], "{list:?}");
        }
    }
}

#[tokio::test]
async fn renamed_and_reordered_rules_keep_their_states() {
    let server = RedisServer::start();
    let client = server.connected_client().await;
    for (first, second) in &pairs() {
        let configurations: [&[_]; 5] = [
            &[("r#a", first), ("r#b", second)],
            &[("r#b", second), ("r#a", first)],
            &[("r#hour", first), ("r#b", second)],
            &[("r#day", second), ("r#hour", first)],
            &[("r#a", first), ("r#b", second)],
        ];
        let admitted = bursts(&server, &client, &configurations).await;
        assert_eq!(admitted, [20, 0, 0, 0, 0], "{first:?} and {second:?}");
    }
}

#[tokio::test]
async fn gateways_with_the_former_and_the_present_list_count_in_one_state() {
    let server = RedisServer::start();
    let client = server.connected_client().await;
    for (first, second) in &pairs() {
        let single: &[_] = &[("r", first)];
        let list: &[_] = &[("r#x", first), ("r#y", second)];
        let renamed: &[_] = &[("r#z", first), ("r#y", second)];
        for (former, present) in [(single, list), (list, single), (list, renamed)] {
            redis::cmd("FLUSHALL").exec(&mut server.connection()).unwrap();
            let (former, present) = (gateway(&client, former), gateway(&client, present));
            let mut admitted = 0;
            for _ in 0..20 {
                admitted += usize::from(former.ask(1).await.is_allowed());
                admitted += usize::from(present.ask(1).await.is_allowed());
                admitted += usize::from(present.ask(1).await.is_allowed());
            }
            assert_eq!(admitted, 20, "{first:?} and {second:?}: {:?}, {:?}", former.rules, present.rules);
        }
    }
}

#[tokio::test]
async fn requests_that_share_a_call_find_the_former_state() {
    let server = RedisServer::start();
    let client = server.connected_client().await;
    for first in &kinds(20, HOUR)[..5] {
        redis::cmd("FLUSHALL").exec(&mut server.connection()).unwrap();
        let configurations: [&[_]; 3] = [&[("r", first)], &[("r#x", first)], &[("r", first)]];
        let mut admitted = 0;
        for rules in configurations {
            let gateway = gateway(&client, rules);
            let mut tasks = JoinSet::new();
            for _ in 0..9 {
                let gateway = gateway.clone();
                tasks.spawn(async move { gateway.ask(1).await });
            }
            admitted += tasks.join_all().await.iter().filter(|verdict| verdict.is_allowed()).count();
        }
        assert_eq!(admitted, 20, "{first:?}");
    }
}

/// A clock that both stores read: each state keeps every unit, whatever the form that it had before.
#[tokio::test]
async fn a_moved_state_decides_as_if_it_had_stayed() {
    let server = RedisServer::start();
    let client = server.connected_client().await;
    let buckets = [(10, 1, 20), (7, 3, 11), (1, 3_600, 5), (999, 60, 1_000), (1, 86_400, 1), (3, 7, 1_000_000)];
    let buckets = buckets.map(|(rate, secs, burst)| TokenBucket::new(rate, Duration::from_secs(secs), burst).unwrap());
    let rules = buckets.iter().flat_map(|bucket| [Rule::TokenBucket(bucket.clone()), Rule::Gcra(bucket.clone())]);
    let others = [
        Rule::FixedWindow(FixedWindow::new(9, Duration::from_secs(7), Align::First).unwrap()),
        Rule::FixedWindow(FixedWindow::new(9, Duration::from_secs(7), Align::Clock).unwrap()),
        Rule::SlidingWindowCounter(SlidingWindowCounter::new(9, Duration::from_secs(7)).unwrap()),
        Rule::LeakyBucket(LeakyBucket::new(3, Duration::from_secs(7), HOUR, 9).unwrap()),
    ];
    for rule in rules.chain(others) {
        redis::cmd("FLUSHALL").exec(&mut server.connection()).unwrap();
        let clock = Arc::new(ManualClock::default());
        clock.set(1_790_000_000_123_457);
        let (kept, manual) = memory();
        manual.set(clock.now_us());
        let gateways = [&[("r", rule.clone())], &[("r#x", rule.clone())], &[("r#y", rule.clone())]].map(|rules| {
            let store = store(&client, OnStoreFailure::Deny).denial_cache(false).limiters(limiters(rules));
            Gateway { store: store.with_clock(clock.clone()), rules: rules.to_vec() }
        });
        let mut random = 1_u64;
        for step in 0..120 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let (gateway, cost) = (&gateways[(random >> 60) as usize % 3], (random >> 40) % 4);
            clock.set(clock.now_us() + (random >> 20) % 400_000);
            manual.set(clock.now_us());
            let check = Check { key: BucketKey { scope: "r", id: b"me" }, rule: &rule, cost };
            let expected = answer(kept.decide(&[check])).await;
            let moved = gateway.ask(cost).await;
            let parts = |verdict: &Verdict| (verdict.outcome, verdict.remaining, verdict.delay, verdict.reset_after);
            assert_eq!(parts(&moved), parts(&expected), "{rule:?}, step {step}");
        }
    }
}

/// Under a lock, the only rule with its algorithm has the key of the limiter.
#[tokio::test]
async fn a_second_rule_under_a_lock_refills_nothing() {
    let server = without_scripts();
    let (hourly, daily) = (kinds(20, HOUR), kinds(1_000, DAY));
    for (first, second) in [(2, 4), (4, 2), (6, 4)] {
        let (first, second) = (&hourly[first], &daily[second]);
        redis::cmd("FLUSHALL").exec(&mut server.connection()).unwrap();
        let configurations: [&[(&'static str, &Rule)]; 5] = [
            &[("r", first)],
            &[("r#x", first), ("r#y", second)],
            &[("r#y", second), ("r#z", first)],
            &[("r#z", first)],
            &[("r", first)],
        ];
        for (rules, admitted) in configurations.into_iter().zip([20, 0, 0, 0, 0]) {
            let rules: Vec<_> = rules.iter().map(|(scope, rule)| (*scope, (*rule).clone())).collect();
            let gateway = Gateway { store: locked(&server).limiters(limiters(&rules)), rules };
            assert_eq!(gateway.burst().await, admitted, "{:?}", gateway.rules);
        }
    }
}
