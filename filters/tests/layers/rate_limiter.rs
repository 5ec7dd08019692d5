//! `RequestRateLimiter` with one rule: every outcome.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::{HeaderName, Method, Request, Response, StatusCode};
use http_body_util::Full;
use tollgate_filters::headers::HeaderNames;
use tollgate_filters::key_resolver::KeyResolver;
use tollgate_filters::request_rate_limiter::{Builder, ErrorBody, RequestRateLimiterLayer, Settings, VerdictKind};
use tollgate_limiter::rule::{Rule, TokenBucket};
use tollgate_limiter::store::Store;
use tollgate_limiter::verdict::{Outcome, Source, Verdict};
use tower::{Layer, Service, ServiceExt};

use crate::support::{Fixed, NoRefill, hello, reason, text, upstream, values};

fn by_user() -> Settings {
    Settings { key_resolver: KeyResolver::parse("header:X-User").unwrap(), ..Settings::default() }
}

fn bucket(rate: u64, burst: u64) -> Rule {
    Rule::TokenBucket(TokenBucket::per_second(rate, burst).unwrap())
}

fn limiter(burst: u64, cost: u64, settings: Settings, store: impl Store + 'static) -> RequestRateLimiterLayer {
    builder(burst, cost, settings, store).build().unwrap()
}

fn builder(burst: u64, cost: u64, settings: Settings, store: impl Store + 'static) -> Builder<Vec<Rule>, KeyResolver> {
    let builder = RequestRateLimiterLayer::builder().rule(bucket(10, burst)).settings(settings);
    builder.cost(cost).store("orders", store)
}

fn from_ada() -> Request<()> {
    Request::builder().header("x-user", "ada").body(()).unwrap()
}

fn verdict(outcome: Outcome, source: Source) -> Verdict {
    Verdict { source, ..Verdict::uncounted(outcome) }
}

#[tokio::test]
async fn an_allowed_response_reports_the_bucket() {
    for deferred in [false, true] {
        let calls = Arc::default();
        let layer = limiter(20, 1, by_user(), NoRefill { deferred, ..NoRefill::default() });
        let response = layer.layer(hello(&calls)).oneshot(from_ada()).await.unwrap();
        assert_eq!(response.status(), StatusCode::OK);
        assert_eq!(values(&response, "x-ratelimit-remaining"), ["19"]);
        assert_eq!(values(&response, "x-ratelimit-replenish-rate"), ["10"]);
        assert_eq!(values(&response, "x-ratelimit-burst-capacity"), ["20"]);
        assert_eq!(values(&response, "x-ratelimit-requested-tokens"), ["1"]);
        assert!(!response.headers().contains_key("x-ratelimit-degraded"));
        assert_eq!(reason(&response), None);
        assert_eq!(text(response).await, "hello");
        assert_eq!(calls.load(Ordering::SeqCst), 1);
    }
}

#[tokio::test]
async fn a_denied_request_never_reaches_the_inner_service() {
    for deferred in [false, true] {
        let calls: Arc<AtomicUsize> = Arc::default();
        let layer = limiter(1, 1, by_user(), NoRefill { deferred, ..NoRefill::default() });
        let mut service = layer.layer(hello(&calls));
        service.ready().await.unwrap().call(from_ada()).await.unwrap();
        let response = service.ready().await.unwrap().call(from_ada()).await.unwrap();
        assert_eq!(response.status(), StatusCode::TOO_MANY_REQUESTS);
        assert_eq!(values(&response, "retry-after"), ["2"]);
        assert_eq!(values(&response, "cache-control"), ["no-store"]);
        assert_eq!(values(&response, "x-ratelimit-remaining"), ["0"]);
        assert_eq!(values(&response, "x-ratelimit-burst-capacity"), ["1"]);
        assert_eq!(values(&response, "content-type"), ["text/plain; charset=utf-8"]);
        assert!(!response.headers().contains_key("content-length"), "the server sets it");
        assert_eq!(reason(&response), Some("rate-limited"));
        assert_eq!(text(response).await, "Too Many Requests\n");
        assert_eq!(calls.load(Ordering::SeqCst), 1);
    }
}

#[tokio::test]
async fn two_clones_share_one_budget() {
    let calls: Arc<AtomicUsize> = Arc::default();
    let layer = limiter(2, 1, by_user(), NoRefill::default());
    let service = layer.layer(hello(&calls));
    let mut statuses = Vec::new();
    for clone in [service.clone(), service.clone(), layer.clone().layer(hello(&calls))] {
        statuses.push(clone.oneshot(from_ada()).await.unwrap().status().as_u16());
    }
    assert_eq!(statuses, [200, 200, 429]);
    assert_eq!(calls.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn each_key_has_its_own_bucket() {
    let service = limiter(1, 1, by_user(), NoRefill::default()).layer(hello(&Arc::default()));
    for user in ["ada", "grace"] {
        let request = Request::builder().header("x-user", user).body(()).unwrap();
        assert_eq!(service.clone().oneshot(request).await.unwrap().status(), StatusCode::OK);
    }
    assert_eq!(service.oneshot(from_ada()).await.unwrap().status(), StatusCode::TOO_MANY_REQUESTS);
}

#[tokio::test]
async fn a_client_that_asks_for_json_gets_a_problem() {
    let rule = bucket(1, 0);
    let builder = RequestRateLimiterLayer::builder().rule(rule).settings(by_user());
    let layer = builder.store("a\"b", NoRefill::default()).build().unwrap();
    let mut request = from_ada();
    request.headers_mut().insert("accept", "application/json".parse().unwrap());
    let response = layer.layer(hello(&Arc::default())).oneshot(request).await.unwrap();
    assert_eq!(values(&response, "content-type"), ["application/problem+json"]);
    assert_eq!(
        text(response).await,
        concat!(
            r#"{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","#,
            r#""title":"Request cannot be satisfied as assigned quota has been exceeded","#,
            r#""status":429,"violated-policies":["a\"b"]}"#
        )
    );
}

#[tokio::test]
async fn head_gets_the_length_of_the_body_and_no_body() {
    let mut request = from_ada();
    *request.method_mut() = Method::HEAD;
    let response = limiter(0, 1, by_user(), NoRefill::default()).layer(hello(&Arc::default())).oneshot(request);
    let response = response.await.unwrap();
    assert_eq!(response.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(values(&response, "content-length"), ["18"]);
    assert_eq!(text(response).await, "");
}

#[tokio::test]
async fn the_empty_body_is_empty_for_clients_that_accept_json() {
    let settings = Settings { error_body: ErrorBody::Empty, ..by_user() };
    let mut request = from_ada();
    request.headers_mut().insert("accept", "application/json".parse().unwrap());
    let response = limiter(0, 1, settings, NoRefill::default()).layer(hello(&Arc::default())).oneshot(request);
    let response = response.await.unwrap();
    assert!(!response.headers().contains_key("content-type"));
    assert_eq!(text(response).await, "");
}

#[tokio::test]
async fn a_cost_above_the_burst_is_denied_without_retry_after() {
    let response = limiter(3, 5, by_user(), NoRefill::default()).layer(hello(&Arc::default())).oneshot(from_ada());
    let response = response.await.unwrap();
    assert_eq!(response.status(), StatusCode::TOO_MANY_REQUESTS);
    assert!(!response.headers().contains_key("retry-after"));
    assert_eq!(values(&response, "x-ratelimit-remaining"), ["3"]);
    assert_eq!(values(&response, "x-ratelimit-requested-tokens"), ["5"]);
}

#[tokio::test]
async fn an_unavailable_store_gives_503_with_retry_after() {
    let store = Fixed(verdict(Outcome::StoreUnavailable { retry_after: Duration::ZERO }, Source::Fallback));
    let calls: Arc<AtomicUsize> = Arc::default();
    let response = limiter(1, 1, by_user(), store).layer(hello(&calls)).oneshot(from_ada()).await.unwrap();
    assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(values(&response, "retry-after"), ["1"]);
    assert_eq!(values(&response, "x-ratelimit-remaining"), ["-1"]);
    assert_eq!(values(&response, "x-ratelimit-degraded"), ["fallback"]);
    assert_eq!(reason(&response), Some("limiter-unavailable"));
    assert_eq!(calls.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn a_request_allowed_by_the_fallback_reports_minus_one() {
    let store = Fixed(verdict(Outcome::Allowed, Source::Fallback));
    let response = limiter(1, 1, by_user(), store).layer(hello(&Arc::default())).oneshot(from_ada()).await.unwrap();
    assert_eq!(response.status(), StatusCode::OK);
    assert_eq!(values(&response, "x-ratelimit-remaining"), ["-1"]);
    assert_eq!(values(&response, "x-ratelimit-degraded"), ["fallback"]);
}

#[tokio::test]
async fn without_a_key_id_a_request_is_forbidden_and_not_counted() {
    let calls: Arc<AtomicUsize> = Arc::default();
    let service = limiter(1, 1, by_user(), NoRefill::default()).layer(hello(&calls));
    for request in [Request::new(()), Request::builder().header("x-user", "").body(()).unwrap()] {
        let response = service.clone().oneshot(request).await.unwrap();
        assert_eq!(response.status(), StatusCode::FORBIDDEN);
        assert_eq!(reason(&response), Some("empty-key"));
        assert!(!response.headers().keys().any(|name| name.as_str().starts_with("x-ratelimit")));
        assert!(!response.headers().contains_key("retry-after"));
        assert_eq!(text(response).await, "Forbidden\n");
    }
    assert_eq!(calls.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn an_allowed_empty_key_is_unlimited_and_reports_nothing() {
    let settings = Settings { deny_empty_key: false, ..by_user() };
    let service = limiter(0, 1, settings, NoRefill::default()).layer(hello(&Arc::default()));
    for _ in 0..3 {
        let response = service.clone().oneshot(Request::new(())).await.unwrap();
        assert_eq!(response.status(), StatusCode::OK);
        assert!(response.headers().is_empty());
    }
}

#[tokio::test]
async fn springs_empty_key_sentinel_is_a_key_like_any_other() {
    let settings = Settings { deny_empty_key: false, ..by_user() };
    let service = limiter(0, 1, settings, NoRefill::default()).layer(hello(&Arc::default()));
    let request = Request::builder().header("x-user", "____EMPTY_KEY__").body(()).unwrap();
    assert_eq!(service.oneshot(request).await.unwrap().status(), StatusCode::TOO_MANY_REQUESTS);
}

#[tokio::test]
async fn statuses_and_header_names_are_settings() {
    let headers = HeaderNames { remaining: HeaderName::from_static("x-left"), ..HeaderNames::default() };
    let status = StatusCode::from_u16(509).unwrap();
    let settings = Settings { status, empty_key_status: StatusCode::UNAUTHORIZED, headers, ..by_user() };
    let service = limiter(0, 1, settings, NoRefill::default()).layer(hello(&Arc::default()));
    let response = service.clone().oneshot(from_ada()).await.unwrap();
    assert_eq!(response.status(), status);
    assert_eq!(values(&response, "x-left"), ["0"]);
    assert!(!response.headers().contains_key("x-ratelimit-remaining"));
    let response = service.oneshot(Request::new(())).await.unwrap();
    assert_eq!(response.status(), StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn without_rate_limit_headers_retry_after_is_still_sent() {
    let headers = HeaderNames { include: false, ..HeaderNames::default() };
    let outcome = Outcome::Denied { retry_after: Duration::from_secs(3) };
    let store = Fixed(verdict(outcome, Source::Fallback));
    let layer = limiter(1, 1, Settings { headers, ..by_user() }, store);
    let response = layer.layer(hello(&Arc::default())).oneshot(from_ada()).await.unwrap();
    assert_eq!(values(&response, "retry-after"), ["3"]);
    assert!(!response.headers().keys().any(|name| name.as_str().starts_with("x-ratelimit")));
}

#[tokio::test]
async fn an_upstream_header_of_the_same_name_follows_ours() {
    let inner = upstream(&Arc::default(), |_: &Request<()>| {
        let mut response = Response::new(Full::from("no"));
        *response.status_mut() = StatusCode::BAD_GATEWAY;
        response.headers_mut().insert("x-ratelimit-remaining", "5".parse().unwrap());
        response
    });
    let response = limiter(2, 1, by_user(), NoRefill::default()).layer(inner).oneshot(from_ada()).await.unwrap();
    assert_eq!(response.status(), StatusCode::BAD_GATEWAY);
    assert_eq!(values(&response, "x-ratelimit-remaining"), ["1", "5"]);
}

#[tokio::test]
async fn the_hook_sees_every_verdict() {
    for deferred in [false, true] {
        let seen: Arc<Mutex<Vec<bool>>> = Arc::default();
        let store = NoRefill { deferred, ..NoRefill::default() };
        let layer = builder(1, 1, by_user(), store).on_verdict({
            let seen = Arc::clone(&seen);
            move |event| {
                assert_eq!((event.rule, event.key), (Some("orders"), Some(&b"ada"[..])));
                seen.lock().unwrap().push(event.kind == VerdictKind::Allowed);
            }
        });
        let layer = layer.build().unwrap();
        let service = layer.layer(hello(&Arc::default()));
        for request in [from_ada(), Request::new(()), from_ada()] {
            service.clone().oneshot(request).await.unwrap();
        }
        assert_eq!(*seen.lock().unwrap(), [true, false]);
    }
}
