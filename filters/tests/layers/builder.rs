//! `RequestRateLimiterLayer::builder` and its defaults.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::ConnectInfo;
use http::{Request, StatusCode};
use tollgate_filters::concurrency_limiter::ConcurrencyLimiterLayer;
use tollgate_filters::context::RequestContext;
use tollgate_filters::key_resolver::KeyResolver;
use tollgate_filters::request_rate_limiter::{
    AccessList, BuildError, Builder, Cost, CostSource, Enforcement, Limit, MissingKey, PlanResolver, Plans,
    RequestRateLimiterLayer, RuleSets, Settings,
};
use tollgate_limiter::rule::{Align, FixedWindow, Rule, TokenBucket};
use tollgate_limiter::store::MAX_CHECKS;
use tollgate_limiter::store::memory::MemoryStore;
use tower::{Layer, ServiceExt};

use crate::support::{hello, values};

const HOUR: Duration = Duration::from_secs(3600);

fn two_an_hour() -> Rule {
    TokenBucket::new(2, HOUR, 2).unwrap().into()
}

fn limit(scope: &str, key_resolver: KeyResolver) -> Limit {
    Limit {
        name: scope.into(),
        scope: scope.into(),
        rule: two_an_hour(),
        key_resolver,
        cost: Cost::default(),
        enforcement: Enforcement::FULL,
        condition: None,
    }
}

fn keyed(key: KeyResolver) -> Builder<Vec<Rule>, KeyResolver> {
    RequestRateLimiterLayer::builder().rule(two_an_hour()).key(key)
}

fn builder() -> Builder<Vec<Rule>, KeyResolver> {
    keyed(KeyResolver::client_ip())
}

fn request(client: Option<&str>) -> Request<()> {
    let client_ip = client.map(|ip| ip.parse::<IpAddr>().unwrap());
    let mut request = Request::new(());
    request.extensions_mut().insert(RequestContext { client_ip, ..RequestContext::default() });
    request
}

async fn statuses(layer: &RequestRateLimiterLayer, client: Option<&str>, times: usize) -> Vec<u16> {
    let mut statuses = Vec::new();
    for _ in 0..times {
        let service = layer.layer(hello(&Arc::default()));
        statuses.push(service.oneshot(request(client)).await.unwrap().status().as_u16());
    }
    statuses
}

#[tokio::test]
async fn each_client_address_has_a_bucket() {
    let layer = builder().build().unwrap();
    for client in ["192.0.2.1", "192.0.2.2"] {
        assert_eq!(statuses(&layer, Some(client), 3).await, [200, 200, 429], "{client}");
    }
}

#[tokio::test]
async fn by_default_requests_without_a_key_share_one_bucket() {
    let layer = builder().build().unwrap();
    assert_eq!(statuses(&layer, None, 3).await, [200, 200, 429]);
    assert_eq!(statuses(&layer, Some("192.0.2.1"), 1).await, [200]);
}

#[tokio::test]
async fn a_missing_key_is_allowed_or_denied_on_request() {
    let allow = builder().missing_key(MissingKey::Allow).build().unwrap();
    assert_eq!(statuses(&allow, None, 3).await, [200, 200, 200]);
    let deny = builder().missing_key(MissingKey::Deny).build().unwrap();
    assert_eq!(statuses(&deny, None, 1).await, [403]);
}

#[tokio::test]
async fn differing_keys_of_one_request_are_refused_under_every_rule_for_missing_keys() {
    for missing_key in [MissingKey::Share, MissingKey::Allow, MissingKey::Deny] {
        let key = KeyResolver::parse("header:x-user").unwrap();
        let layer = keyed(key).missing_key(missing_key).build().unwrap();
        let request = Request::builder().header("x-user", "ada").header("x-user", "eve").body(()).unwrap();
        let response = layer.layer(hello(&Arc::default())).oneshot(request).await.unwrap();
        assert_eq!(response.status(), 403, "{missing_key:?}");
    }
}

#[tokio::test]
async fn limiters_of_one_store_share_buckets_by_name() {
    let store = Arc::new(MemoryStore::new(NonZeroUsize::new(100).unwrap()));
    let layer = |name: &str| builder().store(name, store.clone()).build().unwrap();
    assert_eq!(statuses(&layer("a"), Some("192.0.2.1"), 2).await, [200, 200]);
    assert_eq!(statuses(&layer("a"), Some("192.0.2.1"), 1).await, [429]);
    assert_eq!(statuses(&layer("b"), Some("192.0.2.1"), 1).await, [200]);
}

#[tokio::test]
async fn cost_and_status_are_settings() {
    let layer = builder().cost(2).status(StatusCode::SERVICE_UNAVAILABLE).build().unwrap();
    assert_eq!(statuses(&layer, None, 2).await, [200, 503]);
    let response = layer.layer(hello(&Arc::default())).oneshot(request(Some("192.0.2.1"))).await.unwrap();
    assert_eq!(values(&response, "x-ratelimit-requested-tokens"), ["2"]);
}

#[tokio::test]
async fn several_rules_are_decided_all_or_none() {
    let five_a_day = FixedWindow::new(5, 24 * HOUR, Align::First).unwrap().into();
    let rules = RequestRateLimiterLayer::builder().rules([five_a_day, two_an_hour()]);
    let layer = rules.key(KeyResolver::client_ip()).build().unwrap();
    assert_eq!(statuses(&layer, Some("192.0.2.1"), 3).await, [200, 200, 429]);
    let response = layer.layer(hello(&Arc::default())).oneshot(request(Some("192.0.2.1"))).await.unwrap();
    assert_eq!(values(&response, "x-ratelimit-remaining"), ["0"], "{:?}", response.headers());
}

/// The address of a list is that of the key: of axum's connection, or of the client behind a proxy.
#[tokio::test]
async fn networks_of_lists_contain_the_clients_of_every_kind_of_key() {
    let blocked = || AccessList::new([], vec!["192.0.2.0/24".parse().unwrap()]);
    let proxies = || ["10.0.0.0/8".parse().unwrap()];
    let by_header = || KeyResolver::parse("header:x-user").unwrap();
    let behind = || KeyResolver::client_ip_behind(proxies());
    for (key_resolver, peer, forwarded, expected) in [
        (KeyResolver::client_ip(), "192.0.2.1", None, 403),
        (KeyResolver::client_ip(), "198.51.100.1", Some("192.0.2.1"), 200),
        (by_header(), "192.0.2.1", None, 403),
        (by_header(), "198.51.100.1", None, 200),
        (behind(), "10.0.0.1", Some("192.0.2.1"), 403),
        (behind(), "10.0.0.1", Some("198.51.100.1"), 200),
        (KeyResolver::composite(vec![by_header(), behind()]), "10.0.0.1", Some("192.0.2.1"), 403),
    ] {
        let settings = Settings { key_resolver, block: blocked(), ..Settings::default() };
        let builder = RequestRateLimiterLayer::builder().rule(two_an_hour()).settings(settings);
        let layer = builder.missing_key(MissingKey::Share).build().unwrap();
        let mut request = Request::builder().header("x-user", "ada").body(()).unwrap();
        request.extensions_mut().insert(ConnectInfo(SocketAddr::new(peer.parse().unwrap(), 1)));
        if let Some(client) = forwarded {
            request.headers_mut().insert("x-forwarded-for", client.parse().unwrap());
        }
        let response = layer.layer(hello(&Arc::default())).oneshot(request).await.unwrap();
        assert_eq!(response.status(), expected, "{peer}, for {forwarded:?}");
    }
}

#[test]
fn a_limiter_that_cannot_apply_every_rule_is_an_error() {
    for (count, expected) in [(0, Some(BuildError::NoRules)), (1, None), (MAX_CHECKS, None)]
        .into_iter()
        .chain([MAX_CHECKS + 1, 20].map(|count| (count, Some(BuildError::TooManyRules(count)))))
    {
        let rules = std::iter::repeat_n(two_an_hour(), count);
        let built = RequestRateLimiterLayer::builder().rules(rules).key(KeyResolver::client_ip()).build();
        assert_eq!(built.err(), expected, "{count} rules");
    }
}

#[test]
fn costs_under_which_a_rule_limits_nothing_are_errors() {
    let cost = |source, tokens, max| Cost { source, tokens, max };
    let invalid = [
        Cost::from(0),
        cost(CostSource::Fixed, 2, 1),
        cost(CostSource::RequestBody { unit: 0 }, 1, 9),
        cost(CostSource::ResponseBody { unit: 0 }, 1, 9),
        cost(CostSource::RequestHeader("x-cost".parse().unwrap()), 0, 9),
    ];
    for cost in invalid {
        let error = Some(BuildError::InvalidCost("default".into()));
        assert_eq!(builder().cost(cost.clone()).build().err(), error, "{cost:?}");
        let sets = RuleSets::single(Limit { cost: cost.clone(), ..limit("r", KeyResolver::client_ip()) });
        let built = RequestRateLimiterLayer::builder().rule_sets(sets).key(KeyResolver::client_ip()).build();
        assert_eq!(built.err(), Some(BuildError::InvalidCost("r".into())), "{cost:?}");
    }
}

#[test]
fn rule_sets_without_a_rule_and_keys_without_a_part_are_errors() {
    let none = RequestRateLimiterLayer::builder().rule_sets(RuleSets::default()).key(KeyResolver::client_ip());
    assert_eq!(none.build().err(), Some(BuildError::NoRules));
    let empty = || KeyResolver::composite(Vec::new());
    let nested = KeyResolver::composite(vec![KeyResolver::client_ip(), empty()]);
    for key in [empty(), nested, empty().or_shared()] {
        for missing_key in [MissingKey::Share, MissingKey::Allow, MissingKey::Deny] {
            let built = keyed(key.clone()).missing_key(missing_key).build();
            assert_eq!(built.err(), Some(BuildError::NoKeyParts), "{key:?}, {missing_key:?}");
        }
        let slots = ConcurrencyLimiterLayer::builder().limit(1).key(key.clone()).missing_key(MissingKey::Allow);
        assert_eq!(slots.build().err(), Some(BuildError::NoKeyParts), "{key:?}");
    }
}

#[test]
fn rules_of_a_set_that_share_their_buckets_are_an_error() {
    let set = |scopes: &[&str]| scopes.iter().map(|scope| limit(scope, KeyResolver::client_ip())).collect::<Vec<_>>();
    let build = |default, plan| {
        let resolver = PlanResolver::Table(HashMap::new());
        let plans = Some(Plans { resolver, sets: vec![("gold".into(), plan)], default: None });
        let builder = RequestRateLimiterLayer::builder().rule_sets(RuleSets { default, plans });
        builder.key(KeyResolver::client_ip()).build().err()
    };
    let error = Some(BuildError::SharedScope("a".into()));
    assert_eq!(build(set(&["a", "b", "a"]), Vec::new()), error);
    assert_eq!(build(Vec::new(), set(&["a", "a"])), error);
    assert_eq!(build(set(&["a", "b"]), set(&["a"])), None, "a plan may count as the default set does");
}

#[test]
#[cfg(feature = "jwt")]
fn claims_that_nothing_verifies_are_an_error_of_every_builder() {
    let alone = KeyResolver::parse("jwt:sub").unwrap();
    let parts = KeyResolver::composite(vec![KeyResolver::client_ip(), alone.clone()]);
    for key in [alone, parts] {
        let error = Some(BuildError::NeedsVerifier(key.to_string()));
        assert_eq!(keyed(key.clone()).build().err(), error);
        for missing_key in [MissingKey::Share, MissingKey::Allow, MissingKey::Deny] {
            let slots = ConcurrencyLimiterLayer::builder().limit(1).key(key.clone()).missing_key(missing_key);
            assert_eq!(slots.build().err(), error, "{missing_key:?}");
        }
        let plans =
            |resolver, key| Some(Plans { resolver, sets: vec![("gold".into(), vec![limit("r", key)])], default: None });
        let by_address = KeyResolver::client_ip;
        let none_known = || PlanResolver::Table(HashMap::new());
        for (place, sets, of_limiter) in [
            ("limiter", RuleSets::single(limit("r", by_address())), key.clone()),
            ("rule", RuleSets::single(limit("r", key.clone())), by_address()),
            ("rule of a plan", RuleSets { default: Vec::new(), plans: plans(none_known(), key.clone()) }, by_address()),
            (
                "plan",
                RuleSets { default: Vec::new(), plans: plans(PlanResolver::Request(key.clone()), by_address()) },
                by_address(),
            ),
        ] {
            let built = RequestRateLimiterLayer::builder().rule_sets(sets).key(of_limiter).build();
            assert_eq!(built.err(), error, "{place}");
        }
    }
}
