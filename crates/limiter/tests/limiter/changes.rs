//! Rules that change or differ between gateways over one key: nothing that was spent comes back.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use tollgate_limiter::key::BucketKey;
use tollgate_limiter::rule::{Rule, SlidingWindowCounter, TokenBucket};
use tollgate_limiter::store::memory::{Clock, ManualClock, MemoryStore};
use tollgate_limiter::store::redis::{RedisClient, RedisStore};
use tollgate_limiter::store::{Check, OnStoreFailure, Store};
use tollgate_limiter::verdict::Verdict;

use crate::model::answer;
use crate::support::RedisServer;

const SECOND: u64 = 1_000_000;
const HOUR: u64 = 3_600 * SECOND;
pub(crate) const START: u64 = 1_763_700_000 * SECOND;

/// Memory and Redis with one clock, and a scope of keys.
pub(crate) struct Stores {
    pub(crate) clock: Arc<ManualClock>,
    memory: MemoryStore,
    redis: RedisStore,
    scope: String,
}

impl Stores {
    pub(crate) fn new(client: &Arc<RedisClient>, scope: &str) -> Self {
        let clock = Arc::new(ManualClock::default());
        clock.set(START);
        let memory = || MemoryStore::with_clock(clock.clone()).with_max_keys(NonZeroUsize::new(100).unwrap());
        let redis = RedisStore::new(Arc::clone(client), Arc::new(memory()), OnStoreFailure::Deny)
            .with_clock(clock.clone())
            .denial_cache(false);
        Self { memory: memory(), redis, clock, scope: scope.to_owned() }
    }

    pub(crate) fn now(&self) -> u64 {
        self.clock.now_us()
    }

    /// Asks both stores; they must agree.
    pub(crate) async fn is_admitted(&self, rule: &Rule, cost: u64) -> bool {
        self.ask(rule, cost).await.is_allowed()
    }

    /// Returns the verdict of both stores; they must agree.
    pub(crate) async fn ask(&self, rule: &Rule, cost: u64) -> Verdict {
        let check = Check { key: BucketKey { scope: &self.scope, id: b"me" }, rule, cost };
        let memory = answer(self.memory.decide(&[check], &[])).await;
        let redis = answer(self.redis.decide(&[check], &[])).await;
        let said = |verdict: &Verdict| (verdict.outcome, verdict.remaining);
        assert_eq!(said(&memory), said(&redis), "memory and redis differ under {rule:?}");
        memory
    }

    async fn settle(&self, rule: &Rule, cost: u64, more: i64) {
        self.settle_taken_at(rule, cost, more, self.clock.now_us()).await;
    }

    pub(crate) async fn settle_taken_at(&self, rule: &Rule, cost: u64, more: i64, taken_at: u64) {
        let check = Check { key: BucketKey { scope: &self.scope, id: b"me" }, rule, cost };
        self.memory.settle(check, more, taken_at);
        assert!(self.redis.settle_confirmed(check, more, taken_at).await.is_ok());
    }

    /// Sends a request every `gap_us` for `time_us`, under each rule in turn. Returns the number admitted.
    pub(crate) async fn alternate(&self, rules: &[&Rule], gap_us: u64, time_us: u64) -> u64 {
        let mut admitted = 0;
        for (step, at) in (0..=time_us).step_by(gap_us as usize).enumerate() {
            self.clock.set(START + at);
            admitted += u64::from(self.is_admitted(rules[step % rules.len()], 1).await);
        }
        admitted
    }

    /// Sends `count` requests at once. Returns the number admitted.
    pub(crate) async fn burst(&self, rule: &Rule, count: u64) -> u64 {
        let mut admitted = 0;
        for _ in 0..count {
            admitted += u64::from(self.is_admitted(rule, 1).await);
        }
        admitted
    }
}

/// Rule with the numbers of a bucket.
type RuleOf = fn(TokenBucket) -> Rule;

/// Returns the rules of both bucket algorithms, in a list and alone.
fn kinds() -> [(RuleOf, &'static str); 3] {
    [(Rule::TokenBucket, "token"), (Rule::Gcra, "gcra"), (Rule::Gcra, "list#gcra")]
}

fn bucket(rate: u64, period_us: u64, burst: u64) -> TokenBucket {
    TokenBucket::new(rate, Duration::from_micros(period_us), burst).unwrap()
}

#[tokio::test]
async fn two_bursts_on_one_key_admit_no_more_than_the_larger() {
    let server = RedisServer::start();
    let client = server.connected_client().await;
    for (of, name) in kinds() {
        // A rolling change from 100 to 90 at 10 per second, for 40 s: 500 may pass.
        let (large, small) = (of(bucket(10, SECOND, 100)), of(bucket(10, SECOND, 90)));
        let stores = Stores::new(&client, &format!("rolling-{name}"));
        let admitted = stores.alternate(&[&large, &small], SECOND / 50, 40 * SECOND).await;
        assert_eq!(admitted, 500, "{name}");
        // 20 beside 10 at one per hour.
        let (large, small) = (of(bucket(1, HOUR, 20)), of(bucket(1, HOUR, 10)));
        let stores = Stores::new(&client, &format!("shared-{name}"));
        assert_eq!(stores.alternate(&[&large, &small], SECOND / 4, 60 * SECOND).await, 20, "{name}");
    }
}

#[tokio::test]
async fn a_smaller_burst_for_a_while_gives_nothing_back() {
    let server = RedisServer::start();
    let client = server.connected_client().await;
    for (of, name) in kinds() {
        let rules = |rate, period, large, small| (of(bucket(rate, period, large)), of(bucket(rate, period, small)));
        // Reloads from 200 to 10 and back, and a key whose plan changes from gold to free and back.
        for (large, small) in [rules(1, HOUR, 200, 10), rules(1, SECOND, 100, 10)] {
            let stores = Stores::new(&client, &format!("back-{name}-{}", large.capacity()));
            let mut admitted = 0;
            for _ in 0..3 {
                admitted += stores.burst(&large, 250).await;
                admitted += stores.burst(&small, 30).await;
            }
            assert_eq!(admitted, large.capacity(), "{name}");
        }
    }
}

#[tokio::test]
async fn a_changed_rate_applies_from_now_on() {
    let server = RedisServer::start();
    let client = server.connected_client().await;
    for (of, name) in kinds() {
        let (slow, fast) = (of(bucket(1, HOUR, 100)), of(bucket(100, SECOND, 100)));
        let stores = Stores::new(&client, &format!("rate-{name}"));
        assert_eq!(stores.burst(&slow, 101).await, 100);
        // An hour at one per hour is one token, not 360,000.
        stores.clock.set(START + HOUR);
        assert_eq!(stores.burst(&fast, 10).await, 1, "{name}");
        stores.clock.advance(Duration::from_millis(100));
        assert_eq!(stores.burst(&fast, 20).await, 10, "{name}");
        stores.clock.advance(Duration::from_millis(100));
        assert_eq!(stores.burst(&slow, 20).await, 10, "refilled at the old rate until now: {name}");
        stores.clock.advance(Duration::from_secs(100));
        assert_eq!(stores.burst(&slow, 20).await, 0, "{name}");
    }
}

#[tokio::test]
async fn equal_rates_in_other_periods_lose_nothing() {
    let server = RedisServer::start();
    let client = server.connected_client().await;
    for (of, name) in kinds() {
        let (second, minute) = (of(bucket(50, SECOND, 50)), of(bucket(3_000, 60 * SECOND, 50)));
        let stores = Stores::new(&client, &format!("period-{name}"));
        let admitted = stores.alternate(&[&second, &minute], 3_125, 9 * SECOND).await;
        assert_eq!(admitted, 500, "{name}");
    }
}

#[tokio::test]
async fn corrections_under_another_rule_forgive_no_debt() {
    let server = RedisServer::start();
    let client = server.connected_client().await;
    for (of, name) in kinds() {
        let (large, small) = (of(bucket(1, HOUR, 100)), of(bucket(1, HOUR, 10)));
        let stores = Stores::new(&client, &format!("settle-{name}"));
        assert_eq!(stores.burst(&large, 100).await, 100);
        for more in [-1, 1, 0, 5, -2] {
            stores.settle(&small, 1, more).await;
        }
        // Three were returned; nothing was available to consume.
        assert_eq!(stores.burst(&large, 100).await, 3, "{name}");
    }
}

#[tokio::test]
async fn windows_side_by_side_admit_between_the_stricter_and_the_looser() {
    let server = RedisServer::start();
    let client = server.connected_client().await;
    let window =
        |limit, us| Rule::SlidingWindowCounter(SlidingWindowCounter::new(limit, Duration::from_micros(us)).unwrap());
    let (hundred_in_two, hundred, fifty, minute) =
        (window(100, 2 * SECOND), window(100, SECOND), window(50, SECOND), window(3_000, 60 * SECOND));
    for (name, stricter, looser, gap, time) in [
        ("2s", &hundred_in_two, &hundred, SECOND / 600, 8 * SECOND),
        ("1m", &fifty, &minute, SECOND / 200, 10 * SECOND),
        ("list#2s", &hundred_in_two, &hundred, SECOND / 100, 8 * SECOND),
    ] {
        let mut admitted = Vec::new();
        for (at, rules) in [&[stricter][..], &[stricter, looser], &[looser]].into_iter().enumerate() {
            let scope = match name.split_once('#') {
                Some((limiter, rule)) => format!("{limiter}{at}#{rule}"),
                None => format!("{name}{at}"),
            };
            admitted.push(Stores::new(&client, &scope).alternate(rules, gap, time).await);
        }
        assert!(admitted[0] <= admitted[1] && admitted[1] <= admitted[2], "{name}: {admitted:?}");
    }
}
