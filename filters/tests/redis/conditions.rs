//! Rules with conditions: each request is decided as by the rules that apply to it alone, in memory and in Redis.

use std::collections::HashMap;
use std::convert::Infallible;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use tollgate_filters::context::{Condition, RequestContext};
use tollgate_filters::key_resolver::KeyResolver;
use tollgate_filters::request_rate_limiter::{Enforcement, Limit, RequestRateLimiterLayer, RuleSets, Settings};
use tollgate_limiter::rule::{Align, FixedWindow, Rule, TokenBucket};
use tollgate_limiter::store::Store;
use tollgate_limiter::store::memory::{ManualClock, MemoryStore};
use tollgate_test_support::RedisServer;
use tower::{Layer, ServiceExt, service_fn};

use super::connected_store;

/// Fields that keys are read from.
const FIELDS: [&str; 2] = ["x-user", "x-tenant"];

/// A rule: capacity, position of its field, position of its condition, and true if it is observed.
type RuleCase = (u64, usize, Option<usize>, bool);
/// A request: bits of its conditions, and the values of its fields.
type RequestCase = (u64, [Option<u8>; 2]);

fn cases() -> impl Strategy<Value = (Vec<RuleCase>, Vec<RequestCase>)> {
    let rule = (1_u64..6, 0_usize..2, prop::option::weighted(0.7, 0_usize..3), prop::bool::weighted(0.2));
    let field = || prop::option::weighted(0.85, 0_u8..2);
    let request = (0_u64..8, [field(), field()]);
    (prop::collection::vec(rule, 1..=6), prop::collection::vec(request, 1..40))
}

fn limit(test: usize, number: usize, case: RuleCase, with_condition: bool) -> Limit {
    let (capacity, field, condition, is_observed) = case;
    let hour = Duration::from_secs(3600);
    let rule = match number % 2 {
        0 => Rule::TokenBucket(TokenBucket::new(1, hour, capacity).unwrap()),
        _ => Rule::FixedWindow(FixedWindow::new(capacity, hour, Align::First).unwrap()),
    };
    Limit {
        name: format!("rule{number}").into(),
        scope: format!("test{test}#rule{number}").into(),
        rule,
        key_resolver: KeyResolver::parse(&format!("header:{}", FIELDS[field])).unwrap(),
        cost: 1.into(),
        enforcement: if is_observed { Enforcement::OBSERVE } else { Enforcement::FULL },
        condition: condition.filter(|_| with_condition).and_then(Condition::at),
    }
}

fn applies((.., condition, _): &RuleCase, bits: u64) -> bool {
    condition.is_none_or(|at| bits & 1 << at != 0)
}

/// Status, and the values of the fields that depend on the verdict. The rule that a denial names depends on the time, which the
/// stores do not share.
type Answer = (u16, Vec<Option<String>>);

async fn answer(limits: Vec<Limit>, (bits, keys): RequestCase, store: &Arc<dyn Store>) -> Answer {
    if limits.is_empty() {
        return (200, vec![None; 3]);
    }
    let settings = Settings { would_deny_header: true, ..Settings::default() };
    let rules = RuleSets { default: limits, plans: None };
    let builder = RequestRateLimiterLayer::builder().rule_sets(rules).settings(settings);
    let layer = builder.shared_store("r", Arc::clone(store)).build().unwrap();
    let mut request = Request::new(());
    for (name, key) in FIELDS.into_iter().zip(keys) {
        if let Some(key) = key {
            request.headers_mut().insert(name, u16::from(key).into());
        }
    }
    request.extensions_mut().insert(RequestContext { conditions: bits, ..RequestContext::default() });
    let inner = service_fn(async |_: Request<()>| Ok::<_, Infallible>(Response::new(Full::<Bytes>::default())));
    let response = layer.layer(inner).oneshot(request).await.unwrap();
    let names = ["x-ratelimit-remaining", "x-ratelimit-burst-capacity", "x-ratelimit-would-deny"];
    let value = |name| response.headers().get(name).map(|value| value.to_str().unwrap().to_owned());
    let status = response.status().as_u16();
    (status, if status == 429 { Vec::new() } else { names.map(value).into() })
}

/// Tokens spent by the position of the rule and the key.
type Spent = HashMap<(usize, u8), u64>;

/// Decides a request by definition: the rules that apply and are enforced admit it all or not at all.
fn expected(rules: &[RuleCase], (bits, keys): RequestCase, spent: &mut Spent) -> u16 {
    let applying = || rules.iter().enumerate().filter(|(_, rule)| applies(rule, bits));
    if applying().any(|(_, &(_, field, _, is_observed))| !is_observed && keys[field].is_none()) {
        return 403;
    }
    for is_observed in [false, true] {
        let stage = || applying().filter(|(_, rule)| rule.3 == is_observed);
        let checked: Vec<_> = stage().filter_map(|(at, rule)| Some(((at, keys[rule.1]?), rule.0))).collect();
        let has_room = checked.iter().all(|(key, capacity)| spent.get(key).is_none_or(|spent| spent < capacity));
        if has_room {
            checked.iter().for_each(|(key, _)| *spent.entry(*key).or_default() += 1);
        } else if !is_observed {
            return 429;
        }
    }
    200
}

#[tokio::test]
async fn each_request_is_decided_as_by_the_rules_that_apply_to_it_alone() {
    let server = RedisServer::start();
    let redis: Arc<dyn Store> = connected_store(&server).await;
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[7; 32]);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    let mut seen = [0_u32; 3];
    for test in 0..60 {
        let (rules, requests) = cases().new_tree(&mut runner).unwrap().current();
        let memory = || -> Arc<dyn Store> {
            Arc::new(
                MemoryStore::with_clock(Arc::new(ManualClock::default()))
                    .with_max_keys(NonZeroUsize::new(1_000).unwrap()),
            )
        };
        let (memory, alone) = (memory(), memory());
        let mut spent = Spent::new();
        for (number, request) in requests.iter().enumerate() {
            let all = || (0..).zip(&rules).map(|(at, rule)| limit(test, at, *rule, true)).collect::<Vec<_>>();
            let matching = (0..).zip(&rules).filter(|(_, rule)| applies(rule, request.0));
            let matching = matching.map(|(at, rule)| limit(test, at, *rule, false)).collect::<Vec<_>>();
            let model = expected(&rules, *request, &mut spent);
            let by_matching = answer(matching, *request, &alone).await;
            assert_eq!(by_matching.0, model, "request {number} of {requests:?} by {rules:?}");
            for (name, store) in [("memory", &memory), ("Redis", &redis)] {
                let found = answer(all(), *request, store).await;
                assert_eq!(found, by_matching, "{name}: request {number} of {requests:?} by {rules:?}");
            }
            seen[[200, 403, 429].iter().position(|status| *status == model).unwrap()] += 1;
        }
    }
    assert!(seen.iter().all(|count| *count > 50), "{seen:?}");
}
