//! `RequestRateLimiterLayer::builder` and its defaults.

use std::net::IpAddr;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use http::{Request, StatusCode};
use tollgate_filters::context::RequestContext;
use tollgate_filters::key_resolver::KeyResolver;
use tollgate_filters::request_rate_limiter::{Builder, MissingKey, RequestRateLimiterLayer};
use tollgate_limiter::rule::{Rule, TokenBucket};
use tollgate_limiter::store::memory::MemoryStore;
use tower::{Layer, ServiceExt};

use crate::support::{hello, values};

fn builder() -> Builder<Rule> {
    let two_an_hour = Rule::TokenBucket(TokenBucket::new(2, Duration::from_secs(3600), 2).unwrap());
    RequestRateLimiterLayer::builder().rule(two_an_hour)
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
async fn by_default_each_client_address_has_a_bucket() {
    let layer = builder().build();
    for client in ["192.0.2.1", "192.0.2.2"] {
        assert_eq!(statuses(&layer, Some(client), 3).await, [200, 200, 429], "{client}");
    }
}

#[tokio::test]
async fn by_default_requests_without_an_address_share_one_bucket() {
    let layer = builder().build();
    assert_eq!(statuses(&layer, None, 3).await, [200, 200, 429]);
    assert_eq!(statuses(&layer, Some("192.0.2.1"), 1).await, [200]);
}

#[tokio::test]
async fn a_missing_key_is_allowed_or_denied_on_request() {
    let allow = builder().missing_key(MissingKey::Allow).build();
    assert_eq!(statuses(&allow, None, 3).await, [200, 200, 200]);
    let deny = builder().missing_key(MissingKey::Deny).build();
    assert_eq!(statuses(&deny, None, 1).await, [403]);
}

#[tokio::test]
async fn differing_keys_of_one_request_are_refused_under_every_rule_for_missing_keys() {
    for missing_key in [MissingKey::Share, MissingKey::Allow, MissingKey::Deny] {
        let key = KeyResolver::parse("header:x-user").unwrap();
        let layer = builder().key(key).missing_key(missing_key).build();
        let request = Request::builder().header("x-user", "ada").header("x-user", "eve").body(()).unwrap();
        let response = layer.layer(hello(&Arc::default())).oneshot(request).await.unwrap();
        assert_eq!(response.status(), 403, "{missing_key:?}");
    }
}

#[tokio::test]
async fn limiters_of_one_store_share_buckets_by_name() {
    let store = Arc::new(MemoryStore::new(NonZeroUsize::new(100).unwrap()));
    let layer = |name: &str| builder().name(name).key(KeyResolver::ip()).store(store.clone()).build();
    assert_eq!(statuses(&layer("a"), Some("192.0.2.1"), 2).await, [200, 200]);
    assert_eq!(statuses(&layer("a"), Some("192.0.2.1"), 1).await, [429]);
    assert_eq!(statuses(&layer("b"), Some("192.0.2.1"), 1).await, [200]);
}

#[tokio::test]
async fn cost_and_status_are_settings() {
    let layer = builder().cost(2).status(StatusCode::SERVICE_UNAVAILABLE).build();
    assert_eq!(statuses(&layer, None, 2).await, [200, 503]);
    let response = layer.layer(hello(&Arc::default())).oneshot(request(Some("192.0.2.1"))).await.unwrap();
    assert_eq!(values(&response, "x-ratelimit-requested-tokens"), ["2"]);
}
